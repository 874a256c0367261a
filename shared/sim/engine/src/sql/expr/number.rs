//! Arithmetic.

use super::*;
use crate::error::{Result, SqlError};
use crate::value::{Numeric, Value};

pub(super) fn division_by_zero() -> SqlError {
    SqlError::new("22012", "division by zero")
}

pub(super) fn integer(op: Arithmetic, a: i64, b: i64, class: Class) -> Result<Value> {
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

pub(super) fn exact(op: Arithmetic, a: Numeric, b: Numeric) -> Result<Value> {
    match op {
        Arithmetic::Add => a.add(b),
        Arithmetic::Sub => a.sub(b),
        Arithmetic::Mul => a.mul(b),
        Arithmetic::Div => a.div(b),
        Arithmetic::Rem => a.rem(b),
    }
    .map(Value::numeric)
}

pub(super) fn float(op: Arithmetic, a: f64, b: f64, class: Class) -> Result<Value> {
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
