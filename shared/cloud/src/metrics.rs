//! The fleet's own metrics, in CloudWatch's embedded metric format: a line of
//! JSON on a function's output, from which CloudWatch Logs takes the figures. No
//! call is made and no permission needed.
//!
//! Format: docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/
//! CloudWatch_Embedded_Metric_Format_Specification.html

use std::time::SystemTime;

use fleet::{Finished, RunOutcome};
use report::CellSummary;
use serde_json::{Map, Value, json};

/// Namespace of all metrics.
pub const NAMESPACE: &str = "DsqlFabric";

/// Values that one metric may have in a line.
const MOST_VALUES: usize = 100;

/// The line of a run that has ended, without a line break.
///
/// `RunFinished` is 1. `RunIncomplete`, `RunInvalid`, `ThresholdBroken` and
/// `InvariantBroken` are 1 or 0. `Committed`, `Failed` and `SpentUsd` are the
/// whole run's. `ThroughputPerS` and `ResponseP99Ms` have a value for each cell
/// that has one, because neither can be averaged over cells: their maximum is the
/// best and the slowest cell.
pub fn line_of(stack: &str, run: &str, finished: &Finished, at: SystemTime) -> String {
    let verdict = &finished.summary.verdict;
    let flag = |on: bool| json!(u8::from(on));
    let cells = &finished.summary.cells;
    let each = |figure: fn(&CellSummary) -> Option<f64>| -> Value {
        cells.iter().filter_map(figure).take(MOST_VALUES).collect()
    };
    let committed: u64 = cells
        .iter()
        .map(|c| c.merged.measured.figures.committed)
        .sum();
    let failed = |cell: &CellSummary| cell.merged.measured.figures.failed.values().sum::<u64>();
    let failed: u64 = cells.iter().map(failed).sum();
    let metrics = [
        ("RunFinished", "Count", json!(1)),
        (
            "RunIncomplete",
            "Count",
            flag(finished.outcome != RunOutcome::Complete),
        ),
        ("RunInvalid", "Count", flag(!verdict.invalid.is_empty())),
        (
            "ThresholdBroken",
            "Count",
            flag(!verdict.thresholds.is_empty()),
        ),
        (
            "InvariantBroken",
            "Count",
            flag(!verdict.invariants.is_empty()),
        ),
        ("Committed", "Count", json!(committed)),
        ("Failed", "Count", json!(failed)),
        (
            "ThroughputPerS",
            "Count/Second",
            each(|cell| cell.merged.measured.figures.throughput_per_s),
        ),
        (
            "ResponseP99Ms",
            "Milliseconds",
            each(|cell| cell.merged.measured.figures.latency_ms.response.p99),
        ),
        ("SpentUsd", "None", json!(finished.spent.usd)),
    ];
    // A metric without a value is no metric.
    let metrics: Vec<(&str, &str, Value)> = metrics
        .into_iter()
        .filter(|(_, _, value)| value.as_array().is_none_or(|values| !values.is_empty()))
        .collect();
    let named = |(name, unit, _): &(&str, &str, Value)| json!({ "Name": name, "Unit": unit });
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    let mut line = Map::new();
    line.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": since.map_or(0, |since| since.as_millis() as u64),
            "CloudWatchMetrics": [{
                "Namespace": NAMESPACE,
                "Dimensions": [["Stack"], ["Stack", "Sweep"]],
                "Metrics": metrics.iter().map(named).collect::<Vec<Value>>(),
            }],
        }),
    );
    line.insert("Stack".to_owned(), json!(stack));
    line.insert("Sweep".to_owned(), json!(finished.sweep));
    line.insert("Run".to_owned(), json!(run));
    line.insert("Outcome".to_owned(), json!(finished.outcome.as_str()));
    for (name, _, value) in metrics {
        line.insert(name.to_owned(), value);
    }
    Value::Object(line).to_string()
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
