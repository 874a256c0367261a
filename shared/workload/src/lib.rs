//! What is done to the database: schema, generate, execute, verify, clean.
//! (Chapter to be completed by the crate's author.)

pub mod append;

use std::future::Future;
use std::time::Duration;

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

/// How an operation was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Committed: its effect must be there, once.
    Committed,
    /// Failed or rejected: its effect must not be there.
    Failed,
    /// Unresolved, unfinished: either is right, and verification says which.
    Unknown,
}

/// Rows and time that a step beside the measured window took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Rows written, read or deleted.
    pub rows: u64,
    /// How long.
    pub took: Duration,
}

/// What verification found.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// rows that the rep starts from.
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
    fn attempt(
        &self,
        conn: &Conn,
        session: &Self::Session,
        writer: &mut Self::Writer,
        operation: &mut Self::Operation,
    ) -> impl Future<Output = Attempt> + Send;

    /// Looks up what became of the attempts whose outcome is unknown.
    fn look_up(
        &self,
        conn: &Conn,
        session: &Self::Session,
        writer: &mut Self::Writer,
        operation: &mut Self::Operation,
    ) -> impl Future<Output = Result<Found, SqlFailure>> + Send;

    /// The claim about an operation that has ended.
    fn claim(&self, operation: &Self::Operation, said: Said) -> Claim;

    /// Checks the database against the claims, through a connection to another
    /// endpoint than most of the load took.
    fn verify(
        &self,
        conn: &Conn,
        claims: &[Claim],
    ) -> impl Future<Output = Result<Verified, SqlFailure>> + Send;

    /// Deletes the rep's rows in steps.
    fn clean(&self, conn: &Conn) -> impl Future<Output = Result<Step, SqlFailure>> + Send;
}
