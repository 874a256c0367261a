//! Runs one shard of a wave: its connections, its schedule, every operation
//! with its attempts, and the phases around the measured window.
//!
//! # How data flows
//!
//! ```text
//! Load, Workload, Target ──► run_shard
//!                              │ open      every writer's connection, before the barrier
//!                              │ probe     SELECT 1 at each endpoint: the round trip
//!                              │ gate      when, or whether, the load begins
//!                              │ barrier   that instant; warm-up, then the window
//!                              │ writers   one closed loop each ──► operation ──► attempts
//!                              │ probe     the round trip again
//!                              ▼
//!                            ShardReport: stats::ShardResult, claims, rows
//! ```
//!
//! A shard does not know whether it is alone. The gate ([`Gate`]) answers it when
//! the load begins: at once ([`AtOnce`]), or when all shards of its wave are
//! ready. [`Rep`] is a rep of a cell as everybody sees it who runs a part of one:
//! it knows which workload a cell has and keeps that from them.
//!
//! A writer is a closed loop over one connection: an operation is planned at
//! the instant the one before it ended. `operation` is the only retry loop in
//! the fabric; what is retried and for how long is data ([`plan::Retry`]).
//!
//! # Rules that the numbers rest on
//!
//! - A retry runs the same operation with the same inputs.
//! - Latency counts from the planned start and includes every attempt, pause,
//!   reconnect and look-up.
//! - An operation belongs to the window that its planned start falls in;
//!   throughput counts commits that fall into the window.
//! - Every operation ends in exactly one outcome. What was running when the
//!   shard was stopped is `unfinished`, what was never started `skipped`.
//! - A COMMIT without an answer is an unknown outcome. It is looked up before
//!   the operation goes on; what cannot be settled in time is `unresolved`, and
//!   verification settles it ([`ShardReport::settle`]).
//!
//! # What is not here
//!
//! SQL (the workload's), SQLSTATEs (the target's), waves, other shards and
//! queues (the fleet's). The database is whatever `target` connects to.

mod cell;
mod connection;
mod cpu;
mod gate;
mod load;
mod locks;
mod opening;
mod operation;
mod probe;
mod record;
mod report;
mod seed;
mod shard;
mod steps;
mod stop;
mod writer;

pub use cell::{Rep, Settings, rep_seed};
pub use gate::{AtOnce, Ended, Gate, Opened, Start};
pub use load::{Load, Opening, Progress};
pub use report::{Row, ShardReport};
pub use seed::{Purpose, rng};
pub use shard::run_shard;
pub use steps::{clean, prepare, verify, verifying_endpoint};
pub use stop::{Stop, StopHandle, stop};
