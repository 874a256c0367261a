//! What is refused, is refused before anything starts: one line on stderr that
//! names the place and what to do, exit code 1, nothing written.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ran, fabric, out_dir, sweep_file};

/// One line, exit code 1, nothing on stdout, nothing in the output folder.
#[track_caller]
fn refused(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.stdout, "", "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.starts_with("error: "), "{ran:?}");
    for word in words {
        assert!(ran.stderr.contains(word), "'{word}' is missing: {ran:?}");
    }
}

#[test]
fn sweep_files() {
    let block = |inner: &str| {
        format!(
            r#"{{"name": "t", "preset": "us-pair-in-region", "blocks": [{{"name": "A", "workload": "append", {inner}}}]}}"#
        )
    };
    for (text, words) in [
        ("{".to_owned(), vec!["line 1"]),
        ("[]".to_owned(), vec!["object"]),
        (block(r#""writers": 0"#), vec!["blocks[0].writers", "1"]),
        (block(r#""batch": 0"#), vec!["blocks[0].batch", "100"]),
        (
            block(r#""batch": [1, 101]"#),
            vec!["blocks[0].batch[1]", "100"],
        ),
        (block(r#""writers": -4"#), vec!["blocks[0].writers"]),
        (block(r#""writers": 1e12"#), vec!["blocks[0].writers"]),
        (
            block(r#""writers": []"#),
            vec!["blocks[0].writers", "empty"],
        ),
        (block(r#""writer": 4"#), vec!["blocks[0].writer", "writers"]),
        (
            block(r#""trips": "fast""#),
            vec!["stepwise", "pipelined", "sticky"],
        ),
        (
            block(r#""placement": "mars""#),
            vec!["mars", "us-east-1", "us-east-2"],
        ),
        (block(r#""reps": 0"#), vec!["blocks[0].reps"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = sweep_file(dir.path(), &text);
        let out = out_dir(dir.path());
        let ran = fabric(&["run", &file, "--out", &out]);
        refused(&ran, &words);
        assert!(!std::path::Path::new(&out).join("summary.json").exists());
    }
}

#[test]
fn what_a_target_has_not() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"name": "t", "preset": "single-region", "blocks": [
        {"name": "A", "workload": "append", "isolation": "serializable"}]}"#;
    let file = sweep_file(dir.path(), text);
    let out = out_dir(dir.path());
    let ran = fabric(&["run", &file, "--out", &out]);
    refused(&ran, &["cell A", "SERIALIZABLE", "repeatable_read"]);
    assert!(!std::path::Path::new(&out).exists());
}

#[test]
fn fault_plans() {
    let sweep = common::shipped("quickstart.json");
    for (plan, words) in [
        (
            r#"{"drop_after_commit": 2}"#,
            vec!["drop_after_commit", "between 0 and 1"],
        ),
        (r#"{"drop_after_commit": -1}"#, vec!["drop_after_commit"]),
        (
            r#"{"drop_before_commit": 0.6, "drop_after_commit": 0.6}"#,
            vec!["over 1"],
        ),
        (r#"{"late_ms": {"min": 10, "max": 1}}"#, vec!["late_ms"]),
        (
            r#"{"frozen": [{"endpoint": 9, "from_ms": 0, "to_ms": 5}]}"#,
            vec!["endpoint 9"],
        ),
        (
            r#"{"frozen": [{"endpoint": 0, "from_ms": 0, "to_ms": 1e18}]}"#,
            vec!["frozen"],
        ),
        (r#"{"drop": 0.1}"#, vec!["drop_before_commit"]),
        ("no/such/file", vec!["no/such/file"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let out = out_dir(dir.path());
        refused(
            &fabric(&["run", &sweep, "--faults", plan, "--out", &out]),
            &words,
        );
    }
    let Some(url) = common::postgres() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = out_dir(dir.path());
    let faults = r#"{"drop_after_commit": 0.1}"#;
    let ran = fabric(&[
        "run", &sweep, "--on", &url, "--faults", faults, "--out", &out,
    ]);
    refused(&ran, &["--faults", "simulator"]);
}

#[test]
fn a_missing_sweep_file() {
    refused(
        &fabric(&["run", "no/such/sweep.json"]),
        &["no/such/sweep.json", "read"],
    );
}

#[test]
fn targets_that_are_not_there() {
    let sweep = common::shipped("quickstart.json");
    let run = |on: &str| {
        let dir = tempfile::tempdir().unwrap();
        fabric(&["run", &sweep, "--on", on, "--out", &out_dir(dir.path())])
    };
    refused(&run("sim:mars"), &["mars", "us-pair-workstation"]);
    refused(&run("oracle://x"), &["sim:", "postgres://", "dsql://"]);
    refused(
        &run("postgres://user:hunter2@127.0.0.1:1/db"),
        &["127.0.0.1:1"],
    );
    let ran = run("postgres://user:hunter2@127.0.0.1:1/db");
    assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    refused(&run("nobody=sim:single-region"), &["nobody"]);
}

#[test]
fn refused_credentials() {
    let Some(url) = common::postgres() else {
        return;
    };
    let (_, host) = url.rsplit_once('@').unwrap();
    let sweep = common::shipped("quickstart.json");
    let wrong = format!("postgres://no_such_role:hunter2@{host}");
    let dir = tempfile::tempdir().unwrap();
    let ran = fabric(&["run", &sweep, "--on", &wrong, "--out", &out_dir(dir.path())]);
    refused(&ran, &["no_such_role"]);
    assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
}

#[test]
fn an_output_folder_that_cannot_be_written() {
    let sweep = common::shipped("quickstart.json");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let out = file.join("out");
    let ran = fabric(&["run", &sweep, "--out", out.to_str().unwrap()]);
    refused(&ran, &["file"]);
}

#[test]
fn flags() {
    for (args, words) in [
        (vec!["append", "--batch", "101"], vec!["--batch", "100"]),
        (vec!["append", "--batch", "0"], vec!["--batch"]),
        (vec!["append", "--writers", "0"], vec!["--writers"]),
        (vec!["append", "--trips", "fast"], vec!["stepwise"]),
        (
            vec!["sim", "serve", "--preset", "mars"],
            vec!["mars", "single-region"],
        ),
        (vec!["show", "no/such/dir"], vec!["no/such/dir"]),
        (vec!["verify", "no/such/file"], vec!["no/such/file"]),
        (vec!["run"], vec!["SWEEP", "--help"]),
        (vec!["fly"], vec!["fly"]),
        (vec!["append", "--seed", "-1"], vec!["-1"]),
        (vec!["append", "--jobs", "0"], vec!["--jobs", "1..=1024"]),
    ] {
        refused(&fabric(&args), &words);
    }
}

#[test]
fn usage_errors_exit_with_1_and_help_with_0() {
    assert_eq!(fabric(&["run"]).code, 1);
    assert_eq!(fabric(&["fly"]).code, 1);
    for verb in ["plan", "run", "append", "show", "verify", "sim"] {
        let help = fabric(&[verb, "--help"]);
        assert_eq!(help.code, 0, "{help:?}");
    }
}

/// Nobody answers at the address; the password in it is nobody else's business.
#[test]
fn no_error_prints_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let block = r#"{"name": "t", "blocks": [{"name": "A", "workload": "append"}]}"#;
    let file = sweep_file(dir.path(), block);
    let out = out_dir(dir.path());
    let url = "postgres://user:s3cret-mark@127.0.0.1:1/db";
    for args in [
        vec!["run", &file, "--on", url, "--out", &out],
        vec!["verify", "--on", url],
        vec!["isolation", "--on", url],
    ] {
        let ran = fabric(&args);
        assert_ne!(ran.code, 0, "{ran:?}");
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!text.contains("s3cret-mark"), "{ran:?}");
        assert!(text.contains("127.0.0.1"), "{ran:?}");
    }
}
