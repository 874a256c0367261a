//! From the first byte to the first ReadyForQuery.

use std::sync::Arc;

use engine::{Session, SqlError, TransactionStatus};
use rand::RngExt;

use crate::cluster::Shared;
use crate::faults::{Kind, Refusal};
use crate::link::{Gone, Link, Wire, error};
use crate::message::{Frame, InvalidLength, Malformed, Opening, Packet, frame, packet};
use crate::service::{Purpose, generator};
use crate::token::{self, Credentials};

/// The one database of a cluster.
const DATABASE: &str = "postgres";

/// What the way in is like, as far as authentication must know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entrance {
    /// The connection is encrypted.
    pub(crate) encrypted: bool,
    /// The host name that the client said it wants (SNI).
    pub(crate) host: Option<String>,
    /// Whose tokens are accepted; everyone is let in when absent.
    pub(crate) credentials: Option<Arc<Credentials>>,
}

/// A place among the cluster's connections, given back on drop.
pub(crate) struct Admission(Arc<Shared>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}

/// Who has come in.
pub(crate) struct Login {
    pub(crate) session: Session,
    pub(crate) admission: Admission,
}

struct Parameters {
    user: Option<String>,
    database: Option<String>,
    application_name: String,
    /// The client wants more than protocol 3.0; these options are unknown.
    newer: bool,
    unknown: Vec<String>,
}

/// Lets a client in, or says why not.
pub(crate) async fn start_up<W: Wire>(
    link: &mut Link<W>,
    entrance: &Entrance,
) -> Result<Login, Gone> {
    let parameters = match parameters(link).await? {
        Ok(parameters) => parameters,
        Err(refusal) => return Err(link.fatal(&refusal).await),
    };
    let admission = match admit(&link.cluster, link.number) {
        Ok(admission) => admission,
        Err(refusal) => return Err(link.fatal(&refusal).await),
    };
    let Some(user) = parameters.user.filter(|user| !user.is_empty()) else {
        let refusal = error(
            "28000",
            "no PostgreSQL user name specified in startup packet",
        );
        return Err(link.fatal(&refusal).await);
    };
    if parameters.newer {
        let unknown = parameters.unknown.iter().map(String::as_str);
        link.replies.negotiate_protocol_version(unknown);
    }
    if let Some(credentials) = &entrance.credentials
        && let Err(refusal) = authenticate(link, entrance, credentials, &user).await?
    {
        return Err(link.fatal(&refusal).await);
    }
    if let Some(database) = parameters.database.filter(|name| name != DATABASE) {
        let refusal = error("3D000", format!("database \"{database}\" does not exist"));
        return Err(link.fatal(&refusal).await);
    }

    let secret = generator(link.cluster.seed, link.number, Purpose::Secrets).random();
    let session = link.cluster.engine.session(&user);
    let replies = &mut link.replies;
    replies.authentication_ok();
    for (name, value) in [
        ("server_version", "16.15"),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("application_name", &parameters.application_name),
        ("default_transaction_read_only", "off"),
        ("in_hot_standby", "off"),
        ("is_superuser", "off"),
        ("session_authorization", &user),
        ("DateStyle", "ISO, MDY"),
        ("IntervalStyle", "postgres"),
        ("TimeZone", "UTC"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
    ] {
        replies.parameter_status(name, value);
    }
    replies.backend_key_data(session.backend_pid(), secret);
    replies.ready_for_query(TransactionStatus::Idle);
    link.flush().await?;
    Ok(Login { session, admission })
}

/// Reads packets until the one that names the user.
async fn parameters<W: Wire>(link: &mut Link<W>) -> Result<Result<Parameters, SqlError>, Gone> {
    loop {
        let Packet { opening, length } = match packet(&link.input) {
            Ok(Some(packet)) => packet,
            Ok(None) => {
                link.fill(true).await?;
                continue;
            }
            Err(InvalidLength) => {
                return Ok(Err(error("08P01", "invalid length of startup packet")));
            }
        };
        let answer = match opening {
            // DSQL ignores cancel requests: the connection just ends.
            Ok(Opening::Cancel) => return Err(Gone),
            // Encryption was settled before; asked again, it is refused.
            Ok(Opening::SslRequest | Opening::GssEncRequest) => None,
            Ok(Opening::Startup { minor, parameters }) => Some(Ok(read(minor, &parameters))),
            Ok(Opening::Unsupported { major, minor }) => Some(Err(error(
                "0A000",
                format!(
                    "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"
                ),
            ))),
            Err(Malformed) => Some(Err(error(
                "08P01",
                "invalid startup packet layout: expected terminator as last byte",
            ))),
        };
        link.input.drain(..length);
        match answer {
            Some(answer) => return Ok(answer),
            None => {
                link.replies.bytes.extend_from_slice(b"N");
                link.flush().await?;
            }
        }
    }
}

fn read(minor: u16, parameters: &[(&str, &str)]) -> Parameters {
    let value = |wanted: &str| {
        let found = parameters.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    };
    let unknown: Vec<_> = parameters
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| name.starts_with("_pq_."))
        .map(str::to_owned)
        .collect();
    Parameters {
        user: value("user"),
        database: value("database"),
        application_name: value("application_name").unwrap_or_default(),
        newer: minor > 0 || !unknown.is_empty(),
        unknown,
    }
}

/// The plan's refusals first, then the cluster's own.
fn admit(cluster: &Arc<Shared>, number: u64) -> Result<Admission, SqlError> {
    let now = cluster.clock.now();
    let mut draws = generator(cluster.seed, number, Purpose::Secrets);
    // The first draw is the connection's secret.
    let _: u32 = draws.random();
    let planned = cluster.faults.at_connection(now, &mut draws);
    if let Some(refusal) = planned {
        cluster.faults.strike(match refusal {
            Refusal::TooMany => Kind::RefuseTooMany,
            Refusal::Rate => Kind::RefuseRate,
        });
        return Err(refused(refusal));
    }
    cluster.gate.enter(now).map_err(refused)?;
    Ok(Admission(Arc::clone(cluster)))
}

/// DSQL's words
/// (<https://docs.aws.amazon.com/aurora-dsql/latest/userguide/CHAP_quotas.html>).
fn refused(refusal: Refusal) -> SqlError {
    match refusal {
        Refusal::TooMany => error(
            "53300",
            "Unable to accept connection, too many open connections.",
        ),
        Refusal::Rate => error("53400", "Unable to accept connection, rate exceeded."),
    }
}

/// Asks for a token and checks it, all as DSQL does.
async fn authenticate<W: Wire>(
    link: &mut Link<W>,
    entrance: &Entrance,
    credentials: &Credentials,
    user: &str,
) -> Result<Result<(), SqlError>, Gone> {
    if !entrance.encrypted {
        return Ok(Err(error(
            "28000",
            "unable to accept connection, SSL is mandatory. AWS Authentication is required.",
        )));
    }
    let Some(host) = &entrance.host else {
        return Ok(Err(error(
            "28000",
            "unable to accept connection, sni was not received",
        )));
    };
    link.replies.authentication_cleartext_password();
    link.flush().await?;
    let message = loop {
        match frame(&link.input) {
            Ok(Some(Frame {
                tag: b'p',
                body,
                length,
            })) => {
                let text = body.strip_suffix(&[0]).unwrap_or(body);
                let token = String::from_utf8_lossy(text).into_owned();
                link.input.drain(..length);
                break token;
            }
            Ok(Some(_)) => return Ok(Err(error("08P01", "expected password response"))),
            Ok(None) => link.fill(true).await?,
            Err(InvalidLength) => return Ok(Err(error("08P01", "invalid message length"))),
        }
    };
    let expected = token::Expected {
        credentials,
        host,
        region: link.cluster.regions[link.endpoint].name,
        user,
        now: link.cluster.clock.wall(),
    };
    Ok(token::check(&message, &expected).map_err(|refusal| {
        let hint = refusal.hint();
        SqlError {
            hint,
            ..error("28000", refusal.to_string())
        }
    }))
}
