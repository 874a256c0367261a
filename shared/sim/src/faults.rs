//! Faults by a seeded plan: which strikes, when, and how often it did.
//!
//! Whether a fault strikes a COMMIT, a statement or a connection follows from
//! the seed, the connection's number and the number of the COMMIT or statement
//! on it, never from what other connections do. Windows (slow, frozen, lost)
//! follow from the clock alone.
//!
//! The faults of a COMMIT strike only transactions that have something to
//! commit; the others have nothing to lose.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Time;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::fault_plan::{FaultPlan, Late, Span};

/// How often each kind of fault has struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    /// XX000 at a statement.
    pub statement_unavailable: u64,
    /// XX000 at a COMMIT that was not applied.
    pub commit_unavailable_not_applied: u64,
    /// XX000 at a COMMIT that was applied.
    pub commit_unavailable_applied: u64,
    /// Connections lost before their COMMIT.
    pub drop_before_commit: u64,
    /// Connections lost after their COMMIT had been applied.
    pub drop_after_commit: u64,
    /// Connections lost whose COMMIT was still to come.
    pub drop_late_commit: u64,
    /// Of those, COMMITs that were applied when they came.
    pub late_commit_applied: u64,
    /// Of those, COMMITs that had lost a race by then, or failed otherwise.
    pub late_commit_refused: u64,
    /// Connections refused as 53300 by the plan.
    pub refuse_too_many: u64,
    /// Connections refused as 53400 by the plan.
    pub refuse_rate: u64,
    /// Statements and COMMITs that a slow endpoint served.
    pub slow: u64,
    /// Statements and answers that a frozen endpoint held back.
    pub frozen: u64,
    /// Connections that a lost endpoint dropped or refused.
    pub lost: u64,
}

/// A kind of fault, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    StatementUnavailable,
    CommitUnavailableNotApplied,
    CommitUnavailableApplied,
    DropBeforeCommit,
    DropAfterCommit,
    DropLateCommit,
    LateCommitApplied,
    LateCommitRefused,
    RefuseTooMany,
    RefuseRate,
    Slow,
    Frozen,
    Lost,
}

const KINDS: usize = Kind::Lost as usize + 1;

/// What strikes a COMMIT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CommitFault {
    UnavailableNotApplied,
    UnavailableApplied,
    DropBefore,
    DropAfter,
    DropLate { by: Duration },
}

/// What strikes a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    TooMany,
    Rate,
}

/// The plan at work.
#[derive(Debug)]
pub(crate) struct Faults {
    plan: FaultPlan,
    counts: [AtomicU64; KINDS],
}

impl Faults {
    pub(crate) fn new(plan: FaultPlan) -> Faults {
        Faults {
            plan,
            counts: Default::default(),
        }
    }

    pub(crate) fn strike(&self, kind: Kind) {
        self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> FaultCounts {
        let of = |kind: Kind| self.counts[kind as usize].load(Ordering::Relaxed);
        FaultCounts {
            statement_unavailable: of(Kind::StatementUnavailable),
            commit_unavailable_not_applied: of(Kind::CommitUnavailableNotApplied),
            commit_unavailable_applied: of(Kind::CommitUnavailableApplied),
            drop_before_commit: of(Kind::DropBeforeCommit),
            drop_after_commit: of(Kind::DropAfterCommit),
            drop_late_commit: of(Kind::DropLateCommit),
            late_commit_applied: of(Kind::LateCommitApplied),
            late_commit_refused: of(Kind::LateCommitRefused),
            refuse_too_many: of(Kind::RefuseTooMany),
            refuse_rate: of(Kind::RefuseRate),
            slow: of(Kind::Slow),
            frozen: of(Kind::Frozen),
            lost: of(Kind::Lost),
        }
    }

    fn active(&self, now: Time) -> bool {
        self.plan
            .only
            .is_none_or(|span| span.start() <= now && now < span.end())
    }

    /// What strikes a connection's next COMMIT. Draws the same whether or not
    /// faults are active now, so that a window does not move what comes later.
    pub(crate) fn at_commit(&self, now: Time, generator: &mut ChaCha8Rng) -> Option<CommitFault> {
        let plan = &self.plan;
        let chances = [
            plan.commit_unavailable_not_applied,
            plan.commit_unavailable_applied,
            plan.drop_before_commit,
            plan.drop_after_commit,
            plan.drop_late_commit,
        ];
        if chances.iter().all(|chance| *chance <= 0.0) {
            return None;
        }
        let (which, how_late) = (generator.random::<f64>(), generator.random::<f64>());
        if !self.active(now) {
            return None;
        }
        match pick(which, &chances)? {
            0 => Some(CommitFault::UnavailableNotApplied),
            1 => Some(CommitFault::UnavailableApplied),
            2 => Some(CommitFault::DropBefore),
            3 => Some(CommitFault::DropAfter),
            _ => {
                let Late { min, max } = plan.late_ms;
                let by = crate::service::micros((min + (max - min) * how_late) * 1_000.0);
                Some(CommitFault::DropLate { by })
            }
        }
    }

    /// Whether XX000 strikes a connection's next statement.
    pub(crate) fn at_statement(&self, now: Time, generator: &mut ChaCha8Rng) -> bool {
        let chance = self.plan.statement_unavailable;
        chance > 0.0 && generator.random::<f64>() < chance && self.active(now)
    }

    /// What strikes a new connection.
    pub(crate) fn at_connection(&self, now: Time, generator: &mut ChaCha8Rng) -> Option<Refusal> {
        let chances = [self.plan.refuse_too_many, self.plan.refuse_rate];
        let which = generator.random::<f64>();
        if !self.active(now) {
            return None;
        }
        Some(match pick(which, &chances)? {
            0 => Refusal::TooMany,
            _ => Refusal::Rate,
        })
    }

    /// How many times longer an endpoint works now; `None` at its usual pace.
    pub(crate) fn slowness(&self, endpoint: usize, now: Time) -> Option<f64> {
        let slow = self.plan.slow.iter().find(|slow| {
            slow.endpoint == endpoint && Span::new(slow.from_ms, slow.to_ms).contains(now)
        })?;
        Some(slow.factor)
    }

    /// Until when an endpoint answers nothing; `None` when it does.
    pub(crate) fn frozen_until(&self, endpoint: usize, now: Time) -> Option<Time> {
        self.plan
            .frozen
            .iter()
            .filter(|outage| outage.endpoint == endpoint && outage.span().contains(now))
            .map(|outage| outage.span().end())
            .max()
    }

    /// When an endpoint is next lost at or after `now`; `now` when it is.
    pub(crate) fn lost_from(&self, endpoint: usize, now: Time) -> Option<Time> {
        self.plan
            .lost
            .iter()
            .filter(|outage| outage.endpoint == endpoint && now < outage.span().end())
            .map(|outage| outage.span().start().max(now))
            .min()
    }
}

/// The index of the chance that `which`, uniform in [0, 1), falls on.
fn pick(which: f64, chances: &[f64]) -> Option<usize> {
    let mut sum = 0.0;
    chances.iter().position(|chance| {
        sum += chance;
        which < sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault_plan::Outage;
    use crate::service::{Purpose, generator};

    fn at_ms(ms: u64) -> Time {
        Time::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn each_kind_strikes_as_often_as_planned_and_the_same_each_time() {
        let faults = Faults::new(FaultPlan {
            drop_before_commit: 0.1,
            drop_late_commit: 0.2,
            ..FaultPlan::default()
        });
        let run = || {
            let mut generator = generator(3, 9, Purpose::Commits);
            let draws = (0..10_000).map(|_| faults.at_commit(Time::ZERO, &mut generator));
            draws.collect::<Vec<_>>()
        };
        let struck = run();
        let before = struck
            .iter()
            .flatten()
            .filter(|f| **f == CommitFault::DropBefore);
        assert!((900..1_100).contains(&before.count()));
        let late = struck.iter().flatten().filter_map(|fault| match fault {
            CommitFault::DropLate { by } => Some(*by),
            _ => None,
        });
        assert!(late.clone().all(|by| by >= Duration::from_millis(1)));
        assert!((1_850..2_150).contains(&late.count()));
        assert_eq!(struck, run());
    }

    #[test]
    fn windows_begin_and_end_when_they_say() {
        let outage = |endpoint, from_ms: f64, to_ms: f64| Outage {
            endpoint,
            from_ms,
            to_ms,
        };
        let faults = Faults::new(FaultPlan {
            frozen: vec![outage(0, 10.0, 20.0)],
            lost: vec![outage(1, 30.0, 40.0)],
            ..FaultPlan::default()
        });
        assert_eq!(faults.frozen_until(0, at_ms(9)), None);
        assert_eq!(faults.frozen_until(0, at_ms(10)), Some(at_ms(20)));
        assert_eq!(faults.frozen_until(0, at_ms(20)), None);
        assert_eq!(faults.frozen_until(1, at_ms(15)), None);
        assert_eq!(faults.lost_from(1, at_ms(5)), Some(at_ms(30)));
        assert_eq!(faults.lost_from(1, at_ms(35)), Some(at_ms(35)));
        assert_eq!(faults.lost_from(1, at_ms(40)), None);
    }
}
