//! Merging shards is the same as recording everything in one place.

use std::time::Duration;

use fabric_stats::counts::STARVED;
use fabric_stats::{Event, Part, ShardResult};
use proptest::prelude::*;

/// Everything that a shard can be told, in the terms of its recorder.
#[derive(Clone, Debug)]
enum Told {
    /// An operation that ended.
    Ended {
        endpoint: usize,
        kind: usize,
        start_us: u64,
        attempts: u64,
        attempt_us: u64,
        end: u8,
    },
    Planned(u8),
    RoundTrip {
        endpoint: usize,
        before: bool,
        us: u64,
    },
    Wire(usize, u64),
    Cpu(f64),
    Offset(i64),
    Late(u64),
    Aborted,
    Stopped,
}

const ENDPOINTS: [&str; 2] = ["us-east-1", "us-east-2"];
const KINDS: [&str; 2] = ["order", "transfer"];

fn told() -> impl Strategy<Value = Told> {
    let ended = (
        0..2_usize,
        0..2_usize,
        0..900_000_000_u64,
        1..26_u64,
        1..900_000_u64,
        0..7_u8,
    )
        .prop_map(
            |(endpoint, kind, start_us, attempts, attempt_us, end)| Told::Ended {
                endpoint,
                kind,
                start_us,
                attempts,
                attempt_us,
                end,
            },
        );
    let trip = (0..2_usize, any::<bool>(), 1..60_000_u64).prop_map(|(endpoint, before, us)| {
        Told::RoundTrip {
            endpoint,
            before,
            us,
        }
    });
    prop_oneof![
        12 => ended,
        2 => (0..4_u8).prop_map(Told::Planned),
        3 => trip,
        1 => (0..2_usize, 1..60_000_u64).prop_map(|(e, us)| Told::Wire(e, us)),
        1 => (0..400_u32).prop_map(|quarters| Told::Cpu(f64::from(quarters) / 4.0)),
        1 => (-5_000..5_000_i64).prop_map(Told::Offset),
        1 => (0..50_000_u64).prop_map(Told::Late),
        1 => Just(Told::Aborted),
        1 => Just(Told::Stopped),
    ]
}

/// Records one thing; every field of the result is reached by some of them.
fn record(result: &mut ShardResult, told: &Told) {
    match told {
        Told::Ended {
            endpoint,
            kind,
            start_us,
            attempts,
            attempt_us,
            end,
        } => {
            let response = Duration::from_micros(attempts * attempt_us);
            let end_us = start_us + attempts * attempt_us;
            let parts = [
                &mut result.total,
                result
                    .by_endpoint
                    .entry(ENDPOINTS[*endpoint].into())
                    .or_default(),
                result.by_operation.entry(KINDS[*kind].into()).or_default(),
            ];
            for part in parts {
                record_end(
                    part,
                    *attempts,
                    Duration::from_micros(*attempt_us),
                    response,
                    *end,
                );
            }
            result.series.record(
                end_us,
                Event {
                    committed: *end > 2,
                    failed: *end == 0 || *end == 2,
                    attempts: *attempts,
                    conflicts: *attempts - 1,
                    response,
                },
            );
            for first in [&mut result.first_start_us, &mut result.leg_first_us] {
                let first = first.get_or_insert(*start_us);
                *first = (*first).min(*start_us);
            }
            for last in [&mut result.last_end_us, &mut result.leg_last_us] {
                let last = last.get_or_insert(end_us);
                *last = (*last).max(end_us);
            }
        }
        Told::Planned(fate) => {
            let counts = &mut result.total.counts;
            counts.planned += 1;
            match fate {
                0 => counts.skipped += 1,
                1 => counts.unfinished += 1,
                2 => counts.lost += 1,
                _ => counts.fail("connect_timeout"),
            }
        }
        Told::RoundTrip {
            endpoint,
            before,
            us,
        } => {
            let trips = result
                .round_trips
                .entry(ENDPOINTS[*endpoint].into())
                .or_default();
            let hist = if *before {
                &mut trips.before
            } else {
                &mut trips.after
            };
            hist.record(Duration::from_micros(*us));
        }
        Told::Wire(endpoint, us) => {
            let trips = result
                .round_trips
                .entry(ENDPOINTS[*endpoint].into())
                .or_default();
            trips.wire_us = Some(trips.wire_us.map_or(*us, |seen| seen.min(*us)));
        }
        Told::Cpu(pct) => {
            result.cpu_peak_pct = Some(result.cpu_peak_pct.map_or(*pct, |seen| seen.max(*pct)));
        }
        Told::Offset(us) => {
            let seen = result.clock_offset_us.unwrap_or(*us);
            let farther = (us.unsigned_abs(), *us) > (seen.unsigned_abs(), seen);
            result.clock_offset_us = Some(if farther { *us } else { seen });
        }
        Told::Late(us) => {
            result.start_late_us = Some(result.start_late_us.map_or(*us, |seen| seen.max(*us)));
        }
        Told::Aborted => result.aborted = true,
        Told::Stopped => result.stopped = true,
    }
}

fn record_end(part: &mut Part, attempts: u64, attempt: Duration, response: Duration, end: u8) {
    let Part {
        counts,
        latencies,
        in_window,
    } = part;
    counts.planned += 1;
    counts.attempts += attempts;
    counts.conflicts += attempts - 1;
    counts.retried += u64::from(attempts > 1);
    latencies.response.record(response);
    latencies.service.record(attempt);
    latencies.lag.record(Duration::from_micros(attempts));
    latencies.wait.record(attempt / 7);
    latencies.connect.record(attempt / 3);
    latencies.commit.record(attempt / 2);
    in_window.attempts += attempts;
    match attempt.checked_sub(Duration::from_millis(90)) {
        Some(net) => latencies.net.record(net),
        None => latencies.net_negative += 1,
    }
    match end {
        0 => {
            counts.fail(STARVED);
            latencies.failed.record(response);
        }
        1 => counts.rejected += 1,
        2 => {
            counts.fail("unresolved");
            counts.unknown.total += 1;
            counts.unknown.unresolved += 1;
        }
        _ => {
            counts.committed += 1;
            counts.attempts_of_committed += attempts;
            counts.records += 10;
            in_window.committed += 1;
            in_window.records += 10;
            latencies.committed.record(response);
            if attempts == 1 {
                counts.first_try += 1;
                latencies.first_try.record(response);
            }
            if end == 3 {
                counts.unknown.total += 2;
                counts.unknown.committed += 1;
                counts.unknown.absent += 1;
            }
        }
    }
}

fn of<'a>(told: impl IntoIterator<Item = &'a Told>) -> ShardResult {
    let mut result = ShardResult {
        window_us: Some(20_000_000),
        ..ShardResult::default()
    };
    for one in told {
        record(&mut result, one);
    }
    result
}

proptest! {
    #[test]
    fn merging_shards_is_recording_all(
        told in prop::collection::vec((told(), 0..3_usize), 0..120),
    ) {
        let shard = |index| of(told.iter().filter(move |(_, shard)| *shard == index).map(|(t, _)| t));
        let (a, b, c) = (shard(0), shard(1), shard(2));
        let all = of(told.iter().map(|(t, _)| t));

        let mut forwards = a.clone();
        forwards.merge(&b);
        forwards.merge(&c);
        prop_assert_eq!(&forwards, &all);

        let mut backwards = c;
        backwards.merge(&b);
        backwards.merge(&a);
        prop_assert_eq!(&backwards, &all);

        prop_assert_eq!(all.total.counts.unaccounted(), 0);
        prop_assert_eq!(all.total.counts.unknown.unaccounted(), 0);

        let mut with_nothing = all.clone();
        with_nothing.merge(&ShardResult::default());
        prop_assert_eq!(&with_nothing, &all);
    }

    #[test]
    fn a_result_survives_the_wire(told in prop::collection::vec(told(), 0..60)) {
        let result = of(&told);
        let text = serde_json::to_string(&result).unwrap();
        prop_assert_eq!(serde_json::from_str::<ShardResult>(&text).unwrap(), result);
    }
}

#[test]
fn a_count_divides_by_first_start_to_last_end_and_a_window_by_itself() {
    let mut result = ShardResult {
        first_start_us: Some(500_000),
        last_end_us: Some(4_500_000),
        ..ShardResult::default()
    };
    result.total.counts.committed = 22;
    result.total.counts.records = 220;
    result.total.counts.attempts = 40;
    let rates = result.rates_of(&result.total);
    assert_eq!(rates.throughput_per_s(), Some(5.5));
    assert_eq!(rates.records_per_s(), Some(55.0));
    assert_eq!(rates.attempts_per_s(), Some(10.0));

    result.window_us = Some(2_000_000);
    result.total.in_window.committed = 12;
    let mut rates = result.rates_of(&result.total);
    assert_eq!(rates.throughput_per_s(), Some(6.0));

    rates.merge(&result.rates_of(&result.total));
    assert_eq!((rates.done.committed, rates.span_us), (24, Some(4_000_000)));
}

#[test]
fn what_did_not_run_has_no_rate() {
    let result = ShardResult::default();
    let mut rates = result.rates_of(&result.total);
    assert_eq!(rates.throughput_per_s(), None);
    rates.merge(&result.rates_of(&result.total));
    assert_eq!(rates.records_per_s(), None);
}
