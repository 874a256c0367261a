//! Hermitage: what DSQL does, step by step, in the situations that tell
//! isolation levels apart.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{Answer, Client, reference};
use fabric_engine::{Engine, Limits};
use serde_json::Value as Json;

fn check(answer: &Answer, expect: &Json) -> Result<(), String> {
    let kind = expect["kind"].as_str().unwrap_or_default();
    match (kind, &answer.result) {
        ("error", Err(error)) => {
            let same = Some(error.sqlstate) == expect["sqlstate"].as_str()
                && Some(error.message.as_str()) == expect["message"].as_str();
            same.then_some(())
                .ok_or_else(|| format!("{} {}", error.sqlstate, error.message))
        }
        ("error", Ok(done)) => Err(format!("no error but {}", done.tag)),
        (_, Err(error)) => Err(format!("{} {}", error.sqlstate, error.message)),
        ("ok", Ok(_)) => Ok(()),
        ("affected", Ok(done)) => {
            let count = done
                .tag
                .rsplit(' ')
                .next()
                .and_then(|n| n.parse::<u64>().ok());
            (count == expect["rows_affected"].as_u64())
                .then_some(())
                .ok_or_else(|| done.tag.clone())
        }
        ("rows", Ok(_)) => {
            let mut rows = answer.text_rows();
            rows.sort();
            let wanted: Vec<Vec<Option<String>>> = expect["rows"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|row| {
                    let cells = row.as_array().into_iter().flatten();
                    cells.map(|cell| Some(cell.to_string())).collect()
                })
                .collect();
            (rows == wanted)
                .then_some(())
                .ok_or_else(|| format!("{rows:?}"))
        }
        (other, _) => Err(format!("unknown expectation {other}")),
    }
}

#[test]
fn every_step_ends_as_on_dsql() {
    let Some(suite) = reference("hermitage.json") else {
        println!("skipped: no reference data");
        return;
    };
    let list = suite["lists"]
        .as_array()
        .unwrap()
        .iter()
        .find(|list| list["engine"] == "aurora-dsql")
        .unwrap();
    let mut steps = 0;
    for case in list["cases"].as_array().unwrap() {
        let engine = Engine::new(Limits::default());
        let mut setup = Client::new(&engine);
        for sql in suite["setup"].as_array().unwrap() {
            setup.ok(sql.as_str().unwrap());
        }
        let mut clients: BTreeMap<String, Client> = BTreeMap::new();
        for step in case["steps"].as_array().unwrap() {
            let name = step["session"].as_str().unwrap().to_owned();
            let client = clients.entry(name).or_insert_with(|| Client::new(&engine));
            let sql = step["sql"].as_str().unwrap();
            if let Err(got) = check(&client.extended(sql), &step["expect"]) {
                panic!(
                    "{} step {}: {sql}: {got}, wanted {}",
                    case["id"], step["n"], step["expect"]
                );
            }
            steps += 1;
        }
    }
    println!("{steps} steps");
    assert!(steps > 100);
}
