//! The types of `summary.json`.
//!
//! It holds only what the sweep and the seed decide: on the simulator the same
//! two give the same file to the byte, so no wall time, host or date is in it
//! (those are in `run.json`). Field order is the order of these declarations,
//! maps are sorted by key, numbers with a fraction are rounded to six digits
//! after the point, and a figure with nothing to divide is null. How the values
//! come about is in `build`; whether they can be trusted, in `judge`.

use std::collections::BTreeMap;

use plan::{Params, Threshold};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figures::{Figures, Quantiles};
use crate::input::PartialShard;

/// The version of the file's form; raised when a reader would have to change.
pub const VERSION: u32 = 1;

/// A sweep's results: `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Summary {
    /// Version of this form: 1.
    pub version: u32,
    /// The sweep's name.
    pub name: String,
    /// What it is about.
    pub about: Option<String>,
    /// The seed that everything random followed from.
    pub seed: u64,
    /// Whether any target was a simulated one.
    pub simulated: bool,
    /// Whether something of the plan is missing: stopped reps, cells that did
    /// not run.
    pub partial: bool,
    /// The databases under load.
    pub targets: Vec<TargetSummary>,
    /// Whether it can be trusted, and whether it is good.
    pub verdict: Verdict,
    /// The blocks of the sweep, with what is added up over their cells.
    pub blocks: Vec<BlockSummary>,
    /// One entry per cell of the plan, in its order.
    pub cells: Vec<CellSummary>,
}

/// One database under load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TargetSummary {
    /// Its name in the sweep.
    pub name: String,
    /// How it is reached; never with a password.
    pub url: String,
    /// `simulator`, `dsql` or `postgres`.
    pub kind: String,
    /// Whether its figures are simulated.
    pub simulated: bool,
}

/// Whether the results can be trusted (`invalid`), and whether they are good
/// (`invariants`, `thresholds`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Verdict {
    /// Nothing below is there.
    pub ok: bool,
    /// Cells whose figures can't be trusted or of which something is missing.
    /// Their thresholds are not judged.
    pub invalid: Vec<Reasons>,
    /// Limits of the sweep that a valid cell broke.
    pub thresholds: Vec<BrokenThreshold>,
    /// Reps after which the database was not as it must be.
    pub invariants: Vec<BrokenInvariant>,
}

/// A cell, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Reasons {
    /// The cell's id.
    pub cell: String,
    /// Why, a line each.
    pub because: Vec<String>,
}

/// A limit that was broken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BrokenThreshold {
    /// The cell's id.
    pub cell: String,
    /// Path of the figure under `merged`.
    pub figure: String,
    /// Its value; null where there is none, which breaks every limit.
    pub value: Option<f64>,
    /// It should have been at least this.
    pub min: Option<f64>,
    /// It should have been at most this.
    pub max: Option<f64>,
}

/// A rep whose verification failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BrokenInvariant {
    /// The cell's id.
    pub cell: String,
    /// The rep.
    pub rep: u32,
    /// The attempt at it.
    pub attempt: u32,
    /// What was wrong, a line each.
    pub problems: Vec<String>,
}

/// A block of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BlockSummary {
    /// Its name.
    pub name: String,
    /// The parameters that differ between its cells, as paths under `params`
    /// (or `target`).
    pub axes: Vec<String>,
    /// For append, where only `writers` differs: response of first-try commits
    /// by endpoint in ms, over all its cells of up to 8 writers per stream. It
    /// is what one append costs from there while hardly anyone is in the way.
    pub low_contention_first_try_ms: BTreeMap<String, Quantiles>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CellSummary {
    /// Unique within the sweep: the block's name and the axes that vary in it.
    pub id: String,
    /// The block that it comes from.
    pub block: String,
    /// The workload's name.
    pub workload: String,
    /// Name of the target that it ran on.
    pub target: String,
    /// Whether that target's figures are simulated.
    pub simulated: bool,
    /// All parameters, defaults included.
    pub params: Params,
    /// Repetitions that the plan holds.
    pub reps_planned: u32,
    /// Limits on figures of `merged`.
    pub thresholds: Vec<Threshold>,
    /// Every attempt at every repetition.
    pub reps: Vec<RepSummary>,
    /// The last attempts at all repetitions, added up.
    pub merged: Merged,
}

/// One attempt at one repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RepSummary {
    /// Which repetition, from 1.
    pub rep: u32,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Measured,
    /// Why it could not run, or not to its end.
    pub error: Option<String>,
    /// Names of the shards that never reported.
    #[serde(default)]
    pub missing: Vec<String>,
    /// What is last known of them. Partial, and in none of the figures.
    #[serde(default)]
    pub partial_progress: Vec<PartialShard>,
}

/// All repetitions of a cell, added up: counts summed, histograms merged bucket
/// by bucket, rates as total work over total time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Merged {
    /// Repetitions in it.
    pub reps: u32,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Measured,
    /// 95% confidence intervals (Student's t) of the mean over the reps, by the
    /// figure's path; missing where fewer than two reps have the figure.
    pub ci95: BTreeMap<String, Interval>,
    /// The distribution of `latency_ms.response`.
    pub response_curve: Curve,
}

/// What a rep and `merged` have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Measured {
    /// Which attempt at the rep, from 1; of `merged`, the highest.
    pub attempt: u32,
    /// Whether the figures can be trusted.
    pub valid: bool,
    /// Why not, a line each.
    pub invalid_because: Vec<String>,
    /// Operations waited for a connection of the generator (p99 over 10 ms):
    /// the pool, and not the database, may be what limits.
    pub generator_limited: bool,
    /// It was aborted because too many operations starved. That is a result.
    pub aborted: bool,
    /// It was stopped before its plan ended.
    pub partial: bool,
    /// What rates divide by, in seconds; null when nothing ran.
    pub span_s: Option<f64>,
    /// Counts, rates and latencies.
    #[serde(flatten)]
    pub figures: Figures,
    /// The same by endpoint.
    pub by_endpoint: BTreeMap<String, Figures>,
    /// The same by kind of operation.
    pub by_operation: BTreeMap<String, Figures>,
    /// Round trips (`SELECT 1`) by endpoint, in milliseconds.
    pub rtt_ms: BTreeMap<String, Rtt>,
    /// The database checked against what the driver was told.
    pub verify: Verify,
    /// Schema and first rows.
    pub prepare: StepSummary,
    /// Deleting the rep's rows.
    pub clean: StepSummary,
    /// How sessions waited for each other's locks; null where nobody looked: on
    /// targets without lock waits.
    #[serde(default)]
    pub lock_waits: Option<LockWaitsSummary>,
    /// The load generator.
    pub instrument: Instrument,
    /// The course over time; of `merged`, the sum of all reps.
    pub series: SeriesSummary,
}

/// Sessions that waited for locks, as seen ten times a second in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LockWaitsSummary {
    /// How often somebody looked.
    pub looks: u64,
    /// Sessions that waited, on average over the looks.
    pub mean: f64,
    /// The most that waited at once.
    pub peak: u64,
    /// The longest that a waiting statement had been running, ms.
    pub longest_ms: f64,
}

/// Round trips at one endpoint, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Rtt {
    /// Median before the window.
    pub before_p50: Option<f64>,
    /// Median after it.
    pub after_p50: Option<f64>,
    /// On the wire alone: less the server's own part.
    pub wire: Option<f64>,
}

/// Verification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Verify {
    /// Whether everything was as it must be; null when it was not checked. Of
    /// `merged`: whether every rep was.
    pub ok: Option<bool>,
    /// What was not, a line each.
    pub problems: Vec<String>,
    /// Rows checked.
    pub rows: Option<u64>,
    /// Seconds by the target's clock.
    pub seconds: Option<f64>,
}

/// A step beside the measured window; null when it did not take place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct StepSummary {
    /// Rows written or deleted.
    pub rows: Option<u64>,
    /// Seconds by the target's clock.
    pub seconds: Option<f64>,
}

/// The load generator, which is judged before the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Instrument {
    /// Highest process CPU of a worker over the window, percent of its vCPUs;
    /// null in simulated time.
    pub cpu_peak_pct: Option<f64>,
    /// Percent of the planned operations that were sent within 10 ms of their
    /// plan; null in a closed loop, which has no rate to reach.
    pub rate_reached_pct: Option<f64>,
    /// A worker's clock less the store's, ms; the one farthest off. Null where
    /// there is no store.
    pub clock_offset_ms: Option<f64>,
    /// How long after the start instant the latest worker's load began, ms.
    pub start_late_ms: Option<f64>,
    /// From the first worker's start to the last one's, ms; null where one
    /// process did it all.
    pub start_spread_ms: Option<f64>,
    /// The longest time without an operation at a hand-over between two legs of
    /// a wave, ms; null where no worker handed over.
    pub handover_gap_ms: Option<f64>,
    /// Workers of the wave; of `merged`, of all waves.
    pub workers: u32,
    /// Workers that reported.
    pub workers_reported: u32,
    /// Workers that came too late for the start and did no load.
    pub workers_late: u32,
}

/// Mean over reps with its 95% confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Interval {
    /// Mean over the reps.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Reps that it comes from.
    pub n: u64,
}

/// Percentiles and their values, position by position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Curve {
    /// Percentiles, ascending; only those that there are enough values for.
    pub percentile: Vec<f64>,
    /// Their values in milliseconds.
    pub ms: Vec<f64>,
}

/// The course over time, a value per bucket and position by position. Buckets
/// begin at the start of the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SeriesSummary {
    /// Width of a bucket in seconds.
    pub bucket_s: f64,
    /// Operations that ended.
    pub ended: Vec<u64>,
    /// Operations that committed.
    pub committed: Vec<u64>,
    /// Operations that failed.
    pub failed: Vec<u64>,
    /// Attempts of the operations that ended.
    pub attempts: Vec<u64>,
    /// Attempts among them that lost a race.
    pub conflicts: Vec<u64>,
    /// Mean response time in ms; null where nothing ended.
    pub response_mean_ms: Vec<Option<f64>>,
    /// Longest response time in ms; null where nothing ended.
    pub response_max_ms: Vec<Option<f64>>,
}

impl Summary {
    /// The cells of a block, in the order of the plan.
    pub fn cells_of(&self, block: &str) -> Vec<&CellSummary> {
        let of_block = |cell: &&CellSummary| cell.block == block;
        self.cells.iter().filter(of_block).collect()
    }
}
