//! The worker: takes one task of a wave and does it; or one whole cell, by hand.
//!
//! It decodes the event (`event`), calls the fleet, and encodes what came of it.
//! A message of the wave queue goes through [`fleet::handler`], each on its own;
//! a bare task does too where there is a table, and runs without the protocol
//! where there is none; a bare cell runs whole in this one worker (`cell`).
//! `docs/functions.md` shows the events and the answers.

mod cell;
mod event;

use cloud::function::{Call, Refused, serve};
use cloud::{Process, sqs_event};
use fleet::handler::{Verdict, by_hand, on_wave_message};
use fleet::{Driver, Handled, Invocation, Outcome, Task};
use plan::TargetSpec;
use serde_json::{Value, json};

use event::Event;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    serve(handle)
}

async fn handle(process: &Process, event: Value, call: &Call) -> Result<Value, Refused> {
    let invocation = Invocation {
        id: call.id.clone(),
        deadline: call.deadline,
        vcpus: process.vcpus(),
    };
    let on = std::env::var("FABRIC_TARGET")
        .ok()
        .filter(|on| !on.is_empty());
    match Event::read(event, on).map_err(|why| Refused::new("BadEvent", why))? {
        Event::Messages(records) => messages(process, call, &records, &invocation).await,
        Event::Task(task) => bare_task(process, call, &task, &invocation).await,
        Event::Cell(asked) => {
            let targets = process.targets(call.clock);
            let ran = asked.run(call.clock, &targets, &invocation).await;
            ran.map_err(|why| Refused::new("Cell", why))
        }
    }
}

/// Handles messages of the wave queue; those that should come again are named.
async fn messages(
    process: &Process,
    call: &Call,
    records: &[sqs_event::Record],
    invocation: &Invocation,
) -> Result<Value, Refused> {
    let env = process.env(call.clock, &call.id)?;
    let targets = process.targets(call.clock);
    let work = Driver::new(async |spec: &TargetSpec| targets.resolve(spec).await);
    let mut again = Vec::new();
    for record in records {
        let mut invocation = invocation.clone();
        if records.len() > 1 {
            // A claim is the invocation's: each message needs one of its own.
            invocation.id = format!("{}-{}", invocation.id, record.message_id);
        }
        let region = process.region();
        let verdict = on_wave_message(&env, &work, region, &record.body, &invocation).await;
        if let Verdict::Again(_) = verdict {
            again.push(record.message_id.clone());
        }
    }
    Ok(sqs_event::failures(&again))
}

/// Does a task that somebody sent here: by the protocol where there is a table.
async fn bare_task(
    process: &Process,
    call: &Call,
    task: &Task,
    invocation: &Invocation,
) -> Result<Value, Refused> {
    let targets = process.targets(call.clock);
    let work = Driver::new(async |spec: &TargetSpec| targets.resolve(spec).await);
    let outcome = if process.has_stack()? {
        let env = process.env(call.clock, &call.id)?;
        match fleet::handle(&env, &work, task, invocation).await? {
            Handled::Done(outcome) => outcome,
            Handled::Dropped(why) => return Ok(json!({ "ended": "dropped", "because": why })),
        }
    } else {
        let reserve = fleet::Settings::default().reserve;
        let done = by_hand(call.clock, &work, task, invocation, reserve).await;
        done.unwrap_or_else(|why| Outcome::Failed { why })
    };
    Ok(cell::outcome_of(task, outcome))
}
