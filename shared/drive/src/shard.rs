//! The phases of a shard.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::{Clock, Time};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use stats::LockWaits;
use target::{SqlFailure, Target};
use workload::Workload;

use crate::connection::{Connected, Slot};
use crate::cpu;
use crate::gate::{Ended, Gate, Opened, Start};
use crate::load::{Load, Progress};
use crate::locks;
use crate::opening::{Pace, open_slots, probe_after, probe_before};
use crate::record::Recorder;
use crate::report::ShardReport;
use crate::stop::{Stop, stop};
use crate::writer::write;

/// How long an endpoint may take to answer after the window.
const PROBE_AFTER_LIMIT: Duration = Duration::from_secs(5);
/// The same, where the shard was stopped: whoever did that is waiting.
const PROBE_STOPPED_LIMIT: Duration = Duration::from_secs(1);

/// The instants of a rep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Everybody starts.
    pub(crate) barrier: Time,
    /// Measuring begins.
    pub(crate) start: Time,
    /// Measuring ends, where time bounds it.
    pub(crate) end: Option<Time>,
    /// This shard's first operations are planned at this instant.
    pub(crate) first_plan: Time,
    /// None of this shard's is planned at or after this one.
    pub(crate) last_plan: Option<Time>,
}

impl Window {
    fn new(load: &Load, barrier: Time) -> Window {
        let start = barrier + load.warmup;
        let end = load.measure.map(|length| start + length);
        let whole = Window {
            barrier,
            start,
            end,
            first_plan: barrier,
            last_plan: end,
        };
        let (Some(leg), Some(end)) = (load.leg, end) else {
            return whole;
        };
        Window {
            // The first leg begins with the warm-up.
            first_plan: match leg.index {
                0 => barrier,
                _ => start + Duration::from_millis(leg.from_ms),
            },
            last_plan: Some(end.min(start + Duration::from_millis(leg.until_ms))),
            ..whole
        }
    }

    /// Whether no operation is planned at this instant any more.
    pub(crate) fn is_over(&self, at: Time) -> bool {
        self.last_plan.is_some_and(|last| at >= last)
    }

    /// Whether an instant falls into it.
    pub(crate) fn holds(&self, at: Time) -> bool {
        at >= self.start && self.end.is_none_or(|end| at < end)
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
    progress: Arc<Progress>,
    recorder: Arc<Mutex<Recorder>>,
}

impl<W> Context<'_, W> {
    pub(crate) fn record<T>(&self, with: impl FnOnce(&mut Recorder) -> T) -> T {
        with(&mut self.recorder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Too many operations starved, here or in the whole wave: no new one
    /// starts.
    pub(crate) fn is_aborted(&self) -> bool {
        let limit = u64::from(self.load.abort_after_starved);
        let starved = self.progress.starved.load(Ordering::Relaxed);
        (limit > 0 && starved >= limit) || self.progress.aborted.load(Ordering::Relaxed)
    }
}

/// Runs a shard from opening its connections to its report. `gate` lets it
/// start; `stop` and [`Load::stop_by`] end it, wherever it is.
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
    gate: &impl Gate,
) -> Result<Ended, SqlFailure> {
    // Both ways of ending it become one flag, so that an operation has one
    // thing to watch and no timer of its own.
    let (handle, either) = self::stop();
    let ends = until_stopped(target.clock(), stop, load.stop_by);
    let mut phases = std::pin::pin!(phases(load, workload, target, either, progress, gate));
    tokio::select! {
        biased;
        ended = &mut phases => return ended,
        () = ends => handle.stop(),
    }
    phases.await
}

async fn until_stopped(clock: Clock, mut stop: Stop, by: Option<Time>) {
    match by {
        None => stop.wait().await,
        Some(by) => tokio::select! {
            biased;
            () = stop.wait() => {}
            () = clock.sleep_until(by) => {}
        },
    }
}

async fn phases<W: Workload>(
    load: Load,
    workload: &W,
    target: &Target,
    stop: Stop,
    progress: Arc<Progress>,
    gate: &impl Gate,
) -> Result<Ended, SqlFailure> {
    let clock = target.clock();
    let pace = Pace::new(&load, clock);
    let opening = async {
        let probed = probe_before(target, &pace).await?;
        Ok::<_, SqlFailure>((probed, open_slots(workload, target, &pace).await?))
    };
    let Some(opened) = unless_stopped(&stop, opening).await else {
        let why = "stopped while its connections were opened";
        return Ok(Ended::NotStarted(why.to_owned()));
    };
    let (probed, slots) = opened?;
    let refusals = slots.iter().map(|(_, connected)| connected.refusals);
    let opened = Opened {
        connections: u32::try_from(slots.len()).unwrap_or(u32::MAX),
        took: pace.took(),
        refusals: probed.refusals + refusals.sum::<u32>(),
    };
    let barrier = match gate.ready(opened).await {
        Start::At(at) => at,
        Start::Not(why) => return Ok(Ended::NotStarted(why)),
    };

    let window = Window::new(&load, barrier);
    let names = target.endpoints().iter().map(|e| e.name.clone()).collect();
    let mut recorder = Recorder::new(
        window,
        names,
        probed.round_trips,
        load.keep_rows,
        Arc::clone(&progress),
    );
    for (slot, connected) in &slots {
        recorder.connected(slot.endpoint, connected.took);
    }
    let recorder = Arc::new(Mutex::new(recorder));
    *progress
        .recorder
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&recorder);
    let context = Context {
        load,
        workload,
        target,
        clock,
        window,
        stop,
        progress,
        recorder,
    };
    Ok(Ended::Ran(measure(context, slots).await))
}

/// The load itself, from the barrier on, and the round trips after it.
async fn measure<W: Workload>(
    context: Context<'_, W>,
    slots: Vec<(Slot<W>, Connected)>,
) -> ShardReport {
    let Context { clock, window, .. } = context;
    if window.first_plan > clock.now() {
        let _ = unless_stopped(&context.stop, clock.sleep_until(window.first_plan)).await;
    }
    let began = clock.now();
    context.progress.started.store(true, Ordering::Relaxed);
    context.record(|recorder| recorder.started(began));
    let cpu_before = cpu::process_cpu();
    let places = context.load.writers.iter().zip(slots);
    let mut writers: FuturesUnordered<_> = places
        .map(|((index, _), (slot, _))| write(&context, *index, slot))
        .collect();
    // One shard looks for all of its wave.
    let mut lock_waits = LockWaits::default();
    let first = context
        .load
        .writers
        .first()
        .filter(|(index, _)| *index == 0);
    {
        let all = async { while writers.next().await.is_some() {} };
        let watched = async {
            match first {
                Some((_, endpoint)) if locks::can_wait(context.target) => {
                    locks::watch(context.target, *endpoint, window.start, &mut lock_waits).await;
                }
                _ => {}
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = all => {}
            () = watched => {}
        }
    }
    drop(writers);
    let over = clock.now();
    let cpu_pct = match (clock.is_simulated(), cpu_before, cpu::process_cpu()) {
        (false, Some(before), Some(after)) => {
            let used = after.saturating_sub(before);
            cpu::percent(used, over.since(began), context.load.vcpus)
        }
        _ => None,
    };

    let stopped = context.stop.is_set();
    let aborted = context.is_aborted();
    let limit = match stopped {
        true => PROBE_STOPPED_LIMIT,
        false => PROBE_AFTER_LIMIT,
    };
    let after = probe_after(context.target, &context.load, over + limit).await;
    let mut report = context.record(|recorder| std::mem::take(recorder).finish());
    let result = &mut report.result;
    result.stopped = stopped;
    result.aborted = aborted;
    result.cpu_peak_pct = cpu_pct;
    result.lock_waits = (lock_waits.looks > 0).then_some(lock_waits);
    // A window that was cut short is as long as it was open.
    if (stopped || aborted)
        && let Some(window_us) = &mut result.window_us
    {
        let open = over.since(window.start).as_micros();
        *window_us = (*window_us).min(u64::try_from(open).unwrap_or(u64::MAX));
    }
    // An endpoint that is gone by now has no round trip after the window; that
    // is visible as a missing figure.
    for (name, trips) in after.unwrap_or_default().round_trips {
        if let Some(both) = result.round_trips.get_mut(&name) {
            both.after = trips.before;
        }
    }
    report
}

/// Runs `work` until it is done, or to `None` when the shard is stopped.
async fn unless_stopped<T>(stop: &Stop, work: impl Future<Output = T>) -> Option<T> {
    let mut stop = stop.clone();
    tokio::select! {
        biased;
        done = work => Some(done),
        () = stop.wait() => None,
    }
}
