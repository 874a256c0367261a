//! The fleet's protocol: workers that start together, stop in time and report
//! once, and a run that always ends in a state that says how.
//!
//! It is written over two small traits, [`Store`] and [`Queue`]. `shared/cloud`
//! implements them on DynamoDB, S3 and SQS; [`embedded`] does in memory, so that
//! the planner, workers and the conductor run in one process in virtual time.
//!
//! # How a run goes
//!
//! ```text
//! run::start ── plan, run ─► store;  look ─► control queue
//!                                               │
//!              ┌────────────────────────────────┘
//!              ▼
//! conductor::look   reads the run and its wave, takes the next step, says when
//!              │    it will look again
//!              ├─ tasks ─► wave queues of the regions ─► worker::handle
//!              │             claim, barrier, load (or prepare, verify, clean),
//!              │             result ─► store;  the last one: look ─► control queue
//!              ▼
//! finish::report    waves added up ─► summary, report; the run's outcome
//! ```
//!
//! # Why it holds
//!
//! - **All state is in the store, and every step is one conditional change.**
//!   A message is only a hint to look; twice is as good as once, and one that is
//!   lost is made up for by [`run::revive`], which a schedule calls.
//! - **No load is run twice.** A task's owner turns it from `claimed` to
//!   `running` before the load begins, and nothing turns it back.
//! - **No result counts twice.** What a worker wrote counts if the task is `done`
//!   by that worker. Before a wave goes on, every task that is not done is `lost`,
//!   and no result of it is taken any more.
//! - **Clocks may differ.** A start instant is compared with a worker's own
//!   clock, and a worker that is too late by it does no load. A lease is longer
//!   than clocks differ, and a worker whose lease could not be renewed stops.
//!
//! # What is not here
//!
//! SQL and connections (`drive` and below), AWS (`cloud`), decoding of Lambda
//! events (`functions`). No transaction over several items is needed, and no
//! item is written by more than 32 workers.

pub mod embedded;
pub mod handler;
pub mod ids;
pub mod message;
pub mod queue;
pub mod run;
pub mod store;

mod conductor;
mod driver;
mod env;
mod finish;
mod record;
mod results;
mod spend;
mod tally;
mod work;
mod worker;

pub use conductor::{Looked, look};
pub use driver::{Driver, Kept as KeptTargets};
pub use env::{Env, Settings};
pub use finish::{FILES, Finished, RunOutcome};
pub use ids::{ACTIVE, RunId, Stage, TaskId, WaveId};
pub use message::{BadMessage, Body, Job, Look, Message, Task};
pub use queue::{LONGEST_DELAY, Queue, To};
pub use record::{RunRecord, TaskRecord, TaskState, WaveRecord};
pub use results::{WaveResult, op_row};
pub use spend::Spent;
pub use store::{Attr, Change, Changed, Item, Key, Offset, Read, Store, StoreError, When};
pub use work::{Counts, Found, Live, Outcome, Work};
pub use worker::{Handled, Invocation, handle};
