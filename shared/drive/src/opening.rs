//! Opening connections and measuring round trips before the barrier.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Clock, Time};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use stats::RoundTrips;
use target::{SqlFailure, Target};
use workload::Workload;

use crate::connection::{Connected, Slot, may_pass};
use crate::load::Load;
use crate::probe::{probe, wire};

/// Pause before an endpoint that did not answer is probed again.
const PROBE_PAUSE: Duration = Duration::from_millis(100);

/// When connections open and until when.
pub(crate) struct Pace<'a> {
    load: &'a Load,
    clock: Clock,
    begun: Time,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(load: &'a Load, clock: Clock) -> Pace<'a> {
        Pace {
            load,
            clock,
            begun: clock.now(),
        }
    }

    /// Waits for the slot of the connection at a place; returns its deadline.
    async fn slot(&self, place: usize) -> Time {
        let limit = self.load.open_limit;
        match &self.load.opening {
            None => self.begun + limit,
            Some(opening) => {
                let slot = opening.slot(place);
                if slot > self.clock.now() {
                    self.clock.sleep_until(slot).await;
                }
                self.clock.now() + limit
            }
        }
    }

    /// Time since the first connection could have opened.
    pub(crate) fn took(&self) -> Duration {
        let first = self.load.opening.as_ref().map(|opening| opening.slot(0));
        let first = first.map_or(self.begun, |first| first.max(self.begun));
        self.clock.now().since(first)
    }
}

/// What was seen of the endpoints.
#[derive(Default)]
pub(crate) struct Probed {
    /// By the endpoint's name.
    pub(crate) round_trips: BTreeMap<String, RoundTrips>,
    /// Tries to connect that were refused.
    pub(crate) refusals: u32,
}

/// Measures the load's endpoints before it, each in its slot.
///
/// # Errors
/// When one does not let us in.
pub(crate) async fn probe_before(target: &Target, pace: &Pace<'_>) -> Result<Probed, SqlFailure> {
    let mut all = Probed::default();
    for (place, endpoint) in pace.load.probe_endpoints.iter().enumerate() {
        let deadline = pace.slot(place).await;
        round_trips(target, pace.load, *endpoint, deadline, &mut all).await?;
    }
    Ok(all)
}

/// Measures them after it.
///
/// # Errors
/// When one does not let us in until `deadline`.
pub(crate) async fn probe_after(
    target: &Target,
    load: &Load,
    deadline: Time,
) -> Result<Probed, SqlFailure> {
    let mut all = Probed::default();
    for endpoint in &load.probe_endpoints {
        round_trips(target, load, *endpoint, deadline, &mut all).await?;
    }
    Ok(all)
}

/// Measures an endpoint through a connection that carries no load. One that
/// fails for a moment is tried again until `deadline`.
async fn round_trips(
    target: &Target,
    load: &Load,
    at: usize,
    deadline: Time,
    into: &mut Probed,
) -> Result<(), SqlFailure> {
    let clock = target.clock();
    let seen = loop {
        let probed = async {
            let conn = target.connect(at, deadline).await?;
            let seen = probe(target, &conn).await?;
            Ok::<_, SqlFailure>((seen, conn.refusals))
        };
        match probed.await {
            Ok((seen, refusals)) => {
                into.refusals += refusals;
                break seen;
            }
            Err(failure) if may_pass(&failure) && clock.now() + PROBE_PAUSE < deadline => {
                into.refusals += 1;
                clock.sleep(PROBE_PAUSE).await;
            }
            Err(failure) => return Err(failure),
        }
    };
    let server_part = load.server_parts.get(at).copied().flatten();
    let wire = wire(seen.fastest, server_part);
    into.round_trips.insert(
        target.endpoints()[at].name.clone(),
        RoundTrips {
            before: seen.trips,
            after: stats::Hist::default(),
            wire_us: u64::try_from(wire.as_micros()).ok(),
        },
    );
    Ok(())
}

/// Opens every writer's connection, each in its slot, or all at once and left
/// to the target to pace refusals. Returns the slots in the order of the
/// writers, and how each was connected.
///
/// # Errors
/// Why one of them could not be opened.
pub(crate) async fn open_slots<W: Workload>(
    workload: &W,
    target: &Target,
    pace: &Pace<'_>,
) -> Result<Vec<(Slot<W>, Connected)>, SqlFailure> {
    let probes = pace.load.probe_endpoints.len();
    let writers = pace.load.writers.iter().enumerate();
    let mut opening: FuturesUnordered<_> = writers
        .map(|(place, (_, endpoint))| async move {
            let deadline = pace.slot(probes + place).await;
            let mut slot: Slot<W> = Slot::new(*endpoint);
            let connected = slot.ensure(target, workload, deadline).await?;
            Ok::<_, SqlFailure>((place, (slot, connected.unwrap_or_default())))
        })
        .collect();
    let mut opened = BTreeMap::new();
    while let Some(ended) = opening.next().await {
        let (place, slot) = ended?;
        opened.insert(place, slot);
    }
    Ok(opened.into_values().collect())
}
