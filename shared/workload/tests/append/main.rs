//! The append workload against databases: PostgreSQL where
//! `FABRIC_TEST_POSTGRES` names one, and the simulator.

#![allow(missing_docs, reason = "tests")]

mod backend;
mod whole;
mod wire;
