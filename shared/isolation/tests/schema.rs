//! The committed schema is current, and the page and the tables say what the report
//! says.

#![allow(clippy::unwrap_used)]

mod common;

use common::{LEVELS, on_simulator, played};
use fabric_isolation::{Report, html, matrix, schema, scripts, steps};
use sim::FaultPlan;

fn report() -> Report {
    on_simulator("single-region", FaultPlan::default(), async |target| {
        played(&target, &scripts().unwrap(), &LEVELS).await
    })
}

#[test]
fn the_committed_schema_is_current() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/schema/isolation.schema.json"
    );
    let text = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/schema/isolation.schema.json is not current; run the tests with UPDATE_SCHEMA=1 \
         and commit it"
    );
}

#[test]
fn a_report_satisfies_the_schema_and_comes_back_as_it_was() {
    let report = report();
    let json = serde_json::to_value(&report).unwrap();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let problems: Vec<String> = validator
        .iter_errors(&json)
        .map(|e| e.to_string())
        .collect();
    assert_eq!(problems, Vec::<String>::new());
    let back: Report = serde_json::from_value(json).unwrap();
    assert_eq!(back, report);
}

#[test]
fn tables_are_aligned_and_say_what_must_be_known() {
    let mut report = report();
    report.tested.simulated = true;
    let text = matrix(&report);
    assert!(text.contains("SIMULATED"));
    assert!(
        text.contains("not applicable: READ COMMITTED: 0A000"),
        "{text}"
    );
    assert!(text.contains("write skew (G2-item): snapshot isolation allows it"));
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("Scenario"));
    let head = lines.next().unwrap();
    let column = head.find("REPEATABLE READ").unwrap();
    for line in lines.take(5) {
        assert_eq!(line.as_bytes()[column - 1], b' ', "{line}");
        assert_ne!(line.as_bytes()[column], b' ', "{line}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 140));
    assert!(steps(&report).contains("BEGIN ISOLATION LEVEL REPEATABLE READ"));
    let page = html(&report);
    assert!(page.contains("SIMULATED") && page.contains("<td class=\"anomaly\">ANOMALY</td>"));
    assert!(!page.contains("http"), "the page stands alone");
}
