//! From a sweep file to what is run; pure: text in, typed plan out.
//!
//! A **sweep** says what to run; a **cell** is one point of its matrix; a
//! **rep** is one repetition of a cell, a **wave** what is started for it.
//!
//! # How a file becomes a plan
//!
//! 1. The text is read into a tree that keeps the order of keys and sees keys
//!    that are there twice (`tree`).
//! 2. A reader that knows where it is turns the tree into the file's types
//!    (`read`, `file`). Each scalar's type says once what it accepts
//!    (`scalar`, `value`): its bounds, the words of its error message and its part of
//!    the JSON Schema ([`schema`]) are one declaration. So is each key of a
//!    block, whatever workloads have it (`keys`): a block has a key for every
//!    parameter of its workload (`workloads`).
//! 3. Each block inherits from `defaults` and is multiplied out: the product of
//!    its lists in the order in which they are written, the last one fastest.
//!    A cell is its workload's defaults with the values of its point in their
//!    places (`block`). What must hold between several parameters is checked for
//!    every cell (`check`). Here [`parse`] ends: a [`Sweep`] can be planned.
//! 4. [`Sweep::plan`] gives the cells their targets, after `--on`, `--seed` and
//!    `--reps` (`sweep`, `named`), and [`estimate`] says what the [`Plan`] will
//!    take.
//!
//! # How a wave is shared out
//!
//! A fleet runs a rep as a wave of shards. [`shards`] deals its writers out to
//! workers, [`legs`] cuts a window that no worker lives through, and
//! [`slot_delay`] says when each connection may open. Like everything here they
//! are functions of the plan alone: any process can tell any other's part.
//!
//! [`append_cell`] enters at step 2 with a tree made of flags, so that a flag
//! and a key are refused alike.
//!
//! # What it refuses, and how
//!
//! Everything that can be known to be wrong without asking a database is
//! refused before anything starts, with a [`SweepError`]: one line that names
//! the place and what would be accepted. The first problem ends it; a list of
//! all problems would be mostly consequences of the first.
//!
//! # What it does not do
//!
//! It opens no file, asks no clock and no network, and draws no random number.
//! It does not know the simulator: whether a preset exists is checked against
//! a list that the caller hands in ([`Plan::check_presets`]), whether an
//! endpoint exists against the target's own names
//! ([`Plan::check_placements`]). Passwords stay inside [`Address`], which shows
//! and serialises itself without them.

mod append;
mod block;
mod cell;
mod check;
mod error;
mod estimate;
mod figures;
mod file;
mod fleet;
mod keys;
mod named;
mod prices;
mod read;
mod scalar;
mod schema;
mod shards;
mod share;
mod sweep;
mod target;
mod tree;
mod value;
mod workloads;

pub use append::{AppendArgs, append_cell};
pub use cell::*;
pub use error::{Place, SweepError};
pub use estimate::{Assumptions, CellEstimate, Estimate, Range, Setting, estimate, polling_time};
pub use fleet::{Fleet, Limits};
pub use schema::schema;
pub use shards::{
    Leg, Shard, legs, legs_allowed, refill_time, shards, slot_delay, wave_connections,
};
pub use share::{LoadShape, PlacementError, Wave};
pub use sweep::{Overrides, Plan, Sweep, parse};
pub use target::{Address, AddressKind, TargetSpec};
