//! The stop flag: set once, seen by every writer at its next await.

use tokio::sync::watch;

/// Asks the shards that hold the matching [`Stop`] to end.
#[derive(Debug, Clone)]
pub struct StopHandle(watch::Sender<bool>);

impl StopHandle {
    /// Sets the flag; idempotent, callable from any thread.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// The flag as a shard sees it.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// A flag and the handle that sets it.
pub fn stop() -> (StopHandle, Stop) {
    let (sender, receiver) = watch::channel(false);
    (StopHandle(sender), Stop(receiver))
}

impl Stop {
    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when it is set, never if its handle is gone before.
    pub async fn wait(&mut self) {
        if self.0.wait_for(|set| *set).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
