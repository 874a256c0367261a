//! `fabric append`: one cell given by flags.

use plan::AppendArgs;

use super::{plan as plan_command, run};
use crate::args::AppendCommand;
use crate::failure::Failure;

/// Plans or runs one append cell.
///
/// # Errors
/// When a flag is refused or nothing could be run.
pub fn append(args: &AppendCommand) -> Result<u8, Failure> {
    let plan = plan::append_cell(&AppendArgs {
        writers: args.writers,
        appends_per_writer: args.appends_per_writer,
        streams: args.streams,
        batch: args.batch,
        payload_bytes: args.payload_bytes,
        trips: args.trips.clone(),
        placement: args.placement.clone(),
        raw: args.raw,
        overrides: run::overrides_of(&args.overrides),
    })
    .map_err(|source| Failure::Sweep {
        place: String::new(),
        source,
    })?;
    run::check_presets(&plan)?;
    if args.dry_run {
        plan_command::print(&plan, false)
    } else {
        run::execute(&plan, &args.output, false)
    }
}
