//! A transaction whose every statement is awaited, and the doubt about its COMMIT.
//!
//! An operation is *in doubt* from the moment before a COMMIT leaves until an
//! answer, or the database, says what became of it. The flag is the operation's
//! own and is set first: a future that is dropped half-way leaves the doubt
//! behind, not a hole.

use std::time::Duration;

use clock::Clock;
use plan::Isolation;
use target::{Class, Conn, SqlFailure};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use crate::block::Block;
use crate::flight::{self, Answer, Broken, is_abort};

/// One transaction's way.
pub(crate) struct Stepwise<'a> {
    conn: &'a Conn,
    block: &'a Block,
    clock: Clock,
    /// Flights that were awaited so far.
    pub(crate) round_trips: u32,
    /// How long COMMIT alone took.
    pub(crate) commit: Option<Duration>,
}

/// How a COMMIT ended.
#[derive(Debug)]
pub(crate) enum Commit {
    Committed,
    /// It certainly did not.
    Refused(SqlFailure),
    /// It may have, may not have, or may still do so.
    Unknown(SqlFailure),
}

impl<'a> Stepwise<'a> {
    pub(crate) fn new(conn: &'a Conn, block: &'a Block, clock: Clock) -> Stepwise<'a> {
        Stepwise {
            conn,
            block,
            clock,
            round_trips: 0,
            commit: None,
        }
    }

    pub(crate) async fn begin(&mut self, isolation: Isolation) -> Result<(), SqlFailure> {
        let (begin, _) = self.block.begin(isolation);
        self.fly(&begin).await.whole()?;
        Ok(())
    }

    /// Runs a statement and returns the rows it touched.
    pub(crate) async fn execute(
        &mut self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, SqlFailure> {
        self.round_trips += 1;
        let touched = self.conn.client.execute(statement, values).await;
        touched.map_err(|error| SqlFailure::from_driver(&error))
    }

    /// Runs a statement that must touch so many rows; `what` says which it is.
    pub(crate) async fn expect(
        &mut self,
        what: &str,
        rows: u64,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<(), SqlFailure> {
        match self.execute(statement, values).await? {
            touched if touched == rows => Ok(()),
            touched => Err(SqlFailure::new(
                Class::Other,
                format!("{what} touched {touched} rows and not {rows}"),
            )),
        }
    }

    /// Reads a row, if it is there.
    pub(crate) async fn row(
        &mut self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, SqlFailure> {
        self.round_trips += 1;
        let row = self.conn.client.query_opt(statement, values).await;
        row.map_err(|error| SqlFailure::from_driver(&error))
    }

    /// Ends the block of an attempt that did not come to its COMMIT: one that
    /// waits for the next attempt would keep its locks through the pause.
    pub(crate) async fn give_up(&mut self, failure: Option<&SqlFailure>) {
        let gone = failure.is_some_and(SqlFailure::connection_is_gone);
        if !gone && !self.conn.is_lost() {
            self.roll_back().await;
        }
    }

    /// Sees to it that what is read next is read outside of any block.
    pub(crate) async fn leave_block(&mut self) {
        if self.block.is_open() {
            self.roll_back().await;
        }
    }

    /// Sends COMMIT. Only a transaction that no earlier one of its operation can
    /// commit beside may do so: then one that commits ends the doubt, whatever
    /// was sent before, and one that is refused leaves it as it was.
    pub(crate) async fn commit(&mut self, in_doubt: &mut bool) -> Commit {
        let before = std::mem::replace(in_doubt, true);
        let sent = self.clock.now();
        let answer = self.fly("COMMIT").await;
        self.commit = Some(self.clock.now().since(sent));
        if !answer.counts.is_empty() {
            // Whatever came after that changes nothing.
            self.block.ended();
            *in_doubt = false;
            return Commit::Committed;
        }
        let refused = match answer.broken {
            Some(Broken::Unsent(failure)) => failure,
            Some(Broken::Refused(failure)) if is_abort(&failure) => {
                self.block.ended();
                failure
            }
            Some(Broken::Refused(failure) | Broken::Lost(failure)) => {
                return Commit::Unknown(failure);
            }
            None => {
                let failure = SqlFailure::new(Class::ConnectionLost, "COMMIT was not answered");
                return Commit::Unknown(failure);
            }
        };
        *in_doubt = before;
        Commit::Refused(refused)
    }

    async fn roll_back(&mut self) {
        let answer = self.fly("ROLLBACK").await;
        if answer.broken.is_none() {
            self.block.ended();
        }
    }

    async fn fly(&mut self, sql: &str) -> Answer {
        self.round_trips += 1;
        flight::send(self.conn, sql).await
    }
}
