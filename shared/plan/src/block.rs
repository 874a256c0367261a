//! A block of the file to its cells: inherit, take the product, fill in what
//! is not said, and check what must hold between several parameters.

use crate::cell::{AppendParams, Params, Placement, Retry, Threshold};
use crate::error::{Place, SweepError, grouped};
use crate::file::{
    AppendBlock, DEFAULTS, EITHER, MAX_CONNECTIONS, MAX_RECORDS, MAX_TRANSACTION_BYTES,
};
use crate::scalar::AnyAxis;
use crate::tree::Node;

/// Most cells of one sweep.
pub(crate) const MAX_CELLS: usize = 10_000;

/// A cell whose target is still only a name (`default` included).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draft {
    pub id: String,
    pub block: String,
    pub target: String,
    pub params: AppendParams,
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

/// The block with what it inherits: the members of `defaults` that it does not
/// give itself, in front of its own. `retry` is inherited field by field.
pub(crate) fn inherit(defaults: Option<&Node>, block: &Node) -> Node {
    let Some(defaults) = defaults else {
        return block.clone();
    };
    let displaced = |key: &str| {
        let other = EITHER.iter().find_map(|pair| match pair {
            [one, other] if *one == key => Some(*other),
            [one, other] if *other == key => Some(*one),
            _ => None,
        });
        block.get(key).is_some() || other.is_some_and(|other| block.get(other).is_some())
    };
    let inherited = defaults
        .members()
        .iter()
        .filter(|(key, _)| !displaced(key))
        .cloned();
    let own = block.members().iter().map(|(key, node)| {
        let node = match (key.as_str(), defaults.get(key)) {
            ("retry", Some(inherited)) => inherit(Some(inherited), node),
            _ => node.clone(),
        };
        (key.clone(), node)
    });
    Node::Object(inherited.chain(own).collect())
}

/// One block on its way to cells.
pub(crate) struct Expansion<'a> {
    /// With what it inherits.
    pub block: &'a AppendBlock,
    /// The same as a tree, for the order of its keys.
    pub merged: &'a Node,
    /// As it is written, to name places.
    pub own: &'a Node,
    /// Where it is written.
    pub place: Place,
    pub name: &'a str,
}

/// Which value each axis has at one point of the product.
struct Point<'a> {
    axes: &'a [(&'static str, &'a dyn AnyAxis)],
    indices: Vec<usize>,
}

impl Point<'_> {
    /// The index on the axis `key`; 0 where there is none.
    fn on(&self, key: &str) -> usize {
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
        let block = self.block;
        let mut axes: Vec<(&'static str, &dyn AnyAxis)> = vec![
            ("target", &block.target),
            ("writers", &block.writers),
            ("streams", &block.streams),
            ("batch", &block.batch),
            ("records", &block.records),
            ("measure_s", &block.measure_s),
            ("warmup_s", &block.warmup_s),
            ("payload_bytes", &block.payload_bytes),
            ("placement", &block.placement),
            ("trips", &block.trips),
            ("isolation", &block.isolation),
            ("retry.max_attempts", &block.retry.max_attempts),
            ("retry.max_retries", &block.retry.max_retries),
            ("retry.base_ms", &block.retry.base_ms),
            ("retry.cap_ms", &block.retry.cap_ms),
            ("retry.deadline_ms", &block.retry.deadline_ms),
            ("abort_after_starved", &block.abort_after_starved),
        ];
        axes.retain(|(_, axis)| axis.len() > 0);
        axes.sort_by_key(|(key, _)| position(self.merged, key));
        axes
    }

    fn cell(&self, point: &Point<'_>, thresholds: &[Threshold]) -> Result<Draft, SweepError> {
        let block = self.block;
        let params = self.params(point);
        self.check(&params, point)?;
        let target = block.target.at(point.on("target"));
        Ok(Draft {
            id: point.id(self.name),
            block: self.name.to_owned(),
            target: target.map_or_else(String::new, |name| name.0.clone()),
            params,
            reps: block.reps.as_ref().map(|reps| narrow(reps.0.0)),
            raw: block.raw.as_ref().is_some_and(|raw| raw.0.0),
            thresholds: thresholds.to_vec(),
            target_place: self.place_of(&["target"], point),
        })
    }

    fn params(&self, point: &Point<'_>) -> AppendParams {
        let block = self.block;
        let measure_s = block.measure_s.at(point.on("measure_s")).map(|s| s.0);
        let records = block.records.at(point.on("records")).map(|n| n.0);
        AppendParams {
            writers: block
                .writers
                .at(point.on("writers"))
                .map_or(DEFAULTS.writers, |n| narrow(n.0)),
            streams: block
                .streams
                .at(point.on("streams"))
                .map_or(DEFAULTS.streams, |n| narrow(n.0)),
            batch: block
                .batch
                .at(point.on("batch"))
                .map_or(DEFAULTS.batch, |n| narrow(n.0)),
            records: match measure_s {
                Some(_) => None,
                None => records.or(DEFAULTS.records),
            },
            payload_bytes: block
                .payload_bytes
                .at(point.on("payload_bytes"))
                .map_or(DEFAULTS.payload_bytes, |n| narrow(n.0)),
            placement: block
                .placement
                .at(point.on("placement"))
                .map_or(DEFAULTS.placement, |place| place.0.clone()),
            trips: block
                .trips
                .at(point.on("trips"))
                .map_or(DEFAULTS.trips, |word| word.0),
            retry: self.retry(point),
            isolation: block
                .isolation
                .at(point.on("isolation"))
                .map_or(DEFAULTS.isolation, |word| word.0),
            warmup_s: block
                .warmup_s
                .at(point.on("warmup_s"))
                .map_or(DEFAULTS.warmup_s, |s| s.0),
            measure_s,
            abort_after_starved: block
                .abort_after_starved
                .at(point.on("abort_after_starved"))
                .map_or(DEFAULTS.abort_after_starved, |n| narrow(n.0)),
        }
    }

    fn retry(&self, point: &Point<'_>) -> Retry {
        let retry = &self.block.retry;
        let attempts = retry.max_attempts.at(point.on("retry.max_attempts"));
        let retries = retry.max_retries.at(point.on("retry.max_retries"));
        let deadline = retry.deadline_ms.at(point.on("retry.deadline_ms"));
        Retry {
            max_attempts: attempts
                .map(|n| narrow(n.0))
                .or(retries.map(|n| narrow(n.0 + 1)))
                .unwrap_or(DEFAULTS.retry.max_attempts),
            base_ms: retry
                .base_ms
                .at(point.on("retry.base_ms"))
                .map_or(DEFAULTS.retry.base_ms, |ms| ms.0),
            cap_ms: retry
                .cap_ms
                .at(point.on("retry.cap_ms"))
                .map_or(DEFAULTS.retry.cap_ms, |ms| ms.0),
            deadline_ms: deadline.and_then(|ms| ms.0).map(|ms| ms.0),
            on: retry.on.iter().map(|state| state.0.0.clone()).collect(),
        }
    }

    /// What must hold between several parameters.
    fn check(&self, params: &AppendParams, point: &Point<'_>) -> Result<(), SweepError> {
        let refuse = |keys: &[&str], problem: String| {
            Err(SweepError::at(self.place_of(keys, point), problem))
        };
        let (writers, streams) = (u64::from(params.writers), u64::from(params.streams));
        if writers * streams > MAX_CONNECTIONS {
            return refuse(
                &["writers", "streams"],
                format!(
                    "{} writers x {} streams need {} connections; a cluster takes {}, so lower one of them",
                    grouped(writers),
                    grouped(streams),
                    grouped(writers * streams),
                    grouped(MAX_CONNECTIONS)
                ),
            );
        }
        // Rows need no check: the largest batch and the head are 101 of 3,000.
        let bytes = u64::from(params.batch) * u64::from(params.payload_bytes);
        if bytes > MAX_TRANSACTION_BYTES {
            return refuse(
                &["payload_bytes", "batch"],
                format!(
                    "batch {} x payload_bytes {} puts {} bytes into a transaction; it takes {} (10 MiB), so lower one of them",
                    params.batch,
                    grouped(params.payload_bytes.into()),
                    grouped(bytes),
                    grouped(MAX_TRANSACTION_BYTES)
                ),
            );
        }
        if let Some(records) = params.records {
            if records < writers {
                return refuse(
                    &["records", "writers"],
                    format!(
                        "{} records leave some of {} writers without a share; give at least as many records as writers",
                        grouped(records),
                        grouped(writers)
                    ),
                );
            }
            if records * streams > MAX_RECORDS {
                return refuse(
                    &["records", "streams"],
                    format!(
                        "{} records x {} streams are {} in one rep; at most {}, so lower one of them",
                        grouped(records),
                        grouped(streams),
                        grouped(records * streams),
                        grouped(MAX_RECORDS)
                    ),
                );
            }
        }
        let Retry {
            base_ms, cap_ms, ..
        } = params.retry;
        if base_ms > cap_ms {
            return refuse(
                &["retry.base_ms", "retry.cap_ms"],
                format!("base_ms {base_ms} is over cap_ms {cap_ms}; lower base_ms or raise cap_ms"),
            );
        }
        Ok(())
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
pub(crate) fn notes(drafts: &[Draft]) -> Vec<String> {
    drafts
        .iter()
        .filter_map(|draft| {
            let params = &draft.params;
            let share = params.share_of(0)?;
            (share < u64::from(params.batch)).then(|| {
                format!(
                    "{}: batch {} never fills: a writer has {} records, so its only transaction holds those",
                    draft.id, params.batch, share
                )
            })
        })
        .collect()
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

/// Every bound of the format lies within 32 bits where the plan has 32.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Draft {
    /// The workload's parameters.
    pub(crate) fn params(&self) -> Params {
        Params::Append(self.params.clone())
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
