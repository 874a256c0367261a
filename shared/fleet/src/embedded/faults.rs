//! A store and queues that misbehave, by a seeded plan.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use clock::{Clock, Time};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::memory::{Letter, MemoryQueue, MemoryStore};
use crate::queue::{LONGEST_DELAY, Queue, To};
use crate::store::{Attr, Change, Changed, Item, Key, Store, StoreError};

/// How often what goes wrong. Shares are of 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// The longest that a call to the store or a queue takes.
    pub call: Duration,
    /// Calls that fail before they are done.
    pub busy_before: f64,
    /// Calls that fail after they were done.
    pub busy_after: f64,
    /// Messages that come twice.
    pub duplicate: f64,
    /// Messages that come late, by up to `late_by`.
    pub late: f64,
    /// See `late`.
    pub late_by: Duration,
    /// Messages that never come.
    pub lost: f64,
    /// Invocations that crash at one of their awaits.
    pub crash: f64,
    /// Invocations that lose sight of the store and the queues for a while, at
    /// some time in their first minute.
    pub cut: f64,
    /// The longest that one is cut off.
    pub cut_for: Duration,
    /// The largest error of a process's clock.
    pub skew: Duration,
    /// Changes that set a state to this are made whatever their condition. It
    /// is there for the tests' own test: without its guards the protocol must be
    /// seen to fail.
    pub unguarded: Option<&'static str>,
}

impl FaultPlan {
    /// Whether nothing goes wrong and every call is instant.
    pub fn is_none(&self) -> bool {
        *self == FaultPlan::default()
    }
}

/// How often what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    /// Calls that failed before they were done.
    pub busy_before: u64,
    /// Calls that failed after they were done.
    pub busy_after: u64,
    /// Messages sent twice.
    pub duplicates: u64,
    /// Messages made late.
    pub late: u64,
    /// Messages lost.
    pub lost: u64,
    /// Invocations that crashed.
    pub crashes: u64,
    /// Invocations that were cut off.
    pub cuts: u64,
}

/// One generator for all that may go wrong, and the count of what did.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    pub(crate) plan: Rc<FaultPlan>,
    rng: Rc<RefCell<ChaCha8Rng>>,
    happened: Rc<Cell<Happened>>,
}

impl Dice {
    pub(crate) fn new(plan: FaultPlan, seed: u64) -> Dice {
        Dice {
            plan: Rc::new(plan),
            rng: Rc::new(RefCell::new(ChaCha8Rng::seed_from_u64(seed))),
            happened: Rc::default(),
        }
    }

    pub(crate) fn happened(&self) -> Happened {
        self.happened.get()
    }

    pub(crate) fn note(&self, note: impl FnOnce(&mut Happened)) {
        let mut happened = self.happened.get();
        note(&mut happened);
        self.happened.set(happened);
    }

    /// Below `n`.
    pub(crate) fn below(&self, n: u64) -> u64 {
        self.rng.borrow_mut().next_u64() % n.max(1)
    }

    /// True with the chance `share`.
    pub(crate) fn falls(&self, share: f64) -> bool {
        // No draw where nothing can happen: plans differ in what they hold only.
        share > 0.0 && (self.below(1 << 53) as f64) < share * (1u64 << 53) as f64
    }

    /// A span up to `longest`.
    pub(crate) fn span(&self, longest: Duration) -> Duration {
        let us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.below(us.saturating_add(1)))
    }

    /// When an invocation that begins now is cut off, if it is.
    pub(crate) fn cut(&self, clock: Clock) -> Option<(Time, Time)> {
        self.falls(self.plan.cut).then(|| {
            self.note(|happened| happened.cuts += 1);
            let from = clock.now() + self.span(Duration::from_secs(60));
            (from, from + self.span(self.plan.cut_for))
        })
    }

    async fn call<T>(
        &self,
        process: &Process,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let clock = process.clock;
        process.calls.set(process.calls.get() + 1);
        if process.is_cut_off() {
            // It takes a while to notice.
            clock.sleep(Duration::from_secs(1)).await;
            return Err(StoreError::Busy("no answer".to_owned()));
        }
        if !self.plan.call.is_zero() {
            clock.sleep(self.span(self.plan.call)).await;
        }
        if self.falls(self.plan.busy_before) {
            self.note(|happened| happened.busy_before += 1);
            return Err(StoreError::Busy("throttled".to_owned()));
        }
        let done = work.await?;
        if !self.plan.call.is_zero() {
            clock.sleep(self.span(self.plan.call)).await;
        }
        if self.falls(self.plan.busy_after) {
            self.note(|happened| happened.busy_after += 1);
            return Err(StoreError::Busy("timed out".to_owned()));
        }
        Ok(done)
    }
}

/// One process's view of the world.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) clock: Clock,
    /// From when to when it reaches nobody.
    pub(crate) cut: Option<(Time, Time)>,
    /// Calls of all processes of its kind.
    pub(crate) calls: Rc<Cell<u64>>,
}

impl Process {
    fn is_cut_off(&self) -> bool {
        let now = self.clock.now();
        self.cut
            .is_some_and(|(from, until)| now >= from && now < until)
    }
}

/// The store as one process sees it.
#[derive(Clone, Debug)]
pub struct ShakyStore {
    pub(crate) store: MemoryStore,
    pub(crate) dice: Dice,
    pub(crate) process: Process,
}

impl Store for ShakyStore {
    async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        self.dice.call(&self.process, self.store.get(key)).await
    }

    async fn change(&self, change: &Change) -> Result<Changed, StoreError> {
        let state = change.set.iter().find(|(name, _)| *name == "state");
        if let (Some(guard), Some((_, Attr::S(state)))) = (self.dice.plan.unguarded, state)
            && guard == state
        {
            let mut change = change.clone();
            change.when.clear();
            return self
                .dice
                .call(&self.process, self.store.change(&change))
                .await;
        }
        self.dice
            .call(&self.process, self.store.change(change))
            .await
    }

    async fn list(&self, pk: &str, prefix: &str) -> Result<Vec<Item>, StoreError> {
        self.dice
            .call(&self.process, self.store.list(pk, prefix))
            .await
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.dice.call(&self.process, self.store.delete(keys)).await
    }

    async fn runs_of(&self, sweep: &str, limit: usize) -> Result<Vec<Item>, StoreError> {
        let call = self.store.runs_of(sweep, limit);
        self.dice.call(&self.process, call).await
    }

    async fn put_blob(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let call = self.store.put_blob(name, bytes);
        self.dice.call(&self.process, call).await
    }

    async fn get_blob(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.dice
            .call(&self.process, self.store.get_blob(name))
            .await
    }

    async fn list_blobs(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.dice
            .call(&self.process, self.store.list_blobs(prefix))
            .await
    }

    async fn delete_blobs(&self, names: &[String]) -> Result<(), StoreError> {
        self.dice
            .call(&self.process, self.store.delete_blobs(names))
            .await
    }
}

/// The queues as one process sees them.
#[derive(Clone, Debug)]
pub struct ShakyQueue {
    pub(crate) queue: MemoryQueue,
    pub(crate) dice: Dice,
    pub(crate) process: Process,
}

impl Queue for ShakyQueue {
    async fn send(&self, to: &To, bodies: &[String], delay: Duration) -> Result<(), StoreError> {
        let send = async {
            for body in bodies {
                self.put(to, body, delay);
            }
            Ok(())
        };
        self.dice.call(&self.process, send).await
    }
}

impl ShakyQueue {
    fn put(&self, to: &To, body: &str, delay: Duration) {
        let plan = &self.dice.plan;
        let delay = delay.min(LONGEST_DELAY);
        let letter = Letter {
            to: to.clone(),
            body: body.to_owned(),
            receives: 0,
        };
        if matches!(to, To::Dead { .. }) {
            self.queue.put(letter, delay);
            return;
        }
        if self.dice.falls(plan.duplicate) {
            self.dice.note(|happened| happened.duplicates += 1);
            let delay = delay + self.dice.span(plan.late_by);
            self.queue.put(letter.clone(), delay);
        }
        if self.dice.falls(plan.lost) {
            self.dice.note(|happened| happened.lost += 1);
            return;
        }
        let late = if self.dice.falls(plan.late) {
            self.dice.note(|happened| happened.late += 1);
            self.dice.span(plan.late_by)
        } else {
            Duration::ZERO
        };
        self.queue.put(letter, delay + late);
    }
}
