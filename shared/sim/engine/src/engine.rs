//! The database that sessions share: catalog, storage, snapshots, jobs.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::adjudicate;
use crate::catalog::Catalog;
use crate::error::{Result, SqlError};
use crate::jobs::{Job, JobKind};
use crate::meter::Meter;
use crate::session::{Prepared, Session};
use crate::sql::parse::Parsed;
use crate::storage::{Garbage, TableStore, Ts};
use crate::txn::{SchemaChange, Txn};
use crate::value::datetime::{DAY_US, EPOCH_DAYS};

/// Limits of the database, by default those of Aurora DSQL.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Rows a transaction may change.
    pub rows_per_transaction: usize,
    /// Bytes a transaction may change.
    pub bytes_per_transaction: usize,
    /// Microseconds a transaction may live.
    pub transaction_age_us: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            rows_per_transaction: 3_000,
            bytes_per_transaction: 10 << 20,
            transaction_age_us: 300_000_000,
        }
    }
}

/// Instant of `now_us` = 0 unless said otherwise: 2026-01-01T00:00:00Z.
const EPOCH_UNIX_US: i64 = 1_767_225_600_000_000;

/// Plans and scripts kept; when there are more, all are forgotten.
const CACHE_SIZE: usize = 2_000;

/// How long ended jobs stay in `sys.jobs`: 30 minutes.
const JOB_KEPT_US: u64 = 1_800_000_000;

/// Longest text that is kept as a key.
const CACHED_TEXT: usize = 16_384;

/// The database: catalog, versioned storage, adjudicator. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Engine {
    db: Arc<Mutex<Database>>,
}

impl Engine {
    /// An empty database. What it makes up (UUIDs, random numbers, job names)
    /// follows from seed 0.
    pub fn new(limits: Limits) -> Engine {
        Engine::with_seed(limits, 0)
    }

    /// An empty database whose random values follow from `seed`.
    pub fn with_seed(limits: Limits, seed: u64) -> Engine {
        Engine {
            db: Arc::new(Mutex::new(Database::new(limits, seed))),
        }
    }

    /// Sets the wall-clock time, in microseconds since 1970, at which `now_us`
    /// is 0.
    pub fn set_epoch(&self, unix_us: i64) {
        lock(&self.db).epoch_unix_us = unix_us;
    }

    /// A new session.
    pub fn session(&self, user: &str) -> Session {
        let pid = {
            let mut db = lock(&self.db);
            db.last_pid += 1;
            db.last_pid
        };
        Session::new(Arc::clone(&self.db), user, pid)
    }

    /// What the database has done so far.
    pub fn meter(&self) -> Meter {
        lock(&self.db).meter
    }
}

/// A panic in another session leaves nothing half done that matters here:
/// writes are buffered, and the commit is the last step.
pub(crate) fn lock(db: &Mutex<Database>) -> MutexGuard<'_, Database> {
    db.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A prepared statement and the parameter types declared for it.
type Planned = (Box<[u32]>, Arc<Prepared>);

/// Everything that sessions share.
#[derive(Debug)]
pub(crate) struct Database {
    pub limits: Limits,
    pub catalog: Arc<Catalog>,
    pub stores: BTreeMap<u32, TableStore>,
    /// Number of the last commit.
    clock: Ts,
    /// Open transactions by snapshot and number, with when they began: the
    /// first one holds back the oldest versions.
    active: BTreeMap<(Ts, u64), u64>,
    /// Number of the last transaction that began.
    begun: u64,
    garbage: Garbage,
    pub jobs: Vec<Job>,
    /// Next value of each sequence: sequences know no transactions.
    pub sequences: RefCell<BTreeMap<u32, i64>>,
    rng: RefCell<ChaCha8Rng>,
    row_number: Cell<u64>,
    generation: Cell<u64>,
    last_pid: i32,
    epoch_unix_us: i64,
    pub meter: Meter,
    /// Plans by text and declared parameter types.
    pub plans: HashMap<Box<str>, Vec<Planned>>,
    /// Parsed scripts by text.
    pub scripts: HashMap<Box<str>, Arc<[Parsed]>>,
}

impl Database {
    fn new(limits: Limits, seed: u64) -> Database {
        Database {
            limits,
            catalog: Arc::new(Catalog::default()),
            stores: BTreeMap::new(),
            clock: 0,
            active: BTreeMap::new(),
            begun: 0,
            garbage: Garbage::default(),
            jobs: Vec::new(),
            sequences: RefCell::new(BTreeMap::new()),
            rng: RefCell::new(ChaCha8Rng::seed_from_u64(seed)),
            row_number: Cell::new(0),
            generation: Cell::new(1),
            last_pid: 1_000,
            epoch_unix_us: EPOCH_UNIX_US,
            meter: Meter::default(),
            plans: HashMap::new(),
            scripts: HashMap::new(),
        }
    }

    // What is made up.

    /// A number in [0, 1).
    pub(crate) fn random(&self) -> f64 {
        (self.rng.borrow_mut().next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn random_bits(&self) -> u128 {
        let mut rng = self.rng.borrow_mut();
        u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())
    }

    /// The hidden key of a row without a primary key.
    pub(crate) fn next_row_number(&self) -> u64 {
        let n = self.row_number.get() + 1;
        self.row_number.set(n);
        n
    }

    /// A number that no other catalog has, so that no plan outlives its own.
    pub(crate) fn next_generation(&self) -> u64 {
        let n = self.generation.get() + 1;
        self.generation.set(n);
        n
    }

    /// An instant in microseconds since 2000.
    pub(crate) fn instant(&self, now_us: u64) -> i64 {
        self.epoch_unix_us
            .saturating_sub(EPOCH_DAYS * DAY_US)
            .saturating_add(i64::try_from(now_us).unwrap_or(i64::MAX))
    }

    // Caches.

    pub(crate) fn remember_plan(&mut self, text: &str, types: &[u32], prepared: &Arc<Prepared>) {
        if text.len() > CACHED_TEXT {
            return;
        }
        if self.plans.len() >= CACHE_SIZE {
            self.plans.clear();
        }
        let entries = self.plans.entry(text.into()).or_default();
        entries.retain(|(known, _)| **known != *types);
        entries.push((types.into(), Arc::clone(prepared)));
    }

    pub(crate) fn remember_script(&mut self, text: &str, parsed: &[Parsed]) {
        if text.len() > CACHED_TEXT {
            return;
        }
        if self.scripts.len() >= CACHE_SIZE {
            self.scripts.clear();
        }
        let copies = parsed
            .iter()
            .map(|one| Parsed(Arc::clone(&one.0)))
            .collect();
        self.scripts.insert(text.into(), copies);
    }

    // Transactions.

    /// The oldest snapshot in use, or the commit to come when there is none.
    fn horizon(&self) -> Ts {
        match self.active.first_key_value() {
            Some(((snapshot, _), _)) => *snapshot,
            None => self.clock + 1,
        }
    }

    /// Begins a transaction: its snapshot is everything committed by now.
    pub(crate) fn begin(&mut self, now_us: u64, implicit: bool) -> Txn {
        self.settle_jobs(now_us);
        // A transaction beyond the age limit can only fail; versions are not
        // kept for it.
        while let Some(entry) = self.active.first_entry() {
            if entry.get().saturating_add(self.limits.transaction_age_us) >= now_us {
                break;
            }
            entry.remove();
        }
        self.begun += 1;
        self.active.insert((self.clock, self.begun), now_us);
        Txn {
            number: self.begun,
            snapshot: self.clock,
            began_us: now_us,
            catalog: Arc::clone(&self.catalog),
            schema_version: self.catalog.version,
            buffers: Default::default(),
            rows: 0,
            bytes: 0,
            change: None,
            changed_data: false,
            read_only: false,
            implicit,
            failed: false,
        }
    }

    fn release(&mut self, txn: &Txn) {
        self.active.remove(&(txn.snapshot, txn.number));
    }

    /// Ends a transaction without its writes.
    pub(crate) fn abort(&mut self, txn: &Txn) {
        self.release(txn);
        self.meter.rollbacks += 1;
        let horizon = self.horizon();
        self.garbage.collect(&mut self.stores, horizon);
    }

    /// Refuses a transaction that is too old.
    pub(crate) fn check_age(&self, txn: &Txn, now_us: u64) -> Result<()> {
        if now_us.saturating_sub(txn.began_us) > self.limits.transaction_age_us {
            return Err(SqlError::new(
                "54000",
                format!(
                    "transaction age limit of {}s exceeded",
                    self.limits.transaction_age_us / 1_000_000
                ),
            ));
        }
        Ok(())
    }

    /// Refuses a transaction whose schema is not the present one any more.
    pub(crate) fn check_schema(&mut self, txn: &Txn) -> Result<()> {
        if txn.schema_version != self.catalog.version {
            self.meter.schema_conflicts += 1;
            return Err(SqlError::schema_conflict());
        }
        Ok(())
    }

    /// Commits a transaction, or says why it cannot be; it is over either way.
    pub(crate) fn commit(&mut self, txn: &Txn, now_us: u64) -> Result<()> {
        self.settle_jobs(now_us);
        self.release(txn);
        let result = self.decide(txn, now_us);
        if result.is_err() {
            self.meter.rollbacks += 1;
        }
        let horizon = self.horizon();
        self.garbage.collect(&mut self.stores, horizon);
        result
    }

    fn decide(&mut self, txn: &Txn, now_us: u64) -> Result<()> {
        self.check_age(txn, now_us)?;
        if txn.is_read_only() {
            self.meter.read_only += 1;
            return Ok(());
        }
        let limit = self.limits.bytes_per_transaction;
        if txn.bytes > limit {
            let megabytes = |bytes: usize| bytes.div_ceil(1 << 20);
            return Err(SqlError::new(
                "54000",
                format!("transaction size limit {}mb exceeded", megabytes(limit)),
            )
            .detail(format!(
                "Current transaction size {}mb > {}mb",
                megabytes(txn.bytes),
                megabytes(limit)
            )));
        }
        self.check_schema(txn)?;
        adjudicate::check(&self.stores, txn).inspect_err(|_| self.meter.conflicts += 1)?;
        let ts = self.clock + 1;
        // With nobody else there, the commit itself is the oldest to be read.
        let horizon = self.horizon();
        adjudicate::apply(&mut self.stores, &mut self.garbage, txn, ts, horizon);
        self.clock = ts;
        if let Some(change) = &txn.change {
            self.install(change, now_us);
        }
        self.meter.commits += 1;
        self.meter.rows_committed += txn.rows as u64;
        self.meter.bytes_committed += txn.bytes as u64;
        Ok(())
    }

    /// Puts a new schema into force.
    fn install(&mut self, change: &SchemaChange, now_us: u64) {
        let Some(changed) = &change.catalog else {
            return;
        };
        let mut catalog = (**changed).clone();
        // Jobs may have ended since the statement saw the schema.
        for job in self.jobs.iter().filter(|job| job.settled) {
            take_effect(&mut catalog, job);
        }
        catalog.version = self.catalog.version + 1;
        catalog.generation = self.next_generation();
        self.stores
            .retain(|oid, _| catalog.table_by_oid(*oid).is_some());
        for table in catalog.tables() {
            self.stores
                .entry(table.oid)
                .or_insert_with(|| TableStore::new(Arc::clone(table)))
                .redefine(Arc::clone(table));
        }
        if let Some(request) = &change.job {
            let store = self.stores.get(&request.table);
            let error = match (request.kind, catalog.table_by_oid(request.table), store) {
                (JobKind::IndexBuild, Some(table), Some(store)) => table
                    .indexes
                    .iter()
                    .find(|index| index.oid == request.object && index.unique)
                    .filter(|index| store.has_duplicates(index))
                    .map(|index| format!("could not create unique index \"{}\"", index.name)),
                _ => None,
            };
            let rows = store.map_or(0, TableStore::live_rows);
            self.jobs
                .push(Job::new(request.clone(), rows, error, now_us));
        }
        self.catalog = Arc::new(catalog);
    }

    /// Notices jobs that have ended: what they made can be used from now on.
    pub(crate) fn settle_jobs(&mut self, now_us: u64) {
        if self.jobs.is_empty() {
            return;
        }
        self.jobs
            .retain(|job| now_us < job.done_us.saturating_add(JOB_KEPT_US));
        let due = |job: &Job| !job.settled && job.done_us <= now_us;
        if !self.jobs.iter().any(due) {
            return;
        }
        let mut catalog = (*self.catalog).clone();
        for job in self.jobs.iter_mut().filter(|job| due(job)) {
            job.settled = true;
            take_effect(&mut catalog, job);
        }
        // Plans may change, the schema has not.
        catalog.generation = self.next_generation();
        for table in catalog.tables() {
            if let Some(store) = self.stores.get_mut(&table.oid) {
                store.redefine(Arc::clone(table));
            }
        }
        self.catalog = Arc::new(catalog);
    }
}

/// Changes the schema as the end of a job does.
fn take_effect(catalog: &mut Catalog, job: &Job) {
    if job.error.is_some() {
        return;
    }
    let Some(table) = catalog.table_by_oid(job.request.table) else {
        return;
    };
    let mut table = (**table).clone();
    match job.request.kind {
        JobKind::IndexBuild => {
            for index in &mut table.indexes {
                if index.oid == job.request.object {
                    Arc::make_mut(index).valid = true;
                }
            }
        }
        JobKind::ValidateConstraint => {
            for key in &mut table.foreign_keys {
                if key.oid == job.request.object {
                    key.validated = true;
                }
            }
        }
    }
    catalog.put_table(table);
}
