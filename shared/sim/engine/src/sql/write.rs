//! Writing rows: everything that a row has to satisfy before it is buffered.

use std::sync::Arc;

use super::expr::{self, Ctx};
use super::exec::Run;
use crate::catalog::{Action, Column, ForeignKey, Index, IndexKey, Table};
use crate::engine::Database;
use crate::error::{Result, SqlError};
use crate::session::Settings;
use crate::storage::{self, Range, Reader, Row};
use crate::txn::{Lock, Txn};
use crate::value::key::{self, Key};
use crate::value::{Value, text};

/// Longest key, of a primary key or an index.
const MAX_KEY: usize = 1_024;
/// Largest value outside of a key.
const MAX_COLUMN: usize = 1 << 20;
/// Largest row.
const MAX_ROW: usize = 2 << 20;

/// How deep cascades may follow each other.
const MAX_CASCADE: usize = 64;

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

fn column_list(table: &Table, slots: &[usize]) -> String {
    let names: Vec<&str> = slots
        .iter()
        .filter_map(|slot| table.columns.get(*slot))
        .map(|column| column.name.as_str())
        .collect();
    names.join(", ")
}

fn value_list(table: &Table, slots: &[usize], row: &[Value]) -> String {
    let values: Vec<String> = slots
        .iter()
        .map(|slot| shown(row.get(*slot), table.columns.get(*slot)))
        .collect();
    values.join(", ")
}

fn shown(value: Option<&Value>, column: Option<&Column>) -> String {
    match (value, column) {
        (None | Some(Value::Null), _) => "null".to_owned(),
        (Some(value), Some(column)) => text::to_text(value, column.ty),
        (Some(value), None) => text::to_text(value, crate::types::Type::TEXT),
    }
}

/// The DETAIL of an error about a row: its values, each cut short.
fn failing_row(table: &Table, row: &[Value]) -> String {
    let values: Vec<String> = table
        .live()
        .map(|(slot, column)| {
            let full = shown(row.get(slot), Some(column));
            match full.char_indices().nth(64) {
                Some((end, _)) => format!("{}...", &full[..end]),
                None => full,
            }
        })
        .collect();
    format!("Failing row contains ({}).", values.join(", "))
}

/// NOT NULL, domains, CHECK and sizes: what concerns the row alone.
pub(crate) fn check_row(table: &Table, row: &[Value], cx: &Ctx<'_>) -> Result<()> {
    let mut width = 0;
    for (slot, column) in table.live() {
        let value = row.get(slot).unwrap_or(&Value::Null);
        if value.is_null() && column.not_null {
            return Err(SqlError::new(
                "23502",
                format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, table.name
                ),
            )
            .detail(failing_row(table, row)));
        }
        if let Some(domain) = &column.domain {
            if value.is_null() && domain.not_null {
                return Err(SqlError::new(
                    "23502",
                    format!("domain {} does not allow null values", domain.name),
                ));
            }
            for (name, check) in &domain.checks {
                if matches!(
                    expr::eval(check, cx, std::slice::from_ref(value))?,
                    Value::Bool(false)
                ) {
                    return Err(SqlError::new(
                        "23514",
                        format!(
                            "value for domain {} violates check constraint \"{name}\"",
                            domain.name
                        ),
                    ));
                }
            }
        }
        let bytes = value.width();
        if bytes > MAX_COLUMN && !table.primary.contains(&slot) {
            return Err(SqlError::new("54000", "maximum column size exceeded"));
        }
        width += bytes;
    }
    if width > MAX_ROW {
        return Err(SqlError::new("54000", "maximum row size exceeded"));
    }
    for check in &table.checks {
        if matches!(expr::eval(&check.expr, cx, row)?, Value::Bool(false)) {
            return Err(SqlError::new(
                "23514",
                format!(
                    "new row for relation \"{}\" violates check constraint \"{}\"",
                    table.name, check.name
                ),
            )
            .detail(failing_row(table, row)));
        }
    }
    Ok(())
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
        let primary = table.has_primary() && arbiter.is_none_or(|arbiter| *arbiter == Arbiter::Primary);
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
        let key_changed = moved || (0..table.columns.len()).any(|slot| table.is_key_column(slot) && changed(slot));
        let new_key = if moved { self.key_of(table, &new)? } else { key.clone() };
        if moved || !table.indexes.is_empty() {
            if let Some(duplicate) = self.duplicate(table, &new_key, &new, Some(key), None)? {
                return Err(Self::unique_violation(table, &duplicate, &new));
            }
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

    /// Every reference must find its row, which is claimed FOR KEY SHARE.
    fn check_parents(&mut self, table: &Table, row: &[Value], old: Option<&Row>) -> Result<()> {
        for reference in &table.foreign_keys {
            let values: Vec<Value> = reference
                .columns
                .iter()
                .map(|slot| row.get(*slot).cloned().unwrap_or(Value::Null))
                .collect();
            if values.iter().any(Value::is_null) {
                continue;
            }
            let same = old.is_some_and(|old| {
                reference
                    .columns
                    .iter()
                    .zip(&values)
                    .all(|(slot, value)| old.get(*slot).is_some_and(|old| old.compare(value).is_eq()))
            });
            if same {
                continue;
            }
            let catalog = Arc::clone(&self.txn.catalog);
            let Some(parent) = catalog.table_by_oid(reference.parent) else {
                continue;
            };
            match self.find_unique(parent, &reference.parent_columns, &values)? {
                Some(key) => self
                    .txn
                    .buffers
                    .get_mut(parent.oid)
                    .lock(key, Lock::KeyShare),
                None if reference.deferred => {
                    return Err(SqlError::simulator("a deferred foreign key that does not hold at once"));
                }
                None => {
                    return Err(SqlError::new(
                        "23503",
                        format!(
                            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                            table.name, reference.name
                        ),
                    )
                    .detail(format!(
                        "Key ({})=({}) is not present in table \"{}\".",
                        column_list(table, &reference.columns),
                        value_list(table, &reference.columns, row),
                        parent.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// The key of the row with these values in unique columns.
    fn find_unique(&mut self, table: &Table, slots: &[usize], values: &[Value]) -> Result<Option<Key>> {
        let wanted = |slot: &usize| {
            slots
                .iter()
                .position(|other| other == slot)
                .and_then(|at| values.get(at))
        };
        if table.primary.len() == slots.len() && table.primary.iter().all(|slot| slots.contains(slot)) {
            let mut bytes = Vec::new();
            for slot in &table.primary {
                key::push(&mut bytes, wanted(slot).unwrap_or(&Value::Null));
            }
            self.rows_read += 1;
            let key = Key::new(&bytes);
            let found = self.reader(table.oid).get(&key).map(|row| storage::row_width(row));
            self.bytes_read += found.unwrap_or(0) as u64;
            return Ok(found.map(|_| key));
        }
        let mut found = None;
        for index in table.indexes.iter().filter(|index| index.unique && index.predicate.is_none()) {
            let covers = index.keys.len() == slots.len()
                && index.keys.iter().all(|key| matches!(key, IndexKey::Slot(slot) if slots.contains(slot)));
            if !covers {
                continue;
            }
            let mut bytes = Vec::new();
            for part in &index.keys {
                if let IndexKey::Slot(slot) = part {
                    key::push(&mut bytes, wanted(slot).unwrap_or(&Value::Null));
                }
            }
            self.reader(table.oid)
                .scan_index(index, &Range::prefix(bytes), false, &mut |key, _| {
                    found = Some(Key::new(key));
                    Ok(false)
                })?;
            self.rows_read += 1;
            break;
        }
        Ok(found)
    }

    /// What refers to a row that goes, or whose key changes, is refused, goes
    /// with it, or is set to something else.
    fn follow_references(&mut self, table: &Table, old: &Row, new: Option<&Row>) -> Result<()> {
        let catalog = Arc::clone(&self.txn.catalog);
        let references = catalog.references(table.oid);
        if references.is_empty() {
            return Ok(());
        }
        self.depth += 1;
        if self.depth > MAX_CASCADE {
            return Err(SqlError::new("54001", "stack depth limit exceeded"));
        }
        for (child, reference) in references {
            let value = |row: &Row, slot: &usize| row.get(*slot).cloned().unwrap_or(Value::Null);
            let key: Vec<Value> = reference.parent_columns.iter().map(|slot| value(old, slot)).collect();
            let unchanged = new.is_some_and(|new| {
                reference
                    .parent_columns
                    .iter()
                    .zip(&key)
                    .all(|(slot, old)| value(new, slot).compare(old).is_eq())
            });
            if unchanged || key.iter().any(Value::is_null) {
                continue;
            }
            self.follow_one(table, &child, &reference, &key, new)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn follow_one(
        &mut self,
        table: &Table,
        child: &Arc<Table>,
        reference: &ForeignKey,
        values: &[Value],
        new: Option<&Row>,
    ) -> Result<()> {
        let action = if new.is_some() { reference.on_update } else { reference.on_delete };
        for (key, row) in self.referring(child, reference, values)? {
            let mut changed: Vec<Value> = row.to_vec();
            changed.resize(child.columns.len(), Value::Null);
            match action {
                Action::Refuse => {
                    return Err(SqlError::new(
                        "23503",
                        format!(
                            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                            table.name, reference.name, child.name
                        ),
                    )
                    .detail(format!(
                        "Key ({})=({}) is still referenced from table \"{}\".",
                        column_list(table, &reference.parent_columns),
                        values
                            .iter()
                            .zip(&reference.parent_columns)
                            .map(|(value, slot)| shown(Some(value), table.columns.get(*slot)))
                            .collect::<Vec<_>>()
                            .join(", "),
                        child.name
                    )));
                }
                Action::Cascade if new.is_none() => {
                    self.delete(child, &key, &row)?;
                    continue;
                }
                Action::Cascade => {
                    for (slot, parent_slot) in reference.columns.iter().zip(&reference.parent_columns) {
                        let value = new.and_then(|new| new.get(*parent_slot)).cloned();
                        changed[*slot] = value.unwrap_or(Value::Null);
                    }
                }
                Action::SetNull => {
                    for slot in &reference.columns {
                        changed[*slot] = Value::Null;
                    }
                }
                Action::SetDefault => {
                    for slot in &reference.columns {
                        changed[*slot] = super::dml::default_value(self, child, *slot)?;
                    }
                }
            }
            {
                let run = self.run();
                let cx = Ctx {
                    params: &[],
                    outer: None,
                    run: Some(&run),
                };
                check_row(child, &changed, &cx)?;
            }
            self.update(child, &key, &row, changed.into())?;
        }
        Ok(())
    }

    /// Rows of `child` whose reference has these values.
    fn referring(
        &mut self,
        child: &Arc<Table>,
        reference: &ForeignKey,
        values: &[Value],
    ) -> Result<Vec<(Key, Row)>> {
        let conditions = reference
            .columns
            .iter()
            .zip(values)
            .map(|(slot, value)| {
                expr::Expr::equal(expr::Expr::Column(*slot), expr::Expr::Const(value.clone()))
            })
            .collect();
        let (scan, _) = super::plan::access::scan(child, conditions, &[], false);
        let run = self.run();
        let cx = Ctx {
            params: &[],
            outer: None,
            run: Some(&run),
        };
        let mut rows = Vec::new();
        super::exec::scan_rows(&scan, &cx, &[], &mut |key, row| {
            rows.push((Key::new(key), Arc::clone(row)));
            Ok(true)
        })?;
        let (read, bytes) = (run.rows_read.get(), run.bytes_read.get());
        self.rows_read += read;
        self.bytes_read += bytes;
        Ok(rows)
    }
}

/// The unique key that ON CONFLICT is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arbiter {
    Primary,
    Index(u32),
}
