//! A block of the file to its cells: inherit, take the product, and put the
//! values of each point in the places of the workload's defaults. What must hold
//! between several parameters is in `check`.

use serde_json::{Map, Value};

use crate::cell::{Params, Placement, Threshold};
use crate::check::check;
use crate::error::{Place, SweepError, grouped};
use crate::file::EITHER;
use crate::keys::BlockFile;
use crate::read::TAG;
use crate::scalar::AnyAxis;
use crate::tree::Node;
use crate::workloads::Workload;

/// Most cells of one sweep.
pub(crate) const MAX_CELLS: usize = 10_000;

/// A cell whose target is still only a name (`default` included).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draft {
    pub id: String,
    pub block: String,
    pub target: String,
    pub params: Params,
    pub reps: Option<u32>,
    pub raw: bool,
    pub thresholds: Vec<Threshold>,
    /// Where its target was picked.
    pub target_place: Place,
}

/// Refuses keys that mean the same thing side by side, in a block or in
/// `defaults`.
pub(crate) fn refuse_both(block: &Node, place: &Place) -> Result<(), SweepError> {
    let retry = place.key("retry");
    let scopes = [(Some(block), place), (block.get("retry"), &retry)];
    for (node, place) in scopes {
        let Some(node) = node else { continue };
        for [one, other] in EITHER {
            if node.get(one).is_some() && node.get(other).is_some() {
                return Err(SweepError::at(
                    place.key(other),
                    format!("excludes `{one}`; give one of them"),
                ));
            }
        }
    }
    Ok(())
}

/// The block with what it inherits: the members of `defaults` that its
/// workload has and that it does not give itself, in front of its own. `retry`
/// is inherited field by field.
pub(crate) fn inherit(defaults: Option<&Node>, block: &Node, workload: Workload) -> Node {
    merged(defaults, block, &|key| workload.has(key))
}

fn merged(defaults: Option<&Node>, block: &Node, has: &dyn Fn(&str) -> bool) -> Node {
    let Some(defaults) = defaults else {
        return block.clone();
    };
    let displaced = |key: &str| {
        let gives = |key: &str| block.get(key).is_some();
        let rivals = EITHER.iter().filter(|pair| pair.contains(&key));
        gives(key) || rivals.flatten().any(|rival| gives(rival))
    };
    let inherited = defaults
        .members()
        .iter()
        .filter(|(key, _)| has(key) && !displaced(key))
        .cloned();
    let own = block.members().iter().map(|(key, node)| {
        let node = match (key.as_str(), defaults.get(key)) {
            ("retry", Some(inherited)) => merged(Some(inherited), node, &|_| true),
            _ => node.clone(),
        };
        (key.clone(), node)
    });
    Node::Object(inherited.chain(own).collect())
}

/// One block on its way to cells.
pub(crate) struct Expansion<'a> {
    pub workload: Workload,
    /// With what it inherits.
    pub block: &'a BlockFile,
    /// The same as a tree, for the order of its keys.
    pub merged: &'a Node,
    /// As it is written, to name places.
    pub own: &'a Node,
    /// Where it is written.
    pub place: Place,
    pub name: &'a str,
}

/// Which value each axis has at one point of the product.
pub(crate) struct Point<'a> {
    axes: &'a [(&'static str, &'a dyn AnyAxis)],
    indices: Vec<usize>,
}

impl Point<'_> {
    /// The index on the axis `key`; 0 where there is none.
    pub(crate) fn on(&self, key: &str) -> usize {
        let axis = self.axes.iter().position(|(name, _)| *name == key);
        axis.map_or(0, |axis| self.indices[axis])
    }

    /// Block name and the axes that vary.
    fn id(&self, name: &str) -> String {
        let varying: Vec<String> = self
            .axes
            .iter()
            .zip(&self.indices)
            .filter(|((_, axis), _)| axis.len() > 1)
            .map(|((key, axis), index)| format!("{key}={}", axis.label(*index)))
            .collect();
        match varying.is_empty() {
            true => name.to_owned(),
            false => format!("{name}/{}", varying.join(",")),
        }
    }
}

impl Expansion<'_> {
    /// The block's cells in order: the axes as written, the last one fastest.
    pub(crate) fn cells(&self) -> Result<Vec<Draft>, SweepError> {
        let axes = self.axes();
        let count = axes
            .iter()
            .try_fold(1usize, |count, (_, axis)| count.checked_mul(axis.len()))
            .filter(|count| *count <= MAX_CELLS);
        let Some(count) = count else {
            return Err(SweepError::at(
                &self.place,
                format!(
                    "its lists make more than {} cells; shorten some",
                    grouped(MAX_CELLS as u64)
                ),
            ));
        };
        let thresholds = self.thresholds()?;
        (0..count)
            .map(|n| {
                let point = Point {
                    axes: &axes,
                    indices: indices(n, &axes),
                };
                self.cell(&point, &thresholds)
            })
            .collect()
    }

    /// The axes that the block has, in the order of its keys. A target that is
    /// not written comes first.
    fn axes(&self) -> Vec<(&'static str, &dyn AnyAxis)> {
        let mut axes = self.block.axes();
        axes.retain(|(_, axis)| axis.len() > 0);
        axes.sort_by_key(|(key, _)| position(self.merged, key));
        axes
    }

    fn cell(&self, point: &Point<'_>, thresholds: &[Threshold]) -> Result<Draft, SweepError> {
        let block = self.block;
        let params = self.params(point)?;
        if let Err(refused) = check(&params) {
            let place = self.place_of(refused.keys, point);
            return Err(SweepError::at(place, refused.problem));
        }
        let target = block.target.at(point.on("target"));
        Ok(Draft {
            id: point.id(self.name),
            block: self.name.to_owned(),
            target: target.map_or_else(String::new, |name| name.0.clone()),
            params,
            reps: block.reps.as_ref().map(|reps| reps.0.0 as u32),
            raw: block.raw.as_ref().is_some_and(|raw| raw.0.0),
            thresholds: thresholds.to_vec(),
            target_place: self.place_of(&["target"], point),
        })
    }

    /// The workload's defaults with the block's values in their places.
    fn params(&self, point: &Point<'_>) -> Result<Params, SweepError> {
        let mut params = self.workload.defaults().clone();
        let mut retry = match params.remove("retry") {
            Some(Value::Object(retry)) => retry,
            _ => Map::new(),
        };
        let gives = |key: &str| point.axes.iter().any(|(axis, _)| *axis == key);
        // A block gives one bound at most; the other's default gives way.
        let count = self.workload.count_key();
        if gives("measure_s") {
            params.insert(count.to_owned(), Value::Null);
        } else if gives(count) {
            params.insert("measure_s".to_owned(), Value::Null);
            params.insert("warmup_s".to_owned(), 0.0.into());
        }
        for ((key, axis), index) in point.axes.iter().zip(&point.indices) {
            let value = axis.json(*index);
            match key.split_once('.') {
                Some((_, "max_retries")) => {
                    let attempts = value.as_u64().unwrap_or_default() + 1;
                    retry.insert("max_attempts".to_owned(), attempts.into());
                }
                Some((_, field)) => _ = retry.insert(field.to_owned(), value),
                None if *key == "target" => {}
                None => _ = params.insert((*key).to_owned(), value),
            }
        }
        let on = self.block.retry.on.iter().map(|state| state.0.0.clone());
        retry.insert("on".to_owned(), on.collect());
        params.insert("retry".to_owned(), Value::Object(retry));
        params.insert(TAG.to_owned(), self.workload.name().into());
        // Every key is a parameter and was read within its bounds, so this
        // does not fail.
        serde_json::from_value(Value::Object(params))
            .map_err(|error| SweepError::at(&self.place, error.to_string()))
    }

    /// The place of the first of `keys` that the block itself gives, else of
    /// the block.
    fn place_of(&self, keys: &[&str], point: &Point<'_>) -> Place {
        for key in keys {
            let found = key
                .split('.')
                .try_fold((self.own, self.place.clone()), |(node, place), part| {
                    node.get(part).map(|node| (node, place.key(part)))
                });
            match found {
                Some((Node::List(_), place)) => return place.index(point.on(key)),
                Some((_, place)) => return place,
                None => {}
            }
        }
        self.place.clone()
    }

    fn thresholds(&self) -> Result<Vec<Threshold>, SweepError> {
        let place = match self.own.get("thresholds") {
            Some(_) => self.place.clone(),
            None => Place::from("defaults"),
        };
        let place = place.key("thresholds");
        let mut thresholds = Vec::new();
        for (i, threshold) in self.block.thresholds.iter().enumerate() {
            let min = threshold.min.as_ref().map(|limit| limit.0.0);
            let max = threshold.max.as_ref().map(|limit| limit.0.0);
            let problem = match (min, max) {
                (None, None) => Some("no limit; give `min`, `max` or both".to_owned()),
                (Some(min), Some(max)) if min > max => Some(format!(
                    "min {min} is over max {max}, so nothing could pass; lower min or raise max"
                )),
                _ => None,
            };
            if let Some(problem) = problem {
                return Err(SweepError::at(place.index(i), problem));
            }
            thresholds.push(Threshold {
                figure: threshold.figure.0.0.clone(),
                min,
                max,
            });
        }
        Ok(thresholds)
    }
}

/// What a reader of the plan should know about a cell, though it may run.
pub(crate) fn notes(drafts: &[&Draft]) -> Vec<String> {
    let note = |draft: &&Draft| {
        match &draft.params {
        Params::Append(params) => {
            let share = params.share_of(0)?;
            (share < u64::from(params.batch)).then(|| {
                format!(
                    "{}: batch {} never fills: a writer has {} records, so its only transaction holds those",
                    draft.id, params.batch, share
                )
            })
        }
        Params::OrderTransfer(params) => {
            (params.duplicate_pct > 0.0 && params.concurrency == 1).then(|| {
                format!(
                    "{}: nothing is sent again: duplicates come from another client, and there is one",
                    draft.id
                )
            })
        }
        Params::Tpcb(_) => None,
    }
    };
    drafts.iter().filter_map(note).collect()
}

/// The point number `n` of the product, the last axis fastest.
fn indices(mut n: usize, axes: &[(&'static str, &dyn AnyAxis)]) -> Vec<usize> {
    let mut indices = vec![0; axes.len()];
    for (index, (_, axis)) in indices.iter_mut().zip(axes).rev() {
        *index = n % axis.len();
        n /= axis.len();
    }
    indices
}

/// Where a key stands among the members of an object: its rank at each level.
fn position(node: &Node, key: &str) -> Option<(usize, Option<usize>)> {
    let rank = |node: &Node, key: &str| node.members().iter().position(|(name, _)| name == key);
    match key.split_once('.') {
        None => Some((rank(node, key)?, None)),
        Some((outer, inner)) => Some((rank(node, outer)?, rank(node.get(outer)?, inner))),
    }
}

impl Placement {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Placement::Split(_) => "split",
            Placement::Region(name) => name,
        }
    }
}
