//! A report's folder: written as a whole or not at all, and read back.
//!
//! Every file is first written beside its place and synced, and only when all
//! are there are they renamed into it: a full disk or a missing permission
//! leaves the folder as it was. Between two renames a crash can leave files of
//! two runs side by side; each is whole, and `summary.json` comes last, so it
//! never speaks of files that are not there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::html::html;
use crate::json::to_json;
use crate::run::{OpRow, RunInfo};
use crate::summary::{Summary, VERSION};

const SUMMARY: &str = "summary.json";
const RUN: &str = "run.json";
const PAGE: &str = "report.html";
const OPS: &str = "ops.jsonl";

/// Why a report's folder could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The folder is not there and can't be made.
    #[error("can't create the folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file can't be written.
    #[error("can't write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file can't be read.
    #[error("can't read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what its name says.
    #[error("{} is no summary of this version: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A file is of another version.
    #[error("{} has version {found}, this fabric reads version {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

/// Makes sure that a report can be written to a folder, before anything runs:
/// creates it where it is missing and tries a file in it.
///
/// # Errors
/// What stands in the way.
pub fn prepare_folder(dir: &Path) -> Result<(), FilesError> {
    fs::create_dir_all(dir).map_err(|source| FilesError::Folder {
        path: dir.to_owned(),
        source,
    })?;
    let probe = Pending::write(dir, ".fabric-probe", |_| Ok(()))?;
    drop(probe);
    Ok(())
}

/// Writes `summary.json`, `run.json`, `report.html` and, where rows are given,
/// `ops.jsonl`; returns their paths. Rows of an earlier run are removed: a
/// folder tells of one run.
///
/// # Errors
/// What stands in the way; the folder is then as it was.
pub fn write_all(
    dir: &Path,
    summary: &Summary,
    run: &RunInfo,
    ops: Option<&[OpRow]>,
) -> Result<Vec<PathBuf>, FilesError> {
    prepare_folder(dir)?;
    let mut pending = Vec::new();
    if let Some(rows) = ops {
        pending.push(Pending::write(dir, OPS, |out| {
            for row in rows {
                serde_json::to_writer(&mut *out, row)?;
                out.write_all(b"\n")?;
            }
            Ok(())
        })?);
    }
    let page = html(summary, Some(run));
    pending.push(Pending::write(dir, PAGE, |out| {
        out.write_all(page.as_bytes())
    })?);
    for (name, json) in [(RUN, to_json(run)), (SUMMARY, to_json(summary))] {
        let write = |out: &mut dyn io::Write| out.write_all(json?.as_bytes());
        pending.push(Pending::write(dir, name, write)?);
    }
    if ops.is_none() {
        let path = dir.join(OPS);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(FilesError::Write { path, source });
            }
            _ => {}
        }
    }
    pending.into_iter().map(Pending::keep).collect()
}

/// Reads the summary of a report's folder, or a summary file itself.
///
/// # Errors
/// When it is not there or not of this version.
pub fn read_summary(path: &Path) -> Result<Summary, FilesError> {
    let path = if path.is_dir() {
        path.join(SUMMARY)
    } else {
        path.to_owned()
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(FilesError::Read { path, source }),
    };
    /// Enough of it to know whether the rest can be understood.
    #[derive(serde::Deserialize)]
    struct Head {
        version: u32,
    }
    match serde_json::from_str::<Head>(&text) {
        Ok(Head { version: VERSION }) => {}
        Ok(Head { version: found }) => return Err(FilesError::Version { path, found }),
        Err(source) => return Err(FilesError::Parse { path, source }),
    }
    serde_json::from_str(&text).map_err(|source| FilesError::Parse { path, source })
}

/// A file that is written but not yet in its place; dropped, it is gone.
struct Pending {
    temporary: PathBuf,
    place: PathBuf,
    kept: bool,
}

impl Pending {
    fn write(
        dir: &Path,
        name: &str,
        write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<Pending, FilesError> {
        let pending = Pending {
            temporary: dir.join(format!("{name}.part")),
            place: dir.join(name),
            kept: false,
        };
        let written = File::create(&pending.temporary).and_then(|file| {
            let mut out = BufWriter::new(file);
            write(&mut out)?;
            out.flush()?;
            out.get_ref().sync_all()
        });
        match written {
            Ok(()) => Ok(pending),
            Err(source) => Err(FilesError::Write {
                path: pending.place.clone(),
                source,
            }),
        }
    }

    fn keep(mut self) -> Result<PathBuf, FilesError> {
        match fs::rename(&self.temporary, &self.place) {
            Ok(()) => {
                self.kept = true;
                Ok(self.place.clone())
            }
            Err(source) => Err(FilesError::Write {
                path: self.place.clone(),
                source,
            }),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing more can be done about a file that won't go.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
