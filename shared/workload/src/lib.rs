//! What is done to the database: schema, generate, execute, verify, clean.
//!
//! A [`Workload`] is one rep of one kind of load. It owns the SQL and nothing
//! else: the driver above it owns connections, the schedule, retries, pauses and
//! the clock's use, and knows no table. A rep goes like this:
//!
//! 1. [`Workload::prepare`] sees to the tables and the rep's own rows. Their ids
//!    are unique to the attempt, so that reps never meet each other's rows.
//! 2. For every connection [`Workload::session`] prepares what is prepared once,
//!    and every writer gets a memory from [`Workload::writer`].
//! 3. [`Workload::operation`] generates inputs from the seed and two numbers
//!    alone, so a retry runs the same operation and any process can say what any
//!    other was to do.
//! 4. [`Workload::attempt`] makes one try. It says how the try ended, in the four
//!    words of [`AttemptEnd`], and how many round trips it awaited.
//! 5. When that is not known, [`Workload::look_up`] asks the database.
//! 6. [`Workload::claim`] puts down what was reported; [`Workload::verify`] holds
//!    the database against all claims of the rep, and against the workload's own
//!    invariants.
//! 7. [`Workload::clean`] deletes the rep's rows.
//!
//! # What a driver owes
//!
//! - One attempt at a time for each writer, on a connection of his own.
//! - After [`AttemptEnd::Unknown`], a look-up before anything else is said about
//!   the operation. [`Found::Pending`] means: try again, the workload will send
//!   nothing that could do harm, and look up again until it is known. Until then
//!   every attempt that fails may have been overtaken by an earlier one.
//! - An attempt may be dropped at any await (a deadline, a stop). Its connection
//!   is then dropped with it, and its outcome is looked up like an unknown one.
//!
//! # What is not here
//!
//! No retry and no sleep inside an attempt: its latency is the database's alone.
//! (Preparing and cleaning, which are not measured, do retry what passes by
//! itself.) No dynamic dispatch: the driver is generic, so an attempt costs no
//! allocation for its future. No knowledge of the simulator: the same code runs
//! against it, against PostgreSQL and against DSQL.

pub mod append;
mod block;
mod flight;
mod number;
pub mod order_transfer;
mod problems;
mod stepwise;
mod table;
pub mod tpcb;
mod tries;

use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use target::{Conn, SqlFailure};

/// How one attempt ended.
#[derive(Clone, Debug)]
pub enum AttemptEnd {
    /// BEGIN, every statement with its expected row count and COMMIT succeeded.
    Committed,
    /// A business rule refused it; nothing was written.
    Rejected(&'static str),
    /// It certainly did not commit.
    Failed(SqlFailure),
    /// COMMIT was sent and not answered (or answered XX000): it may have
    /// committed, may not have, or may still do so.
    Unknown(SqlFailure),
}

/// One try of an operation.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// How it ended.
    pub end: AttemptEnd,
    /// Flights that were awaited, a ROLLBACK included.
    pub round_trips: u32,
    /// COMMIT alone, where it was awaited by itself.
    pub commit: Option<Duration>,
}

/// What a look-up after an unknown outcome found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The operation's effect is there.
    Committed,
    /// It is not and can no longer come.
    Absent,
    /// It is not there, but a COMMIT may still be in flight; the workload will
    /// only send what can do no harm.
    Pending,
}

/// What the driver was told about one operation, for verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The operation's number within the wave.
    pub op: u64,
    /// How it was reported.
    pub said: Said,
    /// Where its effect is, in the workload's own terms (append: stream index
    /// and first seq).
    pub at: Option<(u32, i64)>,
}

/// A claim as it travels: a list, because there is one for every operation.
type ClaimParts = (u64, Said, Option<(u32, i64)>);

impl Serialize for Claim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts: ClaimParts = (self.op, self.said, self.at);
        parts.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Claim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Claim, D::Error> {
        let (op, said, at) = ClaimParts::deserialize(deserializer)?;
        Ok(Claim { op, said, at })
    }
}

/// How an operation was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// Committed: its effect must be there, once.
    #[serde(rename = "c")]
    Committed,
    /// Failed or rejected: its effect must not be there.
    #[serde(rename = "f")]
    Failed,
    /// Unresolved, unfinished: either is right, and verification says which.
    #[serde(rename = "u")]
    Unknown,
}

/// Rows and time that a step beside the measured window took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Rows written, read or deleted.
    pub rows: u64,
    /// How long.
    pub took: Duration,
}

/// What verification found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Everything was as it must be.
    pub ok: bool,
    /// What was not, one line each, naming rows; at most 20.
    pub problems: Vec<String>,
    /// Rows checked and time taken.
    pub step: Step,
    /// Operations of [`Said::Unknown`] whose effect is there.
    pub settled_committed: Vec<u64>,
    /// Operations of [`Said::Unknown`] whose effect is not there.
    pub settled_absent: Vec<u64>,
}

/// A workload of one rep (its scope, that is its row ids, is unique to the
/// attempt). The driver owns connections, schedule, retries and clocks; the
/// workload owns SQL.
pub trait Workload: Send + Sync {
    /// What is prepared on a connection once, such as statements.
    type Session: Send;
    /// What one writer remembers between its operations.
    type Writer: Send;
    /// One operation: its inputs, and what it must remember between attempts.
    type Operation: Send;

    /// Creates the schema if it is not there, one DDL a transaction, and the
    /// rows that the rep starts from. Repeated before the load has begun it finds
    /// what an earlier try has made.
    fn prepare(&self, conn: &Conn) -> impl Future<Output = Result<Step, SqlFailure>> + Send;

    /// Prepares a freshly opened connection.
    fn session(
        &self,
        conn: &Conn,
    ) -> impl Future<Output = Result<Self::Session, SqlFailure>> + Send;

    /// Writers of the whole wave.
    fn writers(&self) -> u32;

    /// The memory of writer `index`.
    fn writer(&self, index: u32) -> Self::Writer;

    /// The `n`th operation of a writer; `None` when it has done its share.
    /// Inputs follow from the seed and these numbers alone.
    fn operation(&self, writer: &mut Self::Writer, n: u64) -> Option<Self::Operation>;

    /// The operation's number within the wave.
    fn number(&self, operation: &Self::Operation) -> u64;

    /// Its kind, such as `append`, for the split by operation.
    fn kind(&self, operation: &Self::Operation) -> &'static str;

    /// Rows of payload that its commit adds (append: its records).
    fn records(&self, operation: &Self::Operation) -> u64;

    /// Makes one attempt. Never retries, never waits but for the database.
    /// While an earlier attempt of the operation may still commit, it only sends
    /// what can do no harm beside that.
    fn attempt(
        &self,
        conn: &Conn,
        session: &Self::Session,
        writer: &mut Self::Writer,
        operation: &mut Self::Operation,
    ) -> impl Future<Output = Attempt> + Send;

    /// Looks up what became of the attempts whose outcome is unknown, dropped
    /// ones included; [`Found::Absent`] when no COMMIT of the operation ever left.
    fn look_up(
        &self,
        conn: &Conn,
        session: &Self::Session,
        writer: &mut Self::Writer,
        operation: &mut Self::Operation,
    ) -> impl Future<Output = Result<Found, SqlFailure>> + Send;

    /// The claim about an operation that has ended. What is said to have failed
    /// while it is in doubt is claimed as unknown.
    fn claim(&self, operation: &Self::Operation, said: Said) -> Claim;

    /// Checks the database against the claims, through a connection to another
    /// endpoint than most of the load took. Of the `missing` writers some or all
    /// claims are not known: their operations may be there or not.
    fn verify(
        &self,
        conn: &Conn,
        claims: &[Claim],
        missing: &[u32],
    ) -> impl Future<Output = Result<Verified, SqlFailure>> + Send;

    /// Deletes the rep's rows in steps. Those that are not there, nor their
    /// tables, are as good as deleted.
    fn clean(&self, conn: &Conn) -> impl Future<Output = Result<Step, SqlFailure>> + Send;
}
