//! What became of the operations, and the figures that follow from it.
//!
//! # The outcome sum
//!
//! Every operation that the plan holds for the measured window ends in exactly
//! one of six ways:
//!
//! ```text
//! planned = committed + rejected + failed + skipped + unfinished + lost
//! ```
//!
//! - *planned*: what the schedule holds. In a closed loop an operation is
//!   planned when the one before it on its connection ends, so there planned
//!   means started; with a fixed number of operations it is that number.
//! - *committed*: its effect is confirmed, by the answer to COMMIT or by the
//!   look-up that followed when there was none.
//! - *rejected*: a business rule refused it (out of stock, too little balance).
//!   The database did its work; this is no failure.
//! - *failed*: it was tried, and given up. Its class says why: the class of the
//!   last error, or `starved` (it used up its attempts losing races),
//!   `deadline`, `connect_timeout`, `unresolved` (its outcome was still unknown
//!   when it had to end; verification settles it).
//! - *skipped*: never started, because no connection was free in time or
//!   because the rep was aborted.
//! - *unfinished*: running when the Lambda's time or the user ended the run.
//! - *lost*: belongs to a worker that never reported.
//!
//! # Attempts
//!
//! An operation that was started and ended made one attempt or more:
//!
//! ```text
//! attempts  = those of committed + rejected + failed operations
//! conflicts = the attempts among them that lost a race
//! retried   = the operations among them with more than one attempt
//! first_try = the committed operations with exactly one
//! ```
//!
//! Attempts of unfinished operations are in none of these: such an operation
//! has no end, and counting half of it would bend every ratio. `conflicts`
//! counts attempts and `retried` counts operations; they are different numbers
//! and neither follows from the other.
//!
//! # Unknown outcomes
//!
//! An attempt whose COMMIT was sent and not answered is looked up, and ends as
//! one of three: `unknown.total = committed + absent + unresolved`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The class of an operation that used up its attempts losing races.
pub const STARVED: &str = "starved";
/// The class of an operation that was given up at its deadline.
pub const DEADLINE: &str = "deadline";
/// The class of an operation that found no connection to be made.
pub const CONNECT_TIMEOUT: &str = "connect_timeout";
/// The class of an operation that had to end while its outcome was unknown.
pub const UNRESOLVED: &str = "unresolved";

/// Outcomes of operations; the module explains the sum that they obey.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Operations that the plan holds for the window.
    pub planned: u64,
    /// Operations whose effect is confirmed.
    pub committed: u64,
    /// Refused by a business rule.
    pub rejected: u64,
    /// Failed operations by class (`target::Class::name`, [`STARVED`],
    /// [`DEADLINE`], [`CONNECT_TIMEOUT`], [`UNRESOLVED`]).
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
    /// Of these, those that the database ended to break a deadlock (40P01).
    pub deadlocks: u64,
    /// Operations that committed at their first attempt.
    pub first_try: u64,
    /// Operations that needed more than one attempt, however they ended.
    pub retried: u64,
    /// Rows of payload committed (append: records).
    pub records: u64,
    /// Attempts whose outcome was unknown when they ended.
    pub unknown: Unknown,
}

impl Counts {
    /// Counts one failed operation.
    pub fn fail(&mut self, class: &str) {
        match self.failed.get_mut(class) {
            Some(count) => *count += 1,
            None => {
                self.failed.insert(class.to_owned(), 1);
            }
        }
    }

    /// Failed operations of all classes.
    pub fn failed_total(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Operations that used up their attempts losing races.
    pub fn starved(&self) -> u64 {
        self.failed.get(STARVED).copied().unwrap_or(0)
    }

    /// Operations that were started and ended: committed, rejected and failed.
    pub fn ended(&self) -> u64 {
        self.committed + self.rejected + self.failed_total()
    }

    /// The right side of the outcome sum.
    pub fn sum_of_outcomes(&self) -> u64 {
        self.ended() + self.skipped + self.unfinished + self.lost
    }

    /// Planned less the sum of outcomes: 0 in every sound report. Above 0
    /// operations vanished, below 0 some were counted twice.
    pub fn unaccounted(&self) -> i64 {
        difference(self.planned, self.sum_of_outcomes())
    }

    /// Attempts of committed operations for each of them.
    pub fn attempts_per_commit(&self) -> Option<f64> {
        ratio(self.attempts_of_committed, self.committed)
    }

    /// Percent of committed operations that committed at attempt 1.
    pub fn first_try_pct(&self) -> Option<f64> {
        percent(self.first_try, self.committed)
    }

    /// Percent of all attempts that lost a race.
    pub fn raw_conflict_pct(&self) -> Option<f64> {
        percent(self.conflicts, self.attempts)
    }

    /// Percent of ended operations that failed.
    pub fn final_failure_pct(&self) -> Option<f64> {
        percent(self.failed_total(), self.ended())
    }

    /// Percent of ended operations that needed more than one attempt.
    pub fn retried_pct(&self) -> Option<f64> {
        percent(self.retried, self.ended())
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Counts) {
        let Counts {
            planned,
            committed,
            rejected,
            failed,
            skipped,
            unfinished,
            lost,
            attempts,
            attempts_of_committed,
            conflicts,
            deadlocks,
            first_try,
            retried,
            records,
            unknown,
        } = other;
        self.planned += planned;
        self.committed += committed;
        self.rejected += rejected;
        for (class, count) in failed {
            *self.failed.entry(class.clone()).or_default() += count;
        }
        self.skipped += skipped;
        self.unfinished += unfinished;
        self.lost += lost;
        self.attempts += attempts;
        self.attempts_of_committed += attempts_of_committed;
        self.conflicts += conflicts;
        self.deadlocks += deadlocks;
        self.first_try += first_try;
        self.retried += retried;
        self.records += records;
        self.unknown.merge(unknown);
    }
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

impl Unknown {
    /// Total less its three parts: 0 in every sound report.
    pub fn unaccounted(&self) -> i64 {
        difference(self.total, self.committed + self.absent + self.unresolved)
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Unknown) {
        let Unknown {
            total,
            committed,
            absent,
            unresolved,
        } = other;
        self.total += total;
        self.committed += committed;
        self.absent += absent;
        self.unresolved += unresolved;
    }
}

fn difference(a: u64, b: u64) -> i64 {
    let difference = i128::from(a) - i128::from(b);
    i64::try_from(difference).unwrap_or(if difference > 0 { i64::MAX } else { i64::MIN })
}

/// `a / b`, or `None` where there is nothing to divide.
fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

fn percent(a: u64, b: u64) -> Option<f64> {
    ratio(a, b).map(|share| share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sweep A of the seed at 64 writers: 359 appends started, 18 starved.
    fn contended() -> Counts {
        let mut counts = Counts {
            planned: 384,
            committed: 339,
            skipped: 25,
            unfinished: 2,
            attempts: 4_111,
            attempts_of_committed: 3_661,
            conflicts: 3_772,
            first_try: 60,
            retried: 297,
            records: 339,
            ..Counts::default()
        };
        for _ in 0..18 {
            counts.fail(STARVED);
        }
        counts
    }

    #[test]
    fn the_sum_accounts_for_everything() {
        let mut counts = contended();
        assert_eq!(counts.sum_of_outcomes(), 384);
        assert_eq!((counts.unaccounted(), counts.starved()), (0, 18));
        counts.committed -= 1;
        assert_eq!(counts.unaccounted(), 1);
        counts.lost += 3;
        assert_eq!(counts.unaccounted(), -2);
    }

    #[test]
    fn figures_follow_their_definitions() {
        let counts = contended();
        let attempts_per_commit = counts.attempts_per_commit().unwrap();
        assert!((attempts_per_commit - 10.8).abs() < 0.01);
        assert_eq!(counts.first_try_pct(), Some(60.0 / 339.0 * 100.0));
        assert_eq!(counts.raw_conflict_pct(), Some(3_772.0 / 4_111.0 * 100.0));
        assert_eq!(counts.final_failure_pct(), Some(18.0 / 357.0 * 100.0));
        assert_eq!(counts.retried_pct(), Some(297.0 / 357.0 * 100.0));
    }

    #[test]
    fn where_there_is_nothing_to_divide_there_is_no_figure() {
        let counts = Counts::default();
        for figure in [
            counts.attempts_per_commit(),
            counts.first_try_pct(),
            counts.raw_conflict_pct(),
            counts.final_failure_pct(),
            counts.retried_pct(),
        ] {
            assert_eq!(figure, None);
        }
    }

    #[test]
    fn unknown_outcomes_add_up_too() {
        let mut unknown = Unknown {
            total: 5,
            committed: 2,
            absent: 2,
            unresolved: 1,
        };
        assert_eq!(unknown.unaccounted(), 0);
        unknown.unresolved = 2;
        assert_eq!(unknown.unaccounted(), -1);
    }
}
