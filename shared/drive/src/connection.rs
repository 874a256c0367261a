//! A writer's connection: opened before the barrier, replaced when it is lost
//! or has reached its age.

use std::time::Duration;

use clock::Time;
use target::{Class, Conn, SqlFailure, Target};
use workload::Workload;

/// How long a replacement may take before the operation that needs it fails.
pub(crate) const REOPEN_LIMIT: Duration = Duration::from_secs(30);

/// Pauses between tries to open a connection: the first, doubling to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Whether opening is worth another try. An endpoint that was reached before
/// and refuses now may be back in a moment; giving up at once would let a
/// closed loop burn its whole share in that moment.
pub(crate) fn may_pass(failure: &SqlFailure) -> bool {
    failure.is_transient() || failure.class == Class::ConnectRefused
}

/// How a connection came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Connected {
    /// How long that took.
    pub(crate) took: Duration,
    /// Tries that were refused on the way.
    pub(crate) refusals: u32,
}

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

    /// Opens a connection if there is none; returns how, `None` when there was
    /// one.
    ///
    /// # Errors
    /// Why none could be opened until `deadline`.
    pub(crate) async fn ensure(
        &mut self,
        target: &Target,
        workload: &W,
        deadline: Time,
    ) -> Result<Option<Connected>, SqlFailure> {
        let clock = target.clock();
        if let Some((conn, _)) = &self.open {
            let retired = conn.retire_at.is_some_and(|at| clock.now() >= at);
            if !retired && !conn.is_lost() {
                return Ok(None);
            }
            self.open = None;
        }
        let started = clock.now();
        let mut pause = FIRST_PAUSE;
        let mut refusals = 0;
        loop {
            let opened = async {
                let conn = target.connect(self.endpoint, deadline).await?;
                let session = workload.session(&conn).await?;
                Ok::<_, SqlFailure>((conn, session))
            };
            match opened.await {
                Ok(open) => {
                    refusals += open.0.refusals;
                    self.open = Some(open);
                    return Ok(Some(Connected {
                        took: clock.now().since(started),
                        refusals,
                    }));
                }
                Err(failure) if may_pass(&failure) && clock.now() + pause < deadline => {
                    refusals += 1;
                    clock.sleep(pause).await;
                    pause = (2 * pause).min(LAST_PAUSE);
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
