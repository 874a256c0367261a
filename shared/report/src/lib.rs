//! (chapter follows)
mod build;
mod figures;
mod input;
mod json;
mod judge;
mod run;
mod schema;
mod summary;

pub use figures::*;
pub use input::*;
pub use json::to_json;
pub use judge::{exit_code, figure};
pub use run::*;
pub use schema::{ops_schema, run_schema, summary_schema};
pub use summary::*;
