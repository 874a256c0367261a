//! Counts, rates and latencies of one part of a cell, as they stand in
//! `summary.json`: derived from [`stats::Part`] in one place, so that the
//! whole, an endpoint and a kind of operation can't be computed differently.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Counts, Hist, Latencies, Part, Rates};

/// Digits after the decimal point of every number with a fraction.
const DIGITS: i32 = 6;

/// Rounds to the digits that are reported, so that the last bits of a
/// computation never reach a file and what is read back equals what was written.
pub(crate) fn round(value: f64) -> f64 {
    let scale = 10_f64.powi(DIGITS);
    let rounded = (value * scale).round() / scale;
    // No figure is "minus zero".
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// Outcomes, attempts, rates and latencies of the whole or of a part.
///
/// planned = committed + rejected + failed + skipped + unfinished + lost, or
/// `unaccounted` says by how much not. Ratios and rates are null where there is
/// nothing to divide.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Figures {
    /// Operations that the plan holds for the window (in a closed loop: started).
    pub planned: u64,
    /// Operations whose effect is confirmed.
    pub committed: u64,
    /// Operations that a business rule refused; no failures.
    pub rejected: u64,
    /// Operations that were tried and given up, by class: that of the last
    /// error, or `starved`, `deadline`, `connect_timeout`, `unresolved`.
    pub failed: BTreeMap<String, u64>,
    /// Operations that were never started.
    pub skipped: u64,
    /// Operations that were running when they were stopped.
    pub unfinished: u64,
    /// Operations of workers that never reported.
    pub lost: u64,
    /// `failed.starved`: operations that used up their attempts losing races.
    pub starved: u64,
    /// planned less the sum of outcomes; anything but 0 makes the rep invalid.
    pub unaccounted: i64,
    /// Attempts of committed, rejected and failed operations.
    pub attempts: u64,
    /// Attempts that lost a race.
    pub conflicts: u64,
    /// Of these, those that the database ended to break a deadlock (40P01).
    #[serde(default)]
    pub deadlocks: u64,
    /// Operations that committed at attempt 1.
    pub first_try: u64,
    /// Operations with more than one attempt, however they ended.
    pub retried: u64,
    /// Records committed (append); null for other workloads.
    pub records: Option<u64>,
    /// Percent of committed operations that committed at attempt 1.
    pub first_try_pct: Option<f64>,
    /// Attempts of committed operations for each of them.
    pub attempts_per_commit: Option<f64>,
    /// Percent of all attempts that lost a race.
    pub raw_conflict_pct: Option<f64>,
    /// Percent of committed, rejected and failed operations that failed.
    pub final_failure_pct: Option<f64>,
    /// Percent of committed, rejected and failed operations that needed more
    /// than one attempt.
    pub retried_pct: Option<f64>,
    /// Operations committed per second: commits in the window by its length, or
    /// all by first start to last end where a count bounds the rep.
    pub throughput_per_s: Option<f64>,
    /// Attempts ended per second, over the same time.
    pub attempts_per_s: Option<f64>,
    /// Records committed per second, over the same time (append).
    pub records_per_s: Option<f64>,
    /// Attempts whose COMMIT was sent and not answered.
    pub unknown: UnknownOutcomes,
    /// Latencies in milliseconds.
    pub latency_ms: LatencyMs,
}

/// Attempts whose COMMIT was sent and not answered:
/// total = committed + absent + unresolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct UnknownOutcomes {
    /// All of them.
    pub total: u64,
    /// Looked up and found to have committed.
    pub committed: u64,
    /// Looked up and found not to have, for good.
    pub absent: u64,
    /// Not known when the operation had to end.
    pub unresolved: u64,
}

/// Latencies in milliseconds, each kind with its own number of values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LatencyMs {
    /// Planned start to end: all attempts, back-off, waiting, reconnecting and
    /// look-ups included.
    pub response: Quantiles,
    /// The last attempt alone.
    pub service: Quantiles,
    /// Response of operations that committed at their first attempt.
    pub first_try: Quantiles,
    /// Response of committed operations.
    pub committed: Quantiles,
    /// Planned to actual start.
    pub lag: Quantiles,
    /// Waiting for a connection.
    pub wait: Quantiles,
    /// Opening connections.
    pub connect: Quantiles,
    /// COMMIT alone, where it was awaited by itself.
    pub commit: Quantiles,
    /// Response of failed operations.
    pub failed: Quantiles,
    /// Response less awaited round trips times the endpoint's wire time.
    pub net: NetQuantiles,
}

/// Quantiles of one kind of latency, in milliseconds; null when n is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Quantiles {
    /// Number of values.
    pub n: u64,
    /// Half of the values are at most this.
    pub p50: Option<f64>,
    /// 95% are.
    pub p95: Option<f64>,
    /// 99% are.
    pub p99: Option<f64>,
    /// 99.9% are.
    pub p999: Option<f64>,
    /// The largest value, exact.
    pub max: Option<f64>,
    /// How many of the n lie over the histogram's range of an hour.
    pub out_of_range: u64,
}

/// Quantiles of `net`, and how often it came out below 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NetQuantiles {
    /// Of the values that are not below 0.
    #[serde(flatten)]
    pub quantiles: Quantiles,
    /// Values below 0; not among the n.
    pub below_zero: u64,
}

impl Figures {
    /// Derives the figures of a part. `with_records`: the workload counts them.
    pub(crate) fn of(part: &Part, rates: &Rates, with_records: bool) -> Figures {
        let Part {
            counts, latencies, ..
        } = part;
        let Counts {
            planned,
            committed,
            rejected,
            failed,
            skipped,
            unfinished,
            lost,
            attempts,
            attempts_of_committed: _,
            conflicts,
            deadlocks,
            first_try,
            retried,
            records,
            unknown,
        } = counts;
        Figures {
            planned: *planned,
            committed: *committed,
            rejected: *rejected,
            failed: failed.clone(),
            skipped: *skipped,
            unfinished: *unfinished,
            lost: *lost,
            starved: counts.starved(),
            unaccounted: counts.unaccounted(),
            attempts: *attempts,
            conflicts: *conflicts,
            deadlocks: *deadlocks,
            first_try: *first_try,
            retried: *retried,
            records: with_records.then_some(*records),
            first_try_pct: counts.first_try_pct().map(round),
            attempts_per_commit: counts.attempts_per_commit().map(round),
            raw_conflict_pct: counts.raw_conflict_pct().map(round),
            final_failure_pct: counts.final_failure_pct().map(round),
            retried_pct: counts.retried_pct().map(round),
            throughput_per_s: rates.throughput_per_s().map(round),
            attempts_per_s: rates.attempts_per_s().map(round),
            records_per_s: rates.records_per_s().filter(|_| with_records).map(round),
            unknown: UnknownOutcomes {
                total: unknown.total,
                committed: unknown.committed,
                absent: unknown.absent,
                unresolved: unknown.unresolved,
            },
            latency_ms: LatencyMs::of(latencies),
        }
    }

    /// Failed operations of all classes.
    pub fn failed_total(&self) -> u64 {
        self.failed.values().sum()
    }
}

impl LatencyMs {
    fn of(latencies: &Latencies) -> LatencyMs {
        let Latencies {
            response,
            service,
            first_try,
            committed,
            lag,
            wait,
            connect,
            commit,
            failed,
            net,
            net_negative,
        } = latencies;
        LatencyMs {
            response: Quantiles::of(response),
            service: Quantiles::of(service),
            first_try: Quantiles::of(first_try),
            committed: Quantiles::of(committed),
            lag: Quantiles::of(lag),
            wait: Quantiles::of(wait),
            connect: Quantiles::of(connect),
            commit: Quantiles::of(commit),
            failed: Quantiles::of(failed),
            net: NetQuantiles {
                quantiles: Quantiles::of(net),
                below_zero: *net_negative,
            },
        }
    }

    /// Every kind with its name, in the order of the file.
    pub fn kinds(&self) -> [(&'static str, &Quantiles); 10] {
        [
            ("response", &self.response),
            ("service", &self.service),
            ("first_try", &self.first_try),
            ("committed", &self.committed),
            ("lag", &self.lag),
            ("wait", &self.wait),
            ("connect", &self.connect),
            ("commit", &self.commit),
            ("failed", &self.failed),
            ("net", &self.net.quantiles),
        ]
    }
}

impl Quantiles {
    /// Of a histogram.
    pub(crate) fn of(hist: &Hist) -> Quantiles {
        let at = |percentile| hist.percentile_ms(percentile).map(round);
        Quantiles {
            n: hist.n(),
            p50: at(50.0),
            p95: at(95.0),
            p99: at(99.0),
            p999: at(99.9),
            max: hist.max_ms().map(round),
            out_of_range: hist.out_of_range(),
        }
    }
}
