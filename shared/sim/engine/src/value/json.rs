//! Just enough JSON: checking `json`, the canonical form of `jsonb`, and the
//! arrow operators.

use std::fmt::Write as _;

use crate::error::{Result, SqlError};

/// How deep a document may nest, so that reading it cannot exhaust the stack.
const MAX_DEPTH: usize = 200;

/// A document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

pub(crate) fn parse(text: &str, ty: &str) -> Result<Json> {
    let mut reader = Reader {
        rest: text,
        depth: 0,
    };
    let value = reader.value();
    reader.space();
    match value {
        Some(value) if reader.rest.is_empty() => Ok(value),
        _ => Err(
            SqlError::new("22P02", format!("invalid input syntax for type {ty}"))
                .detail("The input string is not a JSON document."),
        ),
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn take(&mut self, token: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Option<Json> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let value = self.any();
        self.depth -= 1;
        value
    }

    fn any(&mut self) -> Option<Json> {
        self.space();
        if self.take("null") {
            return Some(Json::Null);
        }
        if self.take("true") {
            return Some(Json::Bool(true));
        }
        if self.take("false") {
            return Some(Json::Bool(false));
        }
        match self.rest.chars().next()? {
            '"' => self.string().map(Json::String),
            '[' => {
                self.take("[");
                let mut items = Vec::new();
                if self.take("]") {
                    return Some(Json::Array(items));
                }
                loop {
                    items.push(self.value()?);
                    if self.take("]") {
                        return Some(Json::Array(items));
                    }
                    if !self.take(",") {
                        return None;
                    }
                }
            }
            '{' => {
                self.take("{");
                let mut fields = Vec::new();
                if self.take("}") {
                    return Some(Json::Object(fields));
                }
                loop {
                    self.space();
                    let name = self.string()?;
                    if !self.take(":") {
                        return None;
                    }
                    fields.push((name, self.value()?));
                    if self.take("}") {
                        return Some(Json::Object(fields));
                    }
                    if !self.take(",") {
                        return None;
                    }
                }
            }
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Option<Json> {
        let end = self
            .rest
            .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        number.parse::<f64>().ok()?;
        let digits = number.trim_start_matches('-');
        let bare =
            digits.starts_with('0') && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        if bare || !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.rest = rest;
        Some(Json::Number(number.to_owned()))
    }

    fn string(&mut self) -> Option<String> {
        let mut chars = self.rest.strip_prefix('"')?.chars();
        let mut out = String::new();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    'b' => out.push('\u{8}'),
                    'f' => out.push('\u{c}'),
                    'u' => {
                        let mut unit = || -> Option<u32> {
                            let digits: String = chars.by_ref().take(4).collect();
                            (digits.len() == 4)
                                .then(|| u32::from_str_radix(&digits, 16).ok())
                                .flatten()
                        };
                        let high = unit()?;
                        let code = if (0xd800..0xdc00).contains(&high) {
                            if chars.next()? != '\\' || chars.next()? != 'u' {
                                return None;
                            }
                            let digits: String = chars.by_ref().take(4).collect();
                            let low = u32::from_str_radix(&digits, 16).ok()?;
                            0x10000 + ((high - 0xd800) << 10) + low.checked_sub(0xdc00)?
                        } else {
                            high
                        };
                        out.push(char::from_u32(code)?);
                    }
                    other @ ('"' | '\\' | '/') => out.push(other),
                    _ => return None,
                },
                c if (c as u32) < 0x20 => return None,
                c => out.push(c),
            }
        }
        self.rest = chars.as_str();
        Some(out)
    }
}

impl Json {
    /// As `jsonb` keeps it: keys by length and then bytes, the last of equal
    /// ones kept, one space behind colons and commas.
    pub(crate) fn canonical(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Json::Number(number) => match super::Numeric::parse(number) {
                Ok(exact) => {
                    let _ = write!(out, "{exact}");
                }
                Err(_) => out.push_str(number),
            },
            Json::String(text) => write_string(out, text),
            Json::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(fields) => {
                let mut sorted: Vec<&(String, Json)> = Vec::new();
                for field in fields.iter().rev() {
                    if !sorted.iter().any(|(name, _)| *name == field.0) {
                        sorted.push(field);
                    }
                }
                sorted.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then(a.cmp(b)));
                out.push('{');
                for (i, (name, value)) in sorted.into_iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    write_string(out, name);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// `->` with a field's name, the last one of that name.
    pub(crate) fn field(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields
                .iter()
                .rev()
                .find(|(field, _)| field == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// `->` with an index, negative ones from the end.
    pub(crate) fn item(&self, index: i64) -> Option<&Json> {
        match self {
            Json::Array(items) => {
                let len = i64::try_from(items.len()).ok()?;
                let at = if index < 0 {
                    len.saturating_add(index)
                } else {
                    index
                };
                items.get(usize::try_from(at).ok()?)
            }
            _ => None,
        }
    }

    /// `->>`: text without quotes, NULL for null.
    pub(crate) fn as_text(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::String(text) => Some(text.clone()),
            other => Some(other.canonical()),
        }
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jsonb_is_put_into_its_canonical_form() {
        let document = parse(
            r#" {"bb":[1, 2.50,null],"a":"x\n","bb":{"c":true}} "#,
            "jsonb",
        );
        assert_eq!(
            document.unwrap().canonical(),
            r#"{"a": "x\n", "bb": {"c": true}}"#
        );
        for wrong in ["", "{", "[1,]", "01", "nul", "\"a", "{\"a\" 1}"] {
            assert!(parse(wrong, "json").is_err(), "{wrong}");
        }
        assert!(parse(&"[".repeat(100_000), "json").is_err());
    }
}
