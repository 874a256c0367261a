//! Computing expressions.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::cast;
use crate::sql::exec::{self};
use crate::sql::functions::Function;
use crate::types::Type;
use crate::value::Value;
use std::borrow::Cow;

pub(super) static NULL: Value = Value::Null;

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

pub(super) fn param<'v>(cx: &Ctx<'v>, n: usize) -> Result<&'v Value> {
    cx.params
        .get(n)
        .ok_or_else(|| SqlError::new("42P02", format!("there is no parameter ${}", n + 1)))
}

pub(super) fn outer<'v>(cx: &Ctx<'v>, depth: usize, column: usize) -> &'v Value {
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

pub(super) fn eval_owned(expr: &Expr, cx: &Ctx<'_>, row: &[Value]) -> Result<Value> {
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
            Ok(if unknown {
                Value::Null
            } else {
                Value::Bool(true)
            })
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
            Ok(if unknown {
                Value::Null
            } else {
                Value::Bool(false)
            })
        }
        Expr::Not(expr) => Ok(match *eval_ref(expr, cx, row)? {
            Value::Bool(b) => Value::Bool(!b),
            _ => Value::Null,
        }),
        Expr::IsNull { expr, negated } => {
            let value = eval_ref(expr, cx, row)?;
            let is = match &*value {
                Value::Record(fields) if *negated => {
                    return Ok(Value::Bool(
                        fields.iter().all(|(_, field)| !field.is_null()),
                    ));
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
            Ok(if unknown {
                Value::Null
            } else {
                Value::Bool(*negated)
            })
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
            let items: Result<Vec<Value>> = items.iter().map(|item| eval(item, cx, row)).collect();
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
    if unknown {
        Value::Null
    } else {
        Value::Bool(all)
    }
}

pub(super) fn call(
    function: &Function,
    args: &[Expr],
    cx: &Ctx<'_>,
    row: &[Value],
) -> Result<Value> {
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
