//! A script, once it has been read.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where scenarios come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Suite {
    /// The five scenarios of the contention report E004.
    E004,
    /// Hermitage, which tells isolation levels apart.
    Hermitage,
}

impl Suite {
    /// All of them, in the order of reports.
    pub const ALL: [Suite; 2] = [Suite::E004, Suite::Hermitage];

    /// Its name, as it is given to the command.
    pub fn name(self) -> &'static str {
        match self {
            Suite::E004 => "e004",
            Suite::Hermitage => "hermitage",
        }
    }
}

/// A scenario: steps of several connections, and what would be an anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its file without folder and ending, such as `g2-item`; unique in its suite.
    pub id: String,
    /// Which suite it belongs to.
    pub suite: Suite,
    /// What people call it.
    pub name: String,
    /// Its short name in the literature, such as `P4`.
    pub notation: Option<String>,
    /// What happens in it and what must not, in a few sentences.
    pub about: String,
    /// What readers of its result should know.
    pub note: Option<String>,
    /// Tables that are there before it begins.
    pub tables: Vec<Table>,
    /// Names of its connections, by first appearance.
    pub sessions: Vec<String>,
    /// What is sent, in this order; step n is at n - 1.
    pub steps: Vec<Step>,
    /// Reads the final state once all transactions have ended.
    pub final_sql: String,
    /// It is an anomaly when all facts of one of these hold.
    pub(crate) anomalies: Vec<Vec<Fact>>,
}

impl Script {
    /// Name and notation, such as `lost update (P4)`.
    pub fn title(&self) -> String {
        match &self.notation {
            Some(notation) => format!("{} ({notation})", self.name),
            None => self.name.clone(),
        }
    }
}

/// A table of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name in the script; statements say `{name}`.
    pub name: String,
    /// What stands between the parentheses of CREATE TABLE.
    pub columns: String,
    /// What stands behind VALUES; empty for no rows.
    pub rows: String,
}

/// One statement of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the connection.
    pub session: usize,
    /// What kind of statement it is.
    pub verb: Verb,
    /// The statement, with `{table}` for the script's tables.
    pub sql: String,
}

/// Kinds of statements that the player or the checks tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// BEGIN; it is sent with the level.
    Begin,
    /// COMMIT
    Commit,
    /// ROLLBACK
    Rollback,
    /// SELECT
    Select,
    /// INSERT, UPDATE or DELETE
    Write,
}

/// Rows as text, sorted: the order in which a database returns them says nothing.
/// `None` is null.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// Something that a trace shows or does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// `T1 committed`, or `T1 did not commit`
    Committed { session: usize, holds: bool },
    /// `step 4 read ROWS`, or `step 4 did not read ROWS`; neither of them when the
    /// step was not answered with rows.
    Read {
        step: usize,
        rows: Rows,
        holds: bool,
    },
    /// `step 7 touched 1`
    Touched { step: usize, rows: u64 },
    /// `final is ROWS`, or `final is not ROWS`
    Final { rows: Rows, holds: bool },
}

/// A script is refused: which, where in it, and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scenario {script}, {place}: {problem}")]
pub struct ScriptError {
    /// Its suite and file.
    pub script: String,
    /// Where.
    pub place: Place,
    /// What is wrong and what would be accepted.
    pub problem: String,
}

/// A place in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of the file, from 1.
    Line(usize),
    /// A step, from 1, and its line.
    Step(usize, usize),
    /// The script as a whole.
    Whole,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Step(step, line) => write!(f, "step {step} (line {line})"),
            Place::Whole => write!(f, "the whole"),
        }
    }
}
