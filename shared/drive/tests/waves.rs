//! A wave of several shards against one simulated cluster: they start together,
//! legs take over from each other, whatever ends a shard leaves sums that hold,
//! and all of it merges to what one shard would have reported.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::{Clock, Time};
use fabric_drive::{
    self as drive, AtOnce, Ended, Gate, Opened, Opening, Progress, Purpose, Rep, Settings,
    ShardReport, Start, rep_seed,
};
use futures_util::future::join_all;
use plan::{Cell, Fleet, Leg, Overrides, Shard};
use sim::{Cluster, FaultPlan};
use target::{BoxFuture, Dial, Stream, Target};

struct Pipes(Cluster);

impl Dial for Pipes {
    fn dial(&self, endpoint: usize) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        let pipe = self.0.dial(endpoint);
        Box::pin(async move { Ok(Box::new(pipe?) as Box<dyn Stream>) })
    }
}

/// Everybody starts at one instant.
struct Together {
    at: Time,
}

impl Gate for Together {
    async fn ready(&self, opened: Opened) -> Start {
        assert!(opened.connections > 0);
        assert_eq!(opened.refusals, 0);
        Start::At(self.at)
    }
}

/// Nobody starts.
struct Shut;

impl Gate for Shut {
    async fn ready(&self, _: Opened) -> Start {
        Start::Not("the barrier did not fill".to_owned())
    }
}

/// Runs a test in simulated time on a cluster of its own.
fn simulated(test: impl AsyncFnOnce(&Target)) {
    let runtime = clock::simulated_runtime().unwrap();
    runtime.block_on(async {
        let clock = Clock::simulated();
        let preset = sim::preset("us-pair-in-region").unwrap();
        let cluster = Cluster::new(preset, 7, FaultPlan::default(), clock);
        let target = Target::simulator(cluster.endpoints(), Arc::new(Pipes(cluster)), clock);
        test(&target).await;
    });
}

fn cell(members: &str) -> Cell {
    let text = format!(
        r#"{{"name": "s", "preset": "p", "blocks": [
            {{"name": "A", "workload": "append", "abort_after_starved": 1000000, {members}}}]}}"#
    );
    let plan = plan::parse(&text).unwrap().plan(&Overrides::default());
    plan.unwrap().cells.remove(0)
}

fn rep(cell: &Cell) -> Rep<'_> {
    Rep {
        cell,
        id_base: 1_000,
        seed: rep_seed(1, &cell.id, 0, Purpose::Inputs),
    }
}

fn names(target: &Target) -> Vec<String> {
    target.endpoints().iter().map(|e| e.name.clone()).collect()
}

/// The shards of a cell on a fleet of so many workers.
fn dealt(cell: &Cell, target: &Target, workers: u32) -> Vec<Shard> {
    let fleet = Fleet {
        workers,
        ..Fleet::default()
    };
    plan::shards(cell, &names(target), &fleet).unwrap()
}

/// What a fleet's worker would set for a shard.
fn settings(shard: &Shard, from: Time) -> Settings {
    let endpoint = shard.endpoint as usize;
    Settings {
        writers: shard.writer_indices().map(|w| (w, endpoint)).collect(),
        opening: Some(Opening {
            from,
            delays: shard.delays(),
        }),
        probe_endpoints: vec![endpoint],
        leg: None,
        first_operation: 0,
        stop_by: None,
        server_parts: Vec::new(),
        vcpus: 1.0,
        open_limit: Duration::from_secs(10),
    }
}

/// Runs settings as shards side by side, each with the given gate.
async fn wave(
    rep: &Rep<'_>,
    target: &Target,
    shards: Vec<Settings>,
    gate: &impl Gate,
) -> Vec<ShardReport> {
    let runs = shards.into_iter().map(async |settings| {
        let (_handle, stop) = drive::stop();
        let progress = Arc::new(Progress::default());
        match rep.load(settings, target, stop, progress, gate).await {
            Ok(Ended::Ran(report)) => report,
            other => panic!("{other:?}"),
        }
    });
    join_all(runs).await
}

/// What a worker hands over comes through its wire form.
fn merge(reports: &[ShardReport]) -> ShardReport {
    let mut all = ShardReport::default();
    for report in reports {
        let text = serde_json::to_string(report).unwrap();
        all.merge(serde_json::from_str(&text).unwrap());
    }
    all
}

fn planned(report: &ShardReport) -> u64 {
    let total = &report.result.total.counts;
    assert_eq!(total.unaccounted(), 0, "{total:?}");
    for parts in [&report.result.by_endpoint, &report.result.by_operation] {
        let sum: u64 = parts.values().map(|part| part.counts.planned).sum();
        assert_eq!(sum, total.planned);
    }
    total.planned
}

async fn verified(rep: &Rep<'_>, target: &Target, report: &ShardReport, missing: &[u32]) -> bool {
    let verified = rep.verify(target, 1, &report.claims, missing).await;
    let verified = verified.unwrap();
    assert_eq!(verified.ok, verified.problems.is_empty());
    for problem in &verified.problems {
        println!("{problem}");
    }
    verified.ok
}

#[test]
fn the_shards_of_a_wave_start_together_and_add_up() {
    simulated(async |target| {
        let cell = cell(r#""writers": 5, "streams": 2, "records": 40"#);
        let rep = rep(&cell);
        assert_eq!((rep.total_writers(), rep.planned()), (10, Some(80)));
        assert_eq!(rep.rows_named(), "streams 1000 to 1001 and their records");
        // A step that crashed is repeated.
        rep.clean(target).await.unwrap();
        rep.prepare(target).await.unwrap();
        rep.prepare(target).await.unwrap();
        let shards = dealt(&cell, target, 4);
        assert_eq!(shards.len(), 4);
        let now = target.clock().now();
        let at = now + Duration::from_secs(2);
        let settings = shards.iter().map(|shard| settings(shard, now)).collect();
        let reports = wave(&rep, target, settings, &Together { at }).await;
        for report in &reports {
            assert_eq!(report.result.start_late_us, Some(0));
            assert_eq!(report.result.first_start_us, Some(0));
            assert_eq!(report.result.round_trips.len(), 1, "only its own endpoint");
            assert_eq!(report.result.by_endpoint.len(), 1);
        }
        let all = merge(&reports);
        assert_eq!(planned(&all), 80);
        assert_eq!(all.result.total.counts.committed, 80);
        assert_eq!(all.claims.len(), 80);
        assert_eq!(all.result.round_trips.len(), 2);
        assert!(verified(&rep, target, &all, &[]).await);

        // A worker never reported. What it did is there, unclaimed.
        let without = merge(&reports[1..]);
        let lost: Vec<u32> = shards[0].writer_indices().collect();
        assert!(!verified(&rep, target, &without, &[]).await);
        assert!(verified(&rep, target, &without, &lost).await);
        // Its claims may have come through none the less, or a part of them.
        assert!(verified(&rep, target, &all, &lost).await);
        // A false claim of anybody else is still seen.
        let mut lying = without.clone();
        lying.claims[0].said = workload::Said::Failed;
        assert!(!verified(&rep, target, &lying, &lost).await);

        assert_eq!(rep.clean(target).await.unwrap().rows, 82);
        assert_eq!(rep.clean(target).await.unwrap().rows, 0);
    });
}

#[test]
fn legs_take_over_without_a_break_in_the_schedule() {
    simulated(async |target| {
        let cell =
            cell(r#""writers": 1, "streams": 4, "warmup_s": 1, "measure_s": 9, "trips": "sticky""#);
        let rep = rep(&cell);
        rep.prepare(target).await.unwrap();
        let legs = plan::legs(&cell, 4_000);
        assert_eq!(legs.len(), 3);
        let now = target.clock().now();
        let at = now + Duration::from_secs(1);
        let gate = Together { at };
        let shards = dealt(&cell, target, 2);
        let of_leg = |leg: &Leg| {
            let leg = *leg;
            shards.iter().map(move |shard| Settings {
                leg: Some(leg),
                first_operation: u64::from(leg.index) << 24,
                ..settings(shard, now)
            })
        };
        let settings = legs.iter().flat_map(of_leg).collect();
        let reports = wave(&rep, target, settings, &gate).await;
        let legs_of: Vec<ShardReport> = reports.chunks(shards.len()).map(merge).collect();
        for (leg, report) in legs.iter().zip(&legs_of) {
            let result = &report.result;
            assert_eq!(result.window_us, Some(9_000_000));
            assert_eq!(result.start_late_us, Some(0));
            // The warm-up of a second lies before the window of the first leg.
            let from_us = if leg.index == 0 {
                0
            } else {
                1_000_000 + leg.from_ms * 1_000
            };
            assert_eq!(result.leg_first_us, Some(from_us));
            let until_us = 1_000_000 + leg.until_ms * 1_000;
            let last = result.leg_last_us.unwrap();
            assert!(
                (until_us..until_us + 1_000_000).contains(&last),
                "{last} after {until_us}"
            );
        }
        let all = merge(&reports);
        planned(&all);
        assert_eq!(all.result.window_us, Some(9_000_000));
        assert_eq!(all.result.first_start_us.map(|us| us / 1_000_000), Some(1));
        assert_eq!(all.result.leg_first_us, Some(0));
        let mut ids: Vec<u64> = all.claims.iter().map(|claim| claim.op).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(
            ids.len(),
            all.claims.len(),
            "operations have numbers of their own"
        );
        assert!(verified(&rep, target, &all, &[]).await);
    });
}

#[test]
fn a_shard_stops_in_time_and_says_what_it_left() {
    simulated(async |target| {
        for (members, share) in [
            (r#""records": 4000"#, Some(4_000)),
            (r#""measure_s": 60"#, None),
        ] {
            let cell = cell(&format!(r#""writers": 4, {members}"#));
            let rep = rep(&cell);
            rep.prepare(target).await.unwrap();
            let clock = target.clock();
            let by = clock.now() + Duration::from_secs(3);
            let placement = rep.placement(&names(target)).unwrap();
            let shards = dealt(&cell, target, 2);
            let settings: Vec<Settings> = shards
                .iter()
                .map(|shard| Settings {
                    stop_by: Some(by),
                    ..settings(shard, clock.now())
                })
                .collect();
            let reports = wave(&rep, target, settings, &AtOnce(clock)).await;
            assert!(clock.now() <= by + Duration::from_secs(2), "in time");
            let all = merge(&reports);
            assert!(all.result.stopped);
            let counts = &all.result.total.counts;
            assert!(counts.committed > 0 && counts.unfinished > 0, "{counts:?}");
            if let Some(share) = share {
                assert_eq!(planned(&all), share);
                assert!(counts.skipped > 0);
            } else {
                planned(&all);
                assert!(all.result.window_us.unwrap() < 3_000_000);
            }
            let other = drive::verifying_endpoint(&placement, 2);
            let verified = rep.verify(target, other, &all.claims, &[]).await.unwrap();
            assert!(verified.ok, "{:?}", verified.problems);
            rep.clean(target).await.unwrap();
        }
    });
}

#[test]
fn a_wave_that_is_aborted_elsewhere_ends_here() {
    simulated(async |target| {
        let cell = cell(r#""writers": 2, "records": 4000, "placement": "first""#);
        let rep = rep(&cell);
        rep.prepare(target).await.unwrap();
        let clock = target.clock();
        let shard = dealt(&cell, target, 1).remove(0);
        let progress = Arc::new(Progress::default());
        assert!(progress.partial().is_none(), "it has not begun");
        let (_handle, stop) = drive::stop();
        let gate = AtOnce(clock);
        let run = rep.load(
            settings(&shard, clock.now()),
            target,
            stop,
            Arc::clone(&progress),
            &gate,
        );
        let watch = async {
            clock.sleep(Duration::from_secs(2)).await;
            assert!(progress.started.load(Ordering::Relaxed));
            let partial = progress.partial().unwrap();
            assert_eq!(partial.total.counts.unaccounted(), 0);
            let committed = progress.committed.load(Ordering::Relaxed);
            assert_eq!(partial.total.counts.committed, committed);
            assert!(committed > 0);
            progress.aborted.store(true, Ordering::Relaxed);
            clock.now()
        };
        let (ended, aborted_at) = futures_util::join!(run, watch);
        assert!(clock.now() < aborted_at + Duration::from_secs(1));
        let Ok(Ended::Ran(report)) = ended else {
            panic!("{ended:?}");
        };
        assert!(report.result.aborted && !report.result.stopped);
        assert_eq!(planned(&report), 4_000);
        let counts = &report.result.total.counts;
        assert_eq!(counts.unfinished, 0, "what runs is let end");
        assert_eq!(
            counts.skipped + counts.committed + counts.failed_total(),
            4_000
        );
        assert!(progress.partial().is_none(), "it is over");
        assert!(verified(&rep, target, &report, &[]).await);
    });
}

#[test]
fn a_gate_that_stays_shut_lets_nobody_through() {
    simulated(async |target| {
        let cell = cell(r#""writers": 2, "placement": "first""#);
        let rep = rep(&cell);
        rep.prepare(target).await.unwrap();
        let shard = dealt(&cell, target, 1).remove(0);
        let (_handle, stop) = drive::stop();
        let settings = settings(&shard, target.clock().now());
        let progress = Arc::new(Progress::default());
        let ended = rep.load(settings, target, stop, Arc::clone(&progress), &Shut);
        let why = "the barrier did not fill".to_owned();
        assert_eq!(ended.await.unwrap(), Ended::NotStarted(why));
        assert!(!progress.started.load(Ordering::Relaxed));
        assert!(verified(&rep, target, &ShardReport::default(), &[]).await);
    });
}

#[test]
fn a_shard_that_is_stopped_while_it_opens_does_not_start() {
    simulated(async |target| {
        let cell = cell(r#""writers": 2, "placement": "first""#);
        let rep = rep(&cell);
        rep.prepare(target).await.unwrap();
        let shard = dealt(&cell, target, 1).remove(0);
        let clock = target.clock();
        let far = clock.now() + Duration::from_secs(100);
        let (_handle, stop) = drive::stop();
        let settings = Settings {
            stop_by: Some(clock.now() + Duration::from_secs(1)),
            ..settings(&shard, far)
        };
        let gate = AtOnce(clock);
        let ended = rep.load(settings, target, stop, Arc::default(), &gate);
        let ended = ended.await.unwrap();
        assert!(
            matches!(&ended, Ended::NotStarted(why) if why.contains("stopped")),
            "{ended:?}"
        );
        assert!(clock.now() < far);
    });
}

#[test]
fn connections_open_in_their_slots() {
    simulated(async |target| {
        let cell = cell(r#""writers": 3, "streams": 500, "records": 3"#);
        let rep = rep(&cell);
        rep.prepare(target).await.unwrap();
        let clock = target.clock();
        // Whoever prepared has left the cluster a rest.
        let from = clock.now() + Duration::from_secs(1);
        let shards = dealt(&cell, target, 8);
        let last = shards.iter().flat_map(Shard::delays).max().unwrap();
        assert!(last > Duration::from_secs(5));
        let settings = shards.iter().map(|shard| settings(shard, from)).collect();
        // The gate refuses a wave of which one connection was refused.
        let at = from + last + Duration::from_secs(1);
        let reports = wave(&rep, target, settings, &Together { at }).await;
        let all = merge(&reports);
        assert_eq!(all.result.total.latencies.connect.n(), 1_500);
        assert_eq!(planned(&all), 1_500);
    });
}
