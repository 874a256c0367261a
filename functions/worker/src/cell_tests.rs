use serde_json::json;

use super::*;

const ON: &str = "dsql://cluster.example";

fn read(event: Value) -> Result<Asked, String> {
    Asked::read(event, Some(ON.to_owned()))
}

fn refused(event: Value) -> String {
    match read(event.clone()) {
        Ok(_) => panic!("{event} should be refused"),
        Err(line) => {
            assert!(!line.contains('\n'), "{line}");
            line
        }
    }
}

#[test]
fn a_cell_is_planned_with_its_defaults() {
    let asked = read(json!({"cell": {"workload": "append", "writers": 3}})).unwrap();
    assert_eq!(asked.seed, 1);
    assert_eq!(asked.cell.reps, 1);
    assert_eq!(asked.cell.id, "cell");
    assert_eq!(asked.target.url(), ON);
    let other = json!({"cell": {"workload": "append"}, "on": "dsql://b.example", "seed": 7});
    let asked = read(other).unwrap();
    assert_eq!(asked.target.url(), "dsql://b.example");
    assert_eq!(asked.seed, 7);
}

#[test]
fn what_one_worker_cannot_run_is_refused_at_its_place() {
    for (event, place, wanted) in [
        (json!({"cell": 1}), "cell", "object"),
        (json!({"cell": {}}), "cell.workload", "append"),
        (
            json!({"cell": {"workload": "append", "writes": 3}}),
            "cell",
            "writers",
        ),
        (
            json!({"cell": {"workload": "append", "writers": [1, 2]}}),
            "cell",
            "2 cells",
        ),
        (
            json!({"cell": {"workload": "append", "reps": 3}}),
            "cell.reps",
            "1",
        ),
        (
            json!({"cell": {"workload": "append", "writers": 901, "records": 1000}}),
            "cell",
            "900",
        ),
        (
            json!({"cell": {"workload": "append", "batch": 0}}),
            "cell.batch",
            "1",
        ),
        (
            json!({"cell": {"workload": "append"}, "on": 1}),
            "on",
            "URL",
        ),
        (
            json!({"cell": {"workload": "append"}, "on": "mysql://x"}),
            "on",
            "dsql://",
        ),
        (
            json!({"cell": {"workload": "append"}, "on": "sim:us-pair"}),
            "on",
            "sim serve",
        ),
        (
            json!({"cell": {"workload": "append"}, "seed": "one"}),
            "seed",
            "number",
        ),
        (
            json!({"cell": {"workload": "append"}, "sed": 1}),
            "sed",
            "seed",
        ),
    ] {
        let line = refused(event.clone());
        assert!(line.starts_with(place), "{event}: {line}");
        assert!(line.contains(wanted), "{event}: {line}");
    }
}

#[test]
fn a_target_must_be_given_somehow() {
    let event = json!({"cell": {"workload": "append"}});
    let Err(line) = Asked::read(event, None) else {
        panic!("there is no target")
    };
    assert!(line.contains("FABRIC_TARGET"), "{line}");
}

#[test]
fn no_password_is_repeated() {
    for on in [
        "postgres://u:MARKED@h:port/db",
        "postgres://u:MARKED@h /db",
        "postgres:u:MARKED@h",
        "MARKED",
    ] {
        let event = json!({"cell": {"workload": "append", "writers": 0}, "on": on});
        let line = refused(event);
        assert!(!line.contains("MARKED"), "{line}");
    }
    let event = json!({"cell": {"workload": "append"}, "on": "postgres://u:MARKED@h/db"});
    let asked = read(event).unwrap();
    assert!(!asked.target.name.contains("MARKED"));
    assert!(!format!("{:?}", asked.target).contains("MARKED"));
}

#[test]
fn invocations_have_row_ids_of_their_own() {
    let a = id_base("8476a536-e9f4-11e8-9739-2dfe598c3fcd");
    let b = id_base("8476a536-e9f4-11e8-9739-2dfe598c3fce");
    assert_ne!(a, b);
    for base in [a, b] {
        assert!(base >= 0);
        assert_eq!(base & 0x7fff_ffff, 0);
    }
}

#[test]
fn the_answer_is_the_cells_summary_and_how_it_ended() {
    let asked = read(json!({"cell": {"workload": "append"}})).unwrap();
    let target = TargetInfo {
        name: asked.target.name.clone(),
        url: ON.to_owned(),
        kind: "dsql".to_owned(),
        simulated: false,
    };
    let rep = RepReport {
        planned: Some(128),
        error: Some(RepError::Run("prepare: no".to_owned())),
        ..one_worker()
    };
    let answer = summary("failed", &asked.cell, 1, target, rep);
    assert_eq!(answer["ended"], "failed");
    assert_eq!(answer["id"], "cell");
    assert_eq!(answer["workload"], "append");
    assert_eq!(answer["reps"][0]["error"], "prepare: no");
    assert_eq!(answer["verdict"]["ok"], false);
}

/// The task in `events/worker-shard.json`, and `worker-sqs.json` around it, as
/// the conductor sends it.
fn shipped_task() -> fleet::Message {
    use fleet::{Job, Message, Stage, TaskId, WaveId};
    let sweep = json!({
        "name": "first-fleet",
        "targets": [{"name": "pair", "endpoints": [
            "abc123.dsql.us-east-1.on.aws", "def456.dsql.us-east-2.on.aws",
        ]}],
        "fleet": {"workers": 2},
        "blocks": [{"name": "append", "workload": "append", "writers": 16, "reps": 1}],
    });
    let sweep = plan::parse(&sweep.to_string()).unwrap();
    let plan = sweep.plan(&Overrides::default()).unwrap();
    let endpoints = fleet::run::endpoints_of(&plan).remove("pair").unwrap();
    let cell = &plan.cells[0];
    let shards = plan::shards(cell, &endpoints, &plan.fleet).unwrap();
    let legs = plan::legs(cell, 600_000);
    Message::task(Task {
        run: "first-fleet-1".parse().unwrap(),
        task: TaskId {
            wave: WaveId {
                cell: 0,
                rep: 1,
                attempt: 1,
            },
            stage: Stage::Load,
            leg: 0,
            index: 0,
        },
        of: 2,
        round: 1,
        job: Job {
            cell: cell.clone(),
            target: plan.targets[0].clone(),
            id_base: 0x1234_5678 << 31,
            seed: rep_seed(1, &cell.id, 0, Purpose::Inputs),
            endpoints,
            endpoint: 0,
            fleet: plan.fleet.clone(),
            paced: true,
            shard: Some(shards[0].clone()),
            leg: Some(legs[0]),
        },
    })
}

#[test]
fn the_shipped_tasks_are_what_the_conductor_sends() {
    let wanted = serde_json::to_value(shipped_task()).unwrap();
    let read = |name: &str| -> Value {
        let path = format!("{}/../../events/{name}", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let shard = read("worker-shard.json");
    let body = read("worker-sqs.json")["Records"][0]["body"].clone();
    let body: Value = serde_json::from_str(body.as_str().unwrap()).unwrap();
    for found in [shard, body] {
        assert_eq!(
            found, wanted,
            "write this into events/worker-*.json: {wanted}"
        );
    }
}
