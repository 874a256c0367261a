//! How the load's sessions wait for each other's locks, seen from beside: one
//! more connection that asks PostgreSQL ten times a second. DSQL and the
//! simulator have no lock waits, so nobody asks there.

use std::time::Duration;

use clock::Time;
use stats::LockWaits;
use target::{Conn, Kind, SqlFailure, Target};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// How long the watcher's connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Sessions of this database that wait for a lock, and for how long the
/// longest of their statements has been running.
const LOOK: &str = "SELECT count(*), \
     coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0)::float8 \
     FROM pg_stat_activity \
     WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Watches from `from` until it is dropped, and keeps what it saw in `into`.
/// An endpoint that does not answer is not watched: the load goes on without.
pub(crate) async fn watch(target: &Target, endpoint: usize, from: Time, into: &mut LockWaits) {
    // Whoever looks at the report sees that nothing was seen.
    let _ = look_on(target, endpoint, from, into).await;
}

/// Whether there is something to see.
pub(crate) fn can_wait(target: &Target) -> bool {
    target.kind() == Kind::Postgres
}

async fn look_on(
    target: &Target,
    endpoint: usize,
    from: Time,
    into: &mut LockWaits,
) -> Result<(), SqlFailure> {
    let clock = target.clock();
    let conn = target
        .connect(endpoint, clock.now() + CONNECT_LIMIT)
        .await?;
    clock.sleep_until(from).await;
    loop {
        let (waiting, longest) = look(&conn).await?;
        into.saw(waiting, longest);
        clock.sleep(EVERY).await;
    }
}

async fn look(conn: &Conn) -> Result<(u64, Duration), SqlFailure> {
    let of_driver = |error| SqlFailure::from_driver(&error);
    let row = conn.client.query_one(LOOK, &[]).await.map_err(of_driver)?;
    let waiting: i64 = row.try_get(0).map_err(of_driver)?;
    let longest_s: f64 = row.try_get(1).map_err(of_driver)?;
    let longest = Duration::try_from_secs_f64(longest_s).unwrap_or_default();
    Ok((u64::try_from(waiting).unwrap_or_default(), longest))
}
