//! Names: of runs, waves and tasks, and the keys that they are kept under.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::store::Key;

/// Name of a run: 1 to 80 small letters, digits and hyphens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// Why a name cannot be a run's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run's id has 1 to 80 small letters, digits and hyphens and begins with a letter")]
pub struct BadRunId;

impl RunId {
    /// The nearest id to a text: what an id cannot hold becomes a hyphen.
    pub fn nearest(text: &str) -> RunId {
        let mut id = String::new();
        for c in text.chars().take(80) {
            let c = c.to_ascii_lowercase();
            let fits = c.is_ascii_lowercase() || c.is_ascii_digit();
            if fits {
                id.push(c);
            } else if !id.is_empty() && !id.ends_with('-') {
                id.push('-');
            }
        }
        if !id.starts_with(|c: char| c.is_ascii_lowercase()) {
            id.insert_str(0, "run-");
        }
        id.truncate(80);
        RunId(id)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Partition of everything about the run.
    pub fn pk(&self) -> String {
        format!("run#{}", self.0)
    }

    /// Key of the run itself.
    pub fn key(&self) -> Key {
        Key::new(self.pk(), "run")
    }

    /// Key of the note that the run has not ended.
    pub fn active_key(&self) -> Key {
        Key::new(ACTIVE, self.0.clone())
    }

    /// Name of a blob of the run.
    pub fn blob(&self, name: &str) -> String {
        format!("runs/{}/{name}", self.0)
    }
}

/// Partition of the runs that have not ended.
pub const ACTIVE: &str = "active";

impl TryFrom<String> for RunId {
    type Error = BadRunId;

    fn try_from(text: String) -> Result<RunId, BadRunId> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase());
        if begins && text.len() <= 80 && text.chars().all(fits) {
            Ok(RunId(text))
        } else {
            Err(BadRunId)
        }
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.0
    }
}

impl FromStr for RunId {
    type Err = BadRunId;

    fn from_str(text: &str) -> Result<RunId, BadRunId> {
        text.to_owned().try_into()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One attempt at one repetition of one cell. Its name sorts in the order of
/// the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WaveId {
    /// Place of the cell in the plan.
    pub cell: u32,
    /// Repetition, from 1.
    pub rep: u32,
    /// Attempt at it, from 1.
    pub attempt: u32,
}

impl fmt::Display for WaveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaveId { cell, rep, attempt } = self;
        write!(f, "c{cell:04}-r{rep:04}-a{attempt:02}")
    }
}

impl WaveId {
    /// Key of the wave in a run.
    pub fn key(&self, run: &RunId) -> Key {
        Key::new(run.pk(), format!("wave#{self}"))
    }
}

/// A stage of a wave. All but `Load` may be done twice without harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Tables and first rows.
    Prepare,
    /// The load itself, behind a barrier.
    Load,
    /// The database against what the workers were told.
    Verify,
    /// The rows go.
    Clean,
    /// Nothing is done any more.
    Closed,
}

impl Stage {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Prepare => "prepare",
            Stage::Load => "load",
            Stage::Verify => "verify",
            Stage::Clean => "clean",
            Stage::Closed => "closed",
        }
    }

    /// Reads what [`Stage::as_str`] wrote.
    pub fn parse(text: &str) -> Option<Stage> {
        let all = [
            Stage::Prepare,
            Stage::Load,
            Stage::Verify,
            Stage::Clean,
            Stage::Closed,
        ];
        all.into_iter().find(|stage| stage.as_str() == text)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One task of a stage: what one worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId {
    /// The wave.
    pub wave: WaveId,
    /// The stage.
    pub stage: Stage,
    /// Which leg of the load, from 0.
    pub leg: u32,
    /// Which worker: the shard of a load.
    pub index: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TaskId {
            wave,
            stage,
            leg,
            index,
        } = self;
        write!(f, "{wave}/{stage}/l{leg:03}/{index:04}")
    }
}

impl TaskId {
    /// Key of the task in a run.
    pub fn key(&self, run: &RunId) -> Key {
        Key::new(run.pk(), format!("task#{self}"))
    }

    /// Key of the result that one owner of the task wrote.
    pub fn result_key(&self, run: &RunId, owner: &str) -> Key {
        Key::new(run.pk(), format!("result#{self}/{owner}"))
    }

    /// What all tasks of a stage begin with.
    pub fn prefix(wave: WaveId, stage: Stage) -> String {
        format!("task#{wave}/{stage}/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids() {
        assert!("nightly-2026-11-30".parse::<RunId>().is_ok());
        for bad in ["", "A", "a b", "a/b", "9a", "-a", "ä", &"a".repeat(81)] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
        for odd in ["nightly-2026-11-30T03:00:00Z", "", "9", "Ä b", "<x>"] {
            let near = RunId::nearest(odd);
            assert_eq!(near.as_str().parse::<RunId>().as_ref(), Ok(&near), "{odd}");
        }
        let near = RunId::nearest("nightly-2026-11-30T03:00:00Z");
        assert_eq!(near.as_str(), "nightly-2026-11-30t03-00-00z");
    }

    #[test]
    fn names_sort_in_the_plans_order() {
        let wave = |cell, rep, attempt| WaveId { cell, rep, attempt }.to_string();
        let mut names = [wave(10, 1, 1), wave(2, 2, 1), wave(2, 1, 2), wave(2, 1, 1)];
        names.sort();
        assert_eq!(names[0], "c0002-r0001-a01");
        assert_eq!(names[3], "c0010-r0001-a01");
    }

    #[test]
    fn stages_are_read_as_they_are_written() {
        for stage in [Stage::Prepare, Stage::Load, Stage::Verify, Stage::Clean] {
            assert_eq!(Stage::parse(stage.as_str()), Some(stage));
        }
        assert_eq!(Stage::parse("loading"), None);
    }
}
