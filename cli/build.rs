//! Tells the command which commit it was built from, where that can be known.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../.git/HEAD");
    println!("cargo:rerun-if-changed=../.git/refs/heads");
    let commit = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output();
    if let Ok(commit) = commit
        && commit.status.success()
    {
        let commit = String::from_utf8_lossy(&commit.stdout);
        println!("cargo:rustc-env=FABRIC_COMMIT={}", commit.trim());
    }
}
