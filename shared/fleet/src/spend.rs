//! What a run has spent and is about to spend, by the plan's own estimate.
//!
//! The database's part is the estimate's upper bound per operation times the
//! attempts that were made: CloudWatch's own count comes minutes later, and a
//! limit must hold before. The workers' part is memory times time.

use plan::{Assumptions, Plan};

/// What was spent, or will be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// DPU of the database.
    pub dpu: f64,
    /// Whether the database counts any.
    pub dpu_known: bool,
    /// US dollars: DPU where their price is known, and workers.
    pub usd: f64,
    /// Minutes.
    pub minutes: f64,
}

/// Price of a GB-second of Lambda on x86_64 in us-east-1; arm64 is a fifth
/// cheaper. Source: aws.amazon.com/lambda/pricing, as of 2026.
const USD_PER_GB_S: f64 = 0.000_016_666_7;

/// Memory that workers are thought to have where nothing else is known.
const MEMORY_GB: f64 = 1.769 / 1.024;

struct PerOperation {
    dpu: Option<f64>,
    usd: f64,
    operations: f64,
    minutes: f64,
    workers: f64,
}

fn per_operation(plan: &Plan, cell: usize) -> Option<PerOperation> {
    let estimate = plan::estimate(plan, &Assumptions::default());
    let cell = estimate.cells.get(cell)?;
    let operations = cell.operations.high.max(1.0);
    Some(PerOperation {
        dpu: cell.dpu.map(|dpu| dpu.high / operations),
        usd: cell
            .dollars
            .map_or(0.0, |dollars| dollars.high / operations),
        operations: operations / f64::from(cell.waves.max(1)),
        minutes: cell.minutes.high / f64::from(cell.waves.max(1)),
        workers: f64::from(plan.fleet.workers),
    })
}

fn workers_usd(workers: f64, minutes: f64) -> f64 {
    workers * minutes * 60.0 * MEMORY_GB * USD_PER_GB_S
}

/// What one more wave of a cell will take.
pub(crate) fn forecast(plan: &Plan, cell: usize) -> Spent {
    per_operation(plan, cell).map_or(Spent::default(), |per| Spent {
        dpu: per.dpu.unwrap_or(0.0) * per.operations,
        dpu_known: per.dpu.is_some(),
        usd: per.usd * per.operations + workers_usd(per.workers, per.minutes),
        minutes: per.minutes,
    })
}

/// What a wave under way has taken so far; its minutes are in the run's.
pub(crate) fn under_way(plan: &Plan, cell: usize, operations: u64) -> Spent {
    wave(plan, cell, operations, 0)
}

/// What a wave took.
pub(crate) fn wave(plan: &Plan, cell: usize, attempts: u64, took_ms: i64) -> Spent {
    let minutes = took_ms as f64 / 60_000.0;
    per_operation(plan, cell).map_or(Spent::default(), |per| Spent {
        dpu: per.dpu.unwrap_or(0.0) * attempts as f64,
        dpu_known: per.dpu.is_some(),
        usd: per.usd * attempts as f64 + workers_usd(per.workers, minutes),
        minutes: 0.0,
    })
}
