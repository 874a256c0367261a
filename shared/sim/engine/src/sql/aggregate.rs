//! Aggregates and window functions: binding and computing.

use std::collections::BTreeSet;

use sqlparser::ast;

use super::bind::{Binder, Place, Typed};
use super::cast::Context;
use super::expr::{self, Arithmetic, Class, Ctx, Expr};
use super::plan::SortKey;
use crate::error::{Result, SqlError};
use crate::types::Type;
use crate::value::key;
use crate::value::{Numeric, Value, text};

/// What an aggregate computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    CountRows,
    Count,
    SumInt,
    SumNumeric,
    SumFloat,
    SumInterval,
    AvgNumeric,
    AvgFloat,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    StringAgg,
    ByteaAgg,
    ArrayAgg,
    /// Sample (or population) variance (or its root).
    Variance {
        population: bool,
        root: bool,
    },
}

/// An aggregate of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AggregateCall {
    pub kind: Kind,
    pub args: Vec<Expr>,
    pub distinct: bool,
    pub order: Vec<SortKey>,
    pub filter: Option<Expr>,
    pub ty: Type,
}

/// A window function of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowCall {
    pub kind: WindowKind,
    pub args: Vec<Expr>,
    pub partition: Vec<Expr>,
    pub order: Vec<SortKey>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WindowKind {
    RowNumber,
    Rank,
    DenseRank,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    /// Over the partition up to the current row's peers, or all of it when
    /// there is no order.
    Aggregate(AggregateCall),
}

pub(crate) fn is_aggregate(name: &str) -> bool {
    matches!(
        name,
        "count"
            | "sum"
            | "min"
            | "max"
            | "avg"
            | "bool_and"
            | "bool_or"
            | "every"
            | "string_agg"
            | "array_agg"
            | "stddev"
            | "stddev_samp"
            | "stddev_pop"
            | "variance"
            | "var_samp"
            | "var_pop"
    )
}

pub(crate) fn is_window_only(name: &str) -> bool {
    matches!(
        name,
        "row_number" | "rank" | "dense_rank" | "lag" | "lead" | "first_value" | "last_value"
    )
}

fn undefined(name: &str, args: &[Typed]) -> SqlError {
    let types: Vec<String> = args.iter().map(|arg| arg.ty.display()).collect();
    SqlError::new(
        "42883",
        format!("function {name}({}) does not exist", types.join(", ")),
    )
    .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

/// Binds an aggregate and notes it for the query.
pub(crate) fn bind(
    binder: &Binder<'_>,
    name: &str,
    function: &ast::Function,
    place: Place<'_>,
) -> Result<Typed> {
    let Some(aggregates) = place.aggregates else {
        return Err(SqlError::new(
            "42803",
            format!("aggregate functions are not allowed in {}", place.clause),
        ));
    };
    let inner = Place {
        aggregates: None,
        windows: None,
        clause: "an aggregate function call",
        ..place
    };
    let call = bind_call(binder, name, function, inner)?;
    let ty = call.ty;
    let mut all = aggregates.borrow_mut();
    let n = match all.iter().position(|other| *other == call) {
        Some(n) => n,
        None => {
            all.push(call);
            all.len() - 1
        }
    };
    Ok(Typed::new(Expr::Aggregate(n), ty))
}

fn bind_call(
    binder: &Binder<'_>,
    name: &str,
    function: &ast::Function,
    place: Place<'_>,
) -> Result<AggregateCall> {
    if !function.within_group.is_empty() {
        return Err(SqlError::simulator("WITHIN GROUP"));
    }
    let (mut args, mut distinct, mut star) = (Vec::new(), false, false);
    let mut order = Vec::new();
    if let ast::FunctionArguments::List(list) = &function.args {
        distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
        for arg in &list.args {
            match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                    args.push(binder.expr(expr, place)?);
                }
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard) => star = true,
                _ => return Err(SqlError::simulator(format!("this form of arguments of {name}"))),
            }
        }
        for clause in &list.clauses {
            match clause {
                ast::FunctionArgumentClause::OrderBy(keys) => {
                    for key in keys {
                        let typed = binder.expr(&key.expr, place)?;
                        let typed = binder.settle(typed)?;
                        order.push(SortKey::new(typed.expr, &key.options));
                    }
                }
                _ => return Err(SqlError::simulator(format!("a clause within {name}"))),
            }
        }
    }
    let filter = function
        .filter
        .as_ref()
        .map(|filter| {
            let place = Place {
                clause: "FILTER",
                ..place
            };
            binder.condition(filter, place)
        })
        .transpose()?;
    let (kind, to, ty) = choose(name, &args, star)?;
    let args: Result<Vec<Expr>> = args
        .into_iter()
        .enumerate()
        .map(|(i, arg)| {
            // The separator of string_agg has the type of what it separates.
            let to = if i == 0 || to.is_text() || to.is(Type::BYTEA) { to } else { arg.ty };
            binder.coerce(arg, to.plain(), Context::Implicit)
        })
        .collect();
    Ok(AggregateCall {
        kind,
        args: args?,
        distinct,
        order,
        filter,
        ty,
    })
}

/// Kind, type of the argument, type of the result.
fn choose(name: &str, args: &[Typed], star: bool) -> Result<(Kind, Type, Type)> {
    if star {
        return if name == "count" && args.is_empty() {
            Ok((Kind::CountRows, Type::INT8, Type::INT8))
        } else {
            Err(undefined(name, args))
        };
    }
    let wanted = if name == "string_agg" { 2 } else { 1 };
    let ty = match args.first() {
        Some(arg) if args.len() == wanted => arg.ty.plain(),
        _ => return Err(undefined(name, args)),
    };
    let known = if ty.is_unknown() { Type::TEXT } else { ty };
    Ok(match name {
        "count" => (Kind::Count, known, Type::INT8),
        "sum" if ty.is(Type::INT8) => (Kind::SumNumeric, Type::NUMERIC, Type::NUMERIC),
        "sum" if ty.is_int() => (Kind::SumInt, Type::INT8, Type::INT8),
        "sum" if ty.is(Type::NUMERIC) => (Kind::SumNumeric, ty, ty),
        "sum" if ty.is_float() => (Kind::SumFloat, ty, ty),
        "sum" if ty.is(Type::INTERVAL) => (Kind::SumInterval, ty, ty),
        "avg" if ty.is_int() || ty.is(Type::NUMERIC) => {
            (Kind::AvgNumeric, Type::NUMERIC, Type::NUMERIC)
        }
        "avg" if ty.is_float() => (Kind::AvgFloat, Type::FLOAT8, Type::FLOAT8),
        "min" | "max" if !matches!(ty.oid, 16 | 114 | 2249 | 2950 | 3802) => {
            let kind = if name == "min" { Kind::Min } else { Kind::Max };
            (kind, known, known)
        }
        "bool_and" | "every" if ty.is(Type::BOOL) => (Kind::BoolAnd, ty, ty),
        "bool_or" if ty.is(Type::BOOL) => (Kind::BoolOr, ty, ty),
        "string_agg" if ty.is(Type::BYTEA) => (Kind::ByteaAgg, ty, ty),
        "string_agg" if known.is_text() => (Kind::StringAgg, Type::TEXT, Type::TEXT),
        "array_agg" => {
            let array = known
                .array()
                .ok_or_else(|| SqlError::simulator("an array of arrays"))?;
            (Kind::ArrayAgg, known, array)
        }
        "stddev" | "stddev_samp" | "stddev_pop" | "variance" | "var_samp" | "var_pop"
            if ty.is_number() =>
        {
            let kind = Kind::Variance {
                population: name.ends_with("pop"),
                root: name.starts_with("stddev"),
            };
            let ty = if ty.is_float() { Type::FLOAT8 } else { Type::NUMERIC };
            (kind, ty, ty)
        }
        _ => return Err(undefined(name, args)),
    })
}

/// Binds `function(…) OVER (…)`.
pub(crate) fn bind_window(
    binder: &Binder<'_>,
    name: &str,
    function: &ast::Function,
    window: &ast::WindowType,
    place: Place<'_>,
) -> Result<Typed> {
    let Some(windows) = place.windows else {
        return Err(SqlError::new(
            "42P20",
            format!("window functions are not allowed in {}", place.clause),
        ));
    };
    let ast::WindowType::WindowSpec(spec) = window else {
        return Err(SqlError::simulator("a named window"));
    };
    if spec.window_name.is_some() || spec.window_frame.is_some() {
        return Err(SqlError::simulator("a window frame"));
    }
    let inner = Place {
        windows: None,
        clause: "window definitions",
        ..place
    };
    let partition: Result<Vec<Expr>> = spec
        .partition_by
        .iter()
        .map(|expr| Ok(binder.settle(binder.expr(expr, inner)?)?.expr))
        .collect();
    let mut order = Vec::new();
    for key in &spec.order_by {
        let typed = binder.settle(binder.expr(&key.expr, inner)?)?;
        order.push(SortKey::new(typed.expr, &key.options));
    }
    let (kind, args, ty) = if is_aggregate(name) {
        let call = bind_call(binder, name, function, inner)?;
        let ty = call.ty;
        (WindowKind::Aggregate(call), Vec::new(), ty)
    } else {
        let mut args = Vec::new();
        if let ast::FunctionArguments::List(list) = &function.args {
            for arg in &list.args {
                match arg {
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                        args.push(binder.settle(binder.expr(expr, inner)?)?);
                    }
                    _ => return Err(undefined(name, &args)),
                }
            }
        }
        let first = args.first().map_or(Type::INT8, |arg| arg.ty);
        let (kind, ty, takes) = match name {
            "row_number" => (WindowKind::RowNumber, Type::INT8, 0..=0),
            "rank" => (WindowKind::Rank, Type::INT8, 0..=0),
            "dense_rank" => (WindowKind::DenseRank, Type::INT8, 0..=0),
            "lag" => (WindowKind::Lag, first, 1..=3),
            "lead" => (WindowKind::Lead, first, 1..=3),
            "first_value" => (WindowKind::FirstValue, first, 1..=1),
            "last_value" => (WindowKind::LastValue, first, 1..=1),
            _ => return Err(SqlError::simulator(format!("the window function {name}"))),
        };
        if !takes.contains(&args.len()) {
            return Err(undefined(name, &args));
        }
        (kind, args.into_iter().map(|arg| arg.expr).collect(), ty)
    };
    let mut all = windows.borrow_mut();
    all.push(WindowCall {
        kind,
        args,
        partition: partition?,
        order,
    });
    Ok(Typed::new(Expr::Window(all.len() - 1), ty))
}

/// The state of one aggregate of one group.
#[derive(Debug)]
pub(crate) struct Accumulator<'c> {
    call: &'c AggregateCall,
    count: i64,
    value: Value,
    /// Sum and sum of squares, for variances.
    sums: (Value, Value),
    seen: BTreeSet<Vec<u8>>,
    /// Arguments with the keys that they are sorted by.
    kept: Vec<(Vec<Value>, Value)>,
    parts: Vec<Value>,
}

impl<'c> Accumulator<'c> {
    pub(crate) fn new(call: &'c AggregateCall) -> Accumulator<'c> {
        Accumulator {
            call,
            count: 0,
            value: Value::Null,
            sums: (Value::Null, Value::Null),
            seen: BTreeSet::new(),
            kept: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Takes one row.
    pub(crate) fn add(&mut self, cx: &Ctx<'_>, row: &[Value]) -> Result<()> {
        let call = self.call;
        if let Some(filter) = &call.filter {
            if !expr::holds(filter, cx, row)? {
                return Ok(());
            }
        }
        let Some(arg) = call.args.first() else {
            self.count += 1;
            return Ok(());
        };
        let value = expr::eval(arg, cx, row)?;
        if value.is_null() && call.kind != Kind::ArrayAgg {
            return Ok(());
        }
        if call.distinct {
            let mut bytes = Vec::new();
            key::push(&mut bytes, &value);
            if !self.seen.insert(bytes) {
                return Ok(());
            }
        }
        if let Some(separator) = call.args.get(1) {
            if self.parts.is_empty() {
                self.parts.push(expr::eval(separator, cx, row)?);
            }
        }
        if !call.order.is_empty() || (call.distinct && self.collects()) {
            let keys: Result<Vec<Value>> = if call.order.is_empty() {
                Ok(vec![value.clone()])
            } else {
                call.order
                    .iter()
                    .map(|key| expr::eval(&key.expr, cx, row))
                    .collect()
            };
            self.kept.push((keys?, value));
            return Ok(());
        }
        self.take(value)
    }

    fn collects(&self) -> bool {
        matches!(
            self.call.kind,
            Kind::StringAgg | Kind::ByteaAgg | Kind::ArrayAgg
        )
    }

    fn take(&mut self, value: Value) -> Result<()> {
        self.count += 1;
        let old = std::mem::replace(&mut self.value, Value::Null);
        self.value = match self.call.kind {
            Kind::CountRows | Kind::Count => Value::Null,
            Kind::SumInt => add(Class::Int8, old, value)?,
            Kind::SumNumeric | Kind::AvgNumeric => add(Class::Numeric, old, value)?,
            Kind::SumFloat if self.call.ty.is(Type::FLOAT4) => add(Class::Float4, old, value)?,
            Kind::SumFloat | Kind::AvgFloat => add(Class::Float8, old, value)?,
            Kind::SumInterval => match (old, value) {
                (Value::Interval(a), Value::Interval(b)) => {
                    Value::Interval(Box::new(crate::value::Interval {
                        months: a.months.saturating_add(b.months),
                        days: a.days.saturating_add(b.days),
                        us: a.us.saturating_add(b.us),
                    }))
                }
                (_, value) => value,
            },
            Kind::Min if !old.is_null() && old.compare(&value).is_le() => old,
            Kind::Max if !old.is_null() && old.compare(&value).is_ge() => old,
            Kind::Min | Kind::Max => value,
            Kind::BoolAnd | Kind::BoolOr => match (old, value) {
                (Value::Bool(a), Value::Bool(b)) if self.call.kind == Kind::BoolAnd => {
                    Value::Bool(a && b)
                }
                (Value::Bool(a), Value::Bool(b)) => Value::Bool(a || b),
                (_, value) => value,
            },
            Kind::StringAgg | Kind::ByteaAgg | Kind::ArrayAgg => {
                self.kept.push((Vec::new(), value));
                Value::Null
            }
            Kind::Variance { .. } => {
                let class = self.variance_class();
                let square = expr::arithmetic(Arithmetic::Mul, class, &value, &value)?;
                let (sum, squares) = std::mem::replace(&mut self.sums, (Value::Null, Value::Null));
                self.sums = (add(class, sum, value)?, add(class, squares, square)?);
                Value::Null
            }
        };
        Ok(())
    }

    /// The aggregate of what was taken.
    pub(crate) fn finish(&mut self) -> Result<Value> {
        let mut kept = std::mem::take(&mut self.kept);
        let ordered = kept.iter().any(|(keys, _)| !keys.is_empty());
        if ordered {
            let order = &self.call.order;
            kept.sort_by(|(a, _), (b, _)| {
                if order.is_empty() {
                    a.first().zip(b.first()).map_or(std::cmp::Ordering::Equal, |(a, b)| a.compare(b))
                } else {
                    SortKey::compare(order, a, b)
                }
            });
            if !self.collects() {
                for (_, value) in kept.drain(..) {
                    self.take(value)?;
                }
            }
        }
        let count = self.count;
        Ok(match self.call.kind {
            Kind::CountRows | Kind::Count => Value::Int(count),
            Kind::AvgNumeric => match &self.value {
                Value::Numeric(sum) => Value::numeric(sum.div(Numeric::from_int(count))?),
                _ => Value::Null,
            },
            Kind::AvgFloat => match &self.value {
                Value::Float(sum) => Value::Float(sum / count as f64),
                _ => Value::Null,
            },
            _ if self.collects() && kept.is_empty() => Value::Null,
            Kind::ArrayAgg => {
                let element = self.call.ty.element().unwrap_or(Type::TEXT);
                Value::array(element, kept.into_iter().map(|(_, value)| value).collect())
            }
            Kind::StringAgg => {
                let separator = match self.parts.first() {
                    Some(Value::Text(text)) => text.to_string(),
                    _ => String::new(),
                };
                let parts: Vec<String> = kept
                    .iter()
                    .map(|(_, value)| text::to_text(value, Type::TEXT))
                    .collect();
                Value::text(parts.join(&separator))
            }
            Kind::ByteaAgg => {
                let separator: &[u8] = match self.parts.first() {
                    Some(Value::Bytea(bytes)) => bytes,
                    _ => &[],
                };
                let parts: Vec<&[u8]> = kept
                    .iter()
                    .filter_map(|(_, value)| match value {
                        Value::Bytea(bytes) => Some(&**bytes),
                        _ => None,
                    })
                    .collect();
                Value::bytes(parts.join(separator))
            }
            Kind::Variance { population, root } => self.variance(population, root)?,
            _ => std::mem::replace(&mut self.value, Value::Null),
        })
    }

    fn variance_class(&self) -> Class {
        if self.call.ty.is(Type::NUMERIC) {
            Class::Numeric
        } else {
            Class::Float8
        }
    }

    /// (n Σx² - (Σx)²) / n (n - 1), or n² for a population.
    fn variance(&self, population: bool, root: bool) -> Result<Value> {
        let n = self.count;
        let over = if population { n } else { n - 1 };
        if over <= 0 {
            return Ok(Value::Null);
        }
        match &self.sums {
            (Value::Numeric(sum), Value::Numeric(squares)) => {
                let count = Numeric::from_int(n);
                let spread = count.mul(**squares)?.sub(sum.mul(**sum)?)?;
                if spread <= Numeric::ZERO {
                    return Ok(Value::numeric(Numeric::ZERO));
                }
                let variance = spread.div(count.mul(Numeric::from_int(over))?)?;
                let value = if root {
                    variance.sqrt(Some(variance.scale()))?
                } else {
                    variance
                };
                Ok(Value::numeric(value))
            }
            (Value::Float(sum), Value::Float(squares)) => {
                let count = n as f64;
                let spread = (count * squares - sum * sum).max(0.0);
                let variance = spread / (count * over as f64);
                Ok(Value::Float(if root { variance.sqrt() } else { variance }))
            }
            _ => Ok(Value::Null),
        }
    }

    /// The aggregate of what was taken so far, for a running window.
    fn so_far(&mut self) -> Result<Value> {
        let kept = self.kept.clone();
        let value = self.value.clone();
        let count = self.count;
        let result = self.finish();
        self.kept = kept;
        self.value = value;
        self.count = count;
        result
    }
}

fn add(class: Class, old: Value, value: Value) -> Result<Value> {
    if old.is_null() {
        return Ok(value);
    }
    expr::arithmetic(Arithmetic::Add, class, &old, &value)
}

/// Computes window functions: appends one value per call to every row.
pub(crate) fn windows(calls: &[WindowCall], cx: &Ctx<'_>, rows: &mut [Vec<Value>]) -> Result<()> {
    for call in calls {
        let mut keyed = Vec::with_capacity(rows.len());
        for (i, row) in rows.iter().enumerate() {
            let partition: Result<Vec<Value>> =
                call.partition.iter().map(|e| expr::eval(e, cx, row)).collect();
            let order: Result<Vec<Value>> =
                call.order.iter().map(|k| expr::eval(&k.expr, cx, row)).collect();
            keyed.push((partition?, order?, i));
        }
        let same = |a: &[Value], b: &[Value]| a.iter().zip(b).all(|(a, b)| a.compare(b).is_eq());
        keyed.sort_by(|(pa, oa, _), (pb, ob, _)| {
            pa.iter()
                .zip(pb)
                .map(|(a, b)| a.compare(b))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| SortKey::compare(&call.order, oa, ob))
        });
        let mut results = vec![Value::Null; rows.len()];
        let mut start = 0;
        while start < keyed.len() {
            let mut end = start + 1;
            while end < keyed.len() && same(&keyed[start].0, &keyed[end].0) {
                end += 1;
            }
            let part = &keyed[start..end];
            one_partition(call, cx, rows, part, &mut results)?;
            start = end;
        }
        for (row, result) in rows.iter_mut().zip(results) {
            row.push(result);
        }
    }
    Ok(())
}

type Keyed = (Vec<Value>, Vec<Value>, usize);

fn one_partition(
    call: &WindowCall,
    cx: &Ctx<'_>,
    rows: &[Vec<Value>],
    part: &[Keyed],
    results: &mut [Value],
) -> Result<()> {
    let peers = |a: &Keyed, b: &Keyed| SortKey::compare(&call.order, &a.1, &b.1).is_eq();
    let arg = |n: usize, at: &Keyed| match call.args.get(n) {
        Some(arg) => expr::eval(arg, cx, &rows[at.2]),
        None => Ok(Value::Null),
    };
    let (mut rank, mut dense) = (1i64, 0i64);
    let mut running = match &call.kind {
        WindowKind::Aggregate(aggregate) => Some(Accumulator::new(aggregate)),
        _ => None,
    };
    let mut group_end = 0;
    for (i, at) in part.iter().enumerate() {
        if i == group_end {
            rank = i64::try_from(i).unwrap_or(i64::MAX) + 1;
            dense += 1;
            group_end = i + 1;
            while group_end < part.len() && peers(at, &part[group_end]) {
                group_end += 1;
            }
            if let Some(running) = &mut running {
                for peer in &part[i..group_end] {
                    running.add(cx, &rows[peer.2])?;
                }
            }
        }
        results[at.2] = match &call.kind {
            WindowKind::RowNumber => Value::Int(i64::try_from(i).unwrap_or(i64::MAX) + 1),
            WindowKind::Rank => Value::Int(rank),
            WindowKind::DenseRank => Value::Int(dense),
            WindowKind::FirstValue => arg(0, &part[0])?,
            WindowKind::LastValue => arg(0, &part[group_end - 1])?,
            WindowKind::Lag | WindowKind::Lead => {
                let distance = match arg(1, at)? {
                    Value::Int(n) => n,
                    _ => 1,
                };
                let sign = if call.kind == WindowKind::Lag { -1 } else { 1 };
                let there = i64::try_from(i).unwrap_or(0).saturating_add(distance.saturating_mul(sign));
                match usize::try_from(there).ok().and_then(|i| part.get(i)) {
                    Some(there) => arg(0, there)?,
                    None => arg(2, at)?,
                }
            }
            WindowKind::Aggregate(_) => match &mut running {
                Some(running) => running.so_far()?,
                None => Value::Null,
            },
        };
    }
    Ok(())
}
