//! The barrier between opened connections and the load, as a shard sees it.

use clock::{Clock, Time};

use crate::report::ShardReport;

/// What a shard has when all of its connections are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Open connections, one for each writer.
    pub connections: u32,
    /// From the first try, or the first slot, to the last open one.
    pub took: std::time::Duration,
    /// Tries that were refused on the way.
    pub refusals: u32,
}

/// What the gate answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Everybody starts at this instant. One that has passed means now.
    At(Time),
    /// No load is to be done: why.
    Not(String),
}

/// Lets a shard start together with the others of its wave.
pub trait Gate {
    /// The connections are open; returns when the load begins, or that it does
    /// not. The gate itself ends its waiting when the run is stopped.
    #[allow(
        async_fn_in_trait,
        reason = "whoever needs it `Send` has the type at hand"
    )]
    async fn ready(&self, opened: Opened) -> Start;
}

/// The gate of a shard that is alone: it opens at once.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce(pub Clock);

impl Gate for AtOnce {
    async fn ready(&self, _: Opened) -> Start {
        Start::At(self.0.now())
    }
}

/// How a shard ended.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one of it, and it is nearly always the large one"
)]
pub enum Ended {
    /// It did its load, to its end or until it was stopped.
    Ran(ShardReport),
    /// It did none: why. It has no result, not even an empty one.
    NotStarted(String),
}
