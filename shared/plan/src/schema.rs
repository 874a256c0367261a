//! The JSON Schema of sweep files.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};

use crate::file::SweepFile;

/// The JSON Schema of sweep files, as committed in
/// `docs/schema/sweep.schema.json`.
///
/// It says what values are accepted one by one; what must hold between several
/// (such as batch times payload) only [`crate::parse`] knows. Draft 7, because
/// that is the newest draft that every common editor completes from.
pub fn schema() -> serde_json::Value {
    let mut schema = SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<SweepFile>();
    RecursiveTransform(unwrap_lines).transform(&mut schema);
    schema.to_value()
}

/// Descriptions are doc comments, whose lines end where the source's do.
fn unwrap_lines(schema: &mut Schema) {
    if let Some(serde_json::Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}
