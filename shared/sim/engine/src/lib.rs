//! The simulated database without its wire: SQL in, rows out, optimistic
//! commits.
//!
//! It is built as the database that it models. A *query processor* per session
//! reads a snapshot and buffers what it writes; an *adjudicator* decides at
//! COMMIT, and the first committer wins; *storage* keeps as many versions of a
//! row as somebody still reads. There is no lock in it and nobody ever waits:
//! `FOR UPDATE` is a claim that is checked at COMMIT like a write.
//!
//! # How a statement flows
//!
//! 1. [`Session::parse`] splits a message into statements (`sql::parse`). A pass
//!    over the tokens refuses what DSQL refuses by name, with its message, and
//!    rewrites the little that `sqlparser` spells differently.
//! 2. [`Session::plan`], or [`Session::prepare`] for one statement, binds names
//!    and types as PostgreSQL infers them (`sql::bind`, `sql::operators`,
//!    `sql::functions`), parameters included, and chooses the way to every table
//!    (`sql::plan`): a point, a prefix or a range of the primary key or of an
//!    index. Plans are kept by text and made anew when the schema changes.
//! 3. [`Session::execute`] runs the plan at an instant that the caller names.
//!    Operators push rows upwards until told to stop (`sql::exec`); reads go
//!    through a `storage::Reader`, which lays the transaction's own writes over
//!    its snapshot. INSERT, UPDATE and DELETE first find and compute all rows,
//!    then check and buffer them (`sql::dml`, `sql::write`).
//! 4. Outside of a block the transaction that began with the statement is open
//!    until the caller ends it: [`Session::commit`] at the end of a simple Query
//!    or at Sync, [`Session::abort_implicit`] after an error. A COMMIT statement
//!    only says that it is one ([`Executed::commit`]); the caller lets the time
//!    pass that a commit takes and then calls [`Session::commit`] as well.
//! 5. The adjudicator (`adjudicate`) compares the buffered keys with what was
//!    committed after the snapshot: 40001 (OC000), or a new version of every
//!    row. What a schema change invalidates is 40001 (OC001).
//!
//! Time is handed in, in microseconds; nothing here sleeps, and what takes time
//! (`pg_sleep`, `CALL sys.wait_for_job`) says when its answer is due
//! ([`Executed::not_before_us`]). Each statement says what it cost ([`Work`]),
//! the engine counts ([`Meter`]). Equal calls in equal order give equal answers:
//! what is made up comes from one seeded generator.
//!
//! # What it does not do, and why
//!
//! - It does not know latencies, connections, tokens or faults: those belong to
//!   the protocol layer, which can be tried on the same engine with others.
//! - It is not all of PostgreSQL. What lies outside of the subset is refused as
//!   `0A000` with a message that begins with `simulator:`, so that nobody takes
//!   it for DSQL's answer. Among it: COPY, cursors, SQL-level PREPARE, functions
//!   written in SQL (they can be created, not called), window frames, arrays of
//!   several dimensions, numbers of more than 38 digits, deferred foreign keys
//!   that do not hold at once, regular expressions with look-around.
//! - It does not reorder joins, and keeps no statistics: the workloads' joins
//!   are small, and plans that never change are easier to reason about.
//! - It does not persist. A database lives as long as its [`Engine`].
//!
//! Where no source says what DSQL does, the nearest recorded behaviour was
//! taken, and the place says so: an index job takes a second and 65 us a row;
//! OC001 strikes transactions that began before the schema change, at their next
//! statement on a table or at COMMIT; rows are counted once however often a
//! transaction changes them; FOR UPDATE alone counts no row.

mod adjudicate;
mod catalog;
mod engine;
mod error;
mod jobs;
mod meter;
mod pgcatalog;
mod session;
mod sql;
mod statement;
mod storage;
mod txn;
mod types;
mod value;

pub use engine::{Engine, Limits};
pub use error::SqlError;
pub use meter::Meter;
pub use session::{
    Column, Executed, PendingCommit, Prepared, Session, TransactionStatus, Work, WorkKind,
};
pub use sql::parse::Parsed;
pub use types::Type;
pub use value::{Array, Interval, Numeric, Value};
