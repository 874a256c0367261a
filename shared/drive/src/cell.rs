//! A rep of a cell: the one place that knows which workload a cell has.
//!
//! Whoever runs a rep, in one process or in a fleet, goes through [`Rep`], which
//! follows from the plan alone. So a worker prepares, another one runs a part,
//! a third one verifies, and all of them mean the same rows.

use std::sync::Arc;
use std::time::Duration;

use clock::Time;
use plan::{Cell, Params, PlacementError};
use rand::Rng;
use target::{SqlFailure, Target};
use workload::append::{self, Append};
use workload::order_transfer::{self, OrderTransfer};
use workload::tpcb::{self, Tpcb};
use workload::{Claim, Step, Verified};

use crate::gate::{Ended, Gate};
use crate::load::{Load, Opening, Progress};
use crate::seed::{Purpose, rng};
use crate::shard::run_shard;
use crate::steps;
use crate::stop::Stop;

/// Runs an expression with the cell's workload under a name. Every workload is a
/// type of its own and the driver is generic, so this is a match that has the
/// expression once for each of them.
macro_rules! with_workload {
    ($rep:expr, $target:expr, |$workload:ident| $body:expr) => {
        match &$rep.cell.params {
            Params::Append(params) => {
                let $workload = &Append::new(params, $rep.id_base, $rep.seed, $target.clock());
                $body
            }
            Params::OrderTransfer(params) => {
                let clock = $target.clock();
                let $workload = &OrderTransfer::new(params, $rep.id_base, $rep.seed, clock);
                $body
            }
            Params::Tpcb(params) => {
                let $workload = &Tpcb::new(params, $rep.id_base, $rep.seed, $target.clock());
                $body
            }
        }
    };
}

/// One repetition of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Rep<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// First id of the rows that are this attempt's own.
    pub id_base: i64,
    /// Seed of its inputs and pauses ([`rep_seed`]).
    pub seed: u64,
}

/// What a shard of a rep is to do, beside what the cell says; see [`Load`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its writers with their endpoints.
    pub writers: Vec<(u32, usize)>,
    /// When its connections open.
    pub opening: Option<Opening>,
    /// Endpoints whose round trip is measured.
    pub probe_endpoints: Vec<usize>,
    /// The part of the window that is its own.
    pub leg: Option<plan::Leg>,
    /// Number of each writer's first operation.
    pub first_operation: u64,
    /// When it ends at the latest.
    pub stop_by: Option<Time>,
    /// The server's own part of `SELECT 1` per endpoint.
    pub server_parts: Vec<Option<Duration>>,
    /// vCPUs of this process.
    pub vcpus: f64,
    /// How long opening may take.
    pub open_limit: Duration,
}

impl Rep<'_> {
    /// Writers of the wave.
    pub fn total_writers(&self) -> u32 {
        self.cell.params.shape().writers
    }

    /// Operations that the plan holds for the window, where a number of them
    /// bounds the rep. What a warm-up takes of the writers' shares is not
    /// measured; how much that is shows only afterwards.
    pub fn planned(&self) -> Option<u64> {
        let shape = self.cell.params.shape();
        shape.operations.filter(|_| shape.warmup_s <= 0.0)
    }

    /// Names the rows that it makes, for the case that they have to be left.
    pub fn rows_named(&self) -> String {
        match &self.cell.params {
            Params::Append(params) => append::rows_named(params, self.id_base),
            Params::OrderTransfer(params) => order_transfer::rows_named(params, self.id_base),
            Params::Tpcb(params) => tpcb::rows_named(params, self.id_base),
        }
    }

    /// Places every writer on an endpoint.
    ///
    /// # Errors
    /// When the cell's placement is none of the endpoints.
    pub fn placement(&self, endpoints: &[String]) -> Result<Vec<(u32, usize)>, PlacementError> {
        let shape = self.cell.params.shape();
        let place = |writer| Ok((writer, shape.placement.endpoint_of(writer, endpoints)?));
        (0..shape.writers).map(place).collect()
    }

    /// Creates the schema and the rows that it starts from. May be repeated
    /// until the load has begun: what an earlier try has made is found there.
    ///
    /// # Errors
    /// The first lasting error, or a transient one that did not pass.
    pub async fn prepare(&self, target: &Target) -> Result<Step, SqlFailure> {
        with_workload!(self, target, |workload| steps::prepare(workload, target)
            .await)
    }

    /// Runs a shard of it ([`run_shard`]).
    ///
    /// # Errors
    /// When its pool cannot fill.
    pub async fn load(
        &self,
        settings: Settings,
        target: &Target,
        stop: Stop,
        progress: Arc<Progress>,
        gate: &impl Gate,
    ) -> Result<Ended, SqlFailure> {
        let shape = self.cell.params.shape();
        let Settings {
            writers,
            opening,
            probe_endpoints,
            leg,
            first_operation,
            stop_by,
            server_parts,
            vcpus,
            open_limit,
        } = settings;
        let load = Load {
            writers,
            opening,
            probe_endpoints,
            warmup: Duration::from_secs_f64(shape.warmup_s),
            measure: shape.measure_s.map(Duration::from_secs_f64),
            leg,
            first_operation,
            stop_by,
            retry: shape.retry.clone(),
            abort_after_starved: shape.abort_after_starved,
            keep_rows: self.cell.raw,
            seed: self.seed,
            server_parts,
            vcpus,
            open_limit,
        };
        with_workload!(self, target, |workload| run_shard(
            load, workload, target, stop, progress, gate
        )
        .await)
    }

    /// Checks the database against what all shards were told, through an
    /// endpoint ([`crate::verifying_endpoint`]). What the `missing` writers did
    /// is not known: their rows may be there or not, but what is there must be
    /// as they would have made it. Reads only, may be repeated.
    ///
    /// # Errors
    /// When the check could not be made; what it found is in the result.
    pub async fn verify(
        &self,
        target: &Target,
        endpoint: usize,
        claims: &[Claim],
        missing: &[u32],
    ) -> Result<Verified, SqlFailure> {
        with_workload!(self, target, |workload| steps::verify(
            workload, target, endpoint, claims, missing
        )
        .await)
    }

    /// Deletes its rows. May be repeated, also when it was not or not wholly
    /// prepared.
    ///
    /// # Errors
    /// When rows may be left.
    pub async fn clean(&self, target: &Target) -> Result<Step, SqlFailure> {
        with_workload!(self, target, |workload| steps::clean(workload, target)
            .await)
    }
}

/// The seed of one purpose of a rep, `rep` being its place in the cell from 0.
///
/// It depends on the cell's name and not on its place in the sweep, so that a
/// cell draws the same when others are added.
pub fn rep_seed(run_seed: u64, cell_id: &str, rep: u32, purpose: Purpose) -> u64 {
    // FNV-1a: stable over versions, which std's hasher does not promise.
    let name = cell_id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    rng(run_seed ^ name, purpose, u64::from(rep)).next_u64()
}
