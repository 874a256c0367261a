//! The simulator as servers: one TCP port per region, in real time.
//!
//! A socket's bytes go through the same pipe, with the same distance, into the
//! same protocol loop as in simulated time; TLS lies inside the pipe, so that
//! its handshake pays for the distance too:
//!
//! ```text
//! client ── TCP ── carry ══ pipe with its delay ══ negotiate ── (TLS) ── loop
//! ```
//!
//! TLS is offered as PostgreSQL does (SSLRequest) and directly (ALPN
//! `postgresql`). Its authority is made up at every start; its certificate can
//! be written to a file for clients to trust. Without authentication everyone
//! is let in, encrypted or not, so that psql and pgbench connect plainly; with
//! it, the way in is DSQL's: TLS, SNI, and a token for a password.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Time};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::admission::ConnectionLimits;
use crate::cluster::{Cluster, Shared};
use crate::connection;
use crate::fault_plan::FaultPlan;
use crate::link::{Link, Streamed};
use crate::negotiate::{Way, negotiate};
use crate::pipe::{self, Pipe};
use crate::preset::Preset;
use crate::startup::Entrance;
use crate::tls::{self, Authority};
use crate::token::Credentials;

/// What to serve, and how.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The database and the distance to it.
    pub preset: Preset,
    /// Everything that varies follows from it.
    pub seed: u64,
    /// What goes wrong; windows count from the start of the servers.
    pub faults: FaultPlan,
    /// Rules for connections.
    pub limits: ConnectionLimits,
    /// Address to listen on.
    pub address: IpAddr,
    /// Port of the first region, the next ones follow; 0 lets the system
    /// choose each.
    pub port: u16,
    /// Offer TLS.
    pub tls: bool,
    /// Where to write the certificate that clients must trust.
    pub ca_file: Option<PathBuf>,
    /// Ask for tokens signed with these; everyone is let in when absent.
    pub credentials: Option<Credentials>,
    /// Keep the preset's distance to the client. Service times pass always.
    pub wire_delay: bool,
}

impl ServeOptions {
    /// A preset on ephemeral ports of this machine: TLS offered, no
    /// authentication, no faults.
    pub fn new(preset: &Preset) -> ServeOptions {
        ServeOptions {
            preset: preset.clone(),
            seed: 0,
            faults: FaultPlan::default(),
            limits: ConnectionLimits::default(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            tls: true,
            ca_file: None,
            credentials: None,
            wire_delay: true,
        }
    }
}

/// Why there are no servers.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The fault plan can't be followed.
    #[error("faults: {0}")]
    Faults(String),
    /// Tokens travel as passwords, and DSQL takes them through TLS alone.
    #[error("authentication needs TLS: offer it, or let everyone in")]
    PlainAuthentication,
    /// There are not enough ports above the first.
    #[error("port {port}: {regions} regions need as many ports from it on, up to 65535")]
    Ports {
        /// The first port.
        port: u16,
        /// How many are needed.
        regions: usize,
    },
    /// An address can't be listened on.
    #[error("{address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificates could not be made.
    #[error("certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    /// They do not make a TLS server.
    #[error("TLS: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    /// The authority's certificate could not be written.
    #[error("{}: {source}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// One region's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The region.
    pub region: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// The name that DSQL would give it; its certificate is also for
    /// `localhost` and the local addresses.
    pub host: String,
}

/// Servers that listen; [`Servers::run`] answers.
#[derive(Debug)]
pub struct Servers {
    cluster: Cluster,
    listeners: Vec<TcpListener>,
    served: Vec<Served>,
    authority: Option<Authority>,
    door: Door,
}

/// What all connections meet.
#[derive(Clone)]
struct Door {
    tls: Option<TlsAcceptor>,
    credentials: Option<Arc<Credentials>>,
    wire_delay: bool,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door")
            .field("tls", &self.tls.is_some())
            .field("credentials", &self.credentials)
            .field("wire_delay", &self.wire_delay)
            .finish()
    }
}

impl Servers {
    /// Listens on every region's port. The servers' clock starts now.
    ///
    /// # Errors
    /// [`ServeError`]
    pub async fn bind(options: ServeOptions) -> Result<Servers, ServeError> {
        let regions = options.preset.regions.len();
        options.faults.check(regions).map_err(ServeError::Faults)?;
        if options.credentials.is_some() && !options.tls {
            return Err(ServeError::PlainAuthentication);
        }
        let last = usize::from(options.port) + regions - 1;
        if options.port > 0 && last > usize::from(u16::MAX) {
            return Err(ServeError::Ports {
                port: options.port,
                regions,
            });
        }
        let id = cluster_id(options.seed);
        let mut listeners = Vec::new();
        let mut served = Vec::new();
        for (port, region) in (options.port..).zip(&options.preset.regions) {
            let port = if options.port == 0 { 0 } else { port };
            let address = SocketAddr::new(options.address, port);
            let refused = |source| ServeError::Listen { address, source };
            let listener = TcpListener::bind(address).await.map_err(refused)?;
            served.push(Served {
                region: region.name.to_owned(),
                address: listener.local_addr().map_err(refused)?,
                host: format!("{id}.dsql.{}.on.aws", region.name),
            });
            listeners.push(listener);
        }
        let mut authority = None;
        let mut acceptor = None;
        if options.tls {
            let hosts = served.iter().map(|served| served.host.clone());
            let (made, config) = tls::server(hosts.collect(), options.address)?;
            if let Some(path) = options.ca_file {
                std::fs::write(&path, made.pem())
                    .map_err(|source| ServeError::CaFile { path, source })?;
            }
            authority = Some(made);
            acceptor = Some(TlsAcceptor::from(Arc::new(config)));
        }
        let cluster = Cluster::with_limits(
            &options.preset,
            options.seed,
            options.faults,
            Clock::real(),
            options.limits,
        );
        Ok(Servers {
            cluster,
            listeners,
            served,
            authority,
            door: Door {
                tls: acceptor,
                credentials: options.credentials.map(Arc::new),
                wire_delay: options.wire_delay,
            },
        })
    }

    /// The servers, in the order of the preset's regions.
    pub fn served(&self) -> &[Served] {
        &self.served
    }

    /// The cluster behind them.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The certificate that clients must trust, as PEM; none without TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.authority.as_ref().map(Authority::pem)
    }

    /// Answers until `shutdown` is ready; then every connection is closed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        // Dropping them ends what is still going on.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                (endpoint, socket) = next(&self.listeners) => match socket {
                    Ok(socket) => {
                        let shared = self.cluster.shared();
                        welcome(shared, endpoint, socket, &self.door, &mut connections);
                    }
                    // Out of file descriptors, or a client gone already:
                    // a moment later it may work again.
                    Err(_) => self.cluster.shared().clock.sleep(PAUSE).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

const PAUSE: Duration = Duration::from_millis(10);

/// The next connection to any of the listeners.
async fn next(listeners: &[TcpListener]) -> (usize, io::Result<TcpStream>) {
    std::future::poll_fn(|cx| {
        for (endpoint, listener) in listeners.iter().enumerate() {
            if let std::task::Poll::Ready(accepted) = listener.poll_accept(cx) {
                let socket = accepted.map(|(socket, _)| socket);
                return std::task::Poll::Ready((endpoint, socket));
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// Lays a pipe from a socket to the protocol loop.
fn welcome(
    shared: &Arc<Shared>,
    endpoint: usize,
    socket: TcpStream,
    door: &Door,
    connections: &mut JoinSet<()>,
) {
    let now = shared.clock.now();
    if shared.turns_away(endpoint, now) {
        return;
    }
    // Only makes small answers late where it fails.
    let _ = socket.set_nodelay(true);
    let (delay, opens) = if door.wire_delay {
        let delay = shared.delay(endpoint);
        // The socket was accepted at once: TCP's own handshake is owed.
        (delay, now + delay * 2)
    } else {
        (Duration::ZERO, Time::ZERO)
    };
    let (near, far) = pipe::pair(shared.clock, delay, opens);
    let number = shared.next_connection();
    connections.spawn(carry(socket, near));
    connections.spawn(answer(
        Arc::clone(shared),
        endpoint,
        number,
        far,
        door.clone(),
    ));
}

/// Moves bytes between a socket and a pipe until the server ends.
async fn carry(socket: TcpStream, pipe: Pipe) {
    let (mut from_client, mut to_client) = socket.into_split();
    let (mut from_server, mut to_server) = tokio::io::split(pipe);
    let up = async {
        use tokio::io::AsyncWriteExt;
        // However the client's side ended, the server reads an end.
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
        // The server may still have something to say.
        std::future::pending::<()>().await;
    };
    let down = tokio::io::copy(&mut from_server, &mut to_client);
    tokio::select! {
        biased;
        _ = down => {}
        () = up => {}
    }
}

/// The server's side of a socket.
async fn answer(shared: Arc<Shared>, endpoint: usize, number: u64, pipe: Pipe, door: Door) {
    let delay = pipe.delay();
    let clock = shared.clock;
    let Ok(way) = negotiate(pipe, door.tls.as_ref()).await else {
        return;
    };
    let mut entrance = Entrance {
        credentials: door.credentials,
        ..Entrance::default()
    };
    match way {
        Way::Plain { pipe, input } => {
            let link = Link::new(shared, endpoint, number, delay, pipe, input);
            connection::serve(link, entrance).await;
        }
        Way::Sealed { stream, host } => {
            entrance.encrypted = true;
            entrance.host = host;
            let wire = Streamed { stream, clock };
            let link = Link::new(shared, endpoint, number, delay, wire, Vec::new());
            connection::serve(link, entrance).await;
        }
    }
}

/// 26 letters and digits, as DSQL names its clusters.
fn cluster_id(seed: u64) -> String {
    use rand::{RngExt, SeedableRng};
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut draws = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let letter = |_| char::from(LETTERS[draws.random_range(0..LETTERS.len())]);
    (0..26).map(letter).collect()
}
