//! What a shard is to do, and how far it is.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use clock::Time;
use stats::ShardResult;

use crate::record::Recorder;

/// What a shard is to do; plain data.
#[derive(Clone, Debug)]
pub struct Load {
    /// Its writers, by their index in the wave, each with the index of the
    /// endpoint that it is placed on.
    pub writers: Vec<(u32, usize)>,
    /// When its connections open; `None`: all at once, now.
    pub opening: Option<Opening>,
    /// Endpoints whose round trip is measured, before the load and after it.
    pub probe_endpoints: Vec<usize>,
    /// Time between the barrier and the window.
    pub warmup: Duration,
    /// Length of the window; `None` when each writer has a fixed share.
    pub measure: Option<Duration>,
    /// The part of the window that is this shard's; `None` for all of it.
    pub leg: Option<plan::Leg>,
    /// Number of each writer's first operation. Legs of one wave need numbers
    /// of their own.
    pub first_operation: u64,
    /// The shard ends at this instant as if it was stopped then.
    pub stop_by: Option<Time>,
    /// The retry policy.
    pub retry: plan::Retry,
    /// Starved operations of this shard that abort it; 0 never does.
    pub abort_after_starved: u32,
    /// Keep one row per operation.
    pub keep_rows: bool,
    /// Seed of the pauses.
    pub seed: u64,
    /// The server's own part of `SELECT 1` per endpoint, where it is known.
    pub server_parts: Vec<Option<Duration>>,
    /// vCPUs of this process, to judge its CPU by.
    pub vcpus: f64,
    /// How long opening all connections may take; where they open in slots, how
    /// long each may take from its slot.
    pub open_limit: Duration,
}

/// When connections open: those of the probes first, in the order of
/// [`Load::probe_endpoints`], then those of the writers in theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The instant from which delays count.
    pub from: Time,
    /// Delay of each connection; one that has none opens at `from`.
    pub delays: Vec<Duration>,
}

impl Opening {
    /// When the connection at a place may open.
    pub(crate) fn slot(&self, place: usize) -> Time {
        self.from + self.delays.get(place).copied().unwrap_or_default()
    }
}

/// Live figures of one shard, shared with whoever watches it. The counts are
/// for progress lines; they are not results. A shard needs one of its own.
#[derive(Debug, Default)]
pub struct Progress {
    /// Operations that ended.
    pub ended: AtomicU64,
    /// Operations that committed.
    pub committed: AtomicU64,
    /// Attempts that lost a race.
    pub conflicts: AtomicU64,
    /// Operations that failed.
    pub failed: AtomicU64,
    /// Operations among them that starved.
    pub starved: AtomicU64,
    /// Its load has begun.
    pub started: AtomicBool,
    /// Set from outside: the wave is aborted. No new operation starts, those
    /// that run end, the rest is skipped.
    pub aborted: AtomicBool,
    /// The recorder of the shard while it runs; weak, since it holds this.
    pub(crate) recorder: Mutex<Weak<Mutex<Recorder>>>,
}

impl Progress {
    /// The operations that have ended so far, as a result that is sound in
    /// itself; `None` while there is no load. It copies every histogram: ask
    /// for it every half minute or so.
    pub fn partial(&self) -> Option<ShardResult> {
        let recorder = self
            .recorder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .upgrade()?;
        let recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
        Some(recorder.result().clone())
    }
}
