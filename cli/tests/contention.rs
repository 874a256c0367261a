//! `contention.json` on the simulator shows what the contention report (E004)
//! measured on a real cluster in Seoul, from the latency preset alone: its
//! twelve D1 cells, and what splitting a product's stock gives.
//!
//! The report's figures stand here, one repetition of 20 s each; where the
//! reference file is there they are held against it. Budget: one rep of 16
//! cells, 60 to 120 s on two cores (release); a shorter window with
//! FABRIC_TEST_FAST.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{fabric, shipped, summary};
use serde_json::Value;

/// What the report has of a D1 cell.
struct Seen {
    distribution: &'static str,
    concurrency: u32,
    max_retries: u32,
    tps: f64,
    conflict_pct: f64,
    failure_pct: f64,
    p50_ms: f64,
}

const fn seen(
    distribution: &'static str,
    concurrency: u32,
    max_retries: u32,
    [tps, conflict_pct, failure_pct, p50_ms]: [f64; 4],
) -> Seen {
    Seen {
        distribution,
        concurrency,
        max_retries,
        tps,
        conflict_pct,
        failure_pct,
        p50_ms,
    }
}

const D1: [Seen; 12] = [
    seen("uniform", 16, 0, [841.0, 0.6, 0.6, 19.0]),
    seen("uniform", 64, 0, [2363.0, 2.5, 2.5, 26.0]),
    seen("uniform", 256, 0, [8494.0, 8.6, 8.6, 27.0]),
    seen("hot", 16, 0, [711.0, 20.8, 20.8, 18.0]),
    seen("hot", 64, 0, [1402.0, 43.7, 43.7, 25.0]),
    seen("hot", 256, 0, [4479.0, 66.5, 66.5, 19.0]),
    seen("uniform", 16, 3, [841.0, 0.6, 0.0, 19.0]),
    seen("uniform", 64, 3, [2268.0, 2.5, 0.0, 28.0]),
    seen("uniform", 256, 3, [8230.0, 9.8, 0.4, 28.0]),
    seen("hot", 16, 3, [421.0, 27.2, 4.9, 27.0]),
    seen("hot", 64, 3, [1102.0, 50.4, 18.0, 29.0]),
    seen("hot", 256, 3, [3273.0, 71.0, 38.9, 49.0]),
];

fn merged(cells: &[Value], id: &str) -> Value {
    let cell = cells.iter().find(|cell| cell["id"] == id);
    cell.unwrap_or_else(|| panic!("no cell {id}"))["merged"].clone()
}

fn figure(merged: &Value, path: &str) -> f64 {
    let value = path.split('.').fold(merged, |at, key| &at[key]);
    value.as_f64().unwrap_or_else(|| panic!("no {path}"))
}

#[test]
fn e004s_cells_come_out_as_they_were_measured() {
    let dir = tempfile::tempdir().unwrap();
    let out = common::out_dir(dir.path());
    let sweep = shipped("contention.json");
    let short = std::env::var_os("FABRIC_TEST_FAST").is_some();
    let file = dir.path().join("sweep.json");
    let mut text: Value = serde_json::from_str(&std::fs::read_to_string(&sweep).unwrap()).unwrap();
    if short {
        text["defaults"]["warmup_s"] = 1.into();
        text["defaults"]["measure_s"] = 5.into();
    }
    std::fs::write(&file, text.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let ran = fabric(&["run", file, "--reps", "1", "--out", &out]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let summary = summary(&out);
    let cells = summary["cells"].as_array().unwrap();

    let mut off = Vec::new();
    for seen in &D1 {
        let id = format!(
            "D1/concurrency={},distribution={},retry.max_retries={}",
            seen.concurrency, seen.distribution, seen.max_retries
        );
        let cell = merged(cells, &id);
        assert_eq!(cell["verify"]["ok"], true, "{id}");
        let tps = figure(&cell, "throughput_per_s");
        let conflict = figure(&cell, "raw_conflict_pct");
        let failure = figure(&cell, "final_failure_pct");
        let p50 = figure(&cell, "latency_ms.response.p50");
        let p99 = figure(&cell, "latency_ms.committed.p99");
        println!(
            "{id}: {tps:.0}/s ({}), conflicts {conflict:.1}% ({}), failures {failure:.1}% ({}), \
             p50 {p50:.1} ms ({}), p99 committed {p99:.1} ms",
            seen.tps, seen.conflict_pct, seen.failure_pct, seen.p50_ms
        );
        let mut hold = |what: &str, holds: bool| {
            if !holds {
                off.push(format!("{id}: {what}"));
            }
        };
        hold("conflicts", (conflict - seen.conflict_pct).abs() <= 5.0);
        hold("p99 of commits", p99 <= 160.0);
        if seen.max_retries == 0 {
            hold("p50", (p50 / seen.p50_ms - 1.0).abs() <= 0.4);
            hold("TPS", (tps / seen.tps - 1.0).abs() <= 0.4);
        } else {
            hold("failures", (failure - seen.failure_pct).abs() <= 12.0);
        }
    }
    assert_eq!(off, Vec::<String>::new());
    split_stock_spreads_contention(cells);
}

/// A product's stock in more rows: fewer lost races, in every step.
fn split_stock_spreads_contention(cells: &[Value]) {
    let of = |shards: u32| merged(cells, &format!("shards/inventory_shards={shards}"));
    let cells: BTreeMap<u32, Value> = [1, 4, 16, 64].map(|n| (n, of(n))).into();
    let all: Vec<&Value> = cells.values().collect();
    for two in all.windows(2) {
        let [fewer, more] = two else { unreachable!() };
        for path in ["raw_conflict_pct", "final_failure_pct"] {
            assert!(figure(more, path) < figure(fewer, path), "{path}");
        }
        assert!(figure(more, "throughput_per_s") > figure(fewer, "throughput_per_s"));
    }
    for cell in all {
        assert_eq!(figure(cell, "rejected"), 0.0, "stock suffices");
        assert_eq!(cell["verify"]["ok"], true);
    }
}

#[test]
fn the_reference_says_the_same() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../shared/reference/seed_tables.json"
    );
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("skipped: no reference data");
        return;
    };
    let tables: Value = serde_json::from_str(&text).unwrap();
    let of_d1 = |cell: &&Value| cell["config"] == "D1";
    let cells: Vec<&Value> = tables["e004"]["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter(of_d1)
        .collect();
    assert_eq!(cells.len(), D1.len());
    for seen in &D1 {
        let same = |cell: &&&Value| {
            cell["distribution"] == seen.distribution
                && cell["concurrency"] == seen.concurrency
                && cell["max_retries"] == seen.max_retries
        };
        let cell = cells.iter().find(same).unwrap();
        assert_eq!(cell["successful_tps"], seen.tps);
        assert_eq!(cell["raw_conflict_pct"], seen.conflict_pct);
        assert_eq!(cell["final_failure_pct"], seen.failure_pct);
        assert_eq!(cell["p50_ms"], seen.p50_ms);
    }
}
