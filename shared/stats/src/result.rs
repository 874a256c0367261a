//! What a shard reports, and how results are added up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Hist;

/// The outcome sum: planned = committed + rejected + failed + skipped +
/// unfinished + lost. (Prose on each term is the author's.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Operations that the plan holds for the window.
    pub planned: u64,
    /// Operations whose effect is confirmed.
    pub committed: u64,
    /// Refused by a business rule.
    pub rejected: u64,
    /// Failed operations by class (`target::Class::name`, `starved`,
    /// `deadline`, `connect_timeout`, `unresolved`).
    pub failed: BTreeMap<String, u64>,
    /// Never started.
    pub skipped: u64,
    /// Running when they were stopped.
    pub unfinished: u64,
    /// Belong to a worker that never reported.
    pub lost: u64,
    /// Attempts of committed, rejected and failed operations.
    pub attempts: u64,
    /// Attempts of committed operations.
    pub attempts_of_committed: u64,
    /// Attempts that lost a race.
    pub conflicts: u64,
    /// Operations that committed at their first attempt.
    pub first_try: u64,
    /// Operations that needed more than one attempt, however they ended.
    pub retried: u64,
    /// Rows of payload committed (append: records).
    pub records: u64,
    /// Attempts whose outcome was unknown when they ended.
    pub unknown: Unknown,
}

/// Attempts whose COMMIT was sent and not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// All of them: total = committed + absent + unresolved.
    pub total: u64,
    /// Found to have committed.
    pub committed: u64,
    /// Found not to have, for good.
    pub absent: u64,
    /// Not known when the operation had to end.
    pub unresolved: u64,
}

/// The latency histograms that are kept apart.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Planned start to end, of every operation that was started.
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

/// Counts and latencies of one part: the whole, an endpoint, a kind of operation.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Outcomes.
    pub counts: Counts,
    /// Latencies.
    pub latencies: Latencies,
}

/// Round trips (`SELECT 1`) measured at one endpoint.
#[derive(Clone, Debug, Default)]
pub struct RoundTrips {
    /// Before the window.
    pub before: Hist,
    /// After it.
    pub after: Hist,
    /// Time on the wire alone: the round trip less the server's own part.
    pub wire_us: Option<u64>,
}

/// What one shard of a wave did, ready to be added to the others.
#[derive(Clone, Debug, Default)]
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
    /// Length of the window when time bounds it, us.
    pub window_us: Option<u64>,
    /// Operations whose commit fell into the window.
    pub committed_in_window: u64,
    /// Attempts that ended in the window.
    pub attempts_in_window: u64,
    /// Records whose commit fell into the window.
    pub records_in_window: u64,
    /// The course over time.
    pub series: Series,
    /// Highest process CPU over the window, percent of the vCPUs; `None` in
    /// simulated time.
    pub cpu_peak_pct: Option<f64>,
    /// The rep was aborted (too many starved appends).
    pub aborted: bool,
    /// Somebody stopped it (Ctrl-C, a stop flag, the end of the Lambda).
    pub stopped: bool,
}

/// A time series of bounded size. (Its author decides the representation: at
/// most 240 buckets whose width doubles when they run out, mergeable.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {}
