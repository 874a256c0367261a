//! The fleet.

pub mod ids;
pub mod queue;
pub mod store;

pub use ids::{RunId, Stage, TaskId, WaveId};
pub use queue::{LONGEST_DELAY, Queue, To};
pub use store::{Attr, Change, Changed, Item, Key, Offset, Read, Store, StoreError, When};
