//! How scalars of a sweep file are read, alone or in lists. What a type accepts
//! it says once, in its [`Scalar`]; reading, error messages and the JSON Schema
//! follow from that.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::{grouped, quote};

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
    /// As it stands among a cell's parameters.
    fn json(&self) -> Value {
        Value::String(self.label())
    }
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
    fn json(&self, index: usize) -> Value;
}

impl<T: Scalar> AnyAxis for Axis<T> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn label(&self, index: usize) -> String {
        self.0.get(index).map(T::label).unwrap_or_default()
    }
    fn json(&self, index: usize) -> Value {
        self.0.get(index).map(T::json).unwrap_or_default()
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

/// Checks a value that does not come from the file (a flag) against a type of
/// the file.
pub(crate) fn check<T: Scalar>(raw: Raw<'_>) -> Result<T, String> {
    T::read(raw).ok_or_else(|| T::problem(raw))
}
