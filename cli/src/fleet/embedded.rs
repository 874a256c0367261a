//! `fabric run --workers N`: planner, workers and conductor in this process, in
//! virtual time against simulated clusters or in real time against a database.
//!
//! All waves of a run meet the same cluster, as they do in the cloud. The report
//! is the one that the conductor writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clock::Clock;
use drive::{Purpose, Stop, rep_seed};
use fleet::embedded::{FaultPlan, Limits, Service};
use fleet::run::{self, Kept};
use fleet::{Driver, FILES, KeptTargets, Read, RunId, Settings, Store};
use plan::{Plan, TargetSpec};
use target::Target;

use crate::failure::Failure;
use crate::results;
use crate::targets::{Database, Site};

/// How long a run may take: nothing ends a fleet's run but its own states, so
/// this is for faults of ours.
const LIMIT: Duration = Duration::from_secs(15 * 3_600);

/// The function of a worker in this process lives as long as Lambda would let
/// it.
const WORKER: Duration = Duration::from_secs(900);

/// Runs a plan on a fleet in this process. Returns the exit code.
///
/// # Errors
/// When it could not be run, or its results could not be written.
pub fn run(
    plan: &Plan,
    sites: &BTreeMap<String, Site>,
    stop: Stop,
    out: &Path,
) -> Result<u8, Failure> {
    let used = |site: &&Site| plan.cells.iter().any(|cell| cell.target == site.name);
    let sites: BTreeMap<&str, &Site> = sites
        .values()
        .filter(used)
        .map(|site| (site.name.as_str(), site))
        .collect();
    let simulated = |site: &Site| matches!(site.database, Database::Simulated(_));
    let all = sites.values().all(|site| simulated(site));
    if !all && sites.values().any(|site| simulated(site)) {
        return Err(Failure::Other(
            "--workers: simulated targets pass virtual time and real ones do not; run them in two \
             runs, or serve the simulator with `fabric sim serve`"
                .to_owned(),
        ));
    }
    let runtime = if all {
        clock::simulated_runtime()
    } else {
        clock::real_runtime()
    };
    let runtime =
        runtime.map_err(|error| Failure::Other(format!("cannot start a runtime: {error}")))?;
    runtime.block_on(async {
        let clock = if all {
            Clock::simulated()
        } else {
            Clock::real()
        };
        serve(plan, &sites, stop, out, clock).await
    })
}

async fn serve(
    plan: &Plan,
    sites: &BTreeMap<&str, &Site>,
    stop: Stop,
    out: &Path,
    clock: Clock,
) -> Result<u8, Failure> {
    let endpoints: BTreeMap<String, Vec<String>> = sites
        .iter()
        .map(|(name, site)| ((*name).to_owned(), site.endpoints()))
        .collect();
    let mut regions: Vec<String> = endpoints.values().flatten().cloned().collect();
    regions.sort();
    regions.dedup();
    let mut plan = plan.clone();
    for target in &mut plan.targets {
        // Each endpoint's workers are beside it.
        if let Some(endpoints) = endpoints.get(&target.name) {
            target.regions.clone_from(endpoints);
        }
    }
    let targets = KeptTargets::default();
    let resolve = async |spec: &TargetSpec| -> Result<Target, String> {
        let Some(site) = sites.get(spec.name.as_str()) else {
            return Err(format!("no target is named {}", spec.name));
        };
        targets.get(&spec.name, |name| match &site.database {
            Database::Simulated(_) => {
                let seed = rep_seed(plan.seed, name, 0, Purpose::Simulator);
                Ok(site.simulated_target(seed))
            }
            Database::Live(_) => Target::from_url(spec.url(), clock)
                .map_err(|error| format!("target {}: {error}", spec.name)),
        })
    };
    let kept = Kept {
        plan: plan.clone(),
        endpoints,
    };
    let service = Service::new(
        clock,
        regions,
        Settings::default(),
        Limits {
            worker: WORKER,
            vcpus: std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64),
            ..Limits::default()
        },
        FaultPlan::default(),
        plan.seed,
        Driver::new(resolve),
    );
    let id = RunId::nearest(&format!("run-{}", plan.name));
    let env = service.quiet_env();
    run::start(&env, &id, &kept)
        .await
        .map_err(|error| Failure::Other(error.to_string()))?;
    let ended = || {
        let item = service.store().item(&id.key());
        item.is_some_and(|item| item.text("outcome").is_some())
    };
    let screen = super::watch::Screen::new();
    let mut last = String::new();
    let deadline = clock.now() + LIMIT;
    {
        let serving = service.serve(ended, deadline);
        let watching = async {
            loop {
                clock.sleep(Duration::from_secs(1)).await;
                if stop.is_set() {
                    let _ = run::stop(&env, &id, "interrupted").await;
                    return;
                }
                if let Ok(view) = run::view(&env, &id).await {
                    let place = super::watch::place(&view);
                    let line = super::watch::line(&plan, &view, env.wall_ms());
                    screen.show(&line, place != last);
                    last = place;
                }
            }
        };
        tokio::pin!(serving, watching);
        tokio::select! {
            biased;
            _ = &mut serving => {}
            () = &mut watching => {
                serving.await;
            }
        }
    }
    screen.end();
    let Some((_, finished)) = service.finished().pop() else {
        return Err(Failure::Other(
            "the fleet's run did not end; this is a fault of the fleet".to_owned(),
        ));
    };
    for name in FILES {
        let blob = env.store.get_blob(&id.blob(name)).await;
        if let Ok(Some(bytes)) = blob {
            let path = out.join(name);
            std::fs::write(&path, bytes).map_err(|source| Failure::File {
                what: "cannot write",
                path: path.clone(),
                source,
                remedy: "give a folder that can be written with --out DIR",
            })?;
            eprintln!("wrote {}", path.display());
        }
    }
    results::print(&report::terminal(&finished.summary, results::style()))?;
    let outcome = finished.outcome.as_str();
    eprintln!("the fleet's run is {outcome}: {}", finished.why);
    Ok(finished.exit_code)
}
