//! The conductor: looks at runs, closes waves and opens the next, ends runs.
//!
//! It decodes the event, calls the fleet, and encodes what came of it. Messages
//! of the control queue go through [`fleet::handler`], each on its own; a run
//! that has ended becomes a line of metrics. `docs/functions.md` shows the events
//! and the answers.

use cloud::function::{Call, Refused, serve};
use cloud::{CloudQueue, CloudStore, Process, sqs_event};
use fleet::handler::{Verdict, on_control_message};
use fleet::{Env, RunId};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::info;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    serve(handle)
}

/// An event, decoded.
#[derive(Debug, PartialEq)]
enum Event {
    Messages(Vec<sqs_event::Record>),
    Watch,
    Stop { run: RunId, why: String },
    Resume { run: RunId },
}

/// What is said to a conductor by hand or by a schedule.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Said {
    Watch { watch: bool },
    Stop { stop: String, why: Option<String> },
    Resume { resume: String },
}

/// What would be accepted.
const ACCEPTED: &str = "a conductor takes an event of an SQS queue ({\"Records\": […]}), \
                        {\"watch\": true}, {\"stop\": RUN, \"why\": …} or {\"resume\": RUN}";

impl Event {
    fn read(event: Value) -> Result<Event, String> {
        if let Some(records) = sqs_event::records(&event)? {
            return Ok(Event::Messages(records));
        }
        let said = serde_json::from_value(event).map_err(|_| ACCEPTED.to_owned())?;
        let run = |id: String| id.parse::<RunId>().map_err(|bad| format!("{id:?}: {bad}"));
        match said {
            Said::Watch { watch: true } => Ok(Event::Watch),
            Said::Watch { watch: false } => Err(ACCEPTED.to_owned()),
            Said::Stop { stop, why } => Ok(Event::Stop {
                run: run(stop)?,
                why: why.unwrap_or_else(|| "it was told to".to_owned()),
            }),
            Said::Resume { resume } => Ok(Event::Resume { run: run(resume)? }),
        }
    }
}

async fn handle(process: &Process, event: Value, call: &Call) -> Result<Value, Refused> {
    let event = Event::read(event).map_err(|why| Refused::new("BadEvent", why))?;
    let env = process.env(call.clock, &call.id)?;
    match event {
        Event::Messages(records) => {
            let stack = &process.config()?.stack;
            let mut again = Vec::new();
            for record in &records {
                if let Verdict::Again(_) = message(&env, stack, record).await {
                    again.push(record.message_id.clone());
                }
            }
            Ok(sqs_event::failures(&again))
        }
        Event::Watch => {
            let called = fleet::run::revive(&env).await?;
            info!(
                runs = called.len(),
                "called to the runs that have not ended"
            );
            Ok(json!({ "called": called }))
        }
        Event::Stop { run, why } => {
            fleet::run::stop(&env, &run, &why).await?;
            info!(%run, why, "told to stop");
            Ok(json!({ "stopping": run }))
        }
        Event::Resume { run } => {
            let waves = fleet::run::resume(&env, &run).await?;
            info!(%run, waves = waves.len(), "resumed");
            Ok(json!({ "resumed": run, "waves": waves.len() }))
        }
    }
}

/// Handles a message of the control queue. A run that has ended becomes a line
/// of metrics.
async fn message(
    env: &Env<CloudStore, CloudQueue>,
    stack: &str,
    record: &sqs_event::Record,
) -> Verdict {
    let (verdict, finished) = on_control_message(env, &record.body).await;
    if let Some(finished) = finished {
        let run = run_of(&record.body);
        let line = cloud::metrics::line_of(stack, &run, &finished, env.clock.wall());
        println!("{line}");
    }
    verdict
}

/// The run that a message names.
fn run_of(body: &str) -> String {
    let look = fleet::Message::parse(body).and_then(fleet::Message::into_look);
    look.map_or_else(|_| String::new(), |look| look.run.to_string())
}

#[cfg(test)]
mod tests;
