//! Hermitage's published results, step by step, where they are at hand: PostgreSQL's
//! against PostgreSQL, DSQL's against the simulator.
//!
//! A published case is compared connection by connection: its steps must be among
//! those of our script of the same name, in the same order, with the same answers.
//! Ours has a step or two more, so that one script serves both databases.

#![allow(clippy::unwrap_used)]

mod common;

use common::{on_postgres, on_simulator, played};
use fabric_isolation::{Played, Report, StepReport, StepResult, Suite, scripts_of};
use plan::Isolation;
use serde_json::Value as Json;
use sim::FaultPlan;

fn reference() -> Option<Json> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/reference/hermitage.json"
    );
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("skipped: no reference data");
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

/// The published lists of an engine, with the level of each.
fn lists<'a>(reference: &'a Json, engine: &str) -> Vec<(Isolation, &'a Json)> {
    let lists = reference["lists"].as_array().unwrap().iter();
    lists
        .filter(|list| list["engine"] == engine)
        .map(|list| {
            let level = match list["isolation"].as_str().unwrap() {
                "read committed" => Isolation::ReadCommitted,
                "serializable" => Isolation::Serializable,
                _ => Isolation::RepeatableRead,
            };
            (level, list)
        })
        .collect()
}

/// Statements of both sides in one form.
fn plain(sql: &str) -> String {
    let sql = sql.to_lowercase().replace(' ', "");
    match sql.as_str() {
        "abort" | "commit" | "rollback" => "end".to_owned(),
        begin if begin.starts_with("begin") => "begin".to_owned(),
        other => other.to_owned(),
    }
}

fn rows(expect: &Json) -> Vec<Vec<Option<String>>> {
    let rows = expect["rows"].as_array().unwrap().iter();
    rows.map(|row| {
        let cells = row.as_array().unwrap().iter();
        cells.map(|cell| Some(cell.to_string())).collect()
    })
    .collect()
}

fn answers(expect: &Json, step: &StepReport, blocked: bool) -> bool {
    if step.waited != blocked {
        return false;
    }
    match expect["kind"].as_str().unwrap() {
        // After an error Hermitage aborts by hand; the player has done so by then.
        "ok" => step.result == StepResult::Done || plain(&step.sql) == "end",
        "affected" => step.count == expect["rows_affected"].as_u64(),
        "rows" => step.rows.as_ref() == Some(&rows(expect)),
        "error" => {
            step.sqlstate.as_deref() == expect["sqlstate"].as_str()
                && step
                    .message
                    .as_deref()
                    .is_some_and(|m| m.contains(expect["message"].as_str().unwrap()))
        }
        other => panic!("unknown expectation {other}"),
    }
}

/// Compares a case; returns how many steps were compared.
fn compare(case: &Json, played: &Played) -> usize {
    let id = case["id"].as_str().unwrap();
    let prevented = case["prevented"].as_bool().unwrap();
    assert_eq!(played.text != "ANOMALY", prevented, "{id}: {}", played.text);
    let steps = case["steps"].as_array().unwrap();
    // How far into our script each connection has come.
    let mut at = std::collections::BTreeMap::new();
    for step in steps {
        let (session, sql) = (
            step["session"].as_str().unwrap(),
            step["sql"].as_str().unwrap(),
        );
        let expect = &step["expect"];
        if session == "check" {
            assert_eq!(played.final_rows.as_ref(), Some(&rows(expect)), "{id}");
            continue;
        }
        let from = at.get(session).copied().unwrap_or(0);
        let found = played.steps[from..]
            .iter()
            .position(|ours| ours.session == session && plain(&ours.sql) == plain(sql));
        let index = from + found.unwrap_or_else(|| panic!("{id}: {session} {sql} is not there"));
        at.insert(session, index + 1);
        let ours = &played.steps[index];
        let same = if expect["kind"] == "blocked" {
            let released_by = expect["released_by_step"].as_u64().unwrap();
            let release = steps.iter().find(|s| s["n"] == released_by).unwrap();
            let by = &played.steps[ours.until_step.unwrap() - 1];
            assert_eq!(by.session, release["session"], "{id}: {sql}");
            assert_eq!(plain(&by.sql), plain(release["sql"].as_str().unwrap()));
            answers(&expect["then"], ours, true)
        } else {
            answers(expect, ours, false)
        };
        assert!(same, "{id}: {session} {sql}: {ours:#?}, wanted {expect}");
    }
    steps.len()
}

fn compare_list(list: &Json, level: Isolation, report: &Report) -> usize {
    let cases = list["cases"].as_array().unwrap().iter();
    cases
        .map(|case| {
            let mut scenarios = report.scenarios.iter();
            let ours = scenarios
                .find(|scenario| case["id"] == scenario.id.as_str())
                .unwrap_or_else(|| panic!("no scenario {}", case["id"]));
            let mut results = ours.results.iter();
            compare(case, results.find(|p| p.level == level).unwrap())
        })
        .sum()
}

#[test]
fn postgres_step_by_step() {
    let Some(reference) = reference() else { return };
    on_postgres(async |target| {
        let scripts = scripts_of(Suite::Hermitage).unwrap();
        let report = played(&target, &scripts, &common::LEVELS).await;
        let lists = lists(&reference, "postgresql");
        assert_eq!(lists.len(), 3);
        let steps = lists
            .iter()
            .map(|(level, list)| compare_list(list, *level, &report));
        let steps: usize = steps.sum();
        println!("{steps} steps");
        assert!(steps > 150);
    });
}

#[test]
fn dsql_step_by_step_on_the_simulator() {
    let Some(reference) = reference() else { return };
    on_simulator("single-region", FaultPlan::default(), async |target| {
        let scripts = scripts_of(Suite::Hermitage).unwrap();
        let report = played(&target, &scripts, &[Isolation::RepeatableRead]).await;
        let lists = lists(&reference, "aurora-dsql");
        let [(level, list)] = lists[..] else {
            panic!("{} lists", lists.len())
        };
        let steps = compare_list(list, level, &report);
        println!("{steps} steps");
        assert!(steps > 100);
    });
}
