//! Whether a connection waits for another one's lock.
//!
//! PostgreSQL tells, through a connection of our own that waits for nothing. A
//! database that has no such function has, as far as we know, no lock waits; there
//! a statement that is not answered within the player's limit counts as waiting.

use target::{Class, Conn, SqlFailure};

use crate::player::query;

/// Sees who waits for whom.
pub(crate) struct Locks<'c> {
    monitor: &'c Conn,
    /// The connections' backends, as PostgreSQL numbers them.
    backends: Vec<String>,
}

impl<'c> Locks<'c> {
    /// `None` when the database cannot tell.
    ///
    /// # Errors
    /// When a connection is lost meanwhile.
    pub async fn watch(monitor: &'c Conn, conns: &[Conn]) -> Result<Option<Locks<'c>>, SqlFailure> {
        let probe = query(monitor, "SELECT pg_blocking_pids(pg_backend_pid())").await;
        match probe {
            Ok(_) => {}
            Err(failure) if matches!(failure.class, Class::Unsupported | Class::Other) => {
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        }
        let mut backends = Vec::with_capacity(conns.len());
        for conn in conns {
            let answer = query(conn, "SELECT pg_backend_pid()").await?;
            backends.push(
                answer.cell().ok_or_else(|| {
                    SqlFailure::new(Class::Other, "pg_backend_pid() gave no number")
                })?,
            );
        }
        Ok(Some(Locks { monitor, backends }))
    }

    /// Whether a connection waits for a lock that another connection of the
    /// scenario holds or awaits. Other sessions of the database do not count: what
    /// they hold is no part of the script, and they let go by themselves.
    pub async fn is_waiting(&self, session: usize) -> Result<bool, SqlFailure> {
        let sql = format!(
            "SELECT pg_blocking_pids({}) && ARRAY[{}]",
            self.backends[session],
            self.backends.join(", ")
        );
        let answer = query(self.monitor, &sql).await?;
        Ok(answer.cell().as_deref() == Some("t"))
    }
}
