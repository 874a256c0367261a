//! The planner function.

fn main() {}
