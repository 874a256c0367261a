//! How a wave is shared out over a fleet: its shards, its legs, and the slots
//! in which its connections open.
//!
//! A shard is the part of one worker, which runs beside one endpoint. Writers of
//! an endpoint are dealt by turn, so that every shard has a writer more or less
//! and all of them write to all streams alike. Nothing here waits or draws: a
//! shard is the same wherever it is computed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Placement};
use crate::error::grouped;
use crate::file::MAX_CONNECTIONS;
use crate::fleet::Fleet;
use crate::share::{LoadShape, PlacementError};

/// Connections that a cluster takes at once after a rest, and each second after
/// that.
const BURST: u32 = 1_000;
const PER_SECOND: u64 = 100;
/// Of the burst a wave leaves these to others: whoever prepared the rep, looks
/// at the cluster, or was refused and tries again.
const RESERVE: u32 = 20;
/// Just under the cluster's rate, for the same others.
const SLOTS_PER_SECOND: u64 = PER_SECOND - 1;

/// One worker's part of a wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its number in the wave, from 0.
    pub index: u32,
    /// Shards of the wave.
    pub of: u32,
    /// Index of the endpoint that it is beside.
    pub endpoint: u32,
    /// Its first writer, by the writer's index in the wave.
    pub first_writer: u32,
    /// From one of its writers to the next.
    pub step: u32,
    /// How many writers it has.
    pub writers: u32,
    /// Its connection `j` opens in slot `slot_first + j * slot_step` of the
    /// wave. Connection 0 is the probe's, the others are its writers' in order.
    pub slot_first: u32,
    /// From one of its slots to the next.
    pub slot_step: u32,
}

impl Shard {
    /// Its writers, by their index in the wave.
    pub fn writer_indices(&self) -> impl Iterator<Item = u32> + use<> {
        let (first, step) = (self.first_writer, self.step);
        (0..self.writers).map(move |place| first + place * step)
    }

    /// Connections that it opens: one for the probe, one for each writer.
    pub fn connections(&self) -> u32 {
        self.writers + 1
    }

    /// When each of its connections may open, the probe's first, counted from
    /// the instant at which all shards are present.
    pub fn delays(&self) -> Vec<Duration> {
        let (first, step) = (self.slot_first, self.slot_step);
        (0..self.connections())
            .map(|place| slot_delay(first.saturating_add(place.saturating_mul(step))))
            .collect()
    }
}

/// Writers of a wave on one endpoint: `writers` of them, `first`, `first +
/// step`, and so on.
#[derive(Clone, Copy, Debug)]
struct Seats {
    endpoint: u32,
    first: u32,
    step: u32,
    writers: u32,
}

/// Who sits where, endpoint by endpoint; endpoints without writers are left
/// out. It says of all writers what [`Placement::endpoint_of`] says of one.
fn seats(shape: &LoadShape<'_>, endpoints: &[String]) -> Result<Vec<Seats>, PlacementError> {
    let writers = shape.writers;
    let only = shape.placement.endpoint_of(0, endpoints)?;
    // A process has no more endpoints than fit 32 bits.
    let (only, of) = (only as u32, endpoints.len() as u32);
    let seats = match shape.placement {
        Placement::Split(_) => (0..of.min(writers))
            .map(|endpoint| Seats {
                endpoint,
                first: endpoint,
                step: of,
                writers: (writers - endpoint).div_ceil(of),
            })
            .collect(),
        Placement::Region(_) if writers > 0 => vec![Seats {
            endpoint: only,
            first: 0,
            step: 1,
            writers,
        }],
        Placement::Region(_) => Vec::new(),
    };
    Ok(seats)
}

/// Workers that a wave needs at least, with so many endpoints.
pub(crate) fn least_shards(shape: &LoadShape<'_>, endpoints: usize, fleet: &Fleet) -> u64 {
    let each = fleet.connections_per_worker.max(1);
    let of = match shape.placement {
        Placement::Split(_) => u32::try_from(endpoints).unwrap_or(u32::MAX).max(1),
        Placement::Region(_) => 1,
    };
    let writers = shape.writers;
    (0..of.min(writers))
        .map(|endpoint| u64::from((writers - endpoint).div_ceil(of).div_ceil(each)))
        .sum()
}

/// Deals a wave out to a fleet's workers.
///
/// Every endpoint that has writers gets one worker, and each further worker
/// goes where a worker has the most to do. So workers stand beside endpoints in
/// proportion to the writers there, and the busiest one has as few as can be.
/// No shard is without a writer: a wave may have fewer shards than the fleet
/// has workers.
///
/// # Errors
/// When the placement is none of the endpoints, or the fleet is too small.
pub fn shards(
    cell: &Cell,
    endpoints: &[String],
    fleet: &Fleet,
) -> Result<Vec<Shard>, PlacementError> {
    let shape = cell.params.shape();
    let seats = seats(&shape, endpoints)?;
    let needed = least_shards(&shape, endpoints.len(), fleet);
    if needed > u64::from(fleet.workers) {
        return Err(PlacementError::TooFewWorkers {
            writers: shape.writers,
            each: fleet.connections_per_worker,
            needed,
            workers: fleet.workers,
        });
    }
    let mut dealt = vec![1u32; seats.len()];
    // At least one for each endpoint is there, for that is among the needed.
    for _ in dealt.len()..fleet.workers as usize {
        let busiest = (0..seats.len())
            .filter(|at| dealt[*at] < seats[*at].writers)
            // Of equals the first one.
            .rev()
            .max_by(|a, b| {
                let load =
                    |at: usize, over: usize| u64::from(seats[at].writers) * u64::from(dealt[over]);
                load(*a, *b).cmp(&load(*b, *a))
            });
        let Some(busiest) = busiest else { break };
        dealt[busiest] += 1;
    }
    // Numbered by turn over the endpoints, so that connections open at all of
    // them alike.
    let rounds = dealt.iter().max().copied().unwrap_or(0);
    let turns = (0..rounds).flat_map(|round| {
        let has_one = seats.iter().zip(&dealt).filter(move |(_, of)| round < **of);
        has_one.map(move |(seats, of)| (round, seats, *of))
    });
    let all: u32 = dealt.iter().sum();
    let mut slot = 0;
    let mut shards = Vec::new();
    for (index, (round, seats, of)) in (0..).zip(turns) {
        let shard = Shard {
            index,
            of: all,
            endpoint: seats.endpoint,
            first_writer: seats.first + round * seats.step,
            step: seats.step * of,
            writers: (seats.writers - round).div_ceil(of),
            slot_first: slot,
            slot_step: 1,
        };
        slot += shard.connections();
        shards.push(shard);
    }
    Ok(shards)
}

/// Connections that a wave of so many shards opens: one for each writer, and
/// one for each shard's probe, which is closed again before its writers' open.
pub fn wave_connections(cell: &Cell, shards: u32) -> u32 {
    cell.params.shape().writers.saturating_add(shards)
}

/// When the connection in a slot may open, from the instant at which all shards
/// are present. The first ones open at once, the others one after the other
/// just under the cluster's rate, so that none is refused as long as the
/// cluster has rested before ([`refill_time`]).
pub fn slot_delay(slot: u32) -> Duration {
    let at_once = BURST - RESERVE;
    match slot.checked_sub(at_once) {
        None => Duration::ZERO,
        Some(waiting) => {
            let nanos = (u64::from(waiting) + 1) * 1_000_000_000;
            Duration::from_nanos(nanos.div_ceil(SLOTS_PER_SECOND))
        }
    }
}

/// How long a cluster has to rest after a wave has opened so many connections
/// until it takes the next wave's first ones at once.
pub fn refill_time(opened: u32) -> Duration {
    let missing = u64::from(opened.min(BURST));
    Duration::from_millis(missing * 1_000 / PER_SECOND)
}

/// A part of a wave that fits into one worker's life. Times are milliseconds
/// from the start of the measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// Its number, from 0. Leg 0 warms up before it.
    pub index: u32,
    /// Legs of the wave.
    pub of: u32,
    /// No operation of it is planned before.
    pub from_ms: u64,
    /// None is planned at this or after.
    pub until_ms: u64,
}

/// The legs of a wave when one may last `leg_ms`, warm-up included. A wave that
/// a number of operations bounds has one, without end.
pub fn legs(cell: &Cell, leg_ms: u64) -> Vec<Leg> {
    let shape = cell.params.shape();
    let leg = |index: u64, of: u64, from_ms, until_ms| Leg {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        of: u32::try_from(of).unwrap_or(u32::MAX),
        from_ms,
        until_ms,
    };
    let Some(measure_s) = shape.measure_s else {
        return vec![leg(0, 1, 0, u64::MAX)];
    };
    let (measure_ms, warmup_ms) = (ms(measure_s), ms(shape.warmup_s));
    let leg_ms = leg_ms.max(1);
    let first_ms = leg_ms.saturating_sub(warmup_ms).max(1);
    if measure_ms <= first_ms {
        return vec![leg(0, 1, 0, measure_ms)];
    }
    let rest_ms = measure_ms - first_ms;
    let others = rest_ms.div_ceil(leg_ms);
    let start = |index: u64| first_ms + rest_ms * index / others;
    let mut legs = vec![leg(0, others + 1, 0, first_ms)];
    legs.extend((0..others).map(|n| leg(n + 1, others + 1, start(n), start(n + 1))));
    legs
}

/// Whether a wave may be cut into legs of `leg_ms`: at a hand-over two legs hold
/// their connections at once, and the first one has to outlive its warm-up.
///
/// # Errors
/// Why not, and what would be accepted.
pub fn legs_allowed(cell: &Cell, leg_ms: u64) -> Result<(), String> {
    let shape = cell.params.shape();
    let legs = legs(cell, leg_ms);
    if legs.len() < 2 {
        return Ok(());
    }
    let leg_s = leg_ms as f64 / 1e3;
    if ms(shape.warmup_s) >= leg_ms {
        return Err(format!(
            "warmup_s {} does not end within a worker's {leg_s} s; lower it",
            shape.warmup_s
        ));
    }
    let writers = u64::from(shape.writers);
    if 2 * writers > MAX_CONNECTIONS {
        return Err(format!(
            "a window of {} s is run in {} legs of at most {leg_s} s, of which two hold their \
             connections at a hand-over: {} twice, and a cluster takes {}; have at most {} \
             writers, or a shorter window",
            shape.measure_s.unwrap_or_default(),
            legs.len(),
            grouped(writers),
            grouped(MAX_CONNECTIONS),
            grouped(MAX_CONNECTIONS / 2),
        ));
    }
    Ok(())
}

/// Seconds of the file as whole milliseconds, which is what it accepts.
fn ms(seconds: f64) -> u64 {
    (seconds * 1e3).round().max(0.0) as u64
}
