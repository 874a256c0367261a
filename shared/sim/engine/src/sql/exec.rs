//! Execution: operators push rows upwards until told to stop.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;

use super::aggregate::{self, Accumulator};
use super::expr::{self, Comparison, Ctx, Expr, Outer, Subquery, SubqueryKind};
use super::plan::{
    Access, Aggregation, CtePlan, Join, JoinKind, KeyPart, Node, Probe, Scan, SetItem,
    SetOperation, SortKey, TableFunction, TableFunctionKind,
};
use crate::catalog::{Catalog, Table};
use crate::engine::Database;
use crate::error::{Result, SqlError};
use crate::storage::{OnRow, Range, Reader, Row, Ts, row_width};
use crate::txn::{Buffers, Lock};
use crate::value::{Array, Value, key};

/// Rows kept for later: of a subquery or a common table expression.
type Kept = Rc<Vec<Vec<Value>>>;

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
    pub locks: RefCell<Vec<(u32, Box<[u8]>, Lock)>>,
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
                let by: Result<Vec<Value>> =
                    keys.iter().map(|key| expr::eval(&key.expr, cx, &row)).collect();
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
                    locks.push((*table, key.to_vec().into(), *lock));
                }
            }
            drop(locks);
            emit(row)
        }),
    }
}

/// Runs what a WITH defines and keeps its rows.
pub(crate) fn run_cte(cte: &CtePlan, cx: &Ctx<'_>) -> Result<()> {
    let run = cx.run()?;
    let mut rows = collect(&cte.plan, cx)?;
    let Some(step) = &cte.step else {
        run.keep(cte.slot, Some(Rc::new(rows)));
        return Ok(());
    };
    let mut seen = HashMap::new();
    let mut fresh = |rows: Vec<Vec<Value>>| -> Vec<Vec<Value>> {
        if cte.union_all {
            return rows;
        }
        rows.into_iter()
            .filter(|row| seen.insert(encoded(row), ()).is_none())
            .collect()
    };
    rows = fresh(rows);
    let mut all = rows.clone();
    while !rows.is_empty() {
        if all.len() > MAX_RECURSION_ROWS {
            return Err(SqlError::simulator("a recursive query with so many rows"));
        }
        run.keep(cte.slot, Some(Rc::new(rows)));
        rows = fresh(collect(step, cx)?);
        all.extend(rows.iter().cloned());
    }
    run.keep(cte.slot, Some(Rc::new(all)));
    Ok(())
}

/// Rows that a recursive query may make, so that an endless one ends.
const MAX_RECURSION_ROWS: usize = 1_000_000;

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

/// A row in all of its columns, also those that were added after it.
fn whole(table: &Table, row: &Row) -> Vec<Value> {
    let mut out = Vec::with_capacity(table.columns.len() + 1);
    out.extend(row.iter().cloned());
    out.resize(table.columns.len(), Value::Null);
    out
}

/// A whole row, and its key.
fn keyed(table: &Table, key: &[u8], row: &Row) -> Vec<Value> {
    let mut out = whole(table, row);
    out.push(Value::bytes(key));
    out
}

/// Visits the rows of a scan with their keys. `probe` is the row that the key
/// is made of in a join.
pub(crate) fn scan_rows<'a>(
    scan: &Scan,
    cx: &Ctx<'a>,
    probe: &[Value],
    f: &mut OnRow<'_, 'a>,
) -> Result<()> {
    let run = cx.run()?;
    let reader = run.reader(scan.table.oid);
    let mut visit = |key: &'a [u8], row: &'a Row| -> Result<bool> {
        run.count_read(row)?;
        if let Some(filter) = &scan.filter {
            if !expr::holds(filter, cx, row)? {
                return Ok(true);
            }
        }
        f(key, row)
    };
    let access = &scan.access;
    if access.index.is_none() && access.point {
        let mut bytes = Vec::with_capacity(36);
        for part in &access.equal {
            if let KeyPart::One(expr) = part {
                let value = expr::eval_ref(expr, cx, probe)?;
                if value.is_null() {
                    return Ok(());
                }
                key::push(&mut bytes, &value);
            }
        }
        return match reader.find(&key::Key::new(&bytes)) {
            Some((key, row)) => visit(key, row).map(drop),
            None => Ok(()),
        };
    }
    let stopped = Cell::new(false);
    let mut go_on = |key: &'a [u8], row: &'a Row| {
        let more = visit(key, row)?;
        stopped.set(!more);
        Ok(more)
    };
    let ranges = ranges(access, cx, probe)?;
    let index = access.index.and_then(|i| scan.table.indexes.get(i));
    let mut ranges: Box<dyn Iterator<Item = Range>> = if access.reverse {
        Box::new(ranges.into_iter().rev())
    } else {
        Box::new(ranges.into_iter())
    };
    while let Some(range) = ranges.next() {
        match index {
            Some(index) => reader.scan_index(index, &range, access.reverse, &mut go_on)?,
            None => reader.scan(&range, access.reverse, &mut go_on)?,
        }
        if stopped.get() {
            break;
        }
    }
    Ok(())
}

/// The intervals that a way leads to, in order and without overlap.
fn ranges(access: &Access, cx: &Ctx<'_>, probe: &[Value]) -> Result<Vec<Range>> {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::with_capacity(36)];
    for part in &access.equal {
        let alternatives: Vec<Vec<u8>> = match part {
            KeyPart::One(expr) => {
                let value = expr::eval_ref(expr, cx, probe)?;
                if value.is_null() {
                    return Ok(Vec::new());
                }
                for prefix in &mut prefixes {
                    key::push(prefix, &value);
                }
                continue;
            }
            KeyPart::List(list) => {
                let mut all = Vec::with_capacity(list.len());
                for expr in list {
                    let value = expr::eval_ref(expr, cx, probe)?;
                    if !value.is_null() {
                        all.push(encoded(std::slice::from_ref(&value)));
                    }
                }
                all
            }
            KeyPart::Array(expr) => match &*expr::eval_ref(expr, cx, probe)? {
                Value::Array(array) => array
                    .items
                    .iter()
                    .filter(|item| !item.is_null())
                    .map(|item| encoded(std::slice::from_ref(item)))
                    .collect(),
                _ => Vec::new(),
            },
            KeyPart::Tuples(_, tuples) => {
                let mut all = Vec::with_capacity(tuples.len());
                for tuple in tuples {
                    let values = project(tuple, cx, probe)?;
                    if !values.iter().any(Value::is_null) {
                        all.push(encoded(&values));
                    }
                }
                all
            }
        };
        prefixes = prefixes
            .iter()
            .flat_map(|prefix| {
                alternatives
                    .iter()
                    .map(|more| [prefix.as_slice(), more.as_slice()].concat())
            })
            .collect();
        prefixes.sort_unstable();
        prefixes.dedup();
    }
    let bound = |bound: &Option<(Expr, bool)>| -> Result<Option<Option<(Vec<u8>, bool)>>> {
        match bound {
            None => Ok(Some(None)),
            Some((expr, inclusive)) => {
                let value = expr::eval_ref(expr, cx, probe)?;
                if value.is_null() {
                    return Ok(None);
                }
                Ok(Some(Some((encoded(std::slice::from_ref(&value)), *inclusive))))
            }
        }
    };
    // A comparison with NULL holds for nothing.
    let (Some(low), Some(high)) = (bound(&access.low)?, bound(&access.high)?) else {
        return Ok(Vec::new());
    };
    let bounded = low.is_some() || high.is_some();
    Ok(prefixes
        .into_iter()
        .map(|prefix| {
            if !bounded {
                return if prefix.is_empty() {
                    Range::default()
                } else {
                    Range::prefix(prefix)
                };
            }
            let lo = match &low {
                Some((bytes, true)) => [prefix.as_slice(), bytes].concat(),
                Some((bytes, false)) => key::successor(&[prefix.as_slice(), bytes].concat()),
                None => prefix.clone(),
            };
            let hi = match &high {
                Some((bytes, true)) => key::successor(&[prefix.as_slice(), bytes].concat()),
                Some((bytes, false)) => [prefix.as_slice(), bytes].concat(),
                None => key::before_null(&prefix),
            };
            Range { lo, hi }
        })
        .collect())
}

/// Rows of a function in FROM. `row` is what its arguments may look at.
fn table_function(function: &TableFunction, cx: &Ctx<'_>, row: &[Value]) -> Result<Vec<Vec<Value>>> {
    let args = project(&function.args, cx, row)?;
    let mut rows: Vec<Vec<Value>> = match function.kind {
        TableFunctionKind::Scalar => vec![args],
        TableFunctionKind::Series => series(&args)?.into_iter().map(|value| vec![value]).collect(),
        TableFunctionKind::Unnest => {
            let arrays: Vec<Option<&Array>> = args
                .iter()
                .map(|arg| match arg {
                    Value::Array(array) => Some(&**array),
                    _ => None,
                })
                .collect();
            let longest = arrays.iter().flatten().map(|array| array.items.len()).max();
            (0..longest.unwrap_or(0))
                .map(|i| {
                    arrays
                        .iter()
                        .map(|array| {
                            array
                                .and_then(|array| array.items.get(i))
                                .cloned()
                                .unwrap_or(Value::Null)
                        })
                        .collect()
                })
                .collect()
        }
    };
    if function.ordinality {
        for (i, row) in rows.iter_mut().enumerate() {
            row.push(Value::Int(i64::try_from(i).unwrap_or(i64::MAX) + 1));
        }
    }
    Ok(rows)
}

/// Rows that a series may have.
const MAX_SERIES: usize = 10_000_000;

fn series(args: &[Value]) -> Result<Vec<Value>> {
    let too_long = || SqlError::simulator("so long a series");
    let zero_step = || SqlError::new("22023", "step size cannot equal zero");
    let mut out = Vec::new();
    match args {
        [Value::Int(from), Value::Int(to), rest @ ..] => {
            let step = match rest.first() {
                Some(Value::Int(step)) => *step,
                Some(_) => return Ok(out),
                None => 1,
            };
            if step == 0 {
                return Err(zero_step());
            }
            let mut at = *from;
            while (step > 0 && at <= *to) || (step < 0 && at >= *to) {
                if out.len() >= MAX_SERIES {
                    return Err(too_long());
                }
                out.push(Value::Int(at));
                match at.checked_add(step) {
                    Some(next) => at = next,
                    None => break,
                }
            }
        }
        [Value::Numeric(from), Value::Numeric(to), rest @ ..] => {
            let step = match rest.first() {
                Some(Value::Numeric(step)) => **step,
                Some(_) => return Ok(out),
                None => crate::value::Numeric::from_int(1),
            };
            if step.is_zero() {
                return Err(zero_step());
            }
            let up = step > crate::value::Numeric::ZERO;
            let mut at = **from;
            while (up && at <= **to) || (!up && at >= **to) {
                if out.len() >= MAX_SERIES {
                    return Err(too_long());
                }
                out.push(Value::numeric(at));
                at = at.add(step)?;
            }
        }
        [Value::Timestamp(from), Value::Timestamp(to), Value::Interval(step)] => {
            if step.comparable() == 0 {
                return Err(zero_step());
            }
            let up = step.comparable() > 0;
            let mut at = *from;
            while (up && at <= *to) || (!up && at >= *to) {
                if out.len() >= MAX_SERIES {
                    return Err(too_long());
                }
                out.push(Value::Timestamp(at));
                at = crate::value::datetime::add_interval(at, **step)?;
            }
        }
        _ => {}
    }
    Ok(out)
}

fn project_set(items: &[SetItem], cx: &Ctx<'_>, row: &[Value], emit: &mut Emit<'_>) -> Result<bool> {
    let mut columns: Vec<(bool, Vec<Value>)> = Vec::with_capacity(items.len());
    for item in items {
        columns.push(match item {
            SetItem::Scalar(expr) => (false, vec![expr::eval(expr, cx, row)?]),
            SetItem::Set(function) => {
                let rows = table_function(function, cx, row)?;
                (true, rows.into_iter().filter_map(|mut row| row.pop()).collect())
            }
        });
    }
    let longest = columns
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, values)| values.len())
        .max()
        .unwrap_or(1);
    for i in 0..longest {
        let out = columns
            .iter()
            .map(|(set, values)| {
                let at = if *set { i } else { 0 };
                values.get(at).cloned().unwrap_or(Value::Null)
            })
            .collect();
        if !emit(Tuple::Own(out))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn joined(left: &[Value], right: &[Value], left_width: usize, right_width: usize) -> Vec<Value> {
    let mut row = Vec::with_capacity(left_width + right_width);
    row.extend_from_slice(left);
    row.resize(left_width, Value::Null);
    row.extend_from_slice(right);
    row.resize(left_width + right_width, Value::Null);
    row
}

fn passes(on: Option<&Expr>, cx: &Ctx<'_>, row: &[Value]) -> Result<bool> {
    match on {
        Some(on) => expr::holds(on, cx, row),
        None => Ok(true),
    }
}

fn run_join(join: &Join, cx: &Ctx<'_>, emit: &mut Emit<'_>) -> Result<()> {
    let (lw, rw) = (join.left_width, join.right_width);
    let keep_left = matches!(join.kind, JoinKind::Left | JoinKind::Full);
    let keep_right = matches!(join.kind, JoinKind::Right | JoinKind::Full);
    if join.lateral {
        if keep_right {
            return Err(SqlError::new(
                "42P10",
                "invalid reference to FROM-clause entry",
            ));
        }
        return run(&join.left, cx, &mut |left| {
            let outer = Outer {
                row: &left,
                next: cx.outer,
            };
            let inner = Ctx {
                params: cx.params,
                outer: Some(&outer),
                run: cx.run,
            };
            let mut found = false;
            let mut more = true;
            run(&join.right, &inner, &mut |right| {
                cx.run()?.step()?;
                let row = joined(&left, &right, lw, rw);
                if passes(join.on.as_ref(), cx, &row)? {
                    found = true;
                    more = emit(Tuple::Own(row))?;
                }
                Ok(more)
            })?;
            if more && keep_left && !found {
                more = emit(Tuple::Own(joined(&left, &[], lw, rw)))?;
            }
            Ok(more)
        });
    }
    let rights = collect(&join.right, cx)?;
    if rights.is_empty() && !keep_left && !keep_right {
        return Ok(());
    }
    let mut table: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    let all: Vec<usize> = if join.hash.is_empty() {
        (0..rights.len()).collect()
    } else {
        for (i, right) in rights.iter().enumerate() {
            if let Some(key) = hash_key(join.hash.iter().map(|(_, right)| right), cx, right)? {
                table.entry(key).or_default().push(i);
            }
        }
        Vec::new()
    };
    let mut matched = vec![false; rights.len()];
    let mut more = true;
    run(&join.left, cx, &mut |left| {
        let candidates = if join.hash.is_empty() {
            all.as_slice()
        } else {
            let key = hash_key(join.hash.iter().map(|(left, _)| left), cx, &left)?;
            key.and_then(|key| table.get(&key)).map_or(&[][..], Vec::as_slice)
        };
        let mut found = false;
        for i in candidates {
            cx.run()?.step()?;
            let row = joined(&left, &rights[*i], lw, rw);
            if passes(join.on.as_ref(), cx, &row)? {
                found = true;
                matched[*i] = true;
                more = emit(Tuple::Own(row))?;
                if !more {
                    return Ok(false);
                }
            }
        }
        if keep_left && !found {
            more = emit(Tuple::Own(joined(&left, &[], lw, rw)))?;
        }
        Ok(more)
    })?;
    if keep_right && more {
        for (right, matched) in rights.iter().zip(matched) {
            if !matched && !emit(Tuple::Own(joined(&[], right, lw, rw)))? {
                break;
            }
        }
    }
    Ok(())
}

/// The key of a row in a hash join; `None` when NULL is in it, which equals
/// nothing.
fn hash_key<'e>(
    exprs: impl Iterator<Item = &'e Expr>,
    cx: &Ctx<'_>,
    row: &[Value],
) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    for expr in exprs {
        let value = expr::eval(expr, cx, row)?;
        if value.is_null() {
            return Ok(None);
        }
        key::push(&mut bytes, &value);
    }
    Ok(Some(bytes))
}

fn run_probe(probe: &Probe, cx: &Ctx<'_>, emit: &mut Emit<'_>) -> Result<()> {
    let scan = &probe.scan;
    let rw = probe.right_width;
    run(&probe.left, cx, &mut |left| {
        let lw = left.len();
        let mut found = false;
        let mut more = true;
        scan_rows(scan, cx, &left, &mut |key, right| {
            let mut row = joined(&left, right, lw, rw);
            if scan.with_key {
                if let Some(last) = row.last_mut() {
                    *last = Value::bytes(key);
                }
            }
            if passes(probe.on.as_ref(), cx, &row)? {
                found = true;
                more = emit(Tuple::Own(row))?;
            }
            Ok(more)
        })?;
        if more && probe.outer_join && !found {
            more = emit(Tuple::Own(joined(&left, &[], lw, rw)))?;
        }
        Ok(more)
    })
}

fn run_aggregation(aggregation: &Aggregation, cx: &Ctx<'_>, emit: &mut Emit<'_>) -> Result<()> {
    type Group<'c> = (Vec<Value>, Vec<Accumulator<'c>>);
    let calls = &aggregation.calls;
    let start = || calls.iter().map(Accumulator::new).collect::<Vec<_>>();
    // Groups come out in the order in which they were first seen.
    let mut groups: IndexMap<Vec<u8>, Group<'_>> = IndexMap::new();
    let single = aggregation.groups.is_empty() && aggregation.sets.len() == 1;
    if single {
        groups.insert(Vec::new(), (Vec::new(), start()));
    } else {
        // The empty grouping set has its row even without input.
        for (i, set) in aggregation.sets.iter().enumerate() {
            if aggregation.sets.len() > 1 && !set.contains(&true) {
                let nulls = vec![Value::Null; set.len()];
                groups.insert(set_key(i, &nulls, true), (nulls, start()));
            }
        }
    }
    run(&aggregation.input, cx, &mut |row| {
        if single {
            if let Some((_, (_, all))) = groups.first_mut() {
                for one in all {
                    one.add(cx, &row)?;
                }
            }
            return Ok(true);
        }
        let values = project(&aggregation.groups, cx, &row)?;
        let many = aggregation.sets.len() > 1;
        for (i, set) in aggregation.sets.iter().enumerate() {
            let masked: Vec<Value> = values
                .iter()
                .zip(set)
                .map(|(value, counts)| if *counts { value.clone() } else { Value::Null })
                .collect();
            let key = set_key(i, &masked, many);
            let (_, all) = groups.entry(key).or_insert_with(|| (masked, start()));
            for one in all {
                one.add(cx, &row)?;
            }
        }
        Ok(true)
    })?;
    for (_, (mut row, all)) in groups {
        for mut one in all {
            row.push(one.finish()?);
        }
        if !emit(Tuple::Own(row))? {
            break;
        }
    }
    Ok(())
}

fn set_key(set: usize, values: &[Value], many: bool) -> Vec<u8> {
    let mut bytes = encoded(values);
    if many {
        bytes.extend_from_slice(&set.to_be_bytes());
    }
    bytes
}

fn run_limit(
    input: &Node,
    limit: Option<&Expr>,
    offset: Option<&Expr>,
    cx: &Ctx<'_>,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let count = |expr: Option<&Expr>, sqlstate, clause: &str| -> Result<Option<u64>> {
        let Some(expr) = expr else { return Ok(None) };
        match expr::eval(expr, cx, &[])? {
            Value::Int(n) => u64::try_from(n).map(Some).map_err(|_| {
                SqlError::new(sqlstate, format!("{clause} must not be negative"))
            }),
            _ => Ok(None),
        }
    };
    let mut skip = count(offset, "2201X", "OFFSET")?.unwrap_or(0);
    let mut left = count(limit, "2201W", "LIMIT")?;
    if left == Some(0) {
        return Ok(());
    }
    run(input, cx, &mut |row| {
        if skip > 0 {
            skip -= 1;
            return Ok(true);
        }
        let more = emit(row)?;
        if let Some(left) = &mut left {
            *left -= 1;
            return Ok(more && *left > 0);
        }
        Ok(more)
    })
}

fn set_operation(
    op: SetOperation,
    all: bool,
    left: &Node,
    right: &Node,
    cx: &Ctx<'_>,
    emit: &mut Emit<'_>,
) -> Result<()> {
    if op == SetOperation::Union {
        let mut seen = HashMap::new();
        let mut more = true;
        for side in [left, right] {
            if !more {
                break;
            }
            run(side, cx, &mut |row| {
                if all || seen.insert(encoded(&row), ()).is_none() {
                    more = emit(row)?;
                }
                Ok(more)
            })?;
        }
        return Ok(());
    }
    // How often each row stands on the right.
    let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    run(right, cx, &mut |row| {
        *counts.entry(encoded(&row)).or_default() += 1;
        Ok(true)
    })?;
    let mut given = HashMap::new();
    run(left, cx, &mut |row| {
        let bytes = encoded(&row);
        let count = counts.get_mut(&bytes).filter(|count| **count > 0);
        let wanted = match (op, count, all) {
            (SetOperation::Intersect, Some(count), true) => {
                *count -= 1;
                true
            }
            (SetOperation::Intersect, found, false) => {
                found.is_some() && given.insert(bytes, ()).is_none()
            }
            (SetOperation::Except, Some(count), true) => {
                *count -= 1;
                false
            }
            (SetOperation::Except, None, true) => true,
            (SetOperation::Except, found, false) => {
                found.is_none() && given.insert(bytes, ()).is_none()
            }
            _ => false,
        };
        if wanted { emit(row) } else { Ok(true) }
    })
}

/// The value of a subquery for a row.
pub(crate) fn subquery(subquery: &Subquery, cx: &Ctx<'_>, row: &[Value]) -> Result<Value> {
    let outer = Outer {
        row,
        next: cx.outer,
    };
    let inner = Ctx {
        params: cx.params,
        outer: Some(&outer),
        run: cx.run,
    };
    // An early end is possible only where the rows are not kept.
    let rows: Kept = if subquery.correlated {
        match &subquery.kind {
            SubqueryKind::Exists => {
                let mut found = false;
                run(&subquery.plan, &inner, &mut |_| {
                    found = true;
                    Ok(false)
                })?;
                return Ok(Value::Bool(found != subquery.negated));
            }
            _ => Rc::new(collect(&subquery.plan, &inner)?),
        }
    } else {
        let run = cx.run()?;
        match run.kept(subquery.slot) {
            Some(rows) => rows,
            None => {
                let rows = Rc::new(collect(&subquery.plan, &inner)?);
                run.keep(subquery.slot, Some(Rc::clone(&rows)));
                rows
            }
        }
    };
    Ok(match &subquery.kind {
        SubqueryKind::Exists => Value::Bool(rows.is_empty() == subquery.negated),
        SubqueryKind::Scalar => match rows.as_slice() {
            [] => Value::Null,
            [row] => row.first().cloned().unwrap_or(Value::Null),
            _ => {
                return Err(SqlError::new(
                    "21000",
                    "more than one row returned by a subquery used as an expression",
                ));
            }
        },
        SubqueryKind::Array(element) => Value::array(
            *element,
            rows.iter().filter_map(|row| row.first().cloned()).collect(),
        ),
        SubqueryKind::Any { exprs, op, all } => {
            let values = project(exprs, cx, row)?;
            let result = any_row(*op, *all, &values, &rows);
            match result {
                Value::Bool(b) => Value::Bool(b != subquery.negated),
                other => other,
            }
        }
    })
}

fn any_row(op: Comparison, all: bool, values: &[Value], rows: &[Vec<Value>]) -> Value {
    if let [value] = values {
        return expr::any_of(op, all, value, rows.iter().filter_map(|row| row.first()));
    }
    let record = |values: &[Value]| {
        Value::Record(
            values
                .iter()
                .map(|value| (crate::types::Type::TEXT, value.clone()))
                .collect(),
        )
    };
    let left = record(values);
    let rights: Vec<Value> = rows.iter().map(|row| record(row)).collect();
    expr::any_of(op, all, &left, rights.iter())
}
