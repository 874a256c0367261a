//! Values: what a column holds, how values compare, and how wide they are.
//!
//! A value is 24 bytes; what is larger lies behind a shared pointer, so that
//! copying a row copies no text. Types that share a representation
//! (`smallint`, `integer` and `bigint`; `text`, `varchar`, `char` and `json`)
//! share a variant: a column's [`Type`](crate::Type) says which one is meant.

pub(crate) mod binary;
pub(crate) mod datetime;
pub(crate) mod json;
pub(crate) mod key;
pub(crate) mod numeric;
pub(crate) mod text;

use std::cmp::Ordering;
use std::sync::Arc;

pub use datetime::Interval;
pub use numeric::Numeric;

use crate::error::Result;
use crate::types::Type;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// boolean
    Bool(bool),
    /// smallint, integer, bigint and oid
    Int(i64),
    /// real and double precision
    Float(f64),
    /// text, varchar, json, and what is only carried as text; char without its
    /// padding
    Text(Arc<str>),
    /// bytea
    Bytea(Arc<[u8]>),
    /// numeric
    Numeric(Box<Numeric>),
    /// uuid
    Uuid([u8; 16]),
    /// date: days since 2000-01-01
    Date(i32),
    /// time: microseconds since midnight
    Time(i64),
    /// time with time zone: microseconds since midnight, seconds west of UTC
    TimeTz(Box<(i64, i32)>),
    /// timestamp with and without time zone: microseconds since 2000-01-01 UTC
    Timestamp(i64),
    /// interval
    Interval(Box<Interval>),
    /// An array of one dimension.
    Array(Arc<Array>),
    /// A row: its fields with their types.
    Record(Arc<[(Type, Value)]>),
}

/// An array of one dimension, its first index being 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Type of the elements.
    pub element: Type,
    /// The elements.
    pub items: Vec<Value>,
}

impl Value {
    /// A text value.
    pub fn text(text: impl AsRef<str>) -> Value {
        Value::Text(Arc::from(text.as_ref()))
    }

    /// A bytea value.
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Value {
        Value::Bytea(Arc::from(bytes.as_ref()))
    }

    pub(crate) fn numeric(number: Numeric) -> Value {
        Value::Numeric(Box::new(number))
    }

    pub(crate) fn array(element: Type, items: Vec<Value>) -> Value {
        Value::Array(Arc::new(Array { element, items }))
    }

    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Reads a parameter sent by a client. `binary` as the Bind message says.
    ///
    /// # Errors
    /// 22P02, 22P03 or 0A000 when the bytes are not a value of the type.
    pub fn decode(ty: Type, binary: bool, bytes: &[u8]) -> Result<Value> {
        if binary {
            binary::decode(ty, bytes)
        } else {
            let text = std::str::from_utf8(bytes).map_err(|_| {
                crate::SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\"")
            })?;
            text::parse(ty, text)
        }
    }

    /// Appends the value to a DataRow in text or binary format. `Null` must be
    /// handled by the caller (length -1); it appends nothing.
    ///
    /// # Errors
    /// 0A000 when the type has no binary format here.
    pub fn encode(&self, ty: Type, binary: bool, out: &mut bytes::BytesMut) -> Result<()> {
        if binary {
            binary::encode(self, ty, out)
        } else {
            text::encode(self, ty, out);
            Ok(())
        }
    }

    /// Bytes that the value takes in a stored row.
    pub(crate) fn width(&self) -> usize {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Date(_) => 4,
            Value::Int(_) | Value::Float(_) | Value::Time(_) | Value::Timestamp(_) => 8,
            Value::TimeTz(_) => 12,
            Value::Uuid(_) | Value::Numeric(_) | Value::Interval(_) => 16,
            Value::Text(text) => text.len() + 4,
            Value::Bytea(bytes) => bytes.len() + 4,
            Value::Array(array) => 20 + array.items.iter().map(Value::width).sum::<usize>(),
            Value::Record(fields) => fields.iter().map(|(_, value)| value.width()).sum(),
        }
    }

    /// Order of two values of one type. NULL comes last, as in an ORDER BY.
    pub(crate) fn compare(&self, other: &Value) -> Ordering {
        use Value::{
            Array, Bool, Bytea, Date, Float, Int, Interval, Null, Numeric, Record, Text, Time,
            TimeTz, Timestamp, Uuid,
        };
        match (self, other) {
            (Int(a), Int(b)) => a.cmp(b),
            (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Bytea(a), Bytea(b)) => a.cmp(b),
            (Null, Null) => Ordering::Equal,
            (Null, _) => Ordering::Greater,
            (_, Null) => Ordering::Less,
            (Bool(a), Bool(b)) => a.cmp(b),
            (Float(a), Float(b)) => compare_floats(*a, *b),
            (Numeric(a), Numeric(b)) => a.cmp(b),
            (Uuid(a), Uuid(b)) => a.cmp(b),
            (Date(a), Date(b)) => a.cmp(b),
            (Time(a), Time(b)) | (Timestamp(a), Timestamp(b)) => a.cmp(b),
            (TimeTz(a), TimeTz(b)) => {
                let utc = |t: &(i64, i32)| t.0 + i64::from(t.1) * 1_000_000;
                utc(a).cmp(&utc(b)).then(a.1.cmp(&b.1))
            }
            (Interval(a), Interval(b)) => a.comparable().cmp(&b.comparable()),
            (Array(a), Array(b)) => a
                .items
                .iter()
                .zip(&b.items)
                .map(|(a, b)| a.compare(b))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.items.len().cmp(&b.items.len())),
            (Record(a), Record(b)) => a
                .iter()
                .zip(b.iter())
                .map(|((_, a), (_, b))| a.compare(b))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            // The planner converts both sides to one type first.
            (a, b) => a.class().cmp(&b.class()),
        }
    }

    fn class(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::Float(_) => 3,
            Value::Text(_) => 4,
            Value::Bytea(_) => 5,
            Value::Numeric(_) => 6,
            Value::Uuid(_) => 7,
            Value::Date(_) => 8,
            Value::Time(_) => 9,
            Value::TimeTz(_) => 10,
            Value::Timestamp(_) => 11,
            Value::Interval(_) => 12,
            Value::Array(_) => 13,
            Value::Record(_) => 14,
        }
    }
}

/// NaN equals itself and is larger than everything, as in PostgreSQL.
fn compare_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}
