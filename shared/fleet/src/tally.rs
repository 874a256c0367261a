//! Counting who is there without a hot item and without counting twice.
//!
//! Members are put into the set of their group of at most 32; whoever sees a
//! group full puts the group into the set at the root. A set holds each member
//! once however often it is put there, so a retry, a duplicate and a crash in
//! between change nothing: whoever comes again goes on where the other ended.
//! At most 32 workers ever write to one item at a time.

use crate::env::Env;
use crate::ids::{RunId, WaveId};
use crate::queue::Queue;
use crate::store::{Change, Changed, Item, Key, Read, Store, StoreError};

/// Members of a group.
const GROUP: u32 = 32;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rally {
    /// Workers that are there, before they connect.
    Present,
    /// Workers that stand at the barrier.
    Ready,
    /// Tasks whose result is written, of a stage's round.
    Done(crate::ids::Stage),
}

fn key(run: &RunId, wave: WaveId, rally: Rally, group: Option<u32>) -> Key {
    let what = match rally {
        Rally::Present => "present".to_owned(),
        Rally::Ready => "ready".to_owned(),
        Rally::Done(stage) => format!("done-{stage}"),
    };
    let group = group.map_or("root".to_owned(), |group| format!("{group:04}"));
    Key::new(run.pk(), format!("tally#{wave}/{what}/{group}"))
}

/// Counts member `index` of `of` in; true when all are there.
pub(crate) async fn count_in<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
    wave: WaveId,
    rally: Rally,
    index: u32,
    of: u32,
) -> Result<bool, StoreError> {
    let groups = of.div_ceil(GROUP);
    if groups <= 1 {
        let there = put(env, key(run, wave, rally, None), index).await?;
        return Ok(there >= of as usize);
    }
    let group = index / GROUP;
    let size = GROUP.min(of - group * GROUP);
    let there = put(env, key(run, wave, rally, Some(group)), index).await?;
    if there < size as usize {
        return Ok(false);
    }
    let full = put(env, key(run, wave, rally, None), group).await?;
    Ok(full >= groups as usize)
}

/// Whether all of `of` members have been counted in.
pub(crate) async fn is_full<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    run: &RunId,
    wave: WaveId,
    rally: Rally,
    of: u32,
) -> Result<bool, StoreError> {
    let root = env.get(&key(run, wave, rally, None)).await?;
    let groups = of.div_ceil(GROUP);
    let wanted = if groups <= 1 { of } else { groups };
    Ok(root.is_some_and(|root| members(&root) >= wanted as usize))
}

async fn put<S: Store, Q: Queue>(
    env: &Env<S, Q>,
    key: Key,
    member: u32,
) -> Result<usize, StoreError> {
    let change = Change::of(key)
        .add("members", member.to_string())
        .set_n("expires_s", env.expires_s());
    match env.change(&change).await? {
        Changed::Yes(item) => Ok(members(&item)),
        // There is no condition that could fail.
        Changed::No(_) => Ok(0),
    }
}

fn members(item: &Item) -> usize {
    item.members("members")
}
