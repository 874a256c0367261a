//! What must hold of a run that has ended, whatever happened to it.

use std::collections::{BTreeMap, BTreeSet};

use fleet::embedded::{MemoryQueue, MemoryStore, Service};
use fleet::{Env, Outcome, Read, RunId, RunOutcome, Store, TaskRecord, TaskState, WaveResult};

use crate::fake::Fake;

/// What was seen on the way.
#[derive(Debug, Default)]
pub struct Seen {
    pub outcome: Option<RunOutcome>,
    pub late: u64,
    pub lost_running: u64,
    pub refused: u64,
    /// Steps that another worker did after the first one was lost.
    pub replaced: u64,
    pub spread_ms: u64,
}

pub async fn check(
    service: &Service<Fake>,
    env: &Env<MemoryStore, MemoryQueue>,
    run: &RunId,
    broken: &mut Vec<String>,
) -> Seen {
    let mut seen = Seen::default();
    let store = &env.store;
    let item = store.get(&run.key()).await.unwrap().unwrap_or_default();
    seen.outcome = match item.text("outcome") {
        Some("complete") => Some(RunOutcome::Complete),
        Some("incomplete") => Some(RunOutcome::Incomplete),
        Some("stopped") => Some(RunOutcome::Stopped),
        other => {
            broken.push(format!("the run's outcome is {other:?}"));
            None
        }
    };

    // No load is begun twice, and none runs while its wave is verified.
    let done = service.work().done.borrow().clone();
    for (part, times) in &done.begun {
        if times.len() > 1 {
            broken.push(format!(
                "the load of {part:?} was begun {} times",
                times.len()
            ));
        }
    }
    if !done.disturbed.is_empty() {
        broken.push(format!("verified under load: {:?}", done.disturbed));
    }

    // Tasks by wave, and what those that are done returned.
    let mut sums: BTreeMap<String, (u32, u64)> = BTreeMap::new();
    for (key, item) in store.items() {
        let Some(rest) = key.sk.strip_prefix("task#") else {
            if key.sk.starts_with("wave#") && item.text("refused").is_some() {
                seen.refused += 1;
            }
            continue;
        };
        let (wave, rest) = rest.split_once('/').unwrap();
        let task = TaskRecord::read(&item).unwrap();
        if !rest.starts_with("load/") {
            let again = item.number("round").is_some_and(|round| round > 1);
            seen.replaced += u64::from(again && task.state == TaskState::Done);
            continue;
        }
        match task.state {
            TaskState::Done => {
                let result = format!("result#{wave}/{rest}/{}", task.owner);
                let key = fleet::Key::new(run.pk(), result.clone());
                let Some(result) = store.get(&key).await.unwrap() else {
                    broken.push(format!("{result} is not there"));
                    continue;
                };
                let text = match (result.text("result"), result.text("blob")) {
                    (Some(text), _) => text.to_owned(),
                    (None, Some(blob)) => {
                        let bytes = store.get_blob(blob).await.unwrap().unwrap();
                        String::from_utf8(bytes).unwrap()
                    }
                    (None, None) => panic!("an empty result"),
                };
                let sum = sums.entry(wave.to_owned()).or_default();
                match serde_json::from_str(&text).unwrap() {
                    Outcome::Ran { report } => {
                        sum.0 += 1;
                        sum.1 += report.result.total.counts.committed;
                    }
                    Outcome::Late { .. } => seen.late += 1,
                    _ => {}
                }
            }
            TaskState::Lost => {
                if item.contains_key("progress") {
                    seen.lost_running += 1;
                }
            }
            state => broken.push(format!("a task of {wave} was left {}", state.as_str())),
        }
    }

    // A wave's total is the sum of its shards, and all are accounted for.
    let mut reps = BTreeSet::new();
    for name in store.list_blobs(&run.blob("waves/")).await.unwrap() {
        let bytes = store.get_blob(&name).await.unwrap().unwrap();
        let result: WaveResult = serde_json::from_slice(&bytes).unwrap();
        let (ran, committed) = sums
            .get(&result.wave.to_string())
            .copied()
            .unwrap_or_default();
        let rep = &result.rep;
        let told = rep.result.total.counts.committed;
        if told != committed {
            broken.push(format!("{name} counts {told}, its shards {committed}"));
        }
        let missing = u32::try_from(rep.missing.len()).unwrap();
        if rep.workers_reported + missing != rep.workers_expected {
            broken.push(format!(
                "{name}: {} reported, {missing} missing of {}",
                rep.workers_reported, rep.workers_expected
            ));
        }
        if rep.verify_ok == Some(false) {
            broken.push(format!("{name}: {:?}", rep.verify_problems));
        }
        let whole = rep.missing.is_empty()
            && rep.error.is_none()
            && rep.workers_late == 0
            && ran == rep.workers_expected
            && ran > 0;
        if whole {
            reps.insert((result.wave.cell, rep.rep));
        }
    }
    if seen.outcome == Some(RunOutcome::Complete) && reps.len() != 3 {
        broken.push(format!("complete, but only {reps:?} are whole"));
    }

    // Workers of a wave start together, as far as their clocks agree.
    let mut starts: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    for ((wave, leg, _), times) in &done.begun {
        if *leg == 0 {
            let first = times.iter().map(|time| time.as_us() / 1_000);
            starts.entry(*wave).or_default().extend(first);
        }
    }
    for times in starts.values() {
        let spread = times.iter().max().unwrap() - times.iter().min().unwrap();
        seen.spread_ms = seen.spread_ms.max(spread);
        if spread > 2 * 2_000 + 250 {
            broken.push(format!("workers started {spread} ms apart"));
        }
    }
    seen
}
