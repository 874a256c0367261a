//! The tables that a terminal shows. Aligned by hand and without borders, like the
//! fabric's other tables, so that they can be pasted anywhere.

use plan::Isolation;

use crate::judge::Outcome;
use crate::report::{Report, ScenarioReport, StepReport, StepResult};
use crate::script::Suite;

const GAP: &str = "  ";

/// What the words in the table mean.
pub(crate) const LEGEND: &[&str] = &[
    "ANOMALY: what must not happen happened. prevented: no anomaly, no error, no wait.",
    "blocked: no anomaly; a statement was refused with that SQLSTATE, at that step or at COMMIT.",
    "waited: no anomaly; the step waited for another connection's lock, and was then refused \
     with that SQLSTATE, or went on in turn.",
];

/// A table of scenario by level for each suite, with what is to be said about it.
pub fn matrix(report: &Report) -> String {
    let mut text = String::new();
    for suite in Suite::ALL {
        let scenarios: Vec<&ScenarioReport> = of_suite(report, suite).collect();
        if scenarios.is_empty() {
            continue;
        }
        text.push_str(&format!("{} on {}\n\n", heading(suite), database(report)));
        let mut rows = vec![head(&report.levels)];
        rows.extend(scenarios.iter().map(|scenario| row(scenario)));
        text.push_str(&aligned(&rows));
        text.push('\n');
    }
    for line in LEGEND {
        text.push_str(&format!("{line}\n"));
    }
    for note in notes(report) {
        text.push_str(&format!("{note}\n"));
    }
    text
}

/// Every play, step by step.
pub fn steps(report: &Report) -> String {
    let mut text = String::new();
    for scenario in &report.scenarios {
        for played in scenario.results.iter().filter(|p| !p.steps.is_empty()) {
            let (title, level) = (&scenario.title, played.level.sql());
            text.push_str(&format!("{title} at {level}: {}\n", played.text));
            let steps = played.steps.iter();
            let mut rows: Vec<Vec<String>> = steps
                .map(|step| {
                    vec![
                        format!("{:>4}", step.step),
                        step.session.clone(),
                        step.sql.clone(),
                        said(step),
                    ]
                })
                .collect();
            if let Some(end) = &played.final_rows {
                rows.push(vec![
                    String::new(),
                    String::new(),
                    "final state".to_owned(),
                    listed(end),
                ]);
            }
            text.push_str(&aligned(&rows));
            text.push('\n');
        }
    }
    text
}

pub(crate) fn of_suite(
    report: &Report,
    suite: Suite,
) -> impl Iterator<Item = &ScenarioReport> + use<'_> {
    let scenarios = report.scenarios.iter();
    scenarios.filter(move |scenario| scenario.suite == suite)
}

pub(crate) fn heading(suite: Suite) -> &'static str {
    match suite {
        Suite::E004 => "E004's scenarios",
        Suite::Hermitage => "Hermitage",
    }
}

/// The database in a few words; what is simulated says so.
pub(crate) fn database(report: &Report) -> String {
    let tested = &report.tested;
    let mut text = tested.url.clone();
    if let Some(version) = &tested.server_version {
        text.push_str(&format!(", version {version}"));
    }
    if tested.simulated {
        text.push_str(" · SIMULATED");
    }
    text
}

/// What readers should know: refusals, notes of scenarios, what went wrong.
pub(crate) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for scenario in &report.scenarios {
        if let Some(note) = &scenario.note {
            notes.push(format!("{}: {note}.", scenario.title));
        }
        for played in &scenario.results {
            let level = played.level.sql();
            match &played.outcome {
                Outcome::NotApplicable { reason } => {
                    // The whole level is refused before any step.
                    let what = match played.steps.is_empty() {
                        true => level.to_owned(),
                        false => format!("{} at {level}", scenario.title),
                    };
                    notes.push(format!("not applicable: {what}: {reason}"));
                }
                Outcome::Failed { reason } => {
                    notes.push(format!(
                        "NOT PLAYED: {} at {level}: {reason}",
                        scenario.title
                    ));
                }
                _ if played.tries > 1 => notes.push(format!(
                    "{} at {level} was played {} times: errors that say nothing about \
                     isolation came in between.",
                    scenario.title, played.tries
                )),
                _ => {}
            }
        }
    }
    if !report.tables_left.is_empty() {
        let names = report.tables_left.join(", ");
        notes.push(format!("could not be dropped, drop by hand: {names}"));
    }
    let mut seen = Vec::new();
    notes.retain(|note| {
        let new = !seen.contains(note);
        if new {
            seen.push(note.clone());
        }
        new
    });
    notes
}

fn head(levels: &[Isolation]) -> Vec<String> {
    let levels = levels.iter().map(|level| level.sql().to_owned());
    std::iter::once("Scenario".to_owned())
        .chain(levels)
        .collect()
}

fn row(scenario: &ScenarioReport) -> Vec<String> {
    let results = scenario.results.iter().map(|played| played.text.clone());
    std::iter::once(scenario.title.clone())
        .chain(results)
        .collect()
}

/// What a step was answered with, in a few words.
fn said(step: &StepReport) -> String {
    let mut text = match (step.waited, step.until_step) {
        (true, Some(until)) => format!("waits until step {until}; "),
        (true, None) => "waits; ".to_owned(),
        (false, _) => String::new(),
    };
    text.push_str(&match step.result {
        StepResult::Skipped => "not sent".to_owned(),
        StepResult::Unanswered => "no answer".to_owned(),
        StepResult::Failed => step.message.clone().unwrap_or_default(),
        StepResult::Done => match (&step.rows, step.count) {
            (Some(rows), _) => listed(rows),
            (None, Some(count)) if step.is_write() => format!("rows: {count}"),
            (None, _) => "ok".to_owned(),
        },
    });
    text
}

/// Rows as scripts write them.
pub(crate) fn listed(rows: &[Vec<Option<String>>]) -> String {
    if rows.is_empty() {
        return "nothing".to_owned();
    }
    let rows = rows.iter().map(|row| {
        let cells = row.iter().map(|cell| cell.as_deref().unwrap_or("null"));
        format!("({})", cells.collect::<Vec<_>>().join(", "))
    });
    rows.collect::<Vec<_>>().join(" ")
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(line.join(GAP).trim_end());
        text.push('\n');
    }
    text
}
