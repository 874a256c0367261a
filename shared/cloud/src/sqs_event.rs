//! The event that a Lambda gets from an SQS queue, and its answer.
//!
//! Only what is used is read. Bodies stay text: each is parsed on its own, so
//! that one that is malformed does not take the others with it.

use serde::Deserialize;
use serde_json::{Value, json};

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// What names it in the answer.
    pub message_id: String,
    /// What it says.
    #[serde(default)]
    pub body: String,
}

#[derive(Deserialize)]
struct Records {
    #[serde(rename = "Records")]
    records: Vec<Record>,
}

/// The messages of an event; `None` where it is none of a queue's.
///
/// # Errors
/// In one line: what of it is not as SQS writes it.
pub fn records(event: &Value) -> Result<Option<Vec<Record>>, String> {
    if event.get("Records").is_none() {
        return Ok(None);
    }
    match Records::deserialize(event) {
        Ok(Records { records }) => Ok(Some(records)),
        Err(error) => Err(format!("Records: not an event of an SQS queue: {error}")),
    }
}

/// The answer that makes these messages, and only these, come again.
pub fn failures(ids: &[String]) -> Value {
    let failure = |id: &String| json!({ "itemIdentifier": id });
    json!({ "batchItemFailures": ids.iter().map(failure).collect::<Vec<Value>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let event = json!({"Records": [
            {"messageId": "m-1", "body": "{", "eventSource": "aws:sqs", "attributes": {}},
            {"messageId": "m-2", "body": "{}"},
        ]});
        let found = records(&event).unwrap().unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].body, "{");
        assert_eq!(records(&json!({"cell": {}})), Ok(None));
        for bad in [json!({"Records": 1}), json!({"Records": [{"body": ""}]})] {
            assert!(records(&bad).unwrap_err().contains("SQS"));
        }
    }

    #[test]
    fn the_answer_names_those_that_failed() {
        assert_eq!(failures(&[]).to_string(), r#"{"batchItemFailures":[]}"#);
        assert_eq!(
            failures(&["m-2".to_owned()]).to_string(),
            r#"{"batchItemFailures":[{"itemIdentifier":"m-2"}]}"#
        );
    }
}
