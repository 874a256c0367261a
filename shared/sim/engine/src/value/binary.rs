//! The binary format, for the types that drivers send in it.

use bytes::{Buf as _, BufMut as _, BytesMut};

use super::{Interval, Numeric, Value, datetime, text};
use crate::error::{Result, SqlError};
use crate::types::Type;

fn malformed() -> SqlError {
    SqlError::new("22P03", "incorrect binary data format in bind parameter")
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| malformed())
}

pub(crate) fn decode(ty: Type, bytes: &[u8]) -> Result<Value> {
    if ty.element().is_some() {
        return decode_array(bytes);
    }
    let value = match ty.oid {
        16 => Value::Bool(fixed::<1>(bytes)?[0] != 0),
        17 => Value::bytes(bytes),
        20 => Value::Int(i64::from_be_bytes(fixed(bytes)?)),
        21 => Value::Int(i16::from_be_bytes(fixed(bytes)?).into()),
        23 => Value::Int(i32::from_be_bytes(fixed(bytes)?).into()),
        24 | 26 | 28 | 2205 | 2206 | 4089 => Value::Int(u32::from_be_bytes(fixed(bytes)?).into()),
        700 => Value::Float(f32::from_be_bytes(fixed(bytes)?).into()),
        701 => Value::Float(f64::from_be_bytes(fixed(bytes)?)),
        1700 => decode_numeric(bytes)?,
        1082 => {
            let days = i32::from_be_bytes(fixed(bytes)?);
            if !datetime::is_instant(i64::from(days).saturating_mul(datetime::DAY_US)) {
                return Err(SqlError::new("22008", "date out of range"));
            }
            Value::Date(days)
        }
        1083 => Value::Time(clock(i64::from_be_bytes(fixed(bytes)?))?),
        1114 | 1184 => {
            let instant = i64::from_be_bytes(fixed(bytes)?);
            if !datetime::is_instant(instant) {
                return Err(SqlError::new("22008", "timestamp out of range"));
            }
            Value::Timestamp(instant)
        }
        1266 => {
            let raw: [u8; 12] = fixed(bytes)?;
            let mut raw = &raw[..];
            Value::TimeTz(Box::new((clock(raw.get_i64())?, raw.get_i32())))
        }
        1186 => {
            let raw: [u8; 16] = fixed(bytes)?;
            let mut raw = &raw[..];
            let us = raw.get_i64();
            let days = raw.get_i32();
            let months = raw.get_i32();
            Value::Interval(Box::new(Interval { months, days, us }))
        }
        2950 => Value::Uuid(fixed(bytes)?),
        3802 => match bytes.split_first() {
            Some((1, document)) => return from_text(ty, document),
            _ => return Err(malformed()),
        },
        18 | 19 | 25 | 114 | 705 | 1042 | 1043 => return from_text(ty, bytes),
        _ => return Err(no_binary(ty)),
    };
    text::constrain(value, ty, false)
}

/// Microseconds since midnight, of one day at most.
fn clock(us: i64) -> Result<i64> {
    if (0..=datetime::DAY_US).contains(&us) {
        return Ok(us);
    }
    Err(SqlError::new("22008", "time out of range"))
}

fn no_binary(ty: Type) -> SqlError {
    SqlError::simulator(format!("the binary format of {}", ty.display()))
}

fn from_text(ty: Type, bytes: &[u8]) -> Result<Value> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\""))?;
    text::parse(ty, text)
}

/// Digits of base 10,000, the first `weight` + 1 of them before the point.
fn decode_numeric(bytes: &[u8]) -> Result<Value> {
    let mut raw = bytes;
    if raw.len() < 8 {
        return Err(malformed());
    }
    let count = raw.get_i16();
    let weight = i32::from(raw.get_i16());
    let sign = raw.get_u16();
    let scale = u32::from(raw.get_u16());
    if raw.len() != usize::try_from(count).map_err(|_| malformed())? * 2 {
        return Err(malformed());
    }
    if sign != 0 && sign != 0x4000 {
        return Err(SqlError::simulator("numeric NaN or infinity"));
    }
    let mut sum = Numeric::ZERO;
    let overflow = || SqlError::new("22003", "value overflows numeric format");
    for i in 0..i32::from(count) {
        let digit = i128::from(raw.get_u16());
        let place = (weight - i) * 4;
        let part = if place >= 0 {
            let unit = 10i128
                .checked_pow(place.unsigned_abs())
                .ok_or_else(overflow)?;
            Numeric::new(digit.checked_mul(unit).ok_or_else(overflow)?, 0)?
        } else {
            Numeric::new(digit, place.unsigned_abs())?
        };
        sum = sum.add(part)?;
    }
    let sum = sum.rescale(scale)?;
    Ok(Value::numeric(if sign == 0 { sum } else { sum.negate() }))
}

fn encode_numeric(number: Numeric, out: &mut BytesMut) {
    let scale = number.scale();
    // Fills the fraction up to whole base-10,000 digits; 38 digits and 3 more
    // do not fit, so the whole part and the fraction are cut up separately.
    let unit = 10u128.pow(scale);
    let digits = number.digits().unsigned_abs();
    let (mut whole, mut fraction) = (digits / unit, digits % unit);
    let mut groups = Vec::new();
    while whole > 0 {
        groups.push((whole % 10_000) as u16);
        whole /= 10_000;
    }
    groups.reverse();
    let mut weight = groups.len() as i16 - 1;
    let mut left = scale;
    while left > 0 {
        let taken = left.min(4);
        let below = 10u128.pow(left - taken);
        let group = fraction / below * 10u128.pow(4 - taken);
        fraction %= below;
        left -= taken;
        if groups.is_empty() && group == 0 {
            weight -= 1;
        } else {
            groups.push(group as u16);
        }
    }
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    out.put_i16(groups.len() as i16);
    out.put_i16(weight);
    out.put_u16(if number.digits() < 0 { 0x4000 } else { 0 });
    out.put_u16(scale as u16);
    for group in groups {
        out.put_u16(group);
    }
}

fn decode_array(bytes: &[u8]) -> Result<Value> {
    let mut raw = bytes;
    if raw.len() < 12 {
        return Err(malformed());
    }
    let dimensions = raw.get_i32();
    let _has_nulls = raw.get_i32();
    let oid = raw.get_u32();
    let element = Type::from_oid(oid).ok_or_else(|| SqlError::simulator(format!("type {oid}")))?;
    match dimensions {
        0 => return Ok(Value::array(element, Vec::new())),
        1 => {}
        _ => return Err(SqlError::simulator("an array of several dimensions")),
    }
    if raw.len() < 8 {
        return Err(malformed());
    }
    let count = raw.get_i32();
    let _lower_bound = raw.get_i32();
    let mut items = Vec::new();
    for _ in 0..count {
        if raw.len() < 4 {
            return Err(malformed());
        }
        let len = raw.get_i32();
        if len < 0 {
            items.push(Value::Null);
            continue;
        }
        let len = usize::try_from(len).map_err(|_| malformed())?;
        let (item, rest) = raw.split_at_checked(len).ok_or_else(malformed)?;
        items.push(decode(element, item)?);
        raw = rest;
    }
    Ok(Value::array(element, items))
}

pub(crate) fn encode(value: &Value, ty: Type, out: &mut BytesMut) -> Result<()> {
    match value {
        Value::Null => {}
        Value::Bool(b) => out.put_u8(u8::from(*b)),
        Value::Int(n) => match ty.oid {
            21 => out.put_i16(*n as i16),
            20 => out.put_i64(*n),
            _ if ty.is_oid() => out.put_u32(*n as u32),
            _ => out.put_i32(*n as i32),
        },
        Value::Float(f) if ty.is(Type::FLOAT4) => out.put_f32(*f as f32),
        Value::Float(f) => out.put_f64(*f),
        Value::Text(text) => {
            match ty.oid {
                3802 => out.put_u8(1),
                869 => return Err(no_binary(ty)),
                _ => {}
            }
            text::encode(value, ty, out);
            let _ = text;
        }
        Value::Bytea(bytes) => out.put_slice(bytes),
        Value::Numeric(number) => encode_numeric(**number, out),
        Value::Uuid(bytes) => out.put_slice(bytes),
        Value::Date(days) => out.put_i32(*days),
        Value::Time(us) | Value::Timestamp(us) => out.put_i64(*us),
        Value::TimeTz(time) => {
            out.put_i64(time.0);
            out.put_i32(time.1);
        }
        Value::Interval(span) => {
            out.put_i64(span.us);
            out.put_i32(span.days);
            out.put_i32(span.months);
        }
        Value::Array(array) => {
            let empty = array.items.is_empty();
            out.put_i32(i32::from(!empty));
            out.put_i32(i32::from(array.items.iter().any(Value::is_null)));
            out.put_u32(array.element.oid);
            if !empty {
                out.put_i32(i32::try_from(array.items.len()).map_err(|_| malformed())?);
                out.put_i32(1);
            }
            for item in &array.items {
                put_sized(item, array.element, out)?;
            }
        }
        Value::Record(fields) => {
            out.put_i32(i32::try_from(fields.len()).map_err(|_| malformed())?);
            for (ty, field) in fields.iter() {
                out.put_u32(ty.oid);
                put_sized(field, *ty, out)?;
            }
        }
    }
    Ok(())
}

/// A value behind its length, -1 for NULL.
fn put_sized(value: &Value, ty: Type, out: &mut BytesMut) -> Result<()> {
    if value.is_null() {
        out.put_i32(-1);
        return Ok(());
    }
    let at = out.len();
    out.put_i32(0);
    encode(value, ty, out)?;
    let len = i32::try_from(out.len() - at - 4).map_err(|_| malformed())?;
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_is_read() {
        let array = |ty: Type| ty.array().unwrap();
        for (ty, text) in [
            (Type::BOOL, "t"),
            (Type::INT2, "-7"),
            (Type::INT4, "70000"),
            (Type::INT8, "-9223372036854775808"),
            (Type::FLOAT4, "1.5"),
            (Type::FLOAT8, "-0.1"),
            (Type::NUMERIC, "0"),
            (Type::NUMERIC, "12345678.90123"),
            (Type::NUMERIC, "-0.00001"),
            (Type::NUMERIC, "10000"),
            (Type::NUMERIC, "1.50"),
            (Type::NUMERIC, "12345678901234567890123456789012345678"),
            (Type::TEXT, "text"),
            (Type::BYTEA, "\\x00ff"),
            (Type::UUID, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            (Type::DATE, "2026-02-28"),
            (Type::TIMESTAMPTZ, "2026-02-28 01:02:03.5+00"),
            (Type::INTERVAL, "1 year 2 days 00:00:01"),
            (Type::TIMETZ, "10:00:00+02"),
            (Type::JSONB, "{\"a\": 1}"),
            (array(Type::INT8), "{1,NULL,3}"),
            (array(Type::TEXT), "{}"),
            (array(Type::BYTEA), "{\"\\\\x01\",\"\\\\x\"}"),
        ] {
            let value = text::parse(ty, text).unwrap();
            let mut wire = BytesMut::new();
            encode(&value, ty, &mut wire).unwrap();
            let back = decode(ty, &wire).unwrap();
            assert_eq!(text::to_text(&back, ty), text, "{}", ty.display());
        }
    }

    #[test]
    fn short_messages_are_refused() {
        for ty in [
            Type::INT8,
            Type::NUMERIC,
            Type::UUID,
            Type::INT8.array().unwrap(),
        ] {
            assert_eq!(decode(ty, &[1, 2, 3]).unwrap_err().sqlstate, "22P03");
        }
    }
}
