//! One latency histogram: the same bounds everywhere, allocated at its first
//! value, mergeable by adding counts.

use std::time::Duration;

/// HDR, 3 digits, 1 us to 1 h. Values are microseconds.
#[derive(Clone, Debug, Default)]
pub struct Hist {}

impl Hist {
    /// Records one value. What lies over an hour is counted as out of range;
    /// below a microsecond counts as one.
    pub fn record(&mut self, _value: Duration) {
        unimplemented!()
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, _other: &Hist) {
        unimplemented!()
    }

    /// Number of values, out-of-range ones included.
    pub fn n(&self) -> u64 {
        unimplemented!()
    }

    /// Values over the range.
    pub fn out_of_range(&self) -> u64 {
        unimplemented!()
    }

    /// The value at a percentile (0 to 100) in milliseconds; `None` when empty.
    pub fn percentile_ms(&self, _percentile: f64) -> Option<f64> {
        unimplemented!()
    }

    /// The largest value in milliseconds; `None` when empty.
    pub fn max_ms(&self) -> Option<f64> {
        unimplemented!()
    }
}
