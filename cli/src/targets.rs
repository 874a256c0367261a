//! From the targets of a plan to databases that can be run against.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clock::Clock;
use drive::{Purpose, rng};
use plan::{AddressKind, Isolation, Plan, TargetSpec};
use rand::Rng;
use sim::{Cluster, FaultPlan, Preset};
use target::{BoxFuture, Dial, Stream, Target};
use tokio::runtime::Runtime;

use crate::failure::Failure;

/// A target of the plan, ready to be used.
pub struct Site {
    /// Its name in the sweep.
    pub name: String,
    /// What is behind it.
    pub database: Database,
    /// vCPUs of this process, to judge its CPU by.
    pub vcpus: f64,
    /// Upper half of the row ids of this run.
    id_base: i64,
}

/// What is behind a target.
pub enum Database {
    /// A cluster is simulated for each rep.
    Simulated(Simulated),
    /// A database that is there.
    Live(Box<Live>),
}

/// How clusters are simulated.
pub struct Simulated {
    preset: &'static Preset,
    faults: FaultPlan,
}

/// A database that is there, with the runtime that its connections live on.
pub struct Live {
    runtime: Runtime,
    /// The target.
    pub target: Target,
    /// What it says of its version.
    pub server_version: Option<String>,
    /// It is a simulator that is served over TCP.
    pub simulated: bool,
}

impl Live {
    /// Reaches a database that must be there: every endpoint is connected to
    /// once.
    ///
    /// # Errors
    /// When its address is refused or one of its endpoints does not let us in.
    pub fn reach(name: &str, url: &str) -> Result<Live, Failure> {
        let runtime = clock::real_runtime()
            .map_err(|error| Failure::Other(format!("cannot start a runtime: {error}")))?;
        let clock = Clock::real();
        let target = Target::from_url(url, clock)?;
        let (server_version, simulated) = runtime
            .block_on(async {
                let mut version = None;
                let mut simulated = false;
                for endpoint in 0..target.endpoints().len() {
                    let conn = target.connect(endpoint, clock.now() + REACH_LIMIT).await?;
                    version = target.server_version(&conn).await.ok();
                    simulated |= target.is_simulated(&conn).await;
                }
                Ok((version, simulated))
            })
            .map_err(|source| Failure::Unreachable {
                name: name.to_owned(),
                source,
            })?;
        Ok(Live {
            runtime,
            target,
            server_version,
            simulated,
        })
    }

    /// Runs work on the target's runtime.
    pub fn block_on<T>(&self, work: impl AsyncFnOnce(&Target) -> T) -> T {
        self.runtime.block_on(work(&self.target))
    }
}

impl Site {
    /// A fresh simulated cluster, seen through pipes. Must be called on a
    /// simulated runtime.
    ///
    /// # Panics
    /// When the site is not simulated.
    pub fn simulated_target(&self, seed: u64) -> Target {
        let Database::Simulated(simulated) = &self.database else {
            unreachable!("only simulated sites are asked for a simulated target");
        };
        simulated_cluster(simulated.preset, seed, simulated.faults.clone())
    }

    /// Whether its figures are simulated ones.
    pub fn is_simulated(&self) -> bool {
        match &self.database {
            Database::Simulated(_) => true,
            Database::Live(live) => live.simulated,
        }
    }

    /// Whether it has an isolation level, as it stands in BEGIN.
    pub fn has_isolation(&self, level: Isolation) -> bool {
        match &self.database {
            Database::Simulated(_) => level == Isolation::RepeatableRead,
            Database::Live(live) => live.target.supports_isolation(level.sql()),
        }
    }

    /// Names of its endpoints.
    pub fn endpoints(&self) -> Vec<String> {
        match &self.database {
            Database::Live(live) => {
                let endpoints = live.target.endpoints().iter();
                endpoints.map(|endpoint| endpoint.name.clone()).collect()
            }
            Database::Simulated(simulated) => {
                let regions = simulated.preset.regions.iter();
                regions.map(|region| region.name.to_owned()).collect()
            }
        }
    }

    /// The server's own part of `SELECT 1` per endpoint, where it is known.
    pub fn server_parts(&self) -> Vec<Option<Duration>> {
        match &self.database {
            Database::Live(_) => Vec::new(),
            Database::Simulated(simulated) => {
                let regions = simulated.preset.regions.iter();
                regions
                    .map(|region| Some(Duration::from_micros(region.select1.us)))
                    .collect()
            }
        }
    }

    /// First row id of a rep, `ordinal` being its number in the run: 32 bits of
    /// the run's own (none where every rep has a database to itself), 17 bits of
    /// rep, 14 bits of rows. Two runs that draw the same 32 bits on one database
    /// are told apart by `prepare`, which refuses rows that are in use.
    pub fn id_base(&self, ordinal: usize) -> i64 {
        let ordinal = i64::try_from(ordinal & 0x1_ffff).unwrap_or(0);
        self.id_base | (ordinal << 14)
    }
}

/// A fresh simulated cluster, seen through pipes. Must be called on a simulated
/// runtime.
pub fn simulated_cluster(preset: &'static Preset, seed: u64, faults: FaultPlan) -> Target {
    let clock = Clock::simulated();
    let cluster = Cluster::new(preset, seed, faults, clock);
    let names = cluster.endpoints();
    Target::simulator(names, Arc::new(Pipes(cluster)), clock)
}

/// Opens pipes to a simulated cluster.
struct Pipes(Cluster);

impl Dial for Pipes {
    fn dial(&self, endpoint: usize) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        let pipe = self.0.dial(endpoint);
        Box::pin(async move { Ok(Box::new(pipe?) as Box<dyn Stream>) })
    }
}

/// Resolves the targets that the plan's cells name, and reaches for the live
/// ones: a wrong address or password is found out before anything starts.
///
/// # Errors
/// The first target that is refused or not reached.
pub fn resolve(plan: &Plan, faults: &FaultPlan) -> Result<BTreeMap<String, Site>, Failure> {
    let mut sites = BTreeMap::new();
    for spec in &plan.targets {
        if plan.cells.iter().any(|cell| cell.target == spec.name) {
            sites.insert(spec.name.clone(), site(spec, faults)?);
        }
    }
    Ok(sites)
}

/// Resolves one target.
///
/// # Errors
/// When it is refused or not reached.
pub fn site(spec: &TargetSpec, faults: &FaultPlan) -> Result<Site, Failure> {
    let vcpus = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    if let AddressKind::Secret { id } = spec.address.kind() {
        return Err(Failure::Other(format!(
            "target {}: its URL is kept in Secrets Manager as {id}, which only a deployed \
             fleet reads; replace it with --on {}=URL",
            spec.name, spec.name
        )));
    }
    let url = spec.url();
    let (database, id_base) = match url.strip_prefix("sim:") {
        Some(name) => {
            let preset = preset(name)?;
            faults
                .check(preset.regions.len())
                .map_err(|problem| Failure::Other(format!("--faults: {problem}")))?;
            let faults = faults.clone();
            (Database::Simulated(Simulated { preset, faults }), 0)
        }
        None if !faults.is_none() => {
            return Err(Failure::Other(format!(
                "--faults: target {} is no embedded simulator, and only those can be made to \
                 fail; leave it out, or serve one with `fabric sim serve --faults`",
                spec.name
            )));
        }
        None => (
            Database::Live(Box::new(Live::reach(&spec.name, url)?)),
            own_ids(),
        ),
    };
    Ok(Site {
        name: spec.name.clone(),
        database,
        vcpus,
        id_base,
    })
}

/// The preset of that name.
///
/// # Errors
/// When there is none, with those that there are.
pub fn preset(name: &str) -> Result<&'static Preset, Failure> {
    sim::preset(name).ok_or_else(|| {
        let names: Vec<&str> = sim::presets().iter().map(|preset| preset.name).collect();
        Failure::Other(format!(
            "no simulator preset is named '{name}'; there are {}",
            names.join(", ")
        ))
    })
}

/// How long a live target may take to let the first connection in. A DSQL
/// cluster that sleeps wakes within seconds.
const REACH_LIMIT: Duration = Duration::from_secs(30);

/// 32 bits that no other run of this database should have, above the bits of
/// reps and rows.
fn own_ids() -> i64 {
    let since = Clock::real().wall().duration_since(SystemTime::UNIX_EPOCH);
    let now_ns = since.map_or(0, |since| since.as_nanos() as u64);
    let bits = rng(now_ns, Purpose::Ids, u64::from(std::process::id())).next_u32();
    i64::from(bits) << 31
}
