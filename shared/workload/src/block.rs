//! The transaction block that may be open on a connection.
//!
//! It may be open from the moment before a BEGIN leaves until an answer says
//! that it has ended. While it may be, the next flight begins with ROLLBACK:
//! neither a read nor a BEGIN may fall into what an earlier attempt left, which
//! may have failed or hold an old snapshot.

use std::sync::atomic::{AtomicBool, Ordering};

use plan::Isolation;

/// Whether a block may be open on a connection.
#[derive(Debug, Default)]
pub(crate) struct Block {
    open: AtomicBool,
}

impl Block {
    /// What starts a transaction, and the number of statements in it. The block
    /// may be open from here. The level is always said, for a server's default
    /// may be any.
    pub(crate) fn begin(&self, isolation: Isolation) -> (String, usize) {
        let begin = format!("BEGIN ISOLATION LEVEL {}", isolation.sql());
        match self.open.swap(true, Ordering::Relaxed) {
            true => (format!("ROLLBACK; {begin}"), 2),
            false => (begin, 1),
        }
    }

    /// Whether it may be open.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// An answer says that it has ended.
    pub(crate) fn ended(&self) {
        self.open.store(false, Ordering::Relaxed);
    }
}
