//! Functions on text and bytes.

use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

use super::{ANY, ANYARRAY, ANYELEMENT, Function, Gives, arg, digest};
use crate::error::{Result, SqlError};
use crate::sql::regex::Regex;
use crate::types::Type;
use crate::value::{Value, text};

const T: Type = Type::TEXT;
const B: Type = Type::BYTEA;
const I: Type = Type::INT4;

/// Longest text or bytes that a function builds here.
const MAX_BYTES: usize = 64 << 20;

fn len(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Start and end of `substring(… from … for …)` within something of a length.
fn window(from: i64, count: Option<i64>, len: usize) -> Result<(usize, usize)> {
    let end = match count {
        Some(count) if count < 0 => {
            return Err(SqlError::new(
                "22011",
                "negative substring length not allowed",
            ));
        }
        Some(count) => from.saturating_add(count),
        None => i64::MAX,
    };
    let clamp = |position: i64| {
        usize::try_from(position.saturating_sub(1).max(0))
            .unwrap_or(usize::MAX)
            .min(len)
    };
    let start = clamp(from);
    Ok((start, clamp(end).max(start)))
}

fn substring(source: &str, from: i64, count: Option<i64>) -> Result<Value> {
    let (start, end) = window(from, count, source.chars().count())?;
    let cut: String = source.chars().skip(start).take(end - start).collect();
    Ok(Value::text(cut))
}

fn trim_matches(source: &str, set: &str, left: bool, right: bool) -> Value {
    let within = |c: char| set.contains(c);
    let mut rest = source;
    if left {
        rest = rest.trim_start_matches(within);
    }
    if right {
        rest = rest.trim_end_matches(within);
    }
    Value::text(rest)
}

fn pad(source: &str, wanted: i64, fill: &str, left: bool) -> Result<Value> {
    let wanted = usize::try_from(wanted).unwrap_or(0);
    if wanted > MAX_BYTES {
        return Err(SqlError::new("54000", "requested length too large"));
    }
    let have = source.chars().count();
    if have >= wanted || fill.is_empty() {
        let cut: String = source.chars().take(wanted).collect();
        return Ok(Value::text(cut));
    }
    let filling: String = fill.chars().cycle().take(wanted - have).collect();
    Ok(Value::text(if left {
        filling + source
    } else {
        source.to_owned() + &filling
    }))
}

fn encode(bytes: &[u8], format: &str) -> Result<Value> {
    let mut out = String::new();
    match format.to_ascii_lowercase().as_str() {
        "hex" => text::write_hex(&mut out, bytes),
        "base64" => out = digest::to_base64(bytes),
        "escape" => {
            for byte in bytes {
                match byte {
                    b'\\' => out.push_str("\\\\"),
                    1..=127 => out.push(*byte as char),
                    _ => out.push_str(&format!("\\{byte:03o}")),
                }
            }
        }
        _ => return Err(unknown_encoding(format)),
    }
    Ok(Value::text(out))
}

fn unknown_encoding(format: &str) -> SqlError {
    SqlError::new("22023", format!("unrecognized encoding: \"{format}\""))
}

fn decode(source: &str, format: &str) -> Result<Value> {
    let bytes = match format.to_ascii_lowercase().as_str() {
        "hex" => text::decode_hex(source)?,
        "base64" => digest::from_base64(source)
            .ok_or_else(|| SqlError::new("22023", "invalid base64 end sequence"))?,
        "escape" => text::parse_bytea(source)?,
        _ => return Err(unknown_encoding(format)),
    };
    Ok(Value::bytes(bytes))
}

fn concat(args: &[Value], separator: &str) -> Value {
    let parts: Vec<String> = args
        .iter()
        .filter(|arg| !arg.is_null())
        .map(|arg| match arg {
            Value::Bool(b) => if *b { "t" } else { "f" }.to_owned(),
            other => text::to_text(other, Type::TEXT),
        })
        .collect();
    Value::text(parts.join(separator))
}

fn repeat(source: &str, times: i64) -> Result<Value> {
    let times = usize::try_from(times).unwrap_or(0);
    if source.len().saturating_mul(times) > MAX_BYTES {
        return Err(SqlError::new("54000", "requested length too large"));
    }
    Ok(Value::text(source.repeat(times)))
}

fn title_case(source: &str) -> String {
    let mut within = false;
    source
        .chars()
        .map(|c| {
            let folded = if within {
                c.to_ascii_lowercase()
            } else {
                c.to_ascii_uppercase()
            };
            within = c.is_alphanumeric();
            folded
        })
        .collect()
}

/// LIKE: `%` is anything, `_` one character, the escape takes away meaning.
pub(crate) fn like(source: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    enum Part {
        Any,
        One,
        Char(char),
        /// An escape with nothing behind it.
        Dangling,
    }
    let mut parts = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            parts.push(chars.next().map_or(Part::Dangling, Part::Char));
        } else {
            parts.push(match c {
                '%' => Part::Any,
                '_' => Part::One,
                c => Part::Char(c),
            });
        }
    }
    let text: Vec<char> = source.chars().collect();
    // Greedy, going back to the last `%` only: linear in practice.
    let (mut t, mut p) = (0, 0);
    let mut resume: Option<(usize, usize)> = None;
    while t < text.len() {
        let fits = match parts.get(p) {
            Some(Part::Any) => {
                resume = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(Part::One) => true,
            Some(Part::Char(c)) => *c == text[t],
            Some(Part::Dangling) => {
                return Err(SqlError::new(
                    "22025",
                    "LIKE pattern must not end with escape character",
                ));
            }
            None => false,
        };
        if fits {
            t += 1;
            p += 1;
        } else if let Some((after, from)) = resume {
            p = after;
            t = from + 1;
            resume = Some((after, t));
        } else {
            return Ok(false);
        }
    }
    Ok(parts[p..].iter().all(|part| matches!(part, Part::Any)))
}

fn text_array(parts: impl Iterator<Item = Value>) -> Value {
    Value::array(Type::TEXT, parts.collect())
}

const fn f(name: &'static str, args: &'static [Type], gives: Type, eval: super::Eval) -> Function {
    Function::new(name, args, gives, eval)
}

pub(super) static FUNCTIONS: &[Function] = &[
    f("length", &[T], I, |_, a| {
        Ok(len(arg!(a, 0, Text).chars().count()))
    }),
    f("length", &[B], I, |_, a| Ok(len(arg!(a, 0, Bytea).len()))),
    f("char_length", &[T], I, |_, a| {
        Ok(len(arg!(a, 0, Text).chars().count()))
    }),
    f("character_length", &[T], I, |_, a| {
        Ok(len(arg!(a, 0, Text).chars().count()))
    }),
    f("octet_length", &[T], I, |_, a| {
        Ok(len(arg!(a, 0, Text).len()))
    }),
    f("octet_length", &[B], I, |_, a| {
        Ok(len(arg!(a, 0, Bytea).len()))
    }),
    f("bit_length", &[T], I, |_, a| {
        Ok(len(arg!(a, 0, Text).len() * 8))
    }),
    f("lower", &[T], T, |_, a| {
        Ok(Value::text(arg!(a, 0, Text).to_lowercase()))
    }),
    f("upper", &[T], T, |_, a| {
        Ok(Value::text(arg!(a, 0, Text).to_uppercase()))
    }),
    f("initcap", &[T], T, |_, a| {
        Ok(Value::text(title_case(arg!(a, 0, Text))))
    }),
    f("reverse", &[T], T, |_, a| {
        Ok(Value::text(
            arg!(a, 0, Text).chars().rev().collect::<String>(),
        ))
    }),
    f("substring", &[T, I], T, |_, a| {
        substring(arg!(a, 0, Text), *arg!(a, 1, Int), None)
    }),
    f("substring", &[T, I, I], T, |_, a| {
        substring(arg!(a, 0, Text), *arg!(a, 1, Int), Some(*arg!(a, 2, Int)))
    }),
    f("substr", &[T, I], T, |_, a| {
        substring(arg!(a, 0, Text), *arg!(a, 1, Int), None)
    }),
    f("substr", &[T, I, I], T, |_, a| {
        substring(arg!(a, 0, Text), *arg!(a, 1, Int), Some(*arg!(a, 2, Int)))
    }),
    f("substring", &[B, I], B, |_, a| {
        let bytes = arg!(a, 0, Bytea);
        let (start, end) = window(*arg!(a, 1, Int), None, bytes.len())?;
        Ok(Value::bytes(&bytes[start..end]))
    }),
    f("substring", &[B, I, I], B, |_, a| {
        let bytes = arg!(a, 0, Bytea);
        let (start, end) = window(*arg!(a, 1, Int), Some(*arg!(a, 2, Int)), bytes.len())?;
        Ok(Value::bytes(&bytes[start..end]))
    }),
    f("left", &[T, I], T, |_, a| {
        let source = arg!(a, 0, Text);
        let n = *arg!(a, 1, Int);
        let have = i64::try_from(source.chars().count()).unwrap_or(i64::MAX);
        let n = if n < 0 {
            have.saturating_add(n).max(0)
        } else {
            n
        };
        substring(source, 1, Some(n))
    }),
    f("right", &[T, I], T, |_, a| {
        let source = arg!(a, 0, Text);
        let n = *arg!(a, 1, Int);
        let have = i64::try_from(source.chars().count()).unwrap_or(i64::MAX);
        let skip = if n < 0 {
            n.saturating_neg()
        } else {
            (have - n).max(0)
        };
        substring(source, skip.saturating_add(1), None)
    }),
    f("strpos", &[T, T], I, |_, a| {
        let source = arg!(a, 0, Text);
        Ok(match source.find(&**arg!(a, 1, Text)) {
            Some(at) => len(source[..at].chars().count() + 1),
            None => Value::Int(0),
        })
    }),
    f("btrim", &[T], T, |_, a| {
        Ok(trim_matches(arg!(a, 0, Text), " ", true, true))
    }),
    f("btrim", &[T, T], T, |_, a| {
        Ok(trim_matches(arg!(a, 0, Text), arg!(a, 1, Text), true, true))
    }),
    f("ltrim", &[T], T, |_, a| {
        Ok(trim_matches(arg!(a, 0, Text), " ", true, false))
    }),
    f("ltrim", &[T, T], T, |_, a| {
        Ok(trim_matches(
            arg!(a, 0, Text),
            arg!(a, 1, Text),
            true,
            false,
        ))
    }),
    f("rtrim", &[T], T, |_, a| {
        Ok(trim_matches(arg!(a, 0, Text), " ", false, true))
    }),
    f("rtrim", &[T, T], T, |_, a| {
        Ok(trim_matches(
            arg!(a, 0, Text),
            arg!(a, 1, Text),
            false,
            true,
        ))
    }),
    f("lpad", &[T, I], T, |_, a| {
        pad(arg!(a, 0, Text), *arg!(a, 1, Int), " ", true)
    }),
    f("lpad", &[T, I, T], T, |_, a| {
        pad(arg!(a, 0, Text), *arg!(a, 1, Int), arg!(a, 2, Text), true)
    }),
    f("rpad", &[T, I], T, |_, a| {
        pad(arg!(a, 0, Text), *arg!(a, 1, Int), " ", false)
    }),
    f("rpad", &[T, I, T], T, |_, a| {
        pad(arg!(a, 0, Text), *arg!(a, 1, Int), arg!(a, 2, Text), false)
    }),
    f("repeat", &[T, I], T, |_, a| {
        repeat(arg!(a, 0, Text), *arg!(a, 1, Int))
    }),
    f("replace", &[T, T, T], T, |_, a| {
        let (source, from) = (arg!(a, 0, Text), arg!(a, 1, Text));
        if from.is_empty() {
            return Ok(Value::Text(source.clone()));
        }
        Ok(Value::text(source.replace(&**from, arg!(a, 2, Text))))
    }),
    f("translate", &[T, T, T], T, |_, a| {
        let from: Vec<char> = arg!(a, 1, Text).chars().collect();
        let to: Vec<char> = arg!(a, 2, Text).chars().collect();
        let moved = |c: char| match from.iter().position(|other| *other == c) {
            Some(at) => to.get(at).copied(),
            None => Some(c),
        };
        Ok(Value::text(
            arg!(a, 0, Text)
                .chars()
                .filter_map(moved)
                .collect::<String>(),
        ))
    }),
    f("split_part", &[T, T, I], T, |_, a| {
        let n = *arg!(a, 2, Int);
        if n == 0 {
            return Err(SqlError::new("22023", "field position must not be zero"));
        }
        let parts: Vec<&str> = arg!(a, 0, Text).split(&**arg!(a, 1, Text)).collect();
        let count = i64::try_from(parts.len()).unwrap_or(i64::MAX);
        let at = if n < 0 {
            count.saturating_add(n)
        } else {
            n - 1
        };
        let part = usize::try_from(at)
            .ok()
            .and_then(|at| parts.get(at).copied());
        Ok(Value::text(part.unwrap_or("")))
    }),
    f("starts_with", &[T, T], Type::BOOL, |_, a| {
        Ok(Value::Bool(
            arg!(a, 0, Text).starts_with(&**arg!(a, 1, Text)),
        ))
    }),
    f("ascii", &[T], I, |_, a| {
        Ok(Value::Int(
            arg!(a, 0, Text)
                .chars()
                .next()
                .map_or(0, |c| i64::from(u32::from(c))),
        ))
    }),
    f("chr", &[I], T, |_, a| {
        let c = u32::try_from(*arg!(a, 0, Int))
            .ok()
            .filter(|n| *n > 0)
            .and_then(char::from_u32);
        c.map(|c| Value::text(c.to_string()))
            .ok_or_else(|| SqlError::new("54000", "requested character too large for encoding"))
    }),
    f("md5", &[T], T, |_, a| {
        encode(&digest::md5(arg!(a, 0, Text).as_bytes()), "hex")
    }),
    f("md5", &[B], T, |_, a| {
        encode(&digest::md5(arg!(a, 0, Bytea)), "hex")
    }),
    f("sha224", &[B], B, |_, a| {
        Ok(Value::bytes(Sha224::digest(arg!(a, 0, Bytea))))
    }),
    f("sha256", &[B], B, |_, a| {
        Ok(Value::bytes(Sha256::digest(arg!(a, 0, Bytea))))
    }),
    f("sha384", &[B], B, |_, a| {
        Ok(Value::bytes(Sha384::digest(arg!(a, 0, Bytea))))
    }),
    f("sha512", &[B], B, |_, a| {
        Ok(Value::bytes(Sha512::digest(arg!(a, 0, Bytea))))
    }),
    f("encode", &[B, T], T, |_, a| {
        encode(arg!(a, 0, Bytea), arg!(a, 1, Text))
    }),
    f("decode", &[T, T], B, |_, a| {
        decode(arg!(a, 0, Text), arg!(a, 1, Text))
    }),
    f("convert_to", &[T, T], B, |_, a| {
        Ok(Value::bytes(arg!(a, 0, Text).as_bytes()))
    }),
    f("convert_from", &[B, T], T, |_, a| {
        std::str::from_utf8(arg!(a, 0, Bytea))
            .map(Value::text)
            .map_err(|_| SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\""))
    }),
    f("get_byte", &[B, I], I, |_, a| {
        let bytes = arg!(a, 0, Bytea);
        let n = *arg!(a, 1, Int);
        usize::try_from(n)
            .ok()
            .and_then(|at| bytes.get(at))
            .map(|byte| Value::Int(i64::from(*byte)))
            .ok_or_else(|| {
                let last = i64::try_from(bytes.len()).unwrap_or(0) - 1;
                SqlError::new("2202E", format!("index {n} out of valid range, 0..{last}"))
            })
    }),
    f("concat", &[ANY], T, |_, a| Ok(concat(a, "")))
        .lenient()
        .variadic(),
    f("concat_ws", &[T, ANY], T, |_, a| match a.split_first() {
        Some((Value::Text(separator), rest)) => Ok(concat(rest, separator)),
        _ => Ok(Value::Null),
    })
    .lenient()
    .variadic(),
    f("quote_ident", &[T], T, |_, a| {
        Ok(Value::text(crate::pgcatalog::quote(arg!(a, 0, Text))))
    }),
    f("quote_literal", &[T], T, |_, a| {
        Ok(Value::text(format!(
            "'{}'",
            arg!(a, 0, Text).replace('\'', "''")
        )))
    }),
    f("to_hex", &[Type::INT4], T, |_, a| {
        Ok(Value::text(format!("{:x}", *arg!(a, 0, Int) as i32)))
    }),
    f("to_hex", &[Type::INT8], T, |_, a| {
        Ok(Value::text(format!("{:x}", *arg!(a, 0, Int))))
    }),
    f("regexp_replace", &[T, T, T], T, |_, _| {
        Err(SqlError::simulator("regexp_replace"))
    }),
    f("string_to_array", &[T, T], pseudo_array(1009), |_, a| {
        let separator = match a.get(1) {
            Some(Value::Text(separator)) => Some(separator),
            _ => None,
        };
        let source = arg!(a, 0, Text);
        Ok(match separator {
            _ if source.is_empty() => text_array(std::iter::empty()),
            Some(separator) if separator.is_empty() => {
                text_array(std::iter::once(Value::text(source)))
            }
            Some(separator) => text_array(source.split(&**separator).map(Value::text)),
            None => text_array(source.chars().map(|c| Value::text(c.to_string()))),
        })
    })
    .lenient(),
    f("array_to_string", &[ANYARRAY, T], T, |_, a| {
        let array = arg!(a, 0, Array);
        let parts: Vec<String> = array
            .items
            .iter()
            .filter(|item| !item.is_null())
            .map(|item| text::to_text(item, array.element))
            .collect();
        Ok(Value::text(parts.join(arg!(a, 1, Text))))
    }),
    f("array_length", &[ANYARRAY, I], I, |_, a| {
        let count = arg!(a, 0, Array).items.len();
        Ok(if count == 0 || *arg!(a, 1, Int) != 1 {
            Value::Null
        } else {
            len(count)
        })
    }),
    f("array_upper", &[ANYARRAY, I], I, |_, a| {
        let count = arg!(a, 0, Array).items.len();
        Ok(if count == 0 || *arg!(a, 1, Int) != 1 {
            Value::Null
        } else {
            len(count)
        })
    }),
    f("array_lower", &[ANYARRAY, I], I, |_, a| {
        let none = arg!(a, 0, Array).items.is_empty() || *arg!(a, 1, Int) != 1;
        Ok(if none { Value::Null } else { Value::Int(1) })
    }),
    f("cardinality", &[ANYARRAY], I, |_, a| {
        Ok(len(arg!(a, 0, Array).items.len()))
    }),
    f("array_position", &[ANYARRAY, ANYELEMENT], I, |_, a| {
        let array = arg!(a, 0, Array);
        let at = a.get(1).and_then(|wanted| {
            array
                .items
                .iter()
                .position(|item| item.compare(wanted).is_eq())
        });
        Ok(at.map_or(Value::Null, |at| len(at + 1)))
    })
    .lenient(),
    f("array_append", &[ANYARRAY, ANYELEMENT], T, |_, a| {
        let array = arg!(a, 0, Array);
        let mut items = array.items.clone();
        items.extend(a.get(1).cloned());
        Ok(Value::array(array.element, items))
    })
    .lenient()
    .gives(Gives::Same(0)),
    f("array_cat", &[ANYARRAY, ANYARRAY], T, |_, a| {
        let (left, right) = (arg!(a, 0, Array), arg!(a, 1, Array));
        let items = left.items.iter().chain(&right.items).cloned().collect();
        Ok(Value::array(left.element, items))
    })
    .gives(Gives::Same(0)),
    // Operators.
    f("textcat", &[T, T], T, |_, a| {
        let (left, right) = (arg!(a, 0, Text), arg!(a, 1, Text));
        Ok(Value::text(format!("{left}{right}")))
    }),
    f("byteacat", &[B, B], B, |_, a| {
        Ok(Value::bytes(
            [&**arg!(a, 0, Bytea), &**arg!(a, 1, Bytea)].concat(),
        ))
    }),
    f("like", &[T, T], Type::BOOL, |_, a| {
        Ok(Value::Bool(like(
            arg!(a, 0, Text),
            arg!(a, 1, Text),
            Some('\\'),
        )?))
    }),
    f("like", &[T, T, T], Type::BOOL, |_, a| {
        let escape = arg!(a, 2, Text).chars().next();
        Ok(Value::Bool(like(
            arg!(a, 0, Text),
            arg!(a, 1, Text),
            escape,
        )?))
    }),
    f("texticlike", &[T, T], Type::BOOL, |_, a| {
        let (source, pattern) = (arg!(a, 0, Text), arg!(a, 1, Text));
        Ok(Value::Bool(like(
            &source.to_lowercase(),
            &pattern.to_lowercase(),
            Some('\\'),
        )?))
    }),
    f("textregexeq", &[T, T], Type::BOOL, |_, a| {
        Ok(Value::Bool(
            Regex::new(arg!(a, 1, Text), false)?.is_match(arg!(a, 0, Text))?,
        ))
    }),
    f("texticregexeq", &[T, T], Type::BOOL, |_, a| {
        Ok(Value::Bool(
            Regex::new(arg!(a, 1, Text), true)?.is_match(arg!(a, 0, Text))?,
        ))
    }),
];

const fn pseudo_array(oid: u32) -> Type {
    Type {
        oid,
        size: -1,
        modifier: -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_matches_as_in_sql() {
        for (source, pattern, matches) in [
            ("streams", "str%", true),
            ("streams", "_tr%s", true),
            ("a%b", "a\\%b", true),
            ("axb", "a\\%b", false),
            ("", "%", true),
            ("abcabc", "%abc", true),
            ("ab", "a", false),
        ] {
            assert_eq!(
                like(source, pattern, Some('\\')).unwrap(),
                matches,
                "{pattern}"
            );
        }
    }
}
