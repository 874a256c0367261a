//! (chapter follows)
mod build;
mod figures;
mod files;
mod html;
mod input;
mod json;
mod judge;
mod run;
mod schema;
mod summary;
mod terminal;
mod view;

pub use figures::*;
pub use files::{FilesError, prepare_folder, read_summary, write_all};
pub use html::html;
pub use input::*;
pub use json::to_json;
pub use judge::{exit_code, figure};
pub use run::*;
pub use schema::{ops_schema, run_schema, summary_schema};
pub use summary::*;
pub use terminal::{Style, terminal};
