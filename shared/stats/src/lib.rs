//! Histograms, outcome counts, intervals, merging and confidence.
//!
//! A shard records what it does into one [`ShardResult`] while it runs:
//!
//! 1. Every operation ends in exactly one outcome of [`Counts`], whose module
//!    ([`counts`]) states the sum that every report obeys.
//! 2. Its durations go into the [`Hist`]ograms of [`Latencies`], once for the
//!    whole, once for its endpoint, once for its kind: three [`Part`]s.
//! 3. What happens is also an [`Event`] of the [`Series`], which shows the
//!    course over time in bounded memory.
//!
//! Results are then added: shards of a rep by [`ShardResult::merge`], reps of a
//! cell by [`Part::merge`] and [`Rates::merge`]. All of it is commutative and
//! associative, so the order in which shards report does not matter, and
//! merging equals recording everything in one place; tests hold every field to
//! that. A figure that has one value per rep gets its interval by [`Mean95`].
//!
//! All of it can be serialised, because shards run elsewhere: histograms travel
//! in HdrHistogram's compressed form as base64.
//!
//! What it does not do: it knows no clock (callers hand in durations and
//! instants), judges nothing (whether a rep is valid is the report's decision),
//! and keeps no single operation (`ops.jsonl` is the driver's).

mod confidence;
pub mod counts;
mod hist;
mod locks;
mod result;
mod series;

pub use confidence::Mean95;
pub use counts::{Counts, Unknown};
pub use hist::Hist;
pub use locks::LockWaits;
pub use result::*;
pub use series::{Bucket, Event, Series};
