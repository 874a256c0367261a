//! `fabric run`: a whole sweep, from here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use drive::StopHandle;
use plan::{AddressKind, Overrides, Plan};
use sim::FaultPlan;

use crate::args::{Output, RunArgs};
use crate::failure::Failure;
use crate::progress::Screen;
use crate::results;
use crate::runner::{self, Settings};
use crate::targets::{self, Site};

/// Runs a sweep file.
///
/// # Errors
/// When nothing could be run.
pub fn run(args: &RunArgs) -> Result<u8, Failure> {
    let mut plan = read(&args.sweep, &args.overrides)?;
    if let Some(workers) = args.workers {
        plan.fleet.workers = workers;
    }
    execute(&plan, &args.output, args.workers.is_some())
}

/// Reads a sweep file and plans it.
///
/// # Errors
/// When it cannot be read or is refused; the line begins with the file's name.
pub fn read(sweep: &Path, overrides: &crate::args::Overrides) -> Result<Plan, Failure> {
    let text = std::fs::read_to_string(sweep)
        .map_err(|source| Failure::read("cannot read the sweep file", sweep, source))?;
    let refused = |source| Failure::Sweep {
        place: format!("{}: ", sweep.display()),
        source,
    };
    let plan = plan::parse(&text)
        .and_then(|sweep| sweep.plan(&overrides_of(overrides)))
        .map_err(refused)?;
    check_presets(&plan)?;
    Ok(plan)
}

/// Checks that the simulator has the presets that a plan's targets name.
///
/// # Errors
/// The first that it has not, with those that it has.
pub fn check_presets(plan: &Plan) -> Result<(), Failure> {
    let presets: Vec<&str> = sim::presets().iter().map(|preset| preset.name).collect();
    plan.check_presets(&presets).map_err(in_plan)?;
    for target in &plan.targets {
        if let AddressKind::Simulator { preset } = target.address.kind() {
            let regions = &targets::preset(preset)?.regions;
            let names: Vec<String> = regions.iter().map(|r| r.name.to_owned()).collect();
            plan.check_placements(&target.name, &names)
                .map_err(in_plan)?;
        }
    }
    Ok(())
}

/// Checks that every cell's target has what the cell asks of it.
fn check_cells(plan: &Plan, sites: &BTreeMap<String, Site>) -> Result<(), Failure> {
    for (name, site) in sites {
        plan.check_placements(name, &site.endpoints())
            .map_err(in_plan)?;
    }
    for cell in &plan.cells {
        let level = cell.params.shape().isolation;
        if let Some(site) = sites.get(&cell.target)
            && !site.has_isolation(level)
        {
            return Err(Failure::Other(format!(
                "cell {}: target {} has no isolation level {}; it takes repeatable_read",
                cell.id,
                cell.target,
                level.sql()
            )));
        }
    }
    Ok(())
}

/// The overrides as the plan takes them.
pub fn overrides_of(overrides: &crate::args::Overrides) -> Overrides {
    Overrides {
        seed: overrides.seed,
        reps: overrides.reps,
        on: overrides.on.clone(),
        ..Overrides::default()
    }
}

/// Runs a plan, by itself or on a fleet in this process, and reports.
///
/// # Errors
/// When a target or the output folder cannot be had; nothing was run then.
pub fn execute(plan: &Plan, output: &Output, by_fleet: bool) -> Result<u8, Failure> {
    let faults = faults(output.faults.as_deref())?;
    for note in &plan.notes {
        eprintln!("note: {note}");
    }
    let sites = targets::resolve(plan, &faults)?;
    check_cells(plan, &sites)?;
    let out = output
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("out").join(&plan.name));
    let started = results::claim(&out)?;

    let (handle, stop) = drive::stop();
    stop_on_interrupt(handle);
    if by_fleet {
        return crate::fleet::embedded::run(plan, &sites, stop, &out);
    }
    let settings = Settings {
        jobs: output.jobs.map_or_else(cores, usize::from),
        stop,
    };
    let screen = Screen::new(plan);
    let ran = runner::run(plan, &sites, &settings, &screen);
    screen.finish();
    results::publish(plan, &sites, ran?, &out, started)
}

/// Ctrl-C asks the run to end; a second one ends the process at once.
pub fn stop_on_interrupt(handle: StopHandle) {
    on_interrupt(handle, "stopping: keeping what was measured");
}

/// Ctrl-C sets the flag and says `what`; a second one ends the process at once.
pub fn on_interrupt(handle: StopHandle, what: &'static str) {
    let asked = std::sync::atomic::AtomicBool::new(false);
    let installed = ctrlc::set_handler(move || {
        if asked.swap(true, std::sync::atomic::Ordering::Relaxed) {
            std::process::exit(2);
        }
        eprintln!("{what}; once more to quit at once");
        handle.stop();
    });
    if let Err(error) = installed {
        tracing::warn!(%error, "Ctrl-C will end the run without a report");
    }
}

fn in_plan(source: plan::SweepError) -> Failure {
    Failure::Sweep {
        place: String::new(),
        source,
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A fault plan from the flag: the name of a file, or JSON itself.
///
/// # Errors
/// When the file cannot be read or the plan is refused.
pub fn faults(given: Option<&str>) -> Result<FaultPlan, Failure> {
    let Some(given) = given else {
        return Ok(FaultPlan::default());
    };
    let text = if given.trim_start().starts_with('{') {
        given.to_owned()
    } else {
        let path = Path::new(given);
        std::fs::read_to_string(path)
            .map_err(|source| Failure::read("cannot read the fault plan", path, source))?
    };
    serde_json::from_str(&text)
        .map_err(|error| Failure::Other(format!("the fault plan is refused: {error}")))
}
