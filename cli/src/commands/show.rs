//! `fabric show`: a finished run's report, once more.

use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::results;

/// Prints the tables, or the summary as it was written.
///
/// # Errors
/// When the folder holds no summary that this version can read.
pub fn show(args: &ShowArgs) -> Result<u8, Failure> {
    let summary = report::read_summary(&args.dir)?;
    let text = if args.json {
        report::to_json(&summary).map_err(|error| Failure::Other(error.to_string()))?
    } else {
        report::terminal(&summary, results::style())
    };
    results::print(&text)?;
    Ok(report::exit_code(&summary))
}
