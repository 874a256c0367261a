//! From lists to cells: order, ids, inheritance, targets.

// A test's helpers fail the test by panicking, as its body does.
#![allow(clippy::unwrap_used)]

use fabric_plan::{
    AppendArgs, AppendParams, Overrides, Params, Placement, Plan, Sweep, append_cell, parse,
};

fn sweep(members: &str) -> Sweep {
    parse(&format!(r#"{{"name": "s", {members}}}"#)).unwrap()
}

fn plan(members: &str) -> Plan {
    sweep(members).plan(&Overrides::default()).unwrap()
}

fn on(sweep: &Sweep, urls: &[&str]) -> Result<Plan, String> {
    let overrides = Overrides {
        on: urls.iter().map(|&url| url.to_owned()).collect(),
        ..Overrides::default()
    };
    sweep.plan(&overrides).map_err(|error| error.to_string())
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.cells.iter().map(|cell| cell.id.as_str()).collect()
}

fn params(plan: &Plan, at: usize) -> &AppendParams {
    match &plan.cells[at].params {
        Params::Append(params) => params,
        other => panic!("{}", other.workload()),
    }
}

/// Which target each cell runs on, by URL.
fn urls(plan: &Plan) -> Vec<&str> {
    plan.cells
        .iter()
        .map(|cell| plan.target_of(cell).unwrap().url())
        .collect()
}

#[test]
fn a_block_without_lists_is_one_cell_of_defaults() {
    let plan = plan(r#""preset": "p", "blocks": [{"name": "A", "workload": "append"}]"#);
    assert_eq!(ids(&plan), ["A"]);
    assert_eq!(plan.cells[0].reps, 3);
    let json = serde_json::Value::Object(plan.cells[0].params_json());
    assert_eq!(
        json,
        serde_json::json!({
            "writers": 1, "streams": 1, "batch": 1, "records": 128, "payload_bytes": 100,
            "placement": "split", "trips": "stepwise", "isolation": "repeatable_read",
            "retry": {
                "max_attempts": 25, "base_ms": 25.0, "cap_ms": 1000.0,
                "deadline_ms": null, "on": []
            },
            "warmup_s": 0.0, "measure_s": null, "abort_after_starved": 3
        })
    );
}

fn json(plan: &Plan, at: usize) -> serde_json::Value {
    plan.cells[at].params_json().into()
}

#[test]
fn so_are_blocks_of_the_other_workloads() {
    let plan = plan(
        r#""preset": "p", "blocks": [{"name": "D1", "workload": "order_transfer"},
                                     {"name": "T", "workload": "tpcb"}]"#,
    );
    assert_eq!(ids(&plan), ["D1", "T"]);
    let retry = serde_json::json!({
        "max_attempts": 4, "base_ms": 10.0, "cap_ms": 1000.0, "deadline_ms": 2000.0, "on": []
    });
    assert_eq!(
        json(&plan, 0),
        serde_json::json!({
            "concurrency": 16, "transfers_pct": 30.0, "distribution": "uniform",
            "products": 4000, "accounts": 1000, "items": 1, "inventory_shards": 1,
            "stock": null, "balance": null, "duplicate_pct": 0.0, "operations": null,
            "placement": "split", "isolation": "repeatable_read", "retry": retry,
            "warmup_s": 5.0, "measure_s": 20.0, "abort_after_starved": 0
        })
    );
    assert_eq!(
        json(&plan, 1),
        serde_json::json!({
            "concurrency": 8, "scale": 1, "variant": "tpcb_like", "operations": null,
            "placement": "split", "isolation": "repeatable_read", "retry": retry,
            "warmup_s": 5.0, "measure_s": 20.0, "abort_after_starved": 0
        })
    );
    let shape = plan.cells[0].params.shape();
    assert_eq!((shape.writers, shape.operations), (16, None));
}

#[test]
fn a_number_of_operations_bounds_without_warm_up() {
    let plan = plan(
        r#""preset": "p", "defaults": {"measure_s": 60},
        "blocks": [
            {"name": "A", "workload": "tpcb", "operations": 800, "abort_after_starved": 3},
            {"name": "B", "workload": "tpcb", "operations": 800, "warmup_s": 1},
            {"name": "C", "workload": "tpcb"}
        ]"#,
    );
    let bounds = |at: usize| {
        let shape = plan.cells[at].params.shape();
        (shape.operations, shape.warmup_s, shape.measure_s)
    };
    assert_eq!(bounds(0), (Some(800), 0.0, None));
    assert_eq!(bounds(1), (Some(800), 1.0, None));
    assert_eq!(bounds(2), (None, 5.0, Some(60.0)));
    assert_eq!(plan.cells[0].params.shape().abort_after_starved, 3);
}

#[test]
fn every_key_of_the_other_workloads_reaches_its_parameter() {
    let plan = plan(
        r#""preset": "p", "blocks": [
            {"name": "D1", "workload": "order_transfer", "concurrency": [16, 64],
             "distribution": ["uniform", "hot"], "retry": {"max_retries": [0, 3], "on": ["XX000"]},
             "transfers_pct": 12.5, "products": 50, "accounts": 20, "items": 2,
             "inventory_shards": 4, "stock": 100, "balance": 0, "duplicate_pct": 10,
             "isolation": "read_committed", "placement": "first"},
            {"name": "T", "workload": "tpcb", "scale": 3, "variant": ["tpcb_like", "simple_update"]}]"#,
    );
    assert_eq!(plan.cells.len(), 10);
    assert_eq!(
        plan.cells[7].id,
        "D1/concurrency=64,distribution=hot,retry.max_retries=3"
    );
    assert_eq!(
        json(&plan, 7),
        serde_json::json!({
            "concurrency": 64, "transfers_pct": 12.5, "distribution": "hot",
            "products": 50, "accounts": 20, "items": 2, "inventory_shards": 4,
            "stock": 100, "balance": 0, "duplicate_pct": 10.0, "operations": null,
            "placement": "first", "isolation": "read_committed",
            "retry": {
                "max_attempts": 4, "base_ms": 10.0, "cap_ms": 1000.0, "deadline_ms": 2000.0,
                "on": ["XX000"]
            },
            "warmup_s": 5.0, "measure_s": 20.0, "abort_after_starved": 0
        })
    );
    assert_eq!(json(&plan, 9)["variant"], "simple_update");
    assert_eq!(json(&plan, 9)["scale"], 3);
}

#[test]
fn a_block_takes_the_defaults_that_its_workload_has() {
    let plan = plan(
        r#""preset": "p",
        "defaults": {"writers": 4, "concurrency": 32, "records": 50, "operations": 640,
                     "products": 100, "reps": 2, "retry": {"max_retries": 1, "base_ms": 5}},
        "blocks": [
            {"name": "A", "workload": "append"},
            {"name": "B", "workload": "order_transfer", "retry": {"cap_ms": 50}},
            {"name": "C", "workload": "tpcb", "measure_s": 3}
        ]"#,
    );
    assert_eq!(ids(&plan), ["A", "B", "C"]);
    let a = params(&plan, 0);
    assert_eq!((a.writers, a.records), (4, Some(50)));
    let b = json(&plan, 1);
    assert_eq!(
        (&b["concurrency"], &b["products"]),
        (&32.into(), &100.into())
    );
    assert_eq!(
        (&b["operations"], &b["measure_s"]),
        (&640.into(), &().into())
    );
    assert_eq!(b["retry"]["base_ms"], 5.0);
    assert_eq!(b["retry"]["cap_ms"], 50.0);
    assert_eq!(b["retry"]["deadline_ms"], 2000.0, "the workload's own");
    let c = json(&plan, 2);
    assert_eq!(
        (&c["operations"], &c["measure_s"]),
        (&().into(), &3.0.into())
    );
    assert!(
        plan.cells
            .iter()
            .all(|cell| { cell.reps == 2 && cell.params.shape().retry.max_attempts == 2 })
    );
}

#[test]
fn the_last_written_axis_is_the_fastest() {
    let plan = plan(
        r#""preset": "p", "blocks": [{"name": "A", "workload": "append",
            "retry": {"deadline_ms": [null, 2000], "max_retries": [0, 3]},
            "writers": [2, 1], "batch": [7]}]"#,
    );
    assert_eq!(
        ids(&plan),
        [
            "A/retry.deadline_ms=none,retry.max_retries=0,writers=2",
            "A/retry.deadline_ms=none,retry.max_retries=0,writers=1",
            "A/retry.deadline_ms=none,retry.max_retries=3,writers=2",
            "A/retry.deadline_ms=none,retry.max_retries=3,writers=1",
            "A/retry.deadline_ms=2000,retry.max_retries=0,writers=2",
            "A/retry.deadline_ms=2000,retry.max_retries=0,writers=1",
            "A/retry.deadline_ms=2000,retry.max_retries=3,writers=2",
            "A/retry.deadline_ms=2000,retry.max_retries=3,writers=1",
        ]
    );
    assert_eq!(params(&plan, 0).retry.max_attempts, 1);
    assert_eq!(params(&plan, 6).retry.max_attempts, 4);
    assert_eq!(params(&plan, 6).retry.deadline_ms, Some(2000.0));
    assert_eq!(params(&plan, 6).batch, 7);
}

#[test]
fn defaults_are_inherited_and_displaced() {
    let plan = plan(
        r#""preset": "p",
        "defaults": {"writers": [1, 2], "records": 50, "reps": 2, "raw": true,
                     "retry": {"max_attempts": 9, "base_ms": 5}},
        "blocks": [
            {"name": "A", "workload": "append", "batch": [1, 10]},
            {"name": "B", "workload": "append", "writers": 8, "measure_s": 1.5, "reps": 1,
             "retry": {"max_retries": 2, "on": ["40P01"]}, "raw": false}
        ]"#,
    );
    assert_eq!(
        ids(&plan),
        [
            "A/writers=1,batch=1",
            "A/writers=1,batch=10",
            "A/writers=2,batch=1",
            "A/writers=2,batch=10",
            "B"
        ]
    );
    assert_eq!(params(&plan, 0).records, Some(50));
    assert_eq!(params(&plan, 0).retry.max_attempts, 9);
    assert!(plan.cells[0].raw && !plan.cells[4].raw);
    let b = params(&plan, 4);
    assert_eq!((b.records, b.measure_s), (None, Some(1.5)));
    assert_eq!((b.retry.max_attempts, b.retry.base_ms), (3, 5.0));
    assert_eq!(b.retry.on, ["40P01"]);
    assert_eq!((plan.cells[0].reps, plan.cells[4].reps), (2, 1));
}

#[test]
fn whole_numbers_may_be_written_as_they_like() {
    let plan = plan(
        r#""preset": "p", "seed": 1e3, "blocks": [
            {"name": "A", "workload": "append", "records": 1e3, "writers": 8.0}]"#,
    );
    assert_eq!(plan.seed, 1000);
    assert_eq!(
        (params(&plan, 0).records, params(&plan, 0).writers),
        (Some(1000), 8)
    );
}

#[test]
fn a_byte_order_mark_is_no_obstacle() {
    let text = "\u{feff}{\"name\": \"s\", \"preset\": \"p\", \"blocks\": [{\"name\": \"A\", \"workload\": \"append\"}]}";
    assert!(parse(text).is_ok());
}

const TWO: &str = r#""targets": [{"name": "dsql", "endpoints": ["a.x", "b.x:5433"], "network": "VPC"},
                                 {"name": "pg", "url": "postgres://u:pw@h/db"}],"#;

#[test]
fn without_a_preset_the_target_is_an_axis() {
    let sweep = sweep(&format!(
        r#"{TWO} "blocks": [{{"name": "A", "workload": "append", "writers": [1, 8]}},
                            {{"name": "B", "workload": "append", "target": "pg"}},
                            {{"name": "C", "workload": "append", "writers": [1, 8], "target": ["pg", "dsql"]}}]"#
    ));
    let plan = on(&sweep, &[]).unwrap();
    assert_eq!(
        ids(&plan),
        [
            "A/target=dsql,writers=1",
            "A/target=dsql,writers=8",
            "A/target=pg,writers=1",
            "A/target=pg,writers=8",
            "B",
            "C/writers=1,target=pg",
            "C/writers=1,target=dsql",
            "C/writers=8,target=pg",
            "C/writers=8,target=dsql",
        ]
    );
    assert_eq!(plan.cells[4].target, "pg");
    assert_eq!(plan.targets[0].url(), "dsql://a.x,b.x:5433");
    assert_eq!(plan.targets[0].network.as_deref(), Some("VPC"));

    let plan = on(&sweep, &["dsql=sim:p"]).unwrap();
    assert_eq!(urls(&plan)[..2], ["sim:p", "sim:p"]);
    assert_eq!(urls(&plan)[4], "postgres://u:pw@h/db");
    assert_eq!(plan.targets[0].network, None);

    assert_eq!(
        on(&sweep, &["sim:p"]).unwrap_err(),
        "--on: every block runs on named targets; say which to replace: NAME=URL with `dsql` or `pg`"
    );
    assert_eq!(
        on(&sweep, &["x=sim:p"]).unwrap_err(),
        "--on: no target is named \"x\"; the sweep has `dsql` or `pg`"
    );
    assert_eq!(
        on(&sweep, &["pg=sim:p", "pg=sim:q"]).unwrap_err(),
        "--on: target `pg` is given twice; keep one"
    );
}

#[test]
fn a_single_named_target_is_replaced_by_a_bare_url() {
    let sweep = sweep(
        r#""targets": [{"name": "pg", "secret": "prod/db"}],
           "blocks": [{"name": "A", "workload": "append"}]"#,
    );
    let plan = on(&sweep, &[]).unwrap();
    assert_eq!(urls(&plan), ["secret:prod/db"]);
    let plan = on(&sweep, &["postgres://h/db?options=-c%20x=1"]).unwrap();
    assert_eq!(urls(&plan), ["postgres://h/db?options=-c%20x=1"]);
    assert_eq!(
        (ids(&plan), plan.cells[0].target.as_str()),
        (vec!["A"], "pg")
    );
}

#[test]
fn with_a_preset_blocks_run_on_it_unless_they_say() {
    let sweep = sweep(
        r#""preset": "p", "targets": [{"name": "other", "url": "sim:q"}],
           "blocks": [{"name": "A", "workload": "append"},
                      {"name": "B", "workload": "append", "target": ["default", "other"]}]"#,
    );
    let plan = on(&sweep, &[]).unwrap();
    assert_eq!(ids(&plan), ["A", "B/target=default", "B/target=other"]);
    assert_eq!(urls(&plan), ["sim:p", "sim:p", "sim:q"]);
    assert_eq!(plan.cells[0].target, "sim:p");
    for url in ["sim:r", "default=sim:r"] {
        assert_eq!(
            urls(&on(&sweep, &[url]).unwrap()),
            ["sim:r", "sim:r", "sim:q"]
        );
    }
    let both = on(&sweep, &["sim:r", "other=dsql://h"]).unwrap();
    assert_eq!(urls(&both), ["sim:r", "sim:r", "dsql://h"]);
}

#[test]
fn a_target_without_an_address_waits_for_one() {
    let sweep = sweep(
        r#""preset": "p", "targets": [{"name": "control", "url": null}],
           "blocks": [{"name": "A", "workload": "append"},
                      {"name": "B", "workload": "append", "batch": [1, 100],
                       "target": ["default", "control"]}]"#,
    );
    let without = on(&sweep, &[]).unwrap();
    assert_eq!(
        ids(&without),
        [
            "A",
            "B/batch=1,target=default",
            "B/batch=100,target=default"
        ]
    );
    assert_eq!(urls(&without), ["sim:p"; 3]);
    assert_eq!(without.targets.len(), 1);
    assert_eq!(
        without.notes.last().unwrap(),
        "target control has no address, so its cells (2) are left out; --on control=URL runs them"
    );
    let with = on(&sweep, &["control=postgres://h/db"]).unwrap();
    assert_eq!(with.cells.len(), 5);
    assert_eq!(urls(&with)[2], "postgres://h/db");
    assert_eq!((with.notes.len(), without.notes.len()), (0, 1));
}

#[test]
fn without_preset_and_targets_on_is_needed() {
    let sweep = sweep(r#""blocks": [{"name": "A", "workload": "append"}]"#);
    assert!(on(&sweep, &[]).unwrap_err().contains("--on URL"));
    assert_eq!(urls(&on(&sweep, &["sim:p"]).unwrap()), ["sim:p"]);
}

#[test]
fn a_batch_that_never_fills_is_noted() {
    let plan = plan(
        r#""preset": "p", "blocks": [
            {"name": "A", "workload": "append", "writers": 8, "batch": [16, 50]}]"#,
    );
    assert_eq!(
        plan.notes,
        [
            "A/batch=50: batch 50 never fills: a writer has 16 records, so its only transaction holds those"
        ]
    );
}

#[test]
fn one_client_that_should_send_again_is_noted() {
    let plan = plan(
        r#""preset": "p", "blocks": [{"name": "A", "workload": "order_transfer",
            "concurrency": [1, 2], "duplicate_pct": 10}]"#,
    );
    assert_eq!(
        plan.notes,
        [
            "A/concurrency=1: nothing is sent again: duplicates come from another client, and there is one"
        ]
    );
}

#[test]
fn one_cell_from_flags_counts_records_per_writer() {
    let plan = append_cell(&AppendArgs {
        writers: 8,
        appends_per_writer: 16,
        streams: 4,
        batch: 5,
        placement: "us-east-2".into(),
        raw: true,
        overrides: Overrides {
            reps: Some(2),
            on: vec!["sim:single-region".into()],
            ..Overrides::default()
        },
        ..AppendArgs::default()
    })
    .unwrap();
    assert_eq!((ids(&plan), plan.name.as_str()), (vec!["append"], "append"));
    assert_eq!(urls(&plan), ["sim:single-region"]);
    assert!(plan.cells[0].raw);
    assert_eq!(
        plan.cells[0]
            .waves()
            .map(|wave| wave.rep)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    let params = params(&plan, 0);
    assert_eq!((params.records, params.total_writers()), (Some(128), 32));
    assert_eq!(params.share_of(31), Some(16));
    assert_eq!(params.operations_of(0), Some(4));
    assert_eq!(params.placement, Placement::Region("us-east-2".into()));
}
