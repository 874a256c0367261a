//! By how much this clock and the store's differ, from the `Date` that every
//! answer of DynamoDB carries.
//!
//! The store showed a time between D and D + 1 s (the header has whole seconds)
//! at some instant between sending at t0 and receiving at t1. So this clock less
//! the store's lies between t0 - (D + 1 s) and t1 - D. The intersection of these
//! ranges over many answers narrows down to about the round trip, since some
//! answers come just after the header has changed. An empty intersection means
//! that one of the clocks was set; then the newest range is believed.
//!
//! The figure is reported and nothing else: no step of the protocol depends on
//! clocks that agree.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use clock::Clock;
use fleet::Offset;

use crate::clients::lock;

/// The range that the offset lies in, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    range_ms: Option<(f64, f64)>,
}

impl Estimate {
    /// Takes an answer into account: sent and received by this clock, `date_s` by
    /// the store's, all since 1970.
    pub(crate) fn saw(&mut self, sent_ms: f64, received_ms: f64, date_s: i64) {
        let date_ms = date_s as f64 * 1e3;
        let seen = (sent_ms - date_ms - 1e3, received_ms - date_ms);
        let both = self
            .range_ms
            .map_or(seen, |(low, high)| (low.max(seen.0), high.min(seen.1)));
        self.range_ms = Some(if both.0 <= both.1 { both } else { seen });
    }

    /// What is known.
    pub(crate) fn offset(&self) -> Option<Offset> {
        self.range_ms.map(|(low, high)| Offset {
            ms: (low + high) / 2.0,
            error_ms: (high - low) / 2.0,
        })
    }
}

/// Watches one call.
#[derive(Debug)]
pub(crate) struct Watch {
    clock: Clock,
    estimate: Arc<Mutex<Estimate>>,
    /// When the current try was sent; tries of a call follow each other.
    sent_ms: Mutex<f64>,
}

impl Watch {
    pub(crate) fn new(clock: Clock, estimate: Arc<Mutex<Estimate>>) -> Watch {
        Watch {
            clock,
            estimate,
            sent_ms: Mutex::new(0.0),
        }
    }

    fn wall_ms(&self) -> f64 {
        let since = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0.0, |since: Duration| since.as_secs_f64() * 1e3)
    }
}

impl Intercept for Watch {
    fn name(&self) -> &'static str {
        "clock offset"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        *lock(&self.sent_ms) = self.wall_ms();
        Ok(())
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        if let Some(date) = date.and_then(seconds) {
            let (sent_ms, received_ms) = (*lock(&self.sent_ms), self.wall_ms());
            lock(&self.estimate).saw(sent_ms, received_ms, date);
        }
        Ok(())
    }
}

/// Seconds since 1970 of an HTTP date.
fn seconds(date: &str) -> Option<i64> {
    let date = DateTime::from_str(date, DateTimeFormat::HttpDate).ok()?;
    Some(date.secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of a store whose clock is `offset_ms` behind ours, `n` of them
    /// `every_ms` apart, each `wire_ms` each way.
    fn after(estimate: &mut Estimate, from_ms: f64, offset_ms: f64, n: u32) {
        let (every_ms, wire_ms) = (137.0, 3.0);
        for i in 0..n {
            let sent_ms = from_ms + f64::from(i) * every_ms;
            let date_s = ((sent_ms + wire_ms - offset_ms) / 1e3).floor() as i64;
            estimate.saw(sent_ms, sent_ms + 2.0 * wire_ms, date_s);
        }
    }

    #[test]
    fn nothing_is_known_before_the_first_answer() {
        assert_eq!(Estimate::default().offset(), None);
    }

    #[test]
    fn one_answer_gives_half_a_second() {
        let mut estimate = Estimate::default();
        estimate.saw(1_000_250.0, 1_000_270.0, 1_000);
        let offset = estimate.offset().unwrap();
        assert!((offset.error_ms - 510.0).abs() < 1e-6);
        assert!((offset.ms + 240.0).abs() < 1e-6, "{offset:?}");
    }

    #[test]
    fn many_answers_narrow_it_and_it_never_lies() {
        for real_ms in [-1_700.0, -3.0, 0.0, 412.0, 2_000.0] {
            let mut estimate = Estimate::default();
            after(&mut estimate, 5e6, real_ms, 200);
            let offset = estimate.offset().unwrap();
            assert!(offset.error_ms < 20.0, "{offset:?}");
            assert!((offset.ms - real_ms).abs() <= offset.error_ms, "{offset:?}");
        }
    }

    #[test]
    fn after_a_clock_was_set_it_starts_again() {
        let mut estimate = Estimate::default();
        after(&mut estimate, 5e6, 100.0, 200);
        after(&mut estimate, 6e6, 5_100.0, 200);
        let offset = estimate.offset().unwrap();
        assert!((offset.ms - 5_100.0).abs() <= offset.error_ms, "{offset:?}");
        assert!(offset.error_ms < 20.0, "{offset:?}");
    }

    #[test]
    fn http_dates_are_read() {
        assert_eq!(seconds("Thu, 01 Jan 1970 00:01:00 GMT"), Some(60));
        for bad in ["", "yesterday", "2026-01-01T00:00:00Z"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
