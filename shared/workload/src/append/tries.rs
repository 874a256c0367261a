//! Trying a step of preparing or cleaning again.

use std::time::Duration;

use clock::Clock;
use target::{Class, SqlFailure};

/// Tries of one step. With the pauses below they span about eight seconds.
const TRIES: u32 = 12;
/// The first pause; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Counts the tries of one step. Every step here does the same again when it
/// is repeated, so one whose outcome is unknown is simply repeated.
#[derive(Debug)]
pub(crate) struct Tries {
    clock: Clock,
    left: u32,
    pause: Duration,
}

impl Tries {
    pub(crate) fn new(clock: Clock) -> Tries {
        Tries {
            clock,
            left: TRIES,
            pause: FIRST_PAUSE,
        }
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// The failure itself, when trying again would not help or was tried often
    /// enough. A lost connection is the caller's to replace.
    pub(crate) async fn again(&mut self, failure: SqlFailure) -> Result<(), SqlFailure> {
        let passes = matches!(
            failure.class,
            Class::Conflict | Class::SchemaConflict | Class::Deadlock | Class::Unavailable
        );
        self.left -= 1;
        if !passes || self.left == 0 {
            return Err(failure);
        }
        tracing::debug!(%failure, "trying a step again");
        self.clock.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}
