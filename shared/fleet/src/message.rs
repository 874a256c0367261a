//! What travels through the queues, and what is done with a message that
//! cannot be understood.
//!
//! A task holds everything that its worker needs, so that a worker reads
//! nothing but the state of the protocol, and one task can be run by hand. A
//! message to the conductor is a hint to look at a run: all that it could say is
//! in the store, so one too many or too few does no harm.

use plan::{Cell, Fleet, Leg, Shard, TargetSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{RunId, Stage, TaskId};

/// Version of the messages. A worker of another version does no load.
pub const VERSION: u32 = 1;

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// [`VERSION`].
    pub v: u32,
    /// What is to be done.
    #[serde(flatten)]
    pub body: Body,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// To a worker.
    Task(Box<Task>),
    /// To the conductor.
    Look(Look),
}

/// One task, complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The run.
    pub run: RunId,
    /// Which task of it.
    pub task: TaskId,
    /// Tasks of the stage, over all legs.
    pub of: u32,
    /// Which try at the stage, from 1.
    pub round: u32,
    /// What to do.
    pub job: Job,
}

/// What a task is to do: everything about one repetition of a cell that is the
/// same wherever it runs, and this task's part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The cell.
    pub cell: Cell,
    /// The database.
    pub target: TargetSpec,
    /// Lowest row id of the rep.
    pub id_base: i64,
    /// Seed of the rep's inputs.
    pub seed: u64,
    /// Names of the target's endpoints.
    pub endpoints: Vec<String>,
    /// The endpoint that a step beside the load goes through.
    pub endpoint: u32,
    /// How the wave is dealt to workers.
    pub fleet: Fleet,
    /// Every shard waits for its slots before it connects.
    pub paced: bool,
    /// This worker's part of a load.
    pub shard: Option<Shard>,
    /// The leg of a load.
    pub leg: Option<Leg>,
}

/// A hint to look at a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// The run.
    pub run: RunId,
    /// The instant, in milliseconds since 1970, that it was meant for; absent
    /// where it is meant at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
}

/// Why a message is of no use. It goes to the dead letters with this as its
/// reason, and is not tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// It is not JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// It is of another version.
    #[error("version {found}, and this function speaks version {VERSION}")]
    Version {
        /// What it says of its version.
        found: String,
    },
    /// Something in it is missing or unknown.
    #[error("{0}")]
    Malformed(String),
    /// It is for another function.
    #[error("a {found} message on this queue, which takes {wanted}")]
    Misplaced {
        /// Its kind.
        found: &'static str,
        /// What belongs here.
        wanted: &'static str,
    },
}

impl Message {
    /// A task's message.
    pub fn task(task: Task) -> Message {
        Message {
            v: VERSION,
            body: Body::Task(Box::new(task)),
        }
    }

    /// A hint's message.
    pub fn look(run: &RunId, due_ms: Option<i64>) -> Message {
        Message {
            v: VERSION,
            body: Body::Look(Look {
                run: run.clone(),
                due_ms,
            }),
        }
    }

    /// As it travels.
    pub fn to_text(&self) -> String {
        // Plain data of ours with string keys: it always serialises.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Message, BadMessage> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| BadMessage::NotJson(error.to_string()))?;
        Message::read(value)
    }

    /// Reads a message that is JSON already. The version is looked at first:
    /// what another version holds cannot be told to be wrong.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(value: Value) -> Result<Message, BadMessage> {
        match value.get("v") {
            Some(v) if v.as_u64() == Some(u64::from(VERSION)) => {}
            Some(v) => {
                return Err(BadMessage::Version {
                    found: v.to_string(),
                });
            }
            None => {
                return Err(BadMessage::Version {
                    found: "none".to_owned(),
                });
            }
        }
        if let Some(workload) = value.pointer("/job/cell/params/workload")
            && serde_json::from_value::<plan::Params>(value["job"]["cell"]["params"].clone())
                .is_err_and(|error| error.to_string().starts_with("unknown variant"))
        {
            return Err(BadMessage::Malformed(format!(
                "unknown workload {workload}"
            )));
        }
        serde_json::from_value(value).map_err(|error| BadMessage::Malformed(error.to_string()))
    }

    /// The task, for a worker.
    ///
    /// # Errors
    /// When it is for the conductor, or is not a task that a worker can do.
    pub fn into_task(self) -> Result<Task, BadMessage> {
        match self.body {
            Body::Task(task) => {
                task.check()?;
                Ok(*task)
            }
            Body::Look(_) => Err(BadMessage::Misplaced {
                found: "look",
                wanted: "tasks",
            }),
        }
    }

    /// The hint, for the conductor.
    ///
    /// # Errors
    /// When it is for a worker.
    pub fn into_look(self) -> Result<Look, BadMessage> {
        match self.body {
            Body::Look(look) => Ok(look),
            Body::Task(_) => Err(BadMessage::Misplaced {
                found: "task",
                wanted: "looks",
            }),
        }
    }
}

impl Task {
    /// Whether its parts fit together.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), BadMessage> {
        let wrong = |what: &str| Err(BadMessage::Malformed(what.to_owned()));
        let Job {
            endpoints,
            shard,
            leg,
            ..
        } = &self.job;
        if endpoints.is_empty() {
            return wrong("job.endpoints is empty");
        }
        match (self.task.stage, shard, leg) {
            (Stage::Load, Some(shard), Some(_)) => {
                if shard.writers == 0 || shard.step == 0 {
                    return wrong("job.shard has no writers");
                }
                if shard.endpoint as usize >= endpoints.len() {
                    return wrong("job.shard.endpoint is not one of job.endpoints");
                }
                if shard.index != self.task.index {
                    return wrong("job.shard.index is not the task's index");
                }
            }
            (Stage::Load, ..) => return wrong("a load needs job.shard and job.leg"),
            (Stage::Closed, ..) => return wrong("there are no tasks of stage closed"),
            _ => {
                if self.job.endpoint as usize >= endpoints.len() {
                    return wrong("job.endpoint is not one of job.endpoints");
                }
            }
        }
        if self.of == 0 {
            return wrong("of is 0");
        }
        Ok(())
    }

    /// Place of the task among all of the stage.
    pub fn ordinal(&self) -> u32 {
        let shards = self.job.shard.as_ref().map_or(1, |shard| shard.of);
        self.task.leg * shards + self.task.index
    }

    /// How people call it.
    pub fn name(&self) -> String {
        match (&self.job.shard, &self.job.leg) {
            (Some(shard), Some(leg)) => shard_name(
                shard,
                self.job.endpoints.get(shard.endpoint as usize),
                leg.index,
                leg.of,
            ),
            _ => self.task.stage.to_string(),
        }
    }
}

/// How people call a shard, such as `shard 3 (us-east-2)`.
pub fn shard_name(shard: &Shard, endpoint: Option<&String>, leg: u32, legs: u32) -> String {
    let endpoint = endpoint.map_or("?", String::as_str);
    match legs {
        0 | 1 => format!("shard {} ({endpoint})", shard.index),
        _ => format!("shard {} ({endpoint}), leg {}", shard.index, leg + 1),
    }
}
