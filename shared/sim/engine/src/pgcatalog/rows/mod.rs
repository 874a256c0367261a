//! The rows of the system tables.

mod constraints;
mod information;
mod relations;
mod views;

pub(crate) use constraints::{pg_constraint, pg_index};
pub(crate) use information::*;
pub(crate) use relations::{pg_attrdef, pg_attribute, pg_class, pg_namespace, pg_type};
pub(crate) use views::*;

use constraints::constraints;

use crate::catalog::Catalog;
use crate::error::Result;
use crate::types::Type;
use crate::value::Value;

type Rows = Result<Vec<Vec<Value>>>;

/// The one role that owns everything.
const OWNER: u32 = 10;

/// Access methods: of tables and of indexes.
const TABLE_METHOD: u32 = 16_386;

const INDEX_METHOD: u32 = 16_387;

fn text(value: impl AsRef<str>) -> Value {
    Value::text(value)
}

fn oid(oid: u32) -> Value {
    Value::Int(oid.into())
}

fn int(n: usize) -> Value {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

const fn bool(b: bool) -> Value {
    Value::Bool(b)
}

fn yes_no(b: bool) -> Value {
    text(if b { "YES" } else { "NO" })
}

fn namespace(catalog: &Catalog, schema: &str) -> Value {
    oid(catalog.schemas.get(schema).copied().unwrap_or(0))
}

fn attnum(slot: usize) -> Value {
    int(slot + 1)
}

fn attnums(slots: &[usize]) -> Value {
    Value::array(Type::INT2, slots.iter().map(|slot| attnum(*slot)).collect())
}
