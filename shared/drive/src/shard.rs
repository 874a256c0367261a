//! The phases of a shard.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::{Clock, Time};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use stats::RoundTrips;
use target::{SqlFailure, Target};
use workload::Workload;

use crate::connection::{Slot, may_pass};
use crate::cpu;
use crate::probe::{probe, wire};
use crate::record::Recorder;
use crate::report::ShardReport;
use crate::stop::Stop;
use crate::writer::write;

/// Pause before an endpoint that did not answer is probed again.
const PROBE_PAUSE: Duration = Duration::from_millis(100);
/// How long an endpoint may take to answer after the window.
const PROBE_AFTER_LIMIT: Duration = Duration::from_secs(5);

/// What a shard is to do; plain data.
#[derive(Clone, Debug)]
pub struct Load {
    /// Its writers, by their index in the wave, each with the index of the
    /// endpoint that it is placed on.
    pub writers: Vec<(u32, usize)>,
    /// Time between the barrier and the window.
    pub warmup: Duration,
    /// Length of the window; `None` when each writer has a fixed share.
    pub measure: Option<Duration>,
    /// The retry policy.
    pub retry: plan::Retry,
    /// Starved operations that abort the rep; 0 never does.
    pub abort_after_starved: u32,
    /// Keep one row per operation.
    pub keep_rows: bool,
    /// Seed of the pauses.
    pub seed: u64,
    /// The server's own part of `SELECT 1` per endpoint, where it is known.
    pub server_parts: Vec<Option<Duration>>,
    /// vCPUs of this process, to judge its CPU by.
    pub vcpus: f64,
    /// How long opening all connections may take.
    pub open_limit: Duration,
}

/// Live figures of a shard, for progress lines; they are not results.
#[derive(Debug, Default)]
pub struct Progress {
    /// Operations that ended.
    pub ended: AtomicU64,
    /// Operations that committed.
    pub committed: AtomicU64,
    /// Attempts that lost a race.
    pub conflicts: AtomicU64,
    /// Operations that failed.
    pub failed: AtomicU64,
}

/// The instants of a rep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Everybody starts.
    pub(crate) barrier: Time,
    /// Measuring begins.
    pub(crate) start: Time,
    /// Measuring ends, where time bounds it.
    pub(crate) end: Option<Time>,
}

impl Window {
    /// No operation is planned at or after this instant.
    pub(crate) fn is_over(&self, at: Time) -> bool {
        self.end.is_some_and(|end| at >= end)
    }

    /// Whether an instant falls into it.
    pub(crate) fn holds(&self, at: Time) -> bool {
        at >= self.start && !self.is_over(at)
    }
}

/// What the writers of a shard share.
pub(crate) struct Context<'a, W> {
    pub(crate) load: Load,
    pub(crate) workload: &'a W,
    pub(crate) target: &'a Target,
    pub(crate) clock: Clock,
    pub(crate) window: Window,
    pub(crate) stop: Stop,
    starved: AtomicU32,
    recorder: Mutex<Recorder>,
}

impl<W> Context<'_, W> {
    pub(crate) fn record(&self, with: impl FnOnce(&mut Recorder)) {
        with(&mut self.recorder.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn starved(&self) {
        self.starved.fetch_add(1, Ordering::Relaxed);
    }

    /// Too many operations starved: no new one starts.
    pub(crate) fn is_aborted(&self) -> bool {
        let limit = self.load.abort_after_starved;
        limit > 0 && self.starved.load(Ordering::Relaxed) >= limit
    }
}

/// Runs a shard from opening its connections to its report.
///
/// # Errors
/// When its pool cannot fill: not one operation ran then, and the reason is the
/// rep's result.
pub async fn run_shard<W: Workload>(
    load: Load,
    workload: &W,
    target: &Target,
    stop: Stop,
    progress: Arc<Progress>,
) -> Result<ShardReport, SqlFailure> {
    let clock = target.clock();
    let opening = clock.now();
    let deadline = opening + load.open_limit;
    let before = round_trips(target, &load, deadline).await?;
    let (slots, opened) = open_slots(&load, workload, target, deadline).await?;

    let barrier = clock.now();
    let start = barrier + load.warmup;
    let window = Window {
        barrier,
        start,
        end: load.measure.map(|length| start + length),
    };
    let names = target.endpoints().iter().map(|e| e.name.clone()).collect();
    let mut recorder = Recorder::new(window, names, before, load.keep_rows, progress);
    for (endpoint, took) in opened {
        recorder.connected(endpoint, took);
    }
    let context = Context {
        load,
        workload,
        target,
        clock,
        window,
        stop,
        starved: AtomicU32::new(0),
        recorder: Mutex::new(recorder),
    };

    let cpu_before = cpu::process_cpu();
    let places = context.load.writers.iter().zip(slots);
    let mut writers: FuturesUnordered<_> = places
        .map(|((index, _), slot)| write(&context, *index, slot))
        .collect();
    while writers.next().await.is_some() {}
    drop(writers);
    let cpu_pct = match (clock.is_simulated(), cpu_before, cpu::process_cpu()) {
        (false, Some(before), Some(after)) => cpu::percent(
            after.saturating_sub(before),
            clock.now().since(barrier),
            context.load.vcpus,
        ),
        _ => None,
    };

    let over = clock.now();
    let limit = over + PROBE_AFTER_LIMIT;
    let after = round_trips(target, &context.load, limit).await;
    let stopped = context.stop.is_set();
    let aborted = context.is_aborted();
    let mut report = None;
    context.record(|recorder| report = Some(std::mem::take(recorder).finish()));
    let mut report = report.unwrap_or_default();
    report.result.stopped = stopped;
    // A window that was cut short is as long as it was open.
    if (stopped || aborted)
        && let Some(window_us) = &mut report.result.window_us
    {
        let open = over.since(start).as_micros();
        *window_us = (*window_us).min(u64::try_from(open).unwrap_or(u64::MAX));
    }
    report.result.aborted = aborted;
    report.result.cpu_peak_pct = cpu_pct;
    // An endpoint that is gone by now has no round trip after the window; that
    // is visible as a missing figure.
    for (name, trips) in after.unwrap_or_default() {
        if let Some(both) = report.result.round_trips.get_mut(&name) {
            both.after = trips.before;
        }
    }
    Ok(report)
}

/// Measures every endpoint through a connection that carries no load. An
/// endpoint that fails for a moment is tried again until `deadline`.
async fn round_trips(
    target: &Target,
    load: &Load,
    deadline: Time,
) -> Result<BTreeMap<String, RoundTrips>, SqlFailure> {
    let clock = target.clock();
    let mut all = BTreeMap::new();
    for (at, endpoint) in target.endpoints().iter().enumerate() {
        let seen = loop {
            let probed = async {
                let conn = target.connect(at, deadline).await?;
                probe(target, &conn).await
            };
            match probed.await {
                Ok(seen) => break seen,
                Err(failure) if may_pass(&failure) && clock.now() + PROBE_PAUSE < deadline => {
                    clock.sleep(PROBE_PAUSE).await;
                }
                Err(failure) => return Err(failure),
            }
        };
        let server_part = load.server_parts.get(at).copied().flatten();
        let wire = wire(seen.fastest, server_part);
        all.insert(
            endpoint.name.clone(),
            RoundTrips {
                before: seen.trips,
                after: stats::Hist::default(),
                wire_us: u64::try_from(wire.as_micros()).ok(),
            },
        );
    }
    Ok(all)
}

/// Opens every writer's connection, all at once; the target paces refusals.
/// Returns the slots in the order of the writers, and how long each took.
#[allow(clippy::type_complexity)]
async fn open_slots<W: Workload>(
    load: &Load,
    workload: &W,
    target: &Target,
    deadline: Time,
) -> Result<(Vec<Slot<W>>, Vec<(usize, Duration)>), SqlFailure> {
    let mut opening: FuturesUnordered<_> = load
        .writers
        .iter()
        .enumerate()
        .map(|(place, (_, endpoint))| async move {
            let mut slot: Slot<W> = Slot::new(*endpoint);
            let took = slot.ensure(target, workload, deadline).await?;
            Ok::<_, SqlFailure>((place, slot, took.unwrap_or_default()))
        })
        .collect();
    let mut opened = BTreeMap::new();
    while let Some(ended) = opening.next().await {
        let (place, slot, took) = ended?;
        opened.insert(place, (slot, took));
    }
    let mut slots = Vec::new();
    let mut took_each = Vec::new();
    for (slot, took) in opened.into_values() {
        took_each.push((slot.endpoint, took));
        slots.push(slot);
    }
    Ok((slots, took_each))
}
