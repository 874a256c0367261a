//! Chains: a stream's head row lets one commit through at a time, so several
//! writers together commit hardly faster than one.
//!
//! ```text
//! stream    : one writer commits once an attempt; several writers together
//!             commit 0.5 to 1.8 times as often
//! window    = records / (streams x rate), or as long as it is
//! ```

use super::dpu::{Attempt, ROW_LEAST_BYTES, of_leaving, of_load};
use super::site::Site;
use super::{Load, Range, SERVICE_ROW_MS};
use crate::cell::{AppendParams, Trips};

/// Service times of one append of one record, its statements and COMMIT
/// added: median-like and 99th percentile of the published figures.
const SERVICE_ONE_REGION_MS: Range = Range::new(7.0, 16.0);
const SERVICE_TWO_REGIONS_MS: Range = Range::new(27.0, 38.0);
const SERVICE_POSTGRES_MS: Range = Range::new(0.5, 20.0);
/// Commits of a contended stream, relative to those of a lone writer.
pub(super) const CONTENDED: Range = Range::new(0.5, 1.8);
/// Of a record beside its payload: stream, seq and two hashes.
const RECORD_BYTES: f64 = 8.0 + 8.0 + 32.0 + 32.0;

/// What one wave of appends takes.
pub(super) fn load(params: &AppendParams, site: &Site, round_trip: Range) -> Load {
    let streams = f64::from(params.streams);
    let writers = f64::from(params.writers);
    let service = match (site.dsql, site.regions()) {
        (false, _) => SERVICE_POSTGRES_MS,
        (true, 1) => SERVICE_ONE_REGION_MS,
        (true, _) => SERVICE_TWO_REGIONS_MS,
    };
    let rows = f64::from(params.batch) - 1.0;
    let attempt_s =
        (flights(params).times(round_trip) + service + SERVICE_ROW_MS.scaled(rows)).scaled(1e-3);
    let contended = match params.writers {
        1 => Range::exactly(1.0),
        _ => CONTENDED,
    };
    // Commits a second of one stream.
    let rate = Range::new(
        contended.low / attempt_s.high,
        contended.high / attempt_s.low,
    );

    let (operations, window_s) = match (params.operations(), params.measure_s) {
        (Some(operations), _) => {
            let operations = operations as f64;
            let of_stream = operations / streams;
            let seconds = Range::new(of_stream / rate.high, of_stream / rate.low);
            (Range::exactly(operations), seconds)
        }
        (None, seconds) => {
            let seconds = seconds.unwrap_or(0.0);
            (rate.scaled(streams * seconds), Range::exactly(seconds))
        }
    };
    // What runs to warm up is not counted, but takes time and costs.
    let load = operations + rate.scaled(streams * params.warmup_s);
    let records = match params.records {
        Some(records) if params.warmup_s == 0.0 => Range::exactly(records as f64 * streams),
        _ => load.scaled(f64::from(params.batch)),
    };

    let attempts = load.times(attempts_per_commit(
        params,
        operations.low / (streams * writers),
    ));
    let row_bytes = ROW_LEAST_BYTES.max(RECORD_BYTES + f64::from(params.payload_bytes));
    let regions = site.regions().min(2) as f64;
    let attempt = Attempt {
        open_s: attempt_s,
        reads: Range::exactly(1.0),
        bytes: Range::exactly(f64::from(params.batch) * row_bytes + ROW_LEAST_BYTES),
    };
    Load {
        operations,
        window_s,
        rows_ms: SERVICE_ROW_MS.times(records),
        dpu: of_load(&attempt, load, attempts, regions) + of_leaving(records, row_bytes, regions),
    }
}

/// Flights that one attempt awaits.
fn flights(params: &AppendParams) -> Range {
    match (params.trips, params.writers) {
        (Trips::Stepwise, _) => Range::exactly(5.0),
        (Trips::Pipelined, _) => Range::exactly(2.0),
        (Trips::Sticky, 1) => Range::exactly(1.0),
        // After a lost race the head is read again.
        (Trips::Sticky, _) => Range::new(1.0, 2.0),
    }
}

/// Attempts that a committed append needs. The report saw 1.0 at one writer
/// and 10.8 at 64. Where a writer has but a few operations, all of them start
/// at once and each round lets one through.
fn attempts_per_commit(params: &AppendParams, operations_each: f64) -> Range {
    let rivals = f64::from(params.writers - 1);
    let high = match operations_each <= 2.0 {
        true => 1.0 + rivals / 2.0,
        false => 1.0 + rivals / 4.0,
    };
    let most = f64::from(params.retry.max_attempts);
    Range::new((1.0 + rivals / 32.0).min(most), high.min(most))
}
