//! Starting, stopping, resuming and removing a run: what people and schedules
//! do. The conductor does the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::{AddressKind, Plan};
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::ids::{ACTIVE, RunId, Stage, WaveId};
use crate::message::Message;
use crate::queue::{Queue, To};
use crate::record::{RunRecord, WaveRecord};
use crate::store::{Attr, Change, Changed, Key, Read, Store, StoreError, When};

/// Why a run was not started, stopped, resumed or removed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The sweep cannot be run by a fleet.
    #[error("{0}")]
    Plan(String),
    /// There is no such run.
    #[error("there is no run {0}")]
    Unknown(RunId),
    /// The run is in another state than this needs.
    #[error("run {run} {state}")]
    State {
        /// The run.
        run: RunId,
        /// What it does, and what would be accepted.
        state: String,
    },
    /// The store or a queue did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A plan as it is kept for a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kept {
    /// The plan.
    pub plan: Plan,
    /// Names of each target's endpoints, by the target's name.
    pub endpoints: BTreeMap<String, Vec<String>>,
}

/// Waves of one attempt: what row ids have bits for.
const WAVES: usize = 8_192;

/// Name of the blob with a plan: by its content, so that whoever starts a run of
/// the same id with another plan does not write over this one.
fn plan_name(bytes: &[u8]) -> String {
    format!("plan-{:016x}", fnv(bytes.iter().copied()))
}

/// Name of the blob with the waves of an attempt.
fn todo(plan: &str, attempt: u32) -> String {
    format!("{plan}-todo-{attempt:02}.json")
}

/// FNV-1a, 64 bits: stable over versions, which std's hasher does not promise.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The endpoints of a plan's targets as a fleet names them: the host's region
/// where its name tells it, or the host.
pub fn endpoints_of(plan: &Plan) -> BTreeMap<String, Vec<String>> {
    let named = plan.targets.iter().map(|target| {
        let hosts = match target.address.kind() {
            AddressKind::Dsql { hosts } => hosts.clone(),
            _ => vec![target.name.clone()],
        };
        let regions = target.address.regions();
        let names = if regions.len() == hosts.len() {
            regions
        } else {
            hosts
        };
        (target.name.clone(), names)
    });
    named.collect()
}

/// How a start went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// The run was started.
    New,
    /// It had been started before: nothing was.
    Already,
}

/// Starts a run. A run's id is claimed by a condition, so whoever starts it
/// twice starts it once.
///
/// # Errors
/// When the plan is refused or the store does not answer.
pub async fn start<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
    kept: &Kept,
) -> Result<Started, RunError> {
    let Kept { plan, endpoints } = kept;
    plan.check_fleet()
        .map_err(|error| RunError::Plan(error.to_string()))?;
    for (target, endpoints) in endpoints {
        plan.check_placements(target, endpoints)
            .and_then(|()| plan.check_shards(target, endpoints))
            .map_err(|error| RunError::Plan(error.to_string()))?;
    }
    let leg_ms = u64::try_from(env.settings.leg.as_millis()).unwrap_or(u64::MAX);
    for cell in &plan.cells {
        plan::legs_allowed(cell, leg_ms)
            .map_err(|why| RunError::Plan(format!("cell {}: {why}", cell.id)))?;
    }
    let waves = all_waves(plan, 1);
    if waves.len() > WAVES {
        return Err(RunError::Plan(format!(
            "the sweep has {} waves (cells times reps), and a run holds at most {WAVES}; split it",
            waves.len()
        )));
    }
    // The note that it is active comes first: a note without a run is found and
    // removed, a run without a note might never end.
    let note = Change::of(run.active_key())
        .set_n("since_ms", env.wall_ms())
        .set_n("expires_s", env.expires_s());
    env.change(&note).await?;
    if env.get(&run.key()).await?.is_some() {
        return already(env, run).await;
    }
    let bytes = json(kept)?;
    let name = plan_name(&bytes);
    env.put_blob(&run.blob(&name), &bytes).await?;
    env.put_blob(&run.blob(&todo(&name, 1)), &json(&waves)?)
        .await?;
    let created_ms = env.wall_ms();
    let change = Change::of(run.key())
        .when([When::Absent("created_ms")])
        .set("run", run.as_str())
        .set("sweep", &plan.name)
        .set("created", report::utc(env.clock.wall()))
        .set("plan", &name)
        .set_n("created_ms", created_ms)
        .set_n("began_ms", created_ms)
        .set_n("attempt", 1)
        .set_n("at", 0)
        .set_n("waves", waves.len() as i64)
        .set_n("ids", ids(run, created_ms))
        .set_n("expires_s", env.expires_s());
    match env.change(&change).await? {
        Changed::Yes(_) => {
            call(env, run).await?;
            Ok(Started::New)
        }
        Changed::No(_) => already(env, run).await,
    }
}

/// The run is there. Its first message may not be: another does no harm.
async fn already<S: Store, Q: Queue>(env: &Env<S, Q>, run: &RunId) -> Result<Started, RunError> {
    let record = env.get(&run.key()).await?;
    if record.is_some_and(|item| item.text("outcome").is_none()) {
        call(env, run).await?;
    } else {
        env.delete(&[run.active_key()]).await?;
    }
    Ok(Started::Already)
}

/// Calls the conductor to a run.
pub(crate) async fn call<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
) -> Result<(), StoreError> {
    let look = Message::look(run, None).to_text();
    env.send(&To::Control, &[look], Duration::ZERO).await
}

/// 32 bits that no other run of a database should have, above the bits of waves
/// and rows.
fn ids(run: &RunId, created_ms: i64) -> i64 {
    let bits = fnv(run.as_str().bytes().chain(created_ms.to_be_bytes()));
    // Folded: the lower bits of FNV alone are weak for short inputs.
    let bits = (bits >> 32) ^ (bits & 0xffff_ffff);
    i64::try_from(bits).unwrap_or(0) << 31
}

/// Lowest row id of a wave: the run's bits, 17 bits of wave, 14 bits of rows.
pub(crate) fn id_base(run: &RunRecord) -> i64 {
    let place = i64::from(run.attempt - 1) * 8_192 + i64::from(run.at);
    run.ids | ((place & 0x1_ffff) << 14)
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, RunError> {
    serde_json::to_vec(value).map_err(|error| RunError::Plan(error.to_string()))
}

fn all_waves(plan: &Plan, attempt: u32) -> Vec<WaveId> {
    let cells = plan.cells.iter().zip(0..);
    cells
        .flat_map(|(cell, place)| {
            (1..=cell.reps).map(move |rep| WaveId {
                cell: place,
                rep,
                attempt,
            })
        })
        .collect()
}

/// The plan of a run.
///
/// # Errors
/// When there is none, or the store does not answer.
pub async fn plan_of<S: Store, Q: Queue>(env: &Env<S, Q>, run: &RunId) -> Result<Kept, RunError> {
    let record = record_of(env, run).await?;
    let bytes = env.get_blob(&run.blob(&record.plan)).await?;
    let bytes = bytes.ok_or_else(|| RunError::Plan(format!("the plan of run {run} is gone")))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| RunError::Plan(format!("the plan of run {run} cannot be read: {error}")))
}

/// The waves of a run's attempt, in order.
///
/// # Errors
/// When there are none, or the store does not answer.
pub async fn waves_of<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
    attempt: u32,
) -> Result<Vec<WaveId>, RunError> {
    let record = record_of(env, run).await?;
    let bytes = env
        .get_blob(&run.blob(&todo(&record.plan, attempt)))
        .await?;
    let bytes =
        bytes.ok_or_else(|| RunError::Plan(format!("the list of waves of run {run} is gone")))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| RunError::Plan(format!("the waves of run {run} cannot be read: {error}")))
}

/// Reads a run.
///
/// # Errors
/// When there is none, or the store does not answer.
pub async fn record_of<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
) -> Result<RunRecord, RunError> {
    match env.get(&run.key()).await? {
        Some(item) if item.contains_key("created_ms") => Ok(RunRecord::read(&item)),
        _ => Err(RunError::Unknown(run.clone())),
    }
}

/// Tells a run to stop: workers see it within a second or two, the wave under
/// way is verified and cleaned, and no other begins. A run that has ended is
/// left alone.
///
/// # Errors
/// When there is no such run, or the store does not answer.
pub async fn stop<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
    why: &str,
) -> Result<(), RunError> {
    if let Some(outcome) = record_of(env, run).await?.outcome {
        return Err(RunError::State {
            run: run.clone(),
            state: format!("has ended ({outcome}); there is nothing to stop"),
        });
    }
    let change = Change::of(run.key())
        .when([
            When::Present("created_ms"),
            When::Absent("outcome"),
            When::Absent("stop"),
        ])
        .set("stop", why)
        .set_n("stop_ms", env.wall_ms());
    env.change(&change).await?;
    call(env, run).await?;
    Ok(())
}

/// Runs what is missing, failed or invalid as a new attempt. Returns the waves.
///
/// # Errors
/// When the run has not ended, or nothing is missing.
pub async fn resume<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
) -> Result<Vec<WaveId>, RunError> {
    let record = record_of(env, run).await?;
    let state = |state: &str| RunError::State {
        run: run.clone(),
        state: state.to_owned(),
    };
    if record.outcome.is_none() {
        return Err(state("has not ended; stop it first, or wait"));
    }
    let kept = plan_of(env, run).await?;
    let attempt = record.attempt + 1;
    if attempt > 15 {
        return Err(state("has had 15 attempts; start a new run"));
    }
    let good = good_reps(env, run).await?;
    let waves: Vec<WaveId> = all_waves(&kept.plan, attempt)
        .into_iter()
        .filter(|wave| !good.contains(&(wave.cell, wave.rep)))
        .collect();
    if waves.is_empty() {
        return Err(state("is complete; there is nothing to resume"));
    }
    let note = Change::of(run.active_key())
        .set_n("since_ms", env.wall_ms())
        .set_n("expires_s", env.expires_s());
    env.change(&note).await?;
    env.put_blob(&run.blob(&todo(&record.plan, attempt)), &json(&waves)?)
        .await?;
    let change = Change::of(run.key())
        .when([
            When::Present("outcome"),
            When::Is("attempt", Attr::N(i64::from(record.attempt))),
        ])
        .set_n("attempt", i64::from(attempt))
        .set_n("at", 0)
        .set_n("waves", waves.len() as i64)
        .set_n("began_ms", env.wall_ms())
        .remove("outcome")
        .remove("why")
        .remove("exit_code")
        .remove("ended")
        .remove("ended_ms")
        .remove("stop")
        .remove("stop_ms");
    if let Changed::No(_) = env.change(&change).await? {
        return Err(state("was resumed by somebody else"));
    }
    call(env, run).await?;
    Ok(waves)
}

/// Cell and rep of every wave that needs no other attempt.
async fn good_reps<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
) -> Result<std::collections::BTreeSet<(u32, u32)>, RunError> {
    let mut good = std::collections::BTreeSet::new();
    for result in crate::finish::wave_results(env, run).await? {
        let rep = &result.rep;
        let whole = rep.error.is_none()
            && !rep.partial
            && rep.missing.is_empty()
            && rep.workers_late == 0
            && rep.verify_ok == Some(true);
        if whole {
            good.insert((result.wave.cell, rep.rep));
        }
    }
    Ok(good)
}

/// What a removal left: 0 when everything is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// Items in the table.
    pub items: usize,
    /// Blobs in the bucket.
    pub blobs: usize,
}

impl Remaining {
    /// Whether nothing is left.
    pub fn is_none(&self) -> bool {
        *self == Remaining::default()
    }
}

/// Removes everything that is kept of a run, once; what remains is counted
/// afterwards. Call it again until nothing does.
///
/// # Errors
/// When the run has not ended, or the store does not answer.
pub async fn remove<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
) -> Result<Remaining, RunError> {
    if let Some(item) = env.get(&run.key()).await?
        && item.text("outcome").is_none()
    {
        return Err(RunError::State {
            run: run.clone(),
            state: "has not ended; stop it first".to_owned(),
        });
    }
    let prefix = run.blob("");
    let blobs = env.store.list_blobs(&prefix).await?;
    env.store.delete_blobs(&blobs).await?;
    let keys: Vec<Key> = env
        .list(&run.pk(), "")
        .await?
        .iter()
        .filter_map(|item| Some(Key::new(item.text("pk")?, item.text("sk")?)))
        .chain([run.active_key()])
        .collect();
    env.delete(&keys).await?;
    remaining(env, run).await
}

/// Counts what is kept of a run.
///
/// # Errors
/// When the store does not answer.
pub async fn remaining<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
) -> Result<Remaining, RunError> {
    Ok(Remaining {
        items: env.list(&run.pk(), "").await?.len(),
        blobs: env.store.list_blobs(&run.blob("")).await?.len(),
    })
}

/// Calls the conductor to every run that has not ended. This is what revives a
/// run whose message was lost; a schedule does it every few minutes. Returns
/// the runs.
///
/// # Errors
/// When the store does not answer.
pub async fn revive<S: Store, Q: Queue>(env: &Env<S, Q>) -> Result<Vec<RunId>, StoreError> {
    let mut called = Vec::new();
    for note in env.list(ACTIVE, "").await? {
        let Some(run) = note.text("sk").and_then(|id| id.parse::<RunId>().ok()) else {
            continue;
        };
        let item = env.get(&run.key()).await?;
        match item.map(|item| RunRecord::read(&item)) {
            Some(record) if record.outcome.is_none() => {
                call(env, &run).await?;
                called.push(run);
            }
            // Ended, or never begun: a start that is under way is younger.
            found => {
                let old_ms = env.wall_ms() - 3_600_000;
                let old = note.number("since_ms").unwrap_or(0) < old_ms;
                if found.is_some() || old {
                    env.delete(&[run.active_key()]).await?;
                }
            }
        }
    }
    Ok(called)
}

/// A run as people look at it.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The run.
    pub run: RunRecord,
    /// The wave under way.
    pub wave: Option<(WaveId, WaveRecord)>,
    /// Its tasks: waiting, ready, running, done, lost.
    pub tasks: [u32; 5],
    /// What its workers said last, added up.
    pub counts: crate::work::Counts,
    /// Since when it runs, milliseconds since 1970.
    pub start_ms: Option<i64>,
    /// Dollars that the waves before it have spent, by estimate.
    pub spent_usd: f64,
}

/// Looks at a run.
///
/// # Errors
/// When there is no such run, or the store does not answer.
pub async fn view<S: Store, Q: Queue>(env: &Env<S, Q>, run: &RunId) -> Result<View, RunError> {
    use crate::record::TaskState;
    let record = record_of(env, run).await?;
    let mut view = View {
        run: record.clone(),
        wave: None,
        tasks: [0; 5],
        counts: crate::work::Counts::default(),
        start_ms: None,
        spent_usd: crate::finish::spent(env, run).await?.usd,
    };
    let waves = waves_of(env, run, record.attempt).await?;
    let Some(id) = waves.get(record.at as usize) else {
        return Ok(view);
    };
    let Some(wave) = env
        .get(&id.key(run))
        .await?
        .as_ref()
        .and_then(WaveRecord::read)
    else {
        return Ok(view);
    };
    if wave.stage != Stage::Closed {
        for task in crate::results::tasks(env, run, *id, wave.stage)
            .await?
            .into_values()
        {
            let place = match task.state {
                TaskState::Claimed if task.ready => 1,
                TaskState::Claimed => 0,
                TaskState::Running => 2,
                TaskState::Done => 3,
                TaskState::Lost => 4,
            };
            view.tasks[place] += 1;
            if let Some(text) = &task.progress
                && let Ok(counts) = serde_json::from_str::<crate::work::Counts>(text)
            {
                view.counts.ended += counts.ended;
                view.counts.committed += counts.committed;
                view.counts.conflicts += counts.conflicts;
                view.counts.failed += counts.failed;
                view.counts.at_ms = view.counts.at_ms.max(counts.at_ms);
            }
        }
    }
    view.start_ms = wave.start_ms;
    view.wave = Some((*id, wave));
    Ok(view)
}
