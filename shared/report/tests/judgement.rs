//! Each reason for which a rep is not trusted, each limit that can be broken,
//! and what they make of the exit code.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod sample;

use std::time::Duration;

use fabric_report::{CellReport, RepError, RepReport, Summary, exit_code, figure};
use plan::{Threshold, Trips};

fn good() -> CellReport {
    sample::report(sample::cell(
        "A",
        "writers=2",
        sample::params(2, 1, Trips::Stepwise),
    ))
}

fn build(report: CellReport) -> Summary {
    Summary::build(&sample::sweep(), &[report])
}

/// What one change to the second rep makes of the cell.
fn with(change: impl FnOnce(&mut RepReport)) -> Summary {
    let mut report = good();
    change(&mut report.reps[1]);
    build(report)
}

#[test]
fn a_sound_cell_is_valid() {
    let summary = build(good());
    assert!(summary.verdict.ok && !summary.partial);
    assert_eq!(exit_code(&summary), 0);
}

#[test]
fn each_reason_makes_a_cell_invalid() {
    type Change = fn(&mut RepReport);
    let table: [(Change, &str); 11] = [
        (
            |rep| rep.result.total.counts.committed -= 1,
            "rep 2: 1 operation unaccounted for",
        ),
        (
            |rep| rep.planned = Some(130),
            "rep 2: 2 operations unaccounted for",
        ),
        (
            |rep| rep.result.total.counts.unknown.total = 3,
            "rep 2: 3 unknown outcomes unaccounted for",
        ),
        (
            |rep| rep.workers_expected = 4,
            "rep 2: 3 of 4 workers never reported",
        ),
        (
            |rep| {
                rep.workers_expected = 3;
                rep.missing = vec!["shard 1".into(), "shard 2".into()];
            },
            "rep 2: 2 of 3 workers never reported: shard 1, shard 2",
        ),
        (
            |rep| {
                rep.workers_expected = 12;
                rep.missing = (1..12).map(|n| n.to_string()).collect();
            },
            "rep 2: 11 of 12 workers never reported: 1, 2, 3, 4, 5, 6, 7, 8 and 3 more",
        ),
        (
            |rep| rep.workers_late = 1,
            "rep 2: 1 of 1 workers came too late and did no load",
        ),
        (|rep| rep.partial = true, "rep 2: stopped before its end"),
        (
            |rep| rep.result.stopped = true,
            "rep 2: stopped before its end",
        ),
        (
            |rep| rep.result.cpu_peak_pct = Some(85.0),
            "rep 2: the load generator's CPU reached 85.0% (limit 85%)",
        ),
        (
            |rep| rep.verify_ok = None,
            "rep 2: its data was not verified",
        ),
    ];
    for (change, reason) in table {
        let summary = with(change);
        let merged = &summary.cells[0].merged.measured;
        assert_eq!(merged.invalid_because, [reason]);
        assert!(!merged.valid && !summary.verdict.ok);
        assert_eq!(summary.verdict.invalid[0].because, [reason]);
        assert!(!summary.cells[0].reps[1].measured.valid);
        assert!(summary.cells[0].reps[0].measured.valid);
        assert_eq!(exit_code(&summary), 2, "{reason}");
    }
}

#[test]
fn operations_of_a_missing_worker_are_lost() {
    let summary = with(|rep| {
        rep.planned = Some(256);
        rep.workers_expected = 2;
    });
    let figures = &summary.cells[0].reps[1].measured.figures;
    assert_eq!(
        (figures.planned, figures.lost, figures.unaccounted),
        (256, 128, 0)
    );
}

#[test]
fn operations_of_a_late_worker_are_skipped() {
    let summary = with(|rep| {
        rep.planned = Some(256);
        (rep.workers_expected, rep.workers_reported) = (2, 2);
        rep.workers_late = 1;
    });
    let rep = &summary.cells[0].reps[1].measured;
    assert_eq!((rep.figures.skipped, rep.figures.unaccounted), (128, 0));
    assert_eq!(
        rep.invalid_because,
        ["1 of 2 workers came too late and did no load"]
    );
    assert_eq!(exit_code(&summary), 2);
}

#[test]
fn what_a_stopped_rep_did_not_start_is_skipped() {
    let summary = with(|rep| {
        rep.planned = Some(200);
        rep.result.stopped = true;
    });
    let rep = &summary.cells[0].reps[1].measured;
    assert_eq!((rep.figures.skipped, rep.figures.unaccounted), (72, 0));
    assert!(rep.partial && summary.partial);
}

#[test]
fn an_error_after_the_load_keeps_its_figures() {
    let summary = with(|rep| rep.error = Some(RepError::Run("clean: connection lost".into())));
    let rep = &summary.cells[0].reps[1].measured;
    assert_eq!(
        rep.invalid_because,
        ["did not end well: clean: connection lost"]
    );
    assert_eq!(rep.figures.committed, 128);
    assert_eq!(exit_code(&summary), 2);
}

#[test]
fn a_rep_that_is_missing_makes_it_partial() {
    let mut report = good();
    report.reps.pop();
    let summary = build(report);
    assert!(summary.partial);
    assert_eq!(
        summary.verdict.invalid[0].because,
        ["1 of 3 reps did not run"]
    );
    assert_eq!(exit_code(&summary), 2);
}

#[test]
fn what_the_database_did_is_a_result() {
    for change in [
        (|rep| rep.result.aborted = true) as fn(&mut RepReport),
        |rep| rep.result.cpu_peak_pct = Some(84.9),
        |rep| {
            for _ in 0..500 {
                let wait = &mut rep.result.total.latencies.wait;
                wait.record(Duration::from_micros(9_000));
            }
        },
    ] {
        let summary = with(change);
        assert!(summary.verdict.ok);
        assert!(!summary.cells[0].merged.measured.generator_limited);
        assert_eq!(exit_code(&summary), 0);
    }
}

#[test]
fn waiting_for_connections_is_marked_and_not_judged() {
    let summary = with(|rep| {
        let wait = &mut rep.result.total.latencies.wait;
        wait.record(Duration::from_millis(11));
    });
    assert!(summary.cells[0].merged.measured.generator_limited);
    assert!(summary.cells[0].reps[1].measured.generator_limited);
    assert!(!summary.cells[0].reps[0].measured.generator_limited);
    assert!(summary.verdict.ok);
}

fn limit(figure: &str, min: Option<f64>, max: Option<f64>) -> Threshold {
    Threshold {
        figure: figure.into(),
        min,
        max,
    }
}

#[test]
fn a_broken_threshold_fails_the_run() {
    let judged = |limits: Vec<Threshold>| {
        let mut report = good();
        report.cell.thresholds = limits;
        build(report)
    };
    let kept = judged(vec![
        limit("throughput_per_s", Some(1.0), Some(100.0)),
        limit("latency_ms.response.p99", None, Some(1_000.0)),
        limit("by_endpoint.us-east-1.first_try_pct", Some(10.0), None),
        limit("starved", None, Some(0.0)),
    ]);
    assert!(kept.verdict.ok, "{:?}", kept.verdict);
    let broken = judged(vec![
        limit("throughput_per_s", Some(1_000.0), None),
        limit("latency_ms.response.p99", None, Some(1.0)),
        limit("latency_ms.failed.p50", None, Some(1.0)),
        limit("no.such.figure", None, Some(1.0)),
    ]);
    assert_eq!(broken.verdict.thresholds.len(), 4);
    assert_eq!(broken.verdict.thresholds[2].value, None);
    assert_eq!(exit_code(&broken), 3);
}

#[test]
fn thresholds_of_what_cannot_be_trusted_are_not_judged() {
    let mut report = good();
    report.cell.thresholds = vec![limit("throughput_per_s", Some(1_000.0), None)];
    report.reps[0].result.cpu_peak_pct = Some(97.0);
    let summary = build(report);
    assert!(summary.verdict.thresholds.is_empty());
    assert_eq!(exit_code(&summary), 2);
}

#[test]
fn a_broken_invariant_outranks_everything() {
    let summary = with(|rep| {
        rep.partial = true;
        rep.verify_ok = Some(false);
        rep.verify_problems = vec!["stream 7: seq 3 has the wrong prev_hash".into()];
    });
    assert_eq!(summary.verdict.invariants[0].rep, 2);
    assert_eq!(summary.cells[0].merged.measured.verify.ok, Some(false));
    assert_eq!(exit_code(&summary), 3);
}

#[test]
fn figures_are_found_by_their_path() {
    let mut report = good();
    report.reps[0].result.total.counts.fail("limit");
    let summary = build(report);
    let merged = &summary.cells[0].merged;
    for (path, value) in [
        ("failed.limit", Some(1.0)),
        ("failed.deadlock", Some(0.0)),
        ("by_endpoint.us-east-1.failed.deadlock", Some(0.0)),
        ("latency_ms.net.below_zero", Some(0.0)),
        ("instrument.cpu_peak_pct", None),
        ("ci95.throughput_per_s.n", Some(3.0)),
        ("verify.rows", Some(384.0)),
    ] {
        assert_eq!(figure(merged, path), Some(value), "{path}");
    }
    for path in [
        "by_endpoint.us-east-2.latency_ms.first_try.p50",
        "unknown.total",
    ] {
        assert!(figure(merged, path).flatten().is_some(), "{path}");
    }
    for path in [
        "",
        "latency_ms",
        "throughput",
        "by_endpoint.x",
        "valid",
        "failed.",
    ] {
        assert_eq!(figure(merged, path), None, "{path}");
    }
    for path in [
        "latency_ms.failed.p51",
        "by_endpoint.us-east-1.latency_ms.failed.p51",
    ] {
        assert_eq!(figure(merged, path), None, "{path}");
    }
}

#[test]
fn every_figure_that_a_sweep_may_limit_is_there() {
    // Where nobody looks for waiting sessions the whole is null.
    let summary = with(|rep| rep.result.lock_waits = Some(stats::LockWaits::default()));
    let merged = &summary.cells[0].merged;
    let schema = plan::schema();
    let figures = &schema["definitions"]["Threshold"]["properties"]["figure"]["enum"];
    let mut seen = 0;
    for path in figures.as_array().unwrap() {
        let path = path.as_str().unwrap();
        assert!(figure(merged, path).is_some(), "{path}");
        seen += 1;
    }
    assert!(seen > 50, "{seen} figures in the schema");
}
