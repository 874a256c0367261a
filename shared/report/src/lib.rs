//! What people look at: `summary.json`, terminal tables, one HTML page.
//!
//! # How figures come about
//!
//! 1. A runner hands in a [`CellReport`] per cell: for every attempt at every
//!    rep the merged [`stats::ShardResult`], what was prepared, verified and
//!    cleaned, and what went wrong ([`RepReport`]).
//! 2. [`Summary::build`] completes each rep's outcome sum by what the plan
//!    holds and nobody reported, judges the rep (`judge`), and derives its
//!    figures (`figures`). The last attempts at all reps are merged from counts
//!    and histograms, and thresholds are checked on that.
//! 3. Everything that is shown is made from the [`Summary`] alone: [`to_json`],
//!    [`terminal()`], [`html()`]. So nothing can be on a screen that is not in the
//!    file, and a report can be shown again from its folder.
//! 4. [`write_all`] puts a folder's files in place together; [`exit_code`] says
//!    what the run comes to.
//!
//! Tables are made once (`view`): the terminal and the page have the same
//! columns, words and digits.
//!
//! # Rules that it keeps
//!
//! - `summary.json` holds only what sweep and seed decide; whatever differs
//!   from run to run is in `run.json` ([`RunInfo`]).
//! - Percentiles are never averaged, and no figure is made up: where there is
//!   nothing to divide it is null.
//! - The instrument is judged before the database; what was simulated says so
//!   in every table; colour is never the only sign.
//!
//! # What it does not do
//!
//! It measures nothing and knows no clock ([`utc`] is handed an instant). It
//! does not know terminals: the caller says whether to use colour, and how wide
//! a line may be ([`Style`]). It compares no two runs.

mod blocks;
mod build;
mod figures;
mod files;
mod html;
mod input;
mod json;
mod judge;
mod redact;
mod run;
mod schema;
mod summary;
mod terminal;
mod view;
mod words;

pub use figures::{Figures, LatencyMs, NetQuantiles, Quantiles, UnknownOutcomes};
pub use files::{FilesError, prepare_folder, read_summary, write_all};
pub use html::html;
pub use input::{CellReport, PartialShard, RepError, RepReport, Step, SweepInfo, TargetInfo};
pub use json::to_json;
pub use judge::{exit_code, figure};
pub use run::{FleetRun, Host, OpRow, RepRun, RunInfo, TargetFound, utc};
pub use schema::{ops_schema, run_schema, summary_schema};
pub use summary::{
    BlockSummary, BrokenInvariant, BrokenThreshold, CellSummary, Curve, Instrument, Interval,
    Measured, Merged, Reasons, RepSummary, Rtt, SeriesSummary, StepSummary, Summary, TargetSummary,
    VERSION, Verdict, Verify,
};
pub use terminal::{Style, terminal};
