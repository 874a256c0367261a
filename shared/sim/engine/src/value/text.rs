//! The text format: what a literal means, and how a value is printed.

use std::fmt::Write as _;

use bytes::{BufMut as _, BytesMut};

use super::{Array, Value, datetime, json, numeric::Numeric};
use crate::error::{Result, SqlError};
use crate::types::{self, Type};

/// Reads the text form of a value of type `ty`, its modifier included.
pub(crate) fn parse(ty: Type, text: &str) -> Result<Value> {
    if let Some(element) = ty.element() {
        return parse_array(element, text);
    }
    let value = match ty.oid {
        16 => Value::Bool(parse_bool(text)?),
        20 => Value::Int(parse_int(text, "bigint", i64::MIN, i64::MAX)?),
        21 => Value::Int(parse_int(
            text,
            "smallint",
            i16::MIN.into(),
            i16::MAX.into(),
        )?),
        23 => Value::Int(parse_int(
            text,
            "integer",
            i32::MIN.into(),
            i32::MAX.into(),
        )?),
        24 | 26 | 28 | 2205 | 2206 | 4089 => {
            Value::Int(parse_int(text, "oid", i32::MIN.into(), u32::MAX.into())?)
        }
        700 => {
            let f: f64 = parse_float(text, "real")?;
            Value::Float(f64::from(f as f32))
        }
        701 => Value::Float(parse_float(text, "double precision")?),
        1700 => Value::numeric(Numeric::parse(text)?),
        17 => Value::bytes(parse_bytea(text)?),
        2950 => Value::Uuid(parse_uuid(text)?),
        1082 => Value::Date(datetime::parse_date(text)?),
        1083 => Value::Time(datetime::parse_time(text)?),
        1266 => Value::TimeTz(Box::new(datetime::parse_timetz(text)?)),
        1114 => Value::Timestamp(datetime::parse_timestamp(text, false)?),
        1184 => Value::Timestamp(datetime::parse_timestamp(text, true)?),
        1186 => Value::Interval(Box::new(datetime::parse_interval(text)?)),
        114 => {
            json::parse(text, "json")?;
            Value::text(text)
        }
        3802 => Value::text(json::parse(text, "jsonb")?.canonical()),
        869 => Value::text(parse_inet(text)?),
        1042 => Value::text(text.trim_end_matches(' ')),
        2249 => return Err(SqlError::simulator("reading a record")),
        _ => {
            if text.contains('\0') {
                return Err(SqlError::new(
                    "22021",
                    "invalid byte sequence for encoding \"UTF8\": 0x00",
                ));
            }
            Value::text(text)
        }
    };
    constrain(value, ty, false)
}

/// Applies a type's modifier. An explicit cast cuts text that is too long,
/// anything else refuses it.
pub(crate) fn constrain(value: Value, ty: Type, explicit: bool) -> Result<Value> {
    if ty.modifier < 0 {
        return Ok(value);
    }
    match (ty.oid, &value) {
        (1042 | 1043, Value::Text(text)) => {
            let limit = usize::try_from(ty.modifier - 4).unwrap_or(0);
            if text.len() <= limit || text.chars().count() <= limit {
                return Ok(value);
            }
            let cut: String = text.chars().take(limit).collect();
            if explicit || text[cut.len()..].chars().all(|c| c == ' ') {
                return Ok(Value::text(cut));
            }
            Err(SqlError::new(
                "22001",
                format!("value too long for type {}", ty.display_full()),
            ))
        }
        (1700, Value::Numeric(number)) => {
            let (precision, scale) = types::numeric_modifier(ty.modifier);
            Ok(Value::numeric(number.constrain(precision, scale)?))
        }
        (1083 | 1114 | 1184, Value::Time(us) | Value::Timestamp(us)) => {
            let unit = 10i64.pow(6u32.saturating_sub(ty.modifier.unsigned_abs()));
            let rounded = (us + unit / 2).div_euclid(unit) * unit;
            Ok(match value {
                Value::Time(_) => Value::Time(rounded),
                _ => Value::Timestamp(rounded),
            })
        }
        _ => Ok(value),
    }
}

fn parse_bool(text: &str) -> Result<bool> {
    let word = text.trim().to_ascii_lowercase();
    match word.as_str() {
        "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1" => Ok(true),
        "f" | "fa" | "fal" | "fals" | "false" | "n" | "no" | "of" | "off" | "0" => Ok(false),
        _ => Err(SqlError::invalid_text("boolean", text)),
    }
}

fn parse_int(text: &str, ty: &str, min: i64, max: i64) -> Result<i64> {
    let digits = text.trim();
    match digits.parse::<i64>() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        Ok(_) => Err(too_large(text, ty)),
        Err(error) => match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                Err(too_large(text, ty))
            }
            _ => Err(SqlError::invalid_text(ty, text)),
        },
    }
}

fn too_large(text: &str, ty: &str) -> SqlError {
    SqlError::new(
        "22003",
        format!("value \"{text}\" is out of range for type {ty}"),
    )
}

fn parse_float(text: &str, ty: &str) -> Result<f64> {
    let word = text.trim();
    // Rust reads what PostgreSQL reads, "inf" and "NaN" included.
    match word.parse::<f64>() {
        Ok(f) if f.is_infinite() && word.bytes().any(|b| b.is_ascii_digit()) => {
            Err(too_large(text, ty))
        }
        Ok(f) => Ok(f),
        Err(_) => Err(SqlError::invalid_text(ty, text)),
    }
}

pub(crate) fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return decode_hex(hex);
    }
    let bad = || SqlError::invalid_text("bytea", text);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(byte) = bytes.get(i) {
        if *byte != b'\\' {
            out.push(*byte);
            i += 1;
        } else if bytes.get(i + 1) == Some(&b'\\') {
            out.push(b'\\');
            i += 2;
        } else {
            let octal = text.get(i + 1..i + 4).ok_or_else(bad)?;
            out.push(u8::from_str_radix(octal, 8).map_err(|_| bad())?);
            i += 4;
        }
    }
    Ok(out)
}

pub(crate) fn decode_hex(hex: &str) -> Result<Vec<u8>> {
    let digit = |byte: u8| -> Result<u8> {
        (byte as char)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
            .ok_or_else(|| {
                SqlError::new(
                    "22023",
                    format!("invalid hexadecimal digit: \"{}\"", byte as char),
                )
            })
    };
    let mut out = Vec::with_capacity(hex.len() / 2);
    let mut bytes = hex.bytes().filter(|byte| !byte.is_ascii_whitespace());
    while let Some(high) = bytes.next() {
        let low = bytes.next().ok_or_else(|| {
            SqlError::new("22023", "invalid hexadecimal data: odd number of digits")
        })?;
        out.push(digit(high)? << 4 | digit(low)?);
    }
    Ok(out)
}

pub(crate) fn write_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)] as char);
        out.push(DIGITS[usize::from(byte & 15)] as char);
    }
}

fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let bad = || SqlError::invalid_text("uuid", text);
    let inner = text.trim();
    let inner = match inner.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(bad)?,
        None => inner,
    };
    let mut out = [0u8; 16];
    let mut digits = 0usize;
    for c in inner.chars() {
        if c == '-' && digits > 0 && digits.is_multiple_of(4) && digits < 32 {
            continue;
        }
        let digit = c.to_digit(16).ok_or_else(bad)? as u8;
        let byte = out.get_mut(digits / 2).ok_or_else(bad)?;
        *byte = *byte << 4 | digit;
        digits += 1;
    }
    if digits != 32 {
        return Err(bad());
    }
    Ok(out)
}

fn parse_inet(text: &str) -> Result<&str> {
    let bad = || SqlError::invalid_text("inet", text);
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    let address: std::net::IpAddr = address.parse().map_err(|_| bad())?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    if let Some(mask) = mask {
        let mask: u8 = mask.parse().map_err(|_| bad())?;
        if mask > bits {
            return Err(bad());
        }
    }
    Ok(text)
}

fn parse_array(element: Type, text: &str) -> Result<Value> {
    let malformed = || SqlError::new("22P02", format!("malformed array literal: \"{text}\""));
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .ok_or_else(malformed)?;
    let mut items = Vec::new();
    let mut chars = inner.chars().peekable();
    if inner.trim().is_empty() {
        return Ok(Value::array(element, items));
    }
    loop {
        while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        let mut item = String::new();
        let quoted = chars.next_if_eq(&'"').is_some();
        if quoted {
            loop {
                match chars.next().ok_or_else(malformed)? {
                    '"' => break,
                    '\\' => item.push(chars.next().ok_or_else(malformed)?),
                    c => item.push(c),
                }
            }
            while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        } else {
            while let Some(c) = chars.next_if(|c| *c != ',') {
                match c {
                    '{' => return Err(SqlError::simulator("an array of several dimensions")),
                    '}' | '"' => return Err(malformed()),
                    '\\' => item.push(chars.next().ok_or_else(malformed)?),
                    c => item.push(c),
                }
            }
            item.truncate(item.trim_end().len());
            if item.is_empty() {
                return Err(malformed());
            }
        }
        items.push(if !quoted && item.eq_ignore_ascii_case("null") {
            Value::Null
        } else {
            parse(element, &item)?
        });
        match chars.next() {
            None => return Ok(Value::array(element, items)),
            Some(',') => {}
            Some(_) => return Err(malformed()),
        }
    }
}

/// Appends the text form to a DataRow.
pub(crate) fn encode(value: &Value, ty: Type, out: &mut BytesMut) {
    match value {
        Value::Null => {}
        Value::Int(n) => put_int(out, *n),
        Value::Bool(b) => out.put_u8(if *b { b't' } else { b'f' }),
        Value::Text(text) => {
            out.put_slice(text.as_bytes());
            out.put_bytes(b' ', padding(text, ty));
        }
        _ => {
            let mut text = String::new();
            write(value, ty, &mut text);
            out.put_slice(text.as_bytes());
        }
    }
}

/// Spaces that char(n) shows behind its text.
fn padding(text: &str, ty: Type) -> usize {
    if !ty.is(Type::BPCHAR) || ty.modifier <= 4 {
        return 0;
    }
    let wanted = usize::try_from(ty.modifier - 4).unwrap_or(0);
    wanted.saturating_sub(text.chars().count())
}

fn put_int(out: &mut BytesMut, n: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        out.put_u8(b'-');
    }
    out.put_slice(&digits[at..]);
}

/// The text form, as a cast to text gives it.
pub(crate) fn to_text(value: &Value, ty: Type) -> String {
    let mut out = String::new();
    write(value, ty, &mut out);
    out
}

/// Appends the text form. NULL appends nothing.
pub(crate) fn write(value: &Value, ty: Type, out: &mut String) {
    match value {
        Value::Null => {}
        Value::Bool(b) => out.push(if *b { 't' } else { 'f' }),
        Value::Int(n) => {
            let _ = write!(out, "{n}");
        }
        Value::Float(f) => write_float(out, *f, ty.is(Type::FLOAT4)),
        Value::Text(text) => {
            out.push_str(text);
            out.extend(std::iter::repeat_n(' ', padding(text, ty)));
        }
        Value::Bytea(bytes) => {
            out.push_str("\\x");
            write_hex(out, bytes);
        }
        Value::Numeric(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Uuid(bytes) => {
            for (i, part) in [
                &bytes[..4],
                &bytes[4..6],
                &bytes[6..8],
                &bytes[8..10],
                &bytes[10..],
            ]
            .into_iter()
            .enumerate()
            {
                if i > 0 {
                    out.push('-');
                }
                write_hex(out, part);
            }
        }
        Value::Date(days) => datetime::write_date(out, i64::from(*days)),
        Value::Time(us) => datetime::write_time(out, *us),
        Value::TimeTz(time) => {
            datetime::write_time(out, time.0);
            datetime::write_zone(out, time.1);
        }
        Value::Timestamp(instant) => {
            datetime::write_timestamp(out, *instant);
            if ty.is(Type::TIMESTAMPTZ) {
                out.push_str("+00");
            }
        }
        Value::Interval(span) => datetime::write_interval(out, **span),
        Value::Array(array) => write_array(out, array, ty),
        Value::Record(fields) => {
            out.push('(');
            for (i, (ty, field)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                let text = to_text(field, *ty);
                let quote = !field.is_null()
                    && (text.is_empty()
                        || text.contains(['"', '\\', '(', ')', ','])
                        || text.contains(char::is_whitespace));
                push_quoted(out, &text, quote, "\"\"", "\\\\");
            }
            out.push(')');
        }
    }
}

fn write_array(out: &mut String, array: &Array, ty: Type) {
    // The two vector types of the catalog are arrays without braces.
    if ty.is(Type::INT2VECTOR) || ty.is(Type::OIDVECTOR) {
        for (i, item) in array.items.iter().enumerate() {
            if i > 0 {
                out.push(' ');
            }
            write(item, array.element, out);
        }
        return;
    }
    out.push('{');
    for (i, item) in array.items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if item.is_null() {
            out.push_str("NULL");
            continue;
        }
        let text = to_text(item, array.element);
        let quote = text.is_empty()
            || text.eq_ignore_ascii_case("null")
            || text.contains(['"', '\\', '{', '}', ','])
            || text.contains(char::is_whitespace);
        push_quoted(out, &text, quote, "\\\"", "\\\\");
    }
    out.push('}');
}

fn push_quoted(out: &mut String, text: &str, quote: bool, quotes: &str, backslash: &str) {
    if !quote {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str(quotes),
            '\\' => out.push_str(backslash),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The shortest text that reads back as the same number, with an exponent
/// where PostgreSQL has one.
fn write_float(out: &mut String, f: f64, single: bool) {
    if f.is_nan() {
        out.push_str("NaN");
        return;
    }
    if f.is_infinite() {
        out.push_str(if f > 0.0 { "Infinity" } else { "-Infinity" });
        return;
    }
    let scientific = if single {
        format!("{:e}", f as f32)
    } else {
        format!("{f:e}")
    };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let most = if single { 6 } else { 15 };
    if exponent < -4 || exponent >= most {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
    } else if single {
        let _ = write!(out, "{}", f as f32);
    } else {
        let _ = write!(out, "{f}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(ty: Type, text: &str) -> String {
        to_text(&parse(ty, text).unwrap(), ty)
    }

    #[test]
    fn values_print_as_postgresql_prints_them() {
        for (ty, text, printed) in [
            (Type::BOOL, "yes", "t"),
            (Type::INT4, " 42 ", "42"),
            (Type::FLOAT8, "1e15", "1e+15"),
            (Type::FLOAT8, "0.1", "0.1"),
            (Type::FLOAT8, "123456789012345", "123456789012345"),
            (Type::FLOAT4, "0.1", "0.1"),
            (Type::FLOAT4, "1e6", "1e+06"),
            (Type::FLOAT8, "1e-5", "1e-05"),
            (Type::BYTEA, "\\xDEad", "\\xdead"),
            (Type::BYTEA, "a\\\\\\001", "\\x615c01"),
            (
                Type::TIMESTAMPTZ,
                "2026-01-01 00:00:00+01",
                "2025-12-31 23:00:00+00",
            ),
            (
                Type::TEXT.array().unwrap(),
                "{a,\"b c\",NULL,\"\"}",
                "{a,\"b c\",NULL,\"\"}",
            ),
            (Type::INT8.array().unwrap(), "{ 1 ,2}", "{1,2}"),
            (Type::JSONB, "{\"b\":1,\"a\":2}", "{\"a\": 2, \"b\": 1}"),
            (
                Type::UUID,
                "{A0EEBC99-9C0B4EF8-BB6D6BB9-BD380A11}",
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            ),
        ] {
            assert_eq!(round_trip(ty, text), printed);
        }
    }

    #[test]
    fn what_is_no_value_is_refused_in_postgresqls_words() {
        for (ty, text, sqlstate, message) in [
            (
                Type::INT4,
                "x",
                "22P02",
                "invalid input syntax for type integer: \"x\"",
            ),
            (
                Type::INT2,
                "40000",
                "22003",
                "value \"40000\" is out of range for type smallint",
            ),
            (
                Type::UUID,
                "no",
                "22P02",
                "invalid input syntax for type uuid: \"no\"",
            ),
            (
                Type::VARCHAR.with_modifier(7),
                "abcd",
                "22001",
                "value too long for type character varying(3)",
            ),
        ] {
            let error = parse(ty, text).unwrap_err();
            assert_eq!(
                (error.sqlstate, error.message.as_str()),
                (sqlstate, message)
            );
        }
    }
}
