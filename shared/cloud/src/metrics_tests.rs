//! The line against a golden one, and against what the format's specification
//! demands.

use std::time::{Duration, SystemTime};

use fleet::Spent;
use report::{BrokenThreshold, CellSummary, Measured, Merged, Reasons, Summary, Verdict};
use serde_json::Value;

use super::*;

fn cell(committed: u64, per_s: Option<f64>, p99_ms: Option<f64>) -> CellSummary {
    let sweep = r#"{"name": "s", "preset": "p", "blocks": [{"name": "A", "workload": "append"}]}"#;
    let plan = plan::parse(sweep)
        .unwrap()
        .plan(&plan::Overrides::default());
    let cell = plan.unwrap().cells.remove(0);
    let mut measured = Measured::default();
    measured.figures.committed = committed;
    measured.figures.failed = [("starved".to_owned(), 2), ("other".to_owned(), 1)].into();
    measured.figures.throughput_per_s = per_s;
    measured.figures.latency_ms.response.p99 = p99_ms;
    CellSummary {
        id: cell.id,
        block: cell.block,
        workload: "append".to_owned(),
        target: cell.target,
        simulated: false,
        params: cell.params,
        reps_planned: 1,
        thresholds: Vec::new(),
        reps: Vec::new(),
        merged: Merged {
            measured,
            ..Merged::default()
        },
    }
}

fn finished(outcome: RunOutcome, verdict: Verdict, cells: Vec<CellSummary>) -> Finished {
    Finished {
        outcome,
        why: "every wave ran".to_owned(),
        exit_code: 0,
        summary: Summary {
            version: report::VERSION,
            name: "nightly".to_owned(),
            about: None,
            seed: 1,
            simulated: false,
            partial: false,
            targets: Vec::new(),
            verdict,
            blocks: Vec::new(),
            cells,
        },
        spent: Spent {
            dpu: 1_200.0,
            dpu_known: true,
            usd: 0.0125,
            minutes: 12.0,
        },
        sweep: "nightly".to_owned(),
    }
}

fn line(finished: &Finished) -> Value {
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_796_007_600_123);
    let line = line_of("dsql-fabric", "nightly-1", finished, at);
    assert!(!line.contains('\n'));
    serde_json::from_str(&line).unwrap()
}

/// What the specification demands of a line.
fn check(line: &Value) {
    assert!(line["_aws"]["Timestamp"].is_u64());
    for directive in line["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
        let namespace = directive["Namespace"].as_str().unwrap();
        assert!((1..=1_024).contains(&namespace.len()));
        for set in directive["Dimensions"].as_array().unwrap() {
            let set = set.as_array().unwrap();
            assert!((1..=30).contains(&set.len()));
            // Each names a member of the line that is a text.
            assert!(
                set.iter()
                    .all(|name| line[name.as_str().unwrap()].is_string())
            );
        }
        let metrics = directive["Metrics"].as_array().unwrap();
        assert!((1..=100).contains(&metrics.len()));
        for metric in metrics {
            let unit = metric["Unit"].as_str().unwrap();
            assert!(["Count", "Count/Second", "Milliseconds", "None"].contains(&unit));
            // Each names a number, or 1 to 100 of them.
            match &line[metric["Name"].as_str().unwrap()] {
                Value::Number(_) => {}
                Value::Array(values) => {
                    assert!((1..=100).contains(&values.len()));
                    assert!(values.iter().all(Value::is_number));
                }
                other => panic!("{metric} is {other}"),
            }
        }
    }
}

#[test]
fn the_golden_line() {
    let cells = vec![
        cell(100, Some(50.5), Some(12.25)),
        cell(20, Some(5.0), None),
        cell(0, None, None),
    ];
    let line = line(&finished(RunOutcome::Complete, Verdict::default(), cells));
    check(&line);
    let metric = |name: &str, unit: &str| json!({ "Name": name, "Unit": unit });
    let golden = json!({
        "_aws": {
            "Timestamp": 1_796_007_600_123_u64,
            "CloudWatchMetrics": [{
                "Namespace": "DsqlFabric",
                "Dimensions": [["Stack"], ["Stack", "Sweep"]],
                "Metrics": [
                    metric("RunFinished", "Count"),
                    metric("RunIncomplete", "Count"),
                    metric("RunInvalid", "Count"),
                    metric("ThresholdBroken", "Count"),
                    metric("InvariantBroken", "Count"),
                    metric("Committed", "Count"),
                    metric("Failed", "Count"),
                    metric("ThroughputPerS", "Count/Second"),
                    metric("ResponseP99Ms", "Milliseconds"),
                    metric("SpentUsd", "None"),
                ],
            }],
        },
        "Stack": "dsql-fabric",
        "Sweep": "nightly",
        "Run": "nightly-1",
        "Outcome": "complete",
        "RunFinished": 1,
        "RunIncomplete": 0,
        "RunInvalid": 0,
        "ThresholdBroken": 0,
        "InvariantBroken": 0,
        "Committed": 120,
        "Failed": 9,
        "ThroughputPerS": [50.5, 5.0],
        "ResponseP99Ms": [12.25],
        "SpentUsd": 0.0125,
    });
    assert_eq!(line, golden);
}

#[test]
fn what_went_wrong_is_counted() {
    let verdict = Verdict {
        ok: false,
        invalid: vec![Reasons {
            cell: "A".to_owned(),
            because: vec!["no".to_owned()],
        }],
        thresholds: vec![BrokenThreshold {
            cell: "A".to_owned(),
            figure: "throughput_per_s".to_owned(),
            value: None,
            min: Some(1.0),
            max: None,
        }],
        invariants: Vec::new(),
    };
    let line = line(&finished(RunOutcome::Incomplete, verdict, Vec::new()));
    check(&line);
    for (name, value) in [
        ("RunFinished", 1),
        ("RunIncomplete", 1),
        ("RunInvalid", 1),
        ("ThresholdBroken", 1),
        ("InvariantBroken", 0),
    ] {
        assert_eq!(line[name], value, "{name}");
    }
    // A metric without a value is left out.
    assert!(line.get("ResponseP99Ms").is_none());
}

#[test]
fn a_large_sweep_stays_within_the_format() {
    let cells = (0..500).map(|n| cell(n, Some(1.0), Some(2.0))).collect();
    check(&line(&finished(
        RunOutcome::Stopped,
        Verdict::default(),
        cells,
    )));
}
