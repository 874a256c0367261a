//! What every part of the protocol has at hand: a store, a queue, a clock that
//! may be wrong, and how long things may take.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use clock::{Clock, Time};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::queue::{Queue, To};
use crate::store::{Change, Changed, Item, Key, Store, StoreError};

/// How long things may take. The defaults are for Lambda.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pause between two looks at a wave by a worker that waits.
    pub poll: Duration,
    /// How far ahead a rendezvous is set: at least two polls.
    pub lead: Duration,
    /// How long a worker may be silent before it is taken for dead.
    pub lease: Duration,
    /// By how much clocks may differ when a lease is judged.
    pub skew: Duration,
    /// Between two looks at the stop flag by a worker under load.
    pub watch: Duration,
    /// Between two reports of progress, each of which renews the lease.
    pub progress: Duration,
    /// Between two reports that hold histograms.
    pub partial: Duration,
    /// A worker that is later than this does no load.
    pub late: Duration,
    /// How long a stage's tasks may take to be claimed, and a barrier to fill.
    pub gather: Duration,
    /// Between two looks by the conductor.
    pub look: Duration,
    /// How long before a leg its workers are called.
    pub leg_lead: Duration,
    /// The longest that a leg may be; longer waves have several.
    pub leg: Duration,
    /// What a worker keeps of its time to write what it has.
    pub reserve: Duration,
    /// How long a verification or another step may take in one worker.
    pub step: Duration,
    /// Tries at a stage that may be repeated.
    pub rounds: u32,
    /// Days that items are kept.
    pub keep_days: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            poll: Duration::from_millis(200),
            lead: Duration::from_millis(800),
            lease: Duration::from_secs(30),
            skew: Duration::from_secs(5),
            watch: Duration::from_secs(1),
            progress: Duration::from_secs(5),
            partial: Duration::from_secs(30),
            late: Duration::from_millis(250),
            gather: Duration::from_secs(240),
            look: Duration::from_secs(15),
            leg_lead: Duration::from_secs(60),
            leg: Duration::from_secs(600),
            reserve: Duration::from_secs(20),
            step: Duration::from_secs(840),
            rounds: 3,
            keep_days: 90,
        }
    }
}

/// Everything around the protocol.
pub struct Env<S, Q> {
    /// Where state is kept.
    pub store: S,
    /// Where messages go.
    pub queue: Q,
    /// The time.
    pub clock: Clock,
    /// By how much this process's wall clock is wrong, in milliseconds; only
    /// simulations set it.
    pub skew_ms: i64,
    /// Regions with workers; the first one is home.
    pub regions: Vec<String>,
    /// How long things may take.
    pub settings: Settings,
    pauses: RefCell<ChaCha8Rng>,
}

/// Tries at a call that is throttled, and the bounds of the pauses between
/// them; together about ten seconds.
const TRIES: u32 = 9;
const FIRST_PAUSE_MS: u64 = 50;
const LAST_PAUSE_MS: u64 = 3_000;

impl<S: Store, Q: Queue> Env<S, Q> {
    /// An environment; `seed` is that of the pauses between tries.
    pub fn new(
        store: S,
        queue: Q,
        clock: Clock,
        regions: Vec<String>,
        settings: Settings,
        seed: u64,
    ) -> Env<S, Q> {
        Env {
            store,
            queue,
            clock,
            skew_ms: 0,
            regions,
            settings,
            pauses: RefCell::new(ChaCha8Rng::seed_from_u64(seed)),
        }
    }

    /// The wall clock, in milliseconds since 1970.
    pub fn wall_ms(&self) -> i64 {
        self.wall_of(self.clock.now())
    }

    /// The wall clock at an instant.
    pub fn wall_of(&self, at: Time) -> i64 {
        let now = self.clock.now();
        let since = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH);
        let now_ms = since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0));
        now_ms + self.skew_ms + signed_ms(now, at)
    }

    /// The instant at which the wall clock shows `wall_ms`; now, when that has
    /// passed. In microseconds, because workers start by it.
    pub fn instant_of(&self, wall_ms: i64) -> Time {
        let since = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH);
        let now_us = since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(0));
        let ahead_us = (wall_ms - self.skew_ms) * 1_000 - now_us;
        self.clock.now() + Duration::from_micros(u64::try_from(ahead_us).unwrap_or(0))
    }

    /// Region of an endpoint's workers; home where it has none of its own.
    pub fn region_of<'a>(&'a self, regions: &'a [String], endpoint: u32) -> &'a str {
        regions
            .get(endpoint as usize)
            .filter(|region| self.regions.contains(region))
            .or(self.regions.first())
            .map_or("", String::as_str)
    }

    /// Makes a call again while it is throttled.
    async fn again<T>(
        &self,
        mut call: impl AsyncFnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut bound_ms = FIRST_PAUSE_MS;
        for _ in 1..TRIES {
            match call().await {
                Err(error) if error.is_transient() => {
                    let pause_ms = self.pauses.borrow_mut().next_u64() % bound_ms + bound_ms / 2;
                    self.clock.sleep(Duration::from_millis(pause_ms)).await;
                    bound_ms = (2 * bound_ms).min(LAST_PAUSE_MS);
                }
                ended => return ended,
            }
        }
        call().await
    }

    /// [`Store::get`], again while it is throttled.
    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        self.again(async || self.store.get(key).await).await
    }

    /// [`Store::change`], again while it is throttled: each change must be one
    /// that may be made twice.
    pub(crate) async fn change(&self, change: &Change) -> Result<Changed, StoreError> {
        self.again(async || self.store.change(change).await).await
    }

    /// [`Store::list`], again while it is throttled.
    pub(crate) async fn list(&self, pk: &str, prefix: &str) -> Result<Vec<Item>, StoreError> {
        self.again(async || self.store.list(pk, prefix).await).await
    }

    /// [`Store::delete`], again while it is throttled.
    pub(crate) async fn delete(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.again(async || self.store.delete(keys).await).await
    }

    /// [`Store::put_blob`], again while it is throttled.
    pub(crate) async fn put_blob(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.again(async || self.store.put_blob(name, bytes.to_vec()).await)
            .await
    }

    /// [`Store::get_blob`], again while it is throttled.
    pub(crate) async fn get_blob(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.again(async || self.store.get_blob(name).await).await
    }

    /// [`Queue::send`], again while it is throttled.
    pub(crate) async fn send(
        &self,
        to: &To,
        bodies: &[String],
        delay: Duration,
    ) -> Result<(), StoreError> {
        self.again(async || self.queue.send(to, bodies, delay).await)
            .await
    }

    /// The wall clock after a span from now.
    pub(crate) fn wall_after(&self, span: Duration) -> i64 {
        self.wall_ms() + ms(span)
    }

    /// When an item that is written now may be forgotten, seconds since 1970.
    pub(crate) fn expires_s(&self) -> i64 {
        self.wall_ms() / 1_000 + self.settings.keep_days * 86_400
    }
}

/// Whole milliseconds of a span.
pub(crate) fn ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds from one instant to another.
fn signed_ms(from: Time, to: Time) -> i64 {
    ms(to.since(from)) - ms(from.since(to))
}
