//! A writer's connection: opened before the barrier, replaced when it is lost
//! or has reached its age.

use std::time::Duration;

use clock::Time;
use target::{Conn, SqlFailure, Target};
use workload::Workload;

/// How long a replacement may take before the operation that needs it fails.
pub(crate) const REOPEN_LIMIT: Duration = Duration::from_secs(30);

/// Pause before a session is prepared again after a transient error.
const SESSION_PAUSE: Duration = Duration::from_millis(20);

/// A place for one connection and what the workload prepared on it.
pub(crate) struct Slot<W: Workload> {
    /// Endpoint that the writer is placed on.
    pub(crate) endpoint: usize,
    open: Option<(Conn, W::Session)>,
}

impl<W: Workload> Slot<W> {
    pub(crate) fn new(endpoint: usize) -> Slot<W> {
        Slot {
            endpoint,
            open: None,
        }
    }

    /// Opens a connection if there is none; returns how long that took, `None`
    /// when there was one.
    ///
    /// # Errors
    /// Why none could be opened until `deadline`.
    pub(crate) async fn ensure(
        &mut self,
        target: &Target,
        workload: &W,
        deadline: Time,
    ) -> Result<Option<Duration>, SqlFailure> {
        let clock = target.clock();
        if let Some((conn, _)) = &self.open {
            let retired = conn.retire_at.is_some_and(|at| clock.now() >= at);
            if !retired && !conn.is_lost() {
                return Ok(None);
            }
            self.open = None;
        }
        let started = clock.now();
        loop {
            let conn = target.connect(self.endpoint, deadline).await?;
            match workload.session(&conn).await {
                Ok(session) => {
                    self.open = Some((conn, session));
                    return Ok(Some(clock.now().since(started)));
                }
                Err(failure) if failure.is_transient() && clock.now() < deadline => {
                    clock.sleep(SESSION_PAUSE).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// The open connection.
    pub(crate) fn get(&self) -> Option<(&Conn, &W::Session)> {
        self.open.as_ref().map(|(conn, session)| (conn, session))
    }

    /// Drops the connection, whatever it is doing. PostgreSQL is asked to
    /// cancel first, or the abandoned backend would keep its locks.
    pub(crate) async fn abandon(&mut self) {
        if let Some((conn, _)) = self.open.take() {
            conn.abandon().await;
        }
    }

    /// Drops a connection that is known to be gone.
    pub(crate) fn forget(&mut self) {
        self.open = None;
    }
}
