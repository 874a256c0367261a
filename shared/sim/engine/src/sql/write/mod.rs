//! Writing rows: everything that a row has to satisfy before it is buffered.

mod check;
mod reference;

pub(crate) use check::check_row;

use check::{column_list, shown, value_list};

use crate::catalog::{Index, IndexKey, Table};
use crate::engine::Database;
use crate::error::{Result, SqlError};
use crate::session::Settings;
use crate::sql::exec::Run;
use crate::storage::{self, Range, Reader, Row};
use crate::txn::Txn;
use crate::value::Value;
use crate::value::key::{self, Key};
use std::sync::Arc;

/// Longest key, of a primary key or an index.
const MAX_KEY: usize = 1_024;

/// Buffers writes of one statement.
pub(crate) struct Writer<'w> {
    pub db: &'w Database,
    pub txn: &'w mut Txn,
    pub session: &'w Settings,
    pub now_us: u64,
    /// Rows and bytes buffered.
    pub rows: u64,
    pub bytes: u64,
    /// Rows and bytes read on the way, to find what refers to a row.
    pub rows_read: u64,
    pub bytes_read: u64,
    depth: usize,
}

/// A row that has a unique key that another one wants.
struct Duplicate {
    key: Key,
    /// The index; `None` is the primary key.
    index: Option<Arc<Index>>,
}

/// How an INSERT of a row ended.
pub(crate) enum Inserted {
    /// The row is there under this key.
    New(Key),
    /// The row of this key has one of the unique keys.
    Duplicate(Key),
}

impl<'w> Writer<'w> {
    pub(crate) fn new(
        db: &'w Database,
        txn: &'w mut Txn,
        session: &'w Settings,
        now_us: u64,
    ) -> Writer<'w> {
        Writer {
            db,
            txn,
            session,
            now_us,
            rows: 0,
            bytes: 0,
            rows_read: 0,
            bytes_read: 0,
            depth: 0,
        }
    }

    pub(crate) fn reader(&self, table: u32) -> Reader<'_> {
        Reader {
            store: self.db.stores.get(&table),
            buffer: self.txn.buffers.get(table),
            snapshot: self.txn.snapshot,
        }
    }

    /// A context for expressions in the middle of writing.
    pub(crate) fn run(&self) -> Run<'_> {
        Run::new(
            self.db,
            Arc::clone(&self.txn.catalog),
            &self.txn.buffers,
            self.txn.snapshot,
            (self.txn.began_us, self.now_us),
            self.session,
        )
    }

    /// The key under which a row is stored.
    fn key_of(&self, table: &Table, row: &[Value]) -> Result<Key> {
        if !table.has_primary() {
            return Ok(Key::new(&self.db.next_row_number().to_be_bytes()));
        }
        let mut bytes = Vec::with_capacity(36);
        for slot in &table.primary {
            key::push(&mut bytes, row.get(*slot).unwrap_or(&Value::Null));
        }
        if bytes.len() > MAX_KEY {
            return Err(SqlError::new("54000", "key size too large"));
        }
        Ok(Key::new(&bytes))
    }

    /// A row that has one of the unique keys of `row`, other than the one
    /// stored under `own`. Only `arbiter` is looked at if there is one.
    fn duplicate(
        &self,
        table: &Table,
        key: &Key,
        row: &[Value],
        own: Option<&Key>,
        arbiter: Option<&Arbiter>,
    ) -> Result<Option<Duplicate>> {
        let reader = self.reader(table.oid);
        let primary =
            table.has_primary() && arbiter.is_none_or(|arbiter| *arbiter == Arbiter::Primary);
        if primary && own != Some(key) && reader.get(key).is_some() {
            return Ok(Some(Duplicate {
                key: key.clone(),
                index: None,
            }));
        }
        for index in &table.indexes {
            let mut bytes = Vec::with_capacity(48);
            if !storage::push_index_key(index, row, &mut bytes) {
                continue;
            }
            if bytes.len() > MAX_KEY {
                return Err(SqlError::new("54000", "key size too large"));
            }
            let wanted = arbiter.is_none_or(|arbiter| *arbiter == Arbiter::Index(index.oid));
            if !index.unique || !wanted || storage::has_null(index, row) {
                continue;
            }
            let mut other = None;
            reader.scan_index(index, &Range::prefix(bytes), false, &mut |found, _| {
                if own.is_none_or(|own| own.bytes() != found) {
                    other = Some(Key::new(found));
                }
                Ok(other.is_none())
            })?;
            if let Some(key) = other {
                return Ok(Some(Duplicate {
                    key,
                    index: Some(Arc::clone(index)),
                }));
            }
        }
        Ok(None)
    }

    /// The error that a duplicate is.
    fn unique_violation(table: &Table, duplicate: &Duplicate, row: &[Value]) -> SqlError {
        let (name, columns, values) = match &duplicate.index {
            None => (
                table.primary_name.clone(),
                column_list(table, &table.primary),
                value_list(table, &table.primary, row),
            ),
            Some(index) => {
                let slots: Option<Vec<usize>> = index
                    .keys
                    .iter()
                    .map(|key| match key {
                        IndexKey::Slot(slot) => Some(*slot),
                        IndexKey::Expr(_) => None,
                    })
                    .collect();
                match slots {
                    Some(slots) => (
                        index.name.clone(),
                        column_list(table, &slots),
                        value_list(table, &slots, row),
                    ),
                    None => {
                        return SqlError::new(
                            "23505",
                            format!(
                                "duplicate key value violates unique constraint \"{}\"",
                                index.name
                            ),
                        );
                    }
                }
            }
        };
        SqlError::new(
            "23505",
            format!("duplicate key value violates unique constraint \"{name}\""),
        )
        .detail(format!("Key ({columns})=({values}) already exists."))
    }

    fn buffer(
        &mut self,
        table: &Table,
        key: &Key,
        row: Option<Row>,
        key_changed: bool,
    ) -> Result<()> {
        let store = self.db.stores.get(&table.oid);
        let snapshot = self.txn.snapshot;
        let base = || {
            Reader {
                store,
                buffer: None,
                snapshot,
            }
            .get(key)
            .cloned()
        };
        let (rows, bytes) =
            self.txn
                .buffers
                .get_mut(table.oid)
                .write(table, key, row, base, key_changed);
        self.rows += 1;
        self.bytes += bytes.max(0).unsigned_abs() as u64;
        self.txn.rows += rows;
        self.txn.bytes = self.txn.bytes.saturating_add_signed(bytes);
        if self.txn.rows > self.db.limits.rows_per_transaction {
            return Err(SqlError::new("54000", "transaction row limit exceeded"));
        }
        Ok(())
    }

    /// Buffers a new row and gives its key. With arbiters, a duplicate is
    /// returned instead of being an error, and nothing is written.
    pub(crate) fn insert(
        &mut self,
        table: &Table,
        row: Row,
        arbiter: Option<&[Arbiter]>,
    ) -> Result<Inserted> {
        let key = self.key_of(table, &row)?;
        if let Some(arbiters) = arbiter {
            let tolerated = if arbiters.is_empty() {
                self.duplicate(table, &key, &row, None, None)?
            } else {
                let mut found = None;
                for arbiter in arbiters {
                    if found.is_none() {
                        found = self.duplicate(table, &key, &row, None, Some(arbiter))?;
                    }
                }
                found
            };
            if let Some(duplicate) = tolerated {
                return Ok(Inserted::Duplicate(duplicate.key));
            }
        }
        if let Some(duplicate) = self.duplicate(table, &key, &row, None, None)? {
            return Err(Self::unique_violation(table, &duplicate, &row));
        }
        self.check_parents(table, &row, None)?;
        self.buffer(table, &key, Some(row), false)?;
        Ok(Inserted::New(key))
    }

    /// Buffers a changed row; the key may have changed as well.
    pub(crate) fn update(&mut self, table: &Table, key: &Key, old: &Row, new: Row) -> Result<()> {
        let changed = |slot: usize| {
            let null = Value::Null;
            old.get(slot)
                .unwrap_or(&null)
                .compare(new.get(slot).unwrap_or(&null))
                .is_ne()
        };
        let moved = table.primary.iter().any(|slot| changed(*slot));
        let key_changed = moved
            || (0..table.columns.len()).any(|slot| table.is_key_column(slot) && changed(slot));
        let new_key = if moved {
            self.key_of(table, &new)?
        } else {
            key.clone()
        };
        if (moved || !table.indexes.is_empty())
            && let Some(duplicate) = self.duplicate(table, &new_key, &new, Some(key), None)?
        {
            return Err(Self::unique_violation(table, &duplicate, &new));
        }
        if !table.foreign_keys.is_empty() {
            self.check_parents(table, &new, Some(old))?;
        }
        if moved {
            self.buffer(table, key, None, true)?;
            self.buffer(table, &new_key, Some(Arc::clone(&new)), true)?;
            // One row was changed, not two.
            self.rows -= 1;
        } else {
            self.buffer(table, key, Some(Arc::clone(&new)), key_changed)?;
        }
        if key_changed {
            self.follow_references(table, old, Some(&new))?;
        }
        Ok(())
    }

    /// Buffers a deletion.
    pub(crate) fn delete(&mut self, table: &Table, key: &Key, old: &Row) -> Result<()> {
        self.buffer(table, key, None, true)?;
        self.follow_references(table, old, None)
    }
}

/// The unique key that ON CONFLICT is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arbiter {
    Primary,
    Index(u32),
}
