//! What a real cluster answered, asked again over the wire.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use sim::{Cluster, FaultPlan};

use crate::common::{Raw, Reply, cluster, simulated};

/// Cases of each group that are answered as recorded; a test fails when any
/// of these drops.
const REACHED: &[(&str, usize)] = &[
    ("alters", 15),
    ("backlog", 4),
    ("enum", 8),
    ("environment", 8),
    ("index", 11),
    ("isolation", 4),
    ("multi_statement", 5),
    ("occ", 3),
    ("occ_conflict", 8),
    ("queries", 49),
    ("supported", 18),
    ("transaction", 11),
    ("types", 20),
    ("unsupported", 17),
];

#[derive(Deserialize)]
struct Recording {
    cases: Vec<Case>,
}

#[derive(Clone, Deserialize)]
struct Case {
    group: String,
    name: String,
    setup_sql: Vec<String>,
    protocol: String,
    sessions: Vec<Vec<String>>,
    expected: Vec<Vec<Expected>>,
    rows_match: String,
    #[serde(default)]
    losers: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Expected {
    outcome: String,
    sqlstate: Option<String>,
    message: Option<String>,
    command_tag: Option<String>,
    columns: Option<Vec<String>>,
    rows: Option<Vec<Vec<Option<String>>>>,
    #[serde(default)]
    results: Option<Vec<Expected>>,
}

#[test]
fn recorded_answers() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/dsql_recorded.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("skipped: no reference data");
        return;
    };
    let recording: Recording = serde_json::from_str(&text).unwrap();
    let mut scores: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    let mut totals: BTreeMap<String, usize> = BTreeMap::new();
    for case in &recording.cases {
        *totals.entry(case.group.clone()).or_default() += 1;
        let (right, wrong) = scores.entry(case.group.clone()).or_default();
        let case = case.clone();
        match simulated(async move |clock| run(case, clock).await) {
            Ok(()) => *right += 1,
            Err(why) => wrong.push(why),
        }
    }
    for (group, (right, wrong)) in &scores {
        println!("{group}: {right} of {}", totals[group]);
        for why in wrong {
            println!("    {why}");
        }
    }
    for (group, reached) in REACHED {
        let (right, _) = &scores[*group];
        assert!(
            right >= reached,
            "{group}: {right} of {}, it was {reached}",
            totals[*group]
        );
    }
}

async fn run(case: Case, clock: clock::Clock) -> Result<(), String> {
    let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
    set_up(&cluster, &case).await?;
    let mut sessions = Vec::new();
    for _ in &case.sessions {
        sessions.push(Raw::login(&cluster, sessions.len() % 2).await);
    }
    // Step by step, each session's next one in turn.
    let mut got = vec![Vec::new(); case.sessions.len()];
    let longest = case.sessions.iter().map(Vec::len).max().unwrap_or(0);
    for step in 0..longest {
        for (at, raw) in sessions.iter_mut().enumerate() {
            if let Some(sql) = case.sessions[at].get(step) {
                got[at].push(ask(raw, &case.protocol, sql).await);
            }
        }
    }
    compare(&case, &got).map_err(|why| format!("{}: {why}", case.name))
}

async fn set_up(cluster: &Cluster, case: &Case) -> Result<(), String> {
    let mut raw = Raw::login(cluster, 0).await;
    for sql in &case.setup_sql {
        let answer = ask(&mut raw, "simple", sql).await;
        if let Some(Answer {
            error: Some((code, message)),
            ..
        }) = answer.last()
        {
            return Err(format!("{}: setup: {sql}: {code} {message}", case.name));
        }
    }
    Ok(())
}

/// What one statement was answered.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answer {
    error: Option<(String, String)>,
    tag: Option<String>,
    columns: Option<Vec<String>>,
    rows: Vec<Vec<Option<String>>>,
}

async fn ask(raw: &mut Raw, protocol: &str, sql: &str) -> Vec<Answer> {
    if protocol == "simple" {
        raw.query(sql);
    } else {
        raw.parse("", sql)
            .bind("", "", &[])
            .describe(b'P', "")
            .execute("", 0)
            .sync();
    }
    let mut answers = vec![Answer::default()];
    for reply in raw.replies().await {
        let last = answers.len() - 1;
        let answer = &mut answers[last];
        match reply {
            Reply::Columns(columns) => {
                answer.columns = Some(columns.into_iter().map(|(name, ..)| name).collect());
            }
            Reply::Row(row) => answer.rows.push(row),
            Reply::Tag(tag) => {
                answer.tag = Some(tag);
                answers.push(Answer::default());
            }
            Reply::Error(report) => answer.error = Some((report.sqlstate, report.message)),
            _ => {}
        }
    }
    if answers.last() == Some(&Answer::default()) && answers.len() > 1 {
        answers.pop();
    }
    answers
}

/// Which COMMIT of a race failed differed from recording to recording: there,
/// how many fail is what holds.
fn compare(case: &Case, got: &[Vec<Vec<Answer>>]) -> Result<(), String> {
    let race = case.losers.as_deref();
    if let Some(race) = race {
        let losers: Vec<_> = got.iter().filter_map(|answers| lost(answers)).collect();
        let as_recorded = match race {
            "none" => losers.is_empty(),
            "exactly_one_either" => losers.len() == 1,
            _ => !losers.is_empty(),
        };
        let recorded = case.expected.iter().rev();
        let message = recorded
            .filter_map(|expected| expected.last()?.message.clone())
            .next();
        if !as_recorded
            || losers
                .iter()
                .any(|loser| Some(&loser.1) != message.as_ref())
        {
            return Err(format!("losers: {losers:?}, recorded {race} {message:?}"));
        }
    }
    for (session, expected) in case.expected.iter().enumerate() {
        let decided = expected.len() - usize::from(race.is_some());
        for (step, expected) in expected.iter().take(decided).enumerate() {
            let answers = &got[session][step];
            let sql = &case.sessions[session][step];
            let fits = match &expected.results {
                Some(results) => {
                    results.len() == answers.len()
                        && results
                            .iter()
                            .zip(answers)
                            .all(|(e, a)| fit(e, a, &case.rows_match))
                }
                None => answers
                    .last()
                    .is_some_and(|answer| fit(expected, answer, &case.rows_match)),
            };
            if !fits {
                let short = |text: String| text.chars().take(300).collect::<String>();
                return Err(format!(
                    "{}\n        got      {}\n        expected {}",
                    short(sql.clone()),
                    short(format!("{answers:?}")),
                    short(format!("{expected:?}"))
                ));
            }
        }
    }
    Ok(())
}

/// The error of a session's last step, its COMMIT.
fn lost(answers: &[Vec<Answer>]) -> Option<(String, String)> {
    answers.last()?.last()?.error.clone()
}

fn fit(expected: &Expected, answer: &Answer, rows_match: &str) -> bool {
    if expected.outcome == "error" {
        let wanted = (&expected.sqlstate, &expected.message);
        return answer.error.as_ref().is_some_and(|(code, message)| {
            wanted.0.as_ref() == Some(code) && wanted.1.as_ref() == Some(message)
        });
    }
    if answer.error.is_some() || expected.command_tag != answer.tag {
        return false;
    }
    if expected.columns != answer.columns {
        return false;
    }
    let Some(rows) = &expected.rows else {
        return answer.rows.is_empty();
    };
    match rows_match {
        "ignore" => true,
        "shape" => rows.len() == answer.rows.len(),
        "unordered" => {
            let mut pair = [rows.clone(), answer.rows.clone()];
            pair.iter_mut().for_each(|rows| rows.sort());
            pair[0] == pair[1]
        }
        "job_id" => rows
            .iter()
            .flatten()
            .zip(answer.rows.iter().flatten())
            .all(|(wanted, got)| match (wanted.as_deref(), got.as_deref()) {
                (Some("<job_id>"), Some(id)) => {
                    id.len() == 26 && id.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7'))
                }
                (wanted, got) => wanted == got,
            }),
        _ => *rows == answer.rows,
    }
}
