//! `fabric fleet`: the deployed fleet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::Clock;
use fleet::run::{self, RunError};
use fleet::{ACTIVE, FILES, Read, RunId, Store};
use serde_json::{Value, json};

use super::run::{on_interrupt, stop_on_interrupt};
use crate::args::{FleetClean, FleetCommand, FleetReport, FleetStart, FleetWhere};
use crate::cloud::Cloud;
use crate::cloud::cleanup;
use crate::cloud::inventory::Scope;
use crate::cloud::manifest::Manifest;
use crate::failure::Failure;
use crate::fleet::deployed::Fleet;
use crate::fleet::watch;
use crate::results;

/// Between two looks at a run.
const LOOK: Duration = Duration::from_secs(1);

/// A run that changes nothing for this long says that it is still there.
const QUIET: Duration = Duration::from_secs(30);

/// Rounds of a removal before what remains is reported.
const ROUNDS: u32 = 20;

/// Carries out a verb; returns the exit code.
///
/// # Errors
/// When it could not be carried out.
pub fn fleet(command: &FleetCommand) -> Result<u8, Failure> {
    let runtime = clock::real_runtime()
        .map_err(|error| Failure::Other(format!("cannot start a runtime: {error}")))?;
    runtime.block_on(async {
        match command {
            FleetCommand::Start(args) => start(args).await,
            FleetCommand::Watch { at, run } => {
                let fleet = find(at).await?;
                let run = pick(&fleet, run.as_deref()).await?;
                watch_run(&fleet, &run).await
            }
            FleetCommand::Stop { at, run, why } => {
                let fleet = find(at).await?;
                let run = pick(&fleet, run.as_deref()).await?;
                run::stop(&fleet.env, &run, why).await.map_err(failed)?;
                eprintln!("run {run} was told to stop");
                watch_run(&fleet, &run).await
            }
            FleetCommand::Resume { at, run } => {
                let fleet = find(at).await?;
                let run = id(run)?;
                let waves = run::resume(&fleet.env, &run).await.map_err(failed)?;
                eprintln!("run {run}: {} waves run again", waves.len());
                watch_run(&fleet, &run).await
            }
            FleetCommand::Report(args) => report(args).await,
            FleetCommand::Runs { at, sweep } => runs(at, sweep.as_deref()).await,
            FleetCommand::Clean(args) => clean(args).await,
        }
    })
}

async fn find(at: &FleetWhere) -> Result<Fleet, Failure> {
    Fleet::find(&at.stack, at.region.as_deref()).await
}

fn failed(error: RunError) -> Failure {
    Failure::Other(error.to_string())
}

fn broke(error: fleet::StoreError) -> Failure {
    Failure::Other(error.to_string())
}

fn id(run: &str) -> Result<RunId, Failure> {
    run.parse()
        .map_err(|error| Failure::Other(format!("run {run:?}: {error}")))
}

/// The run that was named, or the only one that has not ended.
async fn pick(fleet: &Fleet, run: Option<&str>) -> Result<RunId, Failure> {
    if let Some(run) = run {
        return id(run);
    }
    let active = active(fleet).await?;
    match active.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::Other(
            "no run is under way; name one: `fabric fleet runs SWEEP` lists them".to_owned(),
        )),
        many => {
            let names: Vec<&str> = many.iter().map(RunId::as_str).collect();
            Err(Failure::Other(format!(
                "several runs are under way; name one of {}",
                names.join(", ")
            )))
        }
    }
}

async fn active(fleet: &Fleet) -> Result<Vec<RunId>, Failure> {
    let notes = fleet.env.store.list(ACTIVE, "").await.map_err(broke)?;
    let names = notes.iter().filter_map(|note| note.text("sk"));
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

async fn start(args: &FleetStart) -> Result<u8, Failure> {
    let text = std::fs::read_to_string(&args.sweep)
        .map_err(|source| Failure::read("cannot read the sweep file", &args.sweep, source))?;
    // Refused here, a fault has its place in the file before anything is called.
    let overrides = plan::Overrides {
        workers: args.workers,
        ..super::run::overrides_of(&args.overrides)
    };
    let refused = |source| Failure::Sweep {
        place: format!("{}: ", args.sweep.display()),
        source,
    };
    let plan = plan::parse(&text)
        .and_then(|sweep| sweep.plan(&overrides))
        .map_err(refused)?;
    plan.check_deployed().map_err(refused)?;
    plan.check_fleet().map_err(refused)?;
    let sweep: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::Other(format!("{}: {error}", args.sweep.display())))?;
    let fleet = find(&args.at).await?;
    let mut event = json!({ "sweep": sweep });
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            event[name] = value;
        }
    };
    if let Some(run) = &args.run_id {
        id(run)?;
    }
    put("run_id", json!(args.run_id));
    put("seed", json!(args.overrides.seed));
    put("reps", json!(args.overrides.reps));
    put("workers", json!(args.workers));
    if !args.overrides.on.is_empty() {
        put("on", json!(args.overrides.on));
    }
    let answer = fleet.plan(&event).await?;
    let run = answer.get("run_id").and_then(Value::as_str);
    let run = id(run.unwrap_or_default())?;
    if answer.get("started").and_then(Value::as_str) == Some("already") {
        eprintln!("run {run} had been started before; nothing was started");
    } else {
        eprintln!("run {run} was started");
    }
    if args.no_watch {
        results::print(&format!("{run}\n"))?;
        return Ok(0);
    }
    watch_run(&fleet, &run).await
}

/// Shows a run until it has ended; its exit code is the command's. Ctrl-C ends
/// the watching, not the run.
async fn watch_run(fleet: &Fleet, run: &RunId) -> Result<u8, Failure> {
    let env = &fleet.env;
    let plan = run::plan_of(env, run).await.map_err(failed)?.plan;
    let (handle, mut stop) = drive::stop();
    on_interrupt(handle, "leaving the run to itself");
    let screen = watch::Screen::new();
    let clock = Clock::real();
    let mut last = String::new();
    let mut said = clock.now();
    loop {
        let view = run::view(env, run).await.map_err(failed)?;
        let line = watch::line(&plan, &view, env.wall_ms());
        let stage = watch::place(&view);
        let news = stage != last || clock.now().since(said) >= QUIET;
        screen.show(&line, news);
        if news {
            said = clock.now();
            last = stage;
        }
        if view.run.outcome.is_some() {
            break;
        }
        let wait = clock.sleep(LOOK);
        tokio::pin!(wait);
        tokio::select! {
            biased;
            () = stop.wait() => {
                screen.end();
                eprintln!(
                    "run {run} goes on; `fabric fleet watch {run}` shows it again, \
                     `fabric fleet stop {run}` stops it"
                );
                return Ok(2);
            }
            () = &mut wait => {}
        }
    }
    screen.end();
    let item = env.store.get(&run.key()).await.map_err(broke)?;
    let item = item.unwrap_or_default();
    let outcome = item.text("outcome").unwrap_or("-");
    let why = item.text("why").unwrap_or("-");
    results::print(&format!("run {run} is {outcome}: {why}\n"))?;
    eprintln!("`fabric fleet report {run}` fetches its report");
    Ok(exit_code(&item))
}

fn exit_code(run: &fleet::Item) -> u8 {
    let code = run.number("exit_code").unwrap_or(2);
    u8::try_from(code).unwrap_or(2)
}

async fn report(args: &FleetReport) -> Result<u8, Failure> {
    let fleet = find(&args.at).await?;
    let run = id(&args.run)?;
    let env = &fleet.env;
    let record = run::record_of(env, &run).await.map_err(failed)?;
    if record.outcome.is_none() {
        return Err(Failure::Other(format!(
            "run {run} has not ended; `fabric fleet watch {run}` shows it"
        )));
    }
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("out").join(run.as_str()));
    results::claim(&out)?;
    for name in FILES {
        let bytes = env.store.get_blob(&run.blob(name)).await.map_err(broke)?;
        if let Some(bytes) = bytes {
            let path = out.join(name);
            write(&path, &bytes)?;
            eprintln!("wrote {}", path.display());
        }
    }
    let summary = ::report::read_summary(&out)?;
    results::print(&::report::terminal(&summary, results::style()))?;
    let item = env.store.get(&run.key()).await.map_err(broke)?;
    let item = item.unwrap_or_default();
    eprintln!(
        "run {run} is {}: {}",
        item.text("outcome").unwrap_or("-"),
        item.text("why").unwrap_or("-")
    );
    Ok(exit_code(&item))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|source| Failure::File {
        what: "cannot write",
        path: path.to_owned(),
        source,
        remedy: "give a folder that can be written with --out DIR",
    })
}

/// Lists runs: of a sweep, newest first, or those that have not ended.
async fn runs(at: &FleetWhere, sweep: Option<&str>) -> Result<u8, Failure> {
    let fleet = find(at).await?;
    let items = match sweep {
        Some(sweep) => fleet.env.store.runs_of(sweep, 50).await.map_err(broke)?,
        None => {
            let mut items = Vec::new();
            for run in active(&fleet).await? {
                items.extend(fleet.env.store.get(&run.key()).await.map_err(broke)?);
            }
            items
        }
    };
    if items.is_empty() {
        match sweep {
            Some(sweep) => eprintln!("no run of a sweep named {sweep}"),
            None => eprintln!("no run is under way; `fabric fleet runs SWEEP` lists a sweep's"),
        }
        return Ok(0);
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // The reason last: it may be long, and nothing stands to its right.
    table.set_header(["run", "sweep", "started UTC", "state", "exit", "why"]);
    for item in &items {
        let text = |name: &str| item.text(name).unwrap_or("-").to_owned();
        let state = match item.text("outcome") {
            Some(outcome) => outcome.to_owned(),
            None => "under way".to_owned(),
        };
        let exit = item
            .number("exit_code")
            .map_or("-".to_owned(), |n| n.to_string());
        table.add_row([
            text("run"),
            text("sweep"),
            text("created"),
            state,
            exit,
            text("why"),
        ]);
    }
    results::print(&format!("{table}\n"))?;
    Ok(0)
}

async fn clean(args: &FleetClean) -> Result<u8, Failure> {
    if args.all {
        return clean_all(args).await;
    }
    let fleet = find(&args.at).await?;
    let run = id(args.run.as_deref().unwrap_or_default())?;
    let env = &fleet.env;
    let there = run::remaining(env, &run).await.map_err(failed)?;
    if there.is_none() {
        return Err(failed(RunError::Unknown(run)));
    }
    for _ in 0..ROUNDS {
        let left = run::remove(env, &run).await.map_err(failed)?;
        eprintln!(
            "{} items and {} blobs remain of run {run}",
            left.items, left.blobs
        );
        if left.is_none() {
            results::print(&format!("nothing remains of run {run}\n"))?;
            return Ok(0);
        }
        env.clock.sleep(LOOK).await;
    }
    eprintln!("error: something remains of run {run}; try again");
    Ok(2)
}

/// Removes the whole fleet from the account.
async fn clean_all(args: &FleetClean) -> Result<u8, Failure> {
    let cloud = Cloud::open(Clock::real()).await;
    let regions = match (
        &args.regions[..],
        Fleet::find(&args.at.stack, args.at.region.as_deref()).await,
    ) {
        ([], Ok(fleet)) => fleet.config.regions.clone(),
        ([], Err(failure)) => {
            return Err(Failure::Other(format!(
                "{failure}; with --regions HOME,REGION… what is left of a fleet is looked for there"
            )));
        }
        (given, _) => given.to_vec(),
    };
    if !args.yes {
        return Err(Failure::Other(format!(
            "this deletes stack {} in {} with all runs and reports, its log groups, and the \
             clusters that were made for it; say --yes",
            args.at.stack,
            regions.join(" and ")
        )));
    }
    let manifest = Manifest::at(args.manifest.as_deref(), &cloud)?;
    let options = cleanup::Options {
        scope: Scope {
            stack: args.at.stack.clone(),
            regions,
            unbound_clusters: false,
        },
        force: args.force,
        limit: Duration::from_secs(args.timeout_s),
    };
    let (handle, mut stop) = drive::stop();
    stop_on_interrupt(handle);
    let say = |line: &str| eprintln!("{line}");
    let done = cleanup::all(&cloud, &manifest, &options, &say, &mut stop).await?;
    let text = ::report::to_json(&done).map_err(|error| Failure::Other(error.to_string()))?;
    results::print(&format!("{text}\n"))?;
    Ok(if done.complete { 0 } else { 2 })
}
