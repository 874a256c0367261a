//! What the protocol asks of queues: to deliver a message at least once, not
//! before a delay has passed. Receiving is whoever calls the handlers.

use std::fmt;
use std::time::Duration;

use crate::store::StoreError;

/// Where a message goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// The workers of a region.
    Wave {
        /// The region.
        region: String,
    },
    /// The conductor.
    Control,
    /// Out of the way, for somebody to look at: what could not be understood.
    Dead {
        /// Region of the wave queue that it came from; `None` for the control
        /// queue.
        region: Option<String>,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            To::Wave { region } => write!(f, "wave queue of {region}"),
            To::Control => f.write_str("control queue"),
            To::Dead { .. } => f.write_str("dead-letter queue"),
        }
    }
}

/// The longest delay of a message.
pub const LONGEST_DELAY: Duration = Duration::from_secs(900);

/// Sends messages.
#[allow(async_fn_in_trait)]
pub trait Queue {
    /// Sends texts to one queue, in any order. A delay over [`LONGEST_DELAY`]
    /// is cut to it: whoever gets the message early sends another.
    ///
    /// # Errors
    /// When the queue does not answer; some may have been sent.
    async fn send(&self, to: &To, bodies: &[String], delay: Duration) -> Result<(), StoreError>;
}
