//! What a worker does to the database, as the protocol sees it. [`Driver`]
//! does it for real; tests of the protocol put something else here.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clock::Time;
use drive::{Ended, Gate, Opening, Progress, ShardReport, Stop};
use serde::{Deserialize, Serialize};
use workload::{Claim, Step, Verified};

use crate::message::Job;

/// How a task ended; what a worker hands over.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ended", rename_all = "snake_case")]
pub enum Outcome {
    /// A load ran.
    Ran {
        /// What was measured.
        report: Box<ShardReport>,
    },
    /// A step beside the load was done.
    Stepped {
        /// Rows and time.
        step: Step,
        /// What the database says of itself, where it was asked.
        found: Option<Found>,
    },
    /// The database was checked.
    Checked {
        /// What was found.
        verified: Verified,
    },
    /// The worker came too late for the start and did no load.
    Late {
        /// By how much, in milliseconds.
        by_ms: i64,
    },
    /// The load was not started, and nothing was done.
    NotStarted {
        /// Why.
        why: String,
    },
    /// It could not be done.
    Failed {
        /// Why, in one line.
        why: String,
    },
}

impl Outcome {
    /// In one word.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Ran { .. } => "ran",
            Outcome::Stepped { .. } => "stepped",
            Outcome::Checked { .. } => "checked",
            Outcome::Late { .. } => "late",
            Outcome::NotStarted { .. } => "not started",
            Outcome::Failed { .. } => "failed",
        }
    }
}

/// What a database says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// It is the simulator.
    pub simulated: bool,
    /// Its version.
    pub server_version: Option<String>,
}

/// What a load has from the protocol.
pub struct Live {
    /// Set when it is to end.
    pub stop: Stop,
    /// Its live figures.
    pub progress: Arc<Progress>,
    /// When it ends in any case.
    pub stop_by: Time,
    /// When its connections open; `None` where they may at once.
    pub opening: Option<Opening>,
    /// vCPUs of this process.
    pub vcpus: f64,
}

/// Work on a database. Errors are one line for the report.
#[allow(async_fn_in_trait)]
pub trait Work {
    /// Makes tables and first rows, and asks the database what it is; may be
    /// done twice.
    ///
    /// # Errors
    /// Why it could not be done.
    async fn prepare(&self, job: &Job) -> Result<(Step, Found), String>;

    /// Opens connections, asks `gate` when to start, and does the load.
    ///
    /// # Errors
    /// Why not one operation ran.
    async fn load(&self, job: &Job, live: Live, gate: &impl Gate) -> Result<Ended, String>;

    /// Checks the database; `missing` are the writers of whom nobody knows what
    /// they were told.
    ///
    /// # Errors
    /// Why it could not be checked.
    async fn verify(
        &self,
        job: &Job,
        claims: &[Claim],
        missing: &[u32],
    ) -> Result<Verified, String>;

    /// Deletes the rep's rows; may be done twice.
    ///
    /// # Errors
    /// Why rows may be left.
    async fn clean(&self, job: &Job) -> Result<Step, String>;
}

/// Counts of a load under way: what a progress item holds, well under 1 KB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Operations that ended.
    pub ended: u64,
    /// Operations that committed.
    pub committed: u64,
    /// Attempts that lost a race.
    pub conflicts: u64,
    /// Operations that failed, starved ones included.
    pub failed: u64,
    /// Operations that starved.
    #[serde(default)]
    pub starved: u64,
    /// Milliseconds since 1970 at which this was so.
    pub at_ms: i64,
}

impl Counts {
    /// The counts of a load at an instant.
    pub fn of(progress: &Progress, at_ms: i64) -> Counts {
        use std::sync::atomic::Ordering::Relaxed;
        let read = |count: &AtomicU64| count.load(Relaxed);
        Counts {
            ended: read(&progress.ended),
            committed: read(&progress.committed),
            conflicts: read(&progress.conflicts),
            failed: read(&progress.failed),
            starved: read(&progress.starved),
            at_ms,
        }
    }
}
