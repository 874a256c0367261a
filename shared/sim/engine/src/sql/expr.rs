//! Expressions after binding: every name is a position, every type known,
//! every conversion explicit. What is left is to compute.

use std::borrow::Cow;
use std::sync::Arc;

use super::cast;
use super::exec::{self, Run};
use super::functions::Function;
use super::plan::Node;
use crate::error::{Result, SqlError};
use crate::types::Type;
use crate::value::{Numeric, Value};

/// A bound expression over a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Const(Value),
    Param(usize),
    Column(usize),
    /// A column of a row further out, `depth` queries up.
    Outer {
        depth: usize,
        column: usize,
    },
    Compare {
        op: Comparison,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        expr: Box<Expr>,
        negated: bool,
    },
    /// IS [NOT] TRUE, FALSE, UNKNOWN (`None`).
    IsBool {
        expr: Box<Expr>,
        value: Option<bool>,
        negated: bool,
    },
    Distinct {
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    Arithmetic {
        op: Arithmetic,
        class: Class,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Call {
        function: &'static Function,
        args: Vec<Expr>,
    },
    Cast {
        expr: Box<Expr>,
        from: Type,
        to: Type,
        explicit: bool,
    },
    Case {
        branches: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Coalesce(Vec<Expr>),
    /// The largest (or smallest) of what is not NULL.
    Extreme {
        args: Vec<Expr>,
        greatest: bool,
    },
    InList {
        expr: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    /// `expr op ANY (array)`, or ALL.
    AnyArray {
        expr: Box<Expr>,
        op: Comparison,
        array: Box<Expr>,
        all: bool,
    },
    Subquery(Box<Subquery>),
    Row(Vec<(Type, Expr)>),
    Array {
        element: Type,
        items: Vec<Expr>,
    },
    /// The `n`th aggregate of a query; replaced by a column before execution.
    Aggregate(usize),
    /// The `n`th window function; replaced by a column before execution.
    Window(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Comparison {
    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Eq => order.is_eq(),
            Comparison::Ne => order.is_ne(),
            Comparison::Lt => order.is_lt(),
            Comparison::Le => order.is_le(),
            Comparison::Gt => order.is_gt(),
            Comparison::Ge => order.is_ge(),
        }
    }

    /// The same comparison with its sides exchanged.
    pub(crate) fn mirrored(self) -> Comparison {
        match self {
            Comparison::Lt => Comparison::Gt,
            Comparison::Le => Comparison::Ge,
            Comparison::Gt => Comparison::Lt,
            Comparison::Ge => Comparison::Le,
            same => same,
        }
    }

    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Comparison::Eq => "=",
            Comparison::Ne => "<>",
            Comparison::Lt => "<",
            Comparison::Le => "<=",
            Comparison::Gt => ">",
            Comparison::Ge => ">=",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

/// What arithmetic is done in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Int2,
    Int4,
    Int8,
    Numeric,
    Float4,
    Float8,
}

/// How a subquery is used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SubqueryKind {
    Scalar,
    Exists,
    /// `(exprs) op ANY (subquery)`; IN is `= ANY`.
    Any {
        exprs: Vec<Expr>,
        op: Comparison,
        /// ALL instead of ANY.
        all: bool,
    },
    /// ARRAY(subquery)
    Array(Type),
}

/// A subquery within an expression.
#[derive(Clone, Debug)]
pub(crate) struct Subquery {
    pub kind: SubqueryKind,
    pub plan: Arc<Node>,
    /// Whether it looks at outer rows; if not, it runs once a statement.
    pub correlated: bool,
    /// Where its rows are kept when it is not.
    pub slot: usize,
    pub negated: bool,
}

impl PartialEq for Subquery {
    fn eq(&self, other: &Subquery) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan) && self.kind == other.kind
    }
}

/// Rows of the queries around this one, the nearest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outer<'a> {
    pub row: &'a [Value],
    pub next: Option<&'a Outer<'a>>,
}

/// What an expression may look at beside its row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ctx<'a> {
    pub params: &'a [Value],
    pub outer: Option<&'a Outer<'a>>,
    /// The running statement; `None` where an expression stands alone, as in an
    /// index.
    pub run: Option<&'a Run<'a>>,
}

impl<'a> Ctx<'a> {
    /// For expressions that stand alone.
    pub(crate) fn bare() -> Ctx<'a> {
        Ctx {
            params: &[],
            outer: None,
            run: None,
        }
    }

    pub(crate) fn run(&self) -> Result<&'a Run<'a>> {
        self.run
            .ok_or_else(|| SqlError::new("42P17", "functions in index expression must be marked IMMUTABLE"))
    }
}

static NULL: Value = Value::Null;

impl Expr {
    pub(crate) fn boxed(self) -> Box<Expr> {
        Box::new(self)
    }

    pub(crate) fn null() -> Expr {
        Expr::Const(Value::Null)
    }

    pub(crate) fn equal(left: Expr, right: Expr) -> Expr {
        Expr::Compare {
            op: Comparison::Eq,
            left: left.boxed(),
            right: right.boxed(),
        }
    }

    /// Calls `f` for every direct part.
    pub(crate) fn for_each_part<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        match self {
            Expr::Const(_)
            | Expr::Param(_)
            | Expr::Column(_)
            | Expr::Outer { .. }
            | Expr::Aggregate(_)
            | Expr::Window(_) => {}
            Expr::Compare { left, right, .. }
            | Expr::Distinct { left, right, .. }
            | Expr::Arithmetic { left, right, .. } => {
                f(left);
                f(right);
            }
            Expr::And(parts) | Expr::Or(parts) | Expr::Coalesce(parts) => parts.iter().for_each(f),
            Expr::Extreme { args, .. } | Expr::Call { args, .. } => args.iter().for_each(f),
            Expr::Not(expr)
            | Expr::IsNull { expr, .. }
            | Expr::IsBool { expr, .. }
            | Expr::Cast { expr, .. } => f(expr),
            Expr::Case {
                branches,
                otherwise,
            } => {
                for (when, then) in branches {
                    f(when);
                    f(then);
                }
                f(otherwise);
            }
            Expr::InList { expr, list, .. } => {
                f(expr);
                list.iter().for_each(f);
            }
            Expr::AnyArray { expr, array, .. } => {
                f(expr);
                f(array);
            }
            Expr::Subquery(subquery) => {
                if let SubqueryKind::Any { exprs, .. } = &subquery.kind {
                    exprs.iter().for_each(f);
                }
            }
            Expr::Row(fields) => fields.iter().for_each(|(_, field)| f(field)),
            Expr::Array { items, .. } => items.iter().for_each(f),
        }
    }

    /// Rewrites every direct part.
    pub(crate) fn map_parts(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        match self {
            Expr::Const(_)
            | Expr::Param(_)
            | Expr::Column(_)
            | Expr::Outer { .. }
            | Expr::Aggregate(_)
            | Expr::Window(_) => {}
            Expr::Compare { left, right, .. }
            | Expr::Distinct { left, right, .. }
            | Expr::Arithmetic { left, right, .. } => {
                f(left);
                f(right);
            }
            Expr::And(parts) | Expr::Or(parts) | Expr::Coalesce(parts) => {
                parts.iter_mut().for_each(f);
            }
            Expr::Extreme { args, .. } | Expr::Call { args, .. } => args.iter_mut().for_each(f),
            Expr::Not(expr)
            | Expr::IsNull { expr, .. }
            | Expr::IsBool { expr, .. }
            | Expr::Cast { expr, .. } => f(expr),
            Expr::Case {
                branches,
                otherwise,
            } => {
                for (when, then) in branches {
                    f(when);
                    f(then);
                }
                f(otherwise);
            }
            Expr::InList { expr, list, .. } => {
                f(expr);
                list.iter_mut().for_each(f);
            }
            Expr::AnyArray { expr, array, .. } => {
                f(expr);
                f(array);
            }
            Expr::Subquery(subquery) => {
                if let SubqueryKind::Any { exprs, .. } = &mut subquery.kind {
                    exprs.iter_mut().for_each(f);
                }
            }
            Expr::Row(fields) => fields.iter_mut().for_each(|(_, field)| f(field)),
            Expr::Array { items, .. } => items.iter_mut().for_each(f),
        }
    }

    /// Whether any part, or the whole, is so.
    pub(crate) fn any(&self, is: &dyn Fn(&Expr) -> bool) -> bool {
        if is(self) {
            return true;
        }
        let mut found = false;
        self.for_each_part(&mut |part| found = found || part.any(is));
        found
    }

    /// Calls `f` with every column of the row itself. A correlated subquery
    /// looks at the row in ways that are not listed: `None` stands for that.
    pub(crate) fn columns(&self, f: &mut dyn FnMut(Option<usize>)) {
        match self {
            Expr::Column(column) => f(Some(*column)),
            Expr::Subquery(subquery) if subquery.correlated => f(None),
            _ => {}
        }
        self.for_each_part(&mut |part| part.columns(f));
    }

    /// Whether all columns that it looks at lie in `range`.
    pub(crate) fn only_in(&self, range: &std::ops::Range<usize>) -> bool {
        let mut only = true;
        self.columns(&mut |column| {
            only = only && column.is_some_and(|column| range.contains(&column));
        });
        only
    }

    /// Moves every column by `offset` to the left.
    pub(crate) fn shifted(mut self, offset: usize) -> Expr {
        fn shift(expr: &mut Expr, offset: usize) {
            if let Expr::Column(column) = expr {
                *column -= offset;
            }
            expr.map_parts(&mut |part| shift(part, offset));
        }
        if offset > 0 {
            shift(&mut self, offset);
        }
        self
    }

    /// Whether it gives the same value whenever it is computed within one
    /// statement, whatever the row.
    pub(crate) fn is_constant(&self) -> bool {
        !self.any(&|part| match part {
            Expr::Column(_) | Expr::Aggregate(_) | Expr::Window(_) => true,
            Expr::Subquery(_) => true,
            Expr::Call { function, .. } => function.volatile,
            _ => false,
        })
    }
}

/// Whether a condition is true: neither false nor unknown.
pub(crate) fn holds(expr: &Expr, cx: &Ctx<'_>, row: &[Value]) -> Result<bool> {
    Ok(matches!(*eval_ref(expr, cx, row)?, Value::Bool(true)))
}

/// The value, borrowed where it only has to be looked up.
pub(crate) fn eval_ref<'v>(
    expr: &'v Expr,
    cx: &Ctx<'v>,
    row: &'v [Value],
) -> Result<Cow<'v, Value>> {
    match expr {
        Expr::Const(value) => Ok(Cow::Borrowed(value)),
        Expr::Column(column) => Ok(Cow::Borrowed(row.get(*column).unwrap_or(&NULL))),
        Expr::Param(n) => Ok(Cow::Borrowed(param(cx, *n)?)),
        Expr::Outer { depth, column } => Ok(Cow::Borrowed(outer(cx, *depth, *column))),
        Expr::Compare { op, left, right } => {
            let left = eval_ref(left, cx, row)?;
            let right = eval_ref(right, cx, row)?;
            Ok(Cow::Owned(compare(*op, &left, &right)))
        }
        other => eval_owned(other, cx, row).map(Cow::Owned),
    }
}

fn param<'v>(cx: &Ctx<'v>, n: usize) -> Result<&'v Value> {
    cx.params.get(n).ok_or_else(|| {
        SqlError::new("42P02", format!("there is no parameter ${}", n + 1))
    })
}

fn outer<'v>(cx: &Ctx<'v>, depth: usize, column: usize) -> &'v Value {
    let mut at = cx.outer;
    for _ in 1..depth {
        at = at.and_then(|outer| outer.next);
    }
    at.and_then(|outer| outer.row.get(column)).unwrap_or(&NULL)
}

/// A comparison, unknown when a side is NULL; rows are compared field by field.
pub(crate) fn compare(op: Comparison, left: &Value, right: &Value) -> Value {
    match (left, right) {
        (Value::Null, _) | (_, Value::Null) => Value::Null,
        (Value::Int(a), Value::Int(b)) => Value::Bool(op.holds(a.cmp(b))),
        (Value::Record(a), Value::Record(b)) => {
            let mut unknown = false;
            for ((_, a), (_, b)) in a.iter().zip(b.iter()) {
                if a.is_null() || b.is_null() {
                    if !matches!(op, Comparison::Eq | Comparison::Ne) {
                        return Value::Null;
                    }
                    unknown = true;
                    continue;
                }
                let order = a.compare(b);
                if order.is_ne() {
                    return Value::Bool(op.holds(order));
                }
            }
            if unknown {
                Value::Null
            } else {
                Value::Bool(op.holds(std::cmp::Ordering::Equal))
            }
        }
        _ => Value::Bool(op.holds(left.compare(right))),
    }
}

/// The value, owned.
pub(crate) fn eval(expr: &Expr, cx: &Ctx<'_>, row: &[Value]) -> Result<Value> {
    match expr {
        Expr::Column(column) => Ok(row.get(*column).cloned().unwrap_or(Value::Null)),
        Expr::Const(value) => Ok(value.clone()),
        Expr::Param(n) => param(cx, *n).cloned(),
        Expr::Outer { depth, column } => Ok(outer(cx, *depth, *column).clone()),
        Expr::Compare { op, left, right } => {
            let left = eval_ref(left, cx, row)?;
            let right = eval_ref(right, cx, row)?;
            Ok(compare(*op, &left, &right))
        }
        other => eval_owned(other, cx, row),
    }
}

fn eval_owned(expr: &Expr, cx: &Ctx<'_>, row: &[Value]) -> Result<Value> {
    match expr {
        Expr::Const(_)
        | Expr::Param(_)
        | Expr::Column(_)
        | Expr::Outer { .. }
        | Expr::Compare { .. } => eval(expr, cx, row),
        Expr::And(parts) => {
            let mut unknown = false;
            for part in parts {
                match *eval_ref(part, cx, row)? {
                    Value::Bool(false) => return Ok(Value::Bool(false)),
                    Value::Bool(true) => {}
                    _ => unknown = true,
                }
            }
            Ok(if unknown { Value::Null } else { Value::Bool(true) })
        }
        Expr::Or(parts) => {
            let mut unknown = false;
            for part in parts {
                match *eval_ref(part, cx, row)? {
                    Value::Bool(true) => return Ok(Value::Bool(true)),
                    Value::Bool(false) => {}
                    _ => unknown = true,
                }
            }
            Ok(if unknown { Value::Null } else { Value::Bool(false) })
        }
        Expr::Not(expr) => Ok(match *eval_ref(expr, cx, row)? {
            Value::Bool(b) => Value::Bool(!b),
            _ => Value::Null,
        }),
        Expr::IsNull { expr, negated } => {
            let value = eval_ref(expr, cx, row)?;
            let is = match &*value {
                Value::Record(fields) if *negated => {
                    return Ok(Value::Bool(fields.iter().all(|(_, field)| !field.is_null())));
                }
                Value::Record(fields) => fields.iter().all(|(_, field)| field.is_null()),
                value => value.is_null(),
            };
            Ok(Value::Bool(is != *negated))
        }
        Expr::IsBool {
            expr,
            value,
            negated,
        } => {
            let is = match *eval_ref(expr, cx, row)? {
                Value::Bool(b) => *value == Some(b),
                _ => value.is_none(),
            };
            Ok(Value::Bool(is != *negated))
        }
        Expr::Distinct {
            left,
            right,
            negated,
        } => {
            let left = eval_ref(left, cx, row)?;
            let right = eval_ref(right, cx, row)?;
            Ok(Value::Bool(left.compare(&right).is_ne() != *negated))
        }
        Expr::Arithmetic {
            op,
            class,
            left,
            right,
        } => {
            let left = eval_ref(left, cx, row)?;
            let right = eval_ref(right, cx, row)?;
            arithmetic(*op, *class, &left, &right)
        }
        Expr::Call { function, args } => call(function, args, cx, row),
        Expr::Cast {
            expr,
            from,
            to,
            explicit,
        } => {
            let value = eval_ref(expr, cx, row)?;
            cast::cast(&value, *from, *to, *explicit, cx)
        }
        Expr::Case {
            branches,
            otherwise,
        } => {
            for (when, then) in branches {
                if holds(when, cx, row)? {
                    return eval(then, cx, row);
                }
            }
            eval(otherwise, cx, row)
        }
        Expr::Coalesce(args) => {
            for arg in args {
                let value = eval(arg, cx, row)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Ok(Value::Null)
        }
        Expr::Extreme { args, greatest } => {
            let mut best = Value::Null;
            for arg in args {
                let value = eval(arg, cx, row)?;
                if value.is_null() {
                    continue;
                }
                let order = value.compare(&best);
                if best.is_null() || (order.is_gt() && *greatest) || (order.is_lt() && !*greatest) {
                    best = value;
                }
            }
            Ok(best)
        }
        Expr::InList {
            expr,
            list,
            negated,
        } => {
            let value = eval_ref(expr, cx, row)?;
            let mut unknown = false;
            for item in list {
                let item = eval_ref(item, cx, row)?;
                match compare(Comparison::Eq, &value, &item) {
                    Value::Bool(true) => return Ok(Value::Bool(!negated)),
                    Value::Bool(false) => {}
                    _ => unknown = true,
                }
            }
            Ok(if unknown { Value::Null } else { Value::Bool(*negated) })
        }
        Expr::AnyArray {
            expr,
            op,
            array,
            all,
        } => {
            let value = eval_ref(expr, cx, row)?;
            match &*eval_ref(array, cx, row)? {
                Value::Array(array) => Ok(any_of(*op, *all, &value, array.items.iter())),
                _ => Ok(Value::Null),
            }
        }
        Expr::Subquery(subquery) => exec::subquery(subquery, cx, row),
        Expr::Row(fields) => {
            let fields: Result<Vec<(Type, Value)>> = fields
                .iter()
                .map(|(ty, field)| Ok((*ty, eval(field, cx, row)?)))
                .collect();
            Ok(Value::Record(fields?.into()))
        }
        Expr::Array { element, items } => {
            let items: Result<Vec<Value>> =
                items.iter().map(|item| eval(item, cx, row)).collect();
            Ok(Value::array(*element, items?))
        }
        Expr::Aggregate(_) | Expr::Window(_) => Err(SqlError::new(
            "XX000",
            "an aggregate was left in a bound expression",
        )),
    }
}

/// Whether a comparison holds for any (or all) of the values.
pub(crate) fn any_of<'v>(
    op: Comparison,
    all: bool,
    value: &Value,
    items: impl Iterator<Item = &'v Value>,
) -> Value {
    let mut unknown = false;
    for item in items {
        match compare(op, value, item) {
            Value::Bool(b) if b != all => return Value::Bool(b),
            Value::Bool(_) => {}
            _ => unknown = true,
        }
    }
    if unknown { Value::Null } else { Value::Bool(all) }
}

fn call(function: &Function, args: &[Expr], cx: &Ctx<'_>, row: &[Value]) -> Result<Value> {
    // Few functions have more than three arguments.
    let mut few = [Value::Null, Value::Null, Value::Null];
    if let Some(few) = few.get_mut(..args.len()) {
        for (slot, arg) in few.iter_mut().zip(args) {
            *slot = eval(arg, cx, row)?;
        }
        return function.call(cx, few);
    }
    let args: Result<Vec<Value>> = args.iter().map(|arg| eval(arg, cx, row)).collect();
    function.call(cx, &args?)
}

fn division_by_zero() -> SqlError {
    SqlError::new("22012", "division by zero")
}

fn integer(op: Arithmetic, a: i64, b: i64, class: Class) -> Result<Value> {
    let name = match class {
        Class::Int2 => "smallint",
        Class::Int4 => "integer",
        _ => "bigint",
    };
    let result = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Sub => a.checked_sub(b),
        Arithmetic::Mul => a.checked_mul(b),
        Arithmetic::Div | Arithmetic::Rem if b == 0 => return Err(division_by_zero()),
        Arithmetic::Div => a.checked_div(b),
        // The smallest number modulo -1 is 0, not an overflow.
        Arithmetic::Rem => Some(a.wrapping_rem(b)),
    };
    let fits = |n: &i64| match class {
        Class::Int2 => i16::try_from(*n).is_ok(),
        Class::Int4 => i32::try_from(*n).is_ok(),
        _ => true,
    };
    result
        .filter(fits)
        .map(Value::Int)
        .ok_or_else(|| SqlError::out_of_range(name))
}

fn exact(op: Arithmetic, a: Numeric, b: Numeric) -> Result<Value> {
    match op {
        Arithmetic::Add => a.add(b),
        Arithmetic::Sub => a.sub(b),
        Arithmetic::Mul => a.mul(b),
        Arithmetic::Div => a.div(b),
        Arithmetic::Rem => a.rem(b),
    }
    .map(Value::numeric)
}

fn float(op: Arithmetic, a: f64, b: f64, class: Class) -> Result<Value> {
    let result = match op {
        Arithmetic::Add => a + b,
        Arithmetic::Sub => a - b,
        Arithmetic::Mul => a * b,
        Arithmetic::Div | Arithmetic::Rem if b == 0.0 => return Err(division_by_zero()),
        Arithmetic::Div => a / b,
        Arithmetic::Rem => a % b,
    };
    let result = if class == Class::Float4 {
        f64::from(result as f32)
    } else {
        result
    };
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(SqlError::new("22003", "value out of range: overflow"));
    }
    Ok(Value::Float(result))
}

/// Arithmetic on two values of the class; NULL makes NULL.
pub(crate) fn arithmetic(
    op: Arithmetic,
    class: Class,
    left: &Value,
    right: &Value,
) -> Result<Value> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => integer(op, *a, *b, class),
        (Value::Numeric(a), Value::Numeric(b)) => exact(op, **a, **b),
        (Value::Float(a), Value::Float(b)) => float(op, *a, *b, class),
        _ => Ok(Value::Null),
    }
}
