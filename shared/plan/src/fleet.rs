//! How a fleet runs a plan, and what of a plan no fleet can run.

use serde::{Deserialize, Serialize};

use crate::error::{SweepError, grouped};
use crate::file::{FleetFile, MAX_CONNECTIONS};
use crate::shards::{least_shards, shards};
use crate::sweep::Plan;
use crate::target::AddressKind;

/// A sweep's `fleet` block, complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    /// Workers of a wave, over all regions.
    pub workers: u32,
    /// Writers, each with a connection of its own, that one worker runs at
    /// most. A probe's connection comes on top, for a moment.
    pub connections_per_worker: u32,
    /// What the run may take.
    pub limits: Limits,
}

/// What a run may take before it is stopped; `None` for no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Minutes from its start.
    pub minutes: Option<f64>,
    /// US dollars.
    pub usd: Option<f64>,
    /// DPU of the clusters.
    pub dpu: Option<f64>,
}

impl Default for Fleet {
    fn default() -> Fleet {
        Fleet::DEFAULT
    }
}

impl Fleet {
    /// What a sweep means that says nothing.
    pub const DEFAULT: Fleet = Fleet {
        workers: 8,
        connections_per_worker: 250,
        limits: Limits {
            minutes: None,
            usd: None,
            dpu: None,
        },
    };

    pub(crate) fn of(file: &FleetFile) -> Fleet {
        // The bounds of the format are within 32 bits.
        let whole = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let limits = &file.limits;
        Fleet {
            workers: file
                .workers
                .as_ref()
                .map_or(Fleet::DEFAULT.workers, |n| whole(n.0.0)),
            connections_per_worker: file
                .connections_per_worker
                .as_ref()
                .map_or(Fleet::DEFAULT.connections_per_worker, |n| whole(n.0.0)),
            limits: Limits {
                minutes: limits.minutes.as_ref().map(|limit| limit.0.0),
                usd: limits.usd.as_ref().map(|limit| limit.0.0),
                dpu: limits.dpu.as_ref().map(|limit| limit.0.0),
            },
        }
    }
}

impl Plan {
    /// Checks that a fleet can run it: that no target's URL holds a password
    /// (the plan is stored and sent), and that every wave fits the fleet and
    /// the cluster, as far as the number of endpoints is known from here.
    ///
    /// # Errors
    /// The first place that no fleet can run.
    pub fn check_fleet(&self) -> Result<(), SweepError> {
        for target in &self.targets {
            if target.address.may_hold_password() {
                return Err(SweepError::at(
                    &target.place,
                    "the URL holds a password, which a fleet would have to store; keep the URL in \
                     Secrets Manager and write `secret`: its name or ARN",
                ));
            }
        }
        for cell in &self.cells {
            let shape = cell.params.shape();
            let address = self.target_of(cell).map(|target| &target.address);
            let writers = u64::from(shape.writers);
            let dsql = matches!(
                address.map(|address| address.kind()),
                Some(AddressKind::Dsql { .. } | AddressKind::Simulator { .. })
            );
            if dsql && writers > MAX_CONNECTIONS {
                return Err(SweepError::at(
                    format!("cell {}", cell.id).as_str(),
                    format!(
                        "{} connections in a wave; a cluster takes {}, so lower its writers",
                        grouped(writers),
                        grouped(MAX_CONNECTIONS)
                    ),
                ));
            }
            let endpoints = address.map_or(1, |address| address.hosts().len().max(1));
            let needed = least_shards(&shape, endpoints, &self.fleet);
            if needed > u64::from(self.fleet.workers) {
                let each = self.fleet.connections_per_worker;
                return Err(SweepError::at(
                    "fleet.workers",
                    format!(
                        "cell {} needs {} workers for its {} writers ({} connections each), the \
                         fleet has {}; raise `workers` or `connections_per_worker`, or lower the \
                         cell's writers",
                        cell.id,
                        grouped(needed),
                        grouped(writers),
                        grouped(each.into()),
                        grouped(self.fleet.workers.into()),
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Checks that the waves of all cells on `target` can be shared out, where
    /// its endpoints are known.
    ///
    /// # Errors
    /// The first cell whose wave cannot.
    pub fn check_shards(&self, target: &str, endpoints: &[String]) -> Result<(), SweepError> {
        for cell in self.cells.iter().filter(|cell| cell.target == target) {
            if let Err(problem) = shards(cell, endpoints, &self.fleet) {
                let place = format!("cell {}", cell.id);
                return Err(SweepError::at(place.as_str(), problem.to_string()));
            }
        }
        Ok(())
    }

    /// Checks that it names nothing that a deployed fleet does not have: its
    /// functions do not link the simulator.
    ///
    /// # Errors
    /// The first target that is simulated.
    pub fn check_deployed(&self) -> Result<(), SweepError> {
        for target in &self.targets {
            if let AddressKind::Simulator { preset } = target.address.kind() {
                return Err(SweepError::at(
                    &target.place,
                    format!(
                        "sim:{preset} is a simulator in the process of `fabric run`, which a \
                         deployed fleet does not have; say --on URL, or serve it with `fabric sim \
                         serve` and give its dsql:// URL"
                    ),
                ));
            }
        }
        Ok(())
    }
}
