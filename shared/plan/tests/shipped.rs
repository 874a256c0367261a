//! The sweeps that come with the project, and the committed schema.

// A test's helpers fail the test by panicking, as its body does.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use fabric_plan::{Cell, Overrides, Params, Placement, Plan, Trips, parse};

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
    assert!(examples.len() >= 9, "{}", examples.len());
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
    let block = &schema["definitions"]["Block"]["oneOf"][0]["properties"];
    let retry = &schema["definitions"]["Retry"]["properties"];
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    for (key, property) in [block, retry, &schema["properties"]]
        .iter()
        .flat_map(|properties| properties.as_object().unwrap())
    {
        let row = rows
            .iter()
            .find(|row| row.starts_with(&format!("| `{key}` |")));
        let row = row.unwrap_or_else(|| panic!("{key} is not documented"));
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap().trim();
        if let Some(default) = property.get("default") {
            let default = default.as_str().map_or(default.to_string(), str::to_owned);
            assert_eq!(last.trim_matches('`'), default, "default of {key}");
        }
    }
}
