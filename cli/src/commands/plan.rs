//! `fabric plan`: what a sweep would run, and what that takes.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use fleet::Settings;
use plan::{AddressKind, Assumptions, Estimate, Plan, Range, Setting};

use super::run;
use crate::args::PlanArgs;
use crate::failure::Failure;
use crate::results;

/// Plans a sweep file and prints the plan.
///
/// # Errors
/// When the file is refused.
pub fn plan(args: &PlanArgs) -> Result<u8, Failure> {
    let mut plan = run::read(&args.sweep, &args.overrides)?;
    if let Some(workers) = args.workers {
        plan.fleet.workers = workers;
        plan.check_fleet().map_err(|source| Failure::Sweep {
            place: format!("{}: ", args.sweep.display()),
            source,
        })?;
    }
    print(&plan, args.json)
}

/// Prints a plan with its estimate.
///
/// # Errors
/// None that happen: a plan serialises.
pub fn print(plan: &Plan, json: bool) -> Result<u8, Failure> {
    let estimate = plan::estimate(plan, &assumptions(plan));
    if json {
        let both = serde_json::json!({ "plan": plan, "estimate": estimate });
        let text = serde_json::to_string_pretty(&both)
            .map_err(|error| Failure::Other(error.to_string()))?;
        results::print(&format!("{text}\n"))?;
        return Ok(0);
    }
    let mut table = Table::new();
    table.load_style(NOTHING);
    let header = [
        "cell",
        "target",
        "reps",
        "connections",
        "operations",
        "minutes",
        "DPU",
        "dollars",
    ];
    table.set_header(header);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for cell in &estimate.cells {
        table.add_row([
            cell.id.clone(),
            cell.target.clone(),
            cell.waves.to_string(),
            cell.connections.to_string(),
            range(Some(cell.operations)),
            range(Some(cell.minutes)),
            range(cell.dpu),
            range(cell.dollars),
        ]);
    }
    let mut out = format!(
        "{}: {} cells, {} waves",
        plan.name,
        plan.cells.len(),
        estimate.waves
    );
    out.push_str(&format!(", at most {} connections\n", estimate.connections));
    if let Some(about) = &plan.about {
        out.push_str(&format!("{about}\n"));
    }
    out.push_str(&format!("\n{table}\n\n"));
    let total = |name: &str, value: Option<Range>| format!("{name} {}\n", range(value));
    out.push_str(&total("operations", Some(estimate.operations)));
    out.push_str(&total("minutes   ", Some(estimate.minutes)));
    out.push_str(&total("DPU       ", estimate.dpu));
    out.push_str(&total("dollars   ", estimate.dollars));
    out.push_str(&on_a_fleet(plan, &estimate));
    for line in estimate.basis.iter().chain(&plan.notes) {
        out.push_str(&format!("- {line}\n"));
    }
    results::print(&out)?;
    Ok(0)
}

/// How long the barrier of the largest wave waits on the deployed fleet, or why
/// the fleet cannot run the plan.
fn on_a_fleet(plan: &Plan, estimate: &Estimate) -> String {
    if let Err(refused) = plan.check_fleet() {
        return format!("fleet      cannot run it: {refused}\n");
    }
    let (all, here) = (estimate.workers, estimate.workers_per_region);
    let wait = estimate.barrier_s.unwrap_or_default();
    let limit = Settings::default().gather.as_secs_f64();
    let mut line = format!("fleet      {all} workers in the largest wave, {here} in a region: ");
    line.push_str(&match wait {
        0.0 => "standard pollers start them at once".to_owned(),
        _ => format!(
            "its barrier waits {wait:.0} s for standard pollers (5 workers at once, 300 more a \
             minute); WorkerPollers={} starts them at once",
            here.div_ceil(10).max(2)
        ),
    });
    if wait > limit {
        line.push_str(&format!(
            ", and is needed: a barrier that is not full after {limit:.0} s ends its wave"
        ));
    }
    line.push('\n');
    line
}

/// What the simulator's presets say about the targets.
fn assumptions(plan: &Plan) -> Assumptions {
    let mut assumptions = Assumptions {
        fleet: Some(plan.fleet.clone()),
        ..Assumptions::default()
    };
    for target in &plan.targets {
        if let AddressKind::Simulator { preset } = target.address.kind()
            && let Some(preset) = sim::preset(preset)
        {
            let regions = &preset.regions;
            let setting = Setting {
                endpoints: regions.iter().map(|r| r.name.to_owned()).collect(),
                round_trip_ms: regions
                    .iter()
                    .map(|r| r.round_trip.us as f64 / 1e3)
                    .collect(),
            };
            assumptions.targets.insert(target.name.clone(), setting);
        }
    }
    assumptions
}

/// A range in as many digits as it deserves; `-` when there is none.
fn range(range: Option<Range>) -> String {
    let Some(range) = range else {
        return "-".to_owned();
    };
    let (low, high) = (short(range.low), short(range.high));
    if low == high {
        low
    } else {
        format!("{low}-{high}")
    }
}

fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 || v.fract() == 0.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v if v >= 0.01 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}
