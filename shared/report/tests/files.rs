//! A report's folder is written as a whole or not at all.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod sample;

use std::fs;
use std::path::Path;

use fabric_report::{
    FilesError, OpRow, RunInfo, Summary, prepare_folder, read_summary, to_json, write_all,
};

fn summary() -> Summary {
    Summary::build(&sample::sweep(), &sample::cells()[..2])
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_folder_is_written_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("not/there/yet");
    let rows = [OpRow::default(), OpRow::default()];
    write_all(&dir, &summary(), &RunInfo::default(), Some(&rows)).unwrap();
    assert_eq!(
        names(&dir),
        ["ops.jsonl", "report.html", "run.json", "summary.json"]
    );
    assert_eq!(read_summary(&dir).unwrap(), summary());
    assert_eq!(read_summary(&dir.join("summary.json")).unwrap(), summary());
    let lines = fs::read_to_string(dir.join("ops.jsonl")).unwrap();
    for line in lines.lines() {
        assert_eq!(serde_json::from_str::<OpRow>(line).unwrap(), rows[0]);
    }
    assert_eq!(lines.lines().count(), 2);

    // A second run without rows leaves none of the first.
    write_all(&dir, &summary(), &RunInfo::default(), None).unwrap();
    assert_eq!(names(&dir), ["report.html", "run.json", "summary.json"]);
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // A folder stands where a file should be.
    fs::create_dir_all(dir.path().join("summary.json.part")).unwrap();
    let error = write_all(dir.path(), &summary(), &RunInfo::default(), None).unwrap_err();
    assert!(matches!(error, FilesError::Write { .. }));
    let line = error.to_string();
    assert!(
        line.starts_with("can't write ") && line.contains("summary.json"),
        "{line}"
    );
    assert!(!line.contains('\n'));
    assert_eq!(names(dir.path()), ["summary.json.part"]);
}

#[test]
fn a_folder_that_cannot_be_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = prepare_folder(&file.join("report")).unwrap_err();
    assert!(matches!(error, FilesError::Folder { .. }), "{error}");
    prepare_folder(&dir.path().join("good")).unwrap();
    assert!(names(&dir.path().join("good")).is_empty());
}

#[test]
fn what_is_no_summary_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = read_summary(dir.path()).unwrap_err();
    assert!(matches!(error, FilesError::Read { .. }), "{error}");
    let path = dir.path().join("summary.json");
    fs::write(&path, "{").unwrap();
    let error = read_summary(dir.path()).unwrap_err();
    assert!(matches!(error, FilesError::Parse { .. }), "{error}");
    let newer = to_json(&summary())
        .unwrap()
        .replacen("\"version\": 1", "\"version\": 2", 1);
    fs::write(&path, newer).unwrap();
    let error = read_summary(dir.path()).unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
}
