//! One rep of one cell: prepare, load, verify, clean.

use std::sync::Arc;
use std::time::Duration;

use drive::{Load, Progress, Purpose, Row, ShardReport, Stop, rng, run_shard, verifying_endpoint};
use plan::{Cell, Params};
use rand::Rng;
use report::{OpRow, RepError, RepReport, RepRun};
use target::{SqlFailure, Target};
use workload::append::Append;
use workload::{Step, Workload};

use super::Done;
use crate::targets::Site;

/// How long a pool may take to fill.
const OPEN_LIMIT: Duration = Duration::from_secs(120);

/// One rep of a cell.
pub(super) struct Job<'a> {
    pub(super) cell: &'a Cell,
    /// Place of the rep in the cell.
    pub(super) rep: u32,
    /// Place among all reps of the run.
    pub(super) ordinal: usize,
    /// Seed of the run.
    pub(super) seed: u64,
}

impl Job<'_> {
    /// Seed of the rep's inputs and pauses. It depends on the cell's name, not
    /// on its place, so that a cell draws the same when others are added.
    fn load_seed(&self) -> u64 {
        self.named(Purpose::Inputs)
    }

    /// Seed of the simulated cluster behind the rep.
    pub(super) fn cluster_seed(&self) -> u64 {
        self.named(Purpose::Simulator)
    }

    fn named(&self, purpose: Purpose) -> u64 {
        // FNV-1a: stable over versions, which std's hasher does not promise.
        let name = self
            .cell
            .id
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        rng(self.seed ^ name, purpose, u64::from(self.rep)).next_u64()
    }
}

/// Runs the rep against a target.
pub(super) async fn run(
    job: &Job<'_>,
    target: &Target,
    site: &Site,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Done {
    let Params::Append(params) = &job.cell.params;
    let append = Append::new(
        params,
        site.id_base(job.ordinal),
        job.load_seed(),
        target.clock(),
    );
    // What a warm-up takes of the shares is not measured; how much that is shows
    // only afterwards.
    let planned = params.operations().filter(|_| params.warmup_s <= 0.0);
    let writers = match place(params.total_writers(), target, |writer, names| {
        params.placement.endpoint_of(writer, names)
    }) {
        Ok(writers) => writers,
        Err(problem) => return could_not_run(job, planned, RepError::Run(problem)),
    };
    let load = Load {
        writers,
        warmup: Duration::from_secs_f64(params.warmup_s),
        measure: params.measure_s.map(Duration::from_secs_f64),
        retry: params.retry.clone(),
        abort_after_starved: params.abort_after_starved,
        keep_rows: job.cell.raw,
        seed: job.load_seed(),
        server_parts: site.server_parts(),
        vcpus: site.vcpus,
        open_limit: OPEN_LIMIT,
    };
    let stop = stop.clone();
    let ids = append.stream_ids();
    let rows = match (ids.first(), ids.last()) {
        (Some(first), Some(last)) => format!("streams {first} to {last} and their records"),
        _ => "none".to_owned(),
    };
    phases(job, &append, load, planned, target, stop, progress, &rows).await
}

/// The phases around the load, the same for every workload. `rows` names those
/// that the rep makes, for the case that they have to be left.
#[allow(clippy::too_many_arguments)]
async fn phases<W: Workload>(
    job: &Job<'_>,
    workload: &W,
    load: Load,
    planned: Option<u64>,
    target: &Target,
    stop: Stop,
    progress: &Arc<Progress>,
    rows: &str,
) -> Done {
    let prepared = match drive::prepare(workload, target).await {
        Ok(step) => step,
        Err(failure) => return could_not_run(job, planned, broke("prepare", &failure)),
    };
    let verifier = verifying_endpoint(&load.writers, target.endpoints().len());
    let shard = run_shard(load, workload, target, stop, Arc::clone(progress));
    let mut shard = match shard.await {
        Ok(shard) => shard,
        Err(failure) => {
            // The pool did not fill; what was prepared is still to be removed.
            let cleaned = drive::clean(workload, target).await;
            let error = RepError::Pool(failure.to_string());
            let mut done = could_not_run(job, planned, error);
            done.report.prepare = Some(step_report(prepared));
            done.report.clean = cleaned.ok().map(step_report);
            return done;
        }
    };
    let verified = drive::verify(workload, target, verifier, &shard.claims).await;
    let mut problems = Vec::new();
    let mut error = None;
    let mut clean = None;
    let ok = match &verified {
        Ok(verified) => {
            shard.settle(verified);
            problems.clone_from(&verified.problems);
            Some(verified.ok)
        }
        Err(failure) => {
            error = Some(left_behind("verify", failure, rows));
            None
        }
    };
    // After a failed verification everything is left where it is.
    if ok == Some(true) {
        match drive::clean(workload, target).await {
            Ok(step) => clean = Some(step_report(step)),
            Err(failure) => error = Some(left_behind("clean", &failure, rows)),
        }
    }
    let ShardReport { result, rows, .. } = shard;
    Done {
        run: RepRun::default(),
        rows: rows.into_iter().map(|row| op_row(job, row)).collect(),
        report: RepReport {
            partial: result.stopped,
            result,
            planned,
            prepare: Some(step_report(prepared)),
            verify: verified.ok().map(|verified| step_report(verified.step)),
            clean,
            verify_ok: ok,
            verify_problems: problems,
            error,
            ..one_worker(job)
        },
    }
}

/// Places every writer on an endpoint.
fn place<E: std::fmt::Display>(
    writers: u32,
    target: &Target,
    endpoint_of: impl Fn(u32, &[String]) -> Result<usize, E>,
) -> Result<Vec<(u32, usize)>, String> {
    let names: Vec<String> = target.endpoints().iter().map(|e| e.name.clone()).collect();
    (0..writers)
        .map(|writer| match endpoint_of(writer, &names) {
            Ok(endpoint) => Ok((writer, endpoint)),
            Err(error) => Err(error.to_string()),
        })
        .collect()
}

/// A rep that ran no operation, with the reason.
fn could_not_run(job: &Job<'_>, planned: Option<u64>, error: RepError) -> Done {
    Done {
        report: RepReport {
            planned,
            error: Some(error),
            ..one_worker(job)
        },
        rows: Vec::new(),
        run: RepRun::default(),
    }
}

/// A rep that the operating system did not let start.
pub(super) fn could_not_start(job: &Job<'_>, error: &std::io::Error) -> Done {
    let error = RepError::Run(format!("cannot start a runtime: {error}"));
    could_not_run(job, None, error)
}

/// The report of a rep that one worker runs, this process.
fn one_worker(job: &Job<'_>) -> RepReport {
    RepReport {
        rep: job.rep + 1,
        attempt: 1,
        workers_expected: 1,
        workers_reported: 1,
        ..RepReport::default()
    }
}

/// A step that failed after the load, and what it left in the database.
fn left_behind(step: &str, failure: &SqlFailure, rows: &str) -> RepError {
    RepError::Run(format!("{step}: {failure}; these rows were left: {rows}"))
}

/// A step that failed, in one line.
fn broke(step: &str, failure: &SqlFailure) -> RepError {
    RepError::Run(format!("{step}: {failure}"))
}

fn step_report(step: Step) -> report::Step {
    report::Step {
        rows: step.rows,
        seconds: step.took.as_secs_f64(),
    }
}

fn op_row(job: &Job<'_>, row: Row) -> OpRow {
    OpRow {
        cell: job.cell.id.clone(),
        rep: job.rep + 1,
        attempt: 1,
        shard: 0,
        writer: row.writer,
        endpoint: row.endpoint,
        operation: row.operation.to_owned(),
        id: row.id,
        planned_us: row.planned_us,
        start_us: row.start_us,
        end_us: row.end_us,
        attempts: row.attempts,
        outcome: row.outcome.to_owned(),
        sqlstate: row.sqlstate,
        ok: row.ok,
        measured: row.measured,
    }
}
