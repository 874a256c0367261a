//! A worker's side of the protocol: one task from its message to its result.
//!
//! ```text
//! claim ─► present ─► connect ─► ready ─► running ─► done
//!   │         │          │         │         │         └ counted in; the last one calls the conductor
//!   │         └──────────┴─────────┘         └ load; watches the stop flag, renews its lease
//!   │        waits for an instant that
//!   │        the last one to come publishes
//!   └ a condition: nobody has it, or nobody alive and no load was begun
//! ```
//!
//! The one guard that keeps load from being run twice is the change from
//! `claimed` to `running`, which only the owner can make and which nobody can
//! take back. The one guard that keeps results from being counted twice is the
//! change to `done`, which only the owner of a task that is not settled can make.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use clock::Time;
use drive::{Ended, Gate, Opened, Opening, Progress, Start, StopHandle};
use workload::Claim;

use crate::env::{Env, ms};
use crate::ids::{Stage, TaskId};
use crate::message::{Message, Task};
use crate::queue::{Queue, To};
use crate::record::{RunRecord, TaskRecord, TaskState, WaveRecord};
use crate::results::{Load, abort_limit};
use crate::store::{Attr, Change, Changed, Item, Read, Store, StoreError, When};
use crate::tally::{Rally, count_in, is_full};
use crate::work::{Counts, Live, Outcome, Work};

/// Results up to this many bytes are kept in an item.
const INLINE: usize = 100_000;

/// The instants of a wave that its workers publish.
const OPEN: &str = "open_ms";
const START: &str = "start_ms";

/// One call of the worker's function.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Unique to the call.
    pub id: String,
    /// When the platform ends it.
    pub deadline: Time,
    /// vCPUs that its memory buys.
    pub vcpus: f64,
}

/// What became of a task's message.
#[derive(Debug)]
pub enum Handled {
    /// The task was done and its result is written.
    Done(Outcome),
    /// Nothing was done, and that is right: why.
    Dropped(String),
}

/// Handles a task from its message.
///
/// # Errors
/// When the store or a queue does not answer: the message should come again.
pub async fn handle<S: Store, Q: Queue, W: Work>(
    env: &Env<S, Q>,
    work: &W,
    task: &Task,
    invocation: &Invocation,
) -> Result<Handled, StoreError> {
    let Some(run) = env.get(&task.run.key()).await? else {
        return Ok(dropped("there is no such run (deleted, or never started)"));
    };
    let run = RunRecord::read(&run);
    if let Some(outcome) = &run.outcome {
        return Ok(Handled::Dropped(format!("the run has ended: {outcome}")));
    }
    let wave = env.get(&task.task.wave.key(&task.run)).await?;
    let Some(wave) = wave.as_ref().and_then(WaveRecord::read) else {
        return Ok(dropped("the run has no such wave"));
    };
    if wave.stage != task.task.stage {
        return Ok(Handled::Dropped(format!(
            "the wave is at stage {}",
            wave.stage
        )));
    }
    let worker = Worker {
        env,
        task,
        invocation,
    };
    match worker.claim().await? {
        Claimed::Mine => {}
        Claimed::Finished => {
            // The one that finished it may not have come to count it in.
            worker.count_done().await?;
            return Ok(dropped("a duplicate of a finished task"));
        }
        Claimed::Taken => return Ok(dropped("a duplicate of a living task")),
    }
    let outcome = match task.task.stage {
        Stage::Load => worker.load(work, &wave).await?,
        Stage::Prepare => match worker.keep(work.prepare(&task.job)).await.flatten() {
            Ok((step, found)) => Outcome::Stepped {
                step,
                found: Some(found),
            },
            Err(why) => Outcome::Failed { why },
        },
        Stage::Clean => match worker.keep(work.clean(&task.job)).await.flatten() {
            Ok(step) => Outcome::Stepped { step, found: None },
            Err(why) => Outcome::Failed { why },
        },
        Stage::Verify => {
            let check = async {
                let (claims, missing) = worker.claims().await?;
                Ok(work.verify(&task.job, &claims, &missing).await)
            };
            match worker.keep(check).await {
                Ok(Ok(Ok(verified))) => Outcome::Checked { verified },
                Ok(Ok(Err(why))) | Err(why) => Outcome::Failed { why },
                Ok(Err(error)) => return Err(error),
            }
        }
        Stage::Closed => return Ok(dropped("there are no tasks of stage closed")),
    };
    if worker.write(&outcome).await? {
        worker.count_done().await?;
        Ok(Handled::Done(outcome))
    } else {
        Ok(dropped("given up by the conductor before its result came"))
    }
}

fn dropped(why: &str) -> Handled {
    Handled::Dropped(why.to_owned())
}

enum Claimed {
    Mine,
    Finished,
    Taken,
}

struct Worker<'a, S, Q> {
    env: &'a Env<S, Q>,
    task: &'a Task,
    invocation: &'a Invocation,
}

impl<S: Store, Q: Queue> Worker<'_, S, Q> {
    fn change(&self) -> Change {
        Change::of(self.task.task.key(&self.task.run))
    }

    /// Conditions that hold of a task that is ours and in one of `states`.
    fn mine(&self, mut change: Change, states: &[TaskState]) -> Change {
        for state in states {
            change = change.when([
                When::Is("owner", Attr::S(self.invocation.id.clone())),
                When::Is("state", state.attr()),
            ]);
        }
        change
    }

    fn lease_ms(&self) -> i64 {
        self.env.wall_after(self.env.settings.lease)
    }

    /// Takes the task, when nobody has it. One that was claimed by somebody
    /// whose lease has run out is taken over as long as its load was not begun.
    async fn claim(&self) -> Result<Claimed, StoreError> {
        let dead_ms = self.env.wall_ms() - ms(self.env.settings.skew);
        let mine = Attr::S(self.invocation.id.clone());
        let claim = self
            .change()
            .when([When::Absent("state")])
            .when([
                When::Is("state", TaskState::Claimed.attr()),
                When::Is("owner", mine),
            ])
            .when([
                When::Is("state", TaskState::Claimed.attr()),
                When::Below("lease_ms", dead_ms),
            ])
            .set("state", TaskState::Claimed.as_str())
            .set("owner", &self.invocation.id)
            .set("name", self.task.name())
            .set_n("round", i64::from(self.task.round))
            .set_n("lease_ms", self.lease_ms())
            .set_n("claimed_ms", self.env.wall_ms())
            .set_n("expires_s", self.env.expires_s())
            .remove("ready");
        Ok(match self.env.change(&claim).await? {
            Changed::Yes(_) => Claimed::Mine,
            Changed::No(item) => match item.as_ref().and_then(TaskRecord::read) {
                Some(task) if task.state == TaskState::Done => Claimed::Finished,
                _ => Claimed::Taken,
            },
        })
    }

    /// Renews the lease while a step beside the load is done; gives it up when
    /// this worker's time is.
    async fn keep<T>(&self, step: impl Future<Output = T>) -> Result<T, String> {
        let renew = async {
            loop {
                self.env.clock.sleep(self.env.settings.progress).await;
                let change = self
                    .mine(self.change(), &[TaskState::Claimed])
                    .set_n("lease_ms", self.lease_ms());
                // One that fails is made up for by the next.
                let _ = self.env.store.change(&change).await;
            }
        };
        let clock = self.env.clock;
        let until = self.invocation.deadline.since(clock.now());
        let limit = until
            .saturating_sub(self.env.settings.reserve)
            .min(self.env.settings.step);
        let over = clock.sleep(limit);
        tokio::pin!(step, renew, over);
        tokio::select! {
            biased;
            done = &mut step => Ok(done),
            () = &mut renew => unreachable!("it never ends"),
            () = &mut over => Err(format!(
                "not done within the {} s that a worker has for it",
                limit.as_secs()
            )),
        }
    }

    /// Runs the load, watching over it.
    async fn load<W: Work>(&self, work: &W, wave: &WaveRecord) -> Result<Outcome, StoreError> {
        let Some(leg) = &self.task.job.leg else {
            return Ok(Outcome::Failed {
                why: "a load without a leg".to_owned(),
            });
        };
        let first = leg.index == 0;
        let opening = if first && self.task.job.paced {
            match self.slots().await? {
                Ok(opening) => Some(opening),
                Err(why) => return Ok(Outcome::NotStarted { why }),
            }
        } else {
            None
        };
        let (handle, stop) = drive::stop();
        let progress = Arc::new(Progress::default());
        let until = self.invocation.deadline.since(Time::ZERO);
        let live = Live {
            stop,
            progress: Arc::clone(&progress),
            stop_by: Time::from_origin(until.saturating_sub(self.env.settings.reserve)),
            opening,
            vcpus: self.invocation.vcpus,
        };
        let gate = Barrier {
            worker: self,
            started: wave.start_ms.filter(|_| !first),
            refusal: RefCell::new(None),
        };
        let ended = {
            // Boxed: it holds the whole driver, and everything around it would
            // hold that once more.
            let load = Box::pin(work.load(&self.task.job, live, &gate));
            let watch = self.watch(&handle, &progress);
            tokio::pin!(load, watch);
            tokio::select! {
                biased;
                ended = &mut load => ended,
                error = &mut watch => return Err(error),
            }
        };
        match (gate.refusal.into_inner(), ended) {
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(outcome)), _) => Ok(outcome),
            (None, Ok(Ended::Ran(mut report))) => {
                let offset = self.env.store.offset();
                report.result.clock_offset_us = offset.map(|offset| (offset.ms * 1e3) as i64);
                Ok(Outcome::Ran {
                    report: Box::new(report),
                })
            }
            (None, Ok(Ended::NotStarted(why))) => Ok(Outcome::NotStarted { why }),
            (None, Err(why)) => Ok(Outcome::Failed { why }),
        }
    }

    /// Says that this worker is there, and waits until all are: from then on
    /// connections open, each in its slot.
    async fn slots(&self) -> Result<Result<Opening, String>, StoreError> {
        let Some(shard) = &self.task.job.shard else {
            return Ok(Err("a load without a shard".to_owned()));
        };
        let open_ms = match self.rally(Rally::Present, OPEN).await? {
            Ok(open_ms) => open_ms,
            Err(why) => return Ok(Err(why)),
        };
        Ok(Ok(Opening {
            from: self.env.instant_of(open_ms),
            delays: shard.delays(),
        }))
    }

    /// Stands at the barrier until the start is published, and takes the last
    /// step before the load.
    async fn barrier(&self, opened: &Opened) -> Result<Result<Time, Outcome>, StoreError> {
        let ready = self
            .mine(self.change(), &[TaskState::Claimed])
            .set_n("ready", 1)
            .set_n("connections", i64::from(opened.connections))
            .set_n("connect_ms", ms(opened.took))
            .set_n("refusals", i64::from(opened.refusals))
            .set_n("lease_ms", self.lease_ms());
        if let Changed::No(_) = self.env.change(&ready).await? {
            return Ok(Err(not_started("the task was given to another worker")));
        }
        match self.rally(Rally::Ready, START).await? {
            Ok(start_ms) => self.begin(start_ms, true).await,
            Err(why) => Ok(Err(not_started(&why))),
        }
    }

    /// From here on the load counts as begun, whatever becomes of this worker.
    async fn begin(&self, start_ms: i64, first: bool) -> Result<Result<Time, Outcome>, StoreError> {
        let start = self.env.instant_of(start_ms);
        let by_ms = self.env.wall_ms() - start_ms;
        if first && by_ms > ms(self.env.settings.late) {
            return Ok(Err(Outcome::Late { by_ms }));
        }
        let running = self
            .mine(self.change(), &[TaskState::Claimed, TaskState::Running])
            .set("state", TaskState::Running.as_str())
            .set_n("lease_ms", self.lease_ms());
        if let Changed::No(_) = self.env.change(&running).await? {
            return Ok(Err(not_started("the task was given up by the conductor")));
        }
        // The store may have taken its time over that.
        let by_ms = self.env.wall_ms() - start_ms;
        if first && by_ms > ms(self.env.settings.late) {
            return Ok(Err(Outcome::Late { by_ms }));
        }
        // A later leg counts from the same instant, which has passed.
        if first {
            return Ok(Ok(start));
        }
        Ok(self.passed(start_ms).ok_or_else(|| {
            not_started("the start lies before everything that this worker's clock knows")
        }))
    }

    /// The instant of a wall-clock time that has passed; `None` when the clock
    /// does not reach back so far.
    fn passed(&self, wall_ms: i64) -> Option<Time> {
        let ago_ms = u64::try_from(self.env.wall_ms() - wall_ms).unwrap_or(0);
        let now = self.env.clock.now().since_origin();
        now.checked_sub(Duration::from_millis(ago_ms))
            .map(Time::from_origin)
    }

    /// Counts this worker in and waits for the instant that the last one
    /// publishes under `name`; the error is why there will be none.
    async fn rally(
        &self,
        rally: Rally,
        name: &'static str,
    ) -> Result<Result<i64, String>, StoreError> {
        let Task { run, task, job, .. } = self.task;
        let of = job.shard.as_ref().map_or(1, |shard| shard.of);
        if count_in(self.env, run, task.wave, rally, task.index, of).await? {
            self.publish(name).await?;
        }
        let mut polls = 0u32;
        loop {
            let found = self.env.get(&task.wave.key(run)).await?;
            let Some((wave, at)) = found.as_ref().and_then(|item| instant(item, name)) else {
                return Ok(Err("the wave was deleted".to_owned()));
            };
            if let Some(at) = at {
                return Ok(Ok(at));
            }
            if let Some(why) = wave.refused {
                return Ok(Err(why));
            }
            if wave.stage != Stage::Load {
                return Ok(Err(format!("the wave went on to {}", wave.stage)));
            }
            let left = self.invocation.deadline.since(self.env.clock.now());
            if left < self.env.settings.reserve {
                return Ok(Err("no start within this worker's time".to_owned()));
            }
            polls += 1;
            // The last one may have crashed between the two.
            if polls.is_multiple_of(16) {
                if is_full(self.env, run, task.wave, rally, of).await? {
                    self.publish(name).await?;
                }
                let item = self.env.get(&run.key()).await?;
                match item.as_ref().map(RunRecord::read) {
                    Some(run) if run.is_over() => {
                        return Ok(Err(format!(
                            "the run was stopped: {}",
                            run.stop.or(run.outcome).unwrap_or_default()
                        )));
                    }
                    Some(_) => {}
                    None => return Ok(Err("the run was deleted".to_owned())),
                }
            }
            self.env.clock.sleep(self.env.settings.poll).await;
        }
    }

    /// Sets the instant, unless there is one or there will be none.
    async fn publish(&self, name: &'static str) -> Result<(), StoreError> {
        let mut lead = self.env.settings.lead;
        if name == OPEN {
            // The wave before may have used up what the cluster takes at once. It
            // was closed before this one was opened; until now that is a rest.
            let rest = plan::refill_time(u32::MAX);
            let wave = self
                .env
                .get(&self.task.task.wave.key(&self.task.run))
                .await?;
            let from_ms = wave.and_then(|wave| wave.number("from_ms"));
            let rested_ms = from_ms.map_or(0, |from_ms| self.env.wall_ms() - from_ms);
            let rested = Duration::from_millis(u64::try_from(rested_ms).unwrap_or(0));
            lead = lead.max(rest.saturating_sub(rested));
        }
        let change = Change::of(self.task.task.wave.key(&self.task.run))
            .when([
                When::Is("stage", Attr::S(Stage::Load.as_str().to_owned())),
                When::Absent(name),
                When::Absent("refused"),
            ])
            .set_n(name, self.env.wall_after(lead));
        self.env.change(&change).await.map(drop)
    }

    /// Watches over a load: the stop flag and the wave's starved operations,
    /// progress, the lease. Ends only with an error of the store that did not
    /// pass; a stop is handed to the load, which ends by itself.
    async fn watch(&self, handle: &StopHandle, progress: &Progress) -> StoreError {
        let env = self.env;
        let Task { run, task, job, .. } = self.task;
        let limit = abort_limit(&job.cell);
        let mut reported = env.clock.now();
        let mut renewed = env.clock.now();
        let mut partial = env.clock.now();
        let mut starved = 0;
        loop {
            env.clock.sleep(env.settings.watch).await;
            match env.store.get(&run.key()).await {
                Ok(Some(item)) if !RunRecord::read(&item).is_over() => {}
                Ok(_) => handle.stop(),
                Err(error) if error.is_transient() => {}
                Err(error) => {
                    handle.stop();
                    return error;
                }
            }
            let own = progress.starved.load(std::sync::atomic::Ordering::Relaxed);
            if let Ok(all) = self.starved(&mut starved, own, limit).await
                && limit > 0
                && all >= limit
            {
                progress
                    .aborted
                    .store(true, std::sync::atomic::Ordering::Relaxed);
            }
            let now = env.clock.now();
            if now.since(reported) >= env.settings.progress {
                reported = now;
                match self.report(progress).await {
                    Ok(true) => renewed = now,
                    // Given up by the conductor: nothing will be counted.
                    Ok(false) => handle.stop(),
                    Err(_) => {}
                }
            }
            // Nobody may think this worker dead while it still does load.
            if now.since(renewed) >= env.settings.lease {
                handle.stop();
            }
            if now.since(partial) >= env.settings.partial {
                partial = now;
                self.save_partial(progress, task).await;
            }
        }
    }

    /// Reports own starved operations; returns how many the wave has.
    async fn starved(&self, told: &mut u64, own: u64, limit: u32) -> Result<u32, StoreError> {
        let wave = self.task.task.wave.key(&self.task.run);
        if *told < own {
            let mut change = Change::of(wave.clone()).when([When::Present("stage")]);
            // A set holds each once: a report that is sent twice counts once.
            for n in *told..own {
                change = change.add("starved", format!("{}/{n}", self.task.ordinal()));
            }
            if let Changed::Yes(item) = self.env.store.change(&change).await? {
                *told = own;
                return Ok(WaveRecord::read(&item).map_or(0, |wave| wave.starved));
            }
        }
        if limit == 0 {
            return Ok(0);
        }
        let item = self.env.store.get(&wave).await?;
        let wave = item.as_ref().and_then(WaveRecord::read);
        Ok(wave.map_or(0, |wave| wave.starved))
    }

    /// Overwrites the progress and renews the lease; false when the task is no
    /// longer this worker's.
    async fn report(&self, progress: &Progress) -> Result<bool, StoreError> {
        let counts = Counts::of(progress, self.env.wall_ms());
        let change = self
            .mine(self.change(), &[TaskState::Claimed, TaskState::Running])
            .set(
                "progress",
                serde_json::to_string(&counts).unwrap_or_default(),
            )
            .set_n("lease_ms", self.lease_ms());
        Ok(matches!(
            self.env.store.change(&change).await?,
            Changed::Yes(_)
        ))
    }

    /// Saves what was measured so far, for the case that this worker is lost.
    async fn save_partial(&self, progress: &Progress, task: &TaskId) {
        if let Some(partial) = progress.partial()
            && let Ok(bytes) = serde_json::to_vec(&partial)
        {
            let name = self.task.run.blob(&format!("partial/{task}.json"));
            // One that is not written is written the next time.
            let _ = self.env.store.put_blob(&name, bytes).await;
        }
    }

    /// Writes the result; false when the task is no longer this worker's. The
    /// result goes first, under a key of its own: it counts once the task says
    /// that it is done by this worker.
    async fn write(&self, outcome: &Outcome) -> Result<bool, StoreError> {
        let Task { run, task, .. } = self.task;
        let owner = &self.invocation.id;
        let text = serde_json::to_string(outcome)
            .map_err(|error| StoreError::Refused(format!("a result that is no JSON: {error}")))?;
        let mut result =
            Change::of(task.result_key(run, owner)).set_n("expires_s", self.env.expires_s());
        if text.len() <= INLINE {
            result = result.set("result", text);
        } else {
            let name = run.blob(&format!("results/{task}/{owner}.json"));
            self.env.put_blob(&name, text.as_bytes()).await?;
            result = result.set("blob", name);
        }
        self.env.change(&result).await?;
        let mut done = self
            .mine(
                self.change(),
                &[TaskState::Claimed, TaskState::Running, TaskState::Done],
            )
            .set("state", TaskState::Done.as_str())
            .set("ended", outcome.word())
            .set_n("done_ms", self.env.wall_ms());
        if let Some(offset) = self.env.store.offset() {
            let offset = format!("{:.1} +- {:.1}", offset.ms, offset.error_ms);
            done = done.set("offset_ms", offset);
        }
        Ok(matches!(self.env.change(&done).await?, Changed::Yes(_)))
    }

    /// Counts the task in; the last one calls the conductor.
    async fn count_done(&self) -> Result<(), StoreError> {
        let Task { run, task, of, .. } = self.task;
        let rally = Rally::Done(task.stage);
        let ordinal = self.task.ordinal();
        if count_in(self.env, run, task.wave, rally, ordinal, *of).await? {
            let look = Message::look(run, None).to_text();
            self.env.send(&To::Control, &[look], Duration::ZERO).await?;
        }
        Ok(())
    }

    /// What the workers of this wave's load were told, and the writers of whom
    /// that is not known.
    async fn claims(&self) -> Result<(Vec<Claim>, Vec<u32>), StoreError> {
        let load = Load::read(
            self.env,
            &self.task.run,
            self.task.task.wave,
            &self.task.job,
        )
        .await?;
        let missing = load.missing_writers();
        Ok((load.into_claims(), missing))
    }
}

/// The barrier as the load sees it.
struct Barrier<'a, 'b, S, Q> {
    worker: &'a Worker<'b, S, Q>,
    /// When the load began, for a later leg of it.
    started: Option<i64>,
    /// Why there is no load: an outcome, or that the store did not answer.
    refusal: RefCell<Option<Result<Outcome, StoreError>>>,
}

impl<S: Store, Q: Queue> Gate for Barrier<'_, '_, S, Q> {
    async fn ready(&self, opened: Opened) -> Start {
        let start = match self.started {
            Some(start_ms) => self.worker.begin(start_ms, false).await,
            None => self.worker.barrier(&opened).await,
        };
        let refusal = match start {
            Ok(Ok(start)) => return Start::At(start),
            Ok(Err(outcome)) => Ok(outcome),
            Err(error) => Err(error),
        };
        self.refusal.replace(Some(refusal));
        Start::Not(String::new())
    }
}

fn not_started(why: &str) -> Outcome {
    Outcome::NotStarted {
        why: why.to_owned(),
    }
}

/// A wave, and the instant under `name`.
fn instant(item: &Item, name: &str) -> Option<(WaveRecord, Option<i64>)> {
    let wave = WaveRecord::read(item)?;
    let at = match name {
        OPEN => wave.open_ms,
        _ => wave.start_ms,
    };
    Some((wave, at))
}
