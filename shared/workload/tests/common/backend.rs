//! The databases that the tests run on, and clients of them with a man in the
//! middle.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use clock::Clock;
use futures_util::FutureExt;
use plan::{Isolation, Placement, Retry, SplitTag};
use sim::{Cluster, FaultPlan};
use target::{BoxFuture, Conn, Dial, Stream, Target};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use workload::{Attempt, AttemptEnd, Claim, Found, Said, Verified, Workload};

use super::wire::{Action, Event, Wire};

/// A database.
pub struct Backend {
    pub clock: Clock,
    pub target: Target,
    /// Isolation levels that it has.
    pub levels: Vec<Isolation>,
    /// Where programs find it, if they can.
    pub url: Option<String>,
    /// Statements can wait for each other's locks.
    pub locks: bool,
    /// The men of connections that nobody has asked for yet.
    wires: Arc<Mutex<VecDeque<Wire>>>,
}

/// The longest that a test may take on PostgreSQL; on the simulator the longest
/// in virtual time. One that waits for what never comes fails then, in virtual
/// time at once.
const REAL_LIMIT: Duration = Duration::from_secs(600);
const VIRTUAL_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Runs a test on every database there is.
pub fn on_every_backend(test: impl AsyncFn(&Backend)) {
    on_postgres(&test);
    println!("on the simulator");
    clock::simulated_runtime().unwrap().block_on(async {
        let backend = Backend::simulator();
        within(backend.clock, VIRTUAL_LIMIT, test(&backend)).await;
    });
}

/// Runs a test on PostgreSQL, in a database of its own: tests at SERIALIZABLE
/// that shared one would fail each other's transactions (predicate locks are on
/// pages and whole tables, and know nothing of whose rows they are).
pub fn on_postgres(test: impl AsyncFn(&Backend)) {
    let Ok(url) = std::env::var("FABRIC_TEST_POSTGRES") else {
        println!("skipped: no PostgreSQL (set FABRIC_TEST_POSTGRES)");
        return;
    };
    println!("on PostgreSQL");
    clock::real_runtime().unwrap().block_on(async {
        let database = Database::create(&url).await;
        let backend = Backend::postgres(&database.url).await;
        let ended = AssertUnwindSafe(within(backend.clock, REAL_LIMIT, test(&backend)))
            .catch_unwind()
            .await;
        database.drop().await;
        if let Err(panic) = ended {
            resume_unwind(panic);
        }
    });
}

async fn within(clock: Clock, limit: Duration, test: impl Future<Output = ()>) {
    if clock.timeout(limit, test).await.is_none() {
        panic!("the test waits for something that does not come (limit {limit:?})");
    }
}

/// A database that one test has for itself.
struct Database {
    url: String,
    name: String,
    /// A connection to the database that the URL names.
    admin: Conn,
}

impl Database {
    async fn create(url: &str) -> Database {
        static NEXT: AtomicI64 = AtomicI64::new(0);
        let (n, id) = (NEXT.fetch_add(1, Ordering::SeqCst), std::process::id());
        let name = format!("fabric_test_{id}_{n}");
        let clock = Clock::real();
        let deadline = clock.now() + Duration::from_secs(10);
        let target = Target::from_url(url, clock).unwrap();
        let admin = target.connect(0, deadline).await.unwrap();
        // Left behind by a process of the same number that was killed.
        let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        admin.client.batch_execute(&drop).await.unwrap();
        let create = format!("CREATE DATABASE {name}");
        admin.client.batch_execute(&create).await.unwrap();
        let (server, _) = url.rsplit_once('/').expect("postgres://USER@HOST:PORT/…");
        Database {
            url: format!("{server}/{name}"),
            name,
            admin,
        }
    }

    async fn drop(self) {
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.admin.client.batch_execute(&drop).await.unwrap();
    }
}

/// Pipes to the simulator, each with a man in its middle.
struct Pipes {
    cluster: Cluster,
    wires: Arc<Mutex<VecDeque<Wire>>>,
}

impl Dial for Pipes {
    fn dial(&self, endpoint: usize) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let server = self.cluster.dial(endpoint)?;
            let (near, far) = tokio::io::duplex(1 << 20);
            let wire = Wire::between(far, server);
            self.wires.lock().unwrap().push_back(wire);
            Ok(Box::new(near) as Box<dyn Stream>)
        })
    }
}

impl Backend {
    fn simulator() -> Backend {
        let clock = Clock::simulated();
        let preset = sim::preset("us-pair-in-region").unwrap();
        let cluster = Cluster::new(preset, 1, FaultPlan::default(), clock);
        let wires = Arc::new(Mutex::new(VecDeque::new()));
        let names = cluster.endpoints();
        let pipes = Pipes {
            cluster,
            wires: Arc::clone(&wires),
        };
        Backend {
            clock,
            target: Target::simulator(names, Arc::new(pipes), clock),
            levels: vec![Isolation::RepeatableRead],
            url: None,
            locks: false,
            wires,
        }
    }

    async fn postgres(url: &str) -> Backend {
        let clock = Clock::real();
        let wires = Arc::new(Mutex::new(VecDeque::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let (login, rest) = url.split_once('@').expect("postgres://USER@HOST:PORT/…");
        let (there, database) = rest.split_once('/').expect("postgres://USER@HOST:PORT/…");
        let through = format!("{login}@{here}/{database}?sslmode=disable");
        let (there, queue) = (there.to_owned(), Arc::clone(&wires));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&there).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                queue
                    .lock()
                    .unwrap()
                    .push_back(Wire::between(client, server));
            }
        });
        Backend {
            clock,
            target: Target::from_url(&through, clock).unwrap(),
            levels: vec![
                Isolation::ReadCommitted,
                Isolation::RepeatableRead,
                Isolation::Serializable,
            ],
            url: Some(url.to_owned()),
            locks: true,
            wires,
        }
    }

    /// A connection and the man in its middle.
    pub async fn connect(&self) -> (Conn, Wire) {
        self.connect_to(0).await
    }

    async fn connect_to(&self, endpoint: usize) -> (Conn, Wire) {
        let deadline = self.clock.now() + Duration::from_secs(10);
        let conn = self.target.connect(endpoint, deadline).await.unwrap();
        let wire = self.wires.lock().unwrap().pop_front().unwrap();
        (conn, wire)
    }

    /// Ids that no other test has.
    pub fn id_base(&self) -> i64 {
        static NEXT: AtomicI64 = AtomicI64::new(0);
        let next = NEXT.fetch_add(1, Ordering::SeqCst);
        if self.clock.is_simulated() {
            return next * 256;
        }
        let since = Clock::real()
            .wall()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        // Microseconds take 51 bits until 2041.
        since.as_micros() as i64 * 4096 + next % 16 * 256
    }

    /// The workload with its tables and first rows.
    pub async fn prepared<W: Workload>(&self, workload: W) -> W {
        let (conn, _wire) = self.connect().await;
        workload.prepare(&conn).await.unwrap();
        workload
    }

    /// Whether a client's statement waits for somebody else's lock.
    pub async fn is_blocked(&self, monitor: &Conn, client: &Wire) -> bool {
        let row = monitor
            .client
            .query_one(
                "SELECT cardinality(pg_blocking_pids($1)) > 0",
                &[&client.backend()],
            )
            .await
            .unwrap();
        row.get(0)
    }

    /// Verifies through a fresh connection, to the other endpoint if there is one.
    pub async fn verify<W: Workload>(&self, workload: &W, claims: &[Claim]) -> Verified {
        let other = self.target.endpoints().len() - 1;
        let (conn, _wire) = self.connect_to(other).await;
        workload.verify(&conn, claims, &[]).await.unwrap()
    }

    /// Runs statements as they are.
    pub async fn sql(&self, sql: &str) {
        let (conn, _wire) = self.connect().await;
        conn.client.batch_execute(sql).await.unwrap();
    }
}

/// Placement over all endpoints.
pub fn split() -> Placement {
    Placement::Split(SplitTag::Split)
}

/// A retry policy that tests have no use for: they try themselves.
pub fn retry() -> Retry {
    Retry {
        max_attempts: 25,
        base_ms: 1.0,
        cap_ms: 10.0,
        deadline_ms: None,
        on: Vec::new(),
    }
}

/// One writer with its connection.
pub struct Client<W: Workload> {
    pub workload: W,
    pub writer: W::Writer,
    pub conn: Conn,
    pub session: W::Session,
    pub wire: Wire,
    index: u32,
    clock: Clock,
}

impl<W: Workload + Clone> Client<W> {
    pub async fn open(backend: &Backend, workload: &W, index: u32) -> Client<W> {
        Client::rewritten(backend, workload, index, &[]).await
    }

    /// A client some of whose statements differ.
    pub async fn rewritten(
        backend: &Backend,
        workload: &W,
        index: u32,
        rewrites: &[(&str, &str)],
    ) -> Client<W> {
        let (conn, wire) = backend.connect().await;
        for (from, to) in rewrites {
            wire.rewrite(from, to);
        }
        if backend.locks {
            // Only a superuser may; others wait a second for each deadlock.
            let _ = conn
                .client
                .batch_execute("SET deadlock_timeout = '10ms'")
                .await;
        }
        let session = workload.session(&conn).await.unwrap();
        Client {
            workload: workload.clone(),
            writer: workload.writer(index),
            conn,
            session,
            wire,
            index,
            clock: backend.clock,
        }
    }

    /// Replaces the connection; the writer keeps what it knows.
    pub async fn reopen(&mut self, backend: &Backend) {
        let fresh = Client::open(backend, &self.workload, self.index).await;
        self.conn = fresh.conn;
        self.session = fresh.session;
        self.wire = fresh.wire;
    }

    pub fn operation(&mut self, n: u64) -> W::Operation {
        self.workload.operation(&mut self.writer, n).unwrap()
    }

    pub async fn attempt(&mut self, operation: &mut W::Operation) -> Attempt {
        self.workload
            .attempt(&self.conn, &self.session, &mut self.writer, operation)
            .await
    }

    pub async fn look_up(&mut self, operation: &mut W::Operation) -> Found {
        self.workload
            .look_up(&self.conn, &self.session, &mut self.writer, operation)
            .await
            .unwrap()
    }

    /// Tries until it has committed, as a driver would.
    pub async fn commit(&mut self, operation: &mut W::Operation) -> Claim {
        match self.finish(operation).await {
            (AttemptEnd::Committed, claim) => claim,
            (end, _) => panic!("{end:?}"),
        }
    }

    /// Tries until it is known how it ends.
    pub async fn finish(&mut self, operation: &mut W::Operation) -> (AttemptEnd, Claim) {
        for n in 1..=25 {
            let end = self.attempt(operation).await.end;
            let said = match &end {
                AttemptEnd::Failed(failure) if failure.is_conflict() => {
                    // Some spread, so that writers do not march in step.
                    let ms = (n * 7 + self.index * 3) % 20 + 1;
                    self.clock.sleep(Duration::from_millis(ms.into())).await;
                    continue;
                }
                AttemptEnd::Committed => Said::Committed,
                AttemptEnd::Rejected(_) | AttemptEnd::Failed(_) => Said::Failed,
                AttemptEnd::Unknown(_) => Said::Unknown,
            };
            return (end, self.workload.claim(operation, said));
        }
        panic!("starved");
    }

    /// One attempt whose flight with the COMMIT meets `action`.
    pub async fn struck(&mut self, operation: &mut W::Operation, action: Action) -> Attempt {
        self.wire.gate();
        let done = self.wire.done.clone();
        let attempt = self
            .workload
            .attempt(&self.conn, &self.session, &mut self.writer, operation);
        let (attempt, ()) = tokio::join!(
            async {
                let attempt = attempt.await;
                // Or the strike would wait for a COMMIT that is never sent.
                let _ = done.send(Event::Done);
                attempt
            },
            self.wire.strike_commit(action),
        );
        self.wire.open();
        self.wire.forget();
        assert!(matches!(attempt.end, AttemptEnd::Unknown(_)), "{attempt:?}");
        attempt
    }

    /// Sends a COMMIT that lands later, and takes another connection.
    pub async fn in_flight(&mut self, backend: &Backend, operation: &mut W::Operation) -> InFlight {
        let (land, may_land) = oneshot::channel();
        let (has_landed, landed) = oneshot::channel();
        let action = Action::Late {
            land: may_land,
            landed: has_landed,
        };
        self.struck(operation, action).await;
        self.reopen(backend).await;
        InFlight { land, landed }
    }
}

/// A COMMIT that is on its way.
pub struct InFlight {
    land: oneshot::Sender<()>,
    landed: oneshot::Receiver<()>,
}

impl InFlight {
    /// Lets it land; returns when it was answered.
    pub async fn land(self) {
        self.land.send(()).unwrap();
        self.landed.await.unwrap();
    }
}

/// Panics with the problems when there are any.
pub fn assert_ok(verified: &Verified, what: &str) {
    assert!(verified.ok, "{what}: {:#?}", verified.problems);
}
