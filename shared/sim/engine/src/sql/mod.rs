//! From text to rows: parsing, binding names and types, planning, executing.

pub(crate) mod aggregate;
pub(crate) mod bind;
pub(crate) mod cast;
pub(crate) mod ddl;
pub(crate) mod dml;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod expr;
pub(crate) mod functions;
pub(crate) mod operators;
pub(crate) mod parse;
pub(crate) mod plan;
pub(crate) mod regex;
pub(crate) mod write;
