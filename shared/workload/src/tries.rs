//! Trying a step of preparing or cleaning again.

use std::time::Duration;

use clock::Clock;
use target::{Class, Conn, SqlFailure};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::flight;
use crate::table::is_missing;

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

/// One statement as a transaction of its own, repeated until it is known to have
/// happened; returns the rows it touched. Where its outcome was unknown for a
/// while it may have touched rows that no answer counted: then too few.
pub(crate) async fn statement(clock: Clock, conn: &Conn, sql: &str) -> Result<u64, SqlFailure> {
    let mut tries = Tries::new(clock);
    loop {
        match flight::statement(conn, sql).await {
            Ok(rows) => return Ok(rows),
            Err(failure) => tries.again(failure).await?,
        }
    }
}

/// A statement of cleaning: where there is no table there is nothing to delete.
pub(crate) async fn delete(clock: Clock, conn: &Conn, sql: &str) -> Result<u64, SqlFailure> {
    match statement(clock, conn, sql).await {
        Err(failure) if is_missing(&failure) => Ok(0),
        other => other,
    }
}

/// A query that is repeated until it is answered; no table, no rows.
pub(crate) async fn rows(
    clock: Clock,
    conn: &Conn,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, SqlFailure> {
    let mut tries = Tries::new(clock);
    loop {
        let answer = conn.client.query(sql, values).await;
        match answer.map_err(|error| SqlFailure::from_driver(&error)) {
            Ok(rows) => return Ok(rows),
            Err(failure) if is_missing(&failure) => return Ok(Vec::new()),
            Err(failure) => tries.again(failure).await?,
        }
    }
}
