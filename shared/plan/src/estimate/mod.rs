//! What a plan will take: operations, connections, minutes, DPU, dollars.
//!
//! Every figure that is not counted is a range, and [`Estimate::basis`] says
//! what each range rests on. The model is coarse on purpose: it is made of
//! published figures alone and is there to tell cents from dollars and minutes
//! from hours before anything is paid for.
//!
//! ```text
//! attempt   = flights x round trip + service times
//! wave      = warm-up + window + connecting + preparing, verifying and cleaning
//! DPU       = compute + read + write (+ write once more for a second region)
//! ```
//!
//! How many operations a window holds, or how long a number of them takes, is
//! the workload's own: chains in `append`, clients that meet on rows in
//! `clients`. What is known of the target is in `site`, what DPU are made of in
//! `dpu`, and the words for all of it in `basis`.

mod append;
mod basis;
mod clients;
mod dpu;
mod site;

use std::collections::BTreeMap;
use std::ops::Add;
use std::time::Duration;

use serde::Serialize;

use self::basis::basis;
use self::site::Site;
use crate::cell::{Cell, Params};
use crate::fleet::Fleet;
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
    pub(crate) const fn new(low: f64, high: f64) -> Range {
        Range { low, high }
    }

    pub(crate) const fn exactly(value: f64) -> Range {
        Range::new(value, value)
    }

    pub(crate) fn times(self, other: Range) -> Range {
        Range::new(self.low * other.low, self.high * other.high)
    }

    pub(crate) fn scaled(self, factor: f64) -> Range {
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

/// Each further row of a transaction, or of preparing, verifying and cleaning;
/// the upper bound is a bulk load of 12.5 million rows over 10 connections in
/// 13 minutes.
const SERVICE_ROW_MS: Range = Range::new(0.02, 0.65);
/// Round trips of preparing, verifying and cleaning a small wave.
const AROUND_TRIPS: Range = Range::new(10.0, 40.0);
/// Connections that a cluster takes at once, and each second after that.
const CONNECT_BURST: f64 = 1000.0;
const CONNECT_RATE: f64 = 100.0;

/// What one wave of a workload takes, connecting aside.
struct Load {
    /// Operations of the window.
    operations: Range,
    /// Seconds of the window.
    window_s: Range,
    /// Milliseconds of preparing, verifying and deleting its rows.
    rows_ms: Range,
    /// DPU, were it run on DSQL.
    dpu: Range,
}

/// Estimates a plan.
pub fn estimate(plan: &Plan, assumptions: &Assumptions) -> Estimate {
    let cells: Vec<CellEstimate> = plan
        .cells
        .iter()
        .filter_map(|cell| {
            let target = plan.target_of(cell)?;
            Some(cell_estimate(cell, target, assumptions))
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

fn cell_estimate(cell: &Cell, target: &TargetSpec, assumptions: &Assumptions) -> CellEstimate {
    let site = Site::of(target, assumptions);
    let shape = cell.params.shape();
    let round_trip = site.round_trip(&shape);
    let load = match &cell.params {
        Params::Append(params) => append::load(params, &site, round_trip),
        Params::OrderTransfer(params) => clients::orders(params, &site, round_trip),
        Params::Tpcb(params) => clients::tpcb(params, &site, round_trip),
    };
    let connections = shape.writers;
    let connect_s = match site.dsql {
        true => ((f64::from(connections) - CONNECT_BURST) / CONNECT_RATE).max(0.0),
        false => 0.0,
    };
    let around_s = (AROUND_TRIPS.times(round_trip) + load.rows_ms).scaled(1e-3);
    let wave_s = load.window_s + around_s + Range::exactly(connect_s + shape.warmup_s);

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
    let waves = f64::from(cell.reps);
    let dpu = site.dsql.then(|| load.dpu.scaled(waves));
    CellEstimate {
        id: cell.id.clone(),
        target: cell.target.clone(),
        simulated: matches!(target.address.kind(), AddressKind::Simulator { .. }),
        waves: cell.reps,
        workers: dealt.len() as u32,
        workers_per_region: busiest(&dealt),
        connections,
        operations: load.operations.scaled(waves),
        minutes: wave_s.scaled(waves / 60.0),
        dpu,
        dollars: dpu.and_then(|dpu| Some(dpu.times(site.price()?))),
    }
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
        let verify_and_clean = dpu::of_leaving(Range::exactly(1.0), 128.0, 1.0);
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
        let text = r#"{"name": "t", "targets": [{"name": "x", "secret": "s"}],
                       "blocks": [{"name": "A", "workload": "append"}]}"#;
        let secret = parse(text).unwrap().plan(&Overrides::default()).unwrap();
        let secret = estimate(&secret, &Assumptions::default());
        assert!(secret.dpu.is_none() && secret.basis[0].contains("taken to be PostgreSQL's"));
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
