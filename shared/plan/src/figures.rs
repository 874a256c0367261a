//! The figures that a threshold may be set on: those of `merged` in
//! `summary.json` that are a single number.

use std::sync::LazyLock;

/// Every figure, in the order of the summary.
pub(crate) static FIGURES: LazyLock<Vec<String>> = LazyLock::new(figures);

const COUNTS: &[&str] = &[
    "planned",
    "committed",
    "rejected",
    "skipped",
    "unfinished",
    "lost",
    "starved",
    "attempts",
    "conflicts",
    "deadlocks",
    "first_try_pct",
    "attempts_per_commit",
    "raw_conflict_pct",
    "final_failure_pct",
    "throughput_per_s",
    "attempts_per_s",
    "records_per_s",
];

/// Classes that `failed` is split by.
const CLASSES: &[&str] = &[
    "conflict",
    "schema_conflict",
    "deadlock",
    "unavailable",
    "connect_refused",
    "limit",
    "unsupported",
    "constraint",
    "connection_lost",
    "access_denied",
    "other",
    "starved",
    "deadline",
    "connect_timeout",
    "unresolved",
];

const LATENCIES: &[&str] = &[
    "response",
    "service",
    "first_try",
    "committed",
    "lag",
    "wait",
    "connect",
    "commit",
    "failed",
    "net",
];

const QUANTILES: &[&str] = &["n", "p50", "p95", "p99", "p999", "max"];

const LOCK_WAITS: &[&str] = &["mean", "peak", "longest_ms"];

const UNKNOWN: &[&str] = &["total", "committed", "absent", "unresolved"];

const INSTRUMENT: &[&str] = &[
    "cpu_peak_pct",
    "rate_reached_pct",
    "clock_offset_ms",
    "start_late_ms",
    "start_spread_ms",
    "handover_gap_ms",
];

fn figures() -> Vec<String> {
    let mut all: Vec<String> = COUNTS.iter().map(|&name| name.to_owned()).collect();
    all.extend(CLASSES.iter().map(|class| format!("failed.{class}")));
    for latency in LATENCIES {
        all.extend(
            QUANTILES
                .iter()
                .map(|quantile| format!("latency_ms.{latency}.{quantile}")),
        );
    }
    all.extend(LOCK_WAITS.iter().map(|part| format!("lock_waits.{part}")));
    all.extend(UNKNOWN.iter().map(|part| format!("unknown.{part}")));
    all.extend(INSTRUMENT.iter().map(|part| format!("instrument.{part}")));
    all
}
