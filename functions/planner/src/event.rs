//! What a planner may be sent.

use plan::Overrides;
use serde::Deserialize;
use serde_json::{Map, Value};

/// An event, decoded.
#[derive(Debug)]
pub struct Event {
    /// The sweep.
    pub sweep: SweepFrom,
    /// The run's name; made of the sweep's name and the time where it is absent.
    pub run_id: Option<String>,
    /// What is put in place of what the sweep says.
    pub overrides: Overrides,
}

/// Where a sweep is.
#[derive(Debug, PartialEq)]
pub enum SweepFrom {
    /// In the event.
    Here(Value),
    /// In the bucket, under this key.
    Bucket(String),
}

/// What stands beside a sweep.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beside {
    run_id: Option<String>,
    seed: Option<u64>,
    reps: Option<u32>,
    workers: Option<u32>,
    #[serde(default)]
    on: On,
}

#[derive(Debug, Default, Deserialize)]
#[serde(untagged, expecting = "a URL, NAME=URL, or a list of those")]
enum On {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

/// What would be accepted.
const ACCEPTED: &str = "a planner takes a sweep ({\"name\": …, \"blocks\": […]}), {\"sweep\": {…}} or \
                        {\"sweep_key\": \"sweeps/nightly.json\"}, with run_id, seed, reps, workers \
                        and on beside it if wished";

/// Keys that stand beside an inline sweep and are none of its own.
const BESIDE: [&str; 4] = ["run_id", "reps", "workers", "on"];

impl Event {
    /// Decodes an event.
    ///
    /// # Errors
    /// In one line: what is wrong with it, and what would be accepted.
    pub fn read(event: Value) -> Result<Event, String> {
        let Value::Object(mut members) = event else {
            return Err(ACCEPTED.to_owned());
        };
        let sweep = match (members.remove("sweep"), members.remove("sweep_key")) {
            (Some(sweep @ Value::Object(_)), None) => SweepFrom::Here(sweep),
            (Some(_), None) => return Err("sweep: must be a sweep document".to_owned()),
            (None, Some(Value::String(key))) if !key.is_empty() => SweepFrom::Bucket(key),
            (None, Some(_)) => {
                return Err(
                    "sweep_key: must be a key in the bucket, such as sweeps/nightly.json"
                        .to_owned(),
                );
            }
            (Some(_), Some(_)) => {
                return Err("sweep, sweep_key: give one of them".to_owned());
            }
            (None, None) if members.contains_key("blocks") => {
                // The sweep is the event itself; its own seed stays its own.
                let (beside, own) = members
                    .into_iter()
                    .partition(|(key, _)| BESIDE.contains(&key.as_str()));
                members = beside;
                SweepFrom::Here(Value::Object(own))
            }
            (None, None) => return Err(ACCEPTED.to_owned()),
        };
        Event::with(sweep, members)
    }

    fn with(sweep: SweepFrom, beside: Map<String, Value>) -> Result<Event, String> {
        let beside = Value::Object(beside);
        // Targets may hold passwords, which serde's messages would repeat.
        let secret = beside.get("on").is_some();
        let read = Beside::deserialize(&beside);
        let Beside {
            run_id,
            seed,
            reps,
            workers,
            on,
        } = read.map_err(|error| match secret {
            false => format!("{error}; {ACCEPTED}"),
            true => ACCEPTED.to_owned(),
        })?;
        Ok(Event {
            sweep,
            run_id: run_id.filter(|id| !id.trim().is_empty()),
            overrides: Overrides {
                seed,
                reps,
                workers,
                on: match on {
                    On::None => Vec::new(),
                    On::One(on) => vec![on],
                    On::Many(on) => on,
                },
            },
        })
    }
}
