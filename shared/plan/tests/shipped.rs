//! The sweeps that come with the project, and the committed schema.

// A test's helpers fail the test by panicking, as its body does.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use fabric_plan::{
    Cell, Distribution, Isolation, OrderTransferParams, Overrides, Params, Placement, Plan, Trips,
    parse,
};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sweeps() -> Vec<(String, String)> {
    let mut sweeps: Vec<(String, String)> = std::fs::read_dir(root().join("events/sweeps"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    sweeps.sort();
    sweeps
}

fn plan(name: &str) -> Plan {
    let (_, text) = sweeps().into_iter().find(|(n, _)| n == name).unwrap();
    parse(&text).unwrap().plan(&Overrides::default()).unwrap()
}

fn ids(cells: &[Cell], block: &str) -> Vec<String> {
    cells
        .iter()
        .filter(|cell| cell.block == block)
        .map(|cell| cell.id.clone())
        .collect()
}

fn append(cell: &Cell) -> &fabric_plan::AppendParams {
    match &cell.params {
        Params::Append(params) => params,
        other => panic!("{}", other.workload()),
    }
}

#[test]
fn hash_chain_is_the_reports_matrix_and_ours() {
    let plan = plan("hash-chain");
    assert_eq!(plan.seed, 1);
    assert_eq!(plan.cells.len(), 7 + 7 + 4 + 3 + 6 + 7);
    assert!(plan.cells.iter().all(|cell| cell.reps == 3));
    assert_eq!(plan.notes, [""; 0]);

    let writers = [1, 2, 4, 8, 16, 32, 64];
    for (block, target, placement) in [
        ("A", "sim:us-pair-workstation", "split"),
        ("B", "sim:us-pair-workstation", "first"),
        ("F", "single-region", "split"),
    ] {
        let cells: Vec<&Cell> = plan.cells.iter().filter(|c| c.block == block).collect();
        assert_eq!(cells.len(), writers.len());
        for (cell, writers) in cells.iter().zip(writers) {
            assert_eq!(cell.id, format!("{block}/writers={writers}"));
            assert_eq!(cell.target, target);
            let params = append(cell);
            assert_eq!(
                (params.writers, params.streams, params.batch),
                (writers, 1, 1)
            );
            assert_eq!(params.records, Some(128));
            assert_eq!(params.placement.as_str(), placement);
            assert_eq!(params.trips, Trips::Stepwise);
            assert_eq!(params.retry.max_attempts, 25);
            assert_eq!(params.abort_after_starved, 3);
        }
    }
    let streams = ["C/streams=1", "C/streams=2", "C/streams=4", "C/streams=8"];
    assert_eq!(ids(&plan.cells, "C"), streams);
    assert_eq!(
        ids(&plan.cells, "D"),
        ["D/batch=1", "D/batch=10", "D/batch=50"]
    );
    assert_eq!(
        ids(&plan.cells, "E"),
        [
            "E/trips=stepwise,writers=1",
            "E/trips=stepwise,writers=8",
            "E/trips=pipelined,writers=1",
            "E/trips=pipelined,writers=8",
            "E/trips=sticky,writers=1",
            "E/trips=sticky,writers=8",
        ]
    );
    for cell in &plan.cells {
        let params = append(cell);
        let records = if cell.block == "D" { 400 } else { 128 };
        assert_eq!(params.records, Some(records), "{}", cell.id);
        if matches!(cell.block.as_str(), "C" | "D") {
            assert_eq!(params.writers, 8);
        }
    }
    assert_eq!(plan.targets[0].url(), "sim:us-pair-workstation");
    assert_eq!(plan.targets[1].url(), "sim:single-region");
}

fn orders(cell: &Cell) -> &OrderTransferParams {
    match &cell.params {
        Params::OrderTransfer(params) => params,
        other => panic!("{}", other.workload()),
    }
}

fn of_block<'a>(plan: &'a Plan, block: &str) -> Vec<&'a Cell> {
    plan.cells.iter().filter(|c| c.block == block).collect()
}

/// Concurrency, distribution and attempts of the report's twelve cells.
fn matrix(cells: &[&Cell]) -> Vec<(u32, Distribution, u32)> {
    let of = |cell: &&Cell| {
        let params = orders(cell);
        (
            params.concurrency,
            params.distribution,
            params.retry.max_attempts,
        )
    };
    cells.iter().map(of).collect()
}

#[test]
fn contention_is_the_reports_matrix_and_ours() {
    let plan = plan("contention");
    let d1 = of_block(&plan, "D1");
    assert_eq!(plan.cells.len(), 12 + 4, "without its control");
    assert_eq!(plan.notes.len(), 1, "which it says");
    assert!(
        plan.notes[0].contains("(18) are left out"),
        "{:?}",
        plan.notes
    );
    assert_eq!(plan.targets.len(), 1);
    assert_eq!(plan.targets[0].url(), "sim:seoul-in-region");
    assert_eq!(
        d1[7].id,
        "D1/concurrency=64,distribution=hot,retry.max_retries=3"
    );
    let mut expected = Vec::new();
    for concurrency in [16, 64, 256] {
        for distribution in [Distribution::Uniform, Distribution::Hot] {
            for attempts in [1, 4] {
                expected.push((concurrency, distribution, attempts));
            }
        }
    }
    assert_eq!(matrix(&d1), expected);
    let shards = of_block(&plan, "shards");
    for (cell, rows) in shards.iter().zip([1, 4, 16, 64]) {
        assert_eq!(cell.id, format!("shards/inventory_shards={rows}"));
        let params = orders(cell);
        assert_eq!((params.inventory_shards, params.concurrency), (rows, 256));
        assert_eq!(params.distribution, Distribution::Hot);
        assert_eq!(params.transfers_pct, 0.0);
    }
    for cell in &plan.cells {
        let params = orders(cell);
        assert_eq!(
            (params.products, params.accounts, params.items),
            (4_000, 1_000, 1)
        );
        assert_eq!((params.warmup_s, params.measure_s), (5.0, Some(20.0)));
        assert_eq!(
            (params.stock, params.balance),
            (None, None),
            "none is refused"
        );
        assert_eq!(params.retry.base_ms, 10.0);
        assert_eq!(params.retry.deadline_ms, Some(2_000.0));
        assert_eq!(cell.reps, 3);
    }

    let (_, text) = sweeps()
        .into_iter()
        .find(|(n, _)| n == "contention")
        .unwrap();
    let on = vec!["control=postgres://h/db".to_owned()];
    let overrides = Overrides {
        on,
        ..Overrides::default()
    };
    let both = parse(&text).unwrap().plan(&overrides).unwrap();
    assert_eq!(both.cells.len(), 12 + 4 + 12 + 6);
    assert_eq!(both.notes, [""; 0]);
    assert_eq!(&both.cells[..16], &plan.cells[..], "which do not change");
    assert_eq!(matrix(&of_block(&both, "control-RR")), expected);
    for cell in of_block(&both, "control-RC") {
        assert_eq!(orders(cell).isolation, Isolation::ReadCommitted);
        assert_eq!(orders(cell).retry.max_attempts, 4);
    }
    assert!(both.cells[16..].iter().all(|cell| cell.target == "control"));
}

#[test]
fn contention_as_it_was_planned_has_its_controls() {
    let plan = plan("contention-planned");
    assert_eq!(plan.targets.len(), 4);
    assert_eq!(of_block(&plan, "RR").len(), 4 * 12);
    assert_eq!(of_block(&plan, "RC").len(), 3 * 6);
    for cell in &plan.cells {
        let params = orders(cell);
        assert_eq!((params.warmup_s, params.measure_s), (600.0, Some(1_200.0)));
        assert_eq!(cell.reps, 3);
        if params.isolation == Isolation::ReadCommitted {
            assert_ne!(cell.target, "sim:seoul-in-region");
        }
    }
}

#[test]
fn the_nightly_sweep_takes_a_night_and_no_more() {
    let plan = plan("nightly");
    let workloads: std::collections::BTreeSet<&str> = plan
        .cells
        .iter()
        .map(|cell| cell.params.workload())
        .collect();
    assert_eq!(
        workloads.into_iter().collect::<Vec<_>>(),
        ["append", "order_transfer"]
    );
    // Windows and warm-ups alone; the rest of a wave is seconds.
    let minutes: f64 = plan
        .cells
        .iter()
        .map(|cell| {
            let shape = cell.params.shape();
            f64::from(cell.reps) * (shape.warmup_s + shape.measure_s.unwrap_or(0.0)) / 60.0
        })
        .sum();
    assert!(minutes < 15.0, "{minutes}");
    assert_eq!(plan.cells.len(), 6);
}

#[test]
fn quickstart_touches_each_axis() {
    let plan = plan("quickstart");
    assert_eq!(plan.cells.len(), 12);
    let find = |id: &str| append(plan.cells.iter().find(|cell| cell.id == id).unwrap());
    assert_eq!(find("writers/writers=64").writers, 64);
    assert_eq!(find("batch/batch=50").batch, 50);
    assert_eq!(find("streams/streams=8").streams, 8);
    assert_eq!(find("trips/trips=sticky").trips, Trips::Sticky);
    assert!(matches!(
        find("batch/batch=1").placement,
        Placement::Split(_)
    ));
}

#[test]
fn a_bare_url_replaces_the_preset_and_leaves_named_targets() {
    let (_, text) = sweeps()
        .into_iter()
        .find(|(n, _)| n == "hash-chain")
        .unwrap();
    let plan = parse(&text)
        .unwrap()
        .plan(&Overrides {
            on: vec!["postgres://me:secret@localhost/db".into()],
            reps: Some(1),
            seed: Some(7),
            ..Overrides::default()
        })
        .unwrap();
    assert_eq!(plan.seed, 7);
    for cell in &plan.cells {
        let target = plan.target_of(cell).unwrap();
        match cell.block.as_str() {
            "F" => assert_eq!(target.url(), "sim:single-region"),
            _ => assert_eq!(target.url(), "postgres://me:secret@localhost/db"),
        }
        assert_eq!(cell.reps, 1);
    }
    let shown = format!("{plan:?}{}", serde_json::to_string(&plan).unwrap());
    assert!(!shown.contains("secret"), "{shown}");
    assert_eq!(plan.targets[0].name, "postgres://me@localhost/db");
}

#[test]
fn every_sweep_is_planned_and_points_to_the_schema() {
    for (name, text) in sweeps() {
        let plan = parse(&text).unwrap().plan(&Overrides::default()).unwrap();
        assert_eq!(plan.name, name);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let schema = json["$schema"].as_str().unwrap();
        assert!(
            root().join("events/sweeps").join(schema).exists(),
            "{schema}"
        );
    }
}

/// Set `UPDATE_SCHEMA=1` to write the file anew.
#[test]
fn the_committed_schema_is_the_generated_one() {
    let path = root().join("docs/schema/sweep.schema.json");
    let generated = fabric_plan::schema();
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        let text = serde_json::to_string_pretty(&generated).unwrap();
        std::fs::write(&path, text + "\n").unwrap();
    }
    let committed: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(
        committed == generated,
        "docs/schema/sweep.schema.json differs; run the tests with UPDATE_SCHEMA=1"
    );
}

#[test]
fn the_schema_accepts_every_sweep() {
    let validator = jsonschema::validator_for(&fabric_plan::schema()).unwrap();
    for (name, text) in sweeps() {
        let json = serde_json::from_str(&text).unwrap();
        let problems: Vec<String> = validator
            .iter_errors(&json)
            .map(|problem| format!("{}: {problem}", problem.instance_path()))
            .collect();
        assert!(problems.is_empty(), "{name}: {problems:?}");
    }
}

/// Every example of the documentation is a sweep that works, and every line
/// that it shows as a message is one that some input gets.
#[test]
fn the_documentation_holds() {
    let text = std::fs::read_to_string(root().join("docs/sweep-file.md")).unwrap();
    let validator = jsonschema::validator_for(&fabric_plan::schema()).unwrap();
    let fenced = |tag: &str| {
        let open = format!("```{tag}\n");
        let parts: Vec<String> = text
            .split(&open)
            .skip(1)
            .map(|part| part.split("```").next().unwrap().to_owned())
            .collect();
        parts
    };
    let examples = fenced("json");
    assert!(examples.len() >= 13, "{}", examples.len());
    for example in &examples {
        let plan = parse(example).and_then(|sweep| sweep.plan(&Overrides::default()));
        assert!(plan.is_ok(), "{example}\n{plan:?}");
        assert!(
            validator.is_valid(&serde_json::from_str(example).unwrap()),
            "{example}"
        );
    }
    let snapshot = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/refused__messages.snap"),
    )
    .unwrap();
    for line in text
        .lines()
        .filter(|line| line.starts_with("blocks[") || line.starts_with("line "))
    {
        // The number of the block differs.
        let tail = line.split_once(']').map_or(line, |(_, tail)| tail);
        assert!(snapshot.contains(tail), "{line}");
    }
    // Every key and every default of the schema is in the tables.
    let schema = fabric_plan::schema();
    let rows = rows(&text);
    let mut seen = 0;
    for block in schema["definitions"]["Block"]["oneOf"].as_array().unwrap() {
        let keys = &block["properties"];
        let workload = keys["workload"]["const"].as_str().unwrap();
        let retry = &schema["definitions"]["Retry"]["properties"];
        for properties in [keys, retry, &schema["properties"]] {
            for (key, property) in properties.as_object().unwrap() {
                let default = match property.get("default") {
                    // Its fields have rows of their own.
                    Some(Value::Object(_)) => None,
                    Some(default) => Some(default),
                    None => keys["retry"]["default"].get(key),
                };
                let shown = default.map(|default| match default.as_f64() {
                    Some(number) => number.to_string(),
                    None => default.as_str().map_or(default.to_string(), str::to_owned),
                });
                let found = rows.iter().any(|row| {
                    let default = row.default_for(workload);
                    row.key == *key && shown.as_ref().is_none_or(|shown| default == shown)
                });
                assert!(found, "{workload}: {key} with the default {shown:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 60, "{seen}");
}

/// A row of a table of keys.
struct KeyRow<'a> {
    head: Vec<&'a str>,
    key: &'a str,
    cells: Vec<&'a str>,
}

impl KeyRow<'_> {
    /// What the column for a workload says, or the last one where there is one
    /// for all.
    fn default_for(&self, workload: &str) -> &str {
        let of = |name: &str| self.head.iter().position(|head| *head == name);
        let at = of(workload).or(of("others")).unwrap_or(self.head.len() - 1);
        self.cells[at]
    }
}

fn rows(text: &str) -> Vec<KeyRow<'_>> {
    let mut head = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let inner = line.trim_matches('|');
        let cells: Vec<&str> = inner
            .split('|')
            .map(|cell| cell.trim().trim_matches('`'))
            .collect();
        match cells[0] {
            "key" => head = cells,
            key if line.starts_with("| `") => rows.push(KeyRow {
                head: head.clone(),
                key,
                cells,
            }),
            _ => {}
        }
    }
    rows
}
