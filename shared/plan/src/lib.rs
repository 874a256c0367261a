//! Sweep file to cells, waves and shards; pure, no I/O. (Chapter to be
//! completed by the crate's author.)

mod cell;

pub use cell::*;
