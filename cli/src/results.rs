//! From what a run came to, to tables on stdout and files in a folder.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::SystemTime;

use clock::Clock;
use plan::Plan;
use report::{Host, RunInfo, Summary, SweepInfo, TargetFound, TargetInfo};

use crate::failure::Failure;
use crate::runner::Results;
use crate::targets::{Database, Site};

/// A run that has begun.
pub struct Started {
    clock: Clock,
    at: SystemTime,
}

/// Makes sure that results can be written before anything is run.
///
/// # Errors
/// When the folder cannot be made or written to.
pub fn claim(out: &Path) -> Result<Started, Failure> {
    report::prepare_folder(out).map_err(|error| {
        Failure::Other(format!(
            "{error}; give a folder that can be written with --out DIR"
        ))
    })?;
    let clock = Clock::real();
    Ok(Started {
        clock,
        at: clock.wall(),
    })
}

/// Reports a run: files into `out`, tables to stdout. Returns the exit code.
///
/// # Errors
/// When a file could not be written.
pub fn publish(
    plan: &Plan,
    sites: &BTreeMap<String, Site>,
    results: Results,
    out: &Path,
    started: Started,
) -> Result<u8, Failure> {
    let summary = Summary::build(&sweep_info(plan, sites), &results.cells);
    let run = RunInfo {
        version: 1,
        name: plan.name.clone(),
        fabric: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("FABRIC_COMMIT").map(str::to_owned),
        started_utc: report::utc(started.at),
        ended_utc: report::utc(started.clock.wall()),
        wall_s: started.clock.now().since_origin().as_secs_f64(),
        host: Host {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        },
        targets: sites.values().map(found).collect(),
        reps: results.runs,
        fleet: None,
    };
    let rows = plan
        .cells
        .iter()
        .any(|cell| cell.raw)
        .then_some(&results.rows[..]);
    let files = report::write_all(out, &summary, &run, rows)?;
    print(&report::terminal(&summary, style()))?;
    for file in files {
        eprintln!("wrote {}", file.display());
    }
    Ok(report::exit_code(&summary))
}

/// How tables are drawn: NO_COLOR and the terminal's width are respected.
pub fn style() -> report::Style {
    let terminal = std::io::stdout().is_terminal();
    let plain = report::Style::default();
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let (_, seen) = console::Term::stdout().size();
    report::Style {
        color: terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        width: columns.unwrap_or(if terminal {
            usize::from(seen)
        } else {
            plain.width
        }),
    }
}

/// Writes to stdout; a reader that has closed it (`| head`) is no error.
///
/// # Errors
/// When it can't be written to for another reason, such as a full disk.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Other(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

fn sweep_info(plan: &Plan, sites: &BTreeMap<String, Site>) -> SweepInfo {
    let targets = plan.targets.iter().filter_map(|spec| {
        let site = sites.get(&spec.name)?;
        let simulated = site.is_simulated();
        Some(TargetInfo {
            name: spec.name.clone(),
            url: spec.url().to_owned(),
            kind: match &site.database {
                Database::Simulated(_) => "simulator".to_owned(),
                Database::Live(live) => live.target.kind().name().to_owned(),
            },
            simulated,
        })
    });
    SweepInfo {
        name: plan.name.clone(),
        about: plan.about.clone(),
        seed: plan.seed,
        targets: targets.collect(),
    }
}

fn found(site: &Site) -> TargetFound {
    TargetFound {
        name: site.name.clone(),
        server_version: match &site.database {
            Database::Simulated(_) => None,
            Database::Live(live) => live.server_version.clone(),
        },
        network: match site.database {
            Database::Simulated(_) => Some("in process".to_owned()),
            Database::Live(_) => None,
        },
    }
}
