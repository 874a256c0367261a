//! `summary.json`: what is in it, that it is the same every time, and that its
//! percentiles are those of the raw values.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod sample;

use std::time::Duration;

use fabric_report::{CellReport, RepError, RepReport, Summary, exit_code, to_json};
use plan::Trips;
use proptest::prelude::*;
use stats::{Mean95, ShardResult};

fn build(cells: &[CellReport]) -> Summary {
    Summary::build(&sample::sweep(), cells)
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let first = to_json(&build(&sample::cells())).unwrap();
    let second = to_json(&build(&sample::cells())).unwrap();
    assert!(first == second);
}

#[test]
fn what_is_read_back_is_what_was_written() {
    let summary = build(&sample::cells());
    let text = to_json(&summary).unwrap();
    let back: Summary = serde_json::from_str(&text).unwrap();
    assert_eq!(back, summary);
    assert!(to_json(&back).unwrap() == text);
}

#[test]
fn outcomes_add_up_everywhere() {
    for cell in build(&sample::cells()).cells {
        let measured = cell.reps.iter().map(|rep| &rep.measured);
        for measured in measured.chain([&cell.merged.measured]) {
            let parts = measured
                .by_endpoint
                .values()
                .chain(measured.by_operation.values());
            for figures in parts.chain([&measured.figures]) {
                assert_eq!(figures.unaccounted, 0);
                let sum = figures.committed
                    + figures.rejected
                    + figures.failed_total()
                    + figures.skipped
                    + figures.unfinished
                    + figures.lost;
                assert_eq!(figures.planned, sum, "{}", cell.id);
            }
            let by_endpoint = measured.by_endpoint.values().map(|part| part.committed);
            assert_eq!(by_endpoint.sum::<u64>(), measured.figures.committed);
        }
    }
}

#[test]
fn merged_rates_are_total_work_over_total_time() {
    let summary = build(&sample::cells());
    let cell = summary.cells_of("A")[3];
    let committed: u64 = cell
        .reps
        .iter()
        .map(|rep| rep.measured.figures.committed)
        .sum();
    let seconds: f64 = cell.reps.iter().filter_map(|rep| rep.measured.span_s).sum();
    let merged = &cell.merged.measured;
    let throughput = merged.figures.throughput_per_s.unwrap();
    assert!((throughput - committed as f64 / seconds).abs() < 1e-5);
    assert_eq!(merged.figures.committed, committed);

    let of_reps: Vec<f64> = cell
        .reps
        .iter()
        .filter_map(|rep| rep.measured.figures.throughput_per_s)
        .collect();
    let interval = Mean95::of(&of_reps).unwrap();
    let reported = cell.merged.ci95["throughput_per_s"];
    assert!((reported.low - interval.low).abs() < 1e-5);
    assert!((reported.high - interval.high).abs() < 1e-5);
    assert_eq!(reported.n, 3);
    // An endpoint's rate is over the whole rep's time, so rates add up.
    let parts = merged.by_endpoint.values();
    let sum: f64 = parts.filter_map(|part| part.throughput_per_s).sum();
    assert!((sum - throughput).abs() < 1e-5);
}

#[test]
fn where_there_is_nothing_to_divide_there_is_null() {
    let cell = sample::cell("A", "writers=1", sample::params(1, 1, Trips::Stepwise));
    let summary = build(&[CellReport { cell, reps: vec![] }]);
    let text = to_json(&summary).unwrap();
    for key in [
        "first_try_pct",
        "throughput_per_s",
        "p50",
        "cpu_peak_pct",
        "ok",
    ] {
        assert!(text.contains(&format!("\"{key}\": null")), "{key}");
    }
    assert!(summary.partial && exit_code(&summary) == 2);
}

#[test]
fn the_last_attempt_at_a_rep_counts_and_every_one_stays() {
    let cell = sample::cell("A", "writers=1", sample::params(1, 1, Trips::Stepwise));
    let mut report = sample::report(cell);
    let good = report.reps[1].clone();
    report.reps[1] = RepReport {
        error: Some(RepError::Run("the connection was lost".into())),
        result: ShardResult::default(),
        ..good.clone()
    };
    let summary = build(std::slice::from_ref(&report));
    assert_eq!(exit_code(&summary), 2);
    assert_eq!(
        summary.cells[0].merged.measured.invalid_because,
        ["rep 2: did not run: the connection was lost"]
    );

    report.reps.push(RepReport { attempt: 2, ..good });
    let summary = build(&[report]);
    let cell = &summary.cells[0];
    assert_eq!((cell.reps.len(), cell.merged.reps), (4, 3));
    assert_eq!(cell.merged.measured.figures.planned, 3 * 128);
    assert_eq!(cell.merged.measured.attempt, 2);
    assert_eq!(exit_code(&summary), 0);
}

#[test]
fn a_pool_that_does_not_fill_is_a_result_of_zero() {
    let cell = sample::cell("A", "writers=1", sample::params(1, 1, Trips::Stepwise));
    let mut report = sample::report(cell);
    for rep in &mut report.reps {
        rep.result = ShardResult::default();
        rep.verify_ok = None;
        rep.error = Some(RepError::Pool(
            "256 of 512 connections refused (53300)".into(),
        ));
    }
    let summary = build(&[report]);
    let merged = &summary.cells[0].merged.measured;
    assert_eq!(merged.figures.throughput_per_s, Some(0.0));
    assert_eq!((merged.figures.planned, merged.figures.skipped), (384, 384));
    assert!(merged.valid);
    let error = summary.cells[0].reps[0].error.as_deref().unwrap();
    assert!(error.contains("53300"), "{error}");
    assert_eq!(exit_code(&summary), 0);
}

#[test]
fn blocks_know_their_axes_and_what_an_endpoint_costs() {
    let summary = build(&sample::cells());
    let axes: Vec<_> = summary
        .blocks
        .iter()
        .map(|block| block.axes.join(" "))
        .collect();
    assert_eq!(axes, ["writers", "batch", "trips writers"]);
    let first_try = &summary.blocks[0].low_contention_first_try_ms;
    assert!((first_try["us-east-1"].p50.unwrap() - 181.0).abs() < 3.0);
    assert!((first_try["us-east-2"].p50.unwrap() - 126.0).abs() < 3.0);
    assert!(summary.blocks[1].low_contention_first_try_ms.is_empty());
}

#[test]
fn what_is_reported_travels() {
    let mut cells = sample::with_trouble();
    sample::with_a_lost_shard(&mut cells[0].reps[1]);
    cells[1].reps[0].error = Some(RepError::Pool("53300".into()));
    cells[1].reps[1].error = Some(RepError::Run("gone".into()));
    for report in &cells {
        let text = serde_json::to_string(report).unwrap();
        assert_eq!(&serde_json::from_str::<CellReport>(&text).unwrap(), report);
    }
    let sweep = sample::sweep();
    let text = serde_json::to_string(&sweep).unwrap();
    let back: fabric_report::SweepInfo = serde_json::from_str(&text).unwrap();
    assert_eq!(back, sweep);
}

proptest! {
    /// Values over the shards of the reps of a cell; `merged` must say what
    /// all of them say together.
    #[test]
    fn merged_percentiles_are_those_of_all_raw_values(
        reps in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(1..30_000_000_u64, 0..60), 1..5),
            1..4,
        ),
    ) {
        let mut raw: Vec<u64> = reps.iter().flatten().flatten().copied().collect();
        let cell = sample::cell("A", "writers=1", sample::params(1, 1, Trips::Stepwise));
        let reps = (1_u32..).zip(&reps).map(|(rep, shards)| {
            let mut result = ShardResult::default();
            for values in shards {
                let mut shard = ShardResult::default();
                for us in values {
                    shard.total.latencies.response.record(Duration::from_micros(*us));
                }
                result.merge(&shard);
            }
            RepReport { rep, attempt: 1, result, ..RepReport::default() }
        });
        let summary = build(&[CellReport { cell, reps: reps.collect() }]);
        let response = summary.cells[0].merged.measured.figures.latency_ms.response;

        raw.sort_unstable();
        prop_assert_eq!(response.n, raw.len() as u64);
        prop_assert_eq!(response.max, raw.last().map(|us| *us as f64 / 1_000.0));
        for (per_mille, reported) in [
            (500, response.p50),
            (950, response.p95),
            (990, response.p99),
            (999, response.p999),
        ] {
            let rank = (per_mille * raw.len()).div_ceil(1_000).max(1);
            let exact = raw.get(rank - 1).map(|us| *us as f64 / 1_000.0);
            prop_assert_eq!(exact.is_some(), reported.is_some());
            if let (Some(exact), Some(reported)) = (exact, reported) {
                prop_assert!(reported >= exact && reported <= exact * 1.001);
            }
        }
    }
}
