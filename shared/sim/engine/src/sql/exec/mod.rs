//! Execution: operators push rows upwards until told to stop.

mod functions;
mod join;
mod scan;
mod sets;
mod subquery;

pub(crate) use scan::scan_rows;
pub(crate) use sets::run_cte;
pub(crate) use subquery::subquery;

use functions::{project_set, table_function};
use join::{run_join, run_probe};
use scan::{keyed, whole};
use sets::{run_aggregation, run_limit, set_operation};

use crate::catalog::Catalog;
use crate::engine::Database;
use crate::error::{Result, SqlError};
use crate::sql::aggregate::{self};
use crate::sql::expr::{self, Ctx, Expr};
use crate::sql::plan::{Node, SortKey};
use crate::storage::{Reader, Ts, row_width};
use crate::txn::{Buffers, Lock};
use crate::value::Value;
use crate::value::key::{self, Key};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Rows kept for later: of a subquery or a common table expression.
type Kept = Rc<Vec<Vec<Value>>>;

/// A row that a statement claims: its table and key.
pub(crate) type Claim = (u32, Key, Lock);

/// A running statement: what it sees, and what it has done so far.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub db: &'a Database,
    pub catalog: Arc<Catalog>,
    pub buffers: &'a Buffers,
    pub snapshot: Ts,
    pub now_us: u64,
    pub began_us: u64,
    pub session: &'a crate::session::Settings,
    /// Rows by slot.
    kept: RefCell<Vec<Option<Kept>>>,
    /// Rows that it claims.
    pub locks: RefCell<Vec<Claim>>,
    pub rows_read: Cell<u64>,
    /// Rows looked at or made; a statement that needs too many is refused.
    steps: Cell<u64>,
    pub bytes_read: Cell<u64>,
    /// Answer no earlier than this: of `pg_sleep`.
    pub not_before_us: Cell<u64>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        db: &'a Database,
        catalog: Arc<Catalog>,
        buffers: &'a Buffers,
        snapshot: Ts,
        (began_us, now_us): (u64, u64),
        session: &'a crate::session::Settings,
    ) -> Run<'a> {
        Run {
            db,
            catalog,
            buffers,
            snapshot,
            now_us,
            began_us,
            session,
            kept: RefCell::new(Vec::new()),
            locks: RefCell::new(Vec::new()),
            rows_read: Cell::new(0),
            steps: Cell::new(0),
            bytes_read: Cell::new(0),
            not_before_us: Cell::new(0),
        }
    }

    /// A table as this statement sees it.
    pub(crate) fn reader(&self, table: u32) -> Reader<'a> {
        Reader {
            store: self.db.stores.get(&table),
            buffer: self.buffers.get(table),
            snapshot: self.snapshot,
        }
    }

    pub(crate) fn count_read(&self, row: &[Value]) -> Result<()> {
        self.rows_read.set(self.rows_read.get() + 1);
        self.bytes_read
            .set(self.bytes_read.get() + row_width(row) as u64);
        self.step()
    }

    /// Counts a row that was looked at or made.
    fn step(&self) -> Result<()> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if steps > MAX_STEPS {
            return Err(SqlError::simulator("a statement over so many rows"));
        }
        Ok(())
    }

    /// A number in [0, 1).
    pub(crate) fn random(&self) -> f64 {
        self.db.random()
    }

    pub(crate) fn began_instant(&self) -> i64 {
        self.db.instant(self.began_us)
    }

    pub(crate) fn now_instant(&self) -> i64 {
        self.db.instant(self.now_us)
    }

    fn keep(&self, slot: usize, rows: Option<Kept>) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() <= slot {
            kept.resize(slot + 1, None);
        }
        kept[slot] = rows;
    }

    fn kept(&self, slot: usize) -> Option<Kept> {
        self.kept.borrow().get(slot).cloned().flatten()
    }
}

/// Rows that one statement may look at or make: DSQL would end it by its age,
/// but here no time passes while a statement runs.
const MAX_STEPS: u64 = 50_000_000;

/// A row on its way up: borrowed as long as nobody has to own it.
pub(crate) enum Tuple<'t> {
    Ref(&'t [Value]),
    Own(Vec<Value>),
}

impl Tuple<'_> {
    pub(crate) fn into_vec(self) -> Vec<Value> {
        match self {
            Tuple::Ref(row) => row.to_vec(),
            Tuple::Own(row) => row,
        }
    }
}

impl std::ops::Deref for Tuple<'_> {
    type Target = [Value];
    fn deref(&self) -> &[Value] {
        match self {
            Tuple::Ref(row) => row,
            Tuple::Own(row) => row,
        }
    }
}

/// Takes a row; false when it wants no more.
pub(crate) type Emit<'e> = dyn FnMut(Tuple<'_>) -> Result<bool> + 'e;

/// All rows of a node.
pub(crate) fn collect(node: &Node, cx: &Ctx<'_>) -> Result<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    run(node, cx, &mut |row| {
        rows.push(row.into_vec());
        Ok(true)
    })?;
    Ok(rows)
}

/// Runs a node.
pub(crate) fn run(node: &Node, cx: &Ctx<'_>, emit: &mut Emit<'_>) -> Result<()> {
    match node {
        Node::One => emit(Tuple::Ref(&[])).map(drop),
        Node::Values(rows) => {
            for row in rows {
                if !emit(Tuple::Own(project(row, cx, &[])?))? {
                    break;
                }
            }
            Ok(())
        }
        Node::Scan(scan) => scan_rows(scan, cx, &[], &mut |key, row| {
            if scan.with_key {
                emit(Tuple::Own(keyed(&scan.table, key, row)))
            } else if row.len() < scan.table.columns.len() {
                emit(Tuple::Own(whole(&scan.table, row)))
            } else {
                emit(Tuple::Ref(row))
            }
        }),
        Node::System(table) => {
            for row in (table.rows)(cx.run()?)? {
                if !emit(Tuple::Own(row))? {
                    break;
                }
            }
            Ok(())
        }
        Node::Function(function) => {
            for row in table_function(function, cx, &[])? {
                if !emit(Tuple::Own(row))? {
                    break;
                }
            }
            Ok(())
        }
        Node::Filter { input, predicate } => run(input, cx, &mut |row| {
            if expr::holds(predicate, cx, &row)? {
                emit(row)
            } else {
                Ok(true)
            }
        }),
        Node::Project { input, exprs } => run(input, cx, &mut |row| {
            emit(Tuple::Own(project(exprs, cx, &row)?))
        }),
        Node::ProjectSet { input, items } => {
            run(input, cx, &mut |row| project_set(items, cx, &row, emit))
        }
        Node::Join(join) => run_join(join, cx, emit),
        Node::Probe(probe) => run_probe(probe, cx, emit),
        Node::Aggregate(aggregation) => run_aggregation(aggregation, cx, emit),
        Node::Window { input, calls } => {
            let mut rows = collect(input, cx)?;
            aggregate::windows(calls, cx, &mut rows)?;
            emit_all(rows, emit)
        }
        Node::Distinct { input, columns } => {
            let mut seen = HashMap::new();
            run(input, cx, &mut |row| {
                let bytes = encoded(&row[..(*columns).min(row.len())]);
                if seen.insert(bytes, ()).is_some() {
                    return Ok(true);
                }
                emit(row)
            })
        }
        Node::Sort { input, keys } => {
            let mut rows = Vec::new();
            run(input, cx, &mut |row| {
                let by: Result<Vec<Value>> = keys
                    .iter()
                    .map(|key| expr::eval(&key.expr, cx, &row))
                    .collect();
                rows.push((by?, row.into_vec()));
                Ok(true)
            })?;
            rows.sort_by(|(a, _), (b, _)| SortKey::compare(keys, a, b));
            emit_all(rows.into_iter().map(|(_, row)| row), emit)
        }
        Node::Limit {
            input,
            limit,
            offset,
        } => run_limit(input, limit.as_ref(), offset.as_ref(), cx, emit),
        Node::SetOperation {
            op,
            all,
            left,
            right,
        } => set_operation(*op, *all, left, right, cx, emit),
        Node::With { ctes, body } => {
            for cte in ctes {
                run_cte(cte, cx)?;
            }
            run(body, cx, emit)
        }
        Node::Cte(slot) => {
            let rows = cx.run()?.kept(*slot).unwrap_or_default();
            for row in rows.iter() {
                if !emit(Tuple::Ref(row))? {
                    break;
                }
            }
            Ok(())
        }
        Node::Lock { input, lock, keys } => run(input, cx, &mut |row| {
            let mut locks = cx.run()?.locks.borrow_mut();
            for (table, column) in keys {
                // NULL: the row of an outer join that is not there.
                if let Some(Value::Bytea(key)) = row.get(*column) {
                    locks.push((*table, Key::new(key), *lock));
                }
            }
            drop(locks);
            emit(row)
        }),
    }
}

fn emit_all(rows: impl IntoIterator<Item = Vec<Value>>, emit: &mut Emit<'_>) -> Result<()> {
    for row in rows {
        if !emit(Tuple::Own(row))? {
            break;
        }
    }
    Ok(())
}

pub(crate) fn project(exprs: &[Expr], cx: &Ctx<'_>, row: &[Value]) -> Result<Vec<Value>> {
    let mut out = Vec::with_capacity(exprs.len());
    for expr in exprs {
        out.push(expr::eval(expr, cx, row)?);
    }
    Ok(out)
}

fn encoded(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * 9);
    for value in values {
        key::push(&mut bytes, value);
    }
    bytes
}
