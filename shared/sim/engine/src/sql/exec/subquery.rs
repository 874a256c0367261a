//! Subqueries within expressions.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::expr::{self, Comparison, Ctx, Outer, Subquery, SubqueryKind};
use crate::value::Value;
use std::rc::Rc;

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

pub(super) fn any_row(op: Comparison, all: bool, values: &[Value], rows: &[Vec<Value>]) -> Value {
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
