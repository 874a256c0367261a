//! An open session, and how it ends.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use clock::Time;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use crate::{SqlFailure, Target};

/// How long a cancel request may take before the connection is dropped anyway.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);

/// A session. Dropping it closes the connection: with a Terminate message when
/// nothing is under way, at once when a statement is.
#[derive(Debug)]
pub struct Conn {
    /// The driver's client.
    // Dropped before `_hang_up`, so that the connection's task finds its client
    // gone when it hears that it is to end.
    pub client: tokio_postgres::Client,
    /// Index of the endpoint that it is connected to.
    pub endpoint: usize,
    /// When it was opened.
    pub opened: Time,
    /// How long opening took, refusals and retries included.
    pub took: Duration,
    /// It should be replaced after this instant (DSQL closes connections after
    /// an hour; this is 45 to 50 minutes, so that connections opened together
    /// are not replaced together).
    pub retire_at: Option<Time>,
    /// Tries that were refused, or not answered, before this one.
    pub refusals: u32,
    /// From the first "waking up, please retry later" to the open session.
    pub waking: Duration,
    pub(crate) target: Target,
    pub(crate) _hang_up: oneshot::Sender<()>,
}

impl Conn {
    /// Whether the connection has ended, by whichever side.
    pub fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    /// Asks the server to cancel the statement that is running, and waits for
    /// at most a second until the request is delivered. Like the protocol's own
    /// request it promises nothing. Only PostgreSQL listens; DSQL ignores cancel
    /// requests, so none is sent there.
    pub async fn cancel(&self) {
        let sent = self
            .target
            .cancel(self.endpoint, self.client.cancel_token(), CANCEL_LIMIT)
            .await;
        if let Err(failure) = sent {
            tracing::debug!(%failure, "cancel request not delivered");
        }
    }

    /// Gives the session up at a deadline: on PostgreSQL the running statement
    /// is cancelled first, for an abandoned backend would stay behind its lock;
    /// then the connection is closed without waiting for an answer. What became
    /// of a COMMIT under way is unknown.
    pub async fn abandon(self) {
        self.cancel().await;
    }
}

/// Runs a connection in a task of its own until either side closes it or the
/// returned sender is dropped.
pub(crate) fn run<S, T>(connection: tokio_postgres::Connection<S, T>) -> oneshot::Sender<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (hang_up, hung_up) = oneshot::channel();
    tokio::spawn(async move {
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            biased;
            _ = hung_up => {
                // The client is gone. One poll lets an idle connection say
                // Terminate; one that is owed answers is cut off instead, or it
                // would stay open for as long as its statement runs.
                std::future::poll_fn(|cx| match connection.as_mut().poll(cx) {
                    Poll::Ready(ended) => Poll::Ready(ended),
                    Poll::Pending => Poll::Ready(Ok(())),
                })
                .await
            }
            ended = connection.as_mut() => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(failure = %SqlFailure::from_driver(&error), "connection ended");
        }
    });
    hang_up
}
