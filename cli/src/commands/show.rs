//! `fabric show`: a finished run's report, once more.

use report::Summary;

use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::results;

/// Prints the tables, or the summary as it was written.
///
/// # Errors
/// When the folder holds no summary that this version can read.
pub fn show(args: &ShowArgs) -> Result<u8, Failure> {
    let path = args.dir.join("summary.json");
    let text = std::fs::read_to_string(&path)
        .map_err(|source| Failure::read("cannot read the summary", &path, source))?;
    if args.json {
        results::print(&text);
    }
    let summary: Summary = serde_json::from_str(&text).map_err(|error| {
        Failure::Other(format!(
            "{} is not a summary that this version reads: {error}",
            path.display()
        ))
    })?;
    if !args.json {
        results::print(&report::terminal(&summary, results::style()));
    }
    Ok(report::exit_code(&summary))
}
