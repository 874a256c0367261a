//! Foreign keys: checked at once, claimed FOR KEY SHARE, followed when a key
//! goes.

use super::*;
use crate::catalog::{Action, ForeignKey, IndexKey, Table};
use crate::error::{Result, SqlError};
use crate::sql::expr::{self, Ctx};
use crate::storage::{self, Range, Row};
use crate::txn::Lock;
use crate::value::Value;
use crate::value::key::{self, Key};
use std::sync::Arc;

/// How deep cascades may follow each other.
pub(super) const MAX_CASCADE: usize = 64;

impl<'w> Writer<'w> {
    /// Every reference must find its row, which is claimed FOR KEY SHARE.
    pub(super) fn check_parents(
        &mut self,
        table: &Table,
        row: &[Value],
        old: Option<&Row>,
    ) -> Result<()> {
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
                reference.columns.iter().zip(&values).all(|(slot, value)| {
                    old.get(*slot).is_some_and(|old| old.compare(value).is_eq())
                })
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
                    return Err(SqlError::simulator(
                        "a deferred foreign key that does not hold at once",
                    ));
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
    pub(super) fn find_unique(
        &mut self,
        table: &Table,
        slots: &[usize],
        values: &[Value],
    ) -> Result<Option<Key>> {
        let wanted = |slot: &usize| {
            slots
                .iter()
                .position(|other| other == slot)
                .and_then(|at| values.get(at))
        };
        if table.primary.len() == slots.len()
            && table.primary.iter().all(|slot| slots.contains(slot))
        {
            let mut bytes = Vec::new();
            for slot in &table.primary {
                key::push(&mut bytes, wanted(slot).unwrap_or(&Value::Null));
            }
            self.rows_read += 1;
            let key = Key::new(&bytes);
            let found = self
                .reader(table.oid)
                .get(&key)
                .map(|row| storage::row_width(row));
            self.bytes_read += found.unwrap_or(0) as u64;
            return Ok(found.map(|_| key));
        }
        let mut found = None;
        for index in table
            .indexes
            .iter()
            .filter(|index| index.unique && index.predicate.is_none())
        {
            let covers = index.keys.len() == slots.len()
                && index
                    .keys
                    .iter()
                    .all(|key| matches!(key, IndexKey::Slot(slot) if slots.contains(slot)));
            if !covers {
                continue;
            }
            let mut bytes = Vec::new();
            for part in &index.keys {
                if let IndexKey::Slot(slot) = part {
                    key::push(&mut bytes, wanted(slot).unwrap_or(&Value::Null));
                }
            }
            self.reader(table.oid).scan_index(
                index,
                &Range::prefix(bytes),
                false,
                &mut |key, _| {
                    found = Some(Key::new(key));
                    Ok(false)
                },
            )?;
            self.rows_read += 1;
            break;
        }
        Ok(found)
    }

    /// What refers to a row that goes, or whose key changes, is refused, goes
    /// with it, or is set to something else.
    pub(super) fn follow_references(
        &mut self,
        table: &Table,
        old: &Row,
        new: Option<&Row>,
    ) -> Result<()> {
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
            let key: Vec<Value> = reference
                .parent_columns
                .iter()
                .map(|slot| value(old, slot))
                .collect();
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

    pub(super) fn follow_one(
        &mut self,
        table: &Table,
        child: &Arc<Table>,
        reference: &ForeignKey,
        values: &[Value],
        new: Option<&Row>,
    ) -> Result<()> {
        let action = if new.is_some() {
            reference.on_update
        } else {
            reference.on_delete
        };
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
                    for (slot, parent_slot) in
                        reference.columns.iter().zip(&reference.parent_columns)
                    {
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
                        changed[*slot] = crate::sql::dml::default_value(self, child, *slot)?;
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
    pub(super) fn referring(
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
        let (scan, _) = crate::sql::plan::access::scan(child, conditions, &[], false);
        let run = self.run();
        let cx = Ctx {
            params: &[],
            outer: None,
            run: Some(&run),
        };
        let mut rows = Vec::new();
        crate::sql::exec::scan_rows(&scan, &cx, &[], &mut |key, row| {
            rows.push((Key::new(key), Arc::clone(row)));
            Ok(true)
        })?;
        let (read, bytes) = (run.rows_read.get(), run.bytes_read.get());
        self.rows_read += read;
        self.bytes_read += bytes;
        Ok(rows)
    }
}
