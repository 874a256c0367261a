//! What a script may say, and how it is told when it says something else.

#![allow(clippy::unwrap_used)]

use fabric_isolation::{Script, Suite, Verb, scripts, scripts_of};
use proptest::prelude::*;

const GOOD: &str = "\
# What happens.
# And what must not.
name: two
notation: P4
note: a remark
table t: id int PRIMARY KEY
rows t: (1)

1  T1  BEGIN
2  T2  BEGIN
3  T1  SELECT id FROM {t}
4  T2  DELETE FROM {t}
5  T1  COMMIT
6  T2  ROLLBACK

final: SELECT id FROM {t}
anomaly: T1 committed and step 3 did not read (1) and step 4 touched 1 and final is not nothing
";

fn parse(text: &str) -> Result<Script, String> {
    Script::parse(Suite::E004, "two", text).map_err(|error| error.to_string())
}

#[test]
fn a_script_is_what_it_says() {
    let script = parse(GOOD).unwrap();
    assert_eq!(script.title(), "two (P4)");
    assert_eq!(script.about, "What happens. And what must not.");
    assert_eq!(script.note.as_deref(), Some("a remark"));
    assert_eq!(script.sessions, ["T1", "T2"]);
    assert_eq!(script.steps.len(), 6);
    assert_eq!(script.steps[3].session, 1);
    assert_eq!(script.steps[3].verb, Verb::Write);
    assert_eq!(script.tables[0].rows, "(1)");
}

#[test]
fn those_that_come_with_the_program_are_read() {
    assert_eq!(scripts_of(Suite::E004).unwrap().len(), 5);
    assert_eq!(scripts_of(Suite::Hermitage).unwrap().len(), 15);
    for script in scripts().unwrap() {
        assert!(!script.about.is_empty(), "{}", script.id);
        assert!((2..=3).contains(&script.sessions.len()), "{}", script.id);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    #[rustfmt::skip]
    let table: &[(&str, &str, &[&str])] = &[
        ("name: two", "nmae: two", &["line 3", "'nmae:'", "`name:`"]),
        ("name: two", "name:", &["line 3", "nothing stands behind"]),
        ("name: two", "notation: two", &["the whole", "`name:` is missing"]),
        ("notation: P4", "name: three", &["line 4", "twice"]),
        ("notation: P4", "no colon", &["line 4", "'no colon'"]),
        ("table t:", "table T1:", &["line 6", "T1", "a to z"]),
        ("rows t:", "rows u:", &["line 7", "table u"]),
        ("1  T1  BEGIN", "2  T1  BEGIN", &["step 1 (line 9)", "without a gap"]),
        ("3  T1  SELECT", "4  T1  SELECT", &["step 3 (line 11)", "without a gap"]),
        ("3  T1  SELECT id FROM {t}", "3  T1", &["step 3", "N SESSION SQL"]),
        ("SELECT id FROM {t}\n4", "SELECT id FROM {u}\n4", &["step 3", "no table u", "there is t"]),
        ("DELETE FROM {t}", "DELETE FROM {t", &["step 4", "`{` has no `}`"]),
        ("DELETE FROM {t}", "DROP TABLE {t}", &["step 4", "'DROP'", "DELETE"]),
        ("DELETE FROM {t}", "DELETE FROM {t}; COMMIT", &["step 4", "one statement"]),
        ("5  T1  COMMIT", "5  T3  COMMIT", &["step 5", "T3 has no transaction"]),
        ("5  T1  COMMIT", "5  T1  COMMIT AND CHAIN", &["step 5", "word alone"]),
        ("1  T1  BEGIN", "1  T1  BEGIN ISOLATION LEVEL SERIALIZABLE", &["step 1", "level"]),
        ("6  T2  ROLLBACK", "6  T2  BEGIN", &["step 6", "begun before"]),
        ("6  T2  ROLLBACK", "6  T2  SELECT id FROM {t}", &["the whole", "T2 does not end"]),
        ("final: SELECT id FROM {t}\n", "", &["the whole", "`final:`"]),
        ("FROM {t}\nanomaly", "FROM {u}\nanomaly", &["the whole", "final", "no table u"]),
        ("T1 committed", "T2 committed", &["line 17", "T2 has no COMMIT"]),
        ("T1 committed", "T9 committed", &["line 17", "no connection T9"]),
        ("T1 committed", "T1 won", &["line 17", "'T1 won'", "SESSION committed"]),
        ("step 3 did not read", "step 9 did not read", &["line 17", "no step 9", "1 to 6"]),
        ("step 3 did not read", "step 0 did not read", &["line 17", "no step 0"]),
        ("step 3 did not read", "step 4 did not read", &["line 17", "step 4 reads nothing"]),
        ("step 3 did not read (1)", "step 3 did not read 1", &["line 17", "'1'", "nothing"]),
        ("step 3 did not read (1)", "step 3 did not read (1", &["line 17", "'(1'"]),
        ("step 3 did not read (1)", "step 3 saw (1)", &["line 17", "`read ROWS`"]),
        ("step 4 touched 1", "step 3 touched 1", &["line 17", "step 3 writes nothing"]),
        ("step 4 touched 1", "step 4 touched one", &["line 17", "'one'"]),
        ("final is not nothing", "final was nothing", &["line 17", "`final is ROWS`"]),
    ];
    for (from, to, words) in table {
        assert!(GOOD.contains(from), "{from}");
        let refusal = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert!(refusal.starts_with("scenario e004/two, "), "{refusal}");
        for word in *words {
            assert!(refusal.contains(word), "'{word}' is missing: {refusal}");
        }
    }
    let none = GOOD.split("anomaly").next().unwrap();
    assert!(parse(none).unwrap_err().contains("`anomaly:` is missing"));
}

proptest! {
    /// Whatever a file holds, reading it ends, with a script or a refusal.
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = parse(&text);
    }

    /// A good script with any line replaced, too.
    #[test]
    fn any_line_is_read_or_refused(at in 0_usize..17, line in "[a-zT1-6:{}() ]{0,40}") {
        let mut lines: Vec<&str> = GOOD.lines().collect();
        lines[at] = &line;
        if let Err(refusal) = parse(&lines.join("\n")) {
            prop_assert!(refusal.starts_with("scenario e004/two, "));
            prop_assert_eq!(refusal.lines().count(), 1);
        }
    }
}
