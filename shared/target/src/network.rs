//! From an address to an open session over sockets.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clock::{Clock, Time};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{CancelToken, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::open::{Again, Opened, Refusal, no_answer};
use crate::socket::Socket;
use crate::token::{Scope, Signer};
use crate::{Class, SqlFailure, conn, tls};

/// How often a PostgreSQL backend that is busy looks whether its client still
/// lives, ms.
const CHECK_CLIENT_MS: u32 = 1_000;

/// A database behind sockets.
pub(crate) struct Network {
    pub(crate) places: Vec<Place>,
    /// User, database, password where it is fixed, TLS mode.
    pub(crate) config: Config,
    /// `None` with `sslmode=disable`.
    pub(crate) tls: Option<MakeRustlsConnect>,
    pub(crate) login: Login,
}

/// Where an endpoint is on the network.
pub(crate) struct Place {
    /// Name for SNI, certificate and token; a path for a Unix socket.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Address to connect to instead of the host's own (`hostaddr`).
    pub(crate) address: Option<String>,
    /// How TLS began the last time that it worked; DSQL only.
    pub(crate) negotiation: OnceLock<SslNegotiation>,
}

/// What opens the door.
pub(crate) enum Login {
    /// The password in the configuration, if there is one: PostgreSQL.
    Password,
    /// A token signed for the user; `scopes` has one entry a place: DSQL.
    Token {
        signer: Arc<Signer>,
        scopes: Vec<Scope>,
    },
}

impl Place {
    pub(crate) fn new(host: String, port: u16, address: Option<String>) -> Place {
        Place {
            host,
            port,
            address,
            negotiation: OnceLock::new(),
        }
    }

    fn is_unix(&self) -> bool {
        self.host.starts_with('/')
    }

    async fn socket(&self, clock: Clock, limit: Duration) -> io::Result<Socket> {
        if self.is_unix() {
            return Socket::unix(&self.host, self.port).await;
        }
        let host = self.address.as_deref().unwrap_or(&self.host);
        Socket::tcp(host, self.port, clock, limit).await
    }
}

impl Network {
    /// Opens a session. Signing may take until the deadline; connecting, TLS
    /// and start-up share `limit`.
    pub(crate) async fn open(
        &self,
        index: usize,
        clock: Clock,
        deadline: Time,
        limit: Duration,
    ) -> Result<Opened, Refusal> {
        let place = self.place(index)?;
        let mut config = self.config.clone();
        if let Login::Token { signer, scopes } = &self.login
            && let Some(scope) = scopes.get(index)
        {
            let token = signer
                .token(scope, clock, deadline)
                .await
                // It has retried on its own.
                .map_err(|failure| Refusal {
                    failure,
                    again: Again::Never,
                })?;
            config.password(token.expose());
        }
        let limit = limit.min(deadline.since(clock.now()));
        match clock
            .timeout(limit, self.enter(place, config, clock, limit))
            .await
        {
            Some(entered) => entered,
            None => Err(no_answer(limit)),
        }
    }

    async fn enter(
        &self,
        place: &Place,
        mut config: Config,
        clock: Clock,
        limit: Duration,
    ) -> Result<Opened, Refusal> {
        if let Login::Password = self.login {
            let opened = self.handshake(place, &config, clock, limit).await?;
            watch_client(&opened.0).await?;
            return Ok(opened);
        }
        // Direct TLS saves a round trip; a server that does not know it hangs
        // up on the unexpected first byte and is asked the old way.
        if let Some(known) = place.negotiation.get() {
            config.ssl_negotiation(*known);
            return Ok(self.handshake(place, &config, clock, limit).await?);
        }
        config.ssl_negotiation(SslNegotiation::Direct);
        let error = match self.handshake(place, &config, clock, limit).await {
            Ok(opened) => {
                let _ = place.negotiation.set(SslNegotiation::Direct);
                return Ok(opened);
            }
            Err(error) => error,
        };
        if !error.may_be_the_negotiation() {
            return Err(error.into());
        }
        tracing::debug!(host = %place.host, "no direct TLS, trying SSLRequest");
        config.ssl_negotiation(SslNegotiation::Postgres);
        let opened = self.handshake(place, &config, clock, limit).await?;
        let _ = place.negotiation.set(SslNegotiation::Postgres);
        Ok(opened)
    }

    async fn handshake(
        &self,
        place: &Place,
        config: &Config,
        clock: Clock,
        limit: Duration,
    ) -> Result<Opened, Failed> {
        let stream = place.socket(clock, limit).await.map_err(Failed::Socket)?;
        let (client, hang_up) = match &self.tls {
            Some(connector) if !place.is_unix() => {
                let tls = named(connector, &place.host).map_err(Failed::Socket)?;
                let (client, connection) = config.connect_raw(stream, tls).await?;
                (client, conn::run(connection))
            }
            _ => {
                let mut config = config.clone();
                config.ssl_mode(SslMode::Disable);
                let (client, connection) = config.connect_raw(stream, NoTls).await?;
                (client, conn::run(connection))
            }
        };
        Ok((client, hang_up))
    }

    /// Delivers a cancel request.
    pub(crate) async fn cancel(
        &self,
        index: usize,
        token: CancelToken,
        clock: Clock,
        limit: Duration,
    ) -> Result<(), Refusal> {
        let place = self.place(index)?;
        let stream = place.socket(clock, limit).await.map_err(Failed::Socket)?;
        match &self.tls {
            Some(connector) if !place.is_unix() => {
                let tls = named(connector, &place.host).map_err(Failed::Socket)?;
                token.cancel_query_raw(stream, tls).await
            }
            _ => token.cancel_query_raw(stream, NoTls).await,
        }
        .map_err(|error| Failed::Driver(error).into())
    }

    fn place(&self, index: usize) -> Result<&Place, Refusal> {
        self.places.get(index).ok_or_else(|| Refusal {
            failure: SqlFailure::new(
                Class::ConnectRefused,
                format!("there is none, the target has {}", self.places.len()),
            ),
            again: Again::Never,
        })
    }
}

/// What went wrong in one handshake.
enum Failed {
    Socket(io::Error),
    Driver(tokio_postgres::Error),
}

impl Failed {
    /// Whether the other way of beginning TLS could fare better: something
    /// broke between the socket's opening and the server's first word, and it
    /// was not the certificate, which would be the same.
    fn may_be_the_negotiation(&self) -> bool {
        match self {
            Failed::Socket(_) => false,
            Failed::Driver(error) => {
                error.as_db_error().is_none()
                    && std::error::Error::source(error)
                        .and_then(|cause| cause.downcast_ref::<io::Error>())
                        .is_some_and(|cause| !tls::is_about_certificate(cause))
            }
        }
    }
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Failed {
        Failed::Driver(error)
    }
}

impl From<Failed> for Refusal {
    fn from(failed: Failed) -> Refusal {
        match failed {
            Failed::Socket(error) => Refusal::from_io(&error),
            Failed::Driver(error) => Refusal::from_driver(&error),
        }
    }
}

/// The connector for one host.
fn named(
    connector: &MakeRustlsConnect,
    host: &str,
) -> io::Result<<MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect> {
    let mut connector = connector.clone();
    match MakeTlsConnect::<Socket>::make_tls_connect(&mut connector, host) {
        Ok(tls) => Ok(tls),
        Err(never) => match never {},
    }
}

/// Has a backend that is busy notice within a second that its client is gone.
/// Servers before 14, and those on systems that cannot tell, go without.
async fn watch_client(client: &Client) -> Result<(), Refusal> {
    let set = format!(
        "SELECT set_config(name, '{CHECK_CLIENT_MS}', false) FROM pg_settings \
         WHERE name = 'client_connection_check_interval'"
    );
    match client.simple_query(&set).await {
        Err(error) if error.as_db_error().is_none() => Err(Refusal::from_driver(&error)),
        _ => Ok(()),
    }
}
