//! What a shard hands back.

use serde::Serialize;
use stats::ShardResult;
use workload::{Claim, Verified};

/// Everything that is known when a shard's writers have ended.
#[derive(Debug, Default)]
pub struct ShardReport {
    /// Counts and latencies.
    pub result: ShardResult,
    /// What was said about each operation, warm-up included, for verification.
    pub claims: Vec<Claim>,
    /// One row per operation, when rows are kept.
    pub rows: Vec<Row>,
    /// Operations that ended in doubt.
    pub(crate) unsettled: Vec<Unsettled>,
}

/// One operation, for `ops.jsonl`. Times are microseconds since the barrier.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Index of the writer in the wave.
    pub writer: u32,
    /// Name of the endpoint.
    pub endpoint: String,
    /// Kind of operation.
    pub operation: &'static str,
    /// The operation's number within the wave.
    pub id: u64,
    /// When it was planned to start.
    pub planned_us: u64,
    /// When it started.
    pub start_us: u64,
    /// When it ended.
    pub end_us: u64,
    /// Attempts that it took.
    pub attempts: u32,
    /// `committed`, `rejected`, `unfinished`, or the class that it failed with.
    pub outcome: &'static str,
    /// SQLSTATE of the last error, where there was one.
    pub sqlstate: Option<String>,
    /// Whether it committed.
    pub ok: bool,
    /// Whether it belongs to the measured window (else to the warm-up).
    pub measured: bool,
}

/// An operation that ended without anybody knowing whether it had committed.
#[derive(Clone, Debug)]
pub(crate) struct Unsettled {
    pub(crate) number: u64,
    pub(crate) endpoint: String,
    pub(crate) kind: &'static str,
    pub(crate) records: u64,
    pub(crate) attempts: u32,
    /// Attempts in doubt.
    pub(crate) in_doubt: u64,
    /// Class of the error that left it in doubt.
    pub(crate) class: &'static str,
    pub(crate) measured: bool,
    /// Counted as failed under `unresolved` (else it is unfinished).
    pub(crate) unresolved: bool,
}

impl ShardReport {
    /// Verification has seen the database: operations counted as `unresolved`
    /// become committed, or failed under the class that left them in doubt.
    /// Their latencies stay where they are: when they committed nobody knows.
    pub fn settle(&mut self, verified: &Verified) {
        for operation in std::mem::take(&mut self.unsettled) {
            let committed = verified.settled_committed.contains(&operation.number);
            let absent = verified.settled_absent.contains(&operation.number);
            if !operation.unresolved || !(committed || absent) {
                self.unsettled.push(operation);
                continue;
            }
            let outcome = if committed {
                "committed"
            } else {
                operation.class
            };
            if let Some(row) = self.rows.iter_mut().find(|row| row.id == operation.number) {
                row.outcome = outcome;
                row.ok = committed;
            }
            if operation.measured {
                self.settle_counts(&operation, committed);
            }
        }
    }

    fn settle_counts(&mut self, operation: &Unsettled, committed: bool) {
        let result = &mut self.result;
        let parts = [
            Some(&mut result.total),
            result.by_endpoint.get_mut(&operation.endpoint),
            result.by_operation.get_mut(operation.kind),
        ];
        for part in parts.into_iter().flatten() {
            let counts = &mut part.counts;
            if let Some(unresolved) = counts.failed.get_mut("unresolved") {
                *unresolved -= 1;
                if *unresolved == 0 {
                    counts.failed.remove("unresolved");
                }
            }
            counts.unknown.unresolved -= operation.in_doubt;
            if committed {
                counts.unknown.committed += 1;
                counts.unknown.absent += operation.in_doubt - 1;
                counts.committed += 1;
                counts.attempts_of_committed += u64::from(operation.attempts);
                counts.first_try += u64::from(operation.attempts == 1);
                counts.records += operation.records;
            } else {
                counts.unknown.absent += operation.in_doubt;
                *counts.failed.entry(operation.class.to_owned()).or_default() += 1;
            }
        }
    }
}
