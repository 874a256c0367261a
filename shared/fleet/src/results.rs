//! From the tasks of a wave to one repetition of the report.
//!
//! What counts is what is `done` when the load's stage ends: every other task
//! has been declared lost by then, and no result of it is taken any more. So a
//! wave has one set of results, whoever reads it and however often.

use std::collections::BTreeMap;

use drive::ShardReport;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use plan::{Cell, Leg, PlacementError, Shard};
use report::{PartialShard, RepError, RepReport};
use serde::{Deserialize, Serialize};
use workload::{Claim, Step, Verified};

use crate::env::Env;
use crate::ids::{RunId, Stage, TaskId, WaveId};
use crate::message::{Job, shard_name};
use crate::queue::Queue;
use crate::record::{TaskRecord, TaskState, WaveRecord};
use crate::store::{Read, Store, StoreError};
use crate::work::{Counts, Found, Outcome};

/// Results that are read at once.
const AT_ONCE: usize = 16;

/// Starved operations that abort a rep of the cell; 0 never does.
pub(crate) fn abort_limit(cell: &Cell) -> u32 {
    cell.params.shape().abort_after_starved
}

/// The tasks of a stage that are in the store, by leg and index.
pub(crate) async fn tasks<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
    wave: WaveId,
    stage: Stage,
) -> Result<BTreeMap<(u32, u32), TaskRecord>, StoreError> {
    let prefix = TaskId::prefix(wave, stage);
    let items = env.list(&run.pk(), &prefix).await?;
    Ok(items
        .iter()
        .filter_map(|item| {
            let place = item.text("sk")?.strip_prefix(&prefix)?;
            let (leg, index) = place.strip_prefix('l')?.split_once('/')?;
            let place = (leg.parse().ok()?, index.parse().ok()?);
            Some((place, TaskRecord::read(item)?))
        })
        .collect())
}

/// The result of a task that is done; `None` when it is not, or when its result
/// is gone or cannot be read: then nobody knows what the worker did.
///
/// # Errors
/// When the store does not answer.
pub(crate) async fn outcome<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
    id: &TaskId,
    task: &TaskRecord,
) -> Result<Option<Outcome>, StoreError> {
    if task.state != TaskState::Done {
        return Ok(None);
    }
    let item = env.get(&id.result_key(run, &task.owner)).await?;
    let item = item.unwrap_or_default();
    let bytes = match (item.text("result"), item.text("blob")) {
        (Some(text), _) => Some(text.as_bytes().to_vec()),
        (None, Some(blob)) => env.get_blob(blob).await?,
        (None, None) => None,
    };
    match bytes.as_deref().map(serde_json::from_slice) {
        Some(Ok(outcome)) => Ok(Some(outcome)),
        Some(Err(error)) => {
            tracing::error!(%run, task = %id, "its result cannot be read: {error}");
            Ok(None)
        }
        None => {
            tracing::error!(%run, task = %id, "its result is gone");
            Ok(None)
        }
    }
}

/// One part of a load: a shard's leg, and what is known of it.
struct Part {
    name: String,
    shard: Shard,
    leg: Leg,
    state: Option<TaskState>,
    progress: Option<Counts>,
    outcome: Option<Outcome>,
}

/// A wave's load as it ended.
pub(crate) struct Load {
    parts: Vec<Part>,
}

impl Load {
    /// Reads what is in the store.
    pub(crate) async fn read<S: Store, Q: Queue>(
        env: &Env<S, Q>,
        run: &RunId,
        wave: WaveId,
        job: &Job,
    ) -> Result<Load, StoreError> {
        let tasks = tasks(env, run, wave, Stage::Load).await?;
        let parts = parts_of(job, env.settings.leg.as_millis() as u64)
            .map_err(|error| StoreError::Refused(error.to_string()))?;
        let (tasks, endpoints) = (&tasks, &job.endpoints);
        let read = parts.into_iter().map(|(shard, leg)| async move {
            let id = TaskId {
                wave,
                stage: Stage::Load,
                leg: leg.index,
                index: shard.index,
            };
            let task = tasks.get(&(leg.index, shard.index));
            let outcome = match task {
                Some(task) => outcome(env, run, &id, task).await?,
                None => None,
            };
            let endpoint = endpoints.get(shard.endpoint as usize);
            Ok(Part {
                name: shard_name(&shard, endpoint, leg.index, leg.of),
                state: task.map(|task| task.state),
                progress: task
                    .and_then(|task| task.progress.as_deref())
                    .and_then(|text| serde_json::from_str(text).ok()),
                outcome,
                shard,
                leg,
            })
        });
        let parts = stream::iter(read).buffered(AT_ONCE).try_collect().await?;
        Ok(Load { parts })
    }

    /// Writers of whom nobody knows what they were told. A shard that was never
    /// claimed told nobody anything, but to be sure it counts too.
    pub(crate) fn missing_writers(&self) -> Vec<u32> {
        let missing = self.parts.iter().filter(|part| part.outcome.is_none());
        let mut writers: Vec<u32> = missing
            .flat_map(|part| part.shard.writer_indices())
            .collect();
        writers.sort_unstable();
        writers.dedup();
        writers
    }

    /// Whether any load was done, or may have been.
    pub(crate) fn touched_the_database(&self) -> bool {
        self.parts.iter().any(|part| {
            matches!(part.outcome, Some(Outcome::Ran { .. }))
                || (part.outcome.is_none() && part.state.is_some())
        })
    }

    /// All claims.
    pub(crate) fn into_claims(self) -> Vec<Claim> {
        let reports = self
            .parts
            .into_iter()
            .filter_map(|part| match part.outcome {
                Some(Outcome::Ran { report }) => Some(report.claims),
                _ => None,
            });
        reports.flatten().collect()
    }

    /// Attempts that the workers reported.
    pub(crate) fn attempts(&self) -> u64 {
        let of = |part: &Part| match &part.outcome {
            Some(Outcome::Ran { report }) => report.result.total.counts.attempts,
            _ => 0,
        };
        self.parts.iter().map(of).sum()
    }
}

/// Shards and legs of a wave, in the order of the tasks.
pub(crate) fn parts_of(job: &Job, leg_ms: u64) -> Result<Vec<(Shard, Leg)>, PlacementError> {
    let shards = plan::shards(&job.cell, &job.endpoints, &job.fleet)?;
    let legs = plan::legs(&job.cell, leg_ms);
    Ok(legs
        .iter()
        .flat_map(|leg| shards.iter().map(move |shard| (shard.clone(), *leg)))
        .collect())
}

/// What the steps around a load came to.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) prepare: Option<Outcome>,
    pub(crate) verify: Option<Outcome>,
    pub(crate) clean: Option<Outcome>,
    /// A step that was given up: its stage and why.
    pub(crate) lost: Vec<String>,
}

/// A wave's result, as it is kept until the run ends.
#[derive(Debug, Serialize, Deserialize)]
pub struct WaveResult {
    /// The wave.
    pub wave: WaveId,
    /// For the summary.
    pub rep: RepReport,
    /// One row per operation, with the shard that it is of, where rows are kept.
    pub rows: Vec<(u32, drive::Row)>,
    /// When it was opened and closed, milliseconds since 1970.
    pub from_ms: i64,
    /// See `from_ms`.
    pub until_ms: i64,
    /// What the database said of itself.
    pub found: Option<Found>,
    /// DPU that its attempts are estimated to have used.
    pub dpu: Option<f64>,
    /// Dollars: database and workers.
    pub usd: f64,
}

/// Puts a repetition together.
pub(crate) fn rep_report(
    wave: WaveId,
    record: &WaveRecord,
    planned: Option<u64>,
    load: Load,
    steps: Steps,
    rows: &str,
) -> (RepReport, Vec<(u32, drive::Row)>) {
    let mut merged: Option<ShardReport> = None;
    let mut kept = Vec::new();
    let mut rep = RepReport {
        rep: wave.rep,
        attempt: wave.attempt,
        planned,
        ..RepReport::default()
    };
    let mut refusals: BTreeMap<String, u32> = BTreeMap::new();
    let mut starts: Vec<u64> = Vec::new();
    let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
    let mut gap_us: Option<i64> = None;
    let mut uncalled = false;
    for part in load.parts {
        // Never called: the run was stopped, or the barrier closed, before.
        if part.state.is_none() {
            uncalled = true;
            continue;
        }
        rep.workers_expected += 1;
        let Some(outcome) = part.outcome else {
            if let Some(counts) = part.progress {
                rep.partial_progress.push(PartialShard {
                    shard: part.name.clone(),
                    at_s: record
                        .start_ms
                        .map(|start_ms| (counts.at_ms - start_ms) as f64 / 1e3),
                    starved: counts.starved,
                    ended: counts.ended,
                    committed: counts.committed,
                    conflicts: counts.conflicts,
                    failed: counts.failed,
                });
            }
            rep.missing.push(part.name);
            continue;
        };
        rep.workers_reported += 1;
        match outcome {
            Outcome::Ran { report } => {
                let mut report = *report;
                if part.leg.index == 0 {
                    starts.extend(report.result.start_late_us);
                }
                if let (Some(last), Some(first)) =
                    (ends.get(&part.shard.index), report.result.leg_first_us)
                {
                    let gap = i64::try_from(first).unwrap_or(0) - i64::try_from(*last).unwrap_or(0);
                    gap_us = Some(gap_us.map_or(gap, |known| known.max(gap)));
                }
                if let Some(last) = report.result.leg_last_us {
                    ends.insert(part.shard.index, last);
                }
                let rows = std::mem::take(&mut report.rows);
                kept.extend(rows.into_iter().map(|row| (part.shard.index, row)));
                match &mut merged {
                    None => merged = Some(report),
                    Some(merged) => merged.merge(report),
                }
            }
            Outcome::Late { by_ms } => {
                rep.workers_late += 1;
                let line = format!("{} came {by_ms} ms too late for the start", part.name);
                *refusals.entry(line).or_default() += 1;
            }
            Outcome::NotStarted { why } | Outcome::Failed { why } => {
                *refusals.entry(why).or_default() += 1;
            }
            Outcome::Stepped { .. } | Outcome::Checked { .. } => {}
        }
    }
    let ran = merged.is_some();
    let mut merged = merged.unwrap_or_default();
    let mut errors: Vec<String> = steps.lost;
    match steps.prepare {
        Some(Outcome::Stepped { step, .. }) => rep.prepare = Some(seconds(step)),
        Some(Outcome::Failed { why }) => errors.push(format!("prepare: {why}")),
        _ => {}
    }
    match steps.verify {
        Some(Outcome::Checked { verified }) => {
            merged.settle(&verified);
            let Verified {
                ok, problems, step, ..
            } = verified;
            rep.verify_ok = Some(ok);
            rep.verify_problems = problems;
            rep.verify = Some(seconds(step));
        }
        Some(Outcome::Failed { why }) => {
            errors.push(format!("verify: {why}; these rows were left: {rows}"));
        }
        _ => {}
    }
    match steps.clean {
        Some(Outcome::Stepped { step, .. }) => rep.clean = Some(seconds(step)),
        Some(Outcome::Failed { why }) => {
            errors.push(format!("clean: {why}; these rows were left: {rows}"));
        }
        _ => {}
    }
    if let Some(refused) = &record.refused {
        errors.insert(0, refused.clone());
    }
    let pool = !ran && !refusals.is_empty() && record.refused.is_none();
    for (why, workers) in refusals {
        if record.refused.as_ref() != Some(&why) {
            errors.push(match workers {
                1 => why,
                n => format!("{why} ({n} workers)"),
            });
        }
    }
    rep.error = match errors.is_empty() {
        true => None,
        false if pool => Some(RepError::Pool(errors.join("; "))),
        false => Some(RepError::Run(errors.join("; "))),
    };
    let latest = starts.iter().max().copied();
    let earliest = starts.iter().min().copied();
    rep.start_spread_ms = latest
        .zip(earliest)
        .map(|(latest, earliest)| (latest - earliest) as f64 / 1_000.0);
    rep.handover_gap_ms = gap_us.map(|gap| gap as f64 / 1_000.0);
    rep.partial = merged.result.stopped || uncalled || !rep.missing.is_empty();
    rep.result = merged.result;
    (rep, kept)
}

fn seconds(step: Step) -> report::Step {
    report::Step {
        rows: step.rows,
        seconds: step.took.as_secs_f64(),
    }
}

/// A row of `ops.jsonl`.
pub fn op_row(cell: &str, rep: u32, attempt: u32, shard: u32, row: drive::Row) -> report::OpRow {
    report::OpRow {
        cell: cell.to_owned(),
        rep,
        attempt,
        shard,
        writer: row.writer,
        endpoint: row.endpoint,
        operation: row.operation,
        id: row.id,
        planned_us: row.planned_us,
        start_us: row.start_us,
        end_us: row.end_us,
        attempts: row.attempts,
        outcome: row.outcome,
        sqlstate: row.sqlstate,
        ok: row.ok,
        measured: row.measured,
    }
}
