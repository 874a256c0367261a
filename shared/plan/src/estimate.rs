//! What a plan will take: operations, connections, minutes, DPU, dollars.
//!
//! Every figure that is not counted is a range, and [`Estimate::basis`] says
//! what each range rests on. The model is coarse on purpose: it is made of
//! published figures alone and is there to tell cents from dollars and minutes
//! from hours before anything is paid for.
//!
//! ```text
//! attempt   = flights x round trip + service times
//! stream    : one writer commits once an attempt; several writers together
//!             commit 0.5 to 1.8 times as often, because the head row lets one
//!             commit through at a time
//! wave      = warm-up + records / (streams x rate) or the window
//!             + connecting + preparing, verifying and cleaning
//! DPU       = compute + read + write (+ write once more for a second region)
//! ```

use std::collections::BTreeMap;
use std::ops::Add;
use std::time::Duration;

use serde::Serialize;

use crate::cell::{AppendParams, Cell, Params, Trips};
use crate::error::grouped;
use crate::fleet::Fleet;
use crate::prices::PRICES;
use crate::shards::shards;
use crate::sweep::Plan;
use crate::target::{AddressKind, TargetSpec};

/// From `low` to `high`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Range {
    /// The least that is expected.
    pub low: f64,
    /// The most that is expected.
    pub high: f64,
}

impl Range {
    const fn new(low: f64, high: f64) -> Range {
        Range { low, high }
    }

    const fn exactly(value: f64) -> Range {
        Range::new(value, value)
    }

    fn times(self, other: Range) -> Range {
        Range::new(self.low * other.low, self.high * other.high)
    }

    fn scaled(self, factor: f64) -> Range {
        self.times(Range::exactly(factor))
    }
}

impl Add for Range {
    type Output = Range;
    fn add(self, other: Range) -> Range {
        Range::new(self.low + other.low, self.high + other.high)
    }
}

/// What the caller knows about the targets and about the load's side.
#[derive(Clone, Debug, Default)]
pub struct Assumptions {
    /// By the target's name; a target that is not there is guessed at.
    pub targets: BTreeMap<String, Setting>,
    /// The fleet that runs it; `None` when one worker runs all, as a run from
    /// one machine does.
    pub fleet: Option<Fleet>,
}

/// Where a target is, seen from the load.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Names of the endpoints in order; regions where they are known.
    pub endpoints: Vec<String>,
    /// Round trip to each, in milliseconds; empty where it is not known.
    pub round_trip_ms: Vec<f64>,
}

/// What one cell will take, all of its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellEstimate {
    /// Id of the cell.
    pub id: String,
    /// Name of its target.
    pub target: String,
    /// The target is simulated: minutes pass in simulated time, and DPU and
    /// dollars are those of the cluster that it stands for.
    pub simulated: bool,
    /// Waves: one for each repetition.
    pub waves: u32,
    /// Workers of one wave.
    pub workers: u32,
    /// Of these the most beside one endpoint.
    pub workers_per_region: u32,
    /// Connections of one wave.
    pub connections: u32,
    /// Operations.
    pub operations: Range,
    /// Minutes.
    pub minutes: Range,
    /// DPU; `None` on PostgreSQL.
    pub dpu: Option<Range>,
    /// US dollars; `None` where no price is known.
    pub dollars: Option<Range>,
}

/// What a plan will take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Cell by cell, in order.
    pub cells: Vec<CellEstimate>,
    /// Waves in all.
    pub waves: u64,
    /// Workers of the largest wave.
    pub workers: u32,
    /// The most workers of a wave beside one endpoint.
    pub workers_per_region: u32,
    /// How long the barrier of the largest wave waits, in seconds, when the
    /// deployed fleet's queues have standard pollers ([`polling_time`]);
    /// `None` without a fleet.
    pub barrier_s: Option<f64>,
    /// Connections of the largest wave.
    pub connections: u32,
    /// Operations in all.
    pub operations: Range,
    /// Minutes, one wave after the other.
    pub minutes: Range,
    /// DPU of the cells that cost any; `None` when none does.
    pub dpu: Option<Range>,
    /// US dollars; `None` unless every cell that costs DPU has a price.
    pub dollars: Option<Range>,
    /// What the ranges rest on, one line each.
    pub basis: Vec<String>,
}

/// Round trip where nothing is known: from inside a region to across an ocean.
const ANY_ROUND_TRIP_MS: Range = Range::new(1.0, 100.0);
/// Service times of one append of one record, its statements and COMMIT
/// added: median-like and 99th percentile of the published figures.
const SERVICE_ONE_REGION_MS: Range = Range::new(7.0, 16.0);
const SERVICE_TWO_REGIONS_MS: Range = Range::new(27.0, 38.0);
const SERVICE_POSTGRES_MS: Range = Range::new(0.5, 20.0);
/// Each further record of a batch; the upper bound is a bulk load of 12.5
/// million rows over 10 connections in 13 minutes.
const SERVICE_ROW_MS: Range = Range::new(0.02, 0.65);
/// Commits of a contended stream, relative to those of a lone writer.
const CONTENDED: Range = Range::new(0.5, 1.8);
/// Round trips of preparing, verifying and cleaning a small wave.
const AROUND_TRIPS: Range = Range::new(10.0, 40.0);
/// Connections that a cluster takes at once, and each second after that.
const CONNECT_BURST: f64 = 1000.0;
const CONNECT_RATE: f64 = 100.0;

/// ComputeDPU of AWS's example of a one-row insert.
const COMPUTE_LEAST: f64 = 0.008;
/// ComputeDPU for each second that a transaction is open, as measured by a
/// third party.
const COMPUTE_PER_OPEN_S: f64 = 1.0;
const READ_DPU_PER_BYTE: f64 = 0.000_001_831_05;
const READ_LEAST_BYTES: f64 = 2048.0;
const WRITE_DPU_PER_BYTE: f64 = 0.000_048_83;
const WRITE_LEAST_BYTES: f64 = 1024.0;
const ROW_LEAST_BYTES: f64 = 128.0;
/// Of a record beside its payload: stream, seq and two hashes.
const RECORD_BYTES: f64 = 8.0 + 8.0 + 32.0 + 32.0;
/// Rows that verification reads and clean-up deletes in one transaction.
const PAGE_ROWS: f64 = 1000.0;

/// Estimates a plan.
pub fn estimate(plan: &Plan, assumptions: &Assumptions) -> Estimate {
    let cells: Vec<CellEstimate> = plan
        .cells
        .iter()
        .filter_map(|cell| {
            let target = plan.target_of(cell)?;
            cell_estimate(cell, target, assumptions)
        })
        .collect();
    let sum =
        |of: fn(&CellEstimate) -> Range| cells.iter().map(of).fold(Range::default(), Range::add);
    let billed: Vec<&CellEstimate> = cells.iter().filter(|cell| cell.dpu.is_some()).collect();
    let dpu = billed.iter().filter_map(|cell| cell.dpu).reduce(Range::add);
    let dollars = billed
        .iter()
        .map(|cell| cell.dollars)
        .try_fold(Range::default(), |sum, cell| Some(sum + cell?))
        .filter(|_| !billed.is_empty());
    let workers_per_region = cells.iter().map(|cell| cell.workers_per_region).max();
    let workers_per_region = workers_per_region.unwrap_or(0);
    Estimate {
        waves: cells.iter().map(|cell| u64::from(cell.waves)).sum(),
        workers: cells.iter().map(|cell| cell.workers).max().unwrap_or(0),
        workers_per_region,
        barrier_s: assumptions
            .fleet
            .as_ref()
            .map(|_| polling_time(workers_per_region).as_secs_f64()),
        connections: cells.iter().map(|cell| cell.connections).max().unwrap_or(0),
        operations: sum(|cell| cell.operations),
        minutes: sum(|cell| cell.minutes),
        dpu,
        dollars,
        basis: basis(plan, assumptions, &cells),
        cells,
    }
}

/// What is known of a target, guesses filled in.
struct Site {
    endpoints: Vec<String>,
    /// Round trips of the endpoints; empty where it is not known.
    round_trip_ms: Vec<f64>,
    dsql: bool,
}

impl Site {
    fn of(target: &TargetSpec, assumptions: &Assumptions) -> Site {
        let dsql = *target.address.kind() != AddressKind::Postgres;
        let given = assumptions.targets.get(&target.name);
        let endpoints = match (given, target.address.kind()) {
            (Some(setting), _) if !setting.endpoints.is_empty() => setting.endpoints.clone(),
            (_, AddressKind::Dsql { hosts }) => match target.address.regions() {
                regions if regions.len() == hosts.len() => regions,
                _ => hosts.clone(),
            },
            _ => Vec::new(),
        };
        Site {
            endpoints,
            round_trip_ms: given.map_or_else(Vec::new, |setting| setting.round_trip_ms.clone()),
            dsql,
        }
    }

    fn regions(&self) -> usize {
        self.endpoints.len().max(1)
    }

    /// The round trips that a cell's writers have.
    fn round_trip(&self, params: &AppendParams) -> Range {
        let count = u32::try_from(self.round_trip_ms.len()).unwrap_or(u32::MAX);
        (0..params.total_writers().min(count))
            .filter_map(|writer| {
                let endpoint = params.placement.endpoint_of(writer, &self.endpoints).ok()?;
                self.round_trip_ms.get(endpoint).copied()
            })
            .map(Range::exactly)
            .reduce(|a, b| Range::new(a.low.min(b.low), a.high.max(b.high)))
            .unwrap_or(ANY_ROUND_TRIP_MS)
    }

    fn service_ms(&self) -> Range {
        match (self.dsql, self.regions()) {
            (false, _) => SERVICE_POSTGRES_MS,
            (true, 1) => SERVICE_ONE_REGION_MS,
            (true, _) => SERVICE_TWO_REGIONS_MS,
        }
    }

    /// Dollars for a DPU, from the regions whose price is known.
    fn price(&self) -> Option<Range> {
        self.endpoints
            .iter()
            .filter_map(|region| PRICES.of(region))
            .map(|price| Range::exactly(price.usd_per_million_dpu / 1e6))
            .reduce(|a, b| Range::new(a.low.min(b.low), a.high.max(b.high)))
    }
}

fn cell_estimate(
    cell: &Cell,
    target: &TargetSpec,
    assumptions: &Assumptions,
) -> Option<CellEstimate> {
    let Params::Append(params) = &cell.params else {
        return None;
    };
    let site = Site::of(target, assumptions);
    let round_trip = site.round_trip(params);
    let streams = f64::from(params.streams);
    let writers = f64::from(params.writers);
    let connections = params.total_writers();

    let rows = f64::from(params.batch) - 1.0;
    let attempt_s =
        (flights(params).times(round_trip) + site.service_ms() + SERVICE_ROW_MS.scaled(rows))
            .scaled(1e-3);
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
    let records = load.scaled(f64::from(params.batch));
    let records = match params.records {
        Some(records) if params.warmup_s == 0.0 => Range::exactly(records as f64 * streams),
        _ => records,
    };

    let connect_s = match site.dsql {
        true => ((f64::from(connections) - CONNECT_BURST) / CONNECT_RATE).max(0.0),
        false => 0.0,
    };
    let around_s = (AROUND_TRIPS.times(round_trip) + SERVICE_ROW_MS.times(records)).scaled(1e-3);
    let wave_s = window_s + around_s + Range::exactly(connect_s + params.warmup_s);

    let attempts = load.times(attempts_per_commit(
        params,
        operations.low / (streams * writers),
    ));
    let row_bytes = ROW_LEAST_BYTES.max(RECORD_BYTES + f64::from(params.payload_bytes));
    let dpu = site.dsql.then(|| {
        let regions = site.regions().min(2) as f64;
        appending(params, row_bytes, attempt_s, load, attempts, regions)
            + around(row_bytes, records, regions)
    });

    // What cannot be dealt out is refused elsewhere, with the reason.
    let dealt = assumptions.fleet.as_ref().map_or_else(
        || vec![0],
        |fleet| {
            // A target whose endpoints are not known has one at least.
            let unknown = [String::new()];
            let endpoints = match site.endpoints.as_slice() {
                [] => unknown.as_slice(),
                known => known,
            };
            let shards = shards(cell, endpoints, fleet).unwrap_or_default();
            shards.iter().map(|shard| shard.endpoint).collect()
        },
    );
    let waves = cell.reps;
    let dpu = dpu.map(|dpu| dpu.scaled(f64::from(waves)));
    Some(CellEstimate {
        id: cell.id.clone(),
        target: cell.target.clone(),
        simulated: matches!(target.address.kind(), AddressKind::Simulator { .. }),
        waves,
        workers: dealt.len() as u32,
        workers_per_region: busiest(&dealt),
        connections,
        operations: operations.scaled(f64::from(waves)),
        minutes: wave_s.scaled(f64::from(waves) / 60.0),
        dpu,
        dollars: dpu.and_then(|dpu| Some(dpu.times(site.price()?))),
    })
}

/// How often the endpoint is there that is there most often.
fn busiest(endpoints: &[u32]) -> u32 {
    let mut counts = BTreeMap::new();
    for endpoint in endpoints {
        *counts.entry(endpoint).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// How long the standard pollers of an SQS queue take until so many workers run
/// at once: 5 to begin with, and 300 more a minute.
///
/// Source: AWS Lambda developer guide, "Scaling behaviour for Amazon SQS event
/// source mappings". Provisioned pollers run 10 workers each from the start.
pub fn polling_time(workers: u32) -> Duration {
    Duration::from_millis(u64::from(workers.saturating_sub(5)) * 200)
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

/// DPU of the appends of one wave.
fn appending(
    params: &AppendParams,
    row_bytes: f64,
    attempt_s: Range,
    commits: Range,
    attempts: Range,
    regions: f64,
) -> Range {
    let compute = Range::new(COMPUTE_LEAST, COMPUTE_PER_OPEN_S * attempt_s.high);
    let read = Range::exactly(READ_LEAST_BYTES * READ_DPU_PER_BYTE);
    let bytes = f64::from(params.batch) * row_bytes + ROW_LEAST_BYTES;
    let write = bytes.max(WRITE_LEAST_BYTES) * WRITE_DPU_PER_BYTE * regions;
    // Whether an attempt that lost is billed for what it would have written is
    // not published.
    let written = Range::new(commits.low, attempts.high).scaled(write);
    attempts.times(compute + read) + written
}

/// DPU of verifying and deleting the records of one wave.
fn around(row_bytes: f64, records: Range, regions: f64) -> Range {
    let read = records.scaled(row_bytes * READ_DPU_PER_BYTE);
    let deleted = Range::new(ROW_LEAST_BYTES, row_bytes).scaled(WRITE_DPU_PER_BYTE * regions);
    let transactions = Range::new(
        (records.low / PAGE_ROWS).ceil().max(1.0) * 2.0,
        (records.high / PAGE_ROWS).ceil().max(1.0) * 2.0 + 10.0,
    );
    let least = COMPUTE_LEAST + READ_LEAST_BYTES * READ_DPU_PER_BYTE;
    read + records.times(deleted) + transactions.scaled(least)
}

/// What the ranges rest on.
fn basis(plan: &Plan, assumptions: &Assumptions, cells: &[CellEstimate]) -> Vec<String> {
    let sites: Vec<(&TargetSpec, Site)> = plan
        .targets
        .iter()
        .map(|target| (target, Site::of(target, assumptions)))
        .collect();
    let mut basis = Vec::new();
    for (target, site) in &sites {
        basis.push(match site.round_trip_ms.as_slice() {
            [] => format!(
                "{}: round trip not known, taken as {} to {} ms",
                target.name, ANY_ROUND_TRIP_MS.low, ANY_ROUND_TRIP_MS.high
            ),
            given => {
                let each: Vec<String> = given.iter().map(|ms| format!("{ms:.1}")).collect();
                format!("{}: round trips of {} ms", target.name, each.join(" and "))
            }
        });
    }
    basis.push(
        "minutes: flights x round trip, and published service times (medians to 99th percentiles)"
            .to_owned(),
    );
    basis.push(format!(
        "several writers on one stream commit {} to {} times as often as one; the hash-chain report measured 1.2 times at 64",
        CONTENDED.low, CONTENDED.high
    ));
    if cells.iter().any(|cell| cell.simulated) {
        basis.push(
            "simulated cells take seconds and cost nothing; their minutes, DPU and dollars are those of the cluster that is simulated".to_owned(),
        );
    }
    if cells.iter().any(|cell| cell.dpu.is_some()) {
        basis.push(
            "DPU: AWS's formulas for bytes read and written; compute from AWS's example (0.008 an insert) to 1 for each second that a transaction is open (measured by others)".to_owned(),
        );
        basis.push(
            "attempts: one more for every 32 to every 4 rivals on a stream (every 2 where each writer has 2 operations or fewer)".to_owned(),
        );
    }
    for (target, site) in sites.iter().filter(|(_, site)| site.dsql) {
        basis.push(price_line(&target.name, site));
    }
    basis
}

fn price_line(target: &str, site: &Site) -> String {
    let known: Vec<String> = site
        .endpoints
        .iter()
        .filter_map(|region| PRICES.of(region))
        .map(|price| {
            format!(
                "${:.2} per million DPU in {} ({}, {})",
                price.usd_per_million_dpu, price.region, price.as_of, price.source
            )
        })
        .collect();
    if known.is_empty() {
        return format!("{target}: no price is known here for its region, so no dollars");
    }
    let unknown: Vec<&str> = site
        .endpoints
        .iter()
        .filter(|region| PRICES.of(region).is_none())
        .map(String::as_str)
        .collect();
    let missing = match unknown.is_empty() {
        true => String::new(),
        false => format!(", taken for {} too", unknown.join(" and ")),
    };
    format!(
        "{target}: {}{missing}; without storage and the {} DPU a month that are free",
        known.join(" and "),
        grouped(PRICES.free_dpu_a_month)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overrides, parse};

    fn plan(on: &str, block: &str) -> Plan {
        let text = format!(
            r#"{{"name": "t", "blocks": [{{"name": "A", "workload": "append", {block}}}]}}"#
        );
        let overrides = Overrides {
            on: vec![on.to_owned()],
            ..Overrides::default()
        };
        parse(&text).unwrap().plan(&overrides).unwrap()
    }

    /// The pair of the report, seen from its author's workstation.
    fn pair(target: &str) -> Assumptions {
        Assumptions {
            targets: BTreeMap::from([(
                target.to_owned(),
                Setting {
                    endpoints: vec!["us-east-1".into(), "us-east-2".into()],
                    round_trip_ms: vec![30.0, 19.0],
                },
            )]),
            fleet: None,
        }
    }

    fn within(range: Range, value: f64) -> bool {
        range.low <= value && value <= range.high
    }

    #[test]
    fn the_reports_measurements_lie_within_the_estimate() {
        let url = "sim:pair";
        // (block, records a second as the report measured them, records)
        for (block, per_s, records) in [
            (r#""writers": 1"#, 5.5, 128.0),
            (r#""writers": 64"#, 6.8, 128.0),
            (r#""writers": 8, "streams": 8"#, 44.4, 1024.0),
            (r#""writers": 8, "records": 400, "batch": 50"#, 182.0, 400.0),
        ] {
            let plan = plan(url, block);
            let estimate = estimate(&plan, &pair(url));
            let minutes = 3.0 * records / per_s / 60.0;
            assert!(
                within(estimate.minutes, minutes),
                "{block}: {minutes} not in {:?}",
                estimate.minutes
            );
        }
    }

    #[test]
    fn one_insert_costs_what_the_formulas_say() {
        // AWS's example: compute 0.008, read 0.00375, write 0.05.
        let plan = plan(
            "dsql://c.dsql.us-east-1.on.aws",
            r#""records": 1, "reps": 1, "payload_bytes": 16"#,
        );
        let dpu = estimate(&plan, &Assumptions::default()).dpu.unwrap();
        let verify_and_clean = around(128.0, Range::exactly(1.0), 1.0);
        assert!(
            (dpu.low - verify_and_clean.low - 0.06175).abs() < 1e-4,
            "{dpu:?}"
        );
    }

    #[test]
    fn a_second_region_writes_twice() {
        let cost = |hosts: &str| {
            let plan = plan(hosts, r#""records": 128"#);
            estimate(&plan, &Assumptions::default())
        };
        let one = cost("dsql://c.dsql.us-east-1.on.aws");
        let two = cost("dsql://c.dsql.us-east-1.on.aws,d.dsql.us-east-2.on.aws");
        assert!(two.dpu.unwrap().low > 1.5 * one.dpu.unwrap().low);
        assert!(one.dollars.is_some() && two.dollars.is_some());
        assert!(two.basis.iter().any(|line| line.contains("us-east-2 too")));
    }

    #[test]
    fn no_price_no_dollars_and_postgres_no_dpu() {
        let block = r#""writers": [1, 8]"#;
        let unpriced = estimate(
            &plan("dsql://c.dsql.eu-west-3.on.aws", block),
            &Assumptions::default(),
        );
        assert!(unpriced.dpu.is_some() && unpriced.dollars.is_none());
        let postgres = estimate(&plan("postgres://h/db", block), &Assumptions::default());
        assert!(postgres.dpu.is_none() && postgres.dollars.is_none());
        assert_eq!((postgres.waves, postgres.connections), (6, 8));
        assert_eq!(postgres.operations, Range::exactly(2.0 * 3.0 * 128.0));
    }

    #[test]
    fn many_connections_take_their_time() {
        let plan = plan(
            "sim:x",
            r#""writers": 100, "streams": 100, "records": 100, "reps": 1"#,
        );
        let assumptions = Assumptions {
            fleet: Some(Fleet {
                workers: 40,
                ..Fleet::DEFAULT
            }),
            ..Assumptions::default()
        };
        let estimate = estimate(&plan, &assumptions);
        assert_eq!((estimate.workers, estimate.connections), (40, 10_000));
        assert_eq!(estimate.workers_per_region, 40, "one endpoint is known");
        assert_eq!(estimate.barrier_s, Some(7.0));
        assert!(estimate.minutes.low > 1.5, "{:?}", estimate.minutes);
    }

    #[test]
    fn a_window_is_as_long_as_it_is() {
        let plan = plan("sim:x", r#""measure_s": 600, "warmup_s": 60, "reps": 1"#);
        let estimate = estimate(&plan, &Assumptions::default());
        assert!((11.0..11.1).contains(&estimate.minutes.low));
        assert!(estimate.operations.low < estimate.operations.high);
    }
}
