//! One file per verb.

mod append;
mod cluster;
mod fleet;
mod isolation;
mod plan;
mod run;
mod show;
mod sim;
mod verify;

use crate::args::{Command, SimCommand};
use crate::failure::Failure;

/// Carries out a command; returns the exit code.
///
/// # Errors
/// When it could not be carried out.
pub fn dispatch(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Plan(args) => plan::plan(&args),
        Command::Run(args) => run::run(&args),
        Command::Append(args) => append::append(&args),
        Command::Show(args) => show::show(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Isolation(args) => isolation::isolation(&args),
        Command::Fleet { command } => fleet::fleet(&command),
        Command::Cluster { command } => cluster::cluster(&command),
        Command::Sim { command } => match command {
            SimCommand::Serve(args) => sim::serve(&args),
            SimCommand::Presets { json } => sim::presets(json),
        },
    }
}
