//! A session: one connection's view of the database. It knows which
//! transaction is open and turns statements into answers.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::catalog::Catalog;
use crate::engine::{self, Database};
use crate::error::{Result, SqlError};
use crate::sql::bind::Binder;
use crate::sql::exec::{self, Run};
use crate::sql::expr::Ctx;
use crate::sql::parse::{self, Command, Parsed, Statement};
use crate::sql::write::Writer;
use crate::statement::{self, Plan};
use crate::txn::{SchemaChange, Txn};
use crate::types::Type;
use crate::value::Value;
use crate::value::key::Key;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name as the client sees it.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// What a statement cost, for the caller to turn into service time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// What kind of work it was.
    pub kind: WorkKind,
    /// Rows read from storage.
    pub rows_read: u64,
    /// Rows buffered for writing.
    pub rows_written: u64,
    /// Bytes buffered for writing.
    pub bytes_written: u64,
    /// Bytes read from storage.
    pub bytes_read: u64,
}

/// Kinds of work that differ in what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkKind {
    /// Answered without touching storage: BEGIN, ROLLBACK, SET, SHOW, SELECT 1.
    #[default]
    Trivial,
    /// Reads from storage.
    Read,
    /// Reads, and buffers writes (also FOR UPDATE).
    Write,
    /// Changes the schema.
    Ddl,
}

/// How a statement ended.
#[derive(Clone, Debug)]
pub struct Executed {
    /// Columns of the result, `None` when the statement returns none.
    pub columns: Option<Arc<[Column]>>,
    /// Rows of the result.
    pub rows: Vec<Vec<Value>>,
    /// Command tag, such as `INSERT 0 1`.
    pub tag: String,
    /// Warnings and notices to send before the tag: NOTICE where the SQLSTATE
    /// is 00000 or of class 42, WARNING otherwise.
    pub notices: Vec<SqlError>,
    /// What it cost.
    pub work: Work,
    /// The statement was a COMMIT of a block that has not failed: nothing is
    /// decided yet, the caller must call [`Session::commit`], whose error takes
    /// the place of this answer.
    pub commit: bool,
    /// The answer is to be sent no earlier than this instant: of `pg_sleep`
    /// and of `CALL sys.wait_for_job`. 0 for everything else.
    pub not_before_us: u64,
}

impl Executed {
    /// An answer that is a tag alone.
    pub(crate) fn tag(tag: impl Into<String>) -> Executed {
        Executed {
            columns: None,
            rows: Vec::new(),
            tag: tag.into(),
            notices: Vec::new(),
            work: Work::default(),
            commit: false,
            not_before_us: 0,
        }
    }

    pub(crate) fn notice(mut self, notice: SqlError) -> Executed {
        self.notices.push(notice);
        self
    }
}

/// Where a session stands, as ReadyForQuery says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`
    Idle,
    /// `T`
    InBlock,
    /// `E`
    Failed,
}

/// What a COMMIT has before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCommit {
    /// Nothing was written or locked.
    pub read_only: bool,
    /// Rows to write.
    pub rows: u64,
    /// Bytes to write.
    pub bytes: u64,
}

/// A statement that was parsed and planned, ready to be executed many times.
/// When the schema changes it is planned anew by itself.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) statement: Arc<Statement>,
    params: Vec<Type>,
    columns: Option<Arc<[Column]>>,
    current: Mutex<Current>,
}

#[derive(Clone, Debug)]
struct Current {
    /// Of the catalog that the plan was made with.
    generation: u64,
    plan: Arc<Plan>,
}

impl Prepared {
    /// Types of `$1`, `$2`, ….
    pub fn params(&self) -> &[Type] {
        &self.params
    }

    /// Columns of its result, `None` when it returns none (NoData).
    pub fn columns(&self) -> Option<&Arc<[Column]>> {
        self.columns.as_ref()
    }

    /// Nothing but white space and comments: EmptyQueryResponse.
    pub fn is_empty(&self) -> bool {
        matches!(self.statement.command, Command::Empty)
    }

    /// The plan for a schema, made anew if the schema is another one.
    fn plan(&self, catalog: &Arc<Catalog>) -> Result<Arc<Plan>> {
        let mut current = self
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if current.generation != catalog.generation {
            let binder = Binder::new(catalog, self.params.clone(), &self.statement.script);
            let planned = statement::plan(&binder, &self.statement.command)?;
            let same = match (&planned.columns, &self.columns) {
                (None, None) => true,
                (Some(new), Some(old)) => new[..] == old[..],
                _ => false,
            };
            if !same {
                return Err(SqlError::unsupported(
                    "cached plan must not change result type",
                ));
            }
            *current = Current {
                generation: catalog.generation,
                plan: Arc::new(planned.plan),
            };
        }
        Ok(Arc::clone(&current.plan))
    }
}

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
        let planned = self.plan_statement(&parsed.0, param_types);
        if planned.is_err() {
            self.fail();
        }
        planned
    }

    fn plan_statement(
        &self,
        statement: &Arc<Statement>,
        param_types: &[u32],
    ) -> Result<Arc<Prepared>> {
        let catalog = self.catalog();
        if param_types.is_empty() {
            // A plan of another schema is renewed when it is executed; its
            // columns and types have to be right now.
            if let Some(known) = statement.cached().filter(|known| {
                let current = known.current.lock().unwrap_or_else(PoisonError::into_inner);
                current.generation == catalog.generation
            }) {
                return Ok(known);
            }
        }
        let mut types = Vec::with_capacity(param_types.len());
        for oid in param_types {
            types.push(match Type::from_oid(*oid) {
                _ if *oid == 0 => Type::UNKNOWN,
                Some(ty) => ty,
                None => {
                    return Err(SqlError::new(
                        "42704",
                        format!("type with OID {oid} does not exist"),
                    ));
                }
            });
        }
        let binder = Binder::new(&catalog, types, &statement.script);
        let planned = statement::plan(&binder, &statement.command)?;
        let params = binder.params.into_inner();
        if let Some(n) = params.iter().position(|ty| ty.is_unknown()) {
            return Err(SqlError::new(
                "42P18",
                format!("could not determine data type of parameter ${}", n + 1),
            ));
        }
        let prepared = Arc::new(Prepared {
            statement: Arc::clone(statement),
            params,
            columns: planned.columns,
            current: Mutex::new(Current {
                generation: catalog.generation,
                plan: Arc::new(planned.plan),
            }),
        });
        if param_types.is_empty() {
            statement.cache(&prepared);
        }
        Ok(prepared)
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
            if let Some(known) = known {
                let generation = known
                    .current
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .generation;
                if generation == catalog.generation {
                    self.refuse_in_failed_block(&known.statement.command)?;
                    return Ok(known);
                }
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
        let one = parsed.pop().unwrap_or_else(|| {
            Parsed(Arc::new(Statement {
                script: Arc::from(sql),
                command: Command::Empty,
                planned: Mutex::new(None),
            }))
        });
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
        self.txn.as_ref().is_some_and(|txn| txn.failed || self.poisoned.get())
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
        if params.len() != prepared.params.len() {
            return Err(SqlError::new(
                "08P01",
                format!(
                    "bind message supplies {} parameters, but prepared statement requires {}",
                    params.len(),
                    prepared.params.len()
                ),
            ));
        }
        if let Command::Sql(ast) = &prepared.statement.command {
            if let Some(control) = statement::transaction_control(ast)? {
                return self.control(db, control, now_us);
            }
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
            Plan::Query { node, work, .. } => {
                query(db, txn, &self.settings, node, *work, params, now_us).map(|mut done| {
                    done.columns.clone_from(&prepared.columns);
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
                    columns: prepared.columns.clone(),
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
                done.columns.clone_from(&prepared.columns);
                done.rows.extend(job_row);
                done.notices = outcome.notices;
                done.work.kind = WorkKind::Ddl;
                Ok(done)
            }
            Plan::Lines(lines) => Ok(Executed {
                columns: prepared.columns.clone(),
                rows: lines.iter().map(|line| vec![Value::text(line)]).collect(),
                ..Executed::tag("EXPLAIN")
            }),
            Plan::Empty => Ok(Executed::tag("")),
            Plan::Utility(utility) => {
                let mut done = statement::utility(db, txn, &mut self.settings, utility, params, now_us)?;
                done.columns.clone_from(&prepared.columns);
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
        txn.buffers.get_mut(table).lock(Key::new(&key), lock);
    }
    Ok(Executed {
        work,
        not_before_us,
        ..Executed::tag(numbered("SELECT", rows.len() as u64))
    }
    .with_rows(rows))
}

impl Executed {
    fn with_rows(mut self, rows: Vec<Vec<Value>>) -> Executed {
        self.rows = rows;
        self
    }
}
