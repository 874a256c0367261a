use super::*;

fn sweep() -> Value {
    json!({
        "name": "try",
        "targets": [{"name": "pair", "endpoints": [
            "a.dsql.us-east-1.on.aws", "b.dsql.us-east-2.on.aws",
        ]}],
        "fleet": {"workers": 4},
        "blocks": [{"name": "A", "workload": "append", "writers": [1, 8], "reps": 2}],
    })
}

fn read(event: Value) -> Event {
    Event::read(event).unwrap()
}

fn refused_line(event: Value) -> String {
    let line = match Event::read(event.clone()) {
        Err(line) => line,
        Ok(event) => match &event.sweep {
            SweepFrom::Here(sweep) => planned(&sweep.to_string(), &event).unwrap_err().to_string(),
            SweepFrom::Bucket(_) => panic!("{event:?} should be refused"),
        },
    };
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn a_sweep_comes_in_three_ways() {
    let here = SweepFrom::Here(sweep());
    assert_eq!(read(sweep()).sweep, here);
    assert_eq!(read(json!({ "sweep": sweep() })).sweep, here);
    let key = "sweeps/nightly.json";
    let event = read(json!({"sweep_key": key, "run_id": "nightly-2026-11-30T03:00:00Z"}));
    assert_eq!(event.sweep, SweepFrom::Bucket(key.to_owned()));
    let run = RunId::nearest(&event.run_id.unwrap());
    assert_eq!(run.as_str(), "nightly-2026-11-30t03-00-00z");
}

#[test]
fn what_stands_beside_it_is_put_in_its_place() {
    let mut inline = sweep();
    inline["seed"] = json!(3);
    inline["reps"] = json!(1);
    inline["on"] = json!("pair=dsql://c.example");
    let wrapped = json!({
        "sweep": sweep(), "seed": 3, "reps": 1, "on": ["pair=dsql://c.example"], "workers": 2,
    });
    for event in [inline, wrapped] {
        let event = read(event);
        let SweepFrom::Here(sweep) = &event.sweep else {
            panic!("it is here")
        };
        let plan = planned(&sweep.to_string(), &event).unwrap();
        assert_eq!(plan.seed, 3);
        assert!(plan.cells.iter().all(|cell| cell.reps == 1));
        assert_eq!(plan.targets[0].url(), "dsql://c.example");
    }
}

#[test]
fn the_answer_says_what_was_started() {
    let event = read(sweep());
    let plan = planned(&sweep().to_string(), &event).unwrap();
    let run = "try-1".parse().unwrap();
    let said = answer(&run, &plan, &Started::New);
    assert_eq!(said["run_id"], "try-1");
    assert_eq!(said["started"], "new");
    assert_eq!(said["waves"], 4);
    assert_eq!(said["workers"], 4);
    assert!(said["connections"].as_u64().unwrap() >= 8, "{said}");
    assert!(said["minutes"]["high"].as_f64().unwrap() > 0.0, "{said}");
    assert_eq!(answer(&run, &plan, &Started::Already)["started"], "already");
}

#[test]
fn what_no_fleet_can_run_is_refused_at_its_place() {
    let with = |key: &str, value: Value| {
        let mut event = sweep();
        event[key] = value;
        event
    };
    for (event, place) in [
        (json!(null), "sweep_key"),
        (json!({"watch": true}), "sweep_key"),
        (json!({"sweep": 1}), "sweep"),
        (json!({"sweep_key": ""}), "sweep_key"),
        (json!({"sweep_key": "a", "sweep": {}}), "sweep_key"),
        (json!({"sweep": sweep(), "sede": 1}), "sede"),
        (json!({"sweep": sweep(), "reps": 0}), "--reps"),
        (with("blocks", json!([])), "blocks"),
        (with("fleet", json!({"workers": 0})), "fleet.workers"),
        (
            with("on", json!("pair=sim:us-pair-workstation")),
            "sim serve",
        ),
        (
            with("on", json!("pair=postgres://u:MARKED@h/db")),
            "Secrets Manager",
        ),
        (with("on", json!("other=dsql://h")), "pair"),
        (
            with("fleet", json!({"workers": 1, "connections_per_worker": 2})),
            "fleet.workers",
        ),
    ] {
        let line = refused_line(event.clone());
        assert!(line.contains(place), "{event}: {line}");
        assert!(!line.contains("MARKED"), "{line}");
    }
    // A wrong type beside a URL does not repeat the URL.
    let odd = json!({"sweep": sweep(), "on": {"url": "postgres://u:MARKED@h/db"}});
    assert!(!refused_line(odd).contains("MARKED"));
}

#[test]
fn every_shipped_event_of_a_planner_is_one() {
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/../../events");
    let mut seen = 0;
    for entry in std::fs::read_dir(events).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("planner-") {
            continue;
        }
        seen += 1;
        let event: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let event = Event::read(event).unwrap_or_else(|why| panic!("{name}: {why}"));
        match &event.sweep {
            SweepFrom::Here(sweep) => {
                planned(&sweep.to_string(), &event).unwrap_or_else(|why| panic!("{name}: {why}"));
            }
            SweepFrom::Bucket(key) => assert!(key.starts_with("sweeps/"), "{name}"),
        }
    }
    assert!(seen >= 2, "{seen}");
}
