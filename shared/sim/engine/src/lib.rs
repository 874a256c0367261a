//! The simulated database without its wire: SQL in, rows out, optimistic
//! commits. (Chapter to be completed by the crate's author.)

use std::sync::Arc;

/// An error as the protocol reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// Five characters, such as `40001`.
    pub sqlstate: &'static str,
    /// The primary message.
    pub message: String,
    /// DETAIL, if any.
    pub detail: Option<String>,
    /// HINT, if any.
    pub hint: Option<String>,
    /// Character position in the statement, from 1, if known.
    pub position: Option<u32>,
}

/// A PostgreSQL type, by its name in the catalog and its OID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// The type's OID, such as 23 for `int4`.
    pub oid: u32,
    /// Bytes, or -1 when variable.
    pub size: i16,
    /// Type modifier, -1 when none.
    pub modifier: i32,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name as the client sees it.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// What a statement cost, for the caller to turn into service time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// What kind of work it was.
    pub kind: WorkKind,
    /// Rows read from storage.
    pub rows_read: u64,
    /// Rows buffered for writing.
    pub rows_written: u64,
    /// Bytes buffered for writing.
    pub bytes_written: u64,
    /// Bytes read from storage.
    pub bytes_read: u64,
}

/// Kinds of work that differ in what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkKind {
    /// Answered without touching storage: BEGIN, ROLLBACK, SET, SHOW, SELECT 1.
    #[default]
    Trivial,
    /// Reads from storage.
    Read,
    /// Reads, and buffers writes (also FOR UPDATE).
    Write,
    /// Changes the schema.
    Ddl,
}

/// How a statement ended.
#[derive(Clone, Debug)]
pub struct Executed {
    /// Columns of the result, `None` when the statement returns none.
    pub columns: Option<Arc<[Column]>>,
    /// Rows of the result.
    pub rows: Vec<Vec<Value>>,
    /// Command tag, such as `INSERT 0 1`.
    pub tag: String,
    /// Warnings and notices to send before the tag.
    pub notices: Vec<SqlError>,
    /// What it cost.
    pub work: Work,
    /// The statement was a COMMIT of a block that has not failed: nothing is
    /// decided yet, the caller must call [`Session::commit`], whose error takes
    /// the place of this answer.
    pub commit: bool,
}

/// Where a session stands, as ReadyForQuery says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`
    Idle,
    /// `T`
    InBlock,
    /// `E`
    Failed,
}

/// A value. (The engine's author extends this.)
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// boolean
    Bool(bool),
    /// smallint, integer and bigint
    Int(i64),
    /// real and double precision
    Float(f64),
    /// text, varchar, char, and what is only carried as text
    Text(Arc<str>),
    /// bytea
    Bytea(Arc<[u8]>),
}

impl Value {
    /// Reads a parameter sent by a client. `binary` as the Bind message says.
    ///
    /// # Errors
    /// 22P02, 22P03 or 0A000 when the bytes are not a value of the type.
    pub fn decode(_ty: Type, _binary: bool, _bytes: &[u8]) -> Result<Value, SqlError> {
        unimplemented!()
    }

    /// Appends the value to a DataRow in text or binary format. `Null` must be
    /// handled by the caller (length -1).
    ///
    /// # Errors
    /// 0A000 when the type has no binary format here.
    pub fn encode(
        &self,
        _ty: Type,
        _binary: bool,
        _out: &mut bytes::BytesMut,
    ) -> Result<(), SqlError> {
        unimplemented!()
    }
}

/// A statement that was parsed and planned, ready to be executed many times.
#[derive(Debug)]
pub struct Prepared {}

impl Prepared {
    /// Types of `$1`, `$2`, ….
    pub fn params(&self) -> &[Type] {
        unimplemented!()
    }

    /// Columns of its result, `None` when it returns none (NoData).
    pub fn columns(&self) -> Option<&Arc<[Column]>> {
        unimplemented!()
    }

    /// Nothing but white space and comments: EmptyQueryResponse.
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
}

/// One parsed statement of a script, not planned yet.
#[derive(Debug)]
pub struct Parsed {}

/// Limits of the database, by default those of Aurora DSQL.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Rows a transaction may change.
    pub rows_per_transaction: usize,
    /// Bytes a transaction may change.
    pub bytes_per_transaction: usize,
    /// Microseconds a transaction may live.
    pub transaction_age_us: u64,
}

/// The database: catalog, versioned storage, adjudicator. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Engine {}

impl Engine {
    /// An empty database.
    pub fn new(_limits: Limits) -> Engine {
        unimplemented!()
    }

    /// A new session.
    pub fn session(&self, _user: &str) -> Session {
        unimplemented!()
    }
}

/// One connection's view of the database.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// Splits a simple Query message into statements.
    ///
    /// # Errors
    /// 42601 when any statement does not parse (then none may run).
    pub fn parse(&self, _script: &str) -> Result<Vec<Parsed>, SqlError> {
        unimplemented!()
    }

    /// Plans one statement; `param_types` are the OIDs of a Parse message, 0 or
    /// missing where the server is to infer them.
    ///
    /// # Errors
    /// As PostgreSQL or DSQL would: 42P01, 42703, 0A000, 25P02 in a failed
    /// block, ….
    pub fn plan(
        &mut self,
        _statement: &Parsed,
        _param_types: &[u32],
    ) -> Result<Arc<Prepared>, SqlError> {
        unimplemented!()
    }

    /// [`Session::parse`] and [`Session::plan`] of one statement, from a cache
    /// keyed by the text where nothing changed: what a Parse message needs.
    ///
    /// # Errors
    /// As those two.
    pub fn prepare(
        &mut self,
        _sql: &str,
        _param_types: &[u32],
    ) -> Result<Arc<Prepared>, SqlError> {
        unimplemented!()
    }

    /// Executes one statement at `now_us`. Outside of a block an implicit
    /// transaction begins here (its snapshot is `now`) and stays open until
    /// the caller ends it with [`Session::commit`] at the end of the simple
    /// Query or at Sync.
    ///
    /// # Errors
    /// The statement's error; the block or the implicit transaction has then
    /// failed ([`Session::abort_implicit`]).
    pub fn execute(
        &mut self,
        _statement: &Prepared,
        _params: &[Value],
        _now_us: u64,
    ) -> Result<Executed, SqlError> {
        unimplemented!()
    }

    /// What there is to commit when an implicit transaction ends now:
    /// `None` outside of one.
    pub fn pending_commit(&self) -> Option<PendingCommit> {
        unimplemented!()
    }

    /// The adjudicator decides: first committer wins. Ends the transaction
    /// either way.
    ///
    /// # Errors
    /// 40001 (OC000, OC001), 54000, 23505.
    pub fn commit(&mut self, _now_us: u64) -> Result<(), SqlError> {
        unimplemented!()
    }

    /// Ends an implicit transaction that failed or is given up; a block stays
    /// as it is (failed until ROLLBACK).
    pub fn abort_implicit(&mut self) {
        unimplemented!()
    }

    /// Ends whatever transaction there is, as a lost connection does.
    pub fn abort(&mut self) {
        unimplemented!()
    }

    /// For ReadyForQuery.
    pub fn status(&self) -> TransactionStatus {
        unimplemented!()
    }
}

/// What a COMMIT has before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCommit {
    /// Nothing was written or locked.
    pub read_only: bool,
    /// Rows to write.
    pub rows: u64,
    /// Bytes to write.
    pub bytes: u64,
}
