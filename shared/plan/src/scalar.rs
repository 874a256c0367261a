//! The scalars of a sweep file. Each type says once what it accepts; reading,
//! error messages and the JSON Schema follow from that.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::cell::{Isolation, Placement, SplitTag, Trips};
use crate::error::{grouped, nearest, one_of, quote};
use crate::figures::FIGURES;
use crate::target::Address;

/// A scalar as it stands in the document.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raw<'a> {
    Null,
    Bool(bool),
    Whole(i128),
    Real(f64),
    Text(&'a str),
}

impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Null => f.write_str("null"),
            Raw::Bool(value) => write!(f, "{value}"),
            Raw::Whole(value) => write!(f, "{value}"),
            Raw::Real(value) if value.abs() < 1e15 => write!(f, "{value}"),
            Raw::Real(value) => write!(f, "{value:e}"),
            Raw::Text(text) => f.write_str(&quote(text)),
        }
    }
}

/// A type that a scalar is read as.
pub(crate) trait Scalar: Sized + PartialEq {
    /// What is accepted, as in "must be …".
    fn accepted() -> String;
    /// The value, `None` when it is not accepted.
    fn read(raw: Raw<'_>) -> Option<Self>;
    /// What to say when it is not.
    fn problem(raw: Raw<'_>) -> String {
        format!("must be {}, not {raw}", Self::accepted())
    }
    /// As it stands in a cell's id.
    fn label(&self) -> String;
    /// Its schema.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

/// One value; a list is refused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct One<T>(pub T);

/// One value or a list of them: an axis of the matrix. Empty means that the
/// key is not there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis<T>(Vec<T>);

impl<T> Default for Axis<T> {
    fn default() -> Axis<T> {
        Axis(Vec::new())
    }
}

impl<T> Axis<T> {
    /// The value at `index`; `None` when the key is not there.
    pub(crate) fn at(&self, index: usize) -> Option<&T> {
        self.0.get(index)
    }

    /// An axis with these values.
    pub(crate) fn of(values: Vec<T>) -> Axis<T> {
        Axis(values)
    }

    pub(crate) fn values(&self) -> &[T] {
        &self.0
    }
}

/// An axis, whatever its type.
pub(crate) trait AnyAxis {
    fn len(&self) -> usize;
    fn label(&self, index: usize) -> String;
}

impl<T: Scalar> AnyAxis for Axis<T> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn label(&self, index: usize) -> String {
        self.0.get(index).map(T::label).unwrap_or_default()
    }
}

/// Reads one scalar, or a list of scalars where `LIST` says so.
struct Read<T, const LIST: bool>(PhantomData<T>);

impl<T: Scalar, const LIST: bool> Read<T, LIST> {
    fn one<E: Error>(raw: Raw<'_>) -> Result<Vec<T>, E> {
        match T::read(raw) {
            Some(value) => Ok(vec![value]),
            None => Err(E::custom(T::problem(raw))),
        }
    }
}

impl<'de, T: Scalar, const LIST: bool> Visitor<'de> for Read<T, LIST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&T::accepted())?;
        f.write_str(if LIST { " (or a list)" } else { "" })
    }
    fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
        Self::one(Raw::Null)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Vec<T>, E> {
        Self::one(Raw::Bool(value))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Vec<T>, E> {
        Self::one(Raw::Whole(value.into()))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Vec<T>, E> {
        Self::one(Raw::Whole(value.into()))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Vec<T>, E> {
        Self::one(Raw::Real(value))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        Self::one(Raw::Text(text))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        if !LIST {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        let mut values: Vec<T> = Vec::new();
        while let Some(One(value)) = list.next_element::<One<T>>()? {
            if let Some(first) = values.iter().position(|v| *v == value) {
                return Err(A::Error::custom(format_args!(
                    "[{first}] and [{}] are both {}; keep one",
                    values.len(),
                    value.label()
                )));
            }
            values.push(value);
            if values.len() > MAX_LIST {
                return Err(A::Error::custom(format_args!(
                    "a list of over {} values; shorten it",
                    grouped(MAX_LIST as u64)
                )));
            }
        }
        if values.is_empty() {
            return Err(A::Error::custom(
                "the list is empty; give at least one value, or leave the key out",
            ));
        }
        Ok(values)
    }
}

/// Longest list: comparing each value with all before it stays cheap, and no
/// matrix may have more cells.
const MAX_LIST: usize = 1_000;

impl<'de, T: Scalar> Deserialize<'de> for One<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<One<T>, D::Error> {
        let mut values = deserializer.deserialize_any(Read::<T, false>(PhantomData))?;
        values
            .pop()
            .map(One)
            .ok_or_else(|| D::Error::custom("no value"))
    }
}

impl<'de, T: Scalar> Deserialize<'de> for Axis<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Axis<T>, D::Error> {
        deserializer
            .deserialize_any(Read::<T, true>(PhantomData))
            .map(Axis)
    }
}

impl<T: Scalar> JsonSchema for One<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "One".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::schema(generator)
    }
}

impl<T: Scalar> JsonSchema for Axis<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Axis".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = T::schema(generator);
        json_schema!({
            "anyOf": [
                one,
                {
                    "type": "array",
                    "items": one,
                    "minItems": 1,
                    "maxItems": MAX_LIST,
                    "uniqueItems": true
                }
            ]
        })
    }
}

/// A whole number from `MIN` to `MAX`; `1e3` and `8.0` are whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Whole<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Scalar for Whole<MIN, MAX> {
    fn accepted() -> String {
        format!("a whole number from {} to {}", grouped(MIN), grouped(MAX))
    }
    fn read(raw: Raw<'_>) -> Option<Self> {
        let value = match raw {
            Raw::Whole(value) => u64::try_from(value).ok()?,
            // Beyond 2^53 a double no longer says which whole number is meant.
            Raw::Real(value) if value.fract() == 0.0 && (0.0..=9e15).contains(&value) => {
                value as u64
            }
            _ => return None,
        };
        (MIN..=MAX).contains(&value).then_some(Whole(value))
    }
    fn label(&self) -> String {
        self.0.to_string()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX})
    }
}

/// A number from `MIN` to `MAX` thousandths (a const parameter can't be a
/// fraction).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decimal<const MIN: u64, const MAX: u64>(pub f64);

impl<const MIN: u64, const MAX: u64> Decimal<MIN, MAX> {
    fn bounds() -> (f64, f64) {
        (MIN as f64 / 1e3, MAX as f64 / 1e3)
    }
}

/// A bound as JSON: whole where it is whole.
fn bound(thousandths: u64) -> serde_json::Value {
    if thousandths.is_multiple_of(1000) {
        (thousandths / 1000).into()
    } else {
        (thousandths as f64 / 1e3).into()
    }
}

fn shown_bound(thousandths: u64) -> String {
    if thousandths.is_multiple_of(1000) {
        grouped(thousandths / 1000)
    } else {
        (thousandths as f64 / 1e3).to_string()
    }
}

impl<const MIN: u64, const MAX: u64> Scalar for Decimal<MIN, MAX> {
    fn accepted() -> String {
        format!("a number from {} to {}", shown_bound(MIN), shown_bound(MAX))
    }
    fn read(raw: Raw<'_>) -> Option<Self> {
        let value = match raw {
            Raw::Whole(value) => value as f64,
            Raw::Real(value) => value,
            _ => return None,
        };
        let (min, max) = Self::bounds();
        // Adding zero turns -0.0 into 0.0, which labels and equality expect.
        (min..=max).contains(&value).then_some(Decimal(value + 0.0))
    }
    fn label(&self) -> String {
        self.0.to_string()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": bound(MIN), "maximum": bound(MAX)})
    }
}

/// A [`Decimal`], or null for none at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OrNull<T>(pub Option<T>);

impl<T: Scalar> Scalar for OrNull<T> {
    fn accepted() -> String {
        format!("{}, or null for none", T::accepted())
    }
    fn read(raw: Raw<'_>) -> Option<Self> {
        match raw {
            Raw::Null => Some(OrNull(None)),
            other => T::read(other).map(|value| OrNull(Some(value))),
        }
    }
    fn label(&self) -> String {
        self.0.as_ref().map_or("none".to_owned(), T::label)
    }
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [T::schema(generator), {"type": "null"}]})
    }
}

/// Any finite number, for thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limit(pub f64);

impl Scalar for Limit {
    fn accepted() -> String {
        "a number".to_owned()
    }
    fn read(raw: Raw<'_>) -> Option<Limit> {
        match raw {
            Raw::Whole(value) => Some(Limit(value as f64)),
            Raw::Real(value) if value.is_finite() => Some(Limit(value)),
            _ => None,
        }
    }
    fn label(&self) -> String {
        self.0.to_string()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number"})
    }
}

/// `true` or `false`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Flag(pub bool);

impl Scalar for Flag {
    fn accepted() -> String {
        "true or false".to_owned()
    }
    fn read(raw: Raw<'_>) -> Option<Flag> {
        match raw {
            Raw::Bool(value) => Some(Flag(value)),
            _ => None,
        }
    }
    fn label(&self) -> String {
        self.0.to_string()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "boolean"})
    }
}

/// A closed set of words.
pub(crate) trait Words: Copy + PartialEq + 'static {
    /// Every word, its value and what it means.
    const ALL: &'static [(&'static str, Self, &'static str)];
}

/// One of a closed set of words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Word<T>(pub T);

impl<T: Words> Scalar for Word<T> {
    fn accepted() -> String {
        let words: Vec<&str> = T::ALL.iter().map(|(word, ..)| *word).collect();
        one_of(&words)
    }
    fn read(raw: Raw<'_>) -> Option<Word<T>> {
        let Raw::Text(text) = raw else { return None };
        let found = T::ALL.iter().find(|(word, ..)| *word == text);
        found.map(|&(_, value, _)| Word(value))
    }
    fn label(&self) -> String {
        let found = T::ALL.iter().find(|(_, value, _)| *value == self.0);
        found.map_or_else(String::new, |(word, ..)| (*word).to_owned())
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<serde_json::Value> = T::ALL
            .iter()
            .map(|(word, _, meaning)| serde_json::json!({"const": word, "description": meaning}))
            .collect();
        json_schema!({"type": "string", "oneOf": words})
    }
}

impl Words for Trips {
    const ALL: &'static [(&'static str, Trips, &'static str)] = &[
        ("stepwise", Trips::Stepwise, "Each statement is awaited."),
        (
            "pipelined",
            Trips::Pipelined,
            "BEGIN with the read, then the writes with COMMIT: two flights.",
        ),
        (
            "sticky",
            Trips::Sticky,
            "One flight, from the head of the writer's last confirmed commit.",
        ),
    ];
}

impl Words for Isolation {
    const ALL: &'static [(&'static str, Isolation, &'static str)] = &[
        (
            "read_committed",
            Isolation::ReadCommitted,
            "READ COMMITTED; PostgreSQL only.",
        ),
        (
            "repeatable_read",
            Isolation::RepeatableRead,
            "REPEATABLE READ, the only level of DSQL.",
        ),
        (
            "serializable",
            Isolation::Serializable,
            "SERIALIZABLE; PostgreSQL only.",
        ),
    ];
}

/// A name of something in the sweep: it may stand in a cell's id and in a file
/// name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name(pub String);

const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

impl Scalar for Name {
    fn accepted() -> String {
        "a name: 1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit".to_owned()
    }
    fn read(raw: Raw<'_>) -> Option<Name> {
        let Raw::Text(text) = raw else { return None };
        let fits = (1..=64).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        fits.then(|| Name(text.to_owned()))
    }
    fn label(&self) -> String {
        self.0.clone()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": NAME})
    }
}

/// Text for people, without control characters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prose(pub String);

impl Scalar for Prose {
    fn accepted() -> String {
        "a text of at most 2,000 characters on one line".to_owned()
    }
    fn read(raw: Raw<'_>) -> Option<Prose> {
        let Raw::Text(text) = raw else { return None };
        let fits = text.chars().count() <= 2_000 && !text.chars().any(char::is_control);
        fits.then(|| Prose(text.to_owned()))
    }
    fn label(&self) -> String {
        self.0.clone()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": 2_000})
    }
}

/// Where writers connect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Where(pub Placement);

impl Scalar for Where {
    fn accepted() -> String {
        "`split`, `first` or the name of an endpoint such as us-east-1".to_owned()
    }
    fn read(raw: Raw<'_>) -> Option<Where> {
        let Raw::Text(text) = raw else { return None };
        if text == "split" {
            return Some(Where(Placement::Split(SplitTag::Split)));
        }
        let fits = (1..=255).contains(&text.len())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".:_-[]".contains(c));
        fits.then(|| Where(Placement::Region(text.to_owned())))
    }
    fn label(&self) -> String {
        match &self.0 {
            Placement::Split(_) => "split".to_owned(),
            Placement::Region(name) => name.clone(),
        }
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[A-Za-z0-9.:_\[\]-]{1,255}$",
            "examples": ["split", "first", "us-east-1"]
        })
    }
}

/// Five characters of an SQLSTATE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SqlState(pub String);

impl Scalar for SqlState {
    fn accepted() -> String {
        "an SQLSTATE: five digits or capital letters in quotes, such as \"40001\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Option<SqlState> {
        let Raw::Text(text) = raw else { return None };
        let fits = text.len() == 5
            && text
                .chars()
                .all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
        fits.then(|| SqlState(text.to_owned()))
    }
    fn label(&self) -> String {
        self.0.clone()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9A-Z]{5}$"})
    }
}

/// A figure of a cell's merged results.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure(pub String);

impl Scalar for Figure {
    fn accepted() -> String {
        "a figure of the merged results, such as `throughput_per_s` or `latency_ms.response.p99`"
            .to_owned()
    }
    fn read(raw: Raw<'_>) -> Option<Figure> {
        let Raw::Text(text) = raw else { return None };
        FIGURES
            .iter()
            .any(|figure| figure == text)
            .then(|| Figure(text.to_owned()))
    }
    fn problem(raw: Raw<'_>) -> String {
        let near = match raw {
            Raw::Text(text) => nearest(text, &FIGURES),
            _ => None,
        };
        let hint = near.map(|near| format!("; did you mean `{near}`?"));
        format!(
            "must be {}, not {raw}{}",
            Self::accepted(),
            hint.unwrap_or_default()
        )
    }
    fn label(&self) -> String {
        self.0.clone()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": FIGURES.as_slice()})
    }
}

impl Scalar for Address {
    fn accepted() -> String {
        Address::FORMS.to_owned()
    }
    fn read(raw: Raw<'_>) -> Option<Address> {
        let Raw::Text(text) = raw else { return None };
        Address::parse(text).ok()
    }
    /// Never repeats the text: it may hold a password.
    fn problem(raw: Raw<'_>) -> String {
        match raw {
            Raw::Text(text) => match Address::parse(text) {
                Err(problem) => problem,
                Ok(_) => String::new(),
            },
            other => format!("must be {}, not {other}", Address::FORMS),
        }
    }
    fn label(&self) -> String {
        self.to_string()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^(sim:|dsql://|postgres://|postgresql://)",
            "examples": ["sim:us-pair-workstation", "dsql://HOST,HOST", "postgres://user@host:5432/db"]
        })
    }
}

/// A host, with a port where it is not 5432.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Host(pub String);

impl Scalar for Host {
    fn accepted() -> String {
        "a host name, with `:PORT` where it is not 5432".to_owned()
    }
    fn read(raw: Raw<'_>) -> Option<Host> {
        let Raw::Text(text) = raw else { return None };
        crate::target::is_host(text).then(|| Host(text.to_owned()))
    }
    fn label(&self) -> String {
        self.0.clone()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "maxLength": 260})
    }
}

/// Checks a value that does not come from the file (a flag) against a type of
/// the file.
pub(crate) fn check<T: Scalar>(raw: Raw<'_>) -> Result<T, String> {
    T::read(raw).ok_or_else(|| T::problem(raw))
}
