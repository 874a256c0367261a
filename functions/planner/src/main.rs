//! The planner: turns a sweep into a run and starts it.
//!
//! It decodes the event (`event`), plans and checks, calls the fleet, and encodes
//! what came of it. `docs/functions.md` shows the events and the answers.

mod event;

use cloud::Process;
use cloud::function::{Call, Refused, serve};
use fleet::run::{Kept, Started};
use fleet::{RunId, Store};
use plan::{Assumptions, Plan, SweepError};
use serde_json::{Value, json};
use tracing::info;

use event::{Event, SweepFrom};

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    serve(handle)
}

async fn handle(process: &Process, event: Value, call: &Call) -> Result<Value, Refused> {
    let event = Event::read(event).map_err(|why| Refused::new("BadEvent", why))?;
    let env = process.env(call.clock, &call.id)?;
    let text = match &event.sweep {
        SweepFrom::Here(sweep) => sweep.to_string(),
        SweepFrom::Bucket(key) => text_of(&env.store, key).await?,
    };
    let plan = planned(&text, &event).map_err(|why| Refused::new("Sweep", why))?;
    let run = match &event.run_id {
        Some(id) => RunId::nearest(id),
        None => RunId::nearest(&format!("{}-{}", plan.name, report::utc(call.clock.wall()))),
    };
    let endpoints = fleet::run::endpoints_of(&plan);
    let kept = Kept { plan, endpoints };
    let started = fleet::run::start(&env, &run, &kept).await?;
    let sweep = &kept.plan.name;
    match started {
        Started::New => info!(%run, sweep, "the run was started"),
        Started::Already => info!(%run, sweep, "the run had been started before"),
    }
    Ok(answer(&run, &kept.plan, &started))
}

/// The sweep file under a key in the bucket.
async fn text_of(store: &impl Store, key: &str) -> Result<String, Refused> {
    let refused = |why: &str| Err(Refused::new("Sweep", format!("sweep_key: {key}: {why}")));
    match store.get_blob(key).await? {
        Some(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => refused("it is no text in UTF-8"),
        },
        None => refused("the bucket has no such object; upload the sweep file there"),
    }
}

/// The plan, checked for a deployed fleet.
fn planned(text: &str, event: &Event) -> Result<Plan, SweepError> {
    let plan = plan::parse(text)?.plan(&event.overrides)?;
    plan.check_deployed()?;
    plan.check_fleet()?;
    for (target, endpoints) in fleet::run::endpoints_of(&plan) {
        plan.check_placements(&target, &endpoints)?;
        plan.check_shards(&target, &endpoints)?;
    }
    Ok(plan)
}

/// What the caller is told.
fn answer(run: &RunId, plan: &Plan, started: &Started) -> Value {
    let estimate = plan::estimate(plan, &Assumptions::default());
    let hundredths = |minutes: f64| (minutes * 100.0).round() / 100.0;
    json!({
        "run_id": run,
        "started": match started {
            Started::New => "new",
            Started::Already => "already",
        },
        "waves": estimate.waves,
        "workers": plan.fleet.workers,
        "connections": estimate.connections,
        "minutes": {
            "low": hundredths(estimate.minutes.low),
            "high": hundredths(estimate.minutes.high),
        },
    })
}

#[cfg(test)]
mod tests;
