//! What a shard hands back, in a form that travels: shards run elsewhere, and
//! their reports are merged by whoever closes the wave.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stats::ShardResult;
use workload::{Claim, Verified};

/// Everything that is known when a shard's writers have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Index of the writer in the wave.
    pub writer: u32,
    /// Name of the endpoint.
    pub endpoint: String,
    /// Kind of operation.
    pub operation: String,
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
    pub outcome: String,
    /// SQLSTATE of the last error, where there was one.
    pub sqlstate: Option<String>,
    /// Whether it committed.
    pub ok: bool,
    /// Whether it belongs to the measured window (else to the warm-up).
    pub measured: bool,
}

/// An operation that ended without anybody knowing whether it had committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unsettled {
    pub(crate) number: u64,
    pub(crate) endpoint: String,
    pub(crate) kind: String,
    pub(crate) records: u64,
    pub(crate) attempts: u32,
    /// Attempts in doubt.
    pub(crate) in_doubt: u64,
    /// Class of the error that left it in doubt.
    pub(crate) class: String,
    pub(crate) measured: bool,
    /// Counted as failed under `unresolved` (else it is unfinished).
    pub(crate) unresolved: bool,
}

impl ShardReport {
    /// Adds the report of another shard, or of another leg, of the same wave.
    pub fn merge(&mut self, other: ShardReport) {
        let ShardReport {
            result,
            claims,
            rows,
            unsettled,
        } = other;
        self.result.merge(&result);
        self.claims.extend(claims);
        self.rows.extend(rows);
        self.unsettled.extend(unsettled);
    }

    /// Verification has seen the database: operations counted as `unresolved`
    /// become committed, or failed under the class that left them in doubt.
    /// Their latencies stay where they are: when they committed nobody knows.
    pub fn settle(&mut self, verified: &Verified) {
        let all = |numbers: &[u64]| -> BTreeSet<u64> { numbers.iter().copied().collect() };
        let there = all(&verified.settled_committed);
        let not_there = all(&verified.settled_absent);
        let mut row_of = BTreeMap::new();
        if !self.unsettled.is_empty() {
            row_of.extend((0..).zip(&self.rows).map(|(at, row)| (row.id, at)));
        }
        for operation in std::mem::take(&mut self.unsettled) {
            let committed = there.contains(&operation.number);
            let absent = not_there.contains(&operation.number);
            if !operation.unresolved || !(committed || absent) {
                self.unsettled.push(operation);
                continue;
            }
            let outcome = if committed {
                "committed"
            } else {
                &operation.class
            };
            let row = row_of.get(&operation.number);
            if let Some(row) = row.and_then(|at: &usize| self.rows.get_mut(*at)) {
                outcome.clone_into(&mut row.outcome);
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
            result.by_operation.get_mut(&operation.kind),
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
                *counts.failed.entry(operation.class.clone()).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What became of one operation when its shard ended, and what verification
    /// finds of it.
    #[derive(Clone, Copy, Debug)]
    struct Fate {
        unresolved: bool,
        measured: bool,
        attempts: u32,
        in_doubt: u64,
        endpoint: bool,
        /// Found there, found not to be there, or not looked for.
        found: Option<bool>,
    }

    fn fates() -> impl Strategy<Value = Vec<(Fate, usize)>> {
        let fate = (
            any::<bool>(),
            any::<bool>(),
            1..9_u32,
            1..4_u64,
            any::<bool>(),
            any::<Option<bool>>(),
        );
        let fate = fate.prop_map(
            |(unresolved, measured, attempts, in_doubt, endpoint, found)| Fate {
                unresolved,
                measured,
                attempts,
                in_doubt,
                endpoint,
                found,
            },
        );
        prop::collection::vec((fate, 0..3_usize), 0..40)
    }

    /// The report of a shard that has these operations.
    fn report<'a>(fates: impl Iterator<Item = (u64, &'a Fate)>) -> ShardReport {
        let mut report = ShardReport::default();
        for (number, fate) in fates {
            let endpoint = if fate.endpoint { "a" } else { "b" };
            if fate.measured {
                let result = &mut report.result;
                for part in [
                    &mut result.total,
                    result.by_endpoint.entry(endpoint.to_owned()).or_default(),
                    result.by_operation.entry("append".to_owned()).or_default(),
                ] {
                    let counts = &mut part.counts;
                    counts.planned += 1;
                    if fate.unresolved {
                        counts.fail("unresolved");
                        counts.attempts += u64::from(fate.attempts);
                        counts.unknown.total += fate.in_doubt;
                        counts.unknown.unresolved += fate.in_doubt;
                    } else {
                        counts.unfinished += 1;
                    }
                }
            }
            report.claims.push(Claim {
                op: number,
                said: workload::Said::Unknown,
                at: Some((1, 7)),
            });
            report.unsettled.push(Unsettled {
                number,
                endpoint: endpoint.to_owned(),
                kind: "append".to_owned(),
                records: 5,
                attempts: fate.attempts,
                in_doubt: fate.in_doubt,
                class: "connection_lost".to_owned(),
                measured: fate.measured,
                unresolved: fate.unresolved,
            });
            report.rows.push(Row {
                writer: 0,
                endpoint: endpoint.to_owned(),
                operation: "append".to_owned(),
                id: number,
                planned_us: 1,
                start_us: 2,
                end_us: 3,
                attempts: fate.attempts,
                outcome: if fate.unresolved {
                    "unresolved"
                } else {
                    "unfinished"
                }
                .to_owned(),
                sqlstate: Some("08006".to_owned()),
                ok: false,
                measured: fate.measured,
            });
        }
        report
    }

    fn merged(reports: Vec<ShardReport>) -> ShardReport {
        let mut all = ShardReport::default();
        for report in reports {
            all.merge(report);
        }
        all
    }

    proptest! {
        #[test]
        fn settling_what_was_merged_is_merging_what_was_settled(fates in fates()) {
            let of = |shard| {
                let numbered = (0..).zip(&fates);
                let mine = numbered.filter(move |(_, (_, of))| *of == shard);
                report(mine.map(|(number, (fate, _))| (number, fate)))
            };
            let found = |wanted| {
                let numbered = (0..).zip(&fates);
                numbered
                    .filter(|(_, (fate, _))| fate.found == Some(wanted))
                    .map(|(number, _)| number)
                    .collect()
            };
            let verified = Verified {
                settled_committed: found(true),
                settled_absent: found(false),
                ..Verified::default()
            };
            let mut before = merged((0..3).map(of).collect());
            before.settle(&verified);
            let after = merged(
                (0..3)
                    .map(of)
                    .map(|mut report| {
                        report.settle(&verified);
                        report
                    })
                    .collect(),
            );
            prop_assert_eq!(&before, &after);
            let counts = &before.result.total.counts;
            prop_assert_eq!((counts.unaccounted(), counts.unknown.unaccounted()), (0, 0));
            // A second verification finds nothing left to settle.
            before.settle(&verified);
            prop_assert_eq!(&before, &after);
        }

        #[test]
        fn a_report_survives_the_wire(fates in fates()) {
            let report = report((0..).zip(&fates).map(|(number, (fate, _))| (number, fate)));
            let text = serde_json::to_string(&report).unwrap();
            prop_assert_eq!(serde_json::from_str::<ShardReport>(&text).unwrap(), report);
        }
    }

    #[test]
    fn a_claim_takes_little_room() {
        let claim = Claim {
            op: 3 << 32,
            said: workload::Said::Committed,
            at: Some((0, 12_345)),
        };
        let text = serde_json::to_string(&claim).unwrap();
        assert_eq!(text, r#"[12884901888,"c",[0,12345]]"#);
        assert_eq!(serde_json::from_str::<Claim>(&text).unwrap(), claim);
    }
}
