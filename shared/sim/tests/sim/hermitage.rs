//! Hermitage's isolation anomalies, step by step over the wire.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use sim::FaultPlan;

use crate::common::{Raw, Reply, cluster, simulated};

#[derive(Deserialize)]
struct Suite {
    setup: Vec<String>,
    lists: Vec<List>,
}

#[derive(Deserialize)]
struct List {
    engine: String,
    cases: Vec<Case>,
}

#[derive(Clone, Deserialize)]
struct Case {
    id: String,
    steps: Vec<Step>,
}

#[derive(Clone, Deserialize)]
struct Step {
    n: u32,
    session: String,
    sql: String,
    expect: Expect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Expect {
    Ok,
    Rows { rows: Vec<Vec<serde_json::Value>> },
    Affected { rows_affected: u64 },
    Error { sqlstate: String, message: String },
}

#[test]
fn dsql_steps() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/hermitage.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("skipped: no reference data");
        return;
    };
    // PostgreSQL's list knows steps that block; only DSQL's is read.
    let mut suite: serde_json::Value = serde_json::from_str(&text).unwrap();
    let lists = suite["lists"].as_array_mut().unwrap();
    lists.retain(|list| list["engine"] == "aurora-dsql");
    let suite: Suite = serde_json::from_value(suite).unwrap();
    assert!(suite.lists.iter().any(|list| list.engine == "aurora-dsql"));
    let mut steps = 0;
    for case in suite.lists.iter().flat_map(|list| &list.cases) {
        steps += case.steps.len();
        let (case, setup) = (case.clone(), suite.setup.clone());
        simulated(async move |clock| run(&case, &setup, clock).await);
    }
    println!("hermitage: all {steps} steps");
}

async fn run(case: &Case, setup: &[String], clock: clock::Clock) {
    let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
    let mut first = Raw::login(&cluster, 0).await;
    for sql in setup {
        first.query(sql).replies().await;
    }
    let mut sessions: BTreeMap<&str, Raw> = BTreeMap::new();
    for step in &case.steps {
        let place = format!("{} step {}: {}", case.id, step.n, step.sql);
        if !sessions.contains_key(step.session.as_str()) {
            let raw = Raw::login(&cluster, sessions.len() % 2).await;
            sessions.insert(&step.session, raw);
        }
        let raw = sessions.get_mut(step.session.as_str()).unwrap();
        let replies = raw.query(&step.sql).replies().await;
        check(&step.expect, &replies, &place);
    }
}

fn check(expect: &Expect, replies: &[Reply], place: &str) {
    let error = replies.iter().find_map(|reply| match reply {
        Reply::Error(report) => Some((report.sqlstate.as_str(), report.message.as_str())),
        _ => None,
    });
    if let Expect::Error { sqlstate, message } = expect {
        assert_eq!(
            error,
            Some((sqlstate.as_str(), message.as_str())),
            "{place}"
        );
        return;
    }
    assert_eq!(error, None, "{place}");
    match expect {
        Expect::Ok | Expect::Error { .. } => {}
        Expect::Affected { rows_affected } => {
            let tag = replies.iter().find_map(|reply| match reply {
                Reply::Tag(tag) => tag.rsplit(' ').next(),
                _ => None,
            });
            assert_eq!(tag, Some(rows_affected.to_string().as_str()), "{place}");
        }
        Expect::Rows { rows } => {
            let mut got: Vec<Vec<_>> = replies
                .iter()
                .filter_map(|reply| match reply {
                    Reply::Row(row) => Some(row.clone()),
                    _ => None,
                })
                .collect();
            let mut wanted: Vec<Vec<_>> = rows
                .iter()
                .map(|row| row.iter().map(text).collect())
                .collect();
            got.sort();
            wanted.sort();
            assert_eq!(got, wanted, "{place}");
        }
    }
}

fn text(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
