//! JSON Schemas of the files, generated from their types and committed under
//! `docs/schema/`, so that other programs can rely on them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::run::{OpRow, RunInfo};
use crate::summary::Summary;

/// The schema of `summary.json`.
pub fn summary_schema() -> Value {
    of::<Summary>("summary.json of a sweep")
}

/// The schema of `run.json`.
pub fn run_schema() -> Value {
    of::<RunInfo>("run.json of a sweep")
}

/// The schema of one line of `ops.jsonl`.
pub fn ops_schema() -> Value {
    of::<OpRow>("A line of ops.jsonl")
}

/// As the type is written: what may be null is there all the same.
fn of<T: JsonSchema>(title: &str) -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}
