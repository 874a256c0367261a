//! The course of a rep over time, in bounded memory.
//!
//! Buckets are one second wide at first. When something happens beyond the
//! 240th, neighbours are added together and the width doubles, so 4 minutes
//! have a resolution of 1 s, 8 minutes of 2 s, an hour of 15 s or better, and
//! no rep needs more than 240 buckets. The width follows from the latest event
//! alone, never from the order of recording; two series of different widths
//! merge by widening the finer one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Width of a bucket before anything doubled it.
const FIRST_WIDTH_US: u64 = 1_000_000;

/// Most buckets that a series has.
const MAX_BUCKETS: u64 = 240;

/// Something that happened in the measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An attempt ended; `conflict` when it lost a race.
    Attempt {
        /// It lost a race.
        conflict: bool,
    },
    /// An operation committed.
    Committed {
        /// Its response time.
        response: Duration,
    },
    /// A business rule refused an operation.
    Rejected {
        /// Its response time.
        response: Duration,
    },
    /// An operation failed.
    Failed {
        /// Its response time.
        response: Duration,
    },
}

/// What happened in one span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Operations that committed.
    pub committed: u64,
    /// Operations that a business rule refused.
    pub rejected: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Attempts that ended.
    pub attempts: u64,
    /// Attempts that lost a race.
    pub conflicts: u64,
    /// Response times of the operations that ended, added up, in us.
    pub response_us: u64,
    /// The longest of them, in us.
    pub response_max_us: u64,
}

impl Bucket {
    /// Operations that ended.
    pub fn ended(&self) -> u64 {
        self.committed + self.rejected + self.failed
    }

    /// Mean response time of the operations that ended, in milliseconds.
    pub fn response_mean_ms(&self) -> Option<f64> {
        let ended = self.ended();
        (ended > 0).then(|| self.response_us as f64 / ended as f64 / 1_000.0)
    }

    fn record(&mut self, event: Event) {
        let response = match event {
            Event::Attempt { conflict } => {
                self.attempts += 1;
                self.conflicts += u64::from(conflict);
                return;
            }
            Event::Committed { response } => {
                self.committed += 1;
                response
            }
            Event::Rejected { response } => {
                self.rejected += 1;
                response
            }
            Event::Failed { response } => {
                self.failed += 1;
                response
            }
        };
        let us = u64::try_from(response.as_micros()).unwrap_or(u64::MAX);
        self.response_us = self.response_us.saturating_add(us);
        self.response_max_us = self.response_max_us.max(us);
    }

    fn merge(&mut self, other: &Bucket) {
        let Bucket {
            committed,
            rejected,
            failed,
            attempts,
            conflicts,
            response_us,
            response_max_us,
        } = other;
        self.committed += committed;
        self.rejected += rejected;
        self.failed += failed;
        self.attempts += attempts;
        self.conflicts += conflicts;
        self.response_us = self.response_us.saturating_add(*response_us);
        self.response_max_us = self.response_max_us.max(*response_max_us);
    }
}

/// A time series of at most 240 buckets whose width doubles when they run out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire")]
pub struct Series {
    /// How often the width has doubled.
    doublings: u32,
    /// Up to the last one in which something happened.
    buckets: Vec<Bucket>,
}

impl Series {
    /// Records an event at an instant, in us since the barrier.
    pub fn record(&mut self, at_us: u64, event: Event) {
        self.bucket_at(at_us).record(event);
    }

    /// Adds the events of another series with the same origin.
    pub fn merge(&mut self, other: &Series) {
        let Series { doublings, buckets } = other;
        self.widen_to(*doublings);
        for (index, bucket) in (0_u64..).zip(buckets) {
            let at_us = index * width_us(*doublings);
            self.bucket_at(at_us).merge(bucket);
        }
    }

    /// Width of a bucket, in us.
    pub fn width_us(&self) -> u64 {
        width_us(self.doublings)
    }

    /// The buckets from the barrier on, each [`Series::width_us`] wide.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    fn bucket_at(&mut self, at_us: u64) -> &mut Bucket {
        while at_us / self.width_us() >= MAX_BUCKETS {
            self.widen_to(self.doublings + 1);
        }
        // Below MAX_BUCKETS, so it fits any usize.
        let index = (at_us / self.width_us()) as usize;
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, Bucket::default());
        }
        &mut self.buckets[index]
    }

    fn widen_to(&mut self, doublings: u32) {
        while self.doublings < doublings {
            self.doublings += 1;
            self.buckets = self
                .buckets
                .chunks(2)
                .map(|pair| {
                    let mut sum = pair[0];
                    if let Some(second) = pair.get(1) {
                        sum.merge(second);
                    }
                    sum
                })
                .collect();
        }
    }
}

fn width_us(doublings: u32) -> u64 {
    FIRST_WIDTH_US
        .checked_shl(doublings)
        .filter(|width| width >> doublings == FIRST_WIDTH_US)
        .unwrap_or(u64::MAX)
}

/// A series as it is read back, before its bounds are checked.
#[derive(Deserialize)]
struct Wire {
    doublings: u32,
    buckets: Vec<Bucket>,
}

/// Why a series that was received can't be used.
#[derive(Debug, thiserror::Error)]
#[error("series has {buckets} buckets at {doublings} doublings; at most 240 and 44 are possible")]
struct WireError {
    buckets: usize,
    doublings: u32,
}

impl TryFrom<Wire> for Series {
    type Error = WireError;

    fn try_from(wire: Wire) -> Result<Series, WireError> {
        let Wire { doublings, buckets } = wire;
        if buckets.len() as u64 > MAX_BUCKETS || doublings > 44 {
            return Err(WireError {
                buckets: buckets.len(),
                doublings,
            });
        }
        Ok(Series { doublings, buckets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn four_minutes_have_a_resolution_of_a_second() {
        let mut series = Series::default();
        let response = Duration::from_millis(181);
        series.record(0, Event::Committed { response });
        series.record(239 * SECOND + 999_999, Event::Failed { response });
        assert_eq!(series.width_us(), SECOND);
        assert_eq!(series.buckets().len(), 240);
        series.record(240 * SECOND, Event::Attempt { conflict: true });
        assert_eq!(series.width_us(), 2 * SECOND);
        assert_eq!(series.buckets().len(), 121);
        assert_eq!(series.buckets()[0].response_mean_ms(), Some(181.0));
        assert_eq!(series.buckets()[119].failed, 1);
        assert_eq!(series.buckets()[120].conflicts, 1);
        assert_eq!(series.buckets()[120].response_mean_ms(), None);
    }

    #[test]
    fn the_end_of_time_is_in_the_last_bucket() {
        let mut series = Series::default();
        series.record(u64::MAX, Event::Attempt { conflict: false });
        assert!(series.buckets().len() <= 240);
        let text = serde_json::to_string(&series).unwrap();
        assert_eq!(serde_json::from_str::<Series>(&text).unwrap(), series);
    }

    #[test]
    fn a_series_beyond_its_bounds_is_refused() {
        let text = r#"{"doublings":60,"buckets":[]}"#;
        assert!(serde_json::from_str::<Series>(text).is_err());
    }

    fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
        let at = prop_oneof![0..20 * SECOND, 0..2_000 * SECOND];
        let event = (0..4_u8, any::<bool>(), 0..20_000_000_u64).prop_map(|(kind, conflict, us)| {
            let response = Duration::from_micros(us);
            match kind {
                0 => Event::Attempt { conflict },
                1 => Event::Committed { response },
                2 => Event::Rejected { response },
                _ => Event::Failed { response },
            }
        });
        prop::collection::vec((at, event), 0..60)
    }

    fn of(events: &[(u64, Event)]) -> Series {
        let mut series = Series::default();
        for (at, event) in events {
            series.record(*at, *event);
        }
        series
    }

    proptest! {
        #[test]
        fn merging_is_recording_all(a in events(), b in events()) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(&merged, &of(&[a.clone(), b.clone()].concat()));
            prop_assert_eq!(&merged, &of(&[b, a].concat()));
            prop_assert!(merged.buckets().len() as u64 <= MAX_BUCKETS);
        }
    }
}
