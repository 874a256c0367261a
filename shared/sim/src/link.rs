//! The server's end of a connection, and the time that passes on it.
//!
//! A link knows when its endpoint is done with what it was asked so far
//! (`busy_until`), and lets answers leave no earlier. Only what the outside can
//! notice waits for that instant: the next statement, and the adjudication of a
//! COMMIT. An answer is handed to the pipe with its time on it, so an awaited
//! statement costs no timer at the server.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use clock::{Clock, Time, Timer};
use engine::SqlError;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::cluster::Shared;
use crate::faults::Kind;
use crate::pipe::Pipe;
use crate::reply::{Replies, Severity};
use crate::service::micros;

/// The connection is over: closed by either side, lost, or dropped by a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// A way for bytes between the server and a client.
pub(crate) trait Wire: Send {
    /// Appends what has arrived; `Ready(Ok(0))` at the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>>;

    /// Sends bytes so that they leave at `at`, now or later.
    fn send(&mut self, bytes: &[u8], at: Time) -> impl Future<Output = io::Result<()>> + Send;
}

impl Wire for Pipe {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        self.poll_read_into(cx, into).map(Ok)
    }

    async fn send(&mut self, bytes: &[u8], at: Time) -> io::Result<()> {
        self.send_at(bytes, at).await;
        Ok(())
    }
}

/// A stream that has no notion of a later instant, such as one through TLS:
/// the link sleeps instead.
#[derive(Debug)]
pub(crate) struct Streamed<S> {
    pub(crate) stream: S,
    pub(crate) clock: Clock,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for Streamed<S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let mut space = [0; 4_096];
        let mut buf = ReadBuf::new(&mut space);
        std::task::ready!(std::pin::Pin::new(&mut self.stream).poll_read(cx, &mut buf))?;
        into.extend_from_slice(buf.filled());
        Poll::Ready(Ok(buf.filled().len()))
    }

    async fn send(&mut self, bytes: &[u8], at: Time) -> io::Result<()> {
        self.clock.sleep_until(at).await;
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }
}

/// One connection, from the server's side.
pub(crate) struct Link<W> {
    pub(crate) cluster: Arc<Shared>,
    pub(crate) endpoint: usize,
    /// Counts the cluster's connections, refused ones included, from 0.
    pub(crate) number: u64,
    /// Half a round trip: when the client sees what leaves now.
    pub(crate) delay: Duration,
    pub(crate) input: Vec<u8>,
    pub(crate) replies: Replies,
    wire: W,
    timer: Timer,
    /// Strikes when the connection is lost or has lived its time.
    doom: Timer,
    busy_until: Time,
    lost_at: Option<Time>,
    expires: Time,
}

impl<W: Wire> Link<W> {
    pub(crate) fn new(
        cluster: Arc<Shared>,
        endpoint: usize,
        number: u64,
        delay: Duration,
        wire: W,
        input: Vec<u8>,
    ) -> Link<W> {
        let clock = cluster.clock;
        let now = clock.now();
        Link {
            lost_at: cluster.faults.lost_from(endpoint, now),
            expires: now + cluster.gate.lifetime(),
            timer: Timer::new(clock),
            doom: Timer::new(clock),
            busy_until: Time::ZERO,
            replies: Replies::default(),
            cluster,
            endpoint,
            number,
            delay,
            input,
            wire,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.cluster.clock.now()
    }

    /// Waits for more input. `idle` says that no transaction is open: only
    /// then does a connection that has lived its time end.
    pub(crate) async fn fill(&mut self, idle: bool) -> Result<(), Gone> {
        // The earlier of the two, where there is any.
        let end = self
            .lost_at
            .into_iter()
            .chain(idle.then_some(self.expires))
            .min();
        if let Some(end) = end {
            self.doom.set(end);
        }
        let read = std::future::poll_fn(|cx| {
            if end.is_some() && self.doom.poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            self.wire.poll_read(cx, &mut self.input).map(Some)
        })
        .await;
        match read {
            Some(Ok(0) | Err(_)) => Err(Gone),
            Some(Ok(_)) => Ok(()),
            None if self.lost_at.is_some_and(|lost| lost <= self.now()) => Err(self.lose()),
            None => Err(self.expire().await),
        }
    }

    /// When the next statement begins: when the endpoint is done with the one
    /// before, and is not frozen.
    pub(crate) async fn begin(&mut self) -> Result<Time, Gone> {
        let now = self.now();
        let mut at = now.max(self.busy_until);
        if let Some(thaw) = self.cluster.faults.frozen_until(self.endpoint, at) {
            self.cluster.faults.strike(Kind::Frozen);
            at = thaw;
        }
        if at > now {
            self.wait_until(at).await?;
        }
        Ok(at)
    }

    /// Keeps the endpoint busy for `service` from `begun` on.
    pub(crate) fn work(&mut self, begun: Time, service: Duration) {
        self.busy_until = begun + service;
    }

    /// Keeps the endpoint busy until an instant that a statement asked for.
    pub(crate) fn not_before(&mut self, us: u64) {
        let at = Time::from_origin(Duration::from_micros(us));
        self.busy_until = self.busy_until.max(at);
    }

    /// A service time as long as the endpoint's state makes it.
    pub(crate) fn stretched(&self, us: f64, now: Time) -> Duration {
        match self.cluster.faults.slowness(self.endpoint, now) {
            Some(factor) => {
                self.cluster.faults.strike(Kind::Slow);
                micros(us * factor)
            }
            None => micros(us),
        }
    }

    /// Waits, unless the connection is lost first.
    pub(crate) async fn wait_until(&mut self, at: Time) -> Result<(), Gone> {
        let lost = self.lost_at.filter(|lost| *lost <= at);
        self.timer.set(lost.unwrap_or(at));
        self.timer.wait().await;
        match lost {
            Some(_) => Err(self.lose()),
            None => Ok(()),
        }
    }

    /// Sends what was answered so far, to leave when the endpoint is done.
    pub(crate) async fn flush(&mut self) -> Result<(), Gone> {
        if self.replies.bytes.is_empty() {
            return Ok(());
        }
        let mut at = self.now().max(self.busy_until);
        if let Some(thaw) = self.cluster.faults.frozen_until(self.endpoint, at) {
            self.cluster.faults.strike(Kind::Frozen);
            self.busy_until = thaw;
            at = thaw;
        }
        if let Some(lost) = self.lost_at.filter(|lost| *lost <= at) {
            self.wait_until(lost).await?;
        }
        let sent = self.wire.send(&self.replies.bytes, at).await;
        self.replies.bytes.clear();
        sent.map_err(|_| Gone)
    }

    /// Says why, and ends the connection.
    pub(crate) async fn fatal(&mut self, error: &SqlError) -> Gone {
        self.replies.error(Severity::Fatal, error);
        // It is over whether or not this arrives.
        let _ = self.flush().await;
        Gone
    }

    fn lose(&self) -> Gone {
        self.cluster.faults.strike(Kind::Lost);
        Gone
    }

    /// DSQL's words for this are not recorded anywhere, hence the prefix.
    async fn expire(&mut self) -> Gone {
        let minutes = self.cluster.gate.lifetime().as_secs() / 60;
        self.fatal(&error(
            "57P01",
            format!("simulator: the connection has reached its limit of {minutes} minutes"),
        ))
        .await
    }
}

/// An error with nothing but its code and message.
pub(crate) fn error(sqlstate: &'static str, message: impl Into<String>) -> SqlError {
    SqlError {
        sqlstate,
        message: message.into(),
        detail: None,
        hint: None,
        position: None,
    }
}

/// The transaction, or its COMMIT, met a part of DSQL that was not there.
/// <https://docs.aws.amazon.com/aurora-dsql/latest/userguide/troubleshooting.html>
pub(crate) fn server_unavailable() -> SqlError {
    error("XX000", "server unavailable")
}
