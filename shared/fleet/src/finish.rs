//! The end of a run: what its waves came to is added up, reported and judged.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use plan::AddressKind;
use report::{CellReport, FleetRun, RepRun, RunInfo, Summary, SweepInfo, TargetFound, TargetInfo};

use crate::env::Env;
use crate::ids::{RunId, WaveId};
use crate::queue::Queue;
use crate::record::RunRecord;
use crate::results::{WaveResult, op_row};
use crate::run::{Kept, RunError};
use crate::spend::Spent;
use crate::store::{Read, Store, StoreError};
use crate::work::Found;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Every wave ran with all of its workers.
    Complete,
    /// Something is missing: workers, waves, or what they were to do.
    Incomplete,
    /// It was told to stop, or reached a limit.
    Stopped,
}

impl RunOutcome {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            RunOutcome::Complete => "complete",
            RunOutcome::Incomplete => "incomplete",
            RunOutcome::Stopped => "stopped",
        }
    }
}

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How.
    pub outcome: RunOutcome,
    /// Why, in one line.
    pub why: String,
    /// 0 pass, 2 incomplete or invalid, 3 a threshold or an invariant broken.
    pub exit_code: u8,
    /// What was measured.
    pub summary: Summary,
    /// What was spent, by estimate.
    pub spent: Spent,
    /// The sweep's name.
    pub sweep: String,
}

/// Names of the report's files in the bucket, under the run.
pub const FILES: [&str; 4] = ["summary.json", "run.json", "report.html", "ops.jsonl"];

fn wave_blob(run: &RunId, wave: WaveId) -> String {
    run.blob(&format!("waves/{wave}.json"))
}

/// Keeps the result of a closed wave.
pub(crate) async fn keep<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
    result: &WaveResult,
) -> Result<(), RunError> {
    let bytes = serde_json::to_vec(result)
        .map_err(|error| StoreError::Refused(format!("a result that is no JSON: {error}")))?;
    env.put_blob(&wave_blob(run, result.wave), &bytes).await?;
    Ok(())
}

/// The results of all closed waves of a run, of every attempt, in the order of
/// the plan.
pub(crate) async fn wave_results<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
) -> Result<Vec<WaveResult>, StoreError> {
    let mut results = Vec::new();
    for name in env.store.list_blobs(&run.blob("waves/")).await? {
        if let Some(bytes) = env.get_blob(&name).await? {
            let result = serde_json::from_slice(&bytes)
                .map_err(|error| StoreError::Refused(format!("{name} cannot be read: {error}")))?;
            results.push(result);
        }
    }
    Ok(results)
}

/// What the closed waves of a run have spent, by estimate.
pub(crate) async fn spent<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
) -> Result<Spent, StoreError> {
    let mut spent = Spent::default();
    for wave in env.list(&run.pk(), "wave#").await? {
        let number = |name: &str| wave.number(name).unwrap_or(0) as f64;
        spent.dpu += number("dpu_milli") / 1e3;
        spent.usd += number("usd_micro") / 1e6;
    }
    spent.dpu_known = spent.dpu > 0.0;
    Ok(spent)
}

/// DPU that the clusters of a plan have counted since an instant, as far as
/// somebody counts it and it has come in: minutes late, and never lower later.
pub(crate) async fn counted_dpu<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    plan: &plan::Plan,
    since_ms: i64,
) -> Option<f64> {
    let mut sum = None;
    for target in &plan.targets {
        let AddressKind::Dsql { hosts } = target.address.kind() else {
            continue;
        };
        for host in hosts {
            match env.store.dpu_since(host, since_ms).await {
                Ok(Some(dpu)) => sum = Some(sum.unwrap_or(0.0) + dpu),
                Ok(None) => {}
                // The estimate stands in for it.
                Err(error) => tracing::warn!("TotalDPU of {host} cannot be read: {error}"),
            }
        }
    }
    sum
}

/// Adds up what was measured, writes the report and judges the run. The same
/// waves give the same report.
pub(crate) async fn report<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
    record: &RunRecord,
    kept: &Kept,
) -> Result<Finished, RunError> {
    let plan = &kept.plan;
    let results = wave_results(env, run).await?;
    let spent = spent(env, run).await?;
    let mut said: BTreeMap<&str, &Found> = BTreeMap::new();
    for result in &results {
        if let (Some(cell), Some(found)) =
            (plan.cells.get(result.wave.cell as usize), &result.found)
        {
            said.insert(&cell.target, found);
        }
    }
    let targets = plan.targets.iter();
    let sweep = SweepInfo {
        name: plan.name.clone(),
        about: plan.about.clone(),
        seed: plan.seed,
        targets: targets
            .clone()
            .map(|target| target_info(target, said.get(target.name.as_str()).copied()))
            .collect(),
    };
    let found = targets
        .map(|target| TargetFound {
            name: target.name.clone(),
            server_version: said
                .get(target.name.as_str())
                .and_then(|found| found.server_version.clone()),
            network: target.network.clone(),
        })
        .collect();
    let mut by_cell: BTreeMap<u32, Vec<WaveResult>> = BTreeMap::new();
    for result in results {
        by_cell.entry(result.wave.cell).or_default().push(result);
    }
    let mut cells = Vec::new();
    let mut rows = String::new();
    let mut runs = Vec::new();
    let mut broken: Vec<String> = Vec::new();
    for (cell, place) in plan.cells.iter().zip(0u32..) {
        let mut reps = Vec::new();
        for result in by_cell.remove(&place).unwrap_or_default() {
            runs.push(rep_run(&cell.id, &result));
            for (shard, row) in &result.rows {
                let row = op_row(
                    &cell.id,
                    result.wave.rep,
                    result.wave.attempt,
                    *shard,
                    row.clone(),
                );
                rows.push_str(&serde_json::to_string(&row).unwrap_or_default());
                rows.push('\n');
            }
            reps.push(result.rep);
        }
        let mut last: BTreeMap<u32, &report::RepReport> = BTreeMap::new();
        for rep in &reps {
            let known = last.entry(rep.rep).or_insert(rep);
            if known.attempt <= rep.attempt {
                *known = rep;
            }
        }
        for number in 1..=cell.reps {
            let Some(rep) = last.get(&number) else {
                broken.push(format!("{} rep {number} did not run", cell.id));
                continue;
            };
            if !rep.missing.is_empty() {
                let missing = rep.missing.join(", ");
                broken.push(format!(
                    "{} rep {number}: no report from {missing}",
                    cell.id
                ));
            } else if let Some(error) = &rep.error {
                broken.push(format!("{} rep {number}: {error}", cell.id));
            } else if rep.workers_late > 0 {
                broken.push(format!(
                    "{} rep {number}: {} late workers",
                    cell.id, rep.workers_late
                ));
            }
        }
        cells.push(CellReport {
            cell: cell.clone(),
            reps,
        });
    }
    let summary = Summary::build(&sweep, &cells);
    let (outcome, why) = match (&record.stop, broken.as_slice()) {
        (Some(why), _) => (RunOutcome::Stopped, why.clone()),
        (None, []) => (RunOutcome::Complete, "every wave ran".to_owned()),
        (None, [one]) => (RunOutcome::Incomplete, one.clone()),
        (None, [one, more @ ..]) => (
            RunOutcome::Incomplete,
            format!("{one}; and {} more", more.len()),
        ),
    };
    let judged = report::exit_code(&summary);
    let exit_code = match outcome {
        RunOutcome::Complete => judged,
        _ => judged.max(2),
    };
    let info = RunInfo {
        version: 1,
        name: plan.name.clone(),
        fabric: env!("CARGO_PKG_VERSION").to_owned(),
        started_utc: utc_of(record.created_ms),
        ended_utc: report::utc(env.clock.wall()),
        wall_s: (env.wall_ms() - record.created_ms) as f64 / 1e3,
        targets: found,
        reps: runs,
        fleet: Some(FleetRun {
            run: run.to_string(),
            attempt: record.attempt,
            outcome: outcome.as_str().to_owned(),
            why: why.clone(),
            regions: env.regions.clone(),
            spent_dpu: spent.dpu_known.then_some(spent.dpu),
            counted_dpu: counted_dpu(env, plan, record.created_ms).await,
            spent_usd: spent.usd,
        }),
        ..RunInfo::default()
    };
    let text = |json: Result<String, serde_json::Error>| {
        json.map_err(|error| StoreError::Refused(format!("a report that is no JSON: {error}")))
    };
    let files = [
        (FILES[0], text(report::to_json(&summary))?),
        (FILES[1], text(report::to_json(&info))?),
        (FILES[2], report::html(&summary, Some(&info))),
        (FILES[3], rows),
    ];
    for (name, text) in files {
        if !text.is_empty() {
            env.put_blob(&run.blob(name), text.as_bytes()).await?;
        }
    }
    Ok(Finished {
        outcome,
        why,
        exit_code,
        summary,
        spent,
        sweep: plan.name.clone(),
    })
}

fn target_info(target: &plan::TargetSpec, said: Option<&Found>) -> TargetInfo {
    let (kind, simulated) = match target.address.kind() {
        AddressKind::Simulator { .. } => ("simulator", true),
        AddressKind::Dsql { .. } => ("dsql", false),
        AddressKind::Postgres | AddressKind::Secret { .. } => ("postgres", false),
    };
    TargetInfo {
        name: target.name.clone(),
        url: target.address.to_string(),
        kind: kind.to_owned(),
        simulated: simulated || said.is_some_and(|found| found.simulated),
    }
}

/// Text of an instant given in milliseconds since 1970.
fn utc_of(wall_ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(wall_ms).unwrap_or(0));
    report::utc(SystemTime::UNIX_EPOCH + since)
}

fn rep_run(cell: &str, result: &WaveResult) -> RepRun {
    RepRun {
        cell: cell.to_owned(),
        rep: result.wave.rep,
        attempt: result.wave.attempt,
        started_utc: utc_of(result.from_ms),
        wall_s: (result.until_ms - result.from_ms) as f64 / 1e3,
    }
}
