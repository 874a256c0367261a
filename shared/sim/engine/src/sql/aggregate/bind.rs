//! Binding aggregates and window functions.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::bind::{Binder, Place, Typed};
use crate::sql::cast::Context;
use crate::sql::expr::Expr;
use crate::sql::plan::SortKey;
use crate::types::Type;
use sqlparser::ast;

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

pub(super) fn undefined(name: &str, args: &[Typed]) -> SqlError {
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

pub(super) fn bind_call(
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
                _ => {
                    return Err(SqlError::simulator(format!(
                        "this form of arguments of {name}"
                    )));
                }
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
            let to = if i == 0 || to.is_text() || to.is(Type::BYTEA) {
                to
            } else {
                arg.ty
            };
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
pub(super) fn choose(name: &str, args: &[Typed], star: bool) -> Result<(Kind, Type, Type)> {
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
            let ty = if ty.is_float() {
                Type::FLOAT8
            } else {
                Type::NUMERIC
            };
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
