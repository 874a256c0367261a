//! Work that touches no database and notes what it did.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::{Clock, Time};
use drive::{Ended, Gate, Opened, ShardReport, Start};
use fleet::{Found, Job, Live, Work};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use workload::{Claim, Said, Step, Verified};

/// Which part of which wave: row ids, leg, shard.
pub type Part = (i64, u32, u32);

/// What was done to the database.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// When the load of each part began.
    pub begun: BTreeMap<Part, Vec<Time>>,
    /// What was handed back for each part that came to its end.
    pub ended: BTreeMap<Part, Vec<u64>>,
    /// How often each wave was prepared, verified, cleaned.
    pub steps: BTreeMap<(i64, &'static str), u32>,
    /// Loads that run now, by wave.
    pub running: BTreeMap<i64, u32>,
    /// Waves that were verified or cleaned while their load still ran.
    pub disturbed: Vec<i64>,
}

/// The fake.
pub struct Fake {
    pub clock: Clock,
    pub done: RefCell<Done>,
    /// Some pools do not fill.
    pub flaky: bool,
    rng: RefCell<ChaCha8Rng>,
}

impl Fake {
    pub fn new(clock: Clock, seed: u64, flaky: bool) -> Fake {
        Fake {
            clock,
            done: RefCell::default(),
            flaky,
            rng: RefCell::new(ChaCha8Rng::seed_from_u64(seed ^ 0xfa4e)),
        }
    }

    fn below(&self, n: u64) -> u64 {
        self.rng.borrow_mut().next_u64() % n
    }

    async fn step(&self, job: &Job, what: &'static str) -> Result<Step, String> {
        if what != "prepare" {
            let mut done = self.done.borrow_mut();
            if done.running.get(&job.id_base).is_some_and(|n| *n > 0) {
                done.disturbed.push(job.id_base);
            }
        }
        let took = Duration::from_millis(self.below(3_000));
        self.clock.sleep(took).await;
        *self
            .done
            .borrow_mut()
            .steps
            .entry((job.id_base, what))
            .or_default() += 1;
        Ok(Step { rows: 1, took })
    }
}

/// Counts a load as running for as long as it lives: a worker that crashes
/// drops it.
struct Running<'a>(&'a Fake, i64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(n) = self.0.done.borrow_mut().running.get_mut(&self.1) {
            *n -= 1;
        }
    }
}

impl Work for Fake {
    async fn prepare(&self, job: &Job) -> Result<(Step, Found), String> {
        Ok((self.step(job, "prepare").await?, Found::default()))
    }

    async fn load(&self, job: &Job, live: Live, gate: &impl Gate) -> Result<Ended, String> {
        let shard = job.shard.as_ref().unwrap();
        let leg = job.leg.as_ref().unwrap();
        self.clock
            .sleep(Duration::from_millis(self.below(400)))
            .await;
        if self.flaky && self.below(200) == 0 {
            return Err("the pool did not fill".to_owned());
        }
        let opened = Opened {
            connections: shard.writers,
            took: Duration::ZERO,
            refusals: 0,
        };
        let barrier = match gate.ready(opened).await {
            Start::At(at) => at,
            Start::Not(why) => return Ok(Ended::NotStarted(why)),
        };
        let from = barrier + Duration::from_millis(leg.from_ms);
        let until = barrier + Duration::from_millis(leg.until_ms);
        self.clock.sleep_until(from).await;
        let part = (job.id_base, leg.index, shard.index);
        let running = {
            let mut done = self.done.borrow_mut();
            done.begun.entry(part).or_default().push(self.clock.now());
            *done.running.entry(job.id_base).or_default() += 1;
            Running(self, job.id_base)
        };
        let mut report = ShardReport::default();
        let mut committed = 0;
        while self.clock.now() < until.min(live.stop_by)
            && !live.stop.is_set()
            && !live.progress.aborted.load(Ordering::Relaxed)
        {
            self.clock
                .sleep(Duration::from_millis(300 + self.below(700)))
                .await;
            report.claims.push(Claim {
                op: (u64::from(shard.index) << 40) | (u64::from(leg.index) << 32) | committed,
                said: Said::Committed,
                at: None,
            });
            committed += 1;
            live.progress.ended.store(committed, Ordering::Relaxed);
            live.progress.committed.store(committed, Ordering::Relaxed);
            if self.flaky && self.below(400) == 0 {
                live.progress.starved.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(running);
        report.result.stopped = live.stop.is_set();
        report.result.total.counts.planned = committed;
        report.result.total.counts.committed = committed;
        report.result.total.counts.attempts = committed;
        let mut done = self.done.borrow_mut();
        done.ended.entry(part).or_default().push(committed);
        Ok(Ended::Ran(report))
    }

    async fn verify(
        &self,
        job: &Job,
        claims: &[Claim],
        _missing: &[u32],
    ) -> Result<Verified, String> {
        let step = self.step(job, "verify").await?;
        let mut ops: Vec<u64> = claims.iter().map(|claim| claim.op).collect();
        ops.sort_unstable();
        let twice = ops.windows(2).filter(|pair| pair[0] == pair[1]).count();
        Ok(Verified {
            ok: twice == 0,
            problems: match twice {
                0 => Vec::new(),
                n => vec![format!("{n} operations claimed twice")],
            },
            step,
            ..Verified::default()
        })
    }

    async fn clean(&self, job: &Job) -> Result<Step, String> {
        self.step(job, "clean").await
    }
}
