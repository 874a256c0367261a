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
        /// The first step that waited before it came to that.
        wait: Option<Wait>,
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
        /// The failed step's own wait, where it had to.
        wait: Option<Wait>,
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
                wait,
                ..
            } => {
                let how = match (sqlstate.as_str(), wait) {
                    ("40P01", _) => "deadlock",
                    (_, Some(_)) => "waited",
                    (_, None) => "blocked",
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
    let wait_of = |index: usize| {
        let step = &trace.steps[index];
        step.waited.then(|| Wait {
            step: index + 1,
            until_step: step.answered_after.map(|after| after + 1),
        })
    };
    let wait = (0..trace.steps.len()).find_map(wait_of);
    let mut anomalies = script.anomalies.iter();
    if anomalies.any(|facts| facts.iter().all(|fact| holds(fact, script, trace))) {
        return Outcome::Anomaly { wait };
    }
    if let Some((index, failure)) = refused {
        return Outcome::Error {
            step: index + 1,
            at_commit: script.steps[index].verb == Verb::Commit,
            sqlstate: failure.sqlstate.clone().unwrap_or_default(),
            message: failure.message.clone(),
            wait: wait_of(index),
        };
    }
    match wait {
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

#[cfg(test)]
mod tests {
    //! The checks of the shipped scripts. No database at hand shows dirty writes or
    //! dirty reads, so here traces say that one did: a check that never held would
    //! pass for "no anomaly" for ever.

    use super::*;
    use crate::player::StepTrace;
    use crate::scripts::scripts;

    /// Rows by step, 0 being the final state.
    type Reads<'a> = &'a [(usize, &'a [[i64; 2]])];

    const OLD: &[[i64; 2]] = &[[1, 10], [2, 20]];

    fn done(rows: &[[i64; 2]], columns: usize) -> Answer {
        let row = |row: &[i64; 2]| row[..columns].iter().map(|v| Some(v.to_string())).collect();
        Answer::Done {
            rows: rows.iter().map(row).collect(),
            count: 1,
        }
    }

    /// All steps succeed and read what is said; later ones overrule earlier ones.
    fn outcome(id: &str, columns: usize, reads: &[Reads<'_>]) -> Outcome {
        let scripts = scripts().unwrap();
        let script = scripts.iter().find(|script| script.id == id).unwrap();
        let step = StepTrace {
            answer: done(&[], 2),
            waited: false,
            answered_after: None,
        };
        let mut trace = Trace {
            steps: vec![step; script.steps.len()],
            end: None,
        };
        for (step, rows) in reads.iter().copied().flatten() {
            match step {
                0 => trace.end = Some(done(rows, columns)),
                step => trace.steps[step - 1].answer = done(rows, columns),
            }
        }
        judge(script, &trace)
    }

    #[test]
    fn anomalies_that_no_database_here_shows_would_be_seen() {
        // What a serial run reads, and what of it each anomaly changes.
        let otv: Reads<'_> = &[
            (8, &[[1, 11]]),
            (10, &[[2, 19]]),
            (12, &[[2, 18]]),
            (13, &[[1, 12]]),
            (0, &[[1, 12], [2, 18]]),
        ];
        #[rustfmt::skip]
        let table: &[(&str, Reads<'_>, &[Reads<'_>])] = &[
            ("g0", &[(0, &[[1, 12], [2, 22]])], &[
                &[(0, &[[1, 11], [2, 22]])],
                &[(0, &[[1, 12], [2, 21]])],
            ]),
            ("g1a", &[(4, OLD), (6, OLD), (0, OLD)], &[
                &[(4, &[[1, 101], [2, 20]])],
                &[(6, &[[1, 101], [2, 20]])],
            ]),
            ("g1b", &[(4, OLD), (7, &[[1, 11], [2, 20]]), (0, OLD)], &[
                &[(4, &[[1, 101], [2, 20]])],
                &[(7, &[[1, 101], [2, 20]])],
            ]),
            ("g1c", &[(5, &[[2, 20]]), (6, &[[1, 11]]), (0, OLD)], &[
                &[(5, &[[2, 22]])],
            ]),
            ("otv", otv, &[
                &[(8, &[[1, 12]])],
                &[(10, &[[2, 20]])],
                &[(13, &[[1, 11]])],
                &[(12, &[[2, 20]])],
            ]),
            ("crossed-updates", &[(0, &[[1, 110], [2, 90]])], &[
                &[(0, &[[1, 120], [2, 80]])],
            ]),
        ];
        for (id, serial, anomalies) in table {
            assert_eq!(outcome(id, 2, &[serial]), Outcome::Prevented, "{id}");
            for changed in *anomalies {
                let outcome = outcome(id, 2, &[serial, changed]);
                assert!(
                    matches!(outcome, Outcome::Anomaly { .. }),
                    "{id} {changed:?}"
                );
            }
        }
        // Both took the piece: every statement touched one row.
        let both = outcome("for-update-decrement", 1, &[&[(0, &[[0, 0]])]]);
        assert!(matches!(both, Outcome::Anomaly { .. }));
    }

    #[test]
    fn half_a_transfer_and_a_second_order_would_be_seen() {
        let scripts = scripts().unwrap();
        let find = |id: &str| scripts.iter().find(|script| script.id == id).unwrap();
        let failed = |step: usize, script: &Script, end: &[[i64; 2]], columns: usize| {
            let mut steps = vec![
                StepTrace {
                    answer: done(&[], 2),
                    waited: false,
                    answered_after: None,
                };
                script.steps.len()
            ];
            let mut conflict = target::SqlFailure::new(Class::Conflict, "lost");
            conflict.sqlstate = Some("40001".to_owned());
            steps[step - 1].answer = Answer::Failed(conflict);
            let end = Some(done(end, columns));
            judge(script, &Trace { steps, end })
        };
        let crossed = find("crossed-updates");
        // T2's COMMIT failed.
        assert!(matches!(
            failed(8, crossed, &[[1, 90], [2, 110]], 2),
            Outcome::Error {
                at_commit: true,
                ..
            }
        ));
        assert!(matches!(
            failed(8, crossed, &[[1, 110], [2, 110]], 2),
            Outcome::Anomaly { .. }
        ));
        // T1's did.
        assert!(matches!(
            failed(7, crossed, &[[1, 120], [2, 100]], 2),
            Outcome::Anomaly { .. }
        ));
        let duplicate = find("duplicate-business-id");
        assert!(matches!(
            failed(10, duplicate, &[[101, 0]], 1),
            Outcome::Error { .. }
        ));
        assert!(matches!(
            failed(10, duplicate, &[[101, 0], [102, 0]], 1),
            Outcome::Anomaly { .. }
        ));
    }
}
