//! Runs the command as a user does.

#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `fabric` in a folder of its own.
pub fn fabric(args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fabric"))
        .args(args)
        .current_dir(dir.path())
        .output()
        .unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Path of a shipped sweep.
pub fn shipped(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../events/sweeps");
    root.join(name).to_str().unwrap().to_owned()
}

/// Writes a sweep file.
pub fn sweep_file(dir: &Path, text: &str) -> String {
    let path = dir.join("sweep.json");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A folder that is not there yet.
pub fn out_dir(dir: &Path) -> String {
    dir.join("out").to_str().unwrap().to_owned()
}

/// The PostgreSQL to test on, if there is one.
pub fn postgres() -> Option<String> {
    let url = std::env::var("FABRIC_TEST_POSTGRES").ok();
    if url.is_none() {
        println!("skipped: no PostgreSQL (set FABRIC_TEST_POSTGRES)");
    }
    url
}

/// The summary of a run.
pub fn summary(out: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(Path::new(out).join("summary.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}
