//! What the tests of all workloads share.

#![allow(dead_code, reason = "each of them uses a part")]

pub mod backend;
pub mod faults;
pub mod wire;
