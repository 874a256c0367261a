//! The fleet's queues on SQS.
//!
//! Names derive from the stack: `STACK-wave` and `STACK-wave-dead` in each
//! region, `STACK-control` and `STACK-control-dead` in the home region. Their
//! addresses are asked for once in the life of a process.

use std::rc::Rc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use clock::Clock;
use fleet::{LONGEST_DELAY, Queue, StoreError, To};

use crate::clients::{Clients, lock};
use crate::config::Config;
use crate::errors::Call;

/// Messages of one SendMessageBatch, and bytes of all of them.
const BATCH: usize = 10;
const BATCH_BYTES: usize = 1 << 20;

/// Characters of a reason.
const REASON: usize = 256;

/// Tries at the messages of a batch that were not taken, and the first pause
/// before another, which doubles: together about three seconds.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(100);

/// The queues of a stack, to send to.
#[derive(Clone, Debug)]
pub struct CloudQueue {
    clients: Rc<Clients>,
    config: Rc<Config>,
    clock: Clock,
}

impl CloudQueue {
    /// The queues of a stack.
    pub fn new(clients: Rc<Clients>, config: Rc<Config>, clock: Clock) -> CloudQueue {
        CloudQueue {
            clients,
            config,
            clock,
        }
    }

    /// Region and name of a queue.
    fn place<'a>(&'a self, to: &'a To) -> (&'a str, String) {
        let stack = &self.config.stack;
        match to {
            To::Wave { region } => (region, format!("{stack}-wave")),
            To::Control => (&self.config.home, format!("{stack}-control")),
            To::Dead {
                region: Some(region),
                ..
            } => (region, format!("{stack}-wave-dead")),
            To::Dead { region: None, .. } => (&self.config.home, format!("{stack}-control-dead")),
        }
    }

    /// The address of a queue.
    async fn url(&self, client: &Client, region: &str, name: &str) -> Result<String, StoreError> {
        let place = (region.to_owned(), name.to_owned());
        if let Some(url) = lock(&self.clients.queues).get(&place) {
            return Ok(url.clone());
        }
        let call = Call {
            action: "sqs:GetQueueUrl",
            kind: "queue",
            name,
            region,
        };
        let answer = client.get_queue_url().queue_name(name).send().await;
        let answer = answer.map_err(|error| call.failed(&error))?;
        let url = answer
            .queue_url
            .ok_or_else(|| call.refused("an answer without an address"))?;
        lock(&self.clients.queues).insert(place, url.clone());
        Ok(url)
    }

    /// Sends one batch; what is not taken is sent again, and only that.
    async fn send_batch(
        &self,
        client: &Client,
        url: &str,
        call: Call<'_>,
        mut entries: Vec<SendMessageBatchRequestEntry>,
    ) -> Result<(), StoreError> {
        let mut last = None;
        for tried in 0..TRIES {
            if tried > 0 {
                self.clock.sleep(PAUSE * (1 << (tried - 1))).await;
            }
            let answer = client
                .send_message_batch()
                .queue_url(url)
                .set_entries(Some(entries.clone()))
                .send()
                .await
                .map_err(|error| call.failed(&error))?;
            for failed in &answer.failed {
                let message = failed.message().unwrap_or_default();
                let error = call.answered(failed.code(), message);
                if failed.sender_fault() && !error.is_transient() {
                    return Err(error);
                }
                last = Some((failed.code().to_owned(), message.to_owned()));
            }
            let left = |entry: &SendMessageBatchRequestEntry| {
                answer.failed.iter().any(|failed| failed.id() == entry.id())
            };
            entries.retain(left);
            if entries.is_empty() {
                return Ok(());
            }
        }
        let (code, message) = last.unwrap_or_default();
        let left = entries.len();
        Err(call.busy(&format!(
            "{left} messages were not taken: {code}: {message}"
        )))
    }
}

impl Queue for CloudQueue {
    async fn send(&self, to: &To, bodies: &[String], delay: Duration) -> Result<(), StoreError> {
        let (region, name) = self.place(to);
        let call = Call {
            action: "sqs:SendMessage",
            kind: "queue",
            name: &name,
            region,
        };
        let client = self.clients.sqs(region).await;
        let url = self.url(&client, region, &name).await?;
        let reason = match to {
            To::Dead { reason, .. } => Some(reason_text(reason)),
            _ => None,
        };
        let delay_s = delay_s(delay);
        for batch in batches(bodies, reason.as_deref().map_or(0, attribute_bytes)) {
            let mut entries = Vec::new();
            for (place, body) in batch.iter().enumerate() {
                let mut entry = SendMessageBatchRequestEntry::builder()
                    .id(place.to_string())
                    .message_body(body)
                    .delay_seconds(delay_s);
                if let Some(reason) = &reason {
                    let value = MessageAttributeValue::builder()
                        .data_type("String")
                        .string_value(reason)
                        .build()
                        .map_err(|error| call.refused(&error.to_string()))?;
                    entry = entry.message_attributes(ATTRIBUTE, value);
                }
                let entry = entry.build();
                entries.push(entry.map_err(|error| call.refused(&error.to_string()))?);
            }
            self.send_batch(&client, &url, call, entries).await?;
        }
        Ok(())
    }
}

/// Name of the attribute with the reason of a dead letter.
const ATTRIBUTE: &str = "reason";

/// Bytes that the reason takes of a message: name, type and value count.
fn attribute_bytes(reason: &str) -> usize {
    ATTRIBUTE.len() + "String".len() + reason.len()
}

/// Whole seconds, never less than asked for.
fn delay_s(delay: Duration) -> i32 {
    let delay = delay.min(LONGEST_DELAY);
    let up = u64::from(delay.subsec_nanos() > 0);
    i32::try_from(delay.as_secs() + up).unwrap_or(900)
}

/// Cuts texts into batches that SQS takes. One that is too large by itself is
/// left to SQS to refuse.
fn batches(bodies: &[String], extra: usize) -> Vec<&[String]> {
    let mut batches = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (place, body) in bodies.iter().enumerate() {
        let more = body.len() + extra;
        if place > from && (place - from == BATCH || bytes + more > BATCH_BYTES) {
            batches.push(&bodies[from..place]);
            (from, bytes) = (place, 0);
        }
        bytes += more;
    }
    if from < bodies.len() {
        batches.push(&bodies[from..]);
    }
    batches
}

/// A reason as an attribute may hold it: not empty, no control characters.
fn reason_text(reason: &str) -> String {
    let shown = |c: char| {
        if c.is_control() || c > '\u{fffd}' {
            ' '
        } else {
            c
        }
    };
    let text: String = reason.chars().map(shown).take(REASON).collect();
    match text.trim() {
        "" => "no reason was given".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(bodies: &[usize], extra: usize) -> Vec<usize> {
        let bodies: Vec<String> = bodies.iter().map(|n| "x".repeat(*n)).collect();
        batches(&bodies, extra)
            .iter()
            .map(|batch| batch.len())
            .collect()
    }

    #[test]
    fn batches_hold_ten_messages_and_a_mebibyte() {
        assert_eq!(sizes(&[], 0), [0; 0]);
        assert_eq!(sizes(&[1; 10], 0), [10]);
        assert_eq!(sizes(&[1; 25], 0), [10, 10, 5]);
        assert_eq!(sizes(&[BATCH_BYTES, 1], 0), [1, 1]);
        assert_eq!(sizes(&[BATCH_BYTES / 2; 4], 0), [2, 2]);
        assert_eq!(sizes(&[BATCH_BYTES / 2; 4], 1), [1, 1, 1, 1]);
        assert_eq!(sizes(&[2 * BATCH_BYTES, 1, 1], 0), [1, 2]);
    }

    #[test]
    fn delays_are_rounded_up() {
        for (ms, s) in [
            (0, 0),
            (1, 1),
            (999, 1),
            (1_000, 1),
            (1_001, 2),
            (2_000_000, 900),
        ] {
            assert_eq!(delay_s(Duration::from_millis(ms)), s, "{ms} ms");
        }
    }

    #[test]
    fn a_reason_is_one_that_an_attribute_may_hold() {
        assert_eq!(
            reason_text("not JSON: \u{0}\n at line 1"),
            "not JSON:    at line 1"
        );
        assert_eq!(reason_text(" \n"), "no reason was given");
        assert_eq!(reason_text(&"ä".repeat(300)).chars().count(), REASON);
    }
}
