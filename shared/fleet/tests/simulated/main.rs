//! The embedded fleet against the DSQL simulator, in virtual time: what the
//! protocol does when its work is real.

#![allow(clippy::unwrap_used)]

extern crate fabric_fleet as fleet;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use fleet::embedded::{FaultPlan, Limits, Service, Stats};
use fleet::run::{self, Kept};
use fleet::{Attr, Driver, Finished, Item, KeptTargets, Read, RunId, RunOutcome, Settings, Store};
use plan::{Overrides, TargetSpec};
use report::{Measured, RepSummary};
use sim::Cluster;
use target::{BoxFuture, Dial, Stream, Target};

struct Pipes(Cluster);

impl Dial for Pipes {
    fn dial(&self, endpoint: usize) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        let pipe = self.0.dial(endpoint);
        Box::pin(async move { Ok(Box::new(pipe?) as Box<dyn Stream>) })
    }
}

/// What a run came to.
struct Ran {
    finished: Finished,
    /// The items of its tasks.
    tasks: Vec<Item>,
    /// The items of its waves.
    waves: Vec<Item>,
    stats: Stats,
    /// Virtual seconds.
    took_s: f64,
}

impl Ran {
    fn rep(&self, cell: usize) -> &RepSummary {
        &self.finished.summary.cells[cell].reps[0]
    }

    fn measured(&self, cell: usize) -> &Measured {
        &self.rep(cell).measured
    }

    fn sum(&self, name: &str) -> i64 {
        let numbers = self.tasks.iter().filter_map(|task| task.number(name));
        numbers.sum()
    }
}

fn fleet_of(sweep: &str, settings: Settings, limits: Limits) -> Ran {
    let runtime = clock::simulated_runtime().unwrap();
    runtime.block_on(async {
        let clock = Clock::simulated();
        let mut plan = plan::parse(sweep)
            .unwrap()
            .plan(&Overrides::default())
            .unwrap();
        let preset = sim::preset("us-pair-in-region").unwrap();
        let cluster = Cluster::new(preset, 3, sim::FaultPlan::default(), clock);
        let names = cluster.endpoints();
        let target = Target::simulator(names.clone(), Arc::new(Pipes(cluster)), clock);
        for spec in &mut plan.targets {
            spec.regions.clone_from(&names);
        }
        let kept = Kept {
            endpoints: BTreeMap::from([(plan.targets[0].name.clone(), names.clone())]),
            plan,
        };
        let targets = KeptTargets::default();
        let resolve = async |_: &TargetSpec| targets.get("it", |_| Ok::<_, String>(target.clone()));
        let service = Service::new(
            clock,
            names,
            settings,
            limits,
            FaultPlan::default(),
            1,
            Driver::new(resolve),
        );
        let id: RunId = "a-run".parse().unwrap();
        run::start(&service.quiet_env(), &id, &kept).await.unwrap();
        let over = || {
            let item = service.store().item(&id.key());
            item.is_some_and(|item| item.text("outcome").is_some())
        };
        let deadline = clock.now() + Duration::from_secs(4 * 3_600);
        assert!(service.serve(over, deadline).await, "it did not end");
        let tasks = service.store().list(&id.pk(), "task#").await.unwrap();
        let loads = tasks.into_iter().filter(|task| match task.get("sk") {
            Some(Attr::S(sk)) => sk.contains("/load/"),
            _ => false,
        });
        let (_, finished) = service.finished().pop().unwrap();
        Ran {
            finished,
            tasks: loads.collect(),
            waves: service.store().list(&id.pk(), "wave#").await.unwrap(),
            stats: service.stats(),
            took_s: clock.now().as_us() as f64 / 1e6,
        }
    })
}

fn sweep(workers: u32, block: &str) -> String {
    format!(
        r#"{{ "name": "fleet", "seed": 1, "preset": "us-pair-in-region",
              "fleet": {{ "workers": {workers} }}, "defaults": {{ "reps": 1 }},
              "blocks": [{{ "name": "a", "workload": "append", {block} }}] }}"#
    )
}

#[test]
fn a_wave_over_both_regions_is_verified_and_adds_up() {
    let sweep = sweep(8, r#""streams": 4, "writers": 4, "records": 32, "reps": 2"#);
    let ran = fleet_of(&sweep, Settings::default(), Limits::default());
    assert_eq!(
        ran.finished.outcome,
        RunOutcome::Complete,
        "{:?}",
        ran.finished.why
    );
    assert_eq!(ran.finished.exit_code, 0);
    let cell = &ran.finished.summary.cells[0];
    assert_eq!(cell.reps.len(), 2);
    for rep in &cell.reps {
        let measured = &rep.measured;
        assert!(measured.valid, "{:?}", measured.invalid_because);
        assert_eq!(measured.verify.ok, Some(true));
        assert_eq!(measured.figures.planned, 4 * 32);
        assert_eq!(measured.instrument.workers, 8);
        assert_eq!(measured.instrument.workers_reported, 8);
        assert_eq!(measured.by_endpoint.len(), 2);
        let by_endpoint: u64 = measured.by_endpoint.values().map(|f| f.committed).sum();
        assert_eq!(by_endpoint, measured.figures.committed);
        assert!(measured.clean.rows.is_some_and(|rows| rows > 0));
    }
    assert_eq!(cell.merged.measured.figures.committed, 2 * 4 * 32);
}

#[test]
fn a_seed_gives_the_same_report() {
    let sweep = sweep(5, r#""streams": 2, "writers": 3, "records": 12"#);
    let once = || fleet_of(&sweep, Settings::default(), Limits::default()).finished;
    let json = |finished: &Finished| report::to_json(&finished.summary).unwrap();
    assert_eq!(json(&once()), json(&once()));
}

#[test]
fn a_wave_longer_than_a_worker_lives_runs_in_legs() {
    let sweep = sweep(
        4,
        r#""streams": 4, "writers": 1, "measure_s": 70, "warmup_s": 2"#,
    );
    let settings = Settings {
        leg: Duration::from_secs(25),
        leg_lead: Duration::from_secs(10),
        ..Settings::default()
    };
    // A worker lives for less than half of the wave.
    let limits = Limits {
        worker: Duration::from_secs(60),
        ..Limits::default()
    };
    let ran = fleet_of(&sweep, settings, limits);
    assert_eq!(
        ran.finished.outcome,
        RunOutcome::Complete,
        "{:?}",
        ran.finished.why
    );
    let measured = ran.measured(0);
    assert!(measured.valid, "{:?}", measured.invalid_because);
    assert_eq!(
        measured.verify.ok,
        Some(true),
        "{:?}",
        measured.verify.problems
    );
    let legs = ran.tasks.len() / 4;
    assert_eq!(legs, 3);
    // The window is one, and every bucket of it holds commits.
    assert_eq!(measured.span_s, Some(70.0));
    let series = &measured.series;
    let seconds = (70.0 / series.bucket_s) as usize;
    assert!(
        series.committed[..seconds].iter().all(|n| *n > 0),
        "{:?}",
        series.committed
    );
    let gap = measured.instrument.handover_gap_ms.unwrap();
    assert!((-200.0..200.0).contains(&gap), "{gap} ms");
    println!("{legs} legs, hand-over gap {gap} ms");
}

#[test]
fn ten_thousand_connections_open_without_a_refusal() {
    let sweep = r#"{ "name": "pool", "seed": 1, "preset": "us-pair-in-region",
        "fleet": { "workers": 40, "connections_per_worker": 250 }, "defaults": { "reps": 1 },
        "blocks": [{ "name": "a", "workload": "append", "streams": 10000, "writers": 1, "records": 1 }] }"#;
    let ran = fleet_of(sweep, Settings::default(), Limits::default());
    assert_eq!(ran.sum("connections"), 10_000);
    assert_eq!(ran.sum("refusals"), 0);
    // From the instant at which all were there to the start, less the lead.
    let at = |name| ran.waves[0].number(name).unwrap();
    let lead_ms = Settings::default().lead.as_millis() as i64;
    let took_s = (at("start_ms") - at("open_ms") - lead_ms) as f64 / 1e3;
    // 10,000 less 1,000 at once, at 100 a second.
    let forced_s = 90.0;
    println!("10,000 connections in {took_s} s; the limits force {forced_s} s");
    assert!((forced_s..=forced_s * 1.1).contains(&took_s), "{took_s} s");
    assert_eq!(
        ran.finished.outcome,
        RunOutcome::Complete,
        "{:?}",
        ran.finished.why
    );
    assert_eq!(ran.measured(0).figures.committed, 10_000);
}

#[test]
fn a_run_stops_at_its_limits() {
    let limited = |limits: &str, block: &str| {
        format!(
            r#"{{ "name": "limited", "seed": 1, "preset": "us-pair-in-region",
                  "fleet": {{ "workers": 4, "limits": {limits} }}, "defaults": {{ "reps": 1 }},
                  "blocks": [{{ "name": "a", "workload": "append", "streams": 4, {block} }}] }}"#
        )
    };
    // Between waves: the second would cross it.
    let between = limited(r#"{ "minutes": 1.5 }"#, r#""measure_s": 40, "reps": 5"#);
    let ran = fleet_of(&between, Settings::default(), Limits::default());
    assert_eq!(ran.finished.outcome, RunOutcome::Stopped);
    assert!(ran.finished.why.contains("minutes"), "{}", ran.finished.why);
    let reps = ran.finished.summary.cells[0].reps.len();
    assert!((1..5).contains(&reps), "{reps} reps");
    // During a wave: its database costs more than that.
    let during = limited(
        r#"{ "dpu": 1000000, "minutes": 2 }"#,
        r#""measure_s": 1000"#,
    );
    let ran = fleet_of(&during, Settings::default(), Limits::default());
    assert_eq!(ran.finished.outcome, RunOutcome::Stopped);
    assert!(ran.took_s < 400.0, "{} s", ran.took_s);
    assert_eq!(ran.finished.exit_code, 2);
}

/// What the conductor does grows with the workers and no faster. (A worker's
/// own calls grow with the time that it waits at the barrier, which is what the
/// cluster takes to let all connections in.) Budget: one minute in release.
#[test]
fn a_thousand_workers() {
    let mut per_worker = Vec::new();
    for workers in [10u32, 100, 1_000] {
        let block = format!(r#""streams": {workers}, "writers": 1, "measure_s": 10"#);
        let sweep = sweep(workers, &block);
        let clock = Clock::real();
        let ran = fleet_of(&sweep, Settings::default(), Limits::default());
        let wall_s = clock.now().since_origin().as_secs_f64();
        assert_eq!(
            ran.finished.outcome,
            RunOutcome::Complete,
            "{:?}",
            ran.finished.why
        );
        let measured = ran.measured(0);
        assert_eq!(measured.instrument.workers_reported, workers);
        assert_eq!(measured.instrument.start_spread_ms, Some(0.0));
        let per = |calls: u64| calls as f64 / f64::from(workers);
        println!(
            "{workers} workers: {} committed, {wall_s:.1} s wall, {:.1} s simulated, {} conductors \
             with {:.1} calls a worker, workers with {:.1} each",
            measured.figures.committed,
            ran.took_s,
            ran.stats.conductors,
            per(ran.stats.conductor_calls),
            per(ran.stats.worker_calls),
        );
        per_worker.push(per(ran.stats.conductor_calls));
    }
    assert!(per_worker[2] <= per_worker[1] * 1.2, "{per_worker:?}");
}
