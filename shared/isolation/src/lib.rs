//! Isolation scenarios: what a database does when transactions meet.
//!
//! A scenario is a step script, a text file that a person can read (`scripts/`):
//! two or three connections, numbered steps, and what would be an anomaly. How it
//! is played:
//!
//! 1. [`Script::parse`] reads a script and refuses one whose steps, tables or
//!    checks do not fit together ([`scripts`] has those that come with it).
//! 2. [`run`] plays every script at every level. It makes the script's tables under
//!    a name that nobody else has, before any transaction begins, and drops them
//!    afterwards (`tables`).
//! 3. `player` sends one step at a time. It goes on when every connection has
//!    either answered or is seen to wait for another one's lock (`locks`), so the
//!    order of steps is that of the script whatever the network does. What each
//!    step answered is a trace.
//! 4. `judge` makes an [`Outcome`] of the trace: the script's checks say whether
//!    there was an anomaly, from rows that were read and from the final state. What
//!    the database calls itself plays no part.
//! 5. [`Report`] is `isolation.json`; [`matrix`], [`steps`] and [`html()`] show it.
//!
//! What is not here, and why:
//!
//! - No retries of a transaction: a conflict is the result. Only what says nothing
//!   about isolation (a lost connection, an unavailable server, DSQL's OC001 after
//!   tables were made) has the whole scenario played again, on fresh tables.
//! - No load, and no figures of time: each scenario is played once, and the order is
//!   fixed by hand. What an anomaly or a conflict costs is measured by the workloads.
//! - No reading of sweeps: this is a command of its own.

mod html;
mod judge;
mod locks;
mod matrix;
mod parse;
mod player;
mod report;
mod run;
mod script;
mod scripts;
mod tables;

pub use html::html;
pub use judge::{Outcome, Wait};
pub use matrix::{matrix, steps};
pub use report::{Played, Report, ScenarioReport, StepReport, StepResult, Tested, schema};
pub use run::{Progress, Settings, run};
pub use script::{Place, Script, ScriptError, Step, Suite, Table, Verb};
pub use scripts::{scripts, scripts_of};
