//! A transaction: the snapshot that it reads and the writes that it buffers.
//! Nothing of it is seen by anybody before the adjudicator says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::{Catalog, Table};
use crate::jobs::JobRequest;
use crate::storage::{self, Row, Ts};
use crate::value::key::Key;

/// What a transaction will write to one row.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// The row as it will be; `None` when deleted.
    pub row: Option<Row>,
    /// The row as the snapshot has it; `None` when there is none.
    pub base: Option<Row>,
    /// A unique key was changed on the way, or the row deleted.
    pub key_changed: bool,
    /// Bytes that this write counts for.
    pub bytes: usize,
}

/// FOR UPDATE and FOR KEY SHARE. No one ever waits for them: they are claims
/// that the adjudicator checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    KeyShare,
    Update,
}

/// Buffered writes of one table.
#[derive(Debug, Default)]
pub(crate) struct TableBuffer {
    pub rows: BTreeMap<Key, Pending>,
    /// Index entries of the buffered rows, by the index's OID.
    pub indexes: BTreeMap<u32, BTreeMap<Key, u16>>,
    pub locks: BTreeMap<Key, Lock>,
}

impl TableBuffer {
    /// Buffers a write; `base` is the row of the snapshot, if there is one.
    /// Returns how many rows and bytes were added to the transaction.
    pub(crate) fn write(
        &mut self,
        table: &Table,
        key: &Key,
        row: Option<Row>,
        base: impl FnOnce() -> Option<Row>,
        key_changed: bool,
    ) -> (usize, isize) {
        let mut bytes = key.bytes().len() + row.as_ref().map_or(0, |row| storage::row_width(row));
        for index in &table.indexes {
            let entries = self.indexes.entry(index.oid).or_default();
            let old = self.rows.get(key).and_then(|pending| pending.row.as_ref());
            if let Some((entry, _)) = old.and_then(|row| storage::entry_key(index, row, key)) {
                entries.remove(&entry);
            }
            if let Some((entry, at)) = row
                .as_ref()
                .and_then(|row| storage::entry_key(index, row, key))
            {
                bytes += entry.bytes().len();
                entries.insert(entry, at);
            }
        }
        match self.rows.get_mut(key.bytes()) {
            Some(pending) => {
                let more = bytes as isize - pending.bytes as isize;
                pending.row = row;
                pending.key_changed |= key_changed;
                pending.bytes = bytes;
                (0, more)
            }
            None => {
                self.rows.insert(
                    key.clone(),
                    Pending {
                        row,
                        base: base(),
                        key_changed,
                        bytes,
                    },
                );
                (1, bytes as isize)
            }
        }
    }

    /// Notes a lock; the stronger one of a row counts.
    pub(crate) fn lock(&mut self, key: Key, lock: Lock) {
        let held = self.locks.entry(key).or_insert(lock);
        *held = (*held).max(lock);
    }
}

/// The buffers of all tables. There are rarely more than a handful.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    tables: Vec<(u32, TableBuffer)>,
}

impl Buffers {
    pub(crate) fn get(&self, table: u32) -> Option<&TableBuffer> {
        self.tables
            .iter()
            .find(|(oid, _)| *oid == table)
            .map(|(_, buffer)| buffer)
    }

    pub(crate) fn get_mut(&mut self, table: u32) -> &mut TableBuffer {
        let at = match self.tables.iter().position(|(oid, _)| *oid == table) {
            Some(at) => at,
            None => {
                self.tables.push((table, TableBuffer::default()));
                self.tables.len() - 1
            }
        };
        &mut self.tables[at].1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables
            .iter()
            .all(|(_, buffer)| buffer.rows.is_empty() && buffer.locks.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &TableBuffer)> {
        self.tables.iter().map(|(oid, buffer)| (*oid, buffer))
    }
}

/// What a DDL statement will do when its transaction commits.
#[derive(Debug)]
pub(crate) struct SchemaChange {
    /// The schema as it will be; `None` when the statement changes nothing.
    pub catalog: Option<Arc<Catalog>>,
    pub job: Option<JobRequest>,
}

/// A transaction from its BEGIN on.
#[derive(Debug)]
pub(crate) struct Txn {
    /// No two transactions have the same.
    pub number: u64,
    pub snapshot: Ts,
    pub began_us: u64,
    /// The schema that it began with, its own change included.
    pub catalog: Arc<Catalog>,
    /// Version of the schema that it began with.
    pub schema_version: u64,
    pub buffers: Buffers,
    /// Rows and bytes that it will change.
    pub rows: usize,
    pub bytes: usize,
    pub change: Option<SchemaChange>,
    /// It has run a statement that changes data.
    pub changed_data: bool,
    pub read_only: bool,
    /// Began by itself, with a statement outside of a block.
    pub implicit: bool,
    pub failed: bool,
}

impl Txn {
    /// Nothing to adjudicate.
    pub(crate) fn is_read_only(&self) -> bool {
        self.buffers.is_empty() && self.change.is_none()
    }
}
