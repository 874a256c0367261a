//! The whole fleet in one process: store and queues in memory, and a service
//! that does with the messages what Lambda and its triggers do.
//!
//! `fabric run --workers N` runs sweeps on it, in virtual time against the
//! simulator. The protocol's own tests run it with faults: calls that fail
//! before or after they were done, messages that come twice, late, in another
//! order or never, functions that crash at any await, clocks that are wrong.

mod faults;
mod memory;
mod service;

pub use faults::{FaultPlan, Happened, ShakyQueue, ShakyStore};
pub use memory::{Letter, MemoryQueue, MemoryStore};
pub use service::{Limits, Service, Stats};
