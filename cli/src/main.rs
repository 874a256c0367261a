//! The `fabric` command: plans and runs load sweeps against Aurora DSQL,
//! PostgreSQL or the embedded simulator, and shows their results.
//!
//! The main path, for `fabric run SWEEP`: `commands::run` reads the sweep and
//! asks `plan` for cells; [`targets`] turns target URLs into databases;
//! [`runner`] runs every rep of every cell with `drive` (in parallel on
//! simulated clusters, one after the other on real ones); [`results`] has
//! `report` make tables and files of what came back. Results go to stdout,
//! progress and errors to stderr. Exit codes: 0 pass, 1 bad usage, 2 incomplete
//! or invalid, 3 a threshold or an invariant broken.

mod args;
mod cloud;
mod commands;
mod failure;
mod fleet;
mod progress;
mod results;
mod runner;
mod targets;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

/// The SDK warns in chains of hundreds of characters of what then fails anyway
/// and is told in one line.
const DEFAULT_FILTER: &str = "warn,aws_config=off";

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() {
                eprintln!("{}", one_line(&error.to_string()));
                return ExitCode::from(1);
            }
            // Help and version are answers. A reader that has gone is no error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_default_env().unwrap_or_else(|_| DEFAULT_FILTER.into()),
        )
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    match commands::dispatch(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(1)
        }
    }
}

/// A usage error in one line: what is wrong, without the usage that follows it.
fn one_line(error: &str) -> String {
    let told = error.lines().map(str::trim);
    let told: Vec<&str> = told
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("tip:"))
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .collect();
    format!("{} (see --help)", told.join(" "))
}
