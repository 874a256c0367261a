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
use serde::{Deserialize, Serialize};

/// What goes wrong, and how likely; by default nothing.
///
/// Probabilities are between 0 and 1. Those of a COMMIT exclude each other and
/// add up to at most 1, as do those of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultPlan {
    /// Per statement other than COMMIT: XX000 `server unavailable`. The
    /// transaction has failed, the connection stays.
    pub statement_unavailable: f64,
    /// Per COMMIT: XX000, and the transaction was not committed.
    pub commit_unavailable_not_applied: f64,
    /// Per COMMIT: XX000, and yet the transaction was committed.
    pub commit_unavailable_applied: f64,
    /// Per COMMIT: the connection is lost before the COMMIT reaches the
    /// adjudicator; it never applies.
    pub drop_before_commit: f64,
    /// Per COMMIT: the connection is lost after the commit, before its answer.
    pub drop_after_commit: f64,
    /// Per COMMIT: the connection is lost, and the COMMIT reaches the
    /// adjudicator only later: `late_ms` after the client has seen the loss, so
    /// possibly after it has looked up what became of it.
    pub drop_late_commit: f64,
    /// How much later, in milliseconds: between the first and the second,
    /// uniformly.
    pub late_ms: Late,
    /// Per connection: refused as 53300, too many open connections.
    pub refuse_too_many: f64,
    /// Per connection: refused as 53400, rate exceeded.
    pub refuse_rate: f64,
    /// All of the above strike only in this window; everywhere when absent.
    pub only: Option<Span>,
    /// Endpoints whose service times are longer for a while.
    pub slow: Vec<Slow>,
    /// Endpoints that answer nothing for a while, and then go on.
    pub frozen: Vec<Outage>,
    /// Endpoints that lose their connections and refuse new ones for a while.
    pub lost: Vec<Outage>,
}

/// A range of delays in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Late {
    /// The shortest.
    pub min: f64,
    /// The longest.
    pub max: f64,
}

impl Default for Late {
    /// From before a look-up's first round trip ends to long after it.
    fn default() -> Late {
        Late {
            min: 1.0,
            max: 1_000.0,
        }
    }
}

/// A stretch of time, in milliseconds after the clock's origin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Its beginning.
    pub from_ms: f64,
    /// Its end.
    pub to_ms: f64,
}

/// A stretch of time at one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Index of the endpoint.
    pub endpoint: usize,
    /// Its beginning, in milliseconds after the clock's origin.
    pub from_ms: f64,
    /// Its end.
    pub to_ms: f64,
}

/// A stretch of slowness at one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// Index of the endpoint.
    pub endpoint: usize,
    /// Its beginning, in milliseconds after the clock's origin.
    pub from_ms: f64,
    /// Its end.
    pub to_ms: f64,
    /// Service times are so many times longer.
    pub factor: f64,
}

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

impl Span {
    fn new(from_ms: f64, to_ms: f64) -> Span {
        Span { from_ms, to_ms }
    }

    fn start(&self) -> Time {
        Time::from_origin(crate::service::micros(self.from_ms * 1_000.0))
    }

    fn end(&self) -> Time {
        Time::from_origin(crate::service::micros(self.to_ms * 1_000.0))
    }

    fn contains(&self, now: Time) -> bool {
        self.start() <= now && now < self.end()
    }
}

impl Outage {
    fn span(&self) -> Span {
        Span::new(self.from_ms, self.to_ms)
    }
}

impl FaultPlan {
    /// Whether nothing ever goes wrong.
    pub fn is_none(&self) -> bool {
        *self == FaultPlan::default()
    }

    /// Checks that the plan can be followed on a cluster of so many endpoints.
    ///
    /// # Errors
    /// One line that names the field and what would be accepted.
    pub fn check(&self, endpoints: usize) -> Result<(), String> {
        let per_commit = [
            (
                "commit_unavailable_not_applied",
                self.commit_unavailable_not_applied,
            ),
            (
                "commit_unavailable_applied",
                self.commit_unavailable_applied,
            ),
            ("drop_before_commit", self.drop_before_commit),
            ("drop_after_commit", self.drop_after_commit),
            ("drop_late_commit", self.drop_late_commit),
        ];
        let per_connection = [
            ("refuse_too_many", self.refuse_too_many),
            ("refuse_rate", self.refuse_rate),
        ];
        let per_statement = [("statement_unavailable", self.statement_unavailable)];
        for group in [&per_commit[..], &per_connection, &per_statement] {
            for (field, chance) in group {
                if !(0.0..=1.0).contains(chance) {
                    return Err(format!("{field}: {chance} is not between 0 and 1"));
                }
            }
            let sum: f64 = group.iter().map(|(_, chance)| chance).sum();
            if sum > 1.0 {
                let fields: Vec<_> = group.iter().map(|(field, _)| *field).collect();
                return Err(format!("{}: add up to {sum}, over 1", fields.join(" + ")));
            }
        }
        let Late { min, max } = self.late_ms;
        if !(0.0 <= min && min <= max && max < LONGEST_MS) {
            return Err(format!(
                "late_ms: {min} to {max} is no range of milliseconds"
            ));
        }
        let slow = self.slow.iter().map(|slow| {
            (
                "slow",
                Some(slow.endpoint),
                Span::new(slow.from_ms, slow.to_ms),
            )
        });
        let frozen = self.frozen.iter();
        let lost = self.lost.iter();
        let spans = slow
            .chain(frozen.map(|outage| ("frozen", Some(outage.endpoint), outage.span())))
            .chain(lost.map(|outage| ("lost", Some(outage.endpoint), outage.span())))
            .chain(self.only.iter().map(|span| ("only", None, *span)));
        for (field, endpoint, span) in spans {
            if let Some(endpoint) = endpoint.filter(|endpoint| *endpoint >= endpoints) {
                return Err(format!(
                    "{field}: there is no endpoint {endpoint}; there are {endpoints}"
                ));
            }
            if !(0.0 <= span.from_ms && span.from_ms < span.to_ms && span.to_ms < LONGEST_MS) {
                return Err(format!(
                    "{field}: {} to {} is no stretch of milliseconds",
                    span.from_ms, span.to_ms
                ));
            }
        }
        for slow in &self.slow {
            if !(1.0..=10_000.0).contains(&slow.factor) {
                return Err(format!(
                    "slow: factor {} is not between 1 and 10000",
                    slow.factor
                ));
            }
        }
        Ok(())
    }
}

/// A simulated run lasts 19 hours at most; a day is beyond any window.
const LONGEST_MS: f64 = 86_400_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Purpose, generator};

    fn at_ms(ms: u64) -> Time {
        Time::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn a_plan_reads_from_json_and_is_none_by_default() {
        let plan: FaultPlan = serde_json::from_str("{}").unwrap();
        assert!(plan.is_none());
        let plan: FaultPlan = serde_json::from_str(
            r#"{"drop_late_commit": 0.5, "late_ms": {"min": 5, "max": 5},
                "lost": [{"endpoint": 1, "from_ms": 10, "to_ms": 20}]}"#,
        )
        .unwrap();
        assert_eq!(plan.check(2), Ok(()));
        assert_eq!(
            plan.check(1).unwrap_err(),
            "lost: there is no endpoint 1; there are 1"
        );
        assert!(serde_json::from_str::<FaultPlan>(r#"{"drop_lat": 1}"#).is_err());
    }

    #[test]
    fn a_plan_that_cannot_be_followed_is_refused_in_one_line() {
        let refused = |change: fn(&mut FaultPlan)| {
            let mut plan = FaultPlan::default();
            change(&mut plan);
            plan.check(1).unwrap_err()
        };
        assert_eq!(
            refused(|plan| plan.refuse_rate = 1.5),
            "refuse_rate: 1.5 is not between 0 and 1"
        );
        assert!(refused(|plan| plan.statement_unavailable = f64::NAN).contains("NaN"));
        assert!(
            refused(|plan| {
                plan.drop_after_commit = 0.7;
                plan.drop_before_commit = 0.7;
            })
            .contains("over 1")
        );
        assert!(
            refused(|plan| plan.only = Some(Span::new(20.0, 10.0))).starts_with("only: 20 to 10")
        );
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
