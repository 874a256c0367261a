//! The protocol loop: one for pipes in simulated time and for TCP.
//!
//! Everything that has arrived is worked on in order; answers leave at Sync, at
//! Flush, and when the input runs dry. An error in the extended protocol skips
//! to the next Sync. One simple Query message, and everything up to a Sync, is
//! one implicit transaction unless a block is open. It is committed *before* its
//! last statement's CommandComplete is sent, so that no driver takes a lost race
//! for success: at the end of a Query message; and in the extended protocol by
//! holding back how an Execute ended until the next message, which may be Sync.

use std::collections::HashMap;
use std::sync::Arc;

use clock::Time;
use engine::{Executed, Prepared, Session, SqlError, TransactionStatus, Value};
use rand_chacha::ChaCha8Rng;

use crate::faults::Kind;
use crate::link::{Gone, Link, Wire, error, server_unavailable};
use crate::message::{Body, Frame, InvalidLength, Malformed, frame};
use crate::portal::{Ending, Portal};
use crate::reply::{Replies, Severity};
use crate::service::{Purpose, Service, generator};
use crate::startup::{Entrance, Login, start_up};

/// Replies beyond this many bytes leave before their statement is complete.
const REPLIES_LIMIT: usize = 256 << 10;

/// A client's session, from its login to its end.
pub(crate) struct Connection<W> {
    pub(crate) link: Link<W>,
    pub(crate) session: Session,
    pub(crate) service: Arc<Service>,
    pub(crate) service_draws: ChaCha8Rng,
    pub(crate) commit_draws: ChaCha8Rng,
    statement_draws: ChaCha8Rng,
    /// An error in the extended protocol: everything up to Sync is skipped.
    skipping: bool,
    /// Prepared statements by name; looked up, never iterated.
    pub(crate) statements: HashMap<Box<[u8]>, Arc<Prepared>>,
    /// The portal that nearly every driver uses.
    pub(crate) unnamed: Option<Portal>,
    /// Portals with names; looked up, never iterated.
    pub(crate) portals: HashMap<Box<[u8]>, Portal>,
    /// How the last Execute ended, not said yet.
    pub(crate) held: Option<Ending>,
    /// Parameter types of a Parse message, kept for its room.
    pub(crate) type_room: Vec<u32>,
}

/// Serves one connection from its start-up packet to its end.
pub(crate) async fn serve<W: Wire>(mut link: Link<W>, entrance: Entrance) {
    let Ok(Login { session, admission }) = start_up(&mut link, &entrance).await else {
        return;
    };
    let draws = |purpose| generator(link.cluster.seed, link.number, purpose);
    let mut connection = Connection {
        session,
        service: Arc::clone(&link.cluster.services[link.endpoint]),
        service_draws: draws(Purpose::Service),
        commit_draws: draws(Purpose::Commits),
        statement_draws: draws(Purpose::Statements),
        link,
        skipping: false,
        statements: HashMap::new(),
        unnamed: None,
        portals: HashMap::new(),
        held: None,
        type_room: Vec::new(),
    };
    while connection.turn().await.is_ok() {}
    // Whatever is open ends with its connection.
    connection.session.abort();
    drop(admission);
}

impl<W: Wire> Connection<W> {
    /// Works on everything that has arrived, answers, and waits for more.
    async fn turn(&mut self) -> Result<(), Gone> {
        let mut input = std::mem::take(&mut self.link.input);
        let mut done = 0;
        loop {
            match frame(&input[done..]) {
                Ok(Some(Frame { tag, body, length })) => {
                    self.message(tag, body).await?;
                    done += length;
                }
                Ok(None) => break,
                Err(InvalidLength) => {
                    let refusal = error("08P01", "invalid message length");
                    return Err(self.link.fatal(&refusal).await);
                }
            }
        }
        input.drain(..done);
        self.link.input = input;
        self.link.flush().await?;
        let idle = self.session.status() == TransactionStatus::Idle;
        self.link.fill(idle).await
    }

    async fn message(&mut self, tag: u8, body: &[u8]) -> Result<(), Gone> {
        match tag {
            b'S' => return self.sync().await,
            b'X' => return Err(Gone),
            _ if self.skipping => return Ok(()),
            _ => self.release(),
        }
        let body = Body(body);
        let done = match tag {
            b'Q' => return self.query(body).await,
            b'P' => self.parse(body),
            b'B' => self.bind(body),
            b'D' => self.describe(body),
            b'E' => self.execute(body).await?,
            b'C' => self.close(body),
            b'H' => return self.link.flush().await,
            b'F' => {
                self.fail(&error(
                    "0A000",
                    "simulator: the function call message is not supported",
                ));
                return self.ready().await;
            }
            // Left over from a COPY that was refused: PostgreSQL ignores them.
            b'd' | b'c' | b'f' => return Ok(()),
            _ => {
                let refusal = error("08P01", format!("invalid frontend message type {tag}"));
                return Err(self.link.fatal(&refusal).await);
            }
        };
        if let Err(error) = done {
            self.fail(&error);
            self.skipping = true;
        }
        Ok(())
    }

    /// A simple Query message.
    async fn query(&mut self, mut body: Body<'_>) -> Result<(), Gone> {
        let script = body.bytes_to_zero().and_then(|script| {
            body.end()?;
            Ok(script)
        });
        let done = match script.map_err(malformed).and_then(text) {
            Ok(script) => self.script(script).await?,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            self.fail(&error);
        }
        self.ready().await
    }

    /// Runs the statements of a script up to the first error.
    async fn script(&mut self, script: &str) -> Result<Result<(), SqlError>, Gone> {
        let statements = match self.session.parse(script) {
            Ok(statements) => statements,
            Err(error) => return Ok(Err(error)),
        };
        let Some(last) = statements.len().checked_sub(1) else {
            self.link.replies.empty_query();
            return Ok(Ok(()));
        };
        for (index, statement) in statements.iter().enumerate() {
            let prepared = match self.session.plan(statement, &[]) {
                Ok(prepared) => prepared,
                Err(error) => return Ok(Err(error)),
            };
            let executed = match self.run(&prepared, &[]).await? {
                Ok(executed) => executed,
                Err(error) => return Ok(Err(error)),
            };
            if let Err(error) = self.results(&executed).await? {
                return Ok(Err(error));
            }
            if index == last
                && let Err(error) = self.commit_implicit().await?
            {
                return Ok(Err(error));
            }
            self.link.replies.command_complete(&executed.tag);
        }
        Ok(Ok(()))
    }

    /// All rows of a statement of a script, as text.
    async fn results(&mut self, executed: &Executed) -> Result<Result<(), SqlError>, Gone> {
        notices(&mut self.link.replies, executed);
        let Some(columns) = &executed.columns else {
            return Ok(Ok(()));
        };
        self.link.replies.row_description(columns, |_| false);
        for row in &executed.rows {
            if let Err(error) = self.link.replies.data_row(columns, row, |_| false) {
                return Ok(Err(error));
            }
            self.relieve().await?;
        }
        Ok(Ok(()))
    }

    /// Sends what was answered when it is much.
    pub(crate) async fn relieve(&mut self) -> Result<(), Gone> {
        if self.link.replies.bytes.len() > REPLIES_LIMIT {
            self.link.flush().await?;
        }
        Ok(())
    }

    /// The end of everything sent since the last Sync.
    async fn sync(&mut self) -> Result<(), Gone> {
        if self.skipping {
            self.skipping = false;
        } else if let Err(error) = self.commit_implicit().await? {
            self.held = None;
            self.fail(&error);
        }
        self.release();
        self.ready().await
    }

    /// Ends the implicit transaction, if one is open. One that wrote nothing
    /// has nothing to be decided: it ends with its statement, in no time.
    pub(crate) async fn commit_implicit(&mut self) -> Result<Result<(), SqlError>, Gone> {
        match self.session.pending_commit() {
            Some(pending) if pending.read_only => Ok(self.session.commit(self.link.now().as_us())),
            Some(_) => self.commit(false).await,
            None => Ok(Ok(())),
        }
    }

    async fn ready(&mut self) -> Result<(), Gone> {
        let status = self.session.status();
        if status == TransactionStatus::Idle {
            // Portals live as long as their transaction.
            self.unnamed = None;
            self.portals.clear();
        }
        self.link.replies.ready_for_query(status);
        self.link.flush().await
    }

    /// Reports an error. Whatever transaction is open has failed, also where
    /// the error was not the engine's own: a Bind that does not fit, a fault.
    fn fail(&mut self, error: &SqlError) {
        self.session.fail();
        self.session.abort_implicit();
        self.link.replies.error(Severity::Error, error);
    }

    /// Executes one statement, COMMIT included; takes its service time.
    pub(crate) async fn run(
        &mut self,
        prepared: &Prepared,
        params: &[Value],
    ) -> Result<Result<Executed, SqlError>, Gone> {
        let begun = self.link.begin().await?;
        let before = self.session.status();
        let executed = match self.session.execute(prepared, params, begun.as_us()) {
            Ok(executed) => executed,
            Err(error) => {
                let us = self.service.failure(&mut self.service_draws);
                self.take(begun, us);
                return Ok(Err(error));
            }
        };
        if executed.commit {
            let pending = self.session.pending_commit();
            let read_only = pending.is_none_or(|pending| pending.read_only);
            return Ok(self.commit(read_only).await?.map(|()| executed));
        }
        let us = self.service.statement(&executed, &mut self.service_draws);
        self.take(begun, us);
        self.link.not_before(executed.not_before_us);
        Ok(self.unavailable(before, begun).map_or(Ok(executed), Err))
    }

    /// Whether XX000 strikes the statement that was just executed. One that
    /// ended a block can't fail any more; one that opened a block has opened
    /// none then.
    fn unavailable(&mut self, before: TransactionStatus, now: Time) -> Option<SqlError> {
        let faults = &self.link.cluster.faults;
        if !faults.at_statement(now, &mut self.statement_draws) {
            return None;
        }
        match (before, self.session.status()) {
            (TransactionStatus::InBlock | TransactionStatus::Failed, TransactionStatus::Idle) => {
                return None;
            }
            (TransactionStatus::Idle, TransactionStatus::InBlock) => self.session.abort(),
            _ => {}
        }
        faults.strike(Kind::StatementUnavailable);
        Some(server_unavailable())
    }

    fn take(&mut self, begun: Time, us: f64) {
        if us > 0.0 {
            let service = self.link.stretched(us, begun);
            self.link.work(begun, service);
        }
    }
}

/// What a statement says beside its result.
pub(crate) fn notices(replies: &mut Replies, executed: &Executed) {
    for notice in &executed.notices {
        let said = notice.sqlstate;
        replies.notice(
            if said == "00000" || said.starts_with("42") {
                Severity::Notice
            } else {
                Severity::Warning
            },
            notice,
        );
    }
}

pub(crate) fn malformed(_: Malformed) -> SqlError {
    error("08P01", "invalid message format")
}

/// SQL must be UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, SqlError> {
    std::str::from_utf8(bytes)
        .map_err(|_| error("22021", "invalid byte sequence for encoding \"UTF8\""))
}
