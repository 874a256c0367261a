//! One simulated cluster, shared by its endpoints and connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use clock::{Clock, Time};
use engine::{Engine, Limits};

use crate::admission::{ConnectionLimits, Gate};
use crate::connection::serve;
use crate::fault_plan::FaultPlan;
use crate::faults::{FaultCounts, Faults, Kind};
use crate::link::Link;
use crate::pipe::{self, Pipe};
use crate::preset::{Preset, Region};
use crate::service::Service;
use crate::startup::Entrance;

/// Round trips before a client's first byte of PostgreSQL protocol can leave:
/// TCP's handshake, and TLS 1.3's, negotiated directly. A pipe is not
/// encrypted, but whoever opens one waits as if it were.
const OPENING_ROUND_TRIPS: u32 = 2;

/// A simulated cluster. Cloning shares it.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("endpoints", &self.endpoints())
            .field("seed", &self.shared.seed)
            .finish_non_exhaustive()
    }
}

/// What all connections of a cluster share.
pub(crate) struct Shared {
    pub(crate) regions: Vec<Region>,
    pub(crate) services: Vec<Arc<Service>>,
    pub(crate) seed: u64,
    pub(crate) clock: Clock,
    pub(crate) engine: Engine,
    pub(crate) faults: Faults,
    pub(crate) gate: Gate,
    connections: AtomicU64,
}

impl Shared {
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Half of an endpoint's round trip.
    pub(crate) fn delay(&self, endpoint: usize) -> Duration {
        Duration::from_micros(self.regions[endpoint].round_trip.us / 2)
    }

    /// Whether an endpoint is lost now; counts whom it turns away.
    pub(crate) fn turns_away(&self, endpoint: usize, now: Time) -> bool {
        let lost = self.faults.lost_from(endpoint, now) == Some(now);
        if lost {
            self.faults.strike(Kind::Lost);
        }
        lost
    }
}

impl Cluster {
    /// An empty database behind a preset's endpoints, with DSQL's limits.
    /// Everything that varies follows from `seed`.
    ///
    /// A plan that [`FaultPlan::check`] refuses is followed as far as it makes
    /// sense.
    pub fn new(preset: &Preset, seed: u64, faults: FaultPlan, clock: Clock) -> Cluster {
        Cluster::with_limits(preset, seed, faults, clock, ConnectionLimits::default())
    }

    /// As [`Cluster::new`], with other rules for connections.
    pub fn with_limits(
        preset: &Preset,
        seed: u64,
        faults: FaultPlan,
        clock: Clock,
        limits: ConnectionLimits,
    ) -> Cluster {
        let engine = Engine::with_seed(Limits::default(), seed);
        engine.set_epoch(origin_unix_us(clock));
        let services = preset.regions.iter().map(Service::new).map(Arc::new);
        Cluster {
            shared: Arc::new(Shared {
                services: services.collect(),
                regions: preset.regions.clone(),
                seed,
                clock,
                engine,
                faults: Faults::new(faults),
                gate: Gate::new(limits),
                connections: AtomicU64::new(0),
            }),
        }
    }

    /// Names of the endpoints' regions.
    pub fn endpoints(&self) -> Vec<String> {
        let names = self.shared.regions.iter().map(|region| region.name);
        names.map(str::to_owned).collect()
    }

    /// Opens a connection to an endpoint: no TLS, no token. The server's side
    /// runs as a task of the present runtime.
    ///
    /// # Errors
    /// When there is no such endpoint, or it is lost now.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn dial(&self, endpoint: usize) -> io::Result<Pipe> {
        let shared = &self.shared;
        let Some(region) = shared.regions.get(endpoint) else {
            let message = format!("there is no endpoint {endpoint}");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        };
        let now = shared.clock.now();
        if shared.turns_away(endpoint, now) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let round_trip = Duration::from_micros(region.round_trip.us);
        let opens = now + round_trip * OPENING_ROUND_TRIPS;
        let (near, far) = pipe::pair(shared.clock, shared.delay(endpoint), opens);
        let number = shared.next_connection();
        let link = Link::new(
            Arc::clone(shared),
            endpoint,
            number,
            far.delay(),
            far,
            Vec::new(),
        );
        tokio::spawn(serve(link, Entrance::default()));
        Ok(near)
    }

    /// The endpoint's own part of `SELECT 1`, in microseconds: what a measured
    /// `SELECT 1` has on top of the wire.
    pub fn select1_service_us(&self, endpoint: usize) -> u64 {
        let region = self.shared.regions.get(endpoint);
        region.map_or(0, |region| region.select1.us)
    }

    /// How often each kind of fault has struck so far.
    pub fn faults_struck(&self) -> FaultCounts {
        self.shared.faults.counts()
    }

    /// The database itself.
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

/// Wall-clock time at the clock's origin, in microseconds since 1970.
fn origin_unix_us(clock: Clock) -> i64 {
    let origin = clock.wall().checked_sub(clock.now().since_origin());
    let since = origin.and_then(|origin| origin.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(0))
}
