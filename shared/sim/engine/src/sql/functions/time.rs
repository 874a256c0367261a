//! Functions on dates, times and intervals.

use super::{Function, arg};
use crate::error::{Result, SqlError};
use crate::sql::expr::Ctx;
use crate::types::Type;
use crate::value::datetime::{self, DAY_US};
use crate::value::{Interval, Numeric, Value};

const TS: Type = Type::TIMESTAMP;
const TZ: Type = Type::TIMESTAMPTZ;
const DATE: Type = Type::DATE;
const IV: Type = Type::INTERVAL;
const T: Type = Type::TEXT;
const N: Type = Type::NUMERIC;

/// The instant at which the transaction began, which is what `now()` means.
fn began(cx: &Ctx<'_>) -> Result<Value> {
    Ok(Value::Timestamp(cx.run()?.began_instant()))
}

/// The instant at which the statement began.
fn present(cx: &Ctx<'_>) -> Result<Value> {
    Ok(Value::Timestamp(cx.run()?.now_instant()))
}

fn moved(at: i64, span: Interval, sign: i64) -> Result<Value> {
    let signed = if sign < 0 { span.negated() } else { span };
    datetime::add_interval(at, signed).map(Value::Timestamp)
}

fn interval(days: i64, us: i64) -> Value {
    Value::Interval(Box::new(Interval {
        months: 0,
        days: i32::try_from(days).unwrap_or(i32::MAX),
        us,
    }))
}

fn scaled(span: Interval, factor: f64) -> Result<Value> {
    let overflow = || SqlError::new("22008", "interval out of range");
    let months = f64::from(span.months) * factor;
    let days = f64::from(span.days) * factor + months.fract() * 30.0;
    let us = span.us as f64 * factor + days.fract() * DAY_US as f64;
    if !months.is_finite() || months.abs() > 2e9 || days.abs() > 2e9 || us.abs() > 9e18 {
        return Err(overflow());
    }
    Ok(Value::Interval(Box::new(Interval {
        months: months.trunc() as i32,
        days: days.trunc() as i32,
        us: us.round() as i64,
    })))
}

fn seconds(us: impl Into<i128>) -> Value {
    // Six digits behind the point, as EXTRACT gives them.
    Numeric::new(us.into(), 6).map_or(Value::Null, Value::numeric)
}

fn whole(n: i64) -> Value {
    Value::numeric(Numeric::from_int(n))
}

fn unknown_field(field: &str, ty: &str) -> SqlError {
    SqlError::new(
        "22023",
        format!("unit \"{field}\" not recognized for type {ty}"),
    )
}

/// EXTRACT of an instant.
fn extract(field: &str, at: i64) -> Result<Value> {
    let days = at.div_euclid(DAY_US);
    let us = at.rem_euclid(DAY_US);
    let (year, month, day) = datetime::civil_from_days(days);
    // 2000-01-01 was a Saturday.
    let weekday = (days + 6).rem_euclid(7);
    Ok(match field.to_ascii_lowercase().as_str() {
        "epoch" => seconds(i128::from(at) + i128::from(datetime::EPOCH_DAYS * DAY_US)),
        "year" => whole(year),
        "month" => whole(month),
        "day" => whole(day),
        "hour" => whole(us / 3_600_000_000),
        "minute" => whole(us / 60_000_000 % 60),
        "second" => seconds(us % 60_000_000),
        "millisecond" | "milliseconds" => {
            Numeric::new(i128::from(us % 60_000_000), 3).map_or(Value::Null, Value::numeric)
        }
        "microsecond" | "microseconds" => whole(us % 60_000_000),
        "dow" => whole(weekday),
        "isodow" => whole((weekday + 6) % 7 + 1),
        "doy" => whole(days - datetime::days_from_civil(year, 1, 1) + 1),
        "quarter" => whole((month + 2) / 3),
        _ => return Err(unknown_field(field, "timestamp")),
    })
}

fn extract_interval(field: &str, span: Interval) -> Result<Value> {
    Ok(match field.to_ascii_lowercase().as_str() {
        // A year counts 365.25 days here, a month 30.
        "epoch" => {
            let years = i128::from(span.months / 12) * 31_557_600_000_000;
            let days = i128::from(span.months % 12) * 30 + i128::from(span.days);
            seconds(years + days * i128::from(DAY_US) + i128::from(span.us))
        }
        "year" => whole(i64::from(span.months / 12)),
        "month" => whole(i64::from(span.months % 12)),
        "day" => whole(i64::from(span.days)),
        "hour" => whole(span.us / 3_600_000_000),
        "minute" => whole(span.us / 60_000_000 % 60),
        "second" => seconds(span.us % 60_000_000),
        _ => return Err(unknown_field(field, "interval")),
    })
}

fn truncated(field: &str, at: i64) -> Result<Value> {
    let days = at.div_euclid(DAY_US);
    let us = at.rem_euclid(DAY_US);
    let (year, month, _) = datetime::civil_from_days(days);
    let first = |year, month| datetime::days_from_civil(year, month, 1) * DAY_US;
    Ok(Value::Timestamp(
        match field.to_ascii_lowercase().as_str() {
            "microseconds" => at,
            "milliseconds" => at - us % 1_000,
            "second" => at - us % 1_000_000,
            "minute" => at - us % 60_000_000,
            "hour" => at - us % 3_600_000_000,
            "day" => days * DAY_US,
            "week" => (days - (days + 5).rem_euclid(7)) * DAY_US,
            "month" => first(year, month),
            "quarter" => first(year, (month - 1) / 3 * 3 + 1),
            "year" => first(year, 1),
            _ => return Err(unknown_field(field, "timestamp")),
        },
    ))
}

const fn f(name: &'static str, args: &'static [Type], gives: Type, eval: super::Eval) -> Function {
    Function::new(name, args, gives, eval)
}

pub(super) static FUNCTIONS: &[Function] = &[
    f("now", &[], TZ, |cx, _| began(cx)),
    f("transaction_timestamp", &[], TZ, |cx, _| began(cx)),
    f("current_timestamp", &[], TZ, |cx, _| began(cx)),
    f("localtimestamp", &[], TS, |cx, _| began(cx)),
    f("statement_timestamp", &[], TZ, |cx, _| present(cx)),
    f("clock_timestamp", &[], TZ, |cx, _| present(cx)).volatile(),
    f("current_date", &[], DATE, |cx, _| {
        let days = cx.run()?.began_instant().div_euclid(DAY_US);
        Ok(Value::Date(i32::try_from(days).unwrap_or(i32::MAX)))
    }),
    f("to_timestamp", &[Type::FLOAT8], TZ, |_, a| {
        let us = arg!(a, 0, Float) * 1e6;
        if !us.is_finite() || us.abs() > 9e17 {
            return Err(SqlError::new("22008", "timestamp out of range"));
        }
        Ok(Value::Timestamp(
            us.round() as i64 - datetime::EPOCH_DAYS * DAY_US,
        ))
    }),
    f("make_interval", &[Type::INT4], IV, |_, _| {
        Err(SqlError::simulator("make_interval"))
    })
    .variadic(),
    f("extract", &[T, TS], N, |_, a| {
        extract(arg!(a, 0, Text), *arg!(a, 1, Timestamp))
    }),
    f("extract", &[T, TZ], N, |_, a| {
        extract(arg!(a, 0, Text), *arg!(a, 1, Timestamp))
    }),
    f("extract", &[T, IV], N, |_, a| {
        extract_interval(arg!(a, 0, Text), **arg!(a, 1, Interval))
    }),
    f("extract", &[T, DATE], N, |_, a| {
        extract(arg!(a, 0, Text), i64::from(*arg!(a, 1, Date)) * DAY_US)
    }),
    f("date_trunc", &[T, TZ], TZ, |_, a| {
        truncated(arg!(a, 0, Text), *arg!(a, 1, Timestamp))
    }),
    f("date_trunc", &[T, TS], TS, |_, a| {
        truncated(arg!(a, 0, Text), *arg!(a, 1, Timestamp))
    }),
    f("age", &[TZ, TZ], IV, |_, _| Err(SqlError::simulator("age"))),
    // Operators.
    f("timestamp+interval", &[TS, IV], TS, |_, a| {
        moved(*arg!(a, 0, Timestamp), **arg!(a, 1, Interval), 1)
    }),
    f("timestamp+interval", &[TZ, IV], TZ, |_, a| {
        moved(*arg!(a, 0, Timestamp), **arg!(a, 1, Interval), 1)
    }),
    f("timestamp-interval", &[TS, IV], TS, |_, a| {
        moved(*arg!(a, 0, Timestamp), **arg!(a, 1, Interval), -1)
    }),
    f("timestamp-interval", &[TZ, IV], TZ, |_, a| {
        moved(*arg!(a, 0, Timestamp), **arg!(a, 1, Interval), -1)
    }),
    f("timestamp-timestamp", &[TS, TS], IV, |_, a| {
        let us = arg!(a, 0, Timestamp).saturating_sub(*arg!(a, 1, Timestamp));
        Ok(interval(us / DAY_US, us % DAY_US))
    }),
    f("timestamp-timestamp", &[TZ, TZ], IV, |_, a| {
        let us = arg!(a, 0, Timestamp).saturating_sub(*arg!(a, 1, Timestamp));
        Ok(interval(us / DAY_US, us % DAY_US))
    }),
    f("date+days", &[DATE, Type::INT4], DATE, |_, a| {
        let days = i64::from(*arg!(a, 0, Date)).saturating_add(*arg!(a, 1, Int));
        i32::try_from(days)
            .ok()
            .filter(|days| datetime::is_instant(i64::from(*days).saturating_mul(DAY_US)))
            .map(Value::Date)
            .ok_or_else(|| SqlError::new("22008", "date out of range"))
    }),
    f("date-date", &[DATE, DATE], Type::INT4, |_, a| {
        Ok(Value::Int(
            i64::from(*arg!(a, 0, Date)) - i64::from(*arg!(a, 1, Date)),
        ))
    }),
    f("interval+interval", &[IV, IV], IV, |_, a| {
        let (a, b) = (**arg!(a, 0, Interval), **arg!(a, 1, Interval));
        let sum = || {
            Some(Interval {
                months: a.months.checked_add(b.months)?,
                days: a.days.checked_add(b.days)?,
                us: a.us.checked_add(b.us)?,
            })
        };
        sum()
            .map(|span| Value::Interval(Box::new(span)))
            .ok_or_else(|| SqlError::new("22008", "interval out of range"))
    }),
    f("interval*number", &[IV, Type::FLOAT8], IV, |_, a| {
        scaled(**arg!(a, 0, Interval), *arg!(a, 1, Float))
    }),
    f("interval/number", &[IV, Type::FLOAT8], IV, |_, a| {
        let divisor = *arg!(a, 1, Float);
        if divisor == 0.0 {
            return Err(SqlError::new("22012", "division by zero"));
        }
        scaled(**arg!(a, 0, Interval), 1.0 / divisor)
    }),
    f("neg", &[IV], IV, |_, a| {
        scaled(**arg!(a, 0, Interval), -1.0)
    }),
];
