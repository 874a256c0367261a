use super::*;

fn run(id: &str) -> RunId {
    id.parse().unwrap()
}

#[test]
fn events_are_told_apart() {
    let stop = json!({"stop": "nightly-1", "why": "too slow"});
    assert_eq!(
        Event::read(stop),
        Ok(Event::Stop {
            run: run("nightly-1"),
            why: "too slow".to_owned()
        })
    );
    assert!(matches!(
        Event::read(json!({"stop": "r"})),
        Ok(Event::Stop { .. })
    ));
    assert_eq!(Event::read(json!({"watch": true})), Ok(Event::Watch));
    let resume = Event::read(json!({"resume": "r"}));
    assert_eq!(resume, Ok(Event::Resume { run: run("r") }));
    let records = json!({"Records": [{"messageId": "m", "body": "poison"}]});
    assert!(matches!(Event::read(records), Ok(Event::Messages(r)) if r.len() == 1));
}

#[test]
fn what_is_none_of_it_says_what_is_accepted() {
    for event in [
        json!(null),
        json!({}),
        json!({"watch": false}),
        json!({"stop": 1}),
        json!({"stop": "r", "because": "typo"}),
        json!({"cell": {}}),
    ] {
        let line = Event::read(event).unwrap_err();
        assert!(line.contains("watch") && line.contains("Records"), "{line}");
    }
    let line = Event::read(json!({"stop": "No Such"})).unwrap_err();
    assert!(line.contains("small letters"), "{line}");
}

#[test]
fn every_shipped_event_of_a_conductor_is_one() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../events");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("conductor-") {
            continue;
        }
        seen += 1;
        let event = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        match Event::read(event).unwrap_or_else(|why| panic!("{name}: {why}")) {
            Event::Messages(records) => {
                assert!(
                    records
                        .iter()
                        .all(|record| !run_of(&record.body).is_empty()),
                    "{name}"
                );
            }
            Event::Watch | Event::Stop { .. } | Event::Resume { .. } => {}
        }
    }
    assert!(seen >= 4, "{seen}");
}
