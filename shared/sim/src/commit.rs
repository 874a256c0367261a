//! COMMIT: when it is decided, and what can go wrong with it.
//!
//! ```text
//!  COMMIT arrives        adjudicated and visible        answer leaves
//!       |------ service / 2 ------|------ service / 2 ------|
//! ```
//!
//! Half of a commit's service time is the way to the adjudicator and the
//! journal, half the way back: the published rule for a pair of regions, twice
//! their round trip, is symmetric too. The decision falls in the middle, at
//! once for all endpoints, and from then on new snapshots see it.

use std::sync::Arc;
use std::time::Duration;

use clock::Time;
use engine::{Session, SqlError};

use crate::cluster::Shared;
use crate::connection::Connection;
use crate::faults::{CommitFault, Kind};
use crate::link::{Gone, Wire, server_unavailable};

impl<W: Wire> Connection<W> {
    /// Commits what is open; takes the commit's service time.
    pub(crate) async fn commit(&mut self, read_only: bool) -> Result<Result<(), SqlError>, Gone> {
        let begun = self.link.begin().await?;
        let us = self.service.commit(read_only, &mut self.service_draws);
        let service = self.link.stretched(us, begun);
        let fault = if read_only {
            None
        } else {
            let faults = &self.link.cluster.faults;
            faults.at_commit(begun, &mut self.commit_draws)
        };
        let adjudicated = begun + half(service);
        self.link.wait_until(adjudicated).await?;
        self.link.work(begun, service);
        match fault {
            None => Ok(self.session.commit(adjudicated.as_us())),
            Some(CommitFault::UnavailableNotApplied) => {
                self.strike(Kind::CommitUnavailableNotApplied);
                self.session.abort();
                Ok(Err(server_unavailable()))
            }
            Some(CommitFault::DropBefore) => {
                self.strike(Kind::DropBeforeCommit);
                self.session.abort();
                Err(Gone)
            }
            Some(CommitFault::UnavailableApplied) => {
                // A lost race is answered as such: this fault is about the
                // COMMIT that succeeded.
                let decided = self.session.commit(adjudicated.as_us());
                Ok(decided.and_then(|()| {
                    self.strike(Kind::CommitUnavailableApplied);
                    Err(server_unavailable())
                }))
            }
            Some(CommitFault::DropAfter) => {
                if let Err(error) = self.session.commit(adjudicated.as_us()) {
                    return Ok(Err(error));
                }
                self.strike(Kind::DropAfterCommit);
                self.link.wait_until(begun + service).await?;
                Err(Gone)
            }
            Some(CommitFault::DropLate { by }) => {
                self.strike(Kind::DropLateCommit);
                self.land_late(adjudicated + self.link.delay + by);
                Err(Gone)
            }
        }
    }

    /// Lets the open transaction's COMMIT reach the adjudicator at `at`, when
    /// this connection is long gone.
    fn land_late(&mut self, at: Time) {
        let cluster = Arc::clone(&self.link.cluster);
        let replacement = cluster.engine.session("");
        let session = std::mem::replace(&mut self.session, replacement);
        tokio::spawn(late_commit(cluster, session, at));
    }

    fn strike(&self, kind: Kind) {
        self.link.cluster.faults.strike(kind);
    }
}

async fn late_commit(cluster: Arc<Shared>, mut session: Session, at: Time) {
    cluster.clock.sleep_until(at).await;
    cluster.faults.strike(match session.commit(at.as_us()) {
        Ok(()) => Kind::LateCommitApplied,
        Err(_) => Kind::LateCommitRefused,
    });
}

/// Half of it, in whole microseconds.
fn half(service: Duration) -> Duration {
    #[allow(clippy::cast_possible_truncation)]
    Duration::from_micros(service.as_micros() as u64 / 2)
}
