//! The conductor function.

fn main() {}
