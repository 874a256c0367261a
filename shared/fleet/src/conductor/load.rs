//! The load's stage: its shards and legs are called, its barrier is closed when it
//! does not fill, and workers that are gone are declared lost.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::{Cell, Leg, Shard};

use super::{Conductor, Next, is_limited};
use crate::env::ms;
use crate::finish;
use crate::ids::{Stage, TaskId, WaveId};
use crate::message::{Job, Message, Task, shard_name};
use crate::queue::{Queue, To};
use crate::record::{TaskRecord, WaveRecord};
use crate::results::{Load, parts_of, tasks};
use crate::run::RunError;
use crate::spend;
use crate::store::{Attr, Change, Store, StoreError, When};

impl<S: Store, Q: Queue> Conductor<'_, S, Q> {
    /// The load: shards, legs, the barrier, workers that are lost.
    pub(super) async fn load(
        &mut self,
        id: WaveId,
        wave: &WaveRecord,
        job: &Job,
    ) -> Result<Next, RunError> {
        let leg_ms = ms(self.env.settings.leg);
        let parts = parts_of(job, leg_ms.unsigned_abs())
            .map_err(|error| RunError::Plan(error.to_string()))?;
        let of = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let now_ms = self.env.wall_ms();
        if let (Some(why), None) = (&self.record.stop, &wave.refused)
            && wave.sent == 0
        {
            let change = self
                .from(id, wave)
                .set("refused", format!("the run was stopped: {why}"));
            self.env.change(&change).await?;
            return Ok(Next::Again);
        }
        let legs = parts.last().map_or(0, |(_, leg)| leg.of);
        // Legs are called one after the other, each ahead of its time.
        let mut next_leg_ms = None;
        if wave.sent < legs && wave.refused.is_none() && self.record.stop.is_none() {
            let due_ms = match (wave.sent, wave.start_ms) {
                (0, _) => Some(now_ms),
                (leg, Some(start_ms)) => {
                    let leg = parts.iter().find(|(_, known)| known.index == leg);
                    leg.map(|(_, leg)| self.leg_call_ms(start_ms, job, leg))
                }
                (_, None) => None,
            };
            match due_ms {
                Some(due_ms) if due_ms <= now_ms => {
                    let leg = wave.sent;
                    let of_leg = parts.iter().filter(|(_, known)| known.index == leg);
                    self.send_leg(id, wave, job, of_leg, of).await?;
                    return self.sent(id, wave, leg + 1).await;
                }
                due_ms => next_leg_ms = due_ms,
            }
        }
        let mut found = tasks(self.env, self.run, id, Stage::Load).await?;
        let called = parts
            .iter()
            .filter(|(_, leg)| leg.index < wave.sent)
            .map(|(shard, leg)| (leg.index, shard.index));
        let count = self.count(wave, called, &mut found);
        if wave.start_ms.is_none() && wave.refused.is_none() && wave.sent > 0 {
            let late = wave.since_ms + ms(self.fill()) < now_ms;
            let settled = found.values().any(TaskRecord::is_settled);
            if late || settled || !count.dead.is_empty() {
                let missing = parts.iter().filter(|(shard, leg)| {
                    let task = found.get(&(leg.index, shard.index));
                    let dead = |(leg_index, index, _): &(u32, u32, Option<TaskRecord>)| {
                        (*leg_index, *index) == (leg.index, shard.index)
                    };
                    let there =
                        task.is_some_and(|task| !task.is_settled() && (task.ready || !late));
                    leg.index < wave.sent && (!there || count.dead.iter().any(dead))
                });
                self.refuse(id, missing, job).await?;
                // Somebody may have published the start just before.
                return Ok(Next::Again);
            }
        }
        if !count.dead.is_empty() {
            for (leg, index, task) in &count.dead {
                let task_id = TaskId {
                    wave: id,
                    stage: Stage::Load,
                    leg: *leg,
                    index: *index,
                };
                self.declare_lost(&task_id, task.as_ref()).await?;
            }
            return Ok(Next::Again);
        }
        if self.record.stop.is_none() && is_limited(&self.kept.plan) {
            let counts = found.values().filter_map(|task| task.progress.as_deref());
            let ended: u64 = counts
                .filter_map(|text| serde_json::from_str::<crate::work::Counts>(text).ok())
                .map(|counts| counts.ended)
                .sum();
            let spent = finish::spent(self.env, self.run).await?;
            let running = spend::under_way(&self.kept.plan, id.cell as usize, ended);
            if let Some(why) = self.crossed(&spent, &running) {
                self.stop(&format!("limit: {why}")).await?;
                return Ok(Next::Reload);
            }
        }
        let over = wave.refused.is_some() || self.record.stop.is_some();
        if count.waiting > 0 || (wave.sent < legs && !over) {
            let look_ms = self.env.wall_after(self.env.settings.look);
            let due_ms = next_leg_ms.map_or(look_ms, |due_ms| due_ms.min(look_ms));
            return Ok(Next::Wait(due_ms));
        }
        let load = Load::read(self.env, self.run, id, job).await?;
        let next = if load.touched_the_database() {
            Stage::Verify
        } else {
            Stage::Clean
        };
        self.advance(id, wave, next).await
    }

    /// When the workers of a leg are called.
    fn leg_call_ms(&self, start_ms: i64, job: &Job, leg: &Leg) -> i64 {
        let from_ms = i64::try_from(leg.from_ms).unwrap_or(i64::MAX);
        start_ms + warmup_ms(&job.cell) + from_ms - ms(self.env.settings.leg_lead)
    }

    async fn send_leg<'p>(
        &self,
        id: WaveId,
        wave: &WaveRecord,
        job: &Job,
        parts: impl Iterator<Item = &'p (Shard, Leg)>,
        of: u32,
    ) -> Result<(), StoreError> {
        let mut by_queue: BTreeMap<To, Vec<String>> = BTreeMap::new();
        for (shard, leg) in parts {
            let mut job = job.clone();
            let to = self.queue_of(&job, shard.endpoint);
            job.endpoint = shard.endpoint;
            job.shard = Some(shard.clone());
            job.leg = Some(*leg);
            let message = Message::task(Task {
                run: self.run.clone(),
                task: TaskId {
                    wave: id,
                    stage: Stage::Load,
                    leg: leg.index,
                    index: shard.index,
                },
                of,
                round: wave.round,
                job,
            });
            by_queue.entry(to).or_default().push(message.to_text());
        }
        for (to, bodies) in by_queue {
            self.env.send(&to, &bodies, Duration::ZERO).await?;
        }
        Ok(())
    }

    /// Closes the barrier, unless the start was published before.
    async fn refuse<'p>(
        &self,
        id: WaveId,
        missing: impl Iterator<Item = &'p (Shard, Leg)>,
        job: &Job,
    ) -> Result<(), StoreError> {
        let missing: Vec<String> = missing
            .map(|(shard, leg)| {
                let endpoint = job.endpoints.get(shard.endpoint as usize);
                shard_name(shard, endpoint, leg.index, leg.of)
            })
            .collect();
        let named = missing
            .iter()
            .take(10)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        let more = match missing.len() {
            0..=10 => String::new(),
            n => format!(" and {} more", n - 10),
        };
        let why = match missing.is_empty() {
            true => "the barrier was full, but nobody published the start".to_owned(),
            false => format!("the barrier did not fill; missing: {named}{more}"),
        };
        let change = Change::of(id.key(self.run))
            .when([
                When::Is("stage", Attr::S(Stage::Load.as_str().to_owned())),
                When::Absent("start_ms"),
                When::Absent("refused"),
            ])
            .set("refused", why);
        self.env.change(&change).await.map(drop)
    }

    /// How long a barrier may take to fill: to gather, and to connect.
    fn fill(&self) -> Duration {
        let connections =
            self.kept.plan.fleet.workers * (self.kept.plan.fleet.connections_per_worker + 1);
        self.env.settings.gather + 2 * plan::slot_delay(connections.min(10_000))
    }
}

/// Warm-up of a cell's load in milliseconds.
fn warmup_ms(cell: &Cell) -> i64 {
    (cell.params.shape().warmup_s * 1_000.0) as i64
}
