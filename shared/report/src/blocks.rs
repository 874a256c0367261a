//! What is said of a block of the sweep as a whole.

use std::collections::{BTreeMap, BTreeSet};

use plan::Params;
use serde_json::Value;
use stats::Hist;

use crate::build::last_attempts;
use crate::figures::Quantiles;
use crate::input::CellReport;
use crate::summary::BlockSummary;

/// Writers per stream up to which a cell counts as low contention, as in the
/// report that the hash-chain sweep comes from.
const LOW_CONTENTION_WRITERS: u32 = 8;

/// The blocks of a sweep in the order of their first cells.
pub(crate) fn blocks(cells: &[CellReport]) -> Vec<BlockSummary> {
    let mut names: Vec<&str> = Vec::new();
    for report in cells {
        if !names.contains(&report.cell.block.as_str()) {
            names.push(&report.cell.block);
        }
    }
    names
        .into_iter()
        .map(|name| {
            let of_block = |report: &&CellReport| report.cell.block == name;
            let cells: Vec<&CellReport> = cells.iter().filter(of_block).collect();
            let axes = axes(&cells);
            let low_contention_first_try_ms = if axes.iter().all(|axis| axis == "writers") {
                low_contention(&cells)
            } else {
                BTreeMap::new()
            };
            BlockSummary {
                name: name.to_owned(),
                axes,
                low_contention_first_try_ms,
            }
        })
        .collect()
}

/// The parameters in which the cells differ.
fn axes(cells: &[&CellReport]) -> Vec<String> {
    let all: Vec<BTreeMap<String, Value>> = cells
        .iter()
        .map(|report| leaves(&report.cell.params))
        .collect();
    let paths: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    let differ = |path: &&&String| {
        all.windows(2)
            .any(|two| two[0].get(**path) != two[1].get(**path))
    };
    let mut axes: Vec<String> = paths
        .iter()
        .filter(differ)
        .map(|path| (*path).clone())
        .collect();
    if cells
        .windows(2)
        .any(|two| two[0].cell.target != two[1].cell.target)
    {
        axes.insert(0, "target".to_owned());
    }
    axes
}

/// All parameters by their path, such as `retry.base_ms`.
pub(crate) fn leaves(params: &Params) -> BTreeMap<String, Value> {
    fn collect(path: &str, value: Value, into: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = match path {
                        "" => name,
                        _ => format!("{path}.{name}"),
                    };
                    collect(&path, value, into);
                }
            }
            leaf => {
                into.insert(path.to_owned(), leaf);
            }
        }
    }
    let mut into = BTreeMap::new();
    // Parameters come from JSON, so they can be turned into it.
    if let Ok(value) = serde_json::to_value(params) {
        collect("", value, &mut into);
    }
    into
}

fn low_contention(cells: &[&CellReport]) -> BTreeMap<String, Quantiles> {
    let mut merged: BTreeMap<String, Hist> = BTreeMap::new();
    for CellReport { cell, reps } in cells {
        // Of other workloads the report says no such thing.
        let Params::Append(params) = &cell.params else {
            continue;
        };
        if params.writers > LOW_CONTENTION_WRITERS {
            continue;
        }
        for index in last_attempts(reps) {
            for (name, part) in &reps[index].result.by_endpoint {
                let hist = merged.entry(name.clone()).or_default();
                hist.merge(&part.latencies.first_try);
            }
        }
    }
    let quantiles = |(name, hist): (String, Hist)| (name, Quantiles::of(&hist));
    merged.into_iter().map(quantiles).collect()
}
