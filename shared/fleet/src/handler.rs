//! What a function does with one message of its queue: the same for a Lambda
//! and for the embedded fleet.
//!
//! A message that cannot be understood is put among the dead letters with the
//! reason, and acknowledged: left alone it would come back only after its
//! visibility time, and would be misunderstood again. A message whose work could
//! not be finished because the store or a queue did not answer comes again.
//! Every other message is done with, whether it led to anything or not.

use std::time::Duration;

use tracing::{error, info, warn};

use crate::conductor::{self, Looked};
use crate::env::Env;
use crate::finish::Finished;
use crate::message::{BadMessage, Message, Task};
use crate::queue::{Queue, To};
use crate::run::RunError;
use crate::store::{Store, StoreError};
use crate::work::Work;
use crate::worker::{self, Handled, Invocation};

/// What is done with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is acknowledged: what it came to.
    Ack(String),
    /// It should come again: why.
    Again(String),
}

/// Handles one message of a region's wave queue.
pub async fn on_wave_message<S: Store, Q: Queue, W: Work>(
    env: &Env<S, Q>,
    work: &W,
    region: &str,
    text: &str,
    invocation: &Invocation,
) -> Verdict {
    let task = match Message::parse(text).and_then(Message::into_task) {
        Ok(task) => task,
        Err(bad) => return bury(env, Some(region), text, &bad).await,
    };
    let (run, cell, shard) = (&task.run, &task.job.cell.id, task.name());
    match worker::handle(env, work, &task, invocation).await {
        Ok(handled) => {
            let what = describe(&handled);
            info!(%run, %cell, shard, task = %task.task, "{what}");
            Verdict::Ack(what)
        }
        Err(failure) => {
            let decision = decision(&failure);
            error!(%run, %cell, shard, task = %task.task, "{failure}; {decision}");
            again(failure)
        }
    }
}

/// Handles one message of the control queue; a run that it ended is handed
/// back.
pub async fn on_control_message<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    text: &str,
) -> (Verdict, Option<Finished>) {
    let look = match Message::parse(text).and_then(Message::into_look) {
        Ok(look) => look,
        Err(bad) => return (bury(env, None, text, &bad).await, None),
    };
    let run = &look.run;
    match conductor::look(env, &look).await {
        Ok(Looked::Waiting) => (Verdict::Ack("waiting".to_owned()), None),
        Ok(Looked::Dropped(why)) => {
            info!(%run, "nothing to do: {why}");
            (Verdict::Ack(why), None)
        }
        Ok(Looked::Finished(finished)) => {
            let what = format!("{}: {}", finished.outcome.as_str(), finished.why);
            info!(%run, sweep = finished.sweep, "the run has ended, {what}");
            (Verdict::Ack(what), Some(*finished))
        }
        Err(RunError::Store(failure)) => {
            let decision = decision(&failure);
            error!(%run, "{failure}; {decision}");
            (again(failure), None)
        }
        Err(failure) => {
            // A plan that cannot be read does not get better by itself.
            error!(%run, "{failure}; the message goes to the dead letters");
            let bad = BadMessage::Malformed(failure.to_string());
            (bury(env, None, text, &bad).await, None)
        }
    }
}

fn again(failure: StoreError) -> Verdict {
    Verdict::Again(failure.to_string())
}

fn decision(failure: &StoreError) -> &'static str {
    if failure.is_transient() {
        "the message will come again"
    } else {
        "the message will come again until the queue gives it up to the dead letters"
    }
}

fn describe(handled: &Handled) -> String {
    match handled {
        Handled::Done(outcome) => format!("done: {}", outcome.word()),
        Handled::Dropped(why) => format!("no load: {why}"),
    }
}

/// Puts a message among the dead letters.
async fn bury<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    region: Option<&str>,
    text: &str,
    bad: &BadMessage,
) -> Verdict {
    let names = names_in(text);
    let reason = bad.to_string();
    warn!("no load: {reason}{names}; the message goes to the dead letters");
    let to = To::Dead {
        region: region.map(str::to_owned),
        reason: reason.clone(),
    };
    match env.send(&to, &[text.to_owned()], Duration::ZERO).await {
        Ok(()) => Verdict::Ack(format!("dead letter: {reason}")),
        Err(failure) => {
            error!("the dead letters cannot be reached: {failure}");
            again(failure)
        }
    }
}

/// Run, cell and shard of a message that is not understood, as far as they can
/// be made out.
fn names_in(text: &str) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else {
        return String::new();
    };
    let mut names = String::new();
    for (what, pointer) in [
        ("run", "/run"),
        ("cell", "/job/cell/id"),
        ("shard", "/task/index"),
    ] {
        if let Some(name) = value.pointer(pointer)
            && (name.is_string() || name.is_number())
        {
            names.push_str(&format!(" {what}={name}"));
        }
    }
    names
}

/// Runs a task by hand, outside of any run: no claim, no barrier, no table.
///
/// # Errors
/// Why it could not be run.
pub async fn by_hand<W: Work>(
    clock: clock::Clock,
    work: &W,
    task: &Task,
    invocation: &Invocation,
    reserve: Duration,
) -> Result<crate::work::Outcome, String> {
    use crate::work::{Live, Outcome};
    let (_handle, stop) = drive::stop();
    let until = invocation.deadline.since(clock::Time::ZERO);
    let live = Live {
        stop,
        progress: std::sync::Arc::default(),
        stop_by: clock::Time::from_origin(until.saturating_sub(reserve)),
        opening: None,
        vcpus: invocation.vcpus,
    };
    match work.load(&task.job, live, &drive::AtOnce(clock)).await? {
        drive::Ended::Ran(report) => Ok(Outcome::Ran {
            report: Box::new(report),
        }),
        drive::Ended::NotStarted(why) => Ok(Outcome::NotStarted { why }),
    }
}
