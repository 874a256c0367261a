//! Functions on numbers.

use super::{Function, Gives, arg};
use crate::error::{Result, SqlError};
use crate::types::Type;
use crate::value::{Numeric, Value};

const D: Type = Type::FLOAT8;
const N: Type = Type::NUMERIC;
const I2: Type = Type::INT2;
const I4: Type = Type::INT4;
const I8: Type = Type::INT8;

fn absolute(n: i64, bound: i64, name: &str) -> Result<Value> {
    n.checked_abs()
        .filter(|n| *n <= bound)
        .map(Value::Int)
        .ok_or_else(|| SqlError::out_of_range(name))
}

fn modulo(a: i64, b: i64) -> Result<Value> {
    if b == 0 {
        return Err(SqlError::new("22012", "division by zero"));
    }
    Ok(Value::Int(a.wrapping_rem(b)))
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(i64::MAX)
}

/// `round(n, digits)`: negative digits round before the point.
fn round_to(number: Numeric, digits: i64, cut: bool) -> Result<Value> {
    let change = |number: Numeric, scale: u32| {
        if cut {
            number.truncate(scale)
        } else {
            number.rescale(scale)
        }
    };
    if digits >= 0 {
        let scale = u32::try_from(digits).unwrap_or(u32::MAX).min(38);
        return Ok(Value::numeric(change(number, scale)?));
    }
    let zeros = u32::try_from(digits.saturating_neg())
        .unwrap_or(u32::MAX)
        .min(38);
    if zeros >= 38 {
        return Ok(Value::numeric(Numeric::ZERO));
    }
    let unit = Numeric::new(10i128.pow(zeros), 0)?;
    let small = Numeric::new(1, zeros)?;
    let moved = change(number.mul(small)?, 0)?;
    Ok(Value::numeric(moved.mul(unit)?))
}

fn negate(n: i64, low: i64, name: &str) -> Result<Value> {
    if n == low {
        return Err(SqlError::out_of_range(name));
    }
    Ok(Value::Int(-n))
}

fn positive(f: f64, what: &str) -> Result<f64> {
    if f == 0.0 {
        return Err(SqlError::new("2201E", "cannot take logarithm of zero"));
    }
    if f < 0.0 {
        return Err(SqlError::new(
            "2201E",
            format!("cannot take {what} of a negative number"),
        ));
    }
    Ok(f)
}

fn power(a: f64, b: f64) -> Result<f64> {
    if a == 0.0 && b < 0.0 {
        return Err(SqlError::new(
            "2201F",
            "zero raised to a negative power is undefined",
        ));
    }
    if a < 0.0 && b.fract() != 0.0 {
        return Err(SqlError::new(
            "2201F",
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    let result = a.powf(b);
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(SqlError::new("22003", "value out of range: overflow"));
    }
    Ok(result)
}

/// A whole power of an exact number stays exact.
fn power_exact(base: Numeric, exponent: Numeric) -> Result<Value> {
    if let (0, Some(times @ 0..=126)) = (exponent.trimmed().scale(), exponent.to_int()) {
        let mut result = Numeric::from_int(1);
        for _ in 0..times {
            result = result.mul(base)?;
        }
        return Ok(Value::numeric(result.trimmed().rescale(16)?));
    }
    // Its last digits would be other ones than PostgreSQL's.
    Err(SqlError::simulator(
        "a fractional or large power of a numeric",
    ))
}

fn root(f: f64) -> Result<f64> {
    if f < 0.0 {
        return Err(SqlError::new(
            "2201F",
            "cannot take square root of a negative number",
        ));
    }
    Ok(f.sqrt())
}

const fn f(name: &'static str, args: &'static [Type], gives: Type, eval: super::Eval) -> Function {
    Function::new(name, args, gives, eval)
}

pub(super) static FUNCTIONS: &[Function] = &[
    f("abs", &[I4], I4, |_, a| {
        absolute(*arg!(a, 0, Int), i32::MAX.into(), "integer")
    }),
    f("abs", &[I8], I8, |_, a| {
        absolute(*arg!(a, 0, Int), i64::MAX, "bigint")
    }),
    f("abs", &[I2], I2, |_, a| {
        absolute(*arg!(a, 0, Int), i16::MAX.into(), "smallint")
    }),
    f("abs", &[N], N, |_, a| {
        let n = **arg!(a, 0, Numeric);
        Ok(Value::numeric(if n < Numeric::ZERO {
            n.negate()
        } else {
            n
        }))
    }),
    f("abs", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).abs()))
    }),
    f("mod", &[I4, I4], I4, |_, a| {
        modulo(*arg!(a, 0, Int), *arg!(a, 1, Int))
    }),
    f("mod", &[I8, I8], I8, |_, a| {
        modulo(*arg!(a, 0, Int), *arg!(a, 1, Int))
    }),
    f("mod", &[N, N], N, |_, a| {
        arg!(a, 0, Numeric)
            .rem(**arg!(a, 1, Numeric))
            .map(Value::numeric)
    }),
    f("div", &[N, N], N, |_, a| {
        let quotient = arg!(a, 0, Numeric).div(**arg!(a, 1, Numeric))?;
        quotient.truncate(0).map(Value::numeric)
    }),
    f("gcd", &[I8, I8], I8, |_, a| {
        Ok(Value::Int(gcd(*arg!(a, 0, Int), *arg!(a, 1, Int))))
    }),
    f("floor", &[N], N, |_, a| {
        arg!(a, 0, Numeric).floor().map(Value::numeric)
    }),
    f("floor", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).floor()))
    }),
    f("ceil", &[N], N, |_, a| {
        Ok(Value::numeric(
            arg!(a, 0, Numeric).negate().floor()?.negate(),
        ))
    }),
    f("ceil", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).ceil()))
    }),
    f("ceiling", &[N], N, |_, a| {
        Ok(Value::numeric(
            arg!(a, 0, Numeric).negate().floor()?.negate(),
        ))
    }),
    f("ceiling", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).ceil()))
    }),
    f("round", &[N], N, |_, a| {
        arg!(a, 0, Numeric).rescale(0).map(Value::numeric)
    }),
    f("round", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).round_ties_even()))
    }),
    f("round", &[N, I4], N, |_, a| {
        round_to(**arg!(a, 0, Numeric), *arg!(a, 1, Int), false)
    }),
    f("trunc", &[N], N, |_, a| {
        arg!(a, 0, Numeric).truncate(0).map(Value::numeric)
    }),
    f("trunc", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).trunc()))
    }),
    f("trunc", &[N, I4], N, |_, a| {
        round_to(**arg!(a, 0, Numeric), *arg!(a, 1, Int), true)
    }),
    f("sign", &[N], N, |_, a| {
        let n = **arg!(a, 0, Numeric);
        let sign = n.cmp(&Numeric::ZERO) as i64;
        Ok(Value::numeric(Numeric::from_int(sign)))
    }),
    f("sign", &[D], D, |_, a| {
        let f = *arg!(a, 0, Float);
        Ok(Value::Float(if f == 0.0 { 0.0 } else { f.signum() }))
    }),
    f("sqrt", &[D], D, |_, a| {
        root(*arg!(a, 0, Float)).map(Value::Float)
    }),
    f("sqrt", &[N], N, |_, a| {
        arg!(a, 0, Numeric).sqrt(None).map(Value::numeric)
    }),
    f("cbrt", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).cbrt()))
    }),
    f("exp", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).exp()))
    }),
    f("ln", &[D], D, |_, a| {
        Ok(Value::Float(
            positive(*arg!(a, 0, Float), "logarithm")?.ln(),
        ))
    }),
    f("log", &[D], D, |_, a| {
        Ok(Value::Float(
            positive(*arg!(a, 0, Float), "logarithm")?.log10(),
        ))
    }),
    f("log10", &[D], D, |_, a| {
        Ok(Value::Float(
            positive(*arg!(a, 0, Float), "logarithm")?.log10(),
        ))
    }),
    f("power", &[D, D], D, |_, a| {
        power(*arg!(a, 0, Float), *arg!(a, 1, Float)).map(Value::Float)
    }),
    f("power", &[N, N], N, |_, a| {
        power_exact(**arg!(a, 0, Numeric), **arg!(a, 1, Numeric))
    }),
    f("pow", &[D, D], D, |_, a| {
        power(*arg!(a, 0, Float), *arg!(a, 1, Float)).map(Value::Float)
    }),
    f("pi", &[], D, |_, _| Ok(Value::Float(std::f64::consts::PI))),
    f("sin", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).sin()))
    }),
    f("cos", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).cos()))
    }),
    f("tan", &[D], D, |_, a| {
        Ok(Value::Float(arg!(a, 0, Float).tan()))
    }),
    f("random", &[], D, |cx, _| {
        Ok(Value::Float(cx.run()?.random()))
    })
    .volatile(),
    f("setseed", &[D], Type::VOID, |_, _| {
        Err(SqlError::simulator("setseed"))
    }),
    // Operators.
    f("neg", &[I4], I4, |_, a| {
        negate(*arg!(a, 0, Int), i32::MIN.into(), "integer")
    }),
    f("neg", &[I8], I8, |_, a| {
        negate(*arg!(a, 0, Int), i64::MIN, "bigint")
    }),
    f("neg", &[I2], I2, |_, a| {
        negate(*arg!(a, 0, Int), i16::MIN.into(), "smallint")
    }),
    f("neg", &[N], N, |_, a| {
        Ok(Value::numeric(arg!(a, 0, Numeric).negate()))
    }),
    f("neg", &[D], D, |_, a| Ok(Value::Float(-*arg!(a, 0, Float)))),
    f("neg", &[Type::FLOAT4], Type::FLOAT4, |_, a| {
        Ok(Value::Float(-*arg!(a, 0, Float)))
    }),
    f("bitand", &[I8, I8], I8, |_, a| {
        Ok(Value::Int(arg!(a, 0, Int) & arg!(a, 1, Int)))
    }),
    f("bitand", &[I4, I4], I4, |_, a| {
        Ok(Value::Int(arg!(a, 0, Int) & arg!(a, 1, Int)))
    }),
    f("bitor", &[I8, I8], I8, |_, a| {
        Ok(Value::Int(arg!(a, 0, Int) | arg!(a, 1, Int)))
    }),
    f("bitor", &[I4, I4], I4, |_, a| {
        Ok(Value::Int(arg!(a, 0, Int) | arg!(a, 1, Int)))
    }),
    f("bitxor", &[I8, I8], I8, |_, a| {
        Ok(Value::Int(arg!(a, 0, Int) ^ arg!(a, 1, Int)))
    }),
    f("bitxor", &[I4, I4], I4, |_, a| {
        Ok(Value::Int(arg!(a, 0, Int) ^ arg!(a, 1, Int)))
    }),
    f("bitnot", &[I8], I8, |_, a| {
        Ok(Value::Int(!*arg!(a, 0, Int)))
    })
    .gives(Gives::Same(0)),
    f("shiftleft", &[I8, I4], I8, |_, a| {
        Ok(Value::Int(
            arg!(a, 0, Int).wrapping_shl(*arg!(a, 1, Int) as u32),
        ))
    }),
    f("shiftleft", &[I4, I4], I4, |_, a| {
        Ok(Value::Int(i64::from(
            (*arg!(a, 0, Int) as i32).wrapping_shl(*arg!(a, 1, Int) as u32),
        )))
    }),
    f("shiftright", &[I8, I4], I8, |_, a| {
        Ok(Value::Int(
            arg!(a, 0, Int).wrapping_shr(*arg!(a, 1, Int) as u32),
        ))
    }),
    f("shiftright", &[I4, I4], I4, |_, a| {
        Ok(Value::Int(i64::from(
            (*arg!(a, 0, Int) as i32).wrapping_shr(*arg!(a, 1, Int) as u32),
        )))
    }),
];
