//! What calls the handlers: messages to functions, as many at once as there
//! are; a function that fails or crashes gets its message again after the
//! visibility time, a few times; one that takes too long is killed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use clock::{Clock, Time};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::faults::{Dice, FaultPlan, Happened, Process, ShakyQueue, ShakyStore};
use super::memory::{Letter, MemoryQueue, MemoryStore};
use crate::env::{Env, Settings};
use crate::finish::Finished;
use crate::handler::{Verdict, on_control_message, on_wave_message};
use crate::ids::RunId;
use crate::queue::To;
use crate::run;
use crate::work::Work;
use crate::worker::Invocation;

/// What the platform allows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a worker may run.
    pub worker: Duration,
    /// How long the conductor may run.
    pub conductor: Duration,
    /// How long a message is hidden from others while it is worked on.
    pub visibility: Duration,
    /// How often a message is received before it is a dead letter.
    pub receives: u32,
    /// Workers of a region at once.
    pub workers_at_once: usize,
    /// Conductors at once.
    pub conductors_at_once: usize,
    /// Between two calls to runs that have not ended.
    pub watch: Duration,
    /// vCPUs of a worker.
    pub vcpus: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            worker: Duration::from_secs(900),
            conductor: Duration::from_secs(300),
            visibility: Duration::from_secs(1_800),
            receives: 3,
            workers_at_once: 1_250,
            conductors_at_once: 2,
            watch: Duration::from_secs(300),
            vcpus: 1.0,
        }
    }
}

/// What a service has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Invocations of workers.
    pub workers: u64,
    /// Invocations of the conductor.
    pub conductors: u64,
    /// Calls of workers to the store and the queues.
    pub worker_calls: u64,
    /// Calls of the conductor to them.
    pub conductor_calls: u64,
    /// What went wrong, by plan.
    pub happened: Happened,
}

/// A fleet in this process.
pub struct Service<W> {
    clock: Clock,
    store: MemoryStore,
    queue: MemoryQueue,
    regions: Vec<String>,
    settings: Settings,
    limits: Limits,
    dice: Dice,
    work: W,
    invocations: Cell<u64>,
    worker_calls: Rc<Cell<u64>>,
    conductor_calls: Rc<Cell<u64>>,
    stats: Cell<Stats>,
    finished: RefCell<Vec<(RunId, Finished)>>,
}

/// The environment that handlers get.
pub type ServiceEnv = Env<ShakyStore, ShakyQueue>;

struct Ended {
    letter: Letter,
    /// `None` when it crashed or was killed.
    verdict: Option<Verdict>,
    finished: Option<Finished>,
}

type Call<'a> = Pin<Box<dyn Future<Output = Ended> + 'a>>;

impl<W: Work> Service<W> {
    /// A service with empty store and queues.
    pub fn new(
        clock: Clock,
        regions: Vec<String>,
        settings: Settings,
        limits: Limits,
        faults: FaultPlan,
        seed: u64,
        work: W,
    ) -> Service<W> {
        Service {
            clock,
            store: MemoryStore::default(),
            queue: MemoryQueue::new(clock),
            regions,
            settings,
            limits,
            dice: Dice::new(faults, seed),
            work,
            invocations: Cell::new(0),
            worker_calls: Rc::default(),
            conductor_calls: Rc::default(),
            stats: Cell::default(),
            finished: RefCell::default(),
        }
    }

    /// The store without its faults.
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// The queues without their faults.
    pub fn queue(&self) -> &MemoryQueue {
        &self.queue
    }

    /// The work.
    pub fn work(&self) -> &W {
        &self.work
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        Stats {
            worker_calls: self.worker_calls.get(),
            conductor_calls: self.conductor_calls.get(),
            happened: self.dice.happened(),
            ..self.stats.get()
        }
    }

    /// The runs that ended, and how.
    pub fn finished(&self) -> Vec<(RunId, Finished)> {
        self.finished.take()
    }

    /// An environment of its own for one process: the same store and queues,
    /// another clock error.
    pub fn env(&self) -> ServiceEnv {
        self.env_that_counts(&self.conductor_calls)
    }

    fn env_that_counts(&self, calls: &Rc<Cell<u64>>) -> ServiceEnv {
        let number = self.invocations.get();
        self.invocations.set(number + 1);
        let (dice, clock) = (self.dice.clone(), self.clock);
        let process = Process {
            clock,
            cut: dice.cut(clock),
            calls: Rc::clone(calls),
        };
        let mut env = Env::new(
            ShakyStore {
                store: self.store.clone(),
                dice: dice.clone(),
                process: process.clone(),
            },
            ShakyQueue {
                queue: self.queue.clone(),
                dice: dice.clone(),
                process,
            },
            clock,
            self.regions.clone(),
            self.settings.clone(),
            number,
        );
        let skew = dice.plan.skew;
        if !skew.is_zero() {
            let width = 2 * skew;
            env.skew_ms = dice.span(width).as_millis() as i64 - skew.as_millis() as i64;
        }
        env
    }

    /// An environment without faults, for the one who starts and looks.
    pub fn quiet_env(&self) -> Env<MemoryStore, MemoryQueue> {
        Env::new(
            self.store.clone(),
            self.queue.clone(),
            self.clock,
            self.regions.clone(),
            self.settings.clone(),
            0,
        )
    }

    /// Serves until `is_over` and nothing runs any more, or until `deadline`.
    /// True when it was over.
    pub async fn serve(&self, mut is_over: impl FnMut() -> bool, deadline: Time) -> bool {
        let mut calls: FuturesUnordered<Call<'_>> = FuturesUnordered::new();
        let mut running: BTreeMap<To, usize> = BTreeMap::new();
        let mut watch = self.clock.now() + self.limits.watch;
        loop {
            let over = is_over();
            if over && calls.is_empty() {
                return true;
            }
            if self.clock.now() >= deadline {
                return false;
            }
            while !over && let Some(letter) = self.take(&running) {
                *running.entry(letter.to.clone()).or_default() += 1;
                calls.push(self.call(letter));
            }
            if self.clock.now() >= watch {
                watch = self.clock.now() + self.limits.watch;
                let env = self.env();
                calls.push(Box::pin(async move {
                    let _ = run::revive(&env).await;
                    Ended {
                        letter: Letter {
                            to: To::Dead {
                                region: None,
                                reason: String::new(),
                            },
                            body: String::new(),
                            receives: 0,
                        },
                        verdict: Some(Verdict::Ack(String::new())),
                        finished: None,
                    }
                }));
            }
            let next = self.queue.next_due().map_or(watch, |due| due.min(watch));
            let timer = self.clock.sleep_until(next.min(deadline));
            tokio::pin!(timer);
            tokio::select! {
                biased;
                Some(ended) = calls.next() => {
                    if let Some(n) = running.get_mut(&ended.letter.to) {
                        *n -= 1;
                    }
                    self.ended(ended);
                }
                () = self.queue.news() => {}
                () = &mut timer => {}
            }
        }
    }

    fn take(&self, running: &BTreeMap<To, usize>) -> Option<Letter> {
        self.queue.take(|to| {
            let now = running.get(to).copied().unwrap_or(0);
            match to {
                To::Control => now < self.limits.conductors_at_once,
                _ => now < self.limits.workers_at_once,
            }
        })
    }

    /// Puts a message that was not dealt with back, or away.
    fn ended(&self, ended: Ended) {
        let Ended {
            mut letter,
            verdict,
            finished,
        } = ended;
        if let Some(finished) = finished
            && let Some(run) = run_of(&letter.body)
        {
            self.finished.borrow_mut().push((run, finished));
        }
        if matches!(verdict, Some(Verdict::Ack(_))) {
            return;
        }
        letter.receives += 1;
        if letter.receives < self.limits.receives {
            self.queue.put(letter, self.limits.visibility);
            return;
        }
        let region = match &letter.to {
            To::Wave { region } => Some(region.clone()),
            _ => None,
        };
        letter.to = To::Dead {
            region,
            reason: "received too often".to_owned(),
        };
        self.queue.put(letter, Duration::ZERO);
    }

    /// One invocation.
    fn call(&self, letter: Letter) -> Call<'_> {
        let mut stats = self.stats.get();
        let (allowed, calls) = match letter.to {
            To::Control => {
                stats.conductors += 1;
                (self.limits.conductor, &self.conductor_calls)
            }
            _ => {
                stats.workers += 1;
                (self.limits.worker, &self.worker_calls)
            }
        };
        self.stats.set(stats);
        let env = self.env_that_counts(calls);
        let deadline = self.clock.now() + allowed;
        let invocation = Invocation {
            id: format!("i{}", self.invocations.get()),
            deadline,
            vcpus: self.limits.vcpus,
        };
        let crash_at = (self.dice.falls(self.dice.plan.crash)).then(|| self.dice.below(120));
        Box::pin(async move {
            let body = letter.body.clone();
            let to = letter.to.clone();
            let work = async {
                match &to {
                    To::Control => Box::pin(on_control_message(&env, &body)).await,
                    To::Wave { region } => {
                        let call = on_wave_message(&env, &self.work, region, &body, &invocation);
                        let verdict = Box::pin(call).await;
                        (verdict, None)
                    }
                    To::Dead { .. } => (Verdict::Ack(String::new()), None),
                }
            };
            let work = until_crash(work, crash_at);
            let killed = self.clock.sleep_until(deadline);
            tokio::pin!(work, killed);
            let ended = tokio::select! {
                biased;
                ended = &mut work => ended,
                () = &mut killed => None,
            };
            if ended.is_none() {
                self.dice.note(|happened| happened.crashes += 1);
            }
            let (verdict, finished) = match ended {
                Some((verdict, finished)) => (Some(verdict), finished),
                None => (None, None),
            };
            Ended {
                letter,
                verdict,
                finished,
            }
        })
    }
}

fn run_of(body: &str) -> Option<RunId> {
    let message = crate::message::Message::parse(body).ok()?;
    Some(message.into_look().ok()?.run)
}

/// Drives a future until it has waited `at` times; `None` when it was dropped
/// there, with whatever it was in the middle of.
async fn until_crash<T>(work: impl Future<Output = T>, at: Option<u64>) -> Option<T> {
    let Some(mut left) = at else {
        return Some(work.await);
    };
    tokio::pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}
