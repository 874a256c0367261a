//! Statements that were sent to a real Aurora DSQL cluster, and what it
//! answered. Groups that this simulator covers must answer alike; of the others
//! it must answer alike or say `simulator: …`.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{Answer, Client, reference};
use fabric_engine::{Engine, Limits};
use serde_json::Value as Json;

/// Cases that answer as recorded, and all, per group: it never gets worse.
const SCORES: &[(&str, usize, usize)] = &[
    ("alters", 15, 15),
    ("backlog", 4, 4),
    ("enum", 8, 8),
    ("environment", 8, 8),
    ("index", 11, 11),
    ("isolation", 4, 4),
    ("multi_statement", 5, 5),
    ("occ", 3, 3),
    ("occ_conflict", 8, 8),
    ("queries", 50, 53),
    ("supported", 18, 18),
    ("transaction", 11, 11),
    ("types", 20, 20),
    ("unsupported", 17, 17),
];

/// Cases whose recorded answer looks like a defect of the service: PostgreSQL
/// runs them, and so does the simulator.
const DEFECTS: &[&str] = &[
    "q_lateral_left_outer_ref",
    "q_lateral_left_no_outer_where",
    "q_lateral_left_outer_ref_cast",
];

fn text(json: &Json) -> Option<String> {
    json.as_str().map(str::to_owned)
}

/// Compares one answer; what differs, or nothing.
fn difference(answer: &Answer, expected: &Json, rows_match: &str) -> Option<String> {
    if expected["outcome"] == "error" {
        let Err(error) = &answer.result else {
            return Some(format!("no error, wanted {}", expected["message"]));
        };
        let got = (Some(error.sqlstate.to_owned()), Some(error.message.clone()));
        let want = (text(&expected["sqlstate"]), text(&expected["message"]));
        return (got != want).then(|| format!("{got:?}, wanted {want:?}"));
    }
    let done = match &answer.result {
        Ok(done) => done,
        Err(error) => return Some(format!("error {} {}", error.sqlstate, error.message)),
    };
    if Some(done.tag.clone()) != text(&expected["command_tag"]) {
        return Some(format!(
            "tag {}, wanted {}",
            done.tag, expected["command_tag"]
        ));
    }
    let columns: Option<Vec<String>> = done
        .columns
        .as_ref()
        .map(|columns| columns.iter().map(|column| column.name.clone()).collect());
    let wanted: Option<Vec<String>> = expected["columns"]
        .as_array()
        .map(|names| names.iter().filter_map(text).collect());
    if columns != wanted {
        return Some(format!("columns {columns:?}, wanted {wanted:?}"));
    }
    let mut wanted: Vec<Vec<Option<String>>> = match expected["rows"].as_array() {
        Some(rows) => rows
            .iter()
            .map(|row| row.as_array().into_iter().flatten().map(text).collect())
            .collect(),
        None => return None,
    };
    let mut rows = answer.text_rows();
    match rows_match {
        "ignore" | "shape" => return None,
        "job_id" => {
            let is_job = rows.iter().flatten().all(|cell| {
                cell.as_ref().is_some_and(|id| {
                    id.len() == 26
                        && id
                            .bytes()
                            .all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b))
                })
            });
            return (!is_job || rows.len() != wanted.len()).then(|| format!("rows {rows:?}"));
        }
        "unordered" => {
            rows.sort();
            wanted.sort();
        }
        _ => {}
    }
    (rows != wanted).then(|| format!("rows {rows:?}, wanted {wanted:?}"))
}

/// Runs a case on an empty database; what differs, one line each.
fn run(case: &Json) -> Vec<String> {
    let engine = Engine::new(Limits::default());
    let mut setup = Client::new(&engine);
    for statement in case["setup_sql"].as_array().into_iter().flatten() {
        let sql = statement.as_str().unwrap();
        let answer = setup.extended(sql);
        if let Err(error) = answer.result {
            return vec![format!("setup {sql}: {} {}", error.sqlstate, error.message)];
        }
    }
    let rows_match = case["rows_match"].as_str().unwrap();
    let sessions = case["sessions"].as_array().unwrap();
    let expected = case["expected"].as_array().unwrap();
    let mut clients: Vec<Client> = sessions.iter().map(|_| Client::new(&engine)).collect();
    let steps = sessions
        .iter()
        .map(|s| s.as_array().unwrap().len())
        .max()
        .unwrap();
    let mut differences = Vec::new();
    // In lockstep, step by step; with a race, the losers are counted instead.
    let race = case["losers"]
        .as_str()
        .is_some_and(|losers| losers != "none");
    let mut lost = 0;
    for step in 0..steps {
        for (i, client) in clients.iter_mut().enumerate() {
            let Some(sql) = sessions[i][step].as_str() else {
                continue;
            };
            let want = &expected[i][step];
            if case["protocol"] == "simple" {
                let answers = client.simple(sql);
                if let Some(wants) = want["results"].as_array() {
                    if answers.len() != wants.len() {
                        differences.push(format!("{sql}: {} answers", answers.len()));
                    }
                    for (answer, want) in answers.iter().zip(wants) {
                        differences.extend(
                            difference(answer, want, rows_match).map(|d| format!("{sql}: {d}")),
                        );
                    }
                } else {
                    let answer = answers.last().unwrap();
                    differences.extend(
                        difference(answer, want, rows_match).map(|d| format!("{sql}: {d}")),
                    );
                }
                continue;
            }
            let answer = client.extended(sql);
            if race && sql == "COMMIT" {
                if let Err(error) = &answer.result {
                    assert_eq!(
                        error.message,
                        "change conflicts with another transaction (OC000)"
                    );
                    lost += 1;
                }
                continue;
            }
            differences
                .extend(difference(&answer, want, rows_match).map(|d| format!("{sql}: {d}")));
        }
    }
    if race && lost != 1 {
        differences.push(format!("{lost} of the COMMITs failed"));
    }
    differences
}

#[test]
fn answers_are_those_of_a_real_cluster() {
    let Some(cases) = reference("dsql_recorded.json") else {
        println!("skipped: no reference data");
        return;
    };
    let mut scores: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in cases["cases"].as_array().unwrap() {
        let group = case["group"].as_str().unwrap();
        let name = case["name"].as_str().unwrap();
        let differences = run(case);
        let score = scores.entry(group.to_owned()).or_default();
        score.1 += 1;
        if differences.is_empty() {
            score.0 += 1;
            continue;
        }
        println!("{group} {name}: {}", differences.join("; "));
        let refused = differences
            .iter()
            .all(|d| d.contains("0A000") && d.contains("simulator: "));
        if !refused && !DEFECTS.contains(&name) {
            wrong.push(name.to_owned());
        }
    }
    for (group, (right, all)) in &scores {
        println!("{group}: {right} of {all}");
    }
    for (group, right, all) in SCORES {
        let now = scores[*group];
        assert!(
            now.0 >= *right && now.1 == *all,
            "{group}: {now:?}, was {right} of {all}"
        );
    }
    assert!(wrong.is_empty(), "answered wrongly: {wrong:?}");
}
