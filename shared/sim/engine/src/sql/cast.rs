//! Conversions: which types turn into which, when, and how.

use super::expr::Ctx;
use crate::catalog::Relation;
use crate::error::{Result, SqlError};
use crate::types::Type;
use crate::value::{Numeric, Value, datetime, json, text};

/// Who asks for a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Context {
    /// An operator or a function: only what can lose nothing.
    Implicit,
    /// A value for a column.
    Assignment,
    /// CAST or `::`.
    Explicit,
}

/// Whether a value of one type becomes one of the other in this context.
pub(crate) fn allowed(from: Type, to: Type, context: Context) -> bool {
    if from.is(to) || from.is_unknown() {
        return true;
    }
    if let (Some(from), Some(to)) = (from.element(), to.element()) {
        return allowed(from, to, context);
    }
    let needed = if from.is_number() && to.is_number() {
        if from.rank() < to.rank() {
            Context::Implicit
        } else {
            Context::Assignment
        }
    } else if from.is_text() && to.is_text() {
        Context::Implicit
    } else if from.is_datetime() && to.is_datetime() {
        let step = |ty: Type| match ty.oid {
            1082 => 0,
            1114 => 1,
            _ => 2,
        };
        if step(from) < step(to) {
            Context::Implicit
        } else {
            Context::Assignment
        }
    } else {
        match (from.oid, to.oid) {
            (20 | 21 | 23, _) if to.is_oid() => Context::Implicit,
            (_, 20) if from.is_oid() => Context::Assignment,
            (_, 23) if from.is_oid() => Context::Assignment,
            (_, 26) if from.is_oid() => Context::Implicit,
            (26, _) if to.is_oid() => Context::Implicit,
            (25 | 1043, 2205) => Context::Implicit,
            (1083, 1266) | (1083, 1186) => Context::Implicit,
            (1266, 1083) | (1114 | 1184, 1083) | (1184, 1266) | (1186, 1083) => Context::Assignment,
            (114, 3802) | (3802, 114) => Context::Assignment,
            (16, 23) | (23, 16) => Context::Explicit,
            // Through the text form.
            (_, 25 | 1042 | 1043) => Context::Assignment,
            (25 | 1042 | 1043 | 19, _) => Context::Explicit,
            (3802, 16 | 20 | 21 | 23 | 700 | 701 | 1700) => Context::Explicit,
            _ => return false,
        }
    };
    context >= needed
}

/// Converts a value. NULL stays NULL.
pub(crate) fn cast(
    value: &Value,
    from: Type,
    to: Type,
    explicit: bool,
    cx: &Ctx<'_>,
) -> Result<Value> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    if let (Value::Array(array), Some(element)) = (value, to.element()) {
        let items: Result<Vec<Value>> = array
            .items
            .iter()
            .map(|item| cast(item, array.element, element, explicit, cx))
            .collect();
        return Ok(Value::array(element, items?));
    }
    let converted = match (to.oid, value) {
        _ if to.is_text() => match value {
            Value::Text(_) if !to.is(Type::BPCHAR) => value.clone(),
            Value::Bool(b) => Value::text(if *b { "true" } else { "false" }),
            _ if from.is_oid() && !from.is(Type::OID) => Value::text(reg_name(value, from, cx)?),
            _ => {
                let plain = text::to_text(value, from);
                let trimmed = if to.is(Type::BPCHAR) {
                    plain.trim_end_matches(' ')
                } else {
                    &plain
                };
                Value::text(trimmed)
            }
        },
        _ if to.is_oid() => match value {
            Value::Text(name) => reg_value(name, to, cx)?,
            Value::Int(n) if u32::try_from(*n).is_err() && i32::try_from(*n).is_err() => {
                return Err(SqlError::out_of_range("OID"));
            }
            Value::Int(n) => Value::Int(*n & 0xffff_ffff),
            _ => return Err(impossible(from, to)),
        },
        (3802, Value::Text(document)) if from.is(Type::JSON) => {
            Value::text(json::parse(document, "jsonb")?.canonical())
        }
        (114, Value::Text(_)) if from.is(Type::JSONB) => value.clone(),
        (_, Value::Text(document)) if from.is(Type::JSONB) => {
            return text::parse(to, document).map_err(|_| {
                SqlError::new(
                    "22023",
                    format!("cannot cast jsonb to type {}", to.display()),
                )
            });
        }
        (_, Value::Text(source)) => return text::parse(to, source),
        (16, Value::Int(n)) => Value::Bool(*n != 0),
        (16, Value::Bool(_)) => value.clone(),
        (20 | 21 | 23, _) => to_integer(value, to).ok_or_else(|| match value {
            Value::Int(_) | Value::Float(_) | Value::Numeric(_) => {
                SqlError::out_of_range(&to.display())
            }
            _ => impossible(from, to),
        })?,
        (700, Value::Float(f)) => {
            let single = *f as f32;
            if single.is_infinite() && f.is_finite() {
                return Err(SqlError::new("22003", "value out of range: overflow"));
            }
            Value::Float(f64::from(single))
        }
        (700, Value::Int(n)) => Value::Float(f64::from(*n as f32)),
        (700, Value::Numeric(n)) => Value::Float(f64::from(n.to_f64() as f32)),
        (701, Value::Float(_)) => value.clone(),
        (701, Value::Int(n)) => Value::Float(*n as f64),
        (701, Value::Numeric(n)) => Value::Float(n.to_f64()),
        (1700, Value::Int(n)) => Value::numeric(Numeric::from_int(*n)),
        (1700, Value::Float(f)) => Value::numeric(Numeric::from_f64(*f)?),
        (1082, Value::Timestamp(at)) => {
            Value::Date(i32::try_from(at.div_euclid(datetime::DAY_US)).unwrap_or(i32::MAX))
        }
        (1114 | 1184, Value::Date(days)) => Value::Timestamp(i64::from(*days) * datetime::DAY_US),
        (1083, Value::Timestamp(at)) => Value::Time(at.rem_euclid(datetime::DAY_US)),
        (1083, Value::TimeTz(time)) => Value::Time(time.0),
        (1083, Value::Interval(span)) => Value::Time(span.us.rem_euclid(datetime::DAY_US)),
        (1266, Value::Time(us)) => Value::TimeTz(Box::new((*us, 0))),
        (1266, Value::Timestamp(at)) => {
            Value::TimeTz(Box::new((at.rem_euclid(datetime::DAY_US), 0)))
        }
        (1186, Value::Time(us)) => Value::Interval(Box::new(crate::value::Interval {
            us: *us,
            ..Default::default()
        })),
        _ if from.is(to) || same_representation(from, to) => value.clone(),
        _ => return Err(impossible(from, to)),
    };
    text::constrain(converted, to, explicit)
}

fn same_representation(from: Type, to: Type) -> bool {
    from.is_datetime() && to.is_datetime()
}

fn impossible(from: Type, to: Type) -> SqlError {
    SqlError::new(
        "42846",
        format!("cannot cast type {} to {}", from.display(), to.display()),
    )
}

fn to_integer(value: &Value, to: Type) -> Option<Value> {
    let n = match value {
        Value::Int(n) => *n,
        Value::Bool(b) => i64::from(*b),
        Value::Numeric(number) => number.to_int()?,
        Value::Float(f) => {
            let rounded = f.round_ties_even();
            // 2^63 is exact as a float; the largest bigint is not.
            let bound = (1u64 << 63) as f64;
            if !(-bound..bound).contains(&rounded) {
                return None;
            }
            rounded as i64
        }
        _ => return None,
    };
    let fits = match to.oid {
        21 => i16::try_from(n).is_ok(),
        23 => i32::try_from(n).is_ok(),
        _ => true,
    };
    fits.then_some(Value::Int(n))
}

/// The name that an OID type shows instead of its number.
pub(crate) fn reg_name(value: &Value, ty: Type, cx: &Ctx<'_>) -> Result<String> {
    let Value::Int(n) = value else {
        return Ok(String::new());
    };
    let oid = u32::try_from(*n).unwrap_or(0);
    let catalog = &cx.run()?.catalog;
    let name = match ty.oid {
        2205 => crate::pgcatalog::relation_name(catalog, oid),
        2206 => Type::from_oid(oid).map(Type::display),
        4089 => catalog
            .schemas
            .iter()
            .find(|(_, schema)| **schema == oid)
            .map(|(name, _)| name.clone()),
        _ => None,
    };
    Ok(name.unwrap_or_else(|| {
        if oid == 0 {
            "-".to_owned()
        } else {
            n.to_string()
        }
    }))
}

/// The OID that a name, or a number written as text, stands for.
fn reg_value(name: &str, ty: Type, cx: &Ctx<'_>) -> Result<Value> {
    let name = name.trim();
    if let Ok(n) = name.parse::<u32>() {
        return Ok(Value::Int(i64::from(n)));
    }
    let catalog = &cx.run()?.catalog;
    let (schema, bare) = match name.split_once('.') {
        Some((schema, bare)) => (Some(schema.trim_matches('"')), bare.trim_matches('"')),
        None => (None, name.trim_matches('"')),
    };
    let oid = match ty.oid {
        2205 => catalog
            .relation(schema, bare)
            .map(Relation::oid)
            .or_else(|| {
                let table = catalog.index(schema, bare)?;
                table
                    .indexes
                    .iter()
                    .find(|index| index.name == bare)
                    .map(|index| index.oid)
                    .or(Some(table.primary_oid))
            })
            .or_else(|| crate::pgcatalog::system_relation(schema, bare))
            .ok_or_else(|| SqlError::undefined_table(name))?,
        2206 => crate::types::by_name(bare, &[])?.oid,
        4089 => *catalog
            .schemas
            .get(bare)
            .ok_or_else(|| SqlError::new("3F000", format!("schema \"{bare}\" does not exist")))?,
        _ => return Err(SqlError::invalid_text("oid", name)),
    };
    Ok(Value::Int(i64::from(oid)))
}
