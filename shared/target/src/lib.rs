//! Endpoints, tokens, TLS, connecting and what an SQLSTATE means. (Chapter to
//! be completed by the crate's author.)

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Time};
use tokio::io::{AsyncRead, AsyncWrite};

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
    _inner: Arc<()>,
}

impl Target {
    /// The simulator, reached through pipes that `dial` opens; user `admin`,
    /// no TLS, no token.
    pub fn simulator(_names: Vec<String>, _dial: Arc<dyn Dial>, _clock: Clock) -> Target {
        unimplemented!()
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        unimplemented!()
    }

    /// Its endpoints, at least one.
    pub fn endpoints(&self) -> &[Endpoint] {
        unimplemented!()
    }

    /// The clock that it lives by.
    pub fn clock(&self) -> Clock {
        unimplemented!()
    }

    /// Opens a session on an endpoint, retrying what the kind of refusal says
    /// should be retried ("waking up", 53300, 53400, transient credential
    /// errors) until `deadline`.
    ///
    /// # Errors
    /// Why no session could be opened, with its class.
    pub async fn connect(&self, _endpoint: usize, _deadline: Time) -> Result<Conn, SqlFailure> {
        unimplemented!()
    }
}

/// A session. Dropping it closes the connection.
#[derive(Debug)]
pub struct Conn {
    /// The driver's client.
    pub client: tokio_postgres::Client,
    /// Index of the endpoint that it is connected to.
    pub endpoint: usize,
    /// When it was opened.
    pub opened: Time,
    /// How long opening took, refusals and retries included.
    pub took: Duration,
    /// It should be replaced after this instant (DSQL closes connections after
    /// an hour; this is 50 minutes with jitter).
    pub retire_at: Option<Time>,
}

/// What an error means for the one who gets it: a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Lost a race: 40001 with OC000, or PostgreSQL's own.
    Conflict,
    /// 40001 with OC001: the schema changed underneath.
    SchemaConflict,
    /// 40P01
    Deadlock,
    /// XX000 `server unavailable`
    Unavailable,
    /// 53300, 53400, or no connection at all
    ConnectRefused,
    /// 54000 and its kind
    Limit,
    /// 0A000
    Unsupported,
    /// 23505 and its kind
    Constraint,
    /// The connection is gone.
    ConnectionLost,
    /// 28xxx: credentials or token refused
    AccessDenied,
    /// Anything else.
    Other,
}

impl Class {
    /// Its name in reports, such as `conflict`.
    pub fn name(self) -> &'static str {
        match self {
            Class::Conflict => "conflict",
            Class::SchemaConflict => "schema_conflict",
            Class::Deadlock => "deadlock",
            Class::Unavailable => "unavailable",
            Class::ConnectRefused => "connect_refused",
            Class::Limit => "limit",
            Class::Unsupported => "unsupported",
            Class::Constraint => "constraint",
            Class::ConnectionLost => "connection_lost",
            Class::AccessDenied => "access_denied",
            Class::Other => "other",
        }
    }
}

/// An error of the database or of the way to it, classified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlFailure {
    /// What it means.
    pub class: Class,
    /// SQLSTATE, where the server gave one.
    pub sqlstate: Option<String>,
    /// One line for people; never holds a secret.
    pub message: String,
}

impl SqlFailure {
    /// Classifies a driver's error.
    pub fn from_driver(_error: &tokio_postgres::Error) -> SqlFailure {
        unimplemented!()
    }
}
