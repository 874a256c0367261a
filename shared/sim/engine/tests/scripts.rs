//! Golden scripts: one scenario a file, told in comments, with what comes back
//! written below every statement.
//!
//! ```text
//! # Prose.
//! a> BEGIN
//! BEGIN
//! b> UPDATE t SET v = 2
//!  . WHERE id = 1
//! UPDATE 1
//! clock> +5s
//! ```
//!
//! `name> SQL` sends a simple Query message on the session of that name, which
//! begins to exist then; lines that begin with ` . ` continue it. Below it
//! stand its rows (`|` between columns, `NULL` for NULL, `''` for a row that
//! would be an empty line), then its tag; notices
//! come first, and an error is `ERROR sqlstate message`. `clock> +5s` lets time
//! pass for all; `limits> rows=5 bytes=100 age=10s` makes a new database;
//! `drop> name` ends a session as a lost connection does.
//!
//! `UPDATE_SCRIPTS=1 cargo test -p fabric-engine --test scripts` writes what
//! comes back into the files, to be read before it is kept.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use common::Client;
use fabric_engine::{Engine, Limits, SqlError};

fn show_error(out: &mut String, error: &SqlError) {
    let _ = writeln!(out, "ERROR {} {}", error.sqlstate, error.message);
    if let Some(detail) = &error.detail {
        let _ = writeln!(out, "DETAIL {detail}");
    }
    if let Some(hint) = &error.hint {
        let _ = writeln!(out, "HINT {hint}");
    }
}

fn seconds(text: &str) -> u64 {
    let number = text.trim_start_matches('+').trim_end_matches('s');
    (number.parse::<f64>().unwrap() * 1e6) as u64
}

struct Runner {
    engine: Engine,
    sessions: BTreeMap<String, Client>,
    now_us: u64,
    /// Names of jobs, by the order in which they were seen.
    jobs: Vec<String>,
}

impl Runner {
    fn new(limits: Limits) -> Runner {
        Runner {
            engine: Engine::new(limits),
            sessions: BTreeMap::new(),
            now_us: 0,
            jobs: Vec::new(),
        }
    }

    /// Job names are random; they are shown, and written, as `job1` and so on.
    fn hide_jobs(&mut self, cell: String) -> String {
        let is_job = cell.len() == 26
            && cell
                .bytes()
                .all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b));
        if !is_job {
            return cell;
        }
        let at = self
            .jobs
            .iter()
            .position(|job| *job == cell)
            .unwrap_or_else(|| {
                self.jobs.push(cell);
                self.jobs.len() - 1
            });
        format!("<job{}>", at + 1)
    }

    fn send(&mut self, name: &str, sql: &str) -> String {
        let mut sql = sql.to_owned();
        for (i, job) in self.jobs.iter().enumerate() {
            sql = sql.replace(&format!("<job{}>", i + 1), job);
        }
        let engine = self.engine.clone();
        let client = self
            .sessions
            .entry(name.to_owned())
            .or_insert_with(|| Client::new(&engine));
        client.now_us = self.now_us;
        let answers = client.simple(&sql);
        let mut out = String::new();
        for answer in answers {
            match &answer.result {
                Err(error) => show_error(&mut out, error),
                Ok(done) => {
                    for notice in &done.notices {
                        let _ = writeln!(out, "NOTICE {} {}", notice.sqlstate, notice.message);
                    }
                    for row in answer.text_rows() {
                        let cells: Vec<String> = row
                            .into_iter()
                            .map(|cell| self.hide_jobs(cell.unwrap_or_else(|| "NULL".to_owned())))
                            .collect();
                        let line = cells.join("|");
                        let _ = writeln!(out, "{}", if line.is_empty() { "''" } else { &line });
                    }
                    let _ = writeln!(out, "{}", done.tag);
                    if done.not_before_us > self.now_us {
                        let wait = (done.not_before_us - self.now_us) as f64 / 1e6;
                        let _ = writeln!(out, "(answered after {wait} s)");
                    }
                }
            }
        }
        out
    }

    fn command(&mut self, name: &str, text: &str) -> String {
        match name {
            "clock" => {
                self.now_us += seconds(text);
                String::new()
            }
            "drop" => {
                self.sessions.remove(text);
                String::new()
            }
            "limits" => {
                let mut limits = Limits::default();
                for part in text.split_whitespace() {
                    match part.split_once('=') {
                        Some(("rows", n)) => limits.rows_per_transaction = n.parse().unwrap(),
                        Some(("bytes", n)) => limits.bytes_per_transaction = n.parse().unwrap(),
                        Some(("age", n)) => limits.transaction_age_us = seconds(n),
                        _ => panic!("unknown limit {part}"),
                    }
                }
                *self = Runner::new(limits);
                String::new()
            }
            _ => self.send(name, text),
        }
    }
}

/// The script with what comes back now.
fn replay(script: &str) -> String {
    let mut runner = Runner::new(Limits::default());
    let mut out = String::new();
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            let _ = writeln!(out, "{line}");
            continue;
        }
        let command = line.split_once("> ").filter(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        let Some((name, first)) = command else {
            // What came back before.
            continue;
        };
        let _ = writeln!(out, "{line}");
        let mut text = first.to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with(" . ")) {
            let _ = writeln!(out, "{more}");
            text.push('\n');
            text.push_str(&more[3..]);
        }
        out.push_str(&runner.command(name, &text));
    }
    out
}

#[test]
fn scripts_give_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let update = std::env::var_os("UPDATE_SCRIPTS").is_some();
    let mut different = Vec::new();
    for path in paths {
        let script = std::fs::read_to_string(&path).unwrap();
        let now = replay(&script);
        if now == script {
            continue;
        }
        if update {
            std::fs::write(&path, now).unwrap();
            continue;
        }
        let line = script.lines().zip(now.lines()).position(|(a, b)| a != b);
        let at = line.unwrap_or(script.lines().count().min(now.lines().count()));
        different.push(format!(
            "{}:{}: says {:?}, gives {:?}",
            path.display(),
            at + 1,
            script.lines().nth(at).unwrap_or(""),
            now.lines().nth(at).unwrap_or(""),
        ));
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
