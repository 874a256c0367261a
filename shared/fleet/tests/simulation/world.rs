//! One seed: a sweep, a fleet, and what happens to it.

use std::time::Duration;

use clock::Clock;
use fleet::embedded::{FaultPlan, Happened, Limits, Service};
use fleet::run::{self, Kept, Started};
use fleet::{Queue, RunId, RunOutcome, Settings, To};
use plan::Overrides;

use crate::check;
use crate::fake::Fake;

/// What goes wrong.
#[derive(Clone, Debug)]
pub struct Weather {
    pub faults: FaultPlan,
    /// Told to stop after so many seconds.
    pub stop_after: Option<u64>,
    /// Sends a message that cannot be understood.
    pub poison: bool,
    /// Resumes the run once, when it did not end complete.
    pub resume: bool,
}

impl Weather {
    pub fn fair() -> Weather {
        Weather {
            faults: FaultPlan::default(),
            stop_after: None,
            poison: false,
            resume: false,
        }
    }

    /// A different mixture for each seed.
    pub fn foul(seed: u64) -> Weather {
        let share = |n: u64, of: u64| ((seed / n) % of) as f64 / of as f64;
        Weather {
            faults: FaultPlan {
                call: Duration::from_millis(seed % 60),
                busy_before: 0.06 * share(3, 4),
                busy_after: 0.06 * share(5, 4),
                duplicate: 0.3 * share(2, 5),
                late: 0.3 * share(7, 4),
                late_by: Duration::from_secs(1 + seed % 40),
                lost: 0.04 * share(11, 5),
                crash: 0.12 * share(13, 6),
                cut: 0.15 * share(17, 4),
                cut_for: Duration::from_secs(20 + seed % 80),
                skew: Duration::from_millis((seed % 5) * 500),
                unguarded: None,
            },
            stop_after: (seed.is_multiple_of(11)).then_some(5 + seed % 90),
            poison: seed.is_multiple_of(9),
            resume: seed.is_multiple_of(3),
        }
    }

    pub fn without(mut self, guard: &'static str) -> Weather {
        self.faults.unguarded = Some(guard);
        self
    }
}

/// What a seed came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Went {
    pub seed: u64,
    pub outcome: Option<RunOutcome>,
    pub broken: Vec<String>,
    pub happened: Happened,
    /// Workers that came too late.
    pub late: u64,
    /// Tasks that were lost after their load had begun.
    pub lost_running: u64,
    /// Waves whose barrier was closed.
    pub refused: u64,
    pub replaced: u64,
    pub resumed: bool,
    pub dead: u64,
    /// The widest start of a wave, in milliseconds.
    pub spread_ms: u64,
    /// Virtual seconds until the run had ended.
    pub took_s: u64,
}

const SWEEP: &str = r#"{
    "name": "simulated", "seed": 7,
    "preset": "us-pair-in-region",
    "fleet": { "workers": 6 },
    "defaults": { "reps": 2 },
    "blocks": [
        { "name": "a", "workload": "append", "streams": 8, "writers": 1, "measure_s": 40 },
        { "name": "b", "workload": "append", "streams": 2, "writers": 4, "measure_s": 70, "reps": 1 }
    ]
}"#;

/// The longest that a run may take: four waves, each with every stage given up
/// as late as it can be, and messages that come back after their visibility
/// time.
const LIMIT: Duration = Duration::from_secs(6 * 3_600);

pub fn run(seed: u64, weather: &Weather) -> Went {
    let runtime = clock::simulated_runtime().unwrap();
    runtime.block_on(go(seed, weather))
}

async fn go(seed: u64, weather: &Weather) -> Went {
    let clock = Clock::simulated();
    let plan = plan::parse(SWEEP)
        .unwrap()
        .plan(&Overrides::default())
        .unwrap();
    let endpoints = vec!["us-east-1".to_owned(), "us-east-2".to_owned()];
    let kept = Kept {
        endpoints: plan
            .targets
            .iter()
            .map(|target| (target.name.clone(), endpoints.clone()))
            .collect(),
        plan,
    };
    let settings = Settings {
        leg: Duration::from_secs(40),
        leg_lead: Duration::from_secs(8),
        gather: Duration::from_secs(60),
        ..Settings::default()
    };
    let limits = Limits {
        worker: Duration::from_secs(120),
        conductor: Duration::from_secs(60),
        ..Limits::default()
    };
    let service = Service::new(
        clock,
        endpoints,
        settings,
        limits,
        weather.faults.clone(),
        seed,
        Fake::new(clock, seed, !weather.faults.is_none()),
    );
    let id: RunId = "simulated-run".parse().unwrap();
    let deadline = clock.now() + LIMIT;
    let quiet = service.quiet_env();
    // Started twice, as a schedule may: the same run.
    let first = run::start(&quiet, &id, &kept).await.unwrap();
    let second = run::start(&service.env(), &id, &kept).await;
    let mut broken = Vec::new();
    if first != Started::New || matches!(second, Ok(Started::New)) {
        broken.push(format!("started twice: {first:?}, {second:?}"));
    }
    if weather.poison {
        let to = To::Wave {
            region: "us-east-2".to_owned(),
        };
        let poison = ["{\"v\":1,\"kind\":".to_owned()];
        quiet
            .queue
            .send(&to, &poison, Duration::ZERO)
            .await
            .unwrap();
    }
    if let Some(after) = weather.stop_after {
        let at = clock.now() + Duration::from_secs(after);
        let stopper = async {
            clock.sleep_until(at).await;
            let _ = run::stop(&quiet, &id, "somebody said so").await;
            std::future::pending::<()>().await
        };
        let served = service.serve(|| has_ended(&service, &id), deadline);
        tokio::pin!(stopper, served);
        tokio::select! {
            biased;
            () = &mut stopper => {}
            _ = &mut served => {}
        }
    } else {
        service.serve(|| has_ended(&service, &id), deadline).await;
    }
    let mut resumed = false;
    if weather.resume && has_ended(&service, &id) {
        check::check(&service, &quiet, &id, &mut broken).await;
        if run::resume(&quiet, &id).await.is_ok() {
            resumed = true;
            service.serve(|| has_ended(&service, &id), deadline).await;
        }
    }
    let took_s = clock.now().as_us() / 1_000_000;
    if !has_ended(&service, &id) {
        broken.push("the run did not end".to_owned());
    }
    // What is still on its way must do nothing any more.
    let begun = service.work().done.borrow().begun.len();
    let drained = clock.now() + Duration::from_secs(4 * 3_600);
    service.serve(|| service.queue().is_empty(), drained).await;
    if service.work().done.borrow().begun.len() != begun {
        broken.push("load was begun after the run had ended".to_owned());
    }
    let seen = check::check(&service, &quiet, &id, &mut broken).await;
    let dead = service.queue().dead().len() as u64;
    if weather.poison && weather.faults.crash == 0.0 && dead == 0 {
        broken.push("a poison message was not buried".to_owned());
    }
    // Removing leaves nothing, and everything else alone.
    let mut left = run::remove(&quiet, &id).await;
    if left.as_ref().is_ok_and(|left| !left.is_none()) {
        left = run::remove(&quiet, &id).await;
    }
    if !left.is_ok_and(|left| left.is_none()) || !service.store().items().is_empty() {
        broken.push("something was left of a removed run".to_owned());
    }
    Went {
        seed,
        outcome: seen.outcome,
        broken,
        happened: service.stats().happened,
        late: seen.late,
        lost_running: seen.lost_running,
        refused: seen.refused,
        replaced: seen.replaced,
        resumed,
        dead,
        spread_ms: seen.spread_ms,
        took_s,
    }
}

fn has_ended(service: &Service<Fake>, run: &RunId) -> bool {
    use fleet::Read;
    let key = run.key();
    service
        .store()
        .item(&key)
        .is_some_and(|item| item.text("outcome").is_some())
}
