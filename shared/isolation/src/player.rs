//! Plays a script: one step at a time, with a barrier after each.
//!
//! A step is sent, and then the player waits until no connection owes an answer
//! but those that wait for a lock. Only then comes the next step. So what a
//! database does with the script follows from the order of its steps and from
//! nothing else: not from how far away it is or how busy this machine is.
//!
//! A connection whose statement failed is rolled back at once, as a client would do
//! it, and its steps up to the end of its transaction are left out. A step of a
//! connection that still waits cannot be sent; the player waits then for as long as
//! the limit allows, which also gives a deadlock detector the time it needs.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use clock::{Clock, Time, Timer};
use futures_util::FutureExt;
use plan::Isolation;
use target::{Conn, SqlFailure};
use tokio_postgres::SimpleQueryMessage;

use crate::locks::Locks;
use crate::script::{Rows, Script, Verb};
use crate::tables::Tables;

/// Between two looks at whether an unanswered statement waits: it doubles from the
/// first to the second.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(50);

/// What a statement was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It was not sent: its transaction had failed before, or the play had ended.
    Skipped,
    /// It succeeded.
    Done {
        /// Rows that it returned, as text.
        rows: Vec<Vec<Option<String>>>,
        /// Rows that it returned or changed.
        count: u64,
    },
    /// It failed.
    Failed(SqlFailure),
    /// It was not answered within the limit.
    Unanswered,
}

impl Answer {
    /// The only cell of the first row.
    pub(crate) fn cell(&self) -> Option<String> {
        match self {
            Answer::Done { rows, .. } => rows.first()?.first()?.clone(),
            _ => None,
        }
    }

    /// Rows in an order that does not depend on the database.
    pub(crate) fn sorted(&self) -> Option<Rows> {
        match self {
            Answer::Done { rows, .. } => {
                let mut rows = rows.clone();
                rows.sort();
                Some(rows)
            }
            _ => None,
        }
    }
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepTrace {
    /// What came back.
    pub answer: Answer,
    /// It waited for another connection.
    pub waited: bool,
    /// After which step its answer came, by index, when it had to wait.
    pub answered_after: Option<usize>,
}

/// What became of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// One for each step of the script.
    pub steps: Vec<StepTrace>,
    /// What the final state's query returned; `None` when the play did not get there.
    pub end: Option<Answer>,
}

/// What a play needs.
pub(crate) struct Stage<'c> {
    pub script: &'c Script,
    pub level: Isolation,
    pub tables: &'c Tables,
    /// One for each of the script's connections.
    pub conns: &'c [Conn],
    /// Reads the final state.
    pub check: &'c Conn,
    /// Tells who waits, where the database can.
    pub locks: Option<Locks<'c>>,
    pub clock: Clock,
    /// The longest that anything is waited for.
    pub limit: Duration,
}

/// Plays a script to its end.
///
/// # Errors
/// When who waits, or the final state, could not be asked for. What the script's
/// own statements run into is in the trace.
pub(crate) async fn play(stage: Stage<'_>) -> Result<Trace, SqlFailure> {
    let unplayed = StepTrace {
        answer: Answer::Skipped,
        waited: false,
        answered_after: None,
    };
    let mut player = Player {
        steps: vec![unplayed; stage.script.steps.len()],
        sessions: stage.conns.iter().map(Session::new).collect(),
        timer: Timer::new(stage.clock),
        stage: &stage,
    };
    let ended = player.steps().await?;
    let steps = player.steps;
    let end = if ended {
        let sql = stage.tables.named(&stage.script.final_sql);
        Some(query(stage.check, &sql).await?)
    } else {
        None
    };
    Ok(Trace { steps, end })
}

struct Player<'p, 'c> {
    stage: &'p Stage<'c>,
    steps: Vec<StepTrace>,
    sessions: Vec<Session<'c>>,
    timer: Timer,
}

struct Session<'c> {
    conn: &'c Conn,
    pending: Option<Pending<'c>>,
    /// A statement of its transaction failed; the transaction is no more.
    failed: bool,
    /// BEGIN has succeeded, and no end has.
    in_block: bool,
}

struct Pending<'c> {
    /// Index of the step; `None` for a rollback of the player's own.
    step: Option<usize>,
    answer: Pin<Box<dyn Future<Output = Result<Answer, SqlFailure>> + 'c>>,
}

impl<'c> Session<'c> {
    fn new(conn: &'c Conn) -> Session<'c> {
        Session {
            conn,
            pending: None,
            failed: false,
            in_block: false,
        }
    }

    fn send(&mut self, step: Option<usize>, sql: String) {
        let conn = self.conn;
        self.pending = Some(Pending {
            step,
            answer: Box::pin(async move { query(conn, &sql).await }),
        });
    }
}

impl Player<'_, '_> {
    /// Sends every step; false when one was never answered.
    async fn steps(&mut self) -> Result<bool, SqlFailure> {
        for index in 0..self.steps.len() {
            let step = &self.stage.script.steps[index];
            if !self
                .until_answered(step.session, index.saturating_sub(1))
                .await
            {
                return Ok(false);
            }
            let session = &mut self.sessions[step.session];
            if session.failed {
                session.failed = !matches!(step.verb, Verb::Commit | Verb::Rollback);
            } else {
                let sql = match step.verb {
                    Verb::Begin => begin(self.stage.level),
                    _ => self.stage.tables.named(&step.sql),
                };
                session.send(Some(index), sql);
            }
            self.barrier(index).await?;
        }
        let last = self.steps.len().saturating_sub(1);
        for session in 0..self.sessions.len() {
            if !self.until_answered(session, last).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until every connection has answered or is seen to wait. `now` is the
    /// step that was sent last.
    async fn barrier(&mut self, now: usize) -> Result<(), SqlFailure> {
        let deadline = self.stage.clock.now() + self.stage.limit;
        let mut pause = FIRST_LOOK;
        loop {
            self.collect(self.stage.clock.now() + pause, now).await;
            pause = (pause * 2).min(LAST_LOOK);
            let late = self.stage.clock.now() >= deadline;
            // All must wait in the same look: one that waited a look ago may have
            // been released by what another one was answered since.
            let mut all_wait = true;
            for index in 0..self.sessions.len() {
                if self.sessions[index].pending.is_some() {
                    let waits = late || self.is_waiting(index).await?;
                    self.note_wait(index, waits);
                    all_wait &= waits;
                }
            }
            if all_wait {
                return Ok(());
            }
        }
    }

    async fn is_waiting(&self, session: usize) -> Result<bool, SqlFailure> {
        match &self.stage.locks {
            Some(locks) => locks.is_waiting(session).await,
            None => Ok(false),
        }
    }

    fn note_wait(&mut self, session: usize, waits: bool) {
        if let Some(Pending {
            step: Some(step), ..
        }) = self.sessions[session].pending
        {
            self.steps[step].waited |= waits;
        }
    }

    /// Waits until a connection owes no answer; false when it still does at the
    /// limit. `now` is the step that was sent last.
    async fn until_answered(&mut self, session: usize, now: usize) -> bool {
        let deadline = self.stage.clock.now() + self.stage.limit;
        while let Some(pending) = &self.sessions[session].pending {
            if self.stage.clock.now() >= deadline {
                if let Some(step) = pending.step {
                    self.steps[step].answer = Answer::Unanswered;
                }
                return false;
            }
            self.collect(deadline, now).await;
        }
        true
    }

    /// Takes the answers that come until `until`, or until one has come and no more
    /// are there.
    async fn collect(&mut self, until: Time, now: usize) {
        self.timer.set(until);
        let (sessions, timer) = (&mut self.sessions, &mut self.timer);
        let came = poll_fn(|cx| {
            let mut came = Vec::new();
            let mut owed = false;
            for (index, session) in sessions.iter_mut().enumerate() {
                if let Some(pending) = &mut session.pending {
                    owed = true;
                    if let Poll::Ready(result) = pending.answer.poll_unpin(cx) {
                        came.push((index, result));
                    }
                }
            }
            if !came.is_empty() || !owed || timer.poll(cx).is_ready() {
                Poll::Ready(came)
            } else {
                Poll::Pending
            }
        })
        .await;
        for (session, result) in came {
            self.settle(session, result, now);
        }
    }

    /// Notes an answer, and rolls back what has failed.
    fn settle(&mut self, index: usize, result: Result<Answer, SqlFailure>, now: usize) {
        let session = &mut self.sessions[index];
        let Some(Pending {
            step: Some(step), ..
        }) = session.pending.take()
        else {
            // A rollback. Should it have failed, the connection is lost and its next
            // statement says so.
            return;
        };
        let verb = self.stage.script.steps[step].verb;
        let trace = &mut self.steps[step];
        if trace.waited {
            trace.answered_after = Some(now);
        }
        match result {
            Ok(answer) => {
                trace.answer = answer;
                match verb {
                    Verb::Begin => session.in_block = true,
                    Verb::Commit | Verb::Rollback => session.in_block = false,
                    Verb::Select | Verb::Write => {}
                }
            }
            Err(mut failure) => {
                failure.message = self.stage.tables.unnamed(&failure.message);
                trace.answer = Answer::Failed(failure);
                // The end of a transaction ends it, with or without success.
                let over = matches!(verb, Verb::Commit | Verb::Rollback);
                session.failed = !over && (session.in_block || verb == Verb::Begin);
                if session.in_block && !over {
                    session.send(None, "ROLLBACK".to_owned());
                }
                session.in_block = false;
            }
        }
    }
}

/// How a transaction begins at a level.
pub(crate) fn begin(level: Isolation) -> String {
    format!("BEGIN ISOLATION LEVEL {}", level.sql())
}

/// Sends one statement and reads its answer as text.
pub(crate) async fn query(conn: &Conn, sql: &str) -> Result<Answer, SqlFailure> {
    let messages = conn.client.simple_query(sql).await;
    let messages = messages.map_err(|error| SqlFailure::from_driver(&error))?;
    let mut rows = Vec::new();
    let mut count = 0;
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let cells = (0..row.len()).map(|column| row.get(column).map(str::to_owned));
                rows.push(cells.collect());
            }
            SimpleQueryMessage::CommandComplete(changed) => count = changed,
            _ => {}
        }
    }
    Ok(Answer::Done { rows, count })
}
