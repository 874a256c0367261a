//! `fabric isolation`: scenarios that tell isolation levels apart, on any target.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, SystemTime};

use clock::{Clock, Time};
use drive::Stop;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use isolation::{Progress, Report, Script, ScriptError, Settings, Suite, Tested};
use plan::{Address, AddressKind, Isolation};
use sim::FaultPlan;
use target::Target;

use super::run::on_interrupt;
use crate::args::IsolationArgs;
use crate::failure::Failure;
use crate::results;
use crate::targets::{self, Live};

/// The longest that one answer is waited for. PostgreSQL looks for deadlocks after a
/// second, by default.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// Between two plain lines of progress.
const PLAIN: Duration = Duration::from_secs(30);
/// Of the simulator's service times, which no outcome depends on.
const SEED: u64 = 1;

/// Plays the scenarios and reports; exit code 2 when one could not be played to the
/// end or a table is left.
///
/// # Errors
/// When the target or the output folder cannot be had; nothing was played then.
pub fn isolation(args: &IsolationArgs) -> Result<u8, Failure> {
    let address =
        Address::parse(&args.on).map_err(|problem| Failure::Other(format!("--on: {problem}")))?;
    let scripts = scripts(&args.suite)?;
    let levels = levels(&args.level);
    if let Some(out) = &args.out {
        results::claim(out)?;
    }
    let (handle, stop) = drive::stop();
    let interruptible = || on_interrupt(handle, "stopping: dropping tables");
    let report = match address.kind() {
        AddressKind::Simulator { preset } => {
            let preset = targets::preset(preset)?;
            interruptible();
            let tested = Tested {
                kind: "simulator".to_owned(),
                url: address.to_string(),
                simulated: true,
                server_version: None,
            };
            let runtime = clock::simulated_runtime()
                .map_err(|error| Failure::Other(format!("cannot start a runtime: {error}")))?;
            runtime.block_on(async {
                let target = targets::simulated_cluster(preset, SEED, FaultPlan::default());
                play(&target, tested, &scripts, levels, "sim".to_owned(), stop).await
            })
        }
        _ => {
            let live = Live::reach(&address.to_string(), address.expose())?;
            interruptible();
            let described = live.target.describe();
            let tested = Tested {
                kind: described.kind.name().to_owned(),
                url: described.url,
                simulated: live.simulated,
                server_version: live.server_version.clone(),
            };
            live.block_on(async |target| {
                play(target, tested, &scripts, levels, own_id(), stop).await
            })
        }
    };
    publish(&report, args)
}

async fn play(
    target: &Target,
    tested: Tested,
    scripts: &[Script],
    levels: Vec<Isolation>,
    run_id: String,
    mut stop: Stop,
) -> Report {
    let settings = Settings {
        levels,
        run_id,
        limit: ANSWER_LIMIT,
    };
    let mut screen = Screen::new();
    let tell = &mut |progress: Progress<'_>| screen.show(progress);
    let report = isolation::run(target, tested, scripts, &settings, tell, stop.wait()).await;
    screen.end();
    report
}

fn publish(report: &Report, args: &IsolationArgs) -> Result<u8, Failure> {
    let json = serde_json::to_string_pretty(report)
        .map_err(|error| Failure::Other(format!("cannot write JSON: {error}")))?;
    let json = format!("{json}\n");
    if args.json {
        results::print(&json)?;
    } else {
        if args.steps {
            results::print(&isolation::steps(report))?;
        }
        results::print(&isolation::matrix(report))?;
    }
    if let Some(out) = &args.out {
        write(&out.join("isolation.json"), &json)?;
        write(&out.join("isolation.html"), &isolation::html(report))?;
    }
    Ok(if report.complete { 0 } else { 2 })
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|source| Failure::File {
        what: "cannot write",
        path: path.to_owned(),
        source,
        remedy: "give a folder that can be written with --out DIR",
    })?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn scripts(suite: &str) -> Result<Vec<Script>, Failure> {
    let suite = Suite::ALL.into_iter().find(|known| known.name() == suite);
    let refused = |error: ScriptError| Failure::Other(error.to_string());
    match suite {
        Some(suite) => isolation::scripts_of(suite).map_err(refused),
        None => isolation::scripts().map_err(refused),
    }
}

/// The levels that were asked for, weakest first.
fn levels(asked: &[String]) -> Vec<Isolation> {
    let all = [
        ("read_committed", Isolation::ReadCommitted),
        ("repeatable_read", Isolation::RepeatableRead),
        ("serializable", Isolation::Serializable),
    ];
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    let levels = all.into_iter().filter(|(name, _)| wanted(name));
    levels.map(|(_, level)| level).collect()
}

/// For table names: microseconds and process, which no two runs on a database share.
fn own_id() -> String {
    let since = Clock::real().wall().duration_since(SystemTime::UNIX_EPOCH);
    let us = since.map_or(0, |since| since.as_micros());
    format!("{us:x}_{:x}", std::process::id())
}

/// Progress on stderr: a live line where that is a terminal, else a line every half
/// minute.
struct Screen {
    bar: Option<ProgressBar>,
    clock: Clock,
    told: Time,
}

impl Screen {
    fn new() -> Screen {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = "{pos}/{len} [{bar:24}] {elapsed}  {wide_msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar
        });
        let clock = Clock::real();
        Screen {
            bar,
            clock,
            told: clock.now(),
        }
    }

    fn show(&mut self, progress: Progress<'_>) {
        let (title, level) = (progress.script.title(), progress.level.sql());
        match &self.bar {
            Some(bar) => {
                bar.set_length(progress.all as u64);
                bar.set_position(progress.done as u64);
                bar.set_message(format!("{title} at {level}"));
            }
            None if self.clock.now().since(self.told) >= PLAIN => {
                self.told = self.clock.now();
                let (done, all) = (progress.done, progress.all);
                eprintln!("{done} of {all} played; next: {title} at {level}");
            }
            None => {}
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
