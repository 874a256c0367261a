//! A database under load: where it is and how to get in.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::Clock;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::SimpleQueryMessage;

use crate::network::Network;
use crate::{Class, Conn, SqlFailure};

/// One address of the database under load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The region where it is known (`us-east-1`), else `host:port`.
    pub name: String,
    /// Host to connect to (for DSQL also the SNI and the token's host).
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// What kind of database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The embedded simulator.
    Simulator,
    /// Aurora DSQL (or the simulator over TCP, which is reached the same way).
    Dsql,
    /// PostgreSQL.
    Postgres,
}

impl Kind {
    /// Its name in reports, such as `dsql`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Simulator => "simulator",
            Kind::Dsql => "dsql",
            Kind::Postgres => "postgres",
        }
    }
}

/// A duplex byte stream, TLS done or not needed.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A boxed future, as object-safe traits need it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Opens a byte stream to an endpoint by its index. The CLI hands in the
/// simulator's pipes; TCP is the default.
pub trait Dial: Send + Sync {
    /// Opens the stream.
    fn dial(&self, endpoint: usize) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>>;
}

/// A database under load: where it is and how to get in. Cheap to clone.
#[derive(Clone)]
pub struct Target {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) kind: Kind,
    /// For reports; holds no secret.
    pub(crate) url: String,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) clock: Clock,
    pub(crate) way: Way,
    /// Jitter of pauses and of connections' ages, nothing else.
    pub(crate) jitter: Mutex<ChaCha8Rng>,
}

/// How bytes get to the database and what opens the door.
pub(crate) enum Way {
    /// In-memory pipes; user `admin`, no TLS, no token.
    Pipes(Arc<dyn Dial>),
    /// Sockets.
    Network(Box<Network>),
}

/// What a report says about a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its kind.
    pub kind: Kind,
    /// Its address, with everything that is secret left out.
    pub url: String,
}

impl Target {
    /// The simulator, reached through pipes that `dial` opens; user `admin`,
    /// no TLS, no token.
    pub fn simulator(names: Vec<String>, dial: Arc<dyn Dial>, clock: Clock) -> Target {
        let url = format!("sim:{}", names.join(","));
        let endpoints = names
            .into_iter()
            .map(|name| Endpoint {
                host: name.clone(),
                name,
                port: 5432,
            })
            .collect();
        Target::assemble(Kind::Simulator, url, endpoints, clock, Way::Pipes(dial))
    }

    pub(crate) fn assemble(
        kind: Kind,
        url: String,
        endpoints: Vec<Endpoint>,
        clock: Clock,
        way: Way,
    ) -> Target {
        Target {
            inner: Arc::new(Inner {
                kind,
                url,
                endpoints,
                clock,
                way,
                jitter: Mutex::new(ChaCha8Rng::seed_from_u64(0)),
            }),
        }
    }

    /// The same target with its jitter drawn from `seed` (0 unless this is
    /// called). Clones made before share the generator and change with it.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Target {
        *self.jitter() = ChaCha8Rng::seed_from_u64(seed);
        self
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.inner.kind
    }

    /// Its endpoints, at least one.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.inner.endpoints
    }

    /// The clock that it lives by.
    pub fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// What may be printed about it.
    pub fn describe(&self) -> Description {
        Description {
            kind: self.kind(),
            url: self.inner.url.clone(),
        }
    }

    /// Whether transactions can run at an isolation level, named as in
    /// `BEGIN ISOLATION LEVEL`, in any case, with spaces or underscores.
    pub fn supports_isolation(&self, level: &str) -> bool {
        let level = level.trim().to_ascii_uppercase().replace(['_', ' '], " ");
        match self.kind() {
            Kind::Simulator | Kind::Dsql => level == "REPEATABLE READ",
            Kind::Postgres => {
                ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"].contains(&level.as_str())
            }
        }
    }

    /// One `SELECT 1` as a simple query: the time on the wire and in the server
    /// that a statement costs whatever it does.
    ///
    /// # Errors
    /// When the session does not answer it.
    pub async fn round_trip(&self, conn: &Conn) -> Result<Duration, SqlFailure> {
        let start = self.clock().now();
        let answer = conn.client.simple_query("SELECT 1").await;
        let took = self.clock().now().since(start);
        match answer {
            Ok(_) => Ok(took),
            Err(error) => Err(SqlFailure::from_driver(&error)),
        }
    }

    /// What the server says its version is (`SHOW server_version`).
    ///
    /// # Errors
    /// When the session does not answer it.
    pub async fn server_version(&self, conn: &Conn) -> Result<String, SqlFailure> {
        let answer = conn
            .client
            .simple_query("SHOW server_version")
            .await
            .map_err(|error| SqlFailure::from_driver(&error))?;
        answer
            .iter()
            .find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            })
            .ok_or_else(|| SqlFailure::new(Class::Other, "SHOW server_version gave no row"))
    }

    /// Whether a simulator answers, served over TCP or embedded: it has a
    /// parameter that no database has. An error counts as no.
    pub async fn is_simulated(&self, conn: &Conn) -> bool {
        let shown = conn.client.simple_query("SHOW fabric.simulator").await;
        shown.is_ok_and(|answer| {
            answer
                .iter()
                .any(|message| matches!(message, SimpleQueryMessage::Row(_)))
        })
    }

    /// A uniform span from 0 to `limit`.
    pub(crate) fn jitter_up_to(&self, limit: Duration) -> Duration {
        let share: f64 = self.jitter().random();
        limit.mul_f64(share)
    }

    fn jitter(&self) -> std::sync::MutexGuard<'_, ChaCha8Rng> {
        // A generator is never left half written.
        self.inner
            .jitter
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("kind", &self.inner.kind)
            .field("url", &self.inner.url)
            .finish_non_exhaustive()
    }
}
