//! Runs every rep of every cell of a plan.
//!
//! Simulated reps run side by side, one single-threaded runtime with its own
//! clock and its own cluster each, so that results do not depend on how many
//! run at once or on what ran before. Reps on a real database run one after the
//! other: two at once would measure each other.

mod rep;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clock::Clock;
use drive::{Progress, Stop};
use plan::Plan;
use report::{CellReport, OpRow, RepReport, RepRun};

use crate::failure::Failure;
use crate::progress::Screen;
use crate::targets::{Database, Site};
use rep::Job;

/// How a plan is run.
pub struct Settings {
    /// Simulated reps that run side by side.
    pub jobs: usize,
    /// Set when the user wants to stop.
    pub stop: Stop,
}

/// One rep's results.
pub struct Done {
    /// For the summary.
    pub report: RepReport,
    /// One row per operation, where the cell keeps them.
    pub rows: Vec<OpRow>,
    /// When it ran, by the wall clock.
    pub run: RepRun,
}

/// What a plan came to, in the plan's order.
#[derive(Default)]
pub struct Results {
    /// Cells with their reps; after a stop some are missing.
    pub cells: Vec<CellReport>,
    /// Rows of the cells that keep them.
    pub rows: Vec<OpRow>,
    /// When each rep ran.
    pub runs: Vec<RepRun>,
}

/// Runs a plan.
///
/// # Errors
/// When a target cannot be reached at all, before its first rep.
pub fn run(
    plan: &Plan,
    sites: &BTreeMap<String, Site>,
    settings: &Settings,
    screen: &Screen,
) -> Result<Results, Failure> {
    let jobs: Vec<Job<'_>> = plan
        .cells
        .iter()
        .flat_map(|cell| (0..cell.reps).map(move |rep| (cell, rep)))
        .enumerate()
        .map(|(ordinal, (cell, rep))| Job {
            cell,
            rep,
            ordinal,
            seed: plan.seed,
        })
        .collect();
    let site = |job: &Job<'_>| {
        sites
            .get(&job.cell.target)
            .ok_or_else(|| Failure::Other(format!("no target named {}", job.cell.target)))
    };
    let mut done: Vec<Option<Done>> = Vec::new();
    done.resize_with(jobs.len(), || None);
    let mut simulated = Vec::new();
    for (place, job) in jobs.iter().enumerate() {
        let site = site(job)?;
        match &site.database {
            Database::Simulated(_) => simulated.push((place, site)),
            Database::Live(_) if settings.stop.is_set() => {}
            Database::Live(live) => {
                let ended = watched(job, screen, |progress| {
                    live.block_on(async |target| {
                        rep::run(job, target, site, &settings.stop, &progress).await
                    })
                });
                done[place] = Some(ended);
            }
        }
    }
    side_by_side(&jobs, &simulated, settings, screen, &mut done);
    Ok(collect(plan, done))
}

/// Runs the simulated jobs on `settings.jobs` threads, each taking the next.
fn side_by_side(
    jobs: &[Job<'_>],
    simulated: &[(usize, &Site)],
    settings: &Settings,
    screen: &Screen,
    done: &mut [Option<Done>],
) {
    let next = AtomicUsize::new(0);
    let ended = Mutex::new(Vec::new());
    let work = || {
        while let Some((place, site)) = simulated.get(next.fetch_add(1, Ordering::Relaxed)) {
            if settings.stop.is_set() {
                return;
            }
            let job = &jobs[*place];
            let result = watched(job, screen, |progress| {
                simulate(job, site, &settings.stop, &progress)
            });
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.push((*place, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..settings.jobs.min(simulated.len()) {
            scope.spawn(work);
        }
    });
    for (place, result) in ended.into_inner().unwrap_or_else(PoisonError::into_inner) {
        done[place] = Some(result);
    }
}

/// Runs one rep on a cluster of its own in simulated time.
fn simulate(job: &Job<'_>, site: &Site, stop: &Stop, progress: &Arc<Progress>) -> Done {
    let runtime = match clock::simulated_runtime() {
        Ok(runtime) => runtime,
        Err(error) => return rep::could_not_start(job, &error),
    };
    runtime.block_on(async {
        let target = site.simulated_target(job.cluster_seed());
        rep::run(job, &target, site, stop, progress).await
    })
}

/// Runs a rep with its progress on the screen, and notes when it ran.
fn watched(job: &Job<'_>, screen: &Screen, work: impl FnOnce(Arc<Progress>) -> Done) -> Done {
    let clock = Clock::real();
    let started = clock.wall();
    let mut done = work(screen.start(job.cell, job.rep));
    screen.end(job.cell);
    done.run = RepRun {
        cell: job.cell.id.clone(),
        rep: done.report.rep,
        attempt: done.report.attempt,
        started_utc: report::utc(started),
        wall_s: clock.now().since_origin().as_secs_f64(),
    };
    done
}

/// Puts reps back into their cells, in the plan's order. A cell that no rep of
/// ran is there too: what is missing must be seen.
fn collect(plan: &Plan, done: Vec<Option<Done>>) -> Results {
    let mut done = done.into_iter();
    let mut results = Results::default();
    for cell in &plan.cells {
        let mut reps = Vec::new();
        for done in done.by_ref().take(cell.reps as usize).flatten() {
            reps.push(done.report);
            results.rows.extend(done.rows);
            results.runs.push(done.run);
        }
        results.cells.push(CellReport {
            cell: cell.clone(),
            reps,
        });
    }
    results
}
