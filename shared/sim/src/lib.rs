//! Aurora DSQL's outside as a simulator: protocol, latency, faults, servers.

mod admission;
mod cluster;
mod commit;
mod connection;
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
pub use faults::{FaultCounts, FaultPlan, Late, Outage, Slow, Span};
pub use pipe::Pipe;
pub use preset::{Figure, Preset, Region, Source, Spread};
pub use presets::{preset, presets};
pub use token::Credentials;
