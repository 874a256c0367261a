//! The simulator from outside: through drivers, psql and bare messages.

// Helpers are tests too: clippy's exception for tests does not see them.
#![allow(clippy::unwrap_used)]

extern crate fabric_sim as sim;

mod common;
mod faults;
mod garbage;
mod hermitage;
mod latency;
mod limits;
mod protocol;
mod recorded;
mod tcp;
