//! `fabric isolation` as a user runs it.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{fabric, out_dir, postgres};

#[test]
fn on_the_simulator_by_default() {
    let dir = tempfile::tempdir().unwrap();
    let out = out_dir(dir.path());
    let ran = fabric(&["isolation", "--suite", "e004", "--out", &out]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("SIMULATED"), "{}", ran.stdout);
    assert!(ran.stdout.contains("lost update (P4)"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("Hermitage"), "{}", ran.stdout);
    let text = std::fs::read_to_string(format!("{out}/isolation.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["complete"], true);
    assert_eq!(json["scenarios"].as_array().unwrap().len(), 5);
    let page = std::fs::read_to_string(format!("{out}/isolation.html")).unwrap();
    assert!(page.contains("lost update (P4)"));

    let ran = fabric(&["isolation", "--suite", "e004", "--json"]);
    assert_eq!(ran.stdout, text);
}

#[test]
fn one_level_and_every_step() {
    let ran = fabric(&[
        "isolation",
        "--suite",
        "hermitage",
        "--level",
        "repeatable_read",
        "--steps",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.stdout.contains("SERIALIZABLE"), "{}", ran.stdout);
    assert!(ran.stdout.contains("(OC000)"), "{}", ran.stdout);
}

#[test]
fn on_postgres() {
    let Some(url) = postgres() else { return };
    let ran = fabric(&["isolation", "--on", &url, "--suite", "e004"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("deadlock: 40P01"), "{}", ran.stdout);
}

#[test]
fn an_interrupted_run_drops_its_tables() {
    let Some(url) = postgres() else { return };
    let mut child = Command::new(env!("CARGO_BIN_EXE_fabric"))
        .args(["isolation", "--on", &url, "--suite", "e004"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The deadlocks alone take three seconds.
    clock::real_runtime()
        .unwrap()
        .block_on(clock::Clock::real().sleep(std::time::Duration::from_millis(1_000)));
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let told: Vec<String> = stderr.lines().map(Result::unwrap).collect();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{text}");
    assert!(told[0].contains("dropping tables"), "{told:?}");
    assert!(text.contains("NOT PLAYED"), "{text}");
    assert!(text.contains("stopped"), "{text}");
    assert!(!text.contains("drop by hand"), "{text}");
}

#[test]
fn what_is_refused() {
    for (args, words) in [
        (vec!["--on", "sim:mars"], vec!["mars", "single-region"]),
        (
            vec!["--on", "mysql://u:secret@h/d"],
            vec!["--on", "postgres://"],
        ),
        (vec!["--suite", "all-of-it"], vec!["e004", "hermitage"]),
        (vec!["--level", "snapshot"], vec!["repeatable_read"]),
        (vec!["--json", "--steps"], vec!["--steps"]),
        (
            vec!["--on", "postgres://u:secret@127.0.0.1:1/d"],
            vec!["postgres://u@127.0.0.1:1/d"],
        ),
    ] {
        let ran = fabric(&[vec!["isolation"], args].concat());
        assert_eq!(ran.code, 1, "{ran:?}");
        assert_eq!(ran.stdout, "", "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
        for word in words {
            assert!(ran.stderr.contains(word), "'{word}' is missing: {ran:?}");
        }
    }
}
