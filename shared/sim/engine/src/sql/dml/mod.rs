//! INSERT, UPDATE and DELETE: planning, and running in two steps. First all
//! rows are found and computed from what the transaction sees, then they are
//! buffered; so a statement never meets its own changes.

mod planning;

pub(crate) use planning::{default_value, delete, insert, update};

use crate::catalog::Table;
use crate::error::{Result, SqlError};
use crate::sql::exec::{self, Run};
use crate::sql::expr::{self, Ctx, Expr};
use crate::sql::plan::{Columns, CtePlan, Node, Scan};
use crate::sql::write::{Arbiter, Inserted, Writer, check_row};
use crate::storage::Row;
use crate::value::Value;
use crate::value::key::Key;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A planned data-modifying statement.
#[derive(Debug)]
pub(crate) struct Dml {
    pub ctes: Vec<CtePlan>,
    pub table: Arc<Table>,
    pub kind: DmlKind,
    /// RETURNING, over the rows after the change (before it, for DELETE).
    pub returning: Option<Vec<Expr>>,
    pub columns: Option<Columns>,
}

#[derive(Debug)]
pub(crate) enum DmlKind {
    Insert {
        source: Node,
        /// Slots that the source's columns go to.
        slots: Vec<usize>,
        /// What the other columns get.
        defaults: Vec<(usize, Expr)>,
        conflict: Option<OnConflict>,
    },
    Update {
        source: Source,
        assignments: Vec<(usize, Expr)>,
    },
    Delete {
        source: Source,
    },
}

/// Where the rows to be changed come from.
#[derive(Debug)]
pub(crate) enum Source {
    Scan(Scan),
    /// A join; the target's key stands in a column behind the target's own.
    Join(Node),
}

/// Slots and what they get.
pub(crate) type Assignments = Vec<(usize, Expr)>;

#[derive(Debug)]
pub(crate) struct OnConflict {
    /// The unique keys that it is about; all when empty.
    arbiters: Vec<Arbiter>,
    /// DO UPDATE: assignments and condition over the existing row and, behind
    /// it, the one that was to be inserted.
    update: Option<(Assignments, Option<Expr>)>,
}

/// What a statement did.
pub(crate) struct Done {
    pub affected: u64,
    pub rows: Vec<Vec<Value>>,
}

/// A row to be changed: its key, the row, and what it was joined with.
struct Found {
    key: Key,
    row: Row,
    /// The whole joined row; empty without a join.
    joined: Vec<Value>,
}

impl Source {
    fn for_each(
        &self,
        table: &Table,
        cx: &Ctx<'_>,
        f: &mut dyn FnMut(Found) -> Result<()>,
    ) -> Result<()> {
        match self {
            Source::Scan(scan) => exec::scan_rows(scan, cx, &[], &mut |key, row| {
                f(Found {
                    key: Key::new(key),
                    row: Arc::clone(row),
                    joined: Vec::new(),
                })?;
                Ok(true)
            }),
            Source::Join(node) => {
                // A row that is joined several times is changed once.
                let mut seen = BTreeSet::new();
                let width = table.columns.len();
                exec::run(node, cx, &mut |row| {
                    if let Some(Value::Bytea(key)) = row.get(width)
                        && seen.insert(Arc::clone(key))
                    {
                        f(Found {
                            key: Key::new(key),
                            row: row[..width].into(),
                            joined: row.into_vec(),
                        })?;
                    }
                    Ok(true)
                })
            }
        }
    }
}

impl Dml {
    /// Finds, computes, buffers, and computes what is returned.
    pub(crate) fn execute(&self, writer: &mut Writer<'_>, params: &[Value]) -> Result<Done> {
        match &self.kind {
            DmlKind::Insert {
                source,
                slots,
                defaults,
                conflict,
            } => self.insert(writer, params, source, slots, defaults, conflict.as_ref()),
            DmlKind::Update {
                source,
                assignments,
            } => self.update(writer, params, source, assignments),
            DmlKind::Delete { source } => self.delete(writer, params, source),
        }
    }

    /// Runs the first step on what the transaction sees.
    fn read<T>(
        &self,
        writer: &mut Writer<'_>,
        params: &[Value],
        f: impl FnOnce(&Ctx<'_>) -> Result<T>,
    ) -> Result<T> {
        let run: Run<'_> = writer.run();
        let cx = Ctx {
            params,
            outer: None,
            run: Some(&run),
        };
        for cte in &self.ctes {
            exec::run_cte(cte, &cx)?;
        }
        let result = f(&cx)?;
        let (rows, bytes) = (run.rows_read.get(), run.bytes_read.get());
        writer.rows_read += rows;
        writer.bytes_read += bytes;
        Ok(result)
    }

    fn returned<'r>(
        &self,
        writer: &Writer<'_>,
        params: &[Value],
        rows: impl Iterator<Item = &'r [Value]>,
    ) -> Result<Vec<Vec<Value>>> {
        let Some(returning) = &self.returning else {
            return Ok(Vec::new());
        };
        let run = writer.run();
        let cx = Ctx {
            params,
            outer: None,
            run: Some(&run),
        };
        rows.map(|row| exec::project(returning, &cx, row)).collect()
    }

    fn insert(
        &self,
        writer: &mut Writer<'_>,
        params: &[Value],
        source: &Node,
        slots: &[usize],
        defaults: &[(usize, Expr)],
        conflict: Option<&OnConflict>,
    ) -> Result<Done> {
        let table = &self.table;
        let width = table.columns.len();
        let limit = writer.db.limits.rows_per_transaction;
        let rows = self.read(writer, params, |cx| {
            let mut rows: Vec<Row> = Vec::new();
            exec::run(source, cx, &mut |given| {
                let mut row = vec![Value::Null; width];
                for (value, slot) in given.into_vec().into_iter().zip(slots) {
                    row[*slot] = value;
                }
                for (slot, default) in defaults {
                    row[*slot] = expr::eval(default, cx, &[])?;
                }
                check_row(table, &row, cx)?;
                rows.push(row.into());
                // What is over the limit fails when it is written; there is no
                // need to compute more of it.
                Ok(conflict.is_some() || rows.len() <= limit)
            })?;
            Ok(rows)
        })?;
        let mut written: Vec<Row> = Vec::with_capacity(if self.returning.is_some() {
            rows.len()
        } else {
            0
        });
        let mut affected = 0;
        let mut touched = BTreeSet::new();
        for row in rows {
            let arbiters = conflict.map(|conflict| conflict.arbiters.as_slice());
            let keep = self.returning.is_some().then(|| Arc::clone(&row));
            let excluded = conflict
                .and_then(|c| c.update.as_ref())
                .map(|_| Arc::clone(&row));
            match writer.insert(table, row, arbiters)? {
                Inserted::New(key) => {
                    affected += 1;
                    written.extend(keep);
                    if conflict.is_some() {
                        touched.insert(key);
                    }
                }
                Inserted::Duplicate(key) => {
                    let (Some(excluded), Some((assignments, condition))) = (
                        excluded,
                        conflict.and_then(|conflict| conflict.update.as_ref()),
                    ) else {
                        continue;
                    };
                    if !touched.insert(key.clone()) {
                        return Err(SqlError::new(
                            "21000",
                            "ON CONFLICT DO UPDATE command cannot affect row a second time",
                        )
                        .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values."));
                    }
                    let changed = self.merge(
                        writer,
                        params,
                        &key,
                        &excluded,
                        assignments,
                        condition.as_ref(),
                    )?;
                    if let Some(row) = changed {
                        affected += 1;
                        if self.returning.is_some() {
                            written.push(row);
                        }
                    }
                }
            }
        }
        let rows = self.returned(writer, params, written.iter().map(|row| &row[..]))?;
        Ok(Done { affected, rows })
    }

    /// ON CONFLICT DO UPDATE of one row; `None` when its condition is not met.
    fn merge(
        &self,
        writer: &mut Writer<'_>,
        params: &[Value],
        key: &Key,
        excluded: &Row,
        assignments: &[(usize, Expr)],
        condition: Option<&Expr>,
    ) -> Result<Option<Row>> {
        let table = &self.table;
        let width = table.columns.len();
        let Some(old) = writer.reader(table.oid).get(key).cloned() else {
            return Ok(None);
        };
        let new = {
            let run = writer.run();
            let cx = Ctx {
                params,
                outer: None,
                run: Some(&run),
            };
            let mut both = old.to_vec();
            both.resize(width, Value::Null);
            both.extend_from_slice(excluded);
            if let Some(condition) = condition
                && !expr::holds(condition, &cx, &both)?
            {
                return Ok(None);
            }
            let mut new = both[..width].to_vec();
            for (slot, value) in assignments {
                new[*slot] = expr::eval(value, &cx, &both)?;
            }
            check_row(table, &new, &cx)?;
            Row::from(new)
        };
        writer.update(table, key, &old, Arc::clone(&new))?;
        Ok(Some(new))
    }

    fn update(
        &self,
        writer: &mut Writer<'_>,
        params: &[Value],
        source: &Source,
        assignments: &[(usize, Expr)],
    ) -> Result<Done> {
        let table = &self.table;
        let width = table.columns.len();
        let changes = self.read(writer, params, |cx| {
            let mut changes: Vec<(Found, Row)> = Vec::new();
            source.for_each(table, cx, &mut |found| {
                let mut new = Vec::with_capacity(width);
                new.extend_from_slice(&found.row);
                new.resize(width, Value::Null);
                let over: &[Value] = if found.joined.is_empty() {
                    &found.row
                } else {
                    &found.joined
                };
                for (slot, value) in assignments {
                    new[*slot] = expr::eval(value, cx, over)?;
                }
                check_row(table, &new, cx)?;
                changes.push((found, new.into()));
                Ok(())
            })?;
            Ok(changes)
        })?;
        let mut affected = 0;
        let mut written: Vec<Vec<Value>> = Vec::new();
        for (found, new) in changes {
            writer.update(table, &found.key, &found.row, Arc::clone(&new))?;
            affected += 1;
            if self.returning.is_some() {
                let mut row = new.to_vec();
                row.extend(found.joined.into_iter().skip(width));
                written.push(row);
            }
        }
        let rows = self.returned(writer, params, written.iter().map(Vec::as_slice))?;
        Ok(Done { affected, rows })
    }

    fn delete(&self, writer: &mut Writer<'_>, params: &[Value], source: &Source) -> Result<Done> {
        let table = &self.table;
        let found = self.read(writer, params, |cx| {
            let mut all = Vec::new();
            source.for_each(table, cx, &mut |found| {
                all.push(found);
                Ok(())
            })?;
            Ok(all)
        })?;
        let mut affected = 0;
        for found in &found {
            // A cascade may have been faster.
            if writer.reader(table.oid).get(&found.key).is_some() {
                writer.delete(table, &found.key, &found.row)?;
                affected += 1;
            }
        }
        let rows = self.returned(
            writer,
            params,
            found.iter().map(|found| {
                if found.joined.is_empty() {
                    &found.row[..]
                } else {
                    &found.joined[..]
                }
            }),
        )?;
        Ok(Done { affected, rows })
    }
}
