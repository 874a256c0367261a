//! `append`: batches of records, chained by hash, appended to streams whose
//! head row is the one point of contention.
//!
//! A stream is a row `streams(id, head_seq, head_hash)` and its records
//! `records(stream_id, seq, prev_hash, hash, payload)`. One append is one
//! transaction: read the head, chain 1 to K records to it, store them, move the
//! head from where it was read to the last of them. Two appends to one stream
//! move the same row, so the database lets only one of them commit; the other
//! reads the head again and rebuilds its batch. Nothing is locked, and the
//! chain can neither fork nor gap.
//!
//! How an attempt's statements travel is [`plan::Trips`]: each awaited, in two
//! flights, or in one. What is hashed is in [`chain`], who writes what in
//! `deal`, an attempt in `attempt`, and the check of the result in `walk` (one
//! core for databases and exported files). `docs/append.md` argues why none of
//! the three can fork a chain, also when an answer is lost.
//!
//! **Not done here.** No retries within an attempt and no pauses: the driver
//! owns both. No signing or anchoring of heads: the workload measures ordering,
//! and its verification trusts the process that runs it.

mod attempt;
pub mod chain;
mod clean;
mod deal;
mod export;
mod hex;
mod outcome;
mod read;
mod schema;
mod session;
mod sql;
mod verify;
mod walk;

use std::sync::Arc;

use clock::Clock;
use plan::{AppendParams, Isolation, Trips};
use target::{Conn, SqlFailure};

pub use deal::PAYLOAD_HEADER;
pub use export::{ExportError, ImportError, export, verify_exported};
pub use session::Session;
pub use verify::{stream_ids, verify_streams};

use crate::number::number;
use crate::{Attempt, AttemptEnd, Claim, Found, Said, Step, Verified, Workload};
use attempt::Try;
use chain::{Batch, Head};
use deal::Deal;

/// The workload of one rep.
#[derive(Clone, Debug)]
pub struct Append {
    deal: Deal,
    trips: Trips,
    isolation: Isolation,
    /// Id of the first stream; the others follow it.
    id_base: i64,
    clock: Clock,
}

/// What a writer remembers.
#[derive(Clone, Debug)]
pub struct Writer {
    index: u32,
    /// The head of its own last confirmed commit. Taken out by every attempt
    /// and put back by none but a committed one: an attempt that is dropped, or
    /// whose outcome is unknown, leaves nothing to build on.
    head: Option<Head>,
}

/// One append: a batch of records.
#[derive(Clone, Debug)]
pub struct Operation {
    number: u64,
    /// Index of its stream.
    stream: u32,
    /// Records.
    len: u32,
    /// The batch as it was sent, while nobody can say whether it committed.
    doubt: Option<Arc<Batch>>,
    /// Seq of the first record, once it is known to be there.
    at: Option<i64>,
}

/// Names the rows of one rep, for people.
pub fn rows_named(params: &AppendParams, id_base: i64) -> String {
    match params.streams {
        0 => "none".to_owned(),
        streams => {
            let last = id_base + i64::from(streams - 1);
            format!("streams {id_base} to {last} and their records")
        }
    }
}

impl Append {
    /// The append workload of one rep.
    ///
    /// `id_base` is the id of its first stream; the ids from there on must be
    /// this attempt's own. All payloads follow from `seed`. A payload is never
    /// shorter than [`PAYLOAD_HEADER`].
    pub fn new(params: &AppendParams, id_base: i64, seed: u64, clock: Clock) -> Append {
        Append {
            deal: Deal::new(params, seed),
            trips: params.trips,
            isolation: params.isolation,
            id_base,
            clock,
        }
    }

    /// Id of a stream.
    pub fn stream_id(&self, index: u32) -> i64 {
        self.id_base + i64::from(index)
    }

    /// Ids of all streams.
    pub fn stream_ids(&self) -> Vec<i64> {
        (0..self.deal.streams).map(|i| self.stream_id(i)).collect()
    }

    /// Chains an operation's records to a head.
    fn build(&self, stream: u32, number: u64, len: u32, head: Head) -> Batch {
        let payloads = (0..len).map(|index| self.deal.payload(number, index));
        chain::chain(self.stream_id(stream), head, payloads)
    }

    fn try_of<'a>(
        &self,
        conn: &'a Conn,
        session: &'a Session,
        operation: &'a mut Operation,
    ) -> Try<'a> {
        Try {
            conn,
            session,
            clock: self.clock,
            isolation: self.isolation,
            stream_id: self.stream_id(operation.stream),
            doubt: &mut operation.doubt,
            round_trips: 0,
            commit: None,
        }
    }
}

impl Workload for Append {
    type Session = Session;
    type Writer = Writer;
    type Operation = Operation;

    async fn prepare(&self, conn: &Conn) -> Result<Step, SqlFailure> {
        schema::prepare(self, conn).await
    }

    async fn session(&self, conn: &Conn) -> Result<Session, SqlFailure> {
        let lengths = (self.trips == Trips::Stepwise).then(|| self.deal.lengths());
        Session::prepare(conn, lengths.as_deref()).await
    }

    fn writers(&self) -> u32 {
        self.deal.streams * self.deal.writers
    }

    fn writer(&self, index: u32) -> Writer {
        Writer { index, head: None }
    }

    fn operation(&self, writer: &mut Writer, n: u64) -> Option<Operation> {
        let number = number(writer.index, u32::try_from(n).ok()?);
        let share = self.deal.share(number)?;
        Some(Operation {
            number,
            stream: share.stream,
            len: share.len,
            doubt: None,
            at: None,
        })
    }

    fn number(&self, operation: &Operation) -> u64 {
        operation.number
    }

    fn kind(&self, _operation: &Operation) -> &'static str {
        "append"
    }

    fn records(&self, operation: &Operation) -> u64 {
        u64::from(operation.len)
    }

    async fn attempt(
        &self,
        conn: &Conn,
        session: &Session,
        writer: &mut Writer,
        operation: &mut Operation,
    ) -> Attempt {
        let (stream, number, len) = (operation.stream, operation.number, operation.len);
        let build = |head| self.build(stream, number, len, head);
        let known = writer.head.take();
        let mut attempt = self.try_of(conn, session, operation);
        let ended = match self.trips {
            Trips::Stepwise => attempt.stepwise(build).await,
            Trips::Pipelined => attempt.pipelined(build).await,
            Trips::Sticky => attempt.sticky(known, build).await,
        };
        let (round_trips, commit) = (attempt.round_trips, attempt.commit);
        if let Some(batch) = &ended.batch {
            operation.at = Some(batch.first_seq());
            writer.head = Some(batch.after());
        } else if matches!(ended.end, AttemptEnd::Failed(_)) && !ended.lost_race() {
            // Not the head's fault: it was confirmed once and still is.
            writer.head = known;
        }
        ended.into_attempt(round_trips, commit)
    }

    async fn look_up(
        &self,
        conn: &Conn,
        session: &Session,
        writer: &mut Writer,
        operation: &mut Operation,
    ) -> Result<Found, SqlFailure> {
        let batch = operation.doubt.clone();
        let found = self.try_of(conn, session, operation).look_up().await?;
        if let (Found::Committed, Some(batch)) = (found, batch) {
            operation.at = Some(batch.first_seq());
            writer.head = Some(batch.after());
        }
        Ok(found)
    }

    fn claim(&self, operation: &Operation, said: Said) -> Claim {
        // Whoever gave up while a COMMIT was in doubt does not know.
        let said = match said {
            Said::Failed if operation.doubt.is_some() => Said::Unknown,
            said => said,
        };
        let first_seq = match said {
            Said::Committed => operation.at,
            Said::Failed => None,
            Said::Unknown => operation.doubt.as_ref().map(|batch| batch.first_seq()),
        };
        Claim {
            op: operation.number,
            said,
            at: first_seq.map(|seq| (operation.stream, seq)),
        }
    }

    async fn verify(
        &self,
        conn: &Conn,
        claims: &[Claim],
        missing: &[u32],
    ) -> Result<Verified, SqlFailure> {
        verify::verify(self, conn, claims, missing).await
    }

    async fn clean(&self, conn: &Conn) -> Result<Step, SqlFailure> {
        clean::clean(self, conn).await
    }
}
