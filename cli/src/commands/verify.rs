//! `fabric verify`: hash chains, in a file or in a database.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::time::Duration;

use plan::{Address, AddressKind};
use target::SqlFailure;
use workload::Verified;
use workload::append::{ExportError, export, stream_ids, verify_exported, verify_streams};

use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::results;
use crate::targets::Live;

/// Verifies an exported file or a target's chains; exit code 3 when something
/// is wrong with them.
///
/// # Errors
/// When they could not be read.
pub fn verify(args: &VerifyArgs) -> Result<u8, Failure> {
    let verified = match (&args.file, &args.on) {
        (Some(file), _) => of_file(file)?,
        (None, Some(url)) => of_target(args, url)?,
        (None, None) => return Err(Failure::Other("give a file, or --on TARGET".to_owned())),
    };
    for problem in &verified.problems {
        results::print(&format!("{problem}\n"))?;
    }
    let rows = verified.step.rows;
    if verified.ok {
        results::print(&format!(
            "verified: {rows} records, every link and hash as it must be\n"
        ))?;
        Ok(0)
    } else {
        let n = verified.problems.len();
        results::print(&format!("NOT verified: {n} problems in {rows} records\n"))?;
        Ok(3)
    }
}

fn of_file(path: &Path) -> Result<Verified, Failure> {
    let file = File::open(path)
        .map_err(|source| Failure::read("cannot read the exported chain", path, source))?;
    verify_exported(BufReader::new(file))
        .map_err(|error| Failure::Other(format!("{}: {error}", path.display())))
}

fn of_target(args: &VerifyArgs, url: &str) -> Result<Verified, Failure> {
    let address =
        Address::parse(url).map_err(|problem| Failure::Other(format!("--on: {problem}")))?;
    if matches!(address.kind(), AddressKind::Simulator { .. }) {
        let problem = "an embedded simulator ends with its run and keeps nothing to verify; \
                       give dsql://… or postgres://…, such as one that `fabric sim serve` serves";
        return Err(Failure::Other(problem.to_owned()));
    }
    // The address as text has no password.
    let live = Live::reach(&address.to_string(), address.expose())?;
    live.block_on(async |target| {
        let clock = target.clock();
        let conn = target
            .connect(0, clock.now() + Duration::from_secs(30))
            .await?;
        let ids = if args.stream.is_empty() {
            stream_ids(&conn).await?
        } else {
            args.stream.clone()
        };
        if let Some(path) = &args.export {
            write_export(path, &conn, &ids).await?;
        }
        Ok(verify_streams(&conn, &ids, clock).await?)
    })
}

async fn write_export(path: &Path, conn: &target::Conn, ids: &[i64]) -> Result<(), Failure> {
    let file = File::create(path).map_err(|source| Failure::File {
        what: "cannot write the export",
        path: path.to_owned(),
        source,
        remedy: "give a file that can be written",
    })?;
    let mut out = BufWriter::new(file);
    match export(conn, ids, &mut out).await {
        Ok(records) => {
            eprintln!("wrote {records} records to {}", path.display());
            Ok(())
        }
        Err(ExportError::Sql(failure)) => Err(failure.into()),
        Err(error) => Err(Failure::Other(format!("{}: {error}", path.display()))),
    }
}

impl From<SqlFailure> for Failure {
    fn from(failure: SqlFailure) -> Failure {
        Failure::Other(failure.to_string())
    }
}
