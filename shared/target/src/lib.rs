//! Endpoints, tokens, TLS, connecting and what an SQLSTATE means.
//!
//! A [`Target`] is a database under load: a DSQL cluster with one or two
//! regional endpoints, a PostgreSQL, or the embedded simulator. Everything above
//! this crate sees only that, so the same workload runs on all three.
//!
//! How a session comes to be:
//!
//! 1. [`Target::from_url`] reads the URL (`url`) and the environment, and
//!    decides on endpoints, TLS and the kind of password (`settings`). Nothing
//!    touches the network yet. [`Target::simulator`] takes pipes instead.
//! 2. [`Target::connect`] makes tries until one succeeds, an answer is final, or
//!    the deadline comes (`open`). Between tries it waits a random part of a
//!    limit that doubles.
//! 3. On DSQL a try begins with a token (`token`): kept from before, or signed,
//!    by one caller at a time.
//! 4. A socket is opened, TLS begins, at once where the server can do that, and
//!    the session starts (`network`, `socket`, `tls`). In a simulation the pipe that
//!    [`Dial`] gives takes the place of all this.
//! 5. The driver's connection runs in a task of its own (`conn`) until the
//!    [`Conn`] is dropped, the server hangs up, or the wire breaks.
//!
//! From then on, whatever the driver reports goes through
//! [`SqlFailure::from_driver`]: a closed set of classes that carries the
//! decisions (was it a lost race, is the connection gone, is the outcome of a
//! COMMIT known), so that nobody else looks at an SQLSTATE to decide.
//!
//! What is not here, and why:
//!
//! - No pool. A load generator wants to know which operation waited for which
//!   connection and for how long; its driver owns the connections.
//! - No retries of statements or transactions: those belong to an operation and
//!   are counted there. Only opening is retried, since nothing can be lost by it.
//! - No time-outs of the driver's own or of the server's. DSQL refuses
//!   `statement_timeout` and ignores cancel requests, and time-outs that do not
//!   come from the clock crate would not know simulated time.
//! - No environment in simulated time: the simulator's target reads no variable,
//!   looks up no name and opens no socket.

mod conn;
mod failure;
mod network;
mod open;
mod options;
mod pace;
mod secret;
mod settings;
mod socket;
mod target;
mod tls;
mod token;
mod url;

pub use conn::Conn;
pub use failure::{Class, SqlFailure};
pub use options::Options;
pub use pace::{DSQL_BURST, DSQL_PER_SECOND, slots};
pub use secret::Secret;
pub use target::{BoxFuture, Description, Dial, Endpoint, Kind, Stream, Target};

/// A target could not be made of what was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// A part of the URL is refused.
    #[error("target URL, {place}: {problem}")]
    Url {
        /// Which part.
        place: &'static str,
        /// What is wrong with it, and what would be accepted.
        problem: String,
    },
    /// A file with certificates is refused.
    #[error("cannot trust the certificates in {path}: {reason}; give a readable PEM file")]
    CaFile {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing to verify certificates with.
    #[error(
        "this machine has no root certificates to verify a server with; install them \
         (ca-certificates), or name a PEM file in FABRIC_CA_FILE"
    )]
    NoRoots,
    /// TLS cannot be set up at all.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}
