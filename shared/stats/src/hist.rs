//! One latency histogram: the same bounds everywhere, allocated at its first
//! value, mergeable by adding counts.
//!
//! The bounds are those of an HDR histogram of 3 digits from 1 us to 1 h, so a
//! value is known to one part in a thousand and any two histograms of the
//! fabric can be added. An empty one owns no memory (a part keeps ten of them
//! and most stay empty); the first value allocates 8 KB and the counters grow
//! with the largest value, to 94 KB of 32-bit counters at an hour (allocator
//! slack can double that; it never exceeds 188 KB). A bucket saturates at 2^32
//! values, which is 47 hours of 25,000 equal operations a second.
//!
//! Beside the buckets two things are exact: the largest value, because "the
//! slowest took 16.2 s" should not be rounded, and how many values were out of
//! range, because they are counted and not dropped.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Significant digits of a value.
const DIGITS: u8 = 3;

/// Largest value that has a bucket: an hour in microseconds.
const HIGH_US: u64 = 3_600_000_000;

/// Latencies as counts per bucket; HDR, 3 digits, 1 us to 1 h.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Hist {
    /// Buckets of the values in range; `None` until the first one.
    buckets: Option<Box<Histogram<u32>>>,
    /// Values over [`HIGH_US`].
    out_of_range: u64,
    /// The largest value, in range or not.
    max_us: u64,
}

impl Hist {
    /// Records one value. What lies over an hour is counted as out of range;
    /// below a microsecond counts as one.
    pub fn record(&mut self, value: Duration) {
        let us = u64::try_from(value.as_micros()).unwrap_or(u64::MAX).max(1);
        self.max_us = self.max_us.max(us);
        // Growing fails only where a `usize` has fewer than 32 bits; such a
        // value has no bucket either.
        if us > HIGH_US || self.buckets_mut().record(us).is_err() {
            self.out_of_range += 1;
        }
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Hist) {
        let Hist {
            buckets,
            out_of_range,
            max_us,
        } = other;
        self.out_of_range += out_of_range;
        self.max_us = self.max_us.max(*max_us);
        let Some(theirs) = buckets else {
            return;
        };
        match &mut self.buckets {
            None => self.buckets = Some(theirs.clone()),
            Some(ours) => {
                // As in `record`: only a tiny `usize` can refuse the growth.
                if ours.add(theirs.as_ref()).is_err() {
                    self.out_of_range += theirs.len();
                }
            }
        }
    }

    /// Number of values, out-of-range ones included.
    pub fn n(&self) -> u64 {
        self.in_range() + self.out_of_range
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.n() == 0
    }

    /// Values over the range.
    pub fn out_of_range(&self) -> u64 {
        self.out_of_range
    }

    /// The value at a percentile (0 to 100) in milliseconds; `None` when empty.
    ///
    /// It is the smallest value that at least so many percent of all values do
    /// not exceed, to the histogram's resolution (one part in a thousand, never
    /// below it and never over the maximum). Out-of-range values count at the
    /// top: where the percentile falls among them the answer is the bound, one
    /// hour, which is then a lower limit.
    pub fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        // A millionth off, so that 99.9% of 1,000 is 999 and not, by the last
        // bit of 0.999, the one after.
        let share = (percentile / 100.0).clamp(0.0, 1.0);
        let rank = (share * self.n() as f64 - 1e-6).ceil().max(1.0) as u64;
        let us = match &self.buckets {
            // Half a value below the rank: the crate rounds up to the next
            // whole one, which is the rank for certain.
            Some(buckets) if rank <= buckets.len() => {
                buckets.value_at_quantile((rank as f64 - 0.5) / buckets.len() as f64)
            }
            _ => HIGH_US,
        };
        Some(ms(us.min(self.max_us)))
    }

    /// The largest value in milliseconds, exact; `None` when empty.
    pub fn max_ms(&self) -> Option<f64> {
        (!self.is_empty()).then(|| ms(self.max_us))
    }

    /// How many values are at most `limit`, to the histogram's resolution.
    pub fn count_at_most(&self, limit: Duration) -> u64 {
        let us = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        match &self.buckets {
            Some(buckets) if us > 0 => buckets.count_between(0, us.min(HIGH_US)),
            _ => 0,
        }
    }

    /// Values in range.
    fn in_range(&self) -> u64 {
        self.buckets.as_ref().map_or(0, |buckets| buckets.len())
    }

    /// The buckets that hold something, ascending: largest value, count.
    fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.iter().flat_map(|buckets| {
            buckets.iter_recorded().map(|step| {
                let top = buckets.highest_equivalent(step.value_iterated_to());
                (top, u64::from(step.count_at_value()))
            })
        })
    }

    fn buckets_mut(&mut self) -> &mut Histogram<u32> {
        self.buckets.get_or_insert_with(empty_buckets)
    }
}

/// Equal when they hold the same counts; how far each has grown is no part of it.
impl PartialEq for Hist {
    fn eq(&self, other: &Hist) -> bool {
        self.out_of_range == other.out_of_range
            && self.max_us == other.max_us
            && self.counts().eq(other.counts())
    }
}

impl Eq for Hist {}

fn empty_buckets() -> Box<Histogram<u32>> {
    // The constant is within the 0 to 5 digits that the crate allows.
    #[allow(clippy::expect_used)]
    let mut buckets = Histogram::new(DIGITS).expect("3 digits are allowed");
    buckets.auto(true);
    Box::new(buckets)
}

fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}

/// How a histogram travels from a shard to the one who merges: the buckets in
/// HdrHistogram's own V2 + DEFLATE form as base64, which any HDR tool reads.
#[derive(Serialize, Deserialize)]
struct Wire {
    max_us: u64,
    out_of_range: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hdr: Option<String>,
}

/// Why a histogram that was received can't be used.
#[derive(Debug, thiserror::Error)]
enum WireError {
    #[error("histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("histogram is not HDR V2: {0}")]
    Hdr(#[from] hdrhistogram::serialization::DeserializeError),
    #[error("histogram has other bounds than 3 digits from 1 us to 1 h")]
    Bounds,
}

impl From<Hist> for Wire {
    fn from(hist: Hist) -> Wire {
        let hdr = hist.buckets.map(|buckets| {
            let mut bytes = Vec::new();
            // Writing to a Vec cannot fail, and every 32-bit count is
            // representable; the serializer has no other errors.
            #[allow(clippy::expect_used)]
            V2DeflateSerializer::new()
                .serialize(&buckets, &mut bytes)
                .expect("a histogram of 32-bit counters can be written to memory");
            STANDARD.encode(bytes)
        });
        Wire {
            max_us: hist.max_us,
            out_of_range: hist.out_of_range,
            hdr,
        }
    }
}

impl TryFrom<Wire> for Hist {
    type Error = WireError;

    fn try_from(wire: Wire) -> Result<Hist, WireError> {
        let buckets = match wire.hdr {
            None => None,
            Some(text) => {
                let bytes = STANDARD.decode(text)?;
                let read: Histogram<u32> =
                    Deserializer::new().deserialize(&mut bytes.as_slice())?;
                if read.sigfig() != DIGITS || read.low() != 1 || read.max() > 2 * HIGH_US {
                    return Err(WireError::Bounds);
                }
                let mut buckets = empty_buckets();
                buckets.add(read).map_err(|_| WireError::Bounds)?;
                Some(buckets)
            }
        };
        Ok(Hist {
            buckets,
            out_of_range: wire.out_of_range,
            max_us: wire.max_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Hist {
        let mut hist = Hist::default();
        for us in values {
            hist.record(Duration::from_micros(*us));
        }
        hist
    }

    #[test]
    fn an_empty_one_owns_no_memory_and_says_nothing() {
        let hist = Hist::default();
        assert!(hist.buckets.is_none());
        assert_eq!((hist.n(), hist.max_ms()), (0, None));
        assert_eq!(hist.percentile_ms(50.0), None);
        assert_eq!(hist.count_at_most(Duration::from_secs(1)), 0);
    }

    #[test]
    fn one_value_is_every_percentile() {
        let hist = of(&[181_234]);
        for percentile in [0.0, 50.0, 99.9, 100.0] {
            assert_eq!(hist.percentile_ms(percentile), Some(181.234));
        }
        assert_eq!(hist.max_ms(), Some(181.234));
    }

    #[test]
    fn a_full_one_stays_within_its_bound() {
        let hist = of(&[1, HIGH_US]);
        let bytes = hist.buckets.unwrap().distinct_values() * size_of::<u32>();
        assert!(bytes <= 94 * 1024, "{bytes}");
    }

    #[test]
    fn what_is_out_of_range_is_counted() {
        let hist = of(&[0, 5, HIGH_US, HIGH_US + 1, u64::MAX]);
        assert_eq!((hist.n(), hist.out_of_range()), (5, 2));
        assert_eq!(hist.percentile_ms(1.0), Some(0.001));
        assert_eq!(hist.percentile_ms(100.0), Some(3_600_000.0));
        assert_eq!(hist.max_ms(), Some(u64::MAX as f64 / 1_000.0));
    }

    #[test]
    fn counts_up_to_a_limit() {
        let hist = of(&[100, 9_000, 10_000, 10_100, HIGH_US + 1]);
        assert_eq!(hist.count_at_most(Duration::from_millis(10)), 3);
        assert_eq!(hist.count_at_most(Duration::from_secs(7_200)), 4);
        assert_eq!(hist.count_at_most(Duration::ZERO), 0);
    }

    #[test]
    fn foreign_bounds_and_garbage_are_refused() {
        for text in [
            r#"{"max_us":1,"out_of_range":0,"hdr":"!"}"#,
            r#"{"max_us":1,"out_of_range":0,"hdr":"AAAA"}"#,
        ] {
            assert!(serde_json::from_str::<Hist>(text).is_err());
        }
        let mut two_digits = Histogram::<u32>::new(2).unwrap();
        two_digits.record(7).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&two_digits, &mut bytes)
            .unwrap();
        let hdr = Some(STANDARD.encode(bytes));
        let wire = Wire {
            max_us: 7,
            out_of_range: 0,
            hdr,
        };
        assert!(matches!(Hist::try_from(wire), Err(WireError::Bounds)));
    }

    /// Values over the whole range and beyond, dense where latencies are.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let one = prop_oneof![
            8 => 0..200_000_u64,
            3 => 0..20_000_000_u64,
            1 => 0..=HIGH_US + 1_000_000,
        ];
        prop::collection::vec(one, 0..200)
    }

    proptest! {
        #[test]
        fn merging_is_recording_all(a in values(), b in values(), c in values()) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            merged.merge(&of(&c));
            let all = of(&[a, b, c].concat());
            prop_assert_eq!(&merged, &all);
            for percentile in [0.0, 10.0, 50.0, 99.0, 99.9, 100.0] {
                prop_assert_eq!(merged.percentile_ms(percentile), all.percentile_ms(percentile));
            }
        }

        #[test]
        fn percentiles_are_those_of_the_raw_values(mut raw in values()) {
            let hist = of(&raw);
            raw.sort_unstable();
            for per_mille in [0, 250, 500, 950, 990, 999, 1_000] {
                let percentile = per_mille as f64 / 10.0;
                let rank = (per_mille * raw.len()).div_ceil(1_000).max(1);
                let exact = raw.get(rank - 1).map(|us| (*us).clamp(1, HIGH_US) as f64 / 1_000.0);
                match (hist.percentile_ms(percentile), exact) {
                    (None, None) => {}
                    (Some(ours), Some(exact)) => {
                        prop_assert!(ours >= exact && ours <= exact * 1.001, "{ours} {exact}");
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }

        #[test]
        fn it_survives_the_wire(raw in values(), more in values()) {
            let text = serde_json::to_string(&of(&raw)).unwrap();
            let mut back: Hist = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&back, &of(&raw));
            back.merge(&of(&more));
            prop_assert_eq!(back, of(&[raw, more].concat()));
        }
    }
}
