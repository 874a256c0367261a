//! The round trip (`SELECT 1`) at an endpoint, and what of it is the wire.

use std::time::Duration;

use stats::Hist;
use target::{Conn, SqlFailure, Target};

/// Round trips measured at each end of a window, one after the other.
pub(crate) const PROBES: u32 = 10;

/// What a probe saw.
pub(crate) struct Probe {
    /// All round trips.
    pub(crate) trips: Hist,
    /// The fastest.
    pub(crate) fastest: Duration,
}

/// Measures [`PROBES`] round trips.
///
/// # Errors
/// The first error of the connection.
pub(crate) async fn probe(target: &Target, conn: &Conn) -> Result<Probe, SqlFailure> {
    let mut trips = Hist::default();
    let mut fastest = Duration::MAX;
    for _ in 0..PROBES {
        let took = target.round_trip(conn).await?;
        trips.record(took);
        fastest = fastest.min(took);
    }
    Ok(Probe { trips, fastest })
}

/// Time on the wire: the fastest round trip less the server's own part of
/// `SELECT 1`, where that is known (the simulator's preset says it). Of ten
/// probes the fastest 1% is the fastest one.
pub(crate) fn wire(fastest: Duration, server_part: Option<Duration>) -> Duration {
    fastest.saturating_sub(server_part.unwrap_or_default())
}
