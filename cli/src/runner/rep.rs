//! One rep of one cell: prepare, load, verify, clean.

use std::sync::Arc;
use std::time::Duration;

use drive::{
    AtOnce, Ended, Progress, Purpose, Rep, Settings, ShardReport, Stop, rep_seed,
    verifying_endpoint,
};
use plan::Cell;
use report::{RepError, RepReport, RepRun};
use target::{SqlFailure, Target};
use workload::Step;

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
    /// Seed of the simulated cluster behind the rep.
    pub(super) fn cluster_seed(&self) -> u64 {
        self.seed_for(Purpose::Simulator)
    }

    fn seed_for(&self, purpose: Purpose) -> u64 {
        rep_seed(self.seed, &self.cell.id, self.rep, purpose)
    }
}

/// Runs the rep against a target: the phases are the same for every workload.
pub(super) async fn run(
    job: &Job<'_>,
    target: &Target,
    site: &Site,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Done {
    let rep = Rep {
        cell: job.cell,
        id_base: site.id_base(job.ordinal),
        seed: job.seed_for(Purpose::Inputs),
    };
    let planned = rep.planned();
    let endpoints: Vec<String> = target.endpoints().iter().map(|e| e.name.clone()).collect();
    let writers = match rep.placement(&endpoints) {
        Ok(writers) => writers,
        Err(problem) => return could_not_run(job, planned, RepError::Run(problem.to_string())),
    };
    let prepared = match rep.prepare(target).await {
        Ok(step) => step,
        Err(failure) => return could_not_run(job, planned, broke("prepare", &failure)),
    };
    let verifier = verifying_endpoint(&writers, endpoints.len());
    let settings = Settings {
        writers,
        opening: None,
        probe_endpoints: (0..endpoints.len()).collect(),
        leg: None,
        first_operation: 0,
        stop_by: None,
        server_parts: site.server_parts(),
        vcpus: site.vcpus,
        open_limit: OPEN_LIMIT,
    };
    let gate = AtOnce(target.clock());
    let ended = rep
        .load(settings, target, stop.clone(), Arc::clone(progress), &gate)
        .await;
    let mut shard = match ended {
        Ok(Ended::Ran(shard)) => shard,
        Ok(Ended::NotStarted(why)) => return no_load(job, &rep, target, prepared, why, true).await,
        Err(failure) => {
            let why = failure.to_string();
            return no_load(job, &rep, target, prepared, why, false).await;
        }
    };
    let verified = rep.verify(target, verifier, &shard.claims, &[]).await;
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
            error = Some(left_behind("verify", failure, &rep));
            None
        }
    };
    // After a failed verification everything is left where it is.
    if ok == Some(true) {
        match rep.clean(target).await {
            Ok(step) => clean = Some(step_report(step)),
            Err(failure) => error = Some(left_behind("clean", &failure, &rep)),
        }
    }
    let ShardReport { result, rows, .. } = shard;
    Done {
        run: RepRun::default(),
        rows: rows
            .into_iter()
            .map(|row| fleet::op_row(&job.cell.id, job.rep + 1, 1, 0, row))
            .collect(),
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

/// A rep that was prepared and did no load: its pool did not fill, or it was
/// stopped before that. What was prepared is still to be removed.
async fn no_load(
    job: &Job<'_>,
    rep: &Rep<'_>,
    target: &Target,
    prepared: Step,
    why: String,
    stopped: bool,
) -> Done {
    let cleaned = rep.clean(target).await;
    let error = match stopped {
        true => RepError::Run(why),
        false => RepError::Pool(why),
    };
    let mut done = could_not_run(job, rep.planned(), error);
    done.report.partial = stopped;
    done.report.prepare = Some(step_report(prepared));
    done.report.clean = cleaned.ok().map(step_report);
    done
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
fn left_behind(step: &str, failure: &SqlFailure, rep: &Rep<'_>) -> RepError {
    let rows = rep.rows_named();
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
