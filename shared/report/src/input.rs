//! What a report is made of: the runner fills these in, [`Summary::build`]
//! turns them into figures.
//!
//! [`Summary::build`]: crate::Summary::build

use plan::Cell;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::ShardResult;

/// The sweep as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepInfo {
    /// The sweep's name.
    pub name: String,
    /// What it is about, in the author's words.
    pub about: Option<String>,
    /// The seed that everything random follows from.
    pub seed: u64,
    /// The databases under load.
    pub targets: Vec<TargetInfo>,
}

/// One database under load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// Its name in the sweep.
    pub name: String,
    /// How it is reached, such as `sim:us-pair-workstation`. A password in it
    /// is removed when the summary is built.
    pub url: String,
    /// `simulator`, `dsql` or `postgres`.
    pub kind: String,
    /// Whether its figures are simulated ones.
    pub simulated: bool,
}

/// One cell and everything that was measured of it. A cell that did not come to
/// run is handed in too, with no reps: what is missing must be seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellReport {
    /// The cell as planned.
    pub cell: Cell,
    /// Its repetitions in the order in which they ran, every attempt at one.
    pub reps: Vec<RepReport>,
}

/// One attempt at one repetition, its shards already merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RepReport {
    /// Which repetition, from 1.
    pub rep: u32,
    /// Which attempt at it, from 1; the last one counts.
    pub attempt: u32,
    /// The merged results of the shards that reported.
    pub result: ShardResult,
    /// Operations that the plan holds, where a number of operations bounds the
    /// rep. What the shards did not report of it is added as lost when a worker
    /// is missing, as skipped when one was late or the rep could not run or was
    /// stopped, and left unaccounted for otherwise.
    pub planned: Option<u64>,
    /// Workers that the wave was made of.
    pub workers_expected: u32,
    /// Workers that reported.
    pub workers_reported: u32,
    /// Workers that came too late for the start instant and did no load.
    pub workers_late: u32,
    /// Names of the shards that never reported.
    pub missing: Vec<String>,
    /// What is last known of them; in no total.
    pub partial_progress: Vec<PartialShard>,
    /// From the first worker's start to the last one's, ms; `None` where one
    /// process did it all.
    pub start_spread_ms: Option<f64>,
    /// The longest time at a hand-over between two legs in which no operation of
    /// either ran, ms; `None` where the wave has one leg.
    pub handover_gap_ms: Option<f64>,
    /// Schema and first rows.
    pub prepare: Option<Step>,
    /// Checking the database against what the driver was told.
    pub verify: Option<Step>,
    /// Deleting the rep's rows.
    pub clean: Option<Step>,
    /// Whether everything was as it must be; `None` when it was not checked.
    pub verify_ok: Option<bool>,
    /// What was not, a line each.
    pub verify_problems: Vec<String>,
    /// Why it could not run, or not to its end.
    pub error: Option<RepError>,
    /// It ended before its plan did (Ctrl-C, a stop flag, the end of a Lambda).
    pub partial: bool,
}

/// The last that was heard of a shard that never reported. Operations may have
/// ended since, so it counts nowhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PartialShard {
    /// Its name.
    pub shard: String,
    /// When that was, in seconds since the start of the rep; null where it did
    /// not come to start.
    pub at_s: Option<f64>,
    /// Operations that had ended.
    pub ended: u64,
    /// Operations among them that committed.
    pub committed: u64,
    /// Operations among them that failed, starved ones included.
    pub failed: u64,
    /// Operations among them that starved.
    pub starved: u64,
    /// Attempts that had lost a race.
    pub conflicts: u64,
}

/// Rows and seconds of a step beside the measured window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Rows written, read or deleted.
    pub rows: u64,
    /// How long, by the target's clock.
    pub seconds: f64,
}

/// Why a rep could not run, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum RepError {
    /// Its connections could not all be opened. That is a result: 0 operations
    /// per second, and the reason.
    #[error("the connection pool did not fill: {0}")]
    Pool(String),
    /// Anything else that is no result: the target was not there, preparing or
    /// verifying failed, a worker broke.
    #[error("{0}")]
    Run(String),
}
