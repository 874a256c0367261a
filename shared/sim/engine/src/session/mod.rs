//! A session: one connection's view of the database. It knows which
//! transaction is open and turns statements into answers.

mod answer;
mod prepared;

pub use answer::{Column, Executed, PendingCommit, TransactionStatus, Work, WorkKind};
pub use prepared::Prepared;

pub(crate) use prepared::Current;

use crate::catalog::Catalog;
use crate::engine::{self, Database};
use crate::error::{Result, SqlError};
use crate::sql::exec::{self, Run};
use crate::sql::expr::Ctx;
use crate::sql::parse::{self, Command, Parsed, Statement};
use crate::sql::write::Writer;
use crate::statement::{self, Plan};
use crate::txn::{SchemaChange, Txn};
use crate::value::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What a session may look at when it computes something.
#[derive(Debug)]
pub(crate) struct Settings {
    pub user: String,
    pub pid: i32,
    /// Parameters that were set.
    pub values: BTreeMap<&'static str, String>,
}

/// One connection's view of the database.
#[derive(Debug)]
pub struct Session {
    db: Arc<Mutex<Database>>,
    pub(crate) settings: Settings,
    txn: Option<Txn>,
    /// COMMIT was executed and waits for the adjudicator.
    committing: bool,
    /// A statement failed before it could be executed.
    poisoned: Cell<bool>,
}

impl Session {
    pub(crate) fn new(db: Arc<Mutex<Database>>, user: &str, pid: i32) -> Session {
        Session {
            db,
            settings: Settings {
                user: user.to_owned(),
                pid,
                values: BTreeMap::new(),
            },
            txn: None,
            committing: false,
            poisoned: Cell::new(false),
        }
    }

    /// Splits a simple Query message into statements.
    ///
    /// # Errors
    /// 42601 when any statement does not parse (then none may run); an open
    /// block has then failed.
    pub fn parse(&self, script: &str) -> Result<Vec<Parsed>> {
        let mut db = engine::lock(&self.db);
        if let Some(known) = db.scripts.get(script) {
            return Ok(known.iter().map(|one| Parsed(Arc::clone(&one.0))).collect());
        }
        let parsed = parse::parse(script).inspect_err(|_| self.poisoned.set(true))?;
        db.remember_script(script, &parsed);
        Ok(parsed)
    }

    /// Plans one statement; `param_types` are the OIDs of a Parse message, 0 or
    /// missing where the server is to infer them.
    ///
    /// # Errors
    /// As PostgreSQL or DSQL would: 42P01, 42703, 0A000, 25P02 in a failed
    /// block, …; an open block has then failed.
    pub fn plan(&mut self, parsed: &Parsed, param_types: &[u32]) -> Result<Arc<Prepared>> {
        self.refuse_in_failed_block(&parsed.0.command)?;
        let planned = Prepared::new(&self.catalog(), &parsed.0, param_types);
        if planned.is_err() {
            self.fail();
        }
        planned.map(Arc::new)
    }

    /// [`Session::parse`] and [`Session::plan`] of one statement, from a cache
    /// keyed by the text where nothing changed: what a Parse message needs.
    ///
    /// # Errors
    /// As those two; 42601 for more than one statement.
    pub fn prepare(&mut self, sql: &str, param_types: &[u32]) -> Result<Arc<Prepared>> {
        let catalog = self.catalog();
        {
            let db = engine::lock(&self.db);
            let known = db.plans.get(sql).and_then(|entries| {
                entries
                    .iter()
                    .find(|(types, _)| **types == *param_types)
                    .map(|(_, prepared)| Arc::clone(prepared))
            });
            drop(db);
            if let Some(known) = known.filter(|known| known.fits(&catalog)) {
                self.refuse_in_failed_block(&known.statement.command)?;
                return Ok(known);
            }
        }
        let mut parsed = self.parse(sql)?;
        if parsed.len() > 1 {
            self.fail();
            return Err(SqlError::new(
                "42601",
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let one = parsed
            .pop()
            .unwrap_or_else(|| Parsed(Arc::new(Statement::new(Arc::from(sql), Command::Empty))));
        let prepared = self.plan(&one, param_types)?;
        engine::lock(&self.db).remember_plan(sql, param_types, &prepared);
        Ok(prepared)
    }

    /// The schema that this session sees now.
    fn catalog(&self) -> Arc<Catalog> {
        match &self.txn {
            Some(txn) => Arc::clone(&txn.catalog),
            None => Arc::clone(&engine::lock(&self.db).catalog),
        }
    }

    fn has_failed(&self) -> bool {
        self.txn
            .as_ref()
            .is_some_and(|txn| txn.failed || self.poisoned.get())
    }

    fn refuse_in_failed_block(&self, command: &Command) -> Result<()> {
        if self.has_failed() && !statement::ends_block(command) {
            return Err(SqlError::in_failed_block());
        }
        Ok(())
    }

    /// Marks the open transaction as failed: something went wrong outside of
    /// the engine, such as a parameter that could not be read.
    pub fn fail(&mut self) {
        if let Some(txn) = &mut self.txn {
            txn.failed = true;
        }
    }

    /// Executes one statement at `now_us`. Outside of a block an implicit
    /// transaction begins here (its snapshot is `now`) and stays open until
    /// the caller ends it with [`Session::commit`] at the end of the simple
    /// Query or at Sync.
    ///
    /// # Errors
    /// The statement's error; the block or the implicit transaction has then
    /// failed ([`Session::abort_implicit`]).
    pub fn execute(
        &mut self,
        prepared: &Prepared,
        params: &[Value],
        now_us: u64,
    ) -> Result<Executed> {
        self.refuse_in_failed_block(&prepared.statement.command)?;
        let db = Arc::clone(&self.db);
        let mut db = engine::lock(&db);
        db.meter.statements += 1;
        let done = self.run(&mut db, prepared, params, now_us);
        match &done {
            Ok(done) => {
                let meter = &mut db.meter;
                meter.rows_read += done.work.rows_read;
                meter.bytes_read += done.work.bytes_read;
                meter.rows_written += done.work.rows_written;
                meter.bytes_written += done.work.bytes_written;
            }
            Err(_) => self.fail(),
        }
        done
    }

    fn run(
        &mut self,
        db: &mut Database,
        prepared: &Prepared,
        params: &[Value],
        now_us: u64,
    ) -> Result<Executed> {
        if params.len() != prepared.params().len() {
            return Err(SqlError::new(
                "08P01",
                format!(
                    "bind message supplies {} parameters, but prepared statement requires {}",
                    params.len(),
                    prepared.params().len()
                ),
            ));
        }
        if let Command::Sql(ast) = &prepared.statement.command
            && let Some(control) = statement::transaction_control(ast)?
        {
            return self.control(db, control, now_us);
        }
        if self.txn.is_none() {
            self.txn = Some(db.begin(now_us, true));
            self.poisoned.set(false);
        }
        let Some(txn) = &mut self.txn else {
            return Err(SqlError::new("XX000", "no transaction"));
        };
        db.check_age(txn, now_us)?;
        let plan = prepared.plan(&txn.catalog)?;
        if plan.touches_tables() {
            db.check_schema(txn)?;
        }
        match &*plan {
            Plan::Query { node, work } => {
                query(db, txn, &self.settings, node, *work, params, now_us).map(|mut done| {
                    done.columns = prepared.columns().cloned();
                    done
                })
            }
            Plan::Dml { dml, tag } => {
                if txn.read_only {
                    let word = tag.trim_end_matches(" 0");
                    return Err(SqlError::new(
                        "25006",
                        format!("cannot execute {word} in a read-only transaction"),
                    ));
                }
                if txn.change.is_some() {
                    return Err(ddl_and_dml());
                }
                txn.changed_data = true;
                let mut writer = Writer::new(db, txn, &self.settings, now_us);
                let done = dml.execute(&mut writer, params)?;
                let work = Work {
                    kind: WorkKind::Write,
                    rows_read: writer.rows_read,
                    rows_written: writer.rows,
                    bytes_written: writer.bytes,
                    bytes_read: writer.bytes_read,
                };
                Ok(Executed {
                    columns: prepared.columns().cloned(),
                    rows: done.rows,
                    work,
                    ..Executed::tag(numbered(tag, done.affected))
                })
            }
            Plan::Ddl => {
                if txn.read_only {
                    return Err(SqlError::new(
                        "25006",
                        "cannot execute DDL in a read-only transaction",
                    ));
                }
                if txn.changed_data {
                    return Err(ddl_and_dml());
                }
                if txn.change.is_some() {
                    return Err(SqlError::unsupported(
                        "multiple ddl statements not supported in a transaction",
                    ));
                }
                let outcome = crate::sql::ddl::execute(
                    db,
                    &txn.catalog,
                    &prepared.statement,
                    &self.settings.user,
                )?;
                let catalog = outcome.catalog.map(|mut catalog| {
                    catalog.generation = db.next_generation();
                    Arc::new(catalog)
                });
                if let Some(catalog) = &catalog {
                    txn.catalog = Arc::clone(catalog);
                }
                let job_row = outcome.job.as_ref().map(|job| vec![Value::text(&job.id)]);
                txn.change = Some(SchemaChange {
                    catalog,
                    job: outcome.job,
                });
                let mut done = Executed::tag(outcome.tag);
                done.columns = prepared.columns().cloned();
                done.rows.extend(job_row);
                done.notices = outcome.notices;
                done.work.kind = WorkKind::Ddl;
                Ok(done)
            }
            Plan::Lines(lines) => Ok(Executed {
                columns: prepared.columns().cloned(),
                rows: lines.iter().map(|line| vec![Value::text(line)]).collect(),
                ..Executed::tag("EXPLAIN")
            }),
            Plan::Empty => Ok(Executed::tag("")),
            Plan::Utility(utility) => {
                let mut done =
                    statement::utility(db, txn, &mut self.settings, utility, params, now_us)?;
                done.columns = prepared.columns().cloned();
                Ok(done)
            }
        }
    }

    /// BEGIN, COMMIT and ROLLBACK.
    fn control(
        &mut self,
        db: &mut Database,
        control: statement::Control,
        now_us: u64,
    ) -> Result<Executed> {
        let failed = self.has_failed();
        let none = || SqlError::new("25P01", "there is no transaction in progress");
        match control {
            statement::Control::Begin { read_only, tag } => match &mut self.txn {
                // What was implicit so far is the beginning of the block.
                Some(txn) if txn.implicit => {
                    txn.implicit = false;
                    txn.read_only = read_only;
                    Ok(Executed::tag(tag))
                }
                Some(_) => Ok(Executed::tag(tag).notice(SqlError::new(
                    "25001",
                    "there is already a transaction in progress",
                ))),
                None => {
                    let mut txn = db.begin(now_us, false);
                    txn.read_only = read_only;
                    self.txn = Some(txn);
                    self.poisoned.set(false);
                    Ok(Executed::tag(tag))
                }
            },
            statement::Control::Commit => match &self.txn {
                Some(txn) if failed => {
                    let implicit = txn.implicit;
                    self.end(db);
                    let done = Executed::tag("ROLLBACK");
                    Ok(if implicit { done.notice(none()) } else { done })
                }
                Some(txn) => {
                    let implicit = txn.implicit;
                    self.committing = true;
                    let mut done = Executed::tag("COMMIT");
                    done.commit = true;
                    Ok(if implicit { done.notice(none()) } else { done })
                }
                None => Ok(Executed::tag("COMMIT").notice(none())),
            },
            statement::Control::Rollback => {
                let outside = self.txn.as_ref().is_none_or(|txn| txn.implicit);
                self.end(db);
                let done = Executed::tag("ROLLBACK");
                Ok(if outside { done.notice(none()) } else { done })
            }
        }
    }

    fn end(&mut self, db: &mut Database) {
        if let Some(txn) = self.txn.take() {
            db.abort(&txn);
        }
        self.committing = false;
        self.poisoned.set(false);
    }

    /// What there is to commit when an implicit transaction ends now, or when
    /// a COMMIT was executed: `None` otherwise.
    pub fn pending_commit(&self) -> Option<PendingCommit> {
        let txn = self.txn.as_ref()?;
        if self.has_failed() || !(txn.implicit || self.committing) {
            return None;
        }
        Some(PendingCommit {
            read_only: txn.is_read_only(),
            rows: txn.rows as u64,
            bytes: txn.bytes as u64,
        })
    }

    /// The adjudicator decides: first committer wins. Ends the transaction
    /// either way. Without one there is nothing to do.
    ///
    /// # Errors
    /// 40001 (OC000, OC001), 54000 (age, size).
    pub fn commit(&mut self, now_us: u64) -> Result<()> {
        let failed = self.has_failed();
        self.committing = false;
        self.poisoned.set(false);
        let Some(txn) = self.txn.take() else {
            return Ok(());
        };
        let mut db = engine::lock(&self.db);
        if failed {
            db.abort(&txn);
            return Err(SqlError::in_failed_block());
        }
        db.commit(&txn, now_us)
    }

    /// Ends an implicit transaction that failed or is given up; a block stays
    /// as it is (failed until ROLLBACK).
    pub fn abort_implicit(&mut self) {
        if self.txn.as_ref().is_some_and(|txn| txn.implicit) {
            self.abort();
        }
    }

    /// Ends whatever transaction there is, as a lost connection does.
    pub fn abort(&mut self) {
        let db = Arc::clone(&self.db);
        self.end(&mut engine::lock(&db));
    }

    /// For ReadyForQuery.
    pub fn status(&self) -> TransactionStatus {
        match &self.txn {
            Some(txn) if !txn.implicit => {
                if self.has_failed() {
                    TransactionStatus::Failed
                } else {
                    TransactionStatus::InBlock
                }
            }
            _ => TransactionStatus::Idle,
        }
    }

    /// The number that `pg_backend_pid()` gives, for BackendKeyData.
    pub fn backend_pid(&self) -> i32 {
        self.settings.pid
    }
}

impl Drop for Session {
    /// A snapshot that nobody reads any more must not hold versions back.
    fn drop(&mut self) {
        if self.txn.is_some() {
            self.abort();
        }
    }
}

fn ddl_and_dml() -> SqlError {
    SqlError::unsupported("ddl and dml are not supported in the same transaction")
}

/// A tag with its number of rows.
fn numbered(tag: &str, rows: u64) -> String {
    let mut out = String::with_capacity(tag.len() + 8);
    out.push_str(tag);
    out.push(' ');
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = rows;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend(digits[at..].iter().map(|digit| char::from(*digit)));
    out
}

fn query(
    db: &Database,
    txn: &mut Txn,
    settings: &Settings,
    node: &crate::sql::plan::Node,
    kind: WorkKind,
    params: &[Value],
    now_us: u64,
) -> Result<Executed> {
    let run = Run::new(
        db,
        Arc::clone(&txn.catalog),
        &txn.buffers,
        txn.snapshot,
        (txn.began_us, now_us),
        settings,
    );
    let cx = Ctx {
        params,
        outer: None,
        run: Some(&run),
    };
    let rows = exec::collect(node, &cx)?;
    let work = Work {
        kind,
        rows_read: run.rows_read.get(),
        bytes_read: run.bytes_read.get(),
        ..Work::default()
    };
    let not_before_us = run.not_before_us.get();
    let locks = run.locks.into_inner();
    if !locks.is_empty() && txn.read_only {
        return Err(SqlError::new(
            "25006",
            "cannot execute SELECT FOR UPDATE in a read-only transaction",
        ));
    }
    for (table, key, lock) in locks {
        txn.buffers.get_mut(table).lock(key, lock);
    }
    let tag = numbered("SELECT", rows.len() as u64);
    Ok(Executed {
        rows,
        work,
        not_before_us,
        ..Executed::tag(tag)
    })
}
