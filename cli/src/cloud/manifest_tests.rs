//! The manifest through crashes: whatever instant the file ends at, nothing
//! that may exist is forgotten.

#![allow(clippy::unwrap_used)]

use super::*;

fn manifest(dir: &Path) -> Manifest {
    Manifest {
        path: dir.join("state/fabric/manifest.jsonl"),
        cloud: "aws".to_owned(),
        clock: Clock::real(),
    }
}

fn intent<'a>(region: &'a str, name: &'a str) -> Intent<'a> {
    Intent {
        made: Made::DsqlCluster,
        region,
        name,
        stack: Some("fleet"),
    }
}

fn open(contents: &Contents) -> Vec<&Entry> {
    contents.entries.iter().filter(|e| e.is_open()).collect()
}

#[test]
fn no_file_is_nothing_made() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(manifest(dir.path()).read().unwrap(), Contents::default());
}

#[test]
fn a_life_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(dir.path());
    let line = manifest.intend(&intent("us-east-1", "n")).unwrap();
    let contents = manifest.read().unwrap();
    assert_eq!(contents.entries[0].asked, line);
    assert!(contents.entries[0].is_open());
    assert_eq!(contents.entries[0].created, None);

    let arn = "arn:aws:dsql:us-east-1:1:cluster/x";
    manifest.note(&line, Event::Created, Some(arn)).unwrap();
    manifest.note(&line, Event::DeleteRequested, None).unwrap();
    let entry = manifest.read().unwrap().entries.remove(0);
    assert!(entry.is_open());
    assert!(entry.created.is_some() && entry.delete_requested.is_some());
    assert_eq!(entry.arn.as_deref(), Some(arn));

    manifest.note(&line, Event::Deleted, None).unwrap();
    let entry = manifest.read().unwrap().entries.remove(0);
    assert!(!entry.is_open());
    assert_eq!(entry.closed_by, Some(Event::Deleted));
    assert_eq!(entry.asked.stack.as_deref(), Some("fleet"));
}

#[test]
fn what_was_refused_is_closed_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(dir.path());
    let line = manifest.intend(&intent("us-east-1", "n")).unwrap();
    manifest.refused(&line, "quota").unwrap();
    let entry = manifest.read().unwrap().entries.remove(0);
    assert_eq!(entry.closed_by, Some(Event::CreateRefused));
    let text = std::fs::read_to_string(manifest.path()).unwrap();
    assert!(text.contains("\"why\":\"quota\""));
}

#[test]
fn cut_at_every_byte_no_open_create_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let whole = manifest(dir.path());
    let a = whole.intend(&intent("us-east-1", "a")).unwrap();
    whole.note(&a, Event::Created, Some("arn-a")).unwrap();
    let b = whole.intend(&intent("us-east-2", "b")).unwrap();
    whole.note(&b, Event::Created, Some("arn-b")).unwrap();
    whole.note(&a, Event::Deleted, None).unwrap();
    let text = std::fs::read_to_string(whole.path()).unwrap();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();

    for cut in 0..=text.len() {
        let dir = tempfile::tempdir().unwrap();
        let torn = manifest(dir.path());
        std::fs::create_dir_all(torn.path().parent().unwrap()).unwrap();
        std::fs::write(torn.path(), &text[..cut]).unwrap();
        let contents = torn.read().unwrap();
        // Lines whose text is whole count, with or without their line end.
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let expected = match whole {
            0 => 0,
            1 | 2 => 1,
            3 | 4 => 2,
            _ => 1,
        };
        assert_eq!(open(&contents).len(), expected, "cut at byte {cut}");
        assert!(contents.torn.len() <= 1);

        // And it can be written to again: the torn line stays by itself.
        torn.intend(&intent("eu-west-1", "c")).unwrap();
        let after = torn.read().unwrap();
        assert_eq!(
            open(&after).len(),
            expected + 1,
            "after a cut at byte {cut}"
        );
        assert_eq!(after.torn, contents.torn);
    }
}

#[test]
fn zeros_at_the_end_are_a_torn_line() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(dir.path());
    manifest.intend(&intent("us-east-1", "a")).unwrap();
    let mut bytes = std::fs::read(manifest.path()).unwrap();
    bytes.extend([0; 17]);
    std::fs::write(manifest.path(), bytes).unwrap();
    let contents = manifest.read().unwrap();
    assert_eq!(contents.entries.len(), 1);
    assert_eq!(contents.torn, [2]);
}

#[test]
fn a_whole_line_that_is_not_understood_is_not_passed_over() {
    for (line, why) in [
        (
            r#"{"v":2,"at":"t","cloud":"aws","event":"created","key":"k","made":"stack","region":"r"}"#,
            "version 2",
        ),
        (
            r#"{"v":1,"at":"t","cloud":"aws","event":"sold","key":"k","made":"stack","region":"r"}"#,
            "unknown variant `sold`",
        ),
        (r#"{"v":1}"#, "missing field"),
        ("not json", "line 2"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let manifest = manifest(dir.path());
        manifest.intend(&intent("us-east-1", "a")).unwrap();
        let mut text = std::fs::read_to_string(manifest.path()).unwrap();
        text.push_str(line);
        text.push('\n');
        std::fs::write(manifest.path(), text).unwrap();
        let refused = manifest.read().unwrap_err().to_string();
        assert!(
            refused.contains("line 2") && refused.contains(why),
            "{refused}"
        );
    }
}

#[test]
fn another_cloud_is_not_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let aws = manifest(dir.path());
    let local = Manifest {
        cloud: "http://127.0.0.1:4566".to_owned(),
        ..aws.clone()
    };
    aws.intend(&intent("us-east-1", "a")).unwrap();
    local.intend(&intent("us-east-1", "b")).unwrap();
    let names = |m: &Manifest| -> Vec<String> {
        let entries = m.read().unwrap().entries;
        entries.into_iter().filter_map(|e| e.asked.name).collect()
    };
    assert_eq!(names(&aws), ["a"]);
    assert_eq!(names(&local), ["b"]);
}

#[test]
fn keys_are_tokens_that_the_service_takes_and_differ() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(dir.path());
    let keys: std::collections::BTreeSet<String> = (0..100).map(|_| manifest.new_key()).collect();
    assert_eq!(keys.len(), 100);
    assert!(keys.iter().all(|key| key.len() == 32));
}

#[test]
fn writers_do_not_cut_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let one = manifest(dir.path());
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let manifest = one.clone();
            scope.spawn(move || {
                for i in 0..20 {
                    manifest
                        .intend(&intent("us-east-1", &format!("{writer}-{i}")))
                        .unwrap();
                }
            });
        }
    });
    let contents = one.read().unwrap();
    assert_eq!((contents.entries.len(), contents.torn.len()), (160, 0));
}

#[test]
fn a_place_that_cannot_be_written_refuses_the_intent() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("state"), "a file").unwrap();
    let refused = manifest(dir.path()).intend(&intent("us-east-1", "n"));
    let line = refused.unwrap_err().to_string();
    assert!(line.contains("cannot write the manifest") && line.contains("--manifest"));
}
