//! What an attempt's end means for an append.

use std::sync::Arc;
use std::time::Duration;

use target::{Class, SqlFailure};

use super::chain::Batch;
use crate::{Attempt, AttemptEnd};

/// How an attempt ended, with the batch that it committed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) end: AttemptEnd,
    pub(crate) batch: Option<Arc<Batch>>,
}

impl Ended {
    pub(crate) fn of(end: AttemptEnd) -> Ended {
        Ended { end, batch: None }
    }

    pub(crate) fn failed(failure: SqlFailure) -> Ended {
        Ended::of(AttemptEnd::Failed(as_race(failure)))
    }

    /// Whether it lost a race.
    pub(crate) fn lost_race(&self) -> bool {
        matches!(&self.end, AttemptEnd::Failed(failure) if failure.class == Class::Conflict)
    }

    pub(crate) fn into_attempt(self, round_trips: u32, commit: Option<Duration>) -> Attempt {
        Attempt {
            end: self.end,
            round_trips,
            commit,
        }
    }
}

/// What an append calls losing a race. A deadlock is one; so is a duplicate
/// key, for the only key that an append can violate is that of the records.
fn as_race(mut failure: SqlFailure) -> SqlFailure {
    let duplicate = failure.sqlstate.as_deref() == Some("23505");
    if duplicate || failure.class == Class::Deadlock {
        failure.class = Class::Conflict;
    }
    failure
}
