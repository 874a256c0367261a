//! Orders and transfers against databases: PostgreSQL where
//! `FABRIC_TEST_POSTGRES` names one, and the simulator.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

// As the other crates call it.
extern crate fabric_workload as workload;

#[path = "../common/mod.rs"]
mod common;

mod backend;
mod broken;
mod contention;
mod faults;
mod rules;
mod unknown;
mod whole;

use common::wire;
