//! Aurora DSQL from outside: what it says, how long it takes, what it refuses
//! and how it fails, as a simulator. What it *decides* is `engine`'s: snapshots,
//! optimistic commits, SQL. This crate gives it a wire and a clock, and knows
//! nothing of the rest of the fabric.
//!
//! # The way of a statement
//!
//! ```text
//!  client                      pipe                        server
//!    | Bind Execute Sync  |               |                        |
//!    |------------------->|  half a trip  |----------------------->| turn: frames in order
//!    |                    |               |        begin: not before the statement before it,
//!    |                    |               |               not while the endpoint is frozen
//!    |                    |               |        Session::execute
//!    |                    |               |        service time drawn: the endpoint is busy
//!    |                    |               |        until then, and the answer leaves then
//!    |<-------------------|  half a trip  |<-----------------------| flush
//! ```
//!
//! 1. [`Cluster::dial`] opens a [`Pipe`]: bytes with the instant at which each
//!    arrives (`pipe`). Distance lies in the pipe, so statements in one flight
//!    pay for one flight.
//! 2. The server's end is one task. `startup` lets the client in, by the
//!    rules of `admission` and, where tokens are asked for, `token`.
//! 3. `connection` reads frames in place (`message`) and runs simple queries;
//!    `portal` is the extended protocol; `reply` writes the answers.
//! 4. The engine executes at the instant of arrival and says what kind of work
//!    it was; `service` draws how long that takes from the endpoint's
//!    distributions. The answer is written into the pipe at once, with its
//!    time on it (`link`): an awaited statement needs no timer of its own.
//! 5. COMMIT alone is waited for: it is decided in the middle of its service
//!    time (`commit`), at which instant it is visible everywhere.
//! 6. `faults` says what goes wrong and when, from the seed.
//!
//! [`serve`] is the same over TCP and TLS in real time: sockets feed pipes.
//!
//! # Time and chance
//!
//! A [`Preset`] states round trips and service times apart, each with its
//! source; tests add them up again to what was published. All time comes from
//! the `clock` crate; the same code runs in simulated and in real time.
//! Every connection has generators of its own, which follow from the seed and
//! the connection's number, one for each purpose; so neither a service time
//! nor a fault depends on how tasks are scheduled, and the same seed gives the
//! same run, instant for instant.
//!
//! # What is not modelled, and why
//!
//! - **Queueing inside DSQL**: no figure published shows its latency to rise
//!   with load (E002: p99 35.7 ms at 24,541 transactions a second, 30.4 ms at
//!   6,680). Every connection has its own query processor and waits for none.
//! - **Bandwidth, loss, jitter of the network**: sources give medians of round
//!   trips; what varies is attributed to the service times.
//! - **Partitions and their heat**: a hot range is as fast as any other.
//! - **COPY**: refused by the engine, as a statement outside of its subset.
//!
//! Where the simulator must say something for which DSQL's words are not known,
//! the message begins with `simulator:`.

mod admission;
mod cluster;
mod commit;
mod connection;
mod fault_plan;
mod faults;
mod link;
mod message;
mod negotiate;
mod pipe;
mod portal;
mod preset;
mod presets;
mod reply;
pub mod serve;
mod service;
mod startup;
mod tls;
mod token;

pub use admission::ConnectionLimits;
pub use cluster::Cluster;
pub use fault_plan::{FaultPlan, Late, Outage, Slow, Span};
pub use faults::FaultCounts;
pub use pipe::Pipe;
pub use preset::{Figure, Preset, Region, Source, Spread};
pub use presets::{preset, presets};
pub use token::Credentials;
