//! The JSON Schema of sweep files.

use schemars::generate::SchemaSettings;

use crate::file::SweepFile;

/// The JSON Schema of sweep files, as committed in
/// `docs/schema/sweep.schema.json`.
///
/// It says what single values are accepted; what must hold between several
/// (such as batch times payload) only [`crate::parse`] knows. Draft 7, because
/// that is the newest draft that every common editor completes from.
pub fn schema() -> serde_json::Value {
    SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<SweepFile>()
        .to_value()
}
