//! The scalar types of a sweep file, each with its bounds, its words for an
//! error and its part of the schema.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::cell::{Distribution, Isolation, Placement, SplitTag, TpcbVariant, Trips};
use crate::error::{grouped, nearest, one_of};
use crate::figures::FIGURES;
use crate::scalar::{Raw, Scalar};
use crate::target::Address;

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
    fn json(&self) -> Value {
        self.0.into()
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
fn bound(thousandths: u64) -> Value {
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
    fn json(&self) -> Value {
        self.0.into()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": bound(MIN), "maximum": bound(MAX)})
    }
}

/// A number, or null for none at all.
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
    /// What the type itself says, which for a URL never repeats it.
    fn problem(raw: Raw<'_>) -> String {
        T::problem(raw).replace(&T::accepted(), &Self::accepted())
    }
    fn label(&self) -> String {
        self.0.as_ref().map_or("none".to_owned(), T::label)
    }
    fn json(&self) -> Value {
        self.0.as_ref().map_or(Value::Null, T::json)
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
        let words: Vec<Value> = T::ALL
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

impl Words for Distribution {
    const ALL: &'static [(&'static str, Distribution, &'static str)] = &[
        ("uniform", Distribution::Uniform, "All keys alike."),
        (
            "hot",
            Distribution::Hot,
            "80% of the requests on the first 1% of the keys, at least one.",
        ),
    ];
}

impl Words for TpcbVariant {
    const ALL: &'static [(&'static str, TpcbVariant, &'static str)] = &[
        (
            "tpcb_like",
            TpcbVariant::TpcbLike,
            "pgbench's `tpcb-like`: account, teller and branch.",
        ),
        (
            "simple_update",
            TpcbVariant::SimpleUpdate,
            "pgbench's `simple-update`: without teller and branch.",
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

/// An AWS region.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Region(pub String);

impl Scalar for Region {
    fn accepted() -> String {
        "a region such as us-east-1: lower-case letters, digits and `-`".to_owned()
    }
    fn read(raw: Raw<'_>) -> Option<Region> {
        let Raw::Text(text) = raw else { return None };
        let fits = (1..=32).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        fits.then(|| Region(text.to_owned()))
    }
    fn label(&self) -> String {
        self.0.clone()
    }
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[a-z][a-z0-9-]{0,31}$",
            "examples": ["us-east-1"]
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
