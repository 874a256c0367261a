//! The conductor's side of the protocol: look at a run, do what is due.
//!
//! It keeps nothing in mind between two looks. Each look reads the run and its
//! current wave and takes the next step, as often as there is one:
//!
//! ```text
//! no wave ─► prepare ─► load ─► verify ─► clean ─► closed ─► the next wave, or the end
//!                │        │        │         │
//!                └────────┴────────┴─────────┴ a task that is not settled: wait, send it
//!                                              again (not a load), or declare it lost
//! ```
//!
//! Each step is one conditional change that names the state it starts from, so
//! two conductors at once, a message that comes twice and a crash between two
//! steps are harmless: what was done is seen, what was not is done. Messages
//! that follow a step (tasks, the next look) are sent again until it is noted
//! that they were sent.

mod load;

use std::collections::BTreeMap;
use std::time::Duration;

use plan::{Cell, Plan, Shard};

use crate::env::{Env, ms};
use crate::finish::{self, Finished, RunOutcome};
use crate::ids::{RunId, Stage, TaskId, WaveId};
use crate::message::{Job, Look, Message, Task};
use crate::queue::{LONGEST_DELAY, Queue, To};
use crate::record::{RunRecord, TaskRecord, TaskState, WaveRecord};
use crate::results::{Load, Steps, WaveResult, outcome, rep_report, tasks};
use crate::run::{Kept, RunError, id_base, plan_of, record_of, waves_of};
use crate::spend::{self, Spent};
use crate::store::{Attr, Change, Changed, Store, StoreError, When};
use crate::work::Outcome;

/// Steps that one look may take: more than a run can have at once.
const STEPS: usize = 64;

/// What a look came to.
#[derive(Debug)]
pub enum Looked {
    /// The run goes on; the conductor will be called again.
    Waiting,
    /// This look ended the run.
    Finished(Box<Finished>),
    /// There was nothing to do: why.
    Dropped(String),
}

/// Looks at a run and does what is due.
///
/// # Errors
/// When the store or a queue does not answer: the message should come again.
pub async fn look<S: Store, Q: Queue>(env: &Env<S, Q>, look: &Look) -> Result<Looked, RunError> {
    let run = &look.run;
    let record = match record_of(env, run).await {
        Ok(record) => record,
        Err(RunError::Unknown(_)) => {
            return Ok(Looked::Dropped("there is no such run".to_owned()));
        }
        Err(error) => return Err(error),
    };
    if let Some(outcome) = record.outcome {
        env.delete(&[run.active_key()]).await?;
        return Ok(Looked::Dropped(format!("the run has ended: {outcome}")));
    }
    let read = async {
        let kept = plan_of(env, run).await?;
        let waves = waves_of(env, run, record.attempt).await?;
        Ok((kept, waves))
    };
    let (kept, waves) = match read.await {
        Ok(read) => read,
        Err(RunError::Store(error)) => return Err(error.into()),
        // It does not get better, and a run must end.
        Err(error) => return give_up(env, run, &record, &error.to_string()).await,
    };
    let mut conductor = Conductor {
        env,
        run,
        record,
        kept,
        waves,
        due_ms: look.due_ms,
    };
    for _ in 0..STEPS {
        match conductor.step().await? {
            Next::Again => {}
            Next::Wait(due_ms) => {
                conductor.arm(due_ms).await?;
                return Ok(Looked::Waiting);
            }
            Next::Reload => conductor.record = record_of(env, run).await?,
            Next::End => {
                let finished = conductor.end().await?;
                return Ok(finished.map_or(
                    Looked::Dropped("somebody else ended the run".to_owned()),
                    |finished| Looked::Finished(Box::new(finished)),
                ));
            }
        }
    }
    // Never seen; another look goes on from here.
    crate::run::call(env, run).await?;
    Ok(Looked::Waiting)
}

/// Ends a run whose plan is gone or cannot be read.
async fn give_up<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
    record: &RunRecord,
    why: &str,
) -> Result<Looked, RunError> {
    let change = Change::of(run.key())
        .when([
            When::Absent("outcome"),
            When::Is("attempt", Attr::N(i64::from(record.attempt))),
        ])
        .set("outcome", RunOutcome::Incomplete.as_str())
        .set("why", why)
        .set("ended", report::utc(env.clock.wall()))
        .set_n("ended_ms", env.wall_ms())
        .set_n("exit_code", 2);
    env.change(&change).await?;
    env.delete(&[run.active_key()]).await?;
    Ok(Looked::Dropped(format!("the run was given up: {why}")))
}

enum Next {
    /// There may be more to do.
    Again,
    /// The run has changed.
    Reload,
    /// Nothing is due before that instant.
    Wait(i64),
    /// All waves are closed, or no other may begin.
    End,
}

/// What is to be done about the tasks of a stage.
struct Count {
    /// Tasks that are not settled, but may yet be.
    waiting: u32,
    /// Tasks that nobody will do any more, and whether they were claimed.
    dead: Vec<(u32, u32, Option<TaskRecord>)>,
}

struct Conductor<'a, S, Q> {
    env: &'a Env<S, Q>,
    run: &'a RunId,
    record: RunRecord,
    kept: Kept,
    waves: Vec<WaveId>,
    /// The instant that this look was meant for.
    due_ms: Option<i64>,
}

impl<S: Store, Q: Queue> Conductor<'_, S, Q> {
    async fn step(&mut self) -> Result<Next, RunError> {
        let Some(id) = self.waves.get(self.record.at as usize).copied() else {
            return Ok(Next::End);
        };
        let found = self.env.get(&id.key(self.run)).await?;
        let Some(wave) = found.as_ref().and_then(WaveRecord::read) else {
            return self.open(id).await;
        };
        let job = self.job(id)?;
        match wave.stage {
            Stage::Closed => {
                let go_on = Change::of(self.run.key())
                    .when([
                        When::Is("at", Attr::N(i64::from(self.record.at))),
                        When::Is("attempt", Attr::N(i64::from(self.record.attempt))),
                        When::Absent("outcome"),
                    ])
                    .set_n("at", i64::from(self.record.at) + 1);
                self.env.change(&go_on).await?;
                Ok(Next::Reload)
            }
            Stage::Load => self.load(id, &wave, &job).await,
            _ => self.aside(id, &wave, &job).await,
        }
    }

    fn cell(&self, id: WaveId) -> Result<&Cell, RunError> {
        self.kept
            .plan
            .cells
            .get(id.cell as usize)
            .ok_or_else(|| RunError::Plan(format!("run {} has no cell {}", self.run, id.cell)))
    }

    /// What every task of a wave is told.
    fn job(&self, id: WaveId) -> Result<Job, RunError> {
        let plan = &self.kept.plan;
        let cell = self.cell(id)?;
        let target = plan.target_of(cell).ok_or_else(|| {
            RunError::Plan(format!("run {} has no target {}", self.run, cell.target))
        })?;
        let endpoints = self.kept.endpoints.get(&cell.target);
        let endpoints = endpoints.cloned().unwrap_or_default();
        let fleet = plan.fleet.clone();
        let shards = plan::shards(cell, &endpoints, &fleet)
            .map_err(|error| RunError::Plan(error.to_string()))?;
        let connections: u32 = shards.iter().map(Shard::connections).sum();
        Ok(Job {
            id_base: id_base(&self.record),
            seed: drive::rep_seed(plan.seed, &cell.id, id.rep - 1, drive::Purpose::Inputs),
            endpoint: 0,
            // What opens within the burst needs no slots.
            paced: !plan::slot_delay(connections).is_zero(),
            shard: None,
            leg: None,
            cell: cell.clone(),
            target: target.clone(),
            endpoints,
            fleet,
        })
    }

    /// Begins a wave, unless the run is to stop or the wave would cross a limit.
    async fn open(&mut self, id: WaveId) -> Result<Next, RunError> {
        if self.record.stop.is_some() {
            return Ok(Next::End);
        }
        if is_limited(&self.kept.plan) {
            let mut spent = finish::spent(self.env, self.run).await?;
            let since_ms = self.record.created_ms;
            let counted = finish::counted_dpu(self.env, &self.kept.plan, since_ms).await;
            spent.dpu = spent.dpu.max(counted.unwrap_or(0.0));
            let next = spend::forecast(&self.kept.plan, id.cell as usize);
            if let Some(why) = self.crossed(&spent, &next) {
                self.stop(&format!("limit: {why}, with the next wave in it"))
                    .await?;
                return Ok(Next::Reload);
            }
        }
        let wave = Change::of(id.key(self.run))
            .when([When::Absent("stage")])
            .set("stage", Stage::Prepare.as_str())
            .set_n("round", 1)
            .set_n("sent", 0)
            .set_n("since_ms", self.env.wall_ms())
            .set_n("from_ms", self.env.wall_ms())
            .set_n("look_ms", 0)
            .set_n("expires_s", self.env.expires_s());
        self.env.change(&wave).await?;
        Ok(Next::Again)
    }

    /// Which limit the run crosses with what it has spent and is about to spend.
    fn crossed(&self, spent: &Spent, next: &Spent) -> Option<String> {
        let limits = &self.kept.plan.fleet.limits;
        let now_ms = self.env.wall_ms();
        let minutes = (now_ms - self.record.began_ms) as f64 / 60_000.0 + next.minutes;
        let over = |value: f64, limit: Option<f64>| limit.filter(|limit| value > *limit);
        if let Some(limit) = over(minutes, limits.minutes) {
            return Some(format!("{minutes:.1} of {limit} minutes"));
        }
        let usd = spent.usd + next.usd;
        if let Some(limit) = over(usd, limits.usd) {
            return Some(format!("{usd:.2} of {limit} dollars"));
        }
        let dpu = spent.dpu + next.dpu;
        if let Some(limit) = over(dpu, limits.dpu) {
            return Some(format!("{dpu:.0} of {limit} DPU"));
        }
        None
    }

    async fn stop(&self, why: &str) -> Result<(), StoreError> {
        let change = Change::of(self.run.key())
            .when([
                When::Present("created_ms"),
                When::Absent("stop"),
                When::Absent("outcome"),
            ])
            .set("stop", why)
            .set_n("stop_ms", self.env.wall_ms());
        self.env.change(&change).await.map(drop)
    }

    /// A stage with one task that may be done twice: prepare, verify, clean.
    async fn aside(&self, id: WaveId, wave: &WaveRecord, job: &Job) -> Result<Next, RunError> {
        let task = TaskId {
            wave: id,
            stage: wave.stage,
            leg: 0,
            index: 0,
        };
        if wave.sent == 0 {
            let mut job = job.clone();
            job.endpoint = match wave.stage {
                Stage::Verify => self.verifying(&job)?,
                _ => 0,
            };
            let to = self.queue_of(&job, job.endpoint);
            let message = Message::task(Task {
                run: self.run.clone(),
                task,
                of: 1,
                round: wave.round,
                job,
            });
            self.env
                .send(&to, &[message.to_text()], Duration::ZERO)
                .await?;
            return self.sent(id, wave, 1).await;
        }
        let mut found = tasks(self.env, self.run, id, wave.stage).await?;
        let count = self.count(wave, std::iter::once((0, 0)), &mut found);
        if let Some((_, _, dead)) = count.dead.into_iter().next() {
            // Somebody may just be finishing it: the claim and the condition on
            // done keep two results apart.
            if wave.round < self.env.settings.rounds {
                let again = self
                    .from(id, wave)
                    .set_n("round", i64::from(wave.round) + 1)
                    .set_n("sent", 0)
                    .set_n("since_ms", self.env.wall_ms());
                self.env.change(&again).await?;
            } else {
                self.declare_lost(&task, dead.as_ref()).await?;
            }
            return Ok(Next::Again);
        }
        if count.waiting > 0 {
            return Ok(Next::Wait(self.env.wall_after(self.env.settings.look)));
        }
        let ended = match found.get(&(0, 0)) {
            Some(found) => outcome(self.env, self.run, &task, found).await?,
            None => None,
        };
        let good = match (&ended, wave.stage) {
            (Some(Outcome::Checked { verified }), _) => verified.ok,
            (Some(Outcome::Stepped { .. }), _) => true,
            _ => false,
        };
        let next = match (wave.stage, good) {
            (Stage::Prepare, true) => Stage::Load,
            // After a failed verification everything is left where it is.
            (Stage::Verify, true) => Stage::Clean,
            _ => Stage::Closed,
        };
        self.advance(id, wave, next).await
    }

    /// The endpoint that a wave is verified through.
    fn verifying(&self, job: &Job) -> Result<u32, RunError> {
        let rep = drive::Rep {
            cell: &job.cell,
            id_base: job.id_base,
            seed: job.seed,
        };
        let writers = rep
            .placement(&job.endpoints)
            .map_err(|error| RunError::Plan(error.to_string()))?;
        let at = drive::verifying_endpoint(&writers, job.endpoints.len());
        Ok(u32::try_from(at).unwrap_or(0))
    }

    fn queue_of(&self, job: &Job, endpoint: u32) -> To {
        let region = self.env.region_of(&job.target.regions, endpoint);
        To::Wave {
            region: region.to_owned(),
        }
    }

    /// Notes that legs, or the task, were sent. What is sent twice because a
    /// conductor crashed before this does no harm.
    async fn sent(&self, id: WaveId, wave: &WaveRecord, sent: u32) -> Result<Next, RunError> {
        let change = self
            .from(id, wave)
            .set_n("sent", i64::from(sent))
            .set_n("since_ms", self.env.wall_ms());
        self.env.change(&change).await?;
        Ok(Next::Again)
    }

    /// A change of the wave that is made only if it is as it was read.
    fn from(&self, id: WaveId, wave: &WaveRecord) -> Change {
        Change::of(id.key(self.run)).when([
            When::Is("stage", Attr::S(wave.stage.as_str().to_owned())),
            When::Is("round", Attr::N(i64::from(wave.round))),
            When::Is("sent", Attr::N(i64::from(wave.sent))),
        ])
    }

    /// Sorts the tasks that were called.
    fn count(
        &self,
        wave: &WaveRecord,
        called: impl Iterator<Item = (u32, u32)>,
        found: &mut BTreeMap<(u32, u32), TaskRecord>,
    ) -> Count {
        let settings = &self.env.settings;
        let now_ms = self.env.wall_ms();
        // Tasks that nobody claims: of a barrier that was closed or a run that
        // was stopped nobody need wait for them.
        let patience = if wave.refused.is_some() || self.record.stop.is_some() {
            settings.look
        } else {
            settings.gather
        };
        let unclaimed_ms = wave.since_ms + ms(patience);
        let mut count = Count {
            waiting: 0,
            dead: Vec::new(),
        };
        for (leg, index) in called {
            let task = found.get(&(leg, index));
            let dead = match task {
                Some(task) if task.is_settled() => continue,
                // One that was sent again needs time to be taken over.
                Some(task) => {
                    task.lease_ms + ms(settings.skew) < now_ms
                        && (wave.round == 1 || unclaimed_ms < now_ms)
                }
                None => unclaimed_ms < now_ms,
            };
            if dead {
                count.dead.push((leg, index, task.cloned()));
            } else {
                count.waiting += 1;
            }
        }
        count
    }

    /// Declares a task lost, unless its worker has settled it in the meantime or
    /// shown that it is alive. From here on no result of it is taken.
    async fn declare_lost(
        &self,
        task: &TaskId,
        seen: Option<&TaskRecord>,
    ) -> Result<(), StoreError> {
        let change = Change::of(task.key(self.run))
            .set("state", TaskState::Lost.as_str())
            .set_n("lost_ms", self.env.wall_ms())
            .set_n("expires_s", self.env.expires_s());
        let change = match seen {
            None => change.when([When::Absent("state")]),
            Some(seen) => change.when([
                When::Is("state", seen.state.attr()),
                When::Is("owner", Attr::S(seen.owner.clone())),
                When::Is("lease_ms", Attr::N(seen.lease_ms)),
            ]),
        };
        self.env.change(&change).await.map(drop)
    }

    /// Goes on to another stage. A wave that closes is put together first.
    async fn advance(&self, id: WaveId, wave: &WaveRecord, next: Stage) -> Result<Next, RunError> {
        let mut change = self.from(id, wave);
        if next == Stage::Closed {
            let spent = self.put_together(id, wave).await?;
            change = change
                .set_n("dpu_milli", (spent.dpu * 1e3) as i64)
                .set_n("usd_micro", (spent.usd * 1e6) as i64);
        }
        let change = change
            .set("stage", next.as_str())
            .set_n("round", 1)
            .set_n("sent", 0)
            .set_n("since_ms", self.env.wall_ms());
        self.env.change(&change).await?;
        Ok(Next::Again)
    }

    /// Writes the wave's result. The same tasks give the same result, so it does
    /// no harm when two conductors do it.
    async fn put_together(&self, id: WaveId, wave: &WaveRecord) -> Result<Spent, RunError> {
        let job = self.job(id)?;
        let load = Load::read(self.env, self.run, id, &job).await?;
        let attempts = load.attempts();
        let rep = drive::Rep {
            cell: &job.cell,
            id_base: job.id_base,
            seed: job.seed,
        };
        let mut steps = Steps::default();
        for stage in [Stage::Prepare, Stage::Verify, Stage::Clean] {
            let found = tasks(self.env, self.run, id, stage).await?;
            let Some(task) = found.get(&(0, 0)) else {
                continue;
            };
            let task_id = TaskId {
                wave: id,
                stage,
                leg: 0,
                index: 0,
            };
            let ended = outcome(self.env, self.run, &task_id, task).await?;
            if ended.is_none() {
                steps.lost.push(format!(
                    "{stage}: no worker did it in {} rounds; these rows were left: {}",
                    self.env.settings.rounds,
                    rep.rows_named()
                ));
            }
            match stage {
                Stage::Prepare => steps.prepare = ended,
                Stage::Verify => steps.verify = ended,
                _ => steps.clean = ended,
            }
        }
        let found_out = match &steps.prepare {
            Some(Outcome::Stepped { found, .. }) => found.clone(),
            _ => None,
        };
        let (report, rows) = rep_report(id, wave, rep.planned(), load, steps, &rep.rows_named());
        let found = self.env.get(&id.key(self.run)).await?;
        let from_ms = found.and_then(|item| {
            use crate::store::Read;
            item.number("from_ms")
        });
        let from_ms = from_ms.unwrap_or(wave.since_ms);
        let until_ms = self.env.wall_ms();
        let spent = spend::wave(
            &self.kept.plan,
            id.cell as usize,
            attempts,
            until_ms - from_ms,
        );
        let result = WaveResult {
            wave: id,
            rep: report,
            found: found_out,
            rows,
            from_ms,
            until_ms,
            dpu: spent.dpu_known.then_some(spent.dpu),
            usd: spent.usd,
        };
        finish::keep(self.env, self.run, &result).await?;
        Ok(spent)
    }

    /// Sees to it that the conductor is called again, once.
    async fn arm(&self, due_ms: i64) -> Result<(), RunError> {
        let Some(id) = self.waves.get(self.record.at as usize) else {
            return Ok(());
        };
        let found = self.env.get(&id.key(self.run)).await?;
        let Some(wave) = found.as_ref().and_then(WaveRecord::read) else {
            return Ok(());
        };
        let now_ms = self.env.wall_ms();
        // Another look is on its way. This one may have come early, by a clock
        // that is behind: it is not on its way any more.
        let this = Some(wave.look_ms) == self.due_ms;
        if !this && wave.look_ms > now_ms && wave.look_ms <= due_ms {
            return Ok(());
        }
        let change = Change::of(id.key(self.run))
            .when([When::Is("look_ms", Attr::N(wave.look_ms))])
            .set_n("look_ms", due_ms);
        if let Changed::Yes(_) = self.env.change(&change).await? {
            let delay_ms = u64::try_from(due_ms - now_ms).unwrap_or(0);
            let delay = Duration::from_millis(delay_ms).min(LONGEST_DELAY);
            let look = Message::look(self.run, Some(due_ms)).to_text();
            self.env.send(&To::Control, &[look], delay).await?;
        }
        Ok(())
    }

    /// Ends the run: the report, then the state. `None` when another conductor
    /// was first.
    async fn end(&self) -> Result<Option<Finished>, RunError> {
        let finished = finish::report(self.env, self.run, &self.record, &self.kept).await?;
        let change = Change::of(self.run.key())
            .when([
                When::Absent("outcome"),
                When::Is("attempt", Attr::N(i64::from(self.record.attempt))),
            ])
            .set("outcome", finished.outcome.as_str())
            .set("why", &finished.why)
            .set("ended", report::utc(self.env.clock.wall()))
            .set_n("ended_ms", self.env.wall_ms())
            .set_n("exit_code", i64::from(finished.exit_code));
        let first = matches!(self.env.change(&change).await?, Changed::Yes(_));
        self.env.delete(&[self.run.active_key()]).await?;
        Ok(first.then_some(finished))
    }
}

/// Whether a run of the plan may not take what it likes.
fn is_limited(plan: &Plan) -> bool {
    let limits = &plan.fleet.limits;
    limits.minutes.is_some() || limits.usd.is_some() || limits.dpu.is_some()
}
