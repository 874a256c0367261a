//! Every script at every level, on one target.
//!
//! Connections are kept from play to play and replaced after one that did not end
//! as it should. Connection i goes to endpoint i modulo their number, so that on a
//! pair of regions the transactions of a scenario meet across regions.

use std::pin::pin;
use std::time::Duration;

use plan::Isolation;
use target::{Class, Conn, SqlFailure, Target};

use crate::judge::judge;
use crate::locks::Locks;
use crate::player::{Answer, Stage, Trace, begin, play, query};
use crate::report::{Played, Report, ScenarioReport, Tested};
use crate::script::Script;
use crate::tables::Tables;

/// How often a scenario is played before what keeps disturbing it is the result.
const TRIES: u32 = 3;
/// How often dropping its tables is tried; whatever stays is left to the user.
const DROP_TRIES: u32 = 5;
/// How long opening a connection, or dropping tables at the end, may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
const DROP_LIMIT: Duration = Duration::from_secs(30);

/// How scenarios are played.
#[derive(Clone, Debug)]
pub struct Settings {
    /// At which levels.
    pub levels: Vec<Isolation>,
    /// Goes into the tables' names: letters, digits and `_` that no other run on
    /// this database has, at most 24.
    pub run_id: String,
    /// The longest that an answer is waited for. Longer than the database's deadlock
    /// detection, or deadlocks are taken for waits without an end.
    pub limit: Duration,
}

/// What is played next.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Plays that have ended.
    pub done: usize,
    /// Plays in all.
    pub all: usize,
    /// The scenario.
    pub script: &'a Script,
    /// The level.
    pub level: Isolation,
}

/// Plays every script at every level. `tell` hears of each play before it begins.
/// When `stop` resolves, the play under way is given up and the rest left out; its
/// tables are dropped all the same.
pub async fn run(
    target: &Target,
    tested: Tested,
    scripts: &[Script],
    settings: &Settings,
    tell: &mut dyn FnMut(Progress<'_>),
    stop: impl Future<Output = ()>,
) -> Report {
    let mut stop = pin!(stop);
    let mut run = Run {
        connections: Connections::new(target),
        settings,
        plays: 0,
        refused: Vec::new(),
        ended: None,
        tables_left: Vec::new(),
    };
    let all = scripts.len() * settings.levels.len();
    let mut scenarios = Vec::with_capacity(scripts.len());
    for script in scripts {
        let mut results = Vec::with_capacity(settings.levels.len());
        for level in &settings.levels {
            let done = scenarios.len() * settings.levels.len() + results.len();
            if run.ended.is_none() {
                tell(Progress {
                    done,
                    all,
                    script,
                    level: *level,
                });
            }
            results.push(run.play(script, *level, stop.as_mut()).await);
        }
        scenarios.push(ScenarioReport::new(script, results));
    }
    Report::new(tested, settings.levels.clone(), scenarios, run.tables_left)
}

struct Run<'r> {
    connections: Connections<'r>,
    settings: &'r Settings,
    /// Plays that have begun, repetitions included.
    plays: usize,
    /// Levels that the database refuses, with its reason.
    refused: Vec<(Isolation, String)>,
    /// Why nothing is played any more.
    ended: Option<String>,
    tables_left: Vec<String>,
}

impl Run<'_> {
    async fn play(
        &mut self,
        script: &Script,
        level: Isolation,
        mut stop: std::pin::Pin<&mut impl Future<Output = ()>>,
    ) -> Played {
        let mut tries = 0;
        loop {
            if let Some(reason) = &self.ended {
                return Played::not_played(level, reason.clone());
            }
            let known = self.refused.iter().find(|(refused, _)| *refused == level);
            if let Some((_, reason)) = known {
                return Played::refused(level, reason.clone());
            }
            tries += 1;
            self.plays += 1;
            let mut tables = Tables::new(&self.settings.run_id, self.plays);
            let ended = tokio::select! {
                biased;
                () = stop.as_mut() => None,
                ended = self.once(script, level, &mut tables) => Some(ended),
            };
            let clean = matches!(&ended, Some(Ok(trace)) if disturbed(trace).is_none()
                && !trace.steps.iter().any(|step| step.answer == Answer::Unanswered));
            if !clean {
                self.connections.abandon().await;
            }
            self.drop_tables(&mut tables).await;
            let disturbance = match ended {
                None => {
                    self.ended = Some("stopped".to_owned());
                    continue;
                }
                Some(Ok(trace)) => match disturbed(&trace) {
                    Some(failure) if tries < TRIES => failure.clone(),
                    _ => {
                        let outcome = judge(script, &trace);
                        return Played::new(script, level, outcome, tries, &trace);
                    }
                },
                Some(Err(Interrupted::Level(failure))) => {
                    self.refused.push((level, failure.to_string()));
                    continue;
                }
                Some(Err(Interrupted::Connect(failure))) => {
                    self.ended = Some(format!("no connection: {failure}"));
                    continue;
                }
                Some(Err(Interrupted::Sql(failure))) if failure.class == Class::Unsupported => {
                    return Played::refused(level, failure.to_string());
                }
                Some(Err(Interrupted::Sql(failure))) => {
                    if !failure.is_transient() || tries >= TRIES {
                        return Played::not_played(level, tables.unnamed(&failure.message));
                    }
                    failure
                }
            };
            tracing::debug!(scenario = script.id, %disturbance, "played again");
        }
    }

    async fn once(
        &mut self,
        script: &Script,
        level: Isolation,
        tables: &mut Tables,
    ) -> Result<Trace, Interrupted> {
        let target = self.connections.target;
        let (check, conns) = self
            .connections
            .open(script.sessions.len())
            .await
            .map_err(Interrupted::Connect)?;
        probe(check, level).await?;
        tables.create(check, script).await?;
        let locks = Locks::watch(check, conns).await?;
        let stage = Stage {
            script,
            level,
            tables,
            conns,
            check,
            locks,
            clock: target.clock(),
            limit: self.settings.limit,
        };
        Ok(play(stage).await?)
    }

    /// Drops the tables of a play, within a limit; what stays is noted.
    async fn drop_tables(&mut self, tables: &mut Tables) {
        if tables.left().is_empty() {
            return;
        }
        let clock = self.connections.target.clock();
        let dropped = clock.timeout(DROP_LIMIT, async {
            let mut tries = 0;
            loop {
                tries += 1;
                let (conn, _) = self.connections.open(0).await?;
                match tables.drop(conn).await {
                    Err(failure) if failure.is_transient() && tries < DROP_TRIES => {}
                    ended => return ended,
                }
            }
        });
        match dropped.await {
            Some(Ok(())) => {}
            Some(Err(failure)) => tracing::warn!(%failure, "tables could not be dropped"),
            None => tracing::warn!("tables could not be dropped in {DROP_LIMIT:?}"),
        }
        self.tables_left.extend_from_slice(tables.left());
    }
}

/// Why a play has no trace.
enum Interrupted {
    /// The database refuses the level.
    Level(SqlFailure),
    /// No connection could be had.
    Connect(SqlFailure),
    /// A statement of ours failed.
    Sql(SqlFailure),
}

impl From<SqlFailure> for Interrupted {
    fn from(failure: SqlFailure) -> Interrupted {
        Interrupted::Sql(failure)
    }
}

/// Asks for the level before tables are made for it.
async fn probe(conn: &Conn, level: Isolation) -> Result<(), Interrupted> {
    match query(conn, &begin(level)).await {
        Ok(_) => {
            query(conn, "ROLLBACK").await?;
            Ok(())
        }
        Err(failure) if failure.class == Class::Unsupported => Err(Interrupted::Level(failure)),
        Err(failure) => Err(failure.into()),
    }
}

/// What says nothing about isolation and may be gone the next time.
fn disturbed(trace: &Trace) -> Option<&SqlFailure> {
    trace.steps.iter().find_map(|step| match &step.answer {
        Answer::Failed(failure) => match failure.class {
            Class::Conflict | Class::Deadlock => None,
            _ => failure.is_transient().then_some(failure),
        },
        _ => None,
    })
}

/// The connections of a run.
struct Connections<'r> {
    target: &'r Target,
    /// Makes tables, sees who waits, reads the final state.
    check: Option<Conn>,
    /// The scenario's.
    conns: Vec<Conn>,
}

impl<'r> Connections<'r> {
    fn new(target: &'r Target) -> Connections<'r> {
        Connections {
            target,
            check: None,
            conns: Vec::new(),
        }
    }

    /// The connection that checks, and `n` for a scenario.
    async fn open(&mut self, n: usize) -> Result<(&Conn, &[Conn]), SqlFailure> {
        if self.conns.iter().any(Conn::is_lost) {
            self.conns.clear();
        }
        while self.conns.len() < n {
            let endpoint = self.conns.len() % self.target.endpoints().len();
            self.conns.push(self.connect(endpoint).await?);
        }
        let check = match self.check.take().filter(|conn| !conn.is_lost()) {
            Some(conn) => conn,
            None => self.connect(0).await?,
        };
        Ok((self.check.insert(check), &self.conns[..n]))
    }

    async fn connect(&self, endpoint: usize) -> Result<Conn, SqlFailure> {
        let deadline = self.target.clock().now() + CONNECT_LIMIT;
        self.target.connect(endpoint, deadline).await
    }

    /// Closes all of them, whatever they are doing.
    async fn abandon(&mut self) {
        for conn in self.conns.drain(..).chain(self.check.take()) {
            conn.abandon().await;
        }
    }
}
