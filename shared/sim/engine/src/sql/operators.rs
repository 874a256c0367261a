//! Operators: which types they take, and what they are computed by.

use sqlparser::ast::{BinaryOperator, UnaryOperator};

use super::bind::{Binder, Typed, negate};
use super::cast::{self, Context};
use super::expr::{Arithmetic, Class, Comparison, Expr};
use crate::error::{Result, SqlError};
use crate::types::Type;

/// 42883 for an operator.
pub(crate) fn no_operator(symbol: &str, left: Type, right: Type) -> SqlError {
    SqlError::new(
        "42883",
        format!(
            "operator does not exist: {} {symbol} {}",
            left.display(),
            right.display()
        ),
    )
    .hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
}

/// The comparison that an operator is, if it is one.
pub(crate) fn comparison(op: &BinaryOperator) -> Option<Comparison> {
    Some(match op {
        BinaryOperator::Eq => Comparison::Eq,
        BinaryOperator::NotEq => Comparison::Ne,
        BinaryOperator::Lt => Comparison::Lt,
        BinaryOperator::LtEq => Comparison::Le,
        BinaryOperator::Gt => Comparison::Gt,
        BinaryOperator::GtEq => Comparison::Ge,
        BinaryOperator::PGCustomBinaryOperator(parts) => match parts.last()?.as_str() {
            "=" => Comparison::Eq,
            "<>" | "!=" => Comparison::Ne,
            "<" => Comparison::Lt,
            "<=" => Comparison::Le,
            ">" => Comparison::Gt,
            ">=" => Comparison::Ge,
            _ => return None,
        },
        _ => return None,
    })
}

/// Both sides in one type in which they can be compared.
pub(crate) fn comparable(
    binder: &Binder<'_>,
    symbol: &str,
    left: Typed,
    right: Typed,
) -> Result<(Expr, Expr)> {
    let (lt, rt) = (left.ty, right.ty);
    if let (Expr::Row(a), Expr::Row(b)) = (&left.expr, &right.expr) {
        if a.len() != b.len() {
            return Err(SqlError::new(
                "42601",
                "unequal number of entries in row expressions",
            ));
        }
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        for ((at, a), (bt, b)) in a.iter().zip(b) {
            let a = Typed::new(a.clone(), *at);
            let b = Typed::new(b.clone(), *bt);
            let ty = if at.is_unknown() { *bt } else { *at };
            let (a, b) = comparable(binder, symbol, a, b)?;
            lefts.push((ty, a));
            rights.push((ty, b));
        }
        return Ok((Expr::Row(lefts), Expr::Row(rights)));
    }
    let common = if lt.is_unknown() && rt.is_unknown() {
        Type::TEXT
    } else if lt.is_unknown() {
        rt
    } else if rt.is_unknown() || lt.is(rt) {
        lt
    } else if lt.is_number() && rt.is_number() {
        number_type(lt, rt)
    } else if cast::allowed(lt, rt, Context::Implicit) {
        rt
    } else if cast::allowed(rt, lt, Context::Implicit) {
        lt
    } else {
        return Err(no_operator(symbol, lt, rt));
    };
    if common.is(Type::JSON) {
        return Err(no_operator(symbol, common, common));
    }
    // varchar is compared as text, which has the operators.
    let common = if common.is(Type::VARCHAR) {
        Type::TEXT
    } else {
        common.plain()
    };
    Ok((
        binder.coerce(left, common, Context::Implicit)?,
        binder.coerce(right, common, Context::Implicit)?,
    ))
}

/// The type in which two numbers meet.
fn number_type(a: Type, b: Type) -> Type {
    if a.is_float() || b.is_float() {
        return if a.is(b) { a } else { Type::FLOAT8 };
    }
    if a.rank() >= b.rank() { a } else { b }
}

pub(crate) fn compare(
    binder: &Binder<'_>,
    op: Comparison,
    left: Typed,
    right: Typed,
) -> Result<Expr> {
    let (left, right) = comparable(binder, op.symbol(), left, right)?;
    Ok(Expr::Compare {
        op,
        left: left.boxed(),
        right: right.boxed(),
    })
}

/// Binds a binary operator.
pub(crate) fn binary(
    binder: &Binder<'_>,
    op: &BinaryOperator,
    left: Typed,
    right: Typed,
) -> Result<Typed> {
    if let Some(comparison) = comparison(op) {
        return Ok(Typed::bool(compare(binder, comparison, left, right)?));
    }
    let name = match op {
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        other => other.to_string(),
    };
    let symbol = name.as_str();
    match symbol {
        "+" | "-" | "*" | "/" | "%" => arithmetic(binder, symbol, left, right),
        "||" => concatenation(binder, left, right),
        "~" => pattern(binder, "textregexeq", false, left, right),
        "!~" => pattern(binder, "textregexeq", true, left, right),
        "~*" => pattern(binder, "texticregexeq", false, left, right),
        "!~*" => pattern(binder, "texticregexeq", true, left, right),
        "~~" => pattern(binder, "like", false, left, right),
        "!~~" => pattern(binder, "like", true, left, right),
        "~~*" => pattern(binder, "texticlike", false, left, right),
        "!~~*" => pattern(binder, "texticlike", true, left, right),
        "^@" => binder.call("starts_with", vec![left, right]),
        "^" => power(binder, left, right),
        "&" => bits(binder, symbol, "bitand", left, right),
        "|" => bits(binder, symbol, "bitor", left, right),
        "#" => bits(binder, symbol, "bitxor", left, right),
        "<<" => bits(binder, symbol, "shiftleft", left, right),
        ">>" => bits(binder, symbol, "shiftright", left, right),
        "->" | "->>" if left.ty.is(Type::JSON) || left.ty.is(Type::JSONB) => {
            let wanted = if right.ty.is_int() {
                Type::INT4
            } else {
                Type::TEXT
            };
            let key = Typed::new(binder.coerce(right, wanted, Context::Implicit)?, wanted);
            binder.call(
                if symbol == "->" {
                    "json_get"
                } else {
                    "json_get_text"
                },
                vec![left, key],
            )
        }
        "@@" if left.ty.is_unknown() || right.ty.is_unknown() => {
            Err(SqlError::simulator("full text search"))
        }
        "->" | "->>" | "@>" | "<@" | "&&" | "?" | "?|" | "?&" | "#>" | "#>>" | "@@" | "@?"
        | "#-" => Err(SqlError::simulator(format!(
            "the operator {} {symbol} {}",
            left.ty.display(),
            right.ty.display()
        ))),
        _ => Err(no_operator(symbol, left.ty, right.ty)),
    }
}

fn pattern(
    binder: &Binder<'_>,
    function: &str,
    negated: bool,
    left: Typed,
    right: Typed,
) -> Result<Typed> {
    let matched = binder.call(function, vec![left, right])?;
    Ok(Typed::bool(negate(matched.expr, negated)))
}

fn bits(
    binder: &Binder<'_>,
    symbol: &str,
    function: &str,
    left: Typed,
    right: Typed,
) -> Result<Typed> {
    let (lt, rt) = (left.ty, right.ty);
    binder
        .call(function, vec![left, right])
        .map_err(|_| no_operator(symbol, lt, rt))
}

fn power(binder: &Binder<'_>, left: Typed, right: Typed) -> Result<Typed> {
    let exact = left.ty.is(Type::NUMERIC) || right.ty.is(Type::NUMERIC);
    let ty = if exact && !left.ty.is_float() && !right.ty.is_float() {
        Type::NUMERIC
    } else {
        Type::FLOAT8
    };
    let args = [left, right]
        .into_iter()
        .map(|side| Ok(Typed::new(binder.coerce(side, ty, Context::Implicit)?, ty)))
        .collect::<Result<Vec<Typed>>>()?;
    binder.call("power", args)
}

fn class(ty: Type) -> Option<Class> {
    Some(match ty.oid {
        21 => Class::Int2,
        23 => Class::Int4,
        20 => Class::Int8,
        1700 => Class::Numeric,
        700 => Class::Float4,
        701 => Class::Float8,
        _ => return None,
    })
}

fn arithmetic(binder: &Binder<'_>, symbol: &str, left: Typed, right: Typed) -> Result<Typed> {
    let (lt, rt) = (left.ty, right.ty);
    if lt.is_unknown() && rt.is_unknown() {
        return Err(SqlError::new(
            "42725",
            format!("operator is not unique: unknown {symbol} unknown"),
        )
        .hint("Could not choose a best candidate operator. You might need to add explicit type casts."));
    }
    let common = match (
        lt.is_number() || lt.is_unknown(),
        rt.is_number() || rt.is_unknown(),
    ) {
        (true, true) if lt.is_unknown() => rt,
        (true, true) if rt.is_unknown() => lt,
        (true, true) => number_type(lt, rt),
        _ => return temporal(binder, symbol, left, right),
    };
    let Some(class) = class(common) else {
        return temporal(binder, symbol, left, right);
    };
    if symbol == "%" && common.is_float() {
        return Err(no_operator(symbol, lt, rt));
    }
    let op = match symbol {
        "+" => Arithmetic::Add,
        "-" => Arithmetic::Sub,
        "*" => Arithmetic::Mul,
        "/" => Arithmetic::Div,
        _ => Arithmetic::Rem,
    };
    let common = common.plain();
    Ok(Typed::new(
        Expr::Arithmetic {
            op,
            class,
            left: binder.coerce(left, common, Context::Implicit)?.boxed(),
            right: binder.coerce(right, common, Context::Implicit)?.boxed(),
        },
        common,
    ))
}

/// Arithmetic with dates, instants and intervals.
fn temporal(binder: &Binder<'_>, symbol: &str, left: Typed, right: Typed) -> Result<Typed> {
    let instant = |ty: Type| ty.is(Type::TIMESTAMP) || ty.is(Type::TIMESTAMPTZ);
    let is_interval = |ty: Type| ty.is(Type::INTERVAL);
    let (mut left, mut right) = (left, right);
    // What can stand in any order is put into one.
    let swap = (symbol == "+"
        && (is_interval(left.ty) && (instant(right.ty) || right.ty.is(Type::DATE))
            || left.ty.is_int() && right.ty.is(Type::DATE)))
        || (symbol == "*" && left.ty.is_number() && is_interval(right.ty));
    if swap {
        std::mem::swap(&mut left, &mut right);
    }
    let (lt, rt) = (left.ty, right.ty);
    let as_type = |side: &mut Typed, ty: Type| -> Result<()> {
        let old = std::mem::replace(side, Typed::new(Expr::null(), ty));
        side.expr = binder.coerce(old, ty, Context::Implicit)?;
        Ok(())
    };
    let function = match symbol {
        "+" | "-" if lt.is(Type::DATE) && (is_interval(rt)) => {
            as_type(&mut left, Type::TIMESTAMP)?;
            if symbol == "+" {
                "timestamp+interval"
            } else {
                "timestamp-interval"
            }
        }
        "+" if lt.is(Type::DATE) && (rt.is_int() || rt.is_unknown()) => {
            as_type(&mut right, Type::INT4)?;
            "date+days"
        }
        "-" if lt.is(Type::DATE) && rt.is_int() => {
            right = binder.call("neg", vec![right])?;
            "date+days"
        }
        "-" if lt.is(Type::DATE) && (rt.is(Type::DATE) || rt.is_unknown()) => {
            as_type(&mut right, Type::DATE)?;
            "date-date"
        }
        "+" if instant(lt) && (is_interval(rt) || rt.is_unknown()) => {
            as_type(&mut right, Type::INTERVAL)?;
            "timestamp+interval"
        }
        "-" if instant(lt) && is_interval(rt) => "timestamp-interval",
        "-" if instant(lt) || instant(rt) => {
            let zoned = lt.is(Type::TIMESTAMPTZ) || rt.is(Type::TIMESTAMPTZ);
            let ty = if zoned {
                Type::TIMESTAMPTZ
            } else {
                Type::TIMESTAMP
            };
            as_type(&mut left, ty)
                .and_then(|()| as_type(&mut right, ty))
                .map_err(|_| no_operator(symbol, lt, rt))?;
            "timestamp-timestamp"
        }
        "+" if is_interval(lt) && (is_interval(rt) || rt.is_unknown()) => {
            as_type(&mut right, Type::INTERVAL)?;
            "interval+interval"
        }
        "-" if is_interval(lt) && (is_interval(rt) || rt.is_unknown()) => {
            as_type(&mut right, Type::INTERVAL)?;
            right = binder.call("neg", vec![right])?;
            "interval+interval"
        }
        "*" | "/" if is_interval(lt) && (rt.is_number() || rt.is_unknown()) => {
            as_type(&mut right, Type::FLOAT8)?;
            if symbol == "*" {
                "interval*number"
            } else {
                "interval/number"
            }
        }
        _ => return Err(no_operator(symbol, lt, rt)),
    };
    binder.call(function, vec![left, right])
}

fn concatenation(binder: &Binder<'_>, left: Typed, right: Typed) -> Result<Typed> {
    let (lt, rt) = (left.ty, right.ty);
    if lt.is(Type::BYTEA) && (rt.is(Type::BYTEA) || rt.is_unknown())
        || rt.is(Type::BYTEA) && lt.is_unknown()
    {
        return binder.call("byteacat", vec![left, right]);
    }
    match (lt.element(), rt.element()) {
        (Some(_), Some(_)) => return binder.call("array_cat", vec![left, right]),
        (Some(_), None) if rt.is_unknown() => {
            let right = Typed::new(binder.coerce(right, lt, Context::Implicit)?, lt);
            return binder.call("array_cat", vec![left, right]);
        }
        (Some(_), None) => return binder.call("array_append", vec![left, right]),
        _ => {}
    }
    if lt.is(Type::JSONB) && rt.is(Type::JSONB) {
        return Err(SqlError::simulator("the operator jsonb || jsonb"));
    }
    let text = |ty: Type| ty.is_text() || ty.is_unknown();
    if !text(lt) && !text(rt) {
        return Err(no_operator("||", lt, rt));
    }
    let args = [left, right]
        .into_iter()
        .map(|side| {
            Ok(Typed::new(
                binder.coerce(side, Type::TEXT, Context::Explicit)?,
                Type::TEXT,
            ))
        })
        .collect::<Result<Vec<Typed>>>()?;
    binder.call("textcat", args)
}

/// Binds a unary operator.
pub(crate) fn unary(binder: &Binder<'_>, op: &UnaryOperator, operand: Typed) -> Result<Typed> {
    let ty = operand.ty;
    let failed = |_| {
        SqlError::new(
            "42883",
            format!("operator does not exist: {op} {}", ty.display()),
        )
    };
    match op {
        UnaryOperator::Plus if ty.is_number() => Ok(operand),
        UnaryOperator::Minus if ty.is_unknown() => Err(SqlError::new(
            "42725",
            "operator is not unique: - unknown",
        )
        .hint("Could not choose a best candidate operator. You might need to add explicit type casts.")),
        UnaryOperator::Minus => binder.call("neg", vec![operand]).map_err(failed),
        UnaryOperator::BitwiseNot => {
            let mut not = binder.call("bitnot", vec![operand]).map_err(failed)?;
            not.ty = ty;
            Ok(not)
        }
        UnaryOperator::PGAbs => binder.call("abs", vec![operand]).map_err(failed),
        UnaryOperator::PGSquareRoot => binder.call("sqrt", vec![operand]).map_err(failed),
        _ => Err(SqlError::simulator(format!("the operator {op}"))),
    }
}
