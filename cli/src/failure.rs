//! What ends a command before it has a result: one line for the user, and the
//! exit code.

use std::path::{Path, PathBuf};

/// A command could not do what it was asked to. Always exit code 1: what was
/// measured and is incomplete or wrong is not a failure of the command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A file could not be read or written.
    #[error("{what} {}: {source}; {remedy}", path.display())]
    File {
        /// What was tried, such as `cannot read the sweep file`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A sweep file or a parameter is refused.
    #[error("{place}{source}")]
    Sweep {
        /// `FILE: ` or nothing.
        place: String,
        /// Where in it, and what would be accepted.
        source: plan::SweepError,
    },
    /// A target's address is refused.
    #[error(transparent)]
    Target(#[from] target::TargetError),
    /// A target was reached for and not got.
    #[error(
        "target {name}: {source}; check that it runs, its address and the credentials, or name another with --on TARGET"
    )]
    Unreachable {
        /// Its name in the sweep.
        name: String,
        /// Why not.
        source: target::SqlFailure,
    },
    /// Results could not be written.
    #[error(transparent)]
    Report(#[from] report::FilesError),
    /// Anything else that one line says.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// A file that could not be read.
    pub fn read(what: &'static str, path: &Path, source: std::io::Error) -> Failure {
        Failure::File {
            what,
            path: path.to_owned(),
            source,
            remedy: "give the path of a file that can be read",
        }
    }
}
