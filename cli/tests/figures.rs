//! `hash-chain.json` on the simulator shows what the hash-chain report measured
//! on a real multi-region pair on 2026-07-19, from the latency preset alone.
//!
//! Bounds are the report's figures with the room that one client over the public
//! internet, three reps and unstated service times ask for; where a figure was
//! not printed in the report its bound says so. Budget: two seeds, about 4 s each
//! on two cores (release).

#![allow(clippy::unwrap_used)]

mod common;

use common::{fabric, shipped, summary};
use serde_json::Value;

struct Sweep {
    cells: Vec<Value>,
    blocks: Vec<Value>,
}

impl Sweep {
    fn merged(&self, id: &str) -> &Value {
        let cell = self.cells.iter().find(|cell| cell["id"] == id);
        &cell.unwrap_or_else(|| panic!("no cell {id}"))["merged"]
    }

    fn figure(&self, id: &str, path: &str) -> f64 {
        let value = path.split('.').fold(self.merged(id), |at, key| &at[key]);
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{id} has no {path}"))
    }

    fn rate(&self, id: &str) -> f64 {
        self.figure(id, "throughput_per_s")
    }
}

#[track_caller]
fn within(what: &str, value: f64, low: f64, high: f64) {
    println!("{what}: {value:.3} ({low} to {high})");
    assert!(
        (low..=high).contains(&value),
        "{what}: {value}, not in {low}..{high}"
    );
}

#[test]
fn the_ceiling_of_a_hash_chain() {
    for seed in ["1", "20260719"] {
        let dir = tempfile::tempdir().unwrap();
        let out = common::out_dir(dir.path());
        let ran = fabric(&[
            "run",
            &shipped("hash-chain.json"),
            "--seed",
            seed,
            "--out",
            &out,
        ]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let summary = summary(&out);
        let sweep = Sweep {
            cells: summary["cells"].as_array().unwrap().clone(),
            blocks: summary["blocks"].as_array().unwrap().clone(),
        };
        println!("seed {seed}");
        ceiling(&sweep);
        endpoints(&sweep);
        retries(&sweep);
        streams_and_batches(&sweep);
        trips(&sweep);
        every_chain_verifies(&sweep);
    }
}

const WRITERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// 5.5 appends/s with one writer, 6.8 with 64: concurrency buys almost nothing.
fn ceiling(sweep: &Sweep) {
    let one = sweep.rate("A/writers=1");
    within("one writer, appends/s", one, 5.5 * 0.85, 5.5 * 1.15);
    within(
        "64 writers, appends/s",
        sweep.rate("A/writers=64"),
        5.0,
        9.0,
    );
    for writers in WRITERS {
        let rate = sweep.rate(&format!("A/writers={writers}"));
        within("writers over one writer", rate / one, 0.0, 1.8);
        // The report's two curves are one line with noise.
        let first_region = sweep.rate(&format!("B/writers={writers}"));
        within("one endpoint over both", first_region / rate, 0.7, 1.3);
    }
}

/// First-try medians of 181 and 126 ms by entry point.
fn endpoints(sweep: &Sweep) {
    let low = &sweep.blocks[0]["low_contention_first_try_ms"];
    let median = |region: &str| low[region]["p50"].as_f64().unwrap();
    within(
        "us-east-1, ms",
        median("us-east-1"),
        181.0 * 0.9,
        181.0 * 1.1,
    );
    within(
        "us-east-2, ms",
        median("us-east-2"),
        126.0 * 0.9,
        126.0 * 1.1,
    );
}

/// First-try commits of 91.9, 65.1 and 17.5%, 10.8 attempts a commit, 18 of 359
/// starved after 14 to 16 s.
fn retries(sweep: &Sweep) {
    for (writers, low, high) in [(4, 80.0, 97.0), (16, 45.0, 75.0), (64, 7.0, 28.0)] {
        let id = format!("A/writers={writers}");
        within(
            "first try, %",
            sweep.figure(&id, "first_try_pct"),
            low,
            high,
        );
    }
    let attempts = sweep.figure("A/writers=64", "attempts_per_commit");
    within("attempts per commit", attempts, 7.0, 15.0);
    let starved = |id: &str| {
        let started = sweep.figure(id, "planned") - sweep.figure(id, "skipped");
        100.0 * sweep.figure(id, "starved") / started
    };
    within(
        "starved of 64 writers, %",
        starved("A/writers=64"),
        1.0,
        10.0,
    );
    within("starved of 8 writers, %", starved("A/writers=8"), 0.0, 3.0);
    for q in ["p50", "max"] {
        let ms = sweep.figure("A/writers=64", &format!("latency_ms.failed.{q}"));
        within("starved after, ms", ms, 10_000.0, 20_000.0);
    }
}

/// 8 streams give 44.4 against a projection of 43.1; K=10 six times K=1, K=50
/// 182 records/s, 882 ms, 83% retried.
fn streams_and_batches(sweep: &Sweep) {
    let scale = sweep.rate("C/streams=8") / sweep.rate("C/streams=1");
    within("8 streams over one", scale, 7.0, 9.0);
    let records = |batch: u32| sweep.figure(&format!("D/batch={batch}"), "records_per_s");
    within("K=10 over K=1", records(10) / records(1), 4.5, 12.0);
    within("K=50 over K=1", records(50) / records(1), 20.0, 50.0);
    for batch in [10, 50] {
        let failed = sweep.merged(&format!("D/batch={batch}"))["failed"]
            .as_object()
            .unwrap();
        assert!(failed.is_empty(), "{failed:?}");
    }
    let p50 = sweep.figure("D/batch=50", "latency_ms.response.p50");
    within("K=50 p50, ms", p50, 550.0, 1_200.0);
    within(
        "K=50 retried, %",
        sweep.figure("D/batch=50", "retried_pct"),
        70.0,
        95.0,
    );
}

/// Fewer round trips: not in the report, which names them and stops there.
fn trips(sweep: &Sweep) {
    let p50 = |trips: &str| {
        let id = format!("E/trips={trips},writers=1");
        sweep.figure(&id, "latency_ms.response.p50")
    };
    within(
        "sticky over stepwise",
        p50("sticky") / p50("stepwise"),
        0.0,
        0.40,
    );
    assert!(p50("sticky") < p50("pipelined") && p50("pipelined") < p50("stepwise"));
}

fn every_chain_verifies(sweep: &Sweep) {
    for cell in &sweep.cells {
        for rep in cell["reps"].as_array().unwrap() {
            assert_eq!(
                rep["verify"]["ok"], true,
                "{} rep {}",
                cell["id"], rep["rep"]
            );
            assert_eq!(rep["unaccounted"], 0);
        }
    }
}

/// The same database seen from two places: what is left when the wire is taken
/// out must agree, and in region one flight must cost little more than one round
/// trip and its statements' service times.
#[test]
fn the_database_is_the_same_from_everywhere() {
    let run = |preset: &str, trips: &str| {
        let dir = tempfile::tempdir().unwrap();
        let out = common::out_dir(dir.path());
        let on = format!("sim:{preset}");
        let args = [
            "append",
            "--appends-per-writer",
            "256",
            "--trips",
            trips,
            "--on",
            &on,
        ];
        let ran = fabric(&[&args[..], &["--out", &out]].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        summary(&out)["cells"][0]["merged"].clone()
    };
    let p50 = |merged: &Value, kind: &str| merged["latency_ms"][kind]["p50"].as_f64().unwrap();
    let (far, near) = (
        run("us-pair-workstation", "stepwise"),
        run("us-pair-in-region", "stepwise"),
    );
    within(
        "net, far over near",
        p50(&far, "net") / p50(&near, "net"),
        0.9,
        1.1,
    );

    let presets = fabric(&["sim", "presets", "--json"]);
    let presets: Value = serde_json::from_str(&presets.stdout).unwrap();
    let figures = presets
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["name"] == "us-pair-in-region")
        .unwrap();
    let ms = |what: &str| {
        let all = figures["figures"].as_array().unwrap();
        let figure = all
            .iter()
            .find(|f| f["region"] == "us-east-1" && f["what"] == what);
        figure.unwrap_or_else(|| panic!("no figure '{what}'"))["p50_ms"]
            .as_f64()
            .unwrap()
    };
    let floor = ms("round trip") + 2.0 * ms("write") + ms("commit, read-write");
    let sticky = p50(&run("us-pair-in-region", "sticky"), "response");
    within("sticky over its floor", sticky / floor, 0.95, 1.05);
}
