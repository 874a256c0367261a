//! From a trace to what came of the scenario.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use target::Class;

use crate::player::{Answer, Trace};
use crate::script::{Fact, Script, Verb};

/// What came of a scenario at a level. Steps count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// What must not happen happened.
    Anomaly {
        /// The step that waited before it came to that.
        waited: Option<Wait>,
    },
    /// No anomaly: a statement was refused.
    Error {
        /// The first step that failed.
        step: usize,
        /// It was the COMMIT.
        at_commit: bool,
        /// Its SQLSTATE.
        sqlstate: String,
        /// What the server said.
        message: String,
        /// Whether the failed step waited first.
        waited: bool,
    },
    /// No anomaly and no error: a statement had to wait.
    Waited {
        /// Where, and until when.
        wait: Wait,
    },
    /// No anomaly, no error and no wait: each saw what it may see.
    Prevented,
    /// The database refuses the level, or a statement, as unsupported (0A000).
    NotApplicable {
        /// What it refuses, in its words.
        reason: String,
    },
    /// It could not be played to the end.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A step that waited for another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// Which.
    pub step: usize,
    /// The step after which it went on; null when it was not answered within the
    /// limit.
    pub until_step: Option<usize>,
}

impl Outcome {
    /// As it stands in tables; [`crate::matrix`] explains the words.
    pub fn text(&self) -> String {
        match self {
            Outcome::Anomaly { .. } => "ANOMALY".to_owned(),
            Outcome::Error {
                step,
                at_commit,
                sqlstate,
                waited,
                ..
            } => {
                let how = match (sqlstate.as_str(), waited) {
                    ("40P01", _) => "deadlock",
                    (_, true) => "waited",
                    (_, false) => "blocked",
                };
                match at_commit {
                    true => format!("{how}: {sqlstate}, commit"),
                    false => format!("{how}: {sqlstate}, step {step}"),
                }
            }
            Outcome::Waited { wait } => match wait.until_step {
                Some(_) => format!("waited: in turn, step {}", wait.step),
                None => format!("waits for ever, step {}", wait.step),
            },
            Outcome::Prevented => "prevented".to_owned(),
            Outcome::NotApplicable { .. } => "not applicable".to_owned(),
            Outcome::Failed { .. } => "NOT PLAYED".to_owned(),
        }
    }

    /// Whether it says something about the database.
    pub fn is_result(&self) -> bool {
        !matches!(self, Outcome::Failed { .. })
    }
}

/// What a trace comes to.
pub(crate) fn judge(script: &Script, trace: &Trace) -> Outcome {
    let mut refused = None;
    for (index, step) in trace.steps.iter().enumerate() {
        let Answer::Failed(failure) = &step.answer else {
            continue;
        };
        let reason = format!("step {}: {failure}", index + 1);
        match failure.class {
            Class::Unsupported => return Outcome::NotApplicable { reason },
            Class::Conflict | Class::Deadlock | Class::Constraint => {
                refused = refused.or(Some((index, failure)));
            }
            _ => return Outcome::Failed { reason },
        }
    }
    let waited = trace.steps.iter().enumerate();
    let waited = waited
        .filter(|(_, step)| step.waited)
        .map(|(index, step)| Wait {
            step: index + 1,
            until_step: step.answered_after.map(|after| after + 1),
        })
        .next();
    let mut anomalies = script.anomalies.iter();
    if anomalies.any(|facts| facts.iter().all(|fact| holds(fact, script, trace))) {
        return Outcome::Anomaly { waited };
    }
    if let Some((index, failure)) = refused {
        return Outcome::Error {
            step: index + 1,
            at_commit: script.steps[index].verb == Verb::Commit,
            sqlstate: failure.sqlstate.clone().unwrap_or_default(),
            message: failure.message.clone(),
            waited: trace.steps[index].waited,
        };
    }
    match waited {
        Some(wait) => Outcome::Waited { wait },
        None => Outcome::Prevented,
    }
}

fn holds(fact: &Fact, script: &Script, trace: &Trace) -> bool {
    match fact {
        Fact::Committed { session, holds } => {
            let mut steps = script.steps.iter().zip(&trace.steps);
            let committed = steps.any(|(step, trace)| {
                step.session == *session
                    && step.verb == Verb::Commit
                    && matches!(trace.answer, Answer::Done { .. })
            });
            committed == *holds
        }
        Fact::Read { step, rows, holds } => {
            let read = trace.steps[*step].answer.sorted();
            read.is_some_and(|read| (read == *rows) == *holds)
        }
        Fact::Touched { step, rows } => {
            matches!(&trace.steps[*step].answer, Answer::Done { count, .. } if count == rows)
        }
        Fact::Final { rows, holds } => {
            let end = trace.end.as_ref().and_then(Answer::sorted);
            end.is_some_and(|end| (end == *rows) == *holds)
        }
    }
}
