//! (chapter follows)
mod build;
mod figures;
mod input;
mod json;
mod judge;
mod run;
mod summary;

pub use figures::*;
pub use input::*;
pub use json::to_json;
pub use judge::{exit_code, figure, is_figure};
pub use run::*;
pub use summary::*;
