//! What was asked of an account from this machine, in a file that only grows:
//! one JSON object a line, one line an event.
//!
//! A line is on the disk before the call that it tells of is sent. So whatever
//! instant the process or the machine stops at, all that may exist in the
//! account is named here: a create that was asked for and is not known to have
//! been refused, deleted or absent is *open*. What a crash leaves is at most one
//! line without an end. That line's call was never sent, or its answer is still
//! open by the line before it, so it may be skipped; it is counted and said.
//!
//! The file is not a cache of the account: what exists is asked of the account.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use clock::Clock;
use drive::{Purpose, rng};
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The version of the lines that are written; others are refused.
const VERSION: u32 = 1;

/// Names the file where no option does; the scripts that make stacks have no
/// other way to be told.
const VARIABLE: &str = "FABRIC_MANIFEST";

/// What kind of thing was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    /// A DSQL cluster in one region; a pair is two of them.
    DsqlCluster,
    /// A CloudFormation stack.
    Stack,
}

/// What happened to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// It is about to be asked for.
    CreateRequested,
    /// The account has it.
    Created,
    /// The account said no: there is none.
    CreateRefused,
    /// Its deletion is about to be asked for.
    DeleteRequested,
    /// The account has it no more.
    Deleted,
    /// It was asked for, nobody knew the answer, and it is not there.
    Absent,
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Version of this form.
    pub v: u32,
    /// When it was written, UTC.
    pub at: String,
    /// `aws`, or the address of what stands in for it.
    pub cloud: String,
    /// What happened.
    pub event: Event,
    /// Names one thing in this file; for clusters also the client token of the
    /// call, so that the same call can be sent again and makes no second one.
    pub key: String,
    /// What kind of thing it is.
    pub made: Made,
    /// Where.
    pub region: String,
    /// What `--name` said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The fleet that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// The account's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
    /// Why, where an account refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One thing: what its lines say, taken together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its first line: what was asked for, and when.
    pub asked: Line,
    /// The account's name for it, once known.
    pub arn: Option<String>,
    /// When the account confirmed it, UTC.
    pub created: Option<String>,
    /// When its deletion was asked for, UTC.
    pub delete_requested: Option<String>,
    /// When it was known to be gone, refused or absent, UTC.
    pub closed: Option<String>,
    /// The event that closed it.
    pub closed_by: Option<Event>,
}

impl Entry {
    /// Whether it may exist.
    pub fn is_open(&self) -> bool {
        self.closed.is_none()
    }
}

/// What is to be made.
#[derive(Debug, Clone)]
pub struct Intent<'a> {
    /// What kind of thing.
    pub made: Made,
    /// Where.
    pub region: &'a str,
    /// What `--name` said.
    pub name: &'a str,
    /// The fleet that it is for.
    pub stack: Option<&'a str>,
}

/// The file, as far as it concerns one cloud.
#[derive(Debug, Clone)]
pub struct Manifest {
    path: PathBuf,
    cloud: String,
    clock: Clock,
}

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Everything of this cloud, in the order in which it was asked for.
    pub entries: Vec<Entry>,
    /// Lines that have no end, by their number: what a crash left.
    pub torn: Vec<usize>,
}

impl Manifest {
    /// The file at `path`, or at its usual place. It need not be there yet.
    ///
    /// # Errors
    /// When there is no usual place: the user has no home directory.
    pub fn at(path: Option<&Path>, cloud: &super::Cloud) -> Result<Manifest, Failure> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => usual_place()?,
        };
        Ok(Manifest {
            path,
            cloud: cloud.name().to_owned(),
            clock: cloud.clock(),
        })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Everything that the file says of this cloud.
    ///
    /// # Errors
    /// When it cannot be read, or holds a whole line that is not understood:
    /// nothing may be forgotten, so such a line is not passed over.
    pub fn read(&self) -> Result<Contents, Failure> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => contents(&text, &self.path, &self.cloud),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Contents::default()),
            Err(error) => Err(Failure::File {
                what: "cannot read the manifest",
                path: self.path.clone(),
                source: error,
                remedy: "it names what exists in the account; give its path with --manifest FILE",
            }),
        }
    }

    /// Notes that something is about to be asked for; returns the line.
    ///
    /// # Errors
    /// When it cannot be written: then nothing may be asked for.
    pub fn intend(&self, intent: &Intent<'_>) -> Result<Line, Failure> {
        let line = Line {
            event: Event::CreateRequested,
            name: Some(intent.name.to_owned()),
            stack: intent.stack.map(str::to_owned),
            ..self.line(&self.new_key(), intent.made, intent.region)
        };
        self.append(&line)?;
        Ok(line)
    }

    /// Notes what became of a thing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, entry: &Line, event: Event, arn: Option<&str>) -> Result<(), Failure> {
        self.append(&Line {
            event,
            arn: arn.map(str::to_owned),
            ..self.line(&entry.key, entry.made, &entry.region)
        })
    }

    /// Notes that the account refused to make it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn refused(&self, entry: &Line, why: &str) -> Result<(), Failure> {
        self.append(&Line {
            event: Event::CreateRefused,
            why: Some(why.to_owned()),
            ..self.line(&entry.key, entry.made, &entry.region)
        })
    }

    /// A line under the thing's own ARN, for what this file did not make.
    pub fn foreign(&self, made: Made, region: &str, arn: &str) -> Line {
        self.line(arn, made, region)
    }

    fn line(&self, key: &str, made: Made, region: &str) -> Line {
        Line {
            v: VERSION,
            at: report::utc(self.clock.wall()),
            cloud: self.cloud.clone(),
            event: Event::CreateRequested,
            key: key.to_owned(),
            made,
            region: region.to_owned(),
            name: None,
            stack: None,
            arn: None,
            why: None,
        }
    }

    /// Two creates must not share a token: it is drawn from the instant and the
    /// process.
    fn new_key(&self) -> String {
        let since = self.clock.wall().duration_since(std::time::UNIX_EPOCH);
        let now_ns = since.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
        let mut rng = rng(now_ns, Purpose::Ids, u64::from(std::process::id()));
        format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64())
    }

    /// Puts a line onto the disk. Several processes may do so at once.
    fn append(&self, line: &Line) -> Result<(), Failure> {
        self.write(line).map_err(|source| Failure::File {
            what: "cannot write the manifest",
            path: self.path.clone(),
            source,
            remedy: "nothing is made or deleted without it; give another with --manifest FILE",
        })
    }

    fn write(&self, line: &Line) -> std::io::Result<()> {
        let new = !self.path.exists();
        if let Some(parent) = self.path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&self.path)?;
        file.lock()?;
        let mut bytes = Vec::new();
        if ends_torn(&mut file)? {
            bytes.push(b'\n');
        }
        serde_json::to_writer(&mut bytes, line)?;
        bytes.push(b'\n');
        file.write_all(&bytes)?;
        file.sync_all()?;
        // A new file is only there for good when its folder says so.
        if new && let Some(parent) = self.path.parent() {
            sync_folder(parent);
        }
        Ok(())
    }
}

/// Not every file system can; the line itself is on the disk.
fn sync_folder(folder: &Path) {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::debug!(%error, "the manifest's folder could not be synced");
    }
}

fn ends_torn(file: &mut File) -> std::io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != [b'\n'])
}

/// Reads the file's text.
fn contents(text: &str, path: &Path, cloud: &str) -> Result<Contents, Failure> {
    let mut contents = Contents::default();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.trim().is_empty() {
            continue;
        }
        let refused = |why: String| {
            Failure::Other(format!(
                "manifest {} line {number}: {why}; repair or move the file, it names what may \
                 exist in the account",
                path.display()
            ))
        };
        let line: Line = match serde_json::from_str(line) {
            Ok(line) => line,
            // Some file systems fill the tail of what was not written with zeros.
            Err(error) if error.is_eof() || line.contains('\0') => {
                contents.torn.push(number);
                continue;
            }
            Err(error) => return Err(refused(error.to_string())),
        };
        if line.v != VERSION {
            let v = line.v;
            return Err(refused(format!(
                "version {v}; this command reads version {VERSION}"
            )));
        }
        if line.cloud == cloud {
            take(&mut contents.entries, line);
        }
    }
    Ok(contents)
}

fn take(entries: &mut Vec<Entry>, line: Line) {
    let known = entries.iter().position(|entry| entry.asked.key == line.key);
    let index = known.unwrap_or_else(|| {
        entries.push(Entry {
            asked: line.clone(),
            arn: None,
            created: None,
            delete_requested: None,
            closed: None,
            closed_by: None,
        });
        entries.len() - 1
    });
    let entry = &mut entries[index];
    if line.arn.is_some() {
        entry.arn = line.arn;
    }
    match line.event {
        Event::CreateRequested => {}
        Event::Created => entry.created = entry.created.take().or(Some(line.at)),
        Event::DeleteRequested => {
            entry.delete_requested = entry.delete_requested.take().or(Some(line.at));
        }
        Event::CreateRefused | Event::Deleted | Event::Absent => {
            entry.closed = Some(line.at);
            entry.closed_by = Some(line.event);
        }
    }
}

/// `fabric/manifest.jsonl` in the user's state directory.
fn usual_place() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = set(VARIABLE) {
        return Ok(PathBuf::from(path));
    }
    let state = match (set("XDG_STATE_HOME"), set("HOME")) {
        (Some(state), _) => PathBuf::from(state),
        (None, Some(home)) => Path::new(&home).join(".local/state"),
        (None, None) => {
            let problem = "neither XDG_STATE_HOME nor HOME is set, so the manifest has no usual \
                           place; give one with --manifest FILE or FABRIC_MANIFEST";
            return Err(Failure::Other(problem.to_owned()));
        }
    };
    Ok(state.join("fabric").join("manifest.jsonl"))
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
