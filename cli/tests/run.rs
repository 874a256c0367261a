//! Whole runs, as a user makes them.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{fabric, out_dir, shipped, summary, sweep_file};

const SMALL: &str = r#"{
    "name": "small", "preset": "us-pair-in-region", "seed": 3,
    "defaults": {"records": 16, "reps": 2},
    "blocks": [
        {"name": "W", "workload": "append", "writers": [1, 4], "raw": true},
        {"name": "T", "workload": "append", "writers": 2, "trips": ["pipelined", "sticky"]}
    ]
}"#;

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_runs_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let file = sweep_file(dir.path(), SMALL);
    let run = |name: &str, more: &[&str]| {
        let out = dir.path().join(name);
        let mut args = vec!["run", &file, "--out", out.to_str().unwrap()];
        args.extend(more);
        let ran = fabric(&args);
        assert_eq!(ran.code, 0, "{ran:?}");
        ["summary.json", "ops.jsonl"].map(|file| std::fs::read(out.join(file)).unwrap())
    };
    let first = run("a", &["--jobs", "1"]);
    assert_eq!(first, run("b", &["--jobs", "4"]));
    assert_ne!(first, run("c", &["--seed", "4"]));
}

#[test]
fn a_run_leaves_all_of_its_files_and_show_prints_them_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = sweep_file(dir.path(), SMALL);
    let out = out_dir(dir.path());
    let ran = fabric(&["run", &file, "--out", &out]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for file in ["summary.json", "run.json", "report.html", "ops.jsonl"] {
        assert!(Path::new(&out).join(file).exists(), "{file}");
    }
    assert!(ran.stdout.contains("SIMULATED"), "{ran:?}");
    let shown = fabric(&["show", &out]);
    assert_eq!(shown.stdout, ran.stdout);
    let rows = std::fs::read_to_string(Path::new(&out).join("ops.jsonl")).unwrap();
    // Only block W keeps rows: 2 cells of 16 records, 2 reps.
    assert_eq!(rows.lines().count(), 64);

    let summary = summary(&out);
    for cell in summary["cells"].as_array().unwrap() {
        for rep in cell["reps"].as_array().unwrap() {
            let n = |name: &str| rep[name].as_u64().unwrap();
            let failed: u64 = rep["failed"]
                .as_object()
                .unwrap()
                .values()
                .map(|n| n.as_u64().unwrap())
                .sum();
            let sum = n("committed")
                + n("rejected")
                + failed
                + n("skipped")
                + n("unfinished")
                + n("lost");
            assert_eq!(n("planned"), sum);
            assert_eq!(rep["verify"]["ok"], true);
            assert_eq!(rep["valid"], true);
        }
    }
}

#[test]
fn a_threshold_that_is_broken_exits_with_3() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"name": "limit", "preset": "us-pair-in-region", "blocks": [
        {"name": "A", "workload": "append", "records": 4, "reps": 1,
         "thresholds": [{"figure": "throughput_per_s", "min": 1000000}]}]}"#;
    let ran = fabric(&[
        "run",
        &sweep_file(dir.path(), text),
        "--out",
        &out_dir(dir.path()),
    ]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("throughput_per_s"), "{ran:?}");
}

#[test]
fn append_takes_the_flags_of_the_seeds_harness() {
    let plan = fabric(&[
        "append",
        "--writers",
        "8",
        "--appends-per-writer",
        "16",
        "--streams",
        "4",
        "--dry-run",
    ]);
    assert_eq!(plan.code, 0, "{plan:?}");
    assert!(plan.stdout.contains("1536"), "{plan:?}");

    let dir = tempfile::tempdir().unwrap();
    let out = out_dir(dir.path());
    let ran = fabric(&[
        "append",
        "--writers",
        "8",
        "--appends-per-writer",
        "50",
        "--batch",
        "50",
        "--reps",
        "1",
        "--out",
        &out,
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let merged = &summary(&out)["cells"][0]["merged"];
    assert_eq!(merged["committed"], 8);
    assert_eq!(merged["records"], 400);
}

#[test]
fn faults_are_survived_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let out = out_dir(dir.path());
    let ran = fabric(&[
        "append",
        "--writers",
        "4",
        "--appends-per-writer",
        "16",
        "--reps",
        "3",
        "--out",
        &out,
        "--faults",
        r#"{"drop_after_commit": 0.1, "drop_before_commit": 0.1, "drop_late_commit": 0.1}"#,
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let merged = &summary(&out)["cells"][0]["merged"];
    assert!(merged["unknown"]["committed"].as_u64().unwrap() > 0);
    assert!(merged["unknown"]["absent"].as_u64().unwrap() > 0);
    assert_eq!(merged["unknown"]["unresolved"], 0);
}

#[test]
fn a_warm_up_before_a_number_of_records_is_not_measured() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"name": "w", "preset": "us-pair-in-region", "blocks": [
        {"name": "A", "workload": "append", "records": 100, "warmup_s": 1, "reps": 1}]}"#;
    let out = out_dir(dir.path());
    let ran = fabric(&["run", &sweep_file(dir.path(), text), "--out", &out]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let rep = &summary(&out)["cells"][0]["reps"][0];
    let committed = rep["committed"].as_u64().unwrap();
    assert!((1..100).contains(&committed), "{committed}");
    assert_eq!(rep["planned"], committed);
    assert_eq!(rep["verify"]["rows"], 100);
}

/// A served simulator, stopped when the test ends.
struct Server(std::process::Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The whole way in: a pair of endpoints, verified TLS, SNI, signed tokens.
#[test]
fn a_served_simulator_is_reached_as_dsql_and_reported_as_simulated() {
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.pem");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric"));
    let child = command
        .args([
            "sim",
            "serve",
            "--preset",
            "us-pair-in-region",
            "--port",
            "0",
        ])
        .args(["--auth", "--ca-file", ca.to_str().unwrap()])
        .env("AWS_ACCESS_KEY_ID", "AKIATEST")
        .env("AWS_SECRET_ACCESS_KEY", "test-secret")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = Server(child);
    let told = std::io::BufReader::new(server.0.stdout.take().unwrap());
    let url = std::io::BufRead::lines(told)
        .map(|line| line.unwrap())
        .find_map(|line| {
            Some(
                line.split_once("--on '")?
                    .1
                    .trim_end_matches('\'')
                    .to_owned(),
            )
        })
        .unwrap();

    let run = |secret: &str, out: &Path| {
        Command::new(env!("CARGO_BIN_EXE_fabric"))
            .args(["append", "--writers", "2", "--appends-per-writer", "4"])
            .args(["--reps", "1", "--on", &url, "--out", out.to_str().unwrap()])
            .env("FABRIC_CA_FILE", &ca)
            .env("AWS_ACCESS_KEY_ID", "AKIATEST")
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .output()
            .unwrap()
    };
    let out = dir.path().join("out");
    let ran = run("test-secret", &out);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let summary = summary(out.to_str().unwrap());
    assert_eq!(summary["simulated"], true);
    let cell = &summary["cells"][0];
    assert_eq!(cell["merged"]["committed"], 8);
    assert_eq!(cell["merged"]["verify"]["ok"], true);
    let endpoints = cell["merged"]["by_endpoint"].as_object().unwrap();
    assert_eq!(
        endpoints.keys().collect::<Vec<_>>(),
        ["us-east-1", "us-east-2"]
    );

    let refused = run("another-secret", &dir.path().join("refused"));
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("access denied"), "{told}");
    assert!(!told.contains("another-secret"));
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_exits_with_2() {
    let Some(url) = common::postgres() else {
        return;
    };
    // A database of its own, so that the rows waited for are this run's.
    let create = [
        "-c",
        "DROP DATABASE IF EXISTS ctrl_c",
        "-c",
        "CREATE DATABASE ctrl_c",
    ];
    let created = Command::new("psql")
        .arg(&url)
        .args(create)
        .output()
        .unwrap();
    assert!(created.status.success(), "{created:?}");
    let (server, _) = url.rsplit_once('/').unwrap();
    let url = format!("{server}/ctrl_c");
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"name": "long", "preset": "us-pair-in-region", "blocks": [
        {"name": "A", "workload": "append", "writers": 2, "measure_s": 600, "reps": 1}]}"#;
    let out = out_dir(dir.path());
    let mut child = Command::new(env!("CARGO_BIN_EXE_fabric"))
        .args([
            "run",
            &sweep_file(dir.path(), text),
            "--on",
            &url,
            "--out",
            &out,
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The schema is there and rows come in: the window is open.
    wait_for_rows(&url);
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(2));
    let summary = summary(&out);
    assert_eq!(summary["partial"], true);
    let merged = &summary["cells"][0]["merged"];
    assert!(merged["committed"].as_u64().unwrap() > 0);
    assert_eq!(merged["verify"]["ok"], true);
    // The window was open for seconds, not for the ten minutes that were planned.
    assert!(merged["span_s"].as_f64().unwrap() < 60.0);
}

/// Waits until a stream has records; at most 30 s.
fn wait_for_rows(url: &str) {
    for _ in 0..300 {
        let found = Command::new("psql")
            .args([
                url,
                "-Atc",
                "SELECT count(*) FROM streams WHERE head_seq > 20",
            ])
            .output()
            .unwrap();
        if String::from_utf8_lossy(&found.stdout)
            .trim()
            .parse::<u64>()
            .is_ok_and(|n| n > 0)
        {
            return;
        }
        Command::new("sleep").arg("0.1").status().unwrap();
    }
    panic!("no rows after 30 s");
}

#[test]
fn the_append_sweep_runs_on_a_real_postgresql() {
    let Some(url) = common::postgres() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = out_dir(dir.path());
    let ran = fabric(&[
        "run",
        &shipped("quickstart.json"),
        "--on",
        &url,
        "--reps",
        "1",
        "--out",
        &out,
    ]);
    assert!(ran.code == 0 || ran.code == 2, "{ran:?}");
    for cell in summary(&out)["cells"].as_array().unwrap() {
        let merged = &cell["merged"];
        let because = &merged["invalid_because"];
        assert_eq!(merged["verify"]["ok"], true, "{}: {because}", cell["id"]);
    }
}
