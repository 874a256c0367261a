//! What statements and transactions answer.

use crate::error::SqlError;
use crate::types::Type;
use crate::value::Value;
use std::sync::Arc;

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
    /// Warnings and notices to send before the tag: NOTICE where the SQLSTATE
    /// is 00000 or of class 42, WARNING otherwise.
    pub notices: Vec<SqlError>,
    /// What it cost.
    pub work: Work,
    /// The statement was a COMMIT of a block that has not failed: nothing is
    /// decided yet, the caller must call [`Session::commit`](super::Session::commit), whose error takes
    /// the place of this answer.
    pub commit: bool,
    /// The answer is to be sent no earlier than this instant: of `pg_sleep`
    /// and of `CALL sys.wait_for_job`. 0 for everything else.
    pub not_before_us: u64,
}

impl Executed {
    /// An answer that is a tag alone.
    pub(crate) fn tag(tag: impl Into<String>) -> Executed {
        Executed {
            columns: None,
            rows: Vec::new(),
            tag: tag.into(),
            notices: Vec::new(),
            work: Work::default(),
            commit: false,
            not_before_us: 0,
        }
    }

    pub(crate) fn notice(mut self, notice: SqlError) -> Executed {
        self.notices.push(notice);
        self
    }
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
