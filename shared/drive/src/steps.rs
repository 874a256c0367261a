//! The steps around the measured window: prepare, verify, clean. Each takes a
//! connection of its own and is tried again on transient errors, since each may
//! be repeated without harm.

use std::time::Duration;

use target::{Conn, SqlFailure, Target};
use workload::{Claim, Said, Step, Verified, Workload};

use crate::connection::may_pass;

/// How often a step is tried, and the pause before each further try, which
/// grows by itself. Together about ten seconds.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// How long a step waits for its connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);

/// Creates the schema and the rows that a rep starts from, through the first
/// endpoint.
///
/// # Errors
/// The first lasting error, or a transient one that did not pass.
pub async fn prepare<W: Workload>(workload: &W, target: &Target) -> Result<Step, SqlFailure> {
    step(target, 0, async |conn| workload.prepare(conn).await).await
}

/// How long verification waits when operations ended in doubt: a COMMIT whose
/// connection was lost may still be on its way.
const SETTLING: Duration = Duration::from_secs(5);

/// Checks the database against the claims, through `endpoint`, which should be
/// another one than most of the load took ([`verifying_endpoint`]). Of the
/// `missing` writers nobody knows what they did.
///
/// # Errors
/// When the check could not be made; what it found is in the result.
pub async fn verify<W: Workload>(
    workload: &W,
    target: &Target,
    endpoint: usize,
    claims: &[Claim],
    missing: &[u32],
) -> Result<Verified, SqlFailure> {
    if !missing.is_empty() || claims.iter().any(|claim| claim.said == Said::Unknown) {
        target.clock().sleep(SETTLING).await;
    }
    step(target, endpoint, async |conn| {
        workload.verify(conn, claims, missing).await
    })
    .await
}

/// Deletes a rep's rows.
///
/// # Errors
/// When rows may be left.
pub async fn clean<W: Workload>(workload: &W, target: &Target) -> Result<Step, SqlFailure> {
    step(target, 0, async |conn| workload.clean(conn).await).await
}

/// The endpoint that verification goes through: the one after the endpoint with
/// the most writers (the last one among equals), so that with two endpoints it
/// is the other one.
pub fn verifying_endpoint(writers: &[(u32, usize)], endpoints: usize) -> usize {
    let mut load = vec![0u32; endpoints.max(1)];
    for (_, endpoint) in writers {
        if let Some(n) = load.get_mut(*endpoint) {
            *n += 1;
        }
    }
    let busiest = (0..load.len()).rev().max_by_key(|at| load[*at]);
    (busiest.unwrap_or(0) + 1) % load.len()
}

async fn step<T>(
    target: &Target,
    endpoint: usize,
    work: impl AsyncFn(&Conn) -> Result<T, SqlFailure>,
) -> Result<T, SqlFailure> {
    let clock = target.clock();
    let mut tried = 0;
    loop {
        tried += 1;
        let once = async {
            let conn = target
                .connect(endpoint, clock.now() + CONNECT_LIMIT)
                .await?;
            work(&conn).await
        };
        match once.await {
            Ok(done) => return Ok(done),
            Err(failure) if may_pass(&failure) && tried < TRIES => {
                clock.sleep(PAUSE * tried).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verification_goes_through_the_other_endpoint() {
        let split: Vec<(u32, usize)> = (0..5).map(|w| (w, w as usize % 2)).collect();
        assert_eq!(verifying_endpoint(&split, 2), 1);
        let second = [(0, 1), (1, 1)];
        assert_eq!(verifying_endpoint(&second, 2), 0);
        assert_eq!(verifying_endpoint(&split[..1], 1), 0);
    }
}
