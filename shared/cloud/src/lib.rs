//! The fleet's two traits on AWS, and what functions need around them.
//!
//! # How data flows
//!
//! ```text
//! fleet::Store ── CloudStore ─┬─ table ── expression ─► DynamoDB (home region)
//!                             ├─ blobs ──────────────► S3 (home region)
//!                             └─ dpu ────────────────► CloudWatch (the cluster's region)
//! fleet::Queue ── CloudQueue ──── queues ────────────► SQS (each region)
//! targets ─────── secrets ───────────────────────────► Secrets Manager
//! ```
//!
//! A function makes one [`Process`], which keeps what is worth keeping
//! ([`Clients`]; what the template says, [`Config`]); a store, a queue and targets
//! are made for each invocation, with its clock. A finished run becomes a line of
//! [`metrics`], everything else that a function says is a line of [`logs`].
//!
//! # Rules
//!
//! - One step of the protocol is one conditional UpdateItem; nothing here needs
//!   a transaction.
//! - A call ends within about ten seconds, all tries included (blobs within a
//!   minute), and an error says whether another one may help (`errors`).
//! - No error holds more than one line, and none a credential.
//!
//! # What is not here
//!
//! Receiving messages (Lambda does), the protocol (`fleet`), the control plane
//! of clusters and stacks (`cli`). Nothing here runs in virtual time: the SDK's
//! own time-outs do not know the scale.

mod blobs;
mod clients;
mod config;
mod dpu;
mod errors;
mod expression;
#[cfg(feature = "function")]
pub mod function;
pub mod logs;
pub mod metrics;
mod offset;
mod process;
mod queues;
mod secrets;
pub mod sqs_event;
mod store;
mod table;
mod targets;

pub use clients::Clients;
pub use config::{Config, ConfigError};
pub use process::{Process, deadline, settings};
pub use queues::CloudQueue;
pub use store::CloudStore;
pub use targets::Targets;
