//! The committed schemas are current, real output satisfies them, and they
//! would notice if it did not. `UPDATE_SCHEMA=1` writes them anew.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod sample;

use std::fs;
use std::path::PathBuf;

use fabric_report::{
    CellReport, OpRow, RepRun, RunInfo, Summary, TargetFound, ops_schema, run_schema,
    summary_schema, to_json,
};
use plan::{Threshold, Trips};
use serde_json::{Value, json};

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[track_caller]
fn current(file: &str, schema: &Value) {
    let path = docs().join("schema").join(file);
    let text = format!("{}\n", serde_json::to_string_pretty(schema).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/schema/{file} is not current; run the tests with UPDATE_SCHEMA=1 and commit it"
    );
}

#[track_caller]
fn satisfies(schema: &Value, instance: &Value) {
    let validator = jsonschema::validator_for(schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(instance)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

fn summary() -> Value {
    let mut cells = sample::cells();
    cells[2].cell.thresholds = vec![Threshold {
        figure: "throughput_per_s".into(),
        min: Some(1_000.0),
        max: None,
    }];
    cells[3].reps[0].result.cpu_peak_pct = Some(99.0);
    cells[4].reps[0].verify_ok = Some(false);
    let cell = sample::cell("G", "writers=1", sample::params(1, 1, Trips::Sticky));
    cells.push(CellReport { cell, reps: vec![] });
    let summary = Summary::build(&sample::sweep(), &cells);
    serde_json::from_str(&to_json(&summary).unwrap()).unwrap()
}

fn run() -> Value {
    let run = RunInfo {
        version: 1,
        commit: Some("0123abc".into()),
        targets: vec![TargetFound::default()],
        reps: vec![RepRun::default()],
        ..RunInfo::default()
    };
    serde_json::to_value(run).unwrap()
}

fn row() -> Value {
    let row = OpRow {
        sqlstate: Some("40001".into()),
        ..OpRow::default()
    };
    serde_json::to_value(row).unwrap()
}

#[test]
fn the_committed_schemas_are_current() {
    current("summary.schema.json", &summary_schema());
    current("run.schema.json", &run_schema());
    current("ops.schema.json", &ops_schema());
}

#[test]
fn real_output_satisfies_them() {
    satisfies(&summary_schema(), &summary());
    satisfies(&run_schema(), &run());
    satisfies(&ops_schema(), &row());
}

#[test]
fn they_notice_what_is_missing_or_unknown() {
    type Change = fn(&mut Value);
    let table: [Change; 7] = [
        |v| v["version"] = json!("one"),
        |v| _ = v.as_object_mut().unwrap().remove("verdict"),
        |v| {
            _ = v["cells"][0]["merged"]
                .as_object_mut()
                .unwrap()
                .remove("starved")
        },
        |v| v["cells"][0]["merged"]["surprise"] = json!(1),
        |v| v["cells"][0]["reps"][0]["latency_ms"]["surprise"] = json!(1),
        |v| v["cells"][0]["reps"][0]["latency_ms"]["net"]["p50"] = json!("-"),
        |v| v["cells"][0]["params"]["writers"] = json!(null),
    ];
    let validator = jsonschema::validator_for(&summary_schema()).unwrap();
    assert!(validator.is_valid(&summary()));
    for (index, change) in table.into_iter().enumerate() {
        let mut changed = summary();
        change(&mut changed);
        assert!(
            !validator.is_valid(&changed),
            "change {index} went unnoticed"
        );
    }
}

#[test]
fn every_field_is_explained_in_the_documentation() {
    let text = fs::read_to_string(docs().join("results.md")).unwrap();
    let mut missing = Vec::new();
    for schema in [summary_schema(), run_schema(), ops_schema()] {
        let definitions = schema["$defs"].as_object().into_iter().flatten();
        for (name, definition) in definitions.chain([(&"root".to_owned(), &schema)]) {
            // Parameters are explained where the sweep file is.
            let of_plan = name == "Retry" || name.ends_with("Params");
            let fields = definition["properties"].as_object().into_iter().flatten();
            for (field, _) in fields.filter(|_| !of_plan) {
                if !text.contains(&format!("`{field}`")) && !text.contains(&format!("`{field}[]`"))
                {
                    missing.push(format!("{name}.{field}"));
                }
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/results.md does not name {missing:?}"
    );
}
