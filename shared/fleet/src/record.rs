//! The items of a run by type, and who may change what.
//!
//! | item | `sk` | made by | changed by |
//! |---|---|---|---|
//! | run | `run` | planner | conductor (`at`, `state`, …), anyone (`stop`) |
//! | wave | `wave#WAVE` | conductor | conductor (`stage`, `round`, `sent`, `look_ms`), last worker of a rendezvous (`open_ms`, `start_ms`), workers (`starved`) |
//! | task | `task#WAVE/STAGE/LEG/INDEX` | its worker, by claiming it | its owner; the conductor, to declare it lost |
//! | result | `result#WAVE/STAGE/LEG/INDEX/OWNER` | its worker, before the task is done | nobody; it counts if the task is done by that owner |
//! | tally | `tally#WAVE/WHAT/GROUP` | workers | workers: members are added, nothing is removed |
//!
//! `docs/architecture.md` draws the states.

use crate::ids::Stage;
use crate::store::{Attr, Item, Read};

/// State of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// It has ended: how.
    pub outcome: Option<String>,
    /// Name of the sweep.
    pub sweep: String,
    /// When it was started, in milliseconds since 1970.
    pub created_ms: i64,
    /// When its attempt began; limits count from here.
    pub began_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// What its plan is kept under.
    pub plan: String,
    /// Attempt, from 1; each resumption is another.
    pub attempt: u32,
    /// Place of the current wave in the attempt's list.
    pub at: u32,
    /// Waves in that list.
    pub waves: u32,
    /// It was told to stop: why.
    pub stop: Option<String>,
    /// Upper bits of the row ids.
    pub ids: i64,
}

/// A number that is kept as one and is never negative.
fn count(item: &Item, name: &str) -> u32 {
    let number = item.number(name).unwrap_or(0);
    u32::try_from(number).unwrap_or(0)
}

impl RunRecord {
    /// Reads it.
    pub fn read(item: &Item) -> RunRecord {
        RunRecord {
            outcome: item.text("outcome").map(str::to_owned),
            sweep: item.text("sweep").unwrap_or_default().to_owned(),
            created_ms: item.number("created_ms").unwrap_or(0),
            began_ms: item
                .number("began_ms")
                .or(item.number("created_ms"))
                .unwrap_or(0),
            ended_ms: item.number("ended_ms"),
            plan: item.text("plan").unwrap_or_default().to_owned(),
            attempt: count(item, "attempt").max(1),
            at: count(item, "at"),
            waves: count(item, "waves"),
            stop: item.text("stop").map(str::to_owned),
            ids: item.number("ids").unwrap_or(0),
        }
    }

    /// Whether workers should end what they do.
    pub fn is_over(&self) -> bool {
        self.outcome.is_some() || self.stop.is_some()
    }
}

/// State of a wave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveRecord {
    /// What is done now.
    pub stage: Stage,
    /// Which try at the stage, from 1.
    pub round: u32,
    /// Legs (of other stages: 1 or 0) whose tasks were sent.
    pub sent: u32,
    /// When this round of the stage began, milliseconds since 1970.
    pub since_ms: i64,
    /// When the conductor looks again.
    pub look_ms: i64,
    /// From when connections are opened.
    pub open_ms: Option<i64>,
    /// The start instant of the load.
    pub start_ms: Option<i64>,
    /// The barrier was closed: why.
    pub refused: Option<String>,
    /// Operations of the wave that starved, over all workers.
    pub starved: u32,
}

impl WaveRecord {
    /// Reads it; `None` when it has no stage that is known.
    pub fn read(item: &Item) -> Option<WaveRecord> {
        Some(WaveRecord {
            stage: Stage::parse(item.text("stage")?)?,
            round: count(item, "round").max(1),
            sent: count(item, "sent"),
            since_ms: item.number("since_ms").unwrap_or(0),
            look_ms: item.number("look_ms").unwrap_or(0),
            open_ms: item.number("open_ms"),
            start_ms: item.number("start_ms"),
            refused: item.text("refused").map(str::to_owned),
            starved: u32::try_from(item.members("starved")).unwrap_or(u32::MAX),
        })
    }
}

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// A worker has it and has not begun what must not be done twice.
    Claimed,
    /// A worker has begun its load.
    Running,
    /// Its result is there.
    Done,
    /// It was given up; no result is taken any more.
    Lost,
}

impl TaskState {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            TaskState::Claimed => "claimed",
            TaskState::Running => "running",
            TaskState::Done => "done",
            TaskState::Lost => "lost",
        }
    }

    /// As a value.
    pub fn attr(self) -> Attr {
        Attr::S(self.as_str().to_owned())
    }

    /// Reads what [`TaskState::as_str`] wrote.
    pub fn parse(text: &str) -> Option<TaskState> {
        let all = [
            TaskState::Claimed,
            TaskState::Running,
            TaskState::Done,
            TaskState::Lost,
        ];
        all.into_iter().find(|state| state.as_str() == text)
    }
}

/// A task as it is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its state.
    pub state: TaskState,
    /// The invocation that has it.
    pub owner: String,
    /// Until when that one may be thought alive, milliseconds since 1970.
    pub lease_ms: i64,
    /// It stands at the barrier.
    pub ready: bool,
    /// Its last progress, as JSON.
    pub progress: Option<String>,
}

impl TaskRecord {
    /// Reads it; `None` when it has no state that is known.
    pub fn read(item: &Item) -> Option<TaskRecord> {
        let text = |name: &str| item.text(name).map(str::to_owned);
        Some(TaskRecord {
            state: TaskState::parse(item.text("state")?)?,
            owner: text("owner").unwrap_or_default(),
            lease_ms: item.number("lease_ms").unwrap_or(0),
            ready: item.number("ready").is_some(),
            progress: text("progress"),
        })
    }

    /// Nothing will change any more.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, TaskState::Done | TaskState::Lost)
    }
}
