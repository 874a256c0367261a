//! What the database has done, for cost models.

/// Counters since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Statements executed.
    pub statements: u64,
    /// Rows read from storage.
    pub rows_read: u64,
    /// Bytes read from storage.
    pub bytes_read: u64,
    /// Rows buffered for writing, by transactions whatever became of them.
    pub rows_written: u64,
    /// Bytes buffered for writing.
    pub bytes_written: u64,
    /// Rows that were committed.
    pub rows_committed: u64,
    /// Bytes that were committed.
    pub bytes_committed: u64,
    /// Transactions that committed something.
    pub commits: u64,
    /// Transactions that ended without anything to adjudicate.
    pub read_only: u64,
    /// Commits lost to another transaction's (OC000).
    pub conflicts: u64,
    /// Statements and commits lost to a schema change (OC001).
    pub schema_conflicts: u64,
    /// Transactions given up: ROLLBACK, or ended after an error.
    pub rollbacks: u64,
}
