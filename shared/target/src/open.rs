//! Opening a session: tries, refusals, pauses.

use std::time::Duration;

use clock::Time;
use tokio::sync::oneshot;
use tokio_postgres::{CancelToken, Client, NoTls};

use crate::target::Way;
use crate::{Class, Conn, Kind, SqlFailure, Target, conn};

/// How long one try may stay without an answer.
const TRY_LIMIT: Duration = Duration::from_secs(10);

/// Upper bound of the first pause between tries; it doubles up to the cap.
const PAUSE_BASE: Duration = Duration::from_millis(100);

/// Upper bound of any pause.
const PAUSE_CAP: Duration = Duration::from_secs(5);

/// Tries that may end in a dropped connection or a failed look-up before that
/// is taken for the truth.
const FEW: u32 = 3;

/// DSQL ends sessions after 60 minutes; ours end themselves within 50.
const RETIRE_LATEST: Duration = Duration::from_secs(50 * 60);

/// Spread of the ages at which sessions retire.
const RETIRE_SPREAD: Duration = Duration::from_secs(5 * 60);

/// What a server calls us in its list of sessions.
pub(crate) const APPLICATION: &str = "dsql-fabric";

/// A try that did not become a session.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) failure: SqlFailure,
    pub(crate) again: Again,
}

/// Whether there is a point in trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The answer will not change.
    Never,
    /// It may have been an accident of the network.
    AFewTimes,
    /// The server asks to come later, or did not answer at all.
    UntilDeadline,
    /// The same: the cluster is waking up.
    Waking,
}

impl Refusal {
    /// From the driver's error during the opening.
    pub(crate) fn from_driver(error: &tokio_postgres::Error) -> Refusal {
        if let Some(io) = std::error::Error::source(error)
            .and_then(|cause| cause.downcast_ref::<std::io::Error>())
        {
            return Refusal::from_io(io);
        }
        let failure = SqlFailure::from_opening(error);
        let text = failure.message.to_ascii_lowercase();
        let again = if failure.class == Class::AccessDenied {
            Again::Never
        } else if text.contains("waking up") {
            Again::Waking
        } else {
            match failure.sqlstate.as_deref() {
                Some("53300" | "53400" | "57P03" | "XX000") => Again::UntilDeadline,
                _ if error.is_closed() => Again::AFewTimes,
                _ => Again::Never,
            }
        };
        Refusal { failure, again }
    }

    /// From the operating system, or from TLS, which speaks through it.
    pub(crate) fn from_io(error: &std::io::Error) -> Refusal {
        use std::io::ErrorKind;
        let again = match error.kind() {
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable => Again::AFewTimes,
            ErrorKind::TimedOut => Again::UntilDeadline,
            _ => Again::Never,
        };
        let message = match error.kind() {
            ErrorKind::ConnectionRefused => "nobody listens there (connection refused)".to_owned(),
            ErrorKind::UnexpectedEof => {
                "the server closed the connection before the session began".to_owned()
            }
            _ => crate::tls::explain(error),
        };
        Refusal {
            failure: SqlFailure::new(Class::ConnectRefused, message),
            again,
        }
    }
}

/// What a successful try gives.
pub(crate) type Opened = (Client, oneshot::Sender<()>);

impl Target {
    /// Opens a session on an endpoint, retrying what the kind of refusal says
    /// should be retried ("waking up", 53300, 53400, 57P03, XX000, no answer
    /// within 10 s, transient credential errors) until `deadline`, with fully
    /// jittered pauses. Dropped connections and failed name look-ups are tried
    /// three times; a refused port or password is not tried again.
    ///
    /// # Errors
    /// Why no session could be opened, with its class; the message names the
    /// address.
    pub async fn connect(&self, endpoint: usize, deadline: Time) -> Result<Conn, SqlFailure> {
        let clock = self.clock();
        let start = clock.now();
        let mut refusals: u32 = 0;
        let mut accidents: u32 = 0;
        let mut waking_since: Option<Time> = None;
        loop {
            let left = deadline.since(clock.now()).min(TRY_LIMIT);
            if left.is_zero() && refusals == 0 {
                let failure = SqlFailure::new(Class::ConnectRefused, "no time was left to connect");
                return Err(self.at(endpoint, failure));
            }
            let refusal = match self.try_once(endpoint, deadline, left).await {
                Ok((client, hang_up)) => {
                    let opened = clock.now();
                    return Ok(Conn {
                        client,
                        endpoint,
                        opened,
                        took: opened.since(start),
                        retire_at: self.retire_at(opened),
                        refusals,
                        waking: waking_since.map_or(Duration::ZERO, |since| opened.since(since)),
                        target: self.clone(),
                        _hang_up: hang_up,
                    });
                }
                Err(refusal) => refusal,
            };
            refusals += 1;
            let give_up = match refusal.again {
                Again::Never => true,
                Again::AFewTimes => {
                    accidents += 1;
                    accidents >= FEW
                }
                Again::UntilDeadline => false,
                Again::Waking => {
                    waking_since.get_or_insert(clock.now());
                    false
                }
            };
            let pause = self.jitter_up_to(pause_limit(refusals));
            if give_up || clock.now() + pause >= deadline {
                let mut failure = refusal.failure;
                if refusals > 1 {
                    let seconds = clock.now().since(start).as_secs_f64();
                    failure.message += &format!(" ({refusals} tries in {seconds:.1} s)");
                }
                return Err(self.at(endpoint, failure));
            }
            tracing::debug!(endpoint, failure = %refusal.failure, ?pause, "connecting again");
            clock.sleep(pause).await;
        }
    }

    /// One try. What comes before the first byte (a token) is bounded by the
    /// deadline, the rest by `limit`.
    async fn try_once(
        &self,
        endpoint: usize,
        deadline: Time,
        limit: Duration,
    ) -> Result<Opened, Refusal> {
        let clock = self.clock();
        let opening = async {
            match &self.inner.way {
                Way::Pipes(dial) => {
                    let stream = dial
                        .dial(endpoint)
                        .await
                        .map_err(|error| Refusal::from_io(&error))?;
                    let (client, connection) = tokio_postgres::Config::new()
                        .user("admin")
                        .dbname("postgres")
                        .application_name(APPLICATION)
                        .connect_raw(stream, NoTls)
                        .await
                        .map_err(|error| Refusal::from_driver(&error))?;
                    Ok((client, conn::run(connection)))
                }
                Way::Network(network) => network.open(endpoint, clock, deadline, limit).await,
            }
        };
        let limit = match &self.inner.way {
            Way::Pipes(_) => limit,
            // It knows which of its parts is bounded by what.
            Way::Network(_) => deadline.since(clock.now()),
        };
        match clock.timeout(limit, opening).await {
            Some(answer) => answer,
            None => Err(no_answer(limit)),
        }
    }

    /// Sends a cancel request over a connection of its own.
    pub(crate) async fn cancel(
        &self,
        endpoint: usize,
        token: CancelToken,
        limit: Duration,
    ) -> Result<(), SqlFailure> {
        let (Kind::Postgres, Way::Network(network)) = (self.kind(), &self.inner.way) else {
            return Ok(());
        };
        let sent = self
            .clock()
            .timeout(limit, network.cancel(endpoint, token, self.clock(), limit))
            .await;
        match sent {
            Some(sent) => sent,
            None => Err(no_answer(limit)),
        }
        .map_err(|refusal| self.at(endpoint, refusal.failure))
    }

    fn retire_at(&self, opened: Time) -> Option<Time> {
        match self.kind() {
            Kind::Simulator | Kind::Dsql => {
                Some(opened + (RETIRE_LATEST - self.jitter_up_to(RETIRE_SPREAD)))
            }
            Kind::Postgres => None,
        }
    }

    /// The failure with the place in front of it.
    fn at(&self, endpoint: usize, mut failure: SqlFailure) -> SqlFailure {
        let place = match self.endpoints().get(endpoint) {
            None => format!("endpoint {endpoint}"),
            Some(it) if self.kind() == Kind::Simulator => it.name.clone(),
            Some(it) => {
                let address = format!("{}:{}", it.host, it.port);
                if it.name == address {
                    address
                } else {
                    format!("{address} ({})", it.name)
                }
            }
        };
        failure.message = format!("{place}: {}", failure.message);
        failure
    }
}

pub(crate) fn no_answer(limit: Duration) -> Refusal {
    Refusal {
        failure: SqlFailure::new(
            Class::ConnectRefused,
            format!("no answer within {:.1} s", limit.as_secs_f64()),
        ),
        again: Again::UntilDeadline,
    }
}

/// The longest pause after the `n`th refusal, `n` from 1.
pub(crate) fn pause_limit(n: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(n.saturating_sub(1));
    PAUSE_BASE.saturating_mul(doubled).min(PAUSE_CAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions are opened from spawned tasks. (This is a test for the compiler.)
    #[allow(dead_code)]
    fn connecting_is_send(target: &Target) -> impl Send {
        target.connect(0, Time::ZERO)
    }

    #[test]
    fn pauses_double_up_to_the_cap() {
        let limits: Vec<u128> = [1, 2, 3, 6, 7, 40, u32::MAX]
            .map(|n| pause_limit(n).as_millis())
            .into();
        assert_eq!(limits, [100, 200, 400, 3_200, 5_000, 5_000, 5_000]);
    }
}
