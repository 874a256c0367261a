//! One repetition of one cell, whole, in this one worker: prepare, load, verify,
//! clean. What `cargo lambda invoke` runs; no table, no queue, no barrier.

use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Time};
use cloud::Targets;
use drive::{AtOnce, Ended, Progress, Purpose, Rep, Settings, rep_seed, verifying_endpoint};
use fleet::{Invocation, Outcome, Task};
use plan::{Cell, Overrides, TargetSpec};
use report::{CellReport, RepError, RepReport, Summary, SweepInfo, TargetInfo};
use serde_json::{Value, json};
use target::{Kind, Target};
use workload::Step;

/// Connections of one worker: a Lambda has 1,024 file descriptors and needs some
/// for itself.
const CONNECTIONS: u32 = 900;

/// How long the pool may take to fill, and a try to reach the target.
const OPEN_LIMIT: Duration = Duration::from_secs(120);
const REACH_LIMIT: Duration = Duration::from_secs(30);

/// A worker keeps this part of its time for what comes after the load, at most
/// as much as in a fleet.
const KEPT: u32 = 3;

/// A cell to run, planned.
pub struct Asked {
    cell: Cell,
    target: TargetSpec,
    seed: u64,
}

impl Asked {
    /// Reads `{"cell": {…}, "on": …, "seed": …}`.
    ///
    /// # Errors
    /// In one line: the place in the event, and what would be accepted.
    pub fn read(mut event: Value, default_on: Option<String>) -> Result<Asked, String> {
        let members = event.as_object_mut().ok_or("not an object")?;
        let mut block = members.remove("cell").unwrap_or_default();
        let on = match members.remove("on") {
            None | Some(Value::Null) => default_on,
            Some(Value::String(on)) => Some(on),
            Some(_) => return Err("on: must be the URL of a target".to_owned()),
        };
        let on = on.ok_or(
            "on: missing; give the URL of a target (dsql://HOST[,HOST] or postgres://…), or set \
             FABRIC_TARGET",
        )?;
        if on.starts_with("sim:") {
            return Err(
                "on: workers do not hold the simulator; serve it with `fabric sim serve` and give \
                 its dsql:// address"
                    .to_owned(),
            );
        }
        let seed = members.remove("seed").unwrap_or_else(|| json!(1));
        if let Some(key) = members.keys().next() {
            return Err(format!(
                "{key}: not known; a cell's event has cell, on and seed"
            ));
        }
        if let Some(block) = block.as_object_mut() {
            // A block of a sweep has a name and several repetitions; one worker
            // runs one, whatever it is called.
            block.entry("name").or_insert_with(|| json!("cell"));
            block.entry("reps").or_insert_with(|| json!(1));
        }
        let sweep = json!({ "name": "cell", "seed": seed, "blocks": [block] });
        let overrides = Overrides {
            on: vec![on],
            ..Overrides::default()
        };
        // The place is where the event has it, not the sweep around it.
        let refused = |error: plan::SweepError| {
            let line = error.to_string();
            line.replace("blocks[0]", "cell").replace("--on", "on")
        };
        let sweep = plan::parse(&sweep.to_string()).map_err(refused)?;
        let plan = sweep.plan(&overrides).map_err(refused)?;
        let cells = plan.cells.len();
        let [cell] = &plan.cells[..] else {
            return Err(format!(
                "cell: its lists make {cells} cells; one worker runs one"
            ));
        };
        if cell.reps != 1 {
            return Err(format!("cell.reps: {}; one worker runs 1", cell.reps));
        }
        let writers = cell.params.shape().writers;
        if writers > CONNECTIONS {
            return Err(format!(
                "cell: {writers} writers; one worker has at most {CONNECTIONS} connections"
            ));
        }
        let target = plan.target_of(cell).ok_or("cell.target: there is none")?;
        Ok(Asked {
            cell: cell.clone(),
            target: target.clone(),
            seed: plan.seed,
        })
    }

    /// Runs it; the answer is the cell's summary, and how it ended.
    ///
    /// # Errors
    /// In one line: why the target can't be had.
    pub async fn run(
        &self,
        clock: Clock,
        targets: &Targets,
        invocation: &Invocation,
    ) -> Result<Value, String> {
        let target = targets.resolve(&self.target).await?;
        let reached = target.connect(0, clock.now() + REACH_LIMIT).await;
        let simulated = match reached {
            Ok(conn) => target.is_simulated(&conn).await,
            Err(failure) => return Err(format!("target {}: {failure}", self.target.name)),
        };
        let rep = Rep {
            cell: &self.cell,
            id_base: id_base(&invocation.id),
            seed: rep_seed(self.seed, &self.cell.id, 0, Purpose::Inputs),
        };
        let left = invocation.deadline.since(clock.now());
        let kept = (left / KEPT).min(fleet::Settings::default().reserve);
        let until = invocation.deadline.since(Time::ZERO).saturating_sub(kept);
        let ran = run(&rep, &target, Time::from_origin(until), invocation.vcpus).await;
        let ended = match &ran.error {
            None => "ran",
            Some(RepError::Pool(_)) => "not started",
            Some(_) => "failed",
        };
        let info = TargetInfo {
            name: self.target.name.clone(),
            url: target.describe().url,
            kind: target.kind().name().to_owned(),
            simulated,
        };
        Ok(summary(ended, &self.cell, self.seed, info, ran))
    }
}

/// Upper bits of row ids that no other invocation should have, above the bits of
/// a rep's rows.
fn id_base(invocation: &str) -> i64 {
    let bits = invocation
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    let bits = (bits >> 32) ^ (bits & 0xffff_ffff);
    i64::try_from(bits).unwrap_or(0) << 31
}

/// The steps of a rep, until one of them fails.
async fn run(rep: &Rep<'_>, target: &Target, stop_by: Time, vcpus: f64) -> RepReport {
    let mut report = RepReport {
        planned: rep.planned(),
        ..one_worker()
    };
    if let Err(error) = steps(rep, target, stop_by, vcpus, &mut report).await {
        report.error = Some(error);
    }
    report
}

async fn steps(
    rep: &Rep<'_>,
    target: &Target,
    stop_by: Time,
    vcpus: f64,
    report: &mut RepReport,
) -> Result<(), RepError> {
    let broke = |step: &str, why: &dyn std::fmt::Display| RepError::Run(format!("{step}: {why}"));
    let left = |step: &str, why: &dyn std::fmt::Display| {
        let rows = rep.rows_named();
        RepError::Run(format!("{step}: {why}; these rows were left: {rows}"))
    };
    let endpoints: Vec<String> = target.endpoints().iter().map(|e| e.name.clone()).collect();
    let writers = rep
        .placement(&endpoints)
        .map_err(|why| broke("placement", &why))?;
    let prepared = rep
        .prepare(target)
        .await
        .map_err(|why| broke("prepare", &why))?;
    report.prepare = Some(seconds(prepared));
    let verifier = verifying_endpoint(&writers, endpoints.len());
    let settings = Settings {
        writers,
        opening: None,
        probe_endpoints: (0..endpoints.len()).collect(),
        leg: None,
        first_operation: 0,
        stop_by: Some(stop_by),
        server_parts: Vec::new(),
        vcpus,
        open_limit: OPEN_LIMIT,
    };
    // Nobody stops it but its deadline.
    let (_handle, stop) = drive::stop();
    let progress = Arc::new(Progress::default());
    let gate = AtOnce(target.clock());
    let load = rep.load(settings, target, stop, progress, &gate).await;
    let not_started = match load {
        Ok(Ended::Ran(mut shard)) => {
            let verified = rep.verify(target, verifier, &shard.claims, &[]).await;
            if let Ok(verified) = &verified {
                shard.settle(verified);
                report.verify_ok = Some(verified.ok);
                report.verify_problems.clone_from(&verified.problems);
            }
            report.partial = shard.result.stopped;
            report.result = shard.result;
            let verified = verified.map_err(|why| left("verify", &why))?;
            report.verify = Some(seconds(verified.step));
            if !verified.ok {
                // Everything stays for somebody to look at.
                return Ok(());
            }
            None
        }
        Ok(Ended::NotStarted(why)) => Some(why),
        Err(failure) => Some(failure.to_string()),
    };
    let cleaned = rep.clean(target).await;
    match (cleaned, not_started) {
        (Ok(step), None) => report.clean = Some(seconds(step)),
        (Err(why), None) => return Err(left("clean", &why)),
        (cleaned, Some(why)) => {
            report.clean = cleaned.ok().map(seconds);
            return Err(RepError::Pool(why));
        }
    }
    Ok(())
}

/// The report of a rep that this worker runs alone.
fn one_worker() -> RepReport {
    RepReport {
        rep: 1,
        attempt: 1,
        workers_expected: 1,
        workers_reported: 1,
        ..RepReport::default()
    }
}

fn seconds(step: Step) -> report::Step {
    report::Step {
        rows: step.rows,
        seconds: step.took.as_secs_f64(),
    }
}

/// The summary of a sweep of one cell: that cell, the verdict, and how it ended.
fn summary(ended: &str, cell: &Cell, seed: u64, target: TargetInfo, rep: RepReport) -> Value {
    let info = SweepInfo {
        name: "cell".to_owned(),
        about: None,
        seed,
        targets: vec![target],
    };
    let cells = [CellReport {
        cell: cell.clone(),
        reps: vec![rep],
    }];
    let summary = Summary::build(&info, &cells);
    let mut answer = json!({ "ended": ended, "seed": seed, "verdict": summary.verdict });
    let cell = summary
        .cells
        .first()
        .and_then(|cell| serde_json::to_value(cell).ok());
    if let (Some(answer), Some(Value::Object(cell))) = (answer.as_object_mut(), cell) {
        answer.extend(cell);
    }
    answer
}

/// What a task came to, for people: the summary of its share of the load, or of
/// its step.
pub fn outcome_of(task: &Task, outcome: Outcome) -> Value {
    let ended = outcome.word();
    match outcome {
        Outcome::Ran { report, .. } => {
            let target = &task.job.target;
            let info = TargetInfo {
                name: target.name.clone(),
                url: target.address.to_string(),
                kind: match target.address.kind() {
                    plan::AddressKind::Dsql { .. } => Kind::Dsql.name(),
                    _ => Kind::Postgres.name(),
                }
                .to_owned(),
                simulated: false,
            };
            let rep = RepReport {
                partial: report.result.stopped,
                result: report.result,
                ..one_worker()
            };
            summary(ended, &task.job.cell, task.job.seed, info, rep)
        }
        Outcome::Stepped { step, .. } => json!({
            "ended": ended, "rows": step.rows, "seconds": step.took.as_secs_f64(),
        }),
        Outcome::Checked { verified } => json!({
            "ended": ended, "ok": verified.ok, "problems": verified.problems,
        }),
        Outcome::Late { by_ms } => json!({ "ended": ended, "by_ms": by_ms }),
        Outcome::NotStarted { why } | Outcome::Failed { why } => {
            json!({ "ended": ended, "because": why })
        }
    }
}

#[cfg(test)]
#[path = "cell_tests.rs"]
mod tests;
