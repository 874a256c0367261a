//! What a shard reports, and how results are added up.
//!
//! Adding is what makes a fleet's report the same as one process's: counts are
//! summed and histograms merged bucket by bucket, so a percentile over shards
//! is the percentile of all their values and never a mean of percentiles.
//! [`ShardResult::merge`] adds shards that ran side by side, on one clock of
//! "us since the barrier"; reps run one after the other, so over them parts are
//! merged ([`Part::merge`]) and spans are summed ([`Rates::merge`]).
//!
//! Every `merge` takes its argument apart by name: a new field does not compile
//! until somebody has said how it is added.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Counts, Hist, LockWaits, Series};

/// The latency histograms that are kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// Planned start to end, of every operation that was started and ended.
    pub response: Hist,
    /// The last attempt alone.
    pub service: Hist,
    /// Response of operations that committed at their first attempt.
    pub first_try: Hist,
    /// Response of committed operations.
    pub committed: Hist,
    /// Planned to actual start.
    pub lag: Hist,
    /// Waiting for a connection.
    pub wait: Hist,
    /// Opening connections.
    pub connect: Hist,
    /// COMMIT alone, where it was awaited by itself.
    pub commit: Hist,
    /// Response of failed operations.
    pub failed: Hist,
    /// Response less awaited round trips times the endpoint's wire time.
    pub net: Hist,
    /// Operations whose net came out below 0 (not in the histogram).
    pub net_negative: u64,
}

impl Latencies {
    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Latencies) {
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
        } = other;
        self.response.merge(response);
        self.service.merge(service);
        self.first_try.merge(first_try);
        self.committed.merge(committed);
        self.lag.merge(lag);
        self.wait.merge(wait);
        self.connect.merge(connect);
        self.commit.merge(commit);
        self.failed.merge(failed);
        self.net.merge(net);
        self.net_negative += net_negative;
    }
}

/// What ended inside of a window that time bounds: the numerators of
/// throughput. An operation planned in the window can commit after it, and one
/// planned in the warm-up can commit inside, so these differ a little from
/// [`Counts`], which belong to the window that the planned start falls in.
/// Where a count bounds the rep, all measured operations are inside and these
/// stay 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InWindow {
    /// Operations whose commit fell into the window.
    pub committed: u64,
    /// Attempts that ended in the window.
    pub attempts: u64,
    /// Records whose commit fell into the window.
    pub records: u64,
}

impl InWindow {
    /// Adds the counts of another.
    pub fn merge(&mut self, other: &InWindow) {
        let InWindow {
            committed,
            attempts,
            records,
        } = other;
        self.committed += committed;
        self.attempts += attempts;
        self.records += records;
    }
}

/// Counts and latencies of one part: the whole, an endpoint, a kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Outcomes.
    pub counts: Counts,
    /// Latencies.
    pub latencies: Latencies,
    /// What ended in the window, where time bounds it.
    pub in_window: InWindow,
}

impl Part {
    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Part) {
        let Part {
            counts,
            latencies,
            in_window,
        } = other;
        self.counts.merge(counts);
        self.latencies.merge(latencies);
        self.in_window.merge(in_window);
    }
}

/// Round trips (`SELECT 1`) measured at one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// Before the window.
    pub before: Hist,
    /// After it.
    pub after: Hist,
    /// Time on the wire alone: the round trip less the server's own part.
    pub wire_us: Option<u64>,
}

impl RoundTrips {
    /// Adds another's measurements; the wire is what the fastest of the two saw.
    pub fn merge(&mut self, other: &RoundTrips) {
        let RoundTrips {
            before,
            after,
            wire_us,
        } = other;
        self.before.merge(before);
        self.after.merge(after);
        self.wire_us = either(self.wire_us, *wire_us, u64::min);
    }
}

/// What one shard of a wave did, ready to be added to the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardResult {
    /// Everything.
    pub total: Part,
    /// By the endpoint's name.
    pub by_endpoint: BTreeMap<String, Part>,
    /// By the kind of operation.
    pub by_operation: BTreeMap<String, Part>,
    /// Round trips by the endpoint's name.
    pub round_trips: BTreeMap<String, RoundTrips>,
    /// Start of the first measured operation, us since the barrier.
    pub first_start_us: Option<u64>,
    /// End of the last measured operation, us since the barrier.
    pub last_end_us: Option<u64>,
    /// Start of the first operation, us since the barrier, warm-up included: of
    /// a leg of a longer wave, when the leg took over.
    pub leg_first_us: Option<u64>,
    /// End of the last operation, likewise.
    pub leg_last_us: Option<u64>,
    /// How long after its planned instant the load began, us; of several
    /// shards, the latest.
    pub start_late_us: Option<u64>,
    /// Length of the window when time bounds it, us; what was left of it when
    /// the shard was stopped.
    pub window_us: Option<u64>,
    /// The course over time.
    pub series: Series,
    /// How sessions waited for locks; `None` where nobody looked: on targets
    /// without lock waits.
    pub lock_waits: Option<LockWaits>,
    /// Highest process CPU over the window, percent of the vCPUs; `None` in
    /// simulated time.
    pub cpu_peak_pct: Option<f64>,
    /// This process's clock less the store's, us, as estimated; `None` where
    /// there is no store.
    pub clock_offset_us: Option<i64>,
    /// The rep was aborted (too many starved appends).
    pub aborted: bool,
    /// Somebody stopped it (Ctrl-C, a stop flag, the end of the Lambda).
    pub stopped: bool,
}

impl ShardResult {
    /// Adds another shard of the same wave.
    pub fn merge(&mut self, other: &ShardResult) {
        let ShardResult {
            total,
            by_endpoint,
            by_operation,
            round_trips,
            first_start_us,
            last_end_us,
            leg_first_us,
            leg_last_us,
            start_late_us,
            window_us,
            series,
            lock_waits,
            cpu_peak_pct,
            clock_offset_us,
            aborted,
            stopped,
        } = other;
        self.total.merge(total);
        merge_parts(&mut self.by_endpoint, by_endpoint);
        merge_parts(&mut self.by_operation, by_operation);
        merge_round_trips(&mut self.round_trips, round_trips);
        self.first_start_us = either(self.first_start_us, *first_start_us, u64::min);
        self.last_end_us = either(self.last_end_us, *last_end_us, u64::max);
        self.leg_first_us = either(self.leg_first_us, *leg_first_us, u64::min);
        self.leg_last_us = either(self.leg_last_us, *leg_last_us, u64::max);
        self.start_late_us = either(self.start_late_us, *start_late_us, u64::max);
        self.window_us = either(self.window_us, *window_us, u64::max);
        self.series.merge(series);
        if let Some(seen) = lock_waits {
            self.lock_waits.get_or_insert_default().merge(seen);
        }
        self.cpu_peak_pct = either(self.cpu_peak_pct, *cpu_peak_pct, f64::max);
        self.clock_offset_us = either(self.clock_offset_us, *clock_offset_us, farther);
        self.aborted |= aborted;
        self.stopped |= stopped;
    }

    /// What throughput divides by, in us: the window where time bounds it, else
    /// first start to last end. `None` when nothing ran.
    pub fn span_us(&self) -> Option<u64> {
        let ran = match (self.first_start_us, self.last_end_us) {
            (Some(first), Some(last)) => last.checked_sub(first),
            _ => None,
        };
        self.window_us.or(ran).filter(|span| *span > 0)
    }

    /// The rates of the whole or of one of its parts.
    pub fn rates_of(&self, part: &Part) -> Rates {
        let Part {
            counts, in_window, ..
        } = part;
        let done = match self.window_us {
            Some(_) => *in_window,
            None => InWindow {
                committed: counts.committed,
                attempts: counts.attempts,
                records: counts.records,
            },
        };
        Rates {
            done,
            span_us: self.span_us(),
        }
    }
}

/// Adds parts by name.
pub fn merge_parts(into: &mut BTreeMap<String, Part>, from: &BTreeMap<String, Part>) {
    for (name, part) in from {
        into.entry(name.clone()).or_default().merge(part);
    }
}

/// Adds round trips by the endpoint's name.
pub fn merge_round_trips(
    into: &mut BTreeMap<String, RoundTrips>,
    from: &BTreeMap<String, RoundTrips>,
) {
    for (name, trips) in from {
        into.entry(name.clone()).or_default().merge(trips);
    }
}

/// What was done and the time that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Numerators.
    pub done: InWindow,
    /// Denominator, us; `None` when nothing ran.
    pub span_us: Option<u64>,
}

impl Rates {
    /// Adds another rep: total work over total time.
    pub fn merge(&mut self, other: &Rates) {
        let Rates { done, span_us } = other;
        self.done.merge(done);
        self.span_us = either(self.span_us, *span_us, u64::saturating_add);
    }

    /// Operations committed per second.
    pub fn throughput_per_s(&self) -> Option<f64> {
        self.per_second(self.done.committed)
    }

    /// Attempts ended per second.
    pub fn attempts_per_s(&self) -> Option<f64> {
        self.per_second(self.done.attempts)
    }

    /// Records committed per second.
    pub fn records_per_s(&self) -> Option<f64> {
        self.per_second(self.done.records)
    }

    fn per_second(&self, count: u64) -> Option<f64> {
        self.span_us.map(|us| count as f64 / (us as f64 / 1e6))
    }
}

/// The one that is there, or both combined.
fn either<T>(a: Option<T>, b: Option<T>, combine: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(combine(a, b)),
        (a, b) => a.or(b),
    }
}

/// The offset that is farther from 0; of two as far, the positive one.
fn farther(a: i64, b: i64) -> i64 {
    std::cmp::max_by_key(a, b, |offset| (offset.unsigned_abs(), *offset))
}
