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

/// An operation that ended in the measured window.
///
/// Its attempts are counted at its end: a starved append puts all of its 25
/// into the second in which it was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// It committed.
    pub committed: bool,
    /// It failed. Neither committed nor failed is rejected.
    pub failed: bool,
    /// Attempts that it made.
    pub attempts: u64,
    /// Attempts of it that lost a race.
    pub conflicts: u64,
    /// Planned start to end.
    pub response: Duration,
}

/// What happened in one span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Operations that ended.
    pub ended: u64,
    /// Operations among them that committed.
    pub committed: u64,
    /// Operations among them that failed.
    pub failed: u64,
    /// Attempts of the operations that ended.
    pub attempts: u64,
    /// Attempts among them that lost a race.
    pub conflicts: u64,
    /// Response times of the operations that ended, added up, in us.
    pub response_us: u64,
    /// The longest of them, in us.
    pub response_max_us: u64,
}

impl Bucket {
    /// Mean response time of the operations that ended, in milliseconds.
    pub fn response_mean_ms(&self) -> Option<f64> {
        (self.ended > 0).then(|| self.response_us as f64 / self.ended as f64 / 1_000.0)
    }

    fn record(&mut self, event: Event) {
        let Event {
            committed,
            failed,
            attempts,
            conflicts,
            response,
        } = event;
        let response_us = u64::try_from(response.as_micros()).unwrap_or(u64::MAX);
        self.merge(&Bucket {
            ended: 1,
            committed: u64::from(committed),
            failed: u64::from(failed),
            attempts,
            conflicts,
            response_us,
            response_max_us: response_us,
        });
    }

    fn merge(&mut self, other: &Bucket) {
        let Bucket {
            ended,
            committed,
            failed,
            attempts,
            conflicts,
            response_us,
            response_max_us,
        } = other;
        self.ended += ended;
        self.committed += committed;
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

    fn event(committed: bool, attempts: u64, response_ms: u64) -> Event {
        Event {
            committed,
            failed: !committed,
            attempts,
            conflicts: attempts - u64::from(committed),
            response: Duration::from_millis(response_ms),
        }
    }

    #[test]
    fn four_minutes_have_a_resolution_of_a_second() {
        let mut series = Series::default();
        series.record(0, event(true, 1, 181));
        series.record(239 * SECOND + 999_999, event(false, 25, 15_000));
        assert_eq!(series.width_us(), SECOND);
        assert_eq!(series.buckets().len(), 240);
        series.record(240 * SECOND, event(true, 2, 400));
        assert_eq!(series.width_us(), 2 * SECOND);
        assert_eq!(series.buckets().len(), 121);
        assert_eq!(series.buckets()[0].response_mean_ms(), Some(181.0));
        assert_eq!(series.buckets()[1].response_mean_ms(), None);
        assert_eq!(series.buckets()[119].failed, 1);
        assert_eq!(series.buckets()[120].conflicts, 1);
    }

    #[test]
    fn the_end_of_time_is_in_the_last_bucket() {
        let mut series = Series::default();
        series.record(u64::MAX, event(true, 1, 181));
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
        let event = (any::<bool>(), 1..26_u64, 0..20_000_u64)
            .prop_map(|(committed, attempts, ms)| event(committed, attempts, ms));
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
