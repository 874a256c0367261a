//! What a worker may be sent.

use cloud::sqs_event::{self, Record};
use fleet::{Message, Task};
use serde_json::Value;

use crate::cell::Asked;

/// An event, decoded.
pub enum Event {
    /// Messages of the wave queue.
    Messages(Vec<Record>),
    /// One task.
    Task(Box<Task>),
    /// One cell.
    Cell(Box<Asked>),
}

/// What would be accepted.
const ACCEPTED: &str = "a worker takes an event of an SQS queue ({\"Records\": […]}), a bare task \
                        ({\"v\": 1, \"kind\": \"task\", …}) or a bare cell ({\"cell\": {…a block of \
                        a sweep file…}, \"on\": \"dsql://…\", \"seed\": 1})";

impl Event {
    /// Decodes an event; `on` is the target of a cell that names none.
    ///
    /// # Errors
    /// In one line: what is wrong with it, and what would be accepted.
    pub fn read(event: Value, on: Option<String>) -> Result<Event, String> {
        if let Some(records) = sqs_event::records(&event)? {
            return Ok(Event::Messages(records));
        }
        if event.get("cell").is_some() {
            return Asked::read(event, on).map(|asked| Event::Cell(Box::new(asked)));
        }
        if event.get("kind").is_some() {
            let task = Message::read(event).and_then(Message::into_task);
            return match task {
                Ok(task) => Ok(Event::Task(Box::new(task))),
                Err(bad) => Err(bad.to_string()),
            };
        }
        Err(ACCEPTED.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(event: Value) -> Result<Event, String> {
        Event::read(event, Some("postgres://localhost/test".to_owned()))
    }

    fn refused(event: Value) -> String {
        match read(event.clone()) {
            Ok(_) => panic!("{event} should be refused"),
            Err(line) => {
                assert!(!line.contains('\n'), "{line}");
                line
            }
        }
    }

    #[test]
    fn what_is_none_of_it_says_what_is_accepted() {
        for event in [
            json!(null),
            json!([]),
            json!("text"),
            json!({}),
            json!({"watch": true}),
        ] {
            let line = refused(event);
            assert!(line.contains("Records") && line.contains("cell"), "{line}");
        }
    }

    #[test]
    fn messages_are_not_looked_into_here() {
        let event = json!({"Records": [{"messageId": "m", "body": "poison"}]});
        assert!(matches!(read(event), Ok(Event::Messages(records)) if records.len() == 1));
        assert!(refused(json!({"Records": 1})).contains("SQS"));
    }

    #[test]
    fn a_bare_task_is_checked_as_on_the_queue() {
        let line = refused(json!({"v": 9, "kind": "task"}));
        assert!(line.contains("version 9"), "{line}");
        let line = refused(json!({"v": 1, "kind": "look", "run": "r"}));
        assert!(line.contains("tasks"), "{line}");
        refused(json!({"v": 1, "kind": "task"}));
    }

    /// The events that are shipped, by the beginning of their names.
    fn shipped(begins: &str) -> Vec<(String, Value)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../events");
        let mut found: Vec<(String, Value)> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name()?.to_str()?.to_owned();
                let wanted = name.ends_with(".json") && name.contains(begins);
                wanted.then(|| {
                    (
                        name,
                        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap(),
                    )
                })
            })
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    #[test]
    fn every_shipped_event_of_a_worker_is_one() {
        let events = shipped("worker-");
        assert!(events.len() >= 2, "{}", events.len());
        for (name, event) in events {
            match Event::read(event, None).unwrap_or_else(|why| panic!("{name}: {why}")) {
                Event::Messages(records) => {
                    for record in records {
                        let task = Message::parse(&record.body).and_then(Message::into_task);
                        task.unwrap_or_else(|why| panic!("{name}: {why}"));
                    }
                }
                Event::Task(_) | Event::Cell(_) => {}
            }
        }
    }

    #[test]
    fn every_workload_has_an_event_with_a_cell_of_it() {
        let schema = plan::schema();
        // The blocks of a sweep are told apart by their workload.
        let mut workloads = Vec::new();
        find_workloads(&schema, &mut workloads);
        assert!(workloads.contains(&"append".to_owned()), "{workloads:?}");
        let cells = shipped("-cell.json");
        for workload in &workloads {
            let wanted = format!("{}-cell.json", workload.replace('_', "-"));
            let event = cells.iter().find(|(name, _)| *name == wanted);
            let (name, event) = event.unwrap_or_else(|| panic!("events/{wanted} is missing"));
            assert_eq!(event["cell"]["workload"], workload.as_str(), "{name}");
            let read = Event::read(event.clone(), Some("dsql://localhost".to_owned()));
            let read = read.unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(matches!(read, Event::Cell(_)), "{name}");
        }
        assert_eq!(cells.len(), workloads.len(), "an event of no workload");
    }

    fn find_workloads(schema: &Value, into: &mut Vec<String>) {
        match schema {
            Value::Object(members) => {
                if let Some(name) = members.get("workload").and_then(|w| w.get("const")) {
                    let name = name.as_str().unwrap().to_owned();
                    if !into.contains(&name) {
                        into.push(name);
                    }
                }
                members
                    .values()
                    .for_each(|member| find_workloads(member, into));
            }
            Value::Array(elements) => elements.iter().for_each(|e| find_workloads(e, into)),
            _ => {}
        }
    }
}
