//! Sessions that wait for locks, as somebody saw them who looked from time to
//! time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What the looks came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWaits {
    /// How often somebody looked.
    pub looks: u64,
    /// Sessions that waited, added up over the looks: divided by `looks`, how
    /// many waited on average.
    pub waiting: u64,
    /// The most that waited at once.
    pub peak: u64,
    /// The longest that a waiting statement had been running, us.
    pub longest_us: u64,
}

impl LockWaits {
    /// One look.
    pub fn saw(&mut self, waiting: u64, longest: Duration) {
        self.merge(&LockWaits {
            looks: 1,
            waiting,
            peak: waiting,
            longest_us: u64::try_from(longest.as_micros()).unwrap_or(u64::MAX),
        });
    }

    /// Adds the looks of another.
    pub fn merge(&mut self, other: &LockWaits) {
        let LockWaits {
            looks,
            waiting,
            peak,
            longest_us,
        } = other;
        self.looks += looks;
        self.waiting += waiting;
        self.peak = self.peak.max(*peak);
        self.longest_us = self.longest_us.max(*longest_us);
    }

    /// Sessions that waited, on average over the looks.
    pub fn mean(&self) -> Option<f64> {
        (self.looks > 0).then(|| self.waiting as f64 / self.looks as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_add_up() {
        let mut seen = LockWaits::default();
        assert_eq!(seen.mean(), None);
        seen.saw(0, Duration::ZERO);
        seen.saw(3, Duration::from_millis(20));
        seen.saw(6, Duration::from_millis(5));
        assert_eq!(seen.mean(), Some(3.0));
        assert_eq!((seen.peak, seen.longest_us), (6, 20_000));
    }
}
