//! What a run came to: the shape of `isolation.json`.
//!
//! It holds what scenarios and database decide and nothing of when and where, so two
//! runs that saw the same are the same to the byte, but for what a server puts into
//! its messages.

use plan::Isolation;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::judge::Outcome;
use crate::player::{Answer, StepTrace, Trace, begin};
use crate::script::{Script, Suite, Verb};

/// `isolation.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this form: 1.
    pub version: u32,
    /// The database.
    pub tested: Tested,
    /// Everything was played to its end, and no table is left.
    pub complete: bool,
    /// Levels, in the order of `results`.
    pub levels: Vec<Isolation>,
    /// Scenarios, in the order of the tables.
    pub scenarios: Vec<ScenarioReport>,
    /// Tables that could not be dropped.
    pub tables_left: Vec<String>,
}

/// The database that scenarios were played on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tested {
    /// `simulator`, `dsql` or `postgres`.
    pub kind: String,
    /// Its address, without anything secret.
    pub url: String,
    /// It is a simulator.
    pub simulated: bool,
    /// What it says of its version.
    pub server_version: Option<String>,
}

/// A scenario and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioReport {
    /// Its suite.
    pub suite: Suite,
    /// Its name in the suite, such as `g2-item`.
    pub id: String,
    /// What people call it, with its notation, such as `lost update (P4)`.
    pub title: String,
    /// What happens in it and what must not.
    pub about: String,
    /// What readers of its result should know.
    pub note: Option<String>,
    /// One for each level.
    pub results: Vec<Played>,
}

/// What came of a scenario at a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Played {
    /// The level.
    pub level: Isolation,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The same as it stands in tables.
    pub text: String,
    /// How often it was played; more than once when something that says nothing about
    /// isolation got in the way.
    pub tries: u32,
    /// Its steps; empty when it was not played.
    pub steps: Vec<StepReport>,
    /// The final state, rows sorted as text; null when it was not read.
    pub final_rows: Option<Vec<Vec<Option<String>>>>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepReport {
    /// Its number, from 1.
    pub step: usize,
    /// Which connection sent it.
    pub session: String,
    /// What it sent, tables as the script calls them.
    pub sql: String,
    /// How it ended.
    pub result: StepResult,
    /// Rows that a SELECT returned, sorted as text; null for other statements.
    pub rows: Option<Vec<Vec<Option<String>>>>,
    /// Rows that it returned or changed; null unless it is done.
    pub count: Option<u64>,
    /// SQLSTATE of its error.
    pub sqlstate: Option<String>,
    /// Message of its error.
    pub message: Option<String>,
    /// It waited for another connection.
    pub waited: bool,
    /// The step after which its answer came, where it waited.
    pub until_step: Option<usize>,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
    /// It was not sent: its transaction had failed before.
    Skipped,
    /// It was not answered within the limit.
    Unanswered,
}

impl Report {
    pub(crate) fn new(
        tested: Tested,
        levels: Vec<Isolation>,
        scenarios: Vec<ScenarioReport>,
        tables_left: Vec<String>,
    ) -> Report {
        let mut results = scenarios.iter().flat_map(|scenario| &scenario.results);
        Report {
            version: 1,
            tested,
            complete: tables_left.is_empty() && results.all(|played| played.outcome.is_result()),
            levels,
            scenarios,
            tables_left,
        }
    }
}

impl ScenarioReport {
    pub(crate) fn new(script: &Script, results: Vec<Played>) -> ScenarioReport {
        ScenarioReport {
            suite: script.suite,
            id: script.id.clone(),
            title: script.title(),
            about: script.about.clone(),
            note: script.note.clone(),
            results,
        }
    }
}

impl Played {
    pub(crate) fn new(
        script: &Script,
        level: Isolation,
        outcome: Outcome,
        tries: u32,
        trace: &Trace,
    ) -> Played {
        let steps = script.steps.iter().zip(&trace.steps).enumerate();
        let steps = steps.map(|(index, (step, trace))| {
            let sql = match step.verb {
                Verb::Begin => begin(level),
                _ => step.sql.replace(['{', '}'], ""),
            };
            let session = script.sessions[step.session].clone();
            StepReport::new(index + 1, session, sql, step.verb, trace)
        });
        Played {
            level,
            text: outcome.text(),
            outcome,
            tries,
            steps: steps.collect(),
            final_rows: trace.end.as_ref().and_then(Answer::sorted),
        }
    }

    /// The database refuses it.
    pub(crate) fn refused(level: Isolation, reason: String) -> Played {
        Played::without_steps(level, Outcome::NotApplicable { reason })
    }

    /// It was not played, or not to its end.
    pub(crate) fn not_played(level: Isolation, reason: String) -> Played {
        Played::without_steps(level, Outcome::Failed { reason })
    }

    fn without_steps(level: Isolation, outcome: Outcome) -> Played {
        Played {
            level,
            text: outcome.text(),
            outcome,
            tries: 0,
            steps: Vec::new(),
            final_rows: None,
        }
    }
}

impl StepReport {
    /// Whether it changes rows.
    pub(crate) fn is_write(&self) -> bool {
        let word = self.sql.split_whitespace().next();
        matches!(word, Some("INSERT" | "UPDATE" | "DELETE"))
    }

    fn new(step: usize, session: String, sql: String, verb: Verb, trace: &StepTrace) -> StepReport {
        let mut report = StepReport {
            step,
            session,
            sql,
            result: StepResult::Skipped,
            rows: None,
            count: None,
            sqlstate: None,
            message: None,
            waited: trace.waited,
            until_step: trace.answered_after.map(|after| after + 1),
        };
        match &trace.answer {
            Answer::Skipped => {}
            Answer::Unanswered => report.result = StepResult::Unanswered,
            Answer::Done { count, .. } => {
                report.result = StepResult::Done;
                report.count = Some(*count);
                if verb == Verb::Select {
                    report.rows = trace.answer.sorted();
                }
            }
            Answer::Failed(failure) => {
                report.result = StepResult::Failed;
                report.sqlstate.clone_from(&failure.sqlstate);
                report.message = Some(failure.message.clone());
            }
        }
        report
    }
}

/// The JSON Schema of `isolation.json`.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<Report>();
    schema.insert("title".to_owned(), "isolation.json".into());
    schema.to_value()
}
