//! What the protocol asks of a store: items that change one at a time and under
//! a condition, and blobs for what is too large for an item.
//!
//! There is no transaction over several items. Every step of the protocol is
//! one conditional change, and what follows from it is either derived again
//! from the items or put into a set, where twice is once.

use std::collections::{BTreeMap, BTreeSet};

/// A value of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attr {
    /// Text.
    S(String),
    /// A whole number.
    N(i64),
    /// A set of texts.
    Set(BTreeSet<String>),
}

/// An item, by attribute; its own key is under `pk` and `sk`.
pub type Item = BTreeMap<String, Attr>;

/// Where an item is: one partition for each run, sorted by the second part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Partition.
    pub pk: String,
    /// Place in it.
    pub sk: String,
}

impl Key {
    /// A key of its two parts.
    pub fn new(pk: impl Into<String>, sk: impl Into<String>) -> Key {
        Key {
            pk: pk.into(),
            sk: sk.into(),
        }
    }
}

/// What must hold of an item for a change to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// The attribute is not there (nor is it if there is no item).
    Absent(&'static str),
    /// The attribute is there.
    Present(&'static str),
    /// The attribute has that value.
    Is(&'static str, Attr),
    /// The attribute is a number below that one.
    Below(&'static str, i64),
}

/// One conditional change of one item. An item that is not there is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The item.
    pub key: Option<Key>,
    /// One of these lists must hold as a whole; no list at all always holds.
    pub when: Vec<Vec<When>>,
    /// Attributes to set.
    pub set: Vec<(&'static str, Attr)>,
    /// Members to add to sets. An empty set does not exist.
    pub add: Vec<(&'static str, String)>,
    /// Attributes to remove.
    pub remove: Vec<&'static str>,
}

impl Change {
    /// A change of the item at `key`, under no condition.
    pub fn of(key: Key) -> Change {
        Change {
            key: Some(key),
            ..Change::default()
        }
    }

    /// Only when all of these hold; called again, or when all of those do.
    pub fn when(mut self, all: impl IntoIterator<Item = When>) -> Change {
        self.when.push(all.into_iter().collect());
        self
    }

    /// Sets an attribute to a text.
    pub fn set(mut self, name: &'static str, value: impl Into<String>) -> Change {
        self.set.push((name, Attr::S(value.into())));
        self
    }

    /// Sets an attribute to a number.
    pub fn set_n(mut self, name: &'static str, value: i64) -> Change {
        self.set.push((name, Attr::N(value)));
        self
    }

    /// Adds a member to a set.
    pub fn add(mut self, name: &'static str, member: impl Into<String>) -> Change {
        self.add.push((name, member.into()));
        self
    }

    /// Removes an attribute.
    pub fn remove(mut self, name: &'static str) -> Change {
        self.remove.push(name);
        self
    }
}

/// How a change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It was made; the item as it is now.
    Yes(Item),
    /// Its condition does not hold; the item as it is, if there is one.
    No(Option<Item>),
}

/// Why a store or a queue did not answer. After `Busy` nobody knows whether
/// the change was made, so each change must be one that may be made twice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Throttled, timed out or unavailable: worth another try.
    #[error("{0}")]
    Busy(String),
    /// No table, no permission, no such endpoint, a malformed item: trying
    /// again changes nothing.
    #[error("{0}")]
    Refused(String),
}

impl StoreError {
    /// Whether trying again may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Busy(_))
    }
}

/// This process's clock less the store's, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offset {
    /// Middle of the range that it lies in, in milliseconds.
    pub ms: f64,
    /// Half the width of that range.
    pub error_ms: f64,
}

/// Where the protocol keeps its state. Reads see every change that ended
/// before they began.
#[allow(async_fn_in_trait)]
pub trait Store {
    /// Reads an item.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError>;

    /// Makes a conditional change.
    ///
    /// # Errors
    /// When the store does not answer; the change may have been made.
    async fn change(&self, change: &Change) -> Result<Changed, StoreError>;

    /// All items of a partition whose second part begins with `prefix`, in its
    /// order.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn list(&self, pk: &str, prefix: &str) -> Result<Vec<Item>, StoreError>;

    /// Deletes items, those that are there.
    ///
    /// # Errors
    /// When the store does not answer; some may have been deleted.
    async fn delete(&self, keys: &[Key]) -> Result<(), StoreError>;

    /// The runs of a sweep, newest first, at most `limit`.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn runs_of(&self, sweep: &str, limit: usize) -> Result<Vec<Item>, StoreError>;

    /// Writes a blob, over one that is there.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn put_blob(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError>;

    /// Reads a blob.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn get_blob(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Names of the blobs that begin with `prefix`, in order.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn list_blobs(&self, prefix: &str) -> Result<Vec<String>, StoreError>;

    /// Deletes blobs, those that are there.
    ///
    /// # Errors
    /// When the store does not answer; some may have been deleted.
    async fn delete_blobs(&self, names: &[String]) -> Result<(), StoreError>;

    /// What is known of the offset between the clocks; reported, never applied.
    fn offset(&self) -> Option<Offset> {
        None
    }

    /// DPU that a cluster used since an instant (milliseconds since 1970), where
    /// somebody counts it.
    ///
    /// # Errors
    /// When the counter does not answer.
    async fn dpu_since(&self, _cluster: &str, _since_ms: i64) -> Result<Option<f64>, StoreError> {
        Ok(None)
    }
}

/// Reading an item by type; what is not there or of another type is `None`.
pub trait Read {
    /// A text.
    fn text(&self, name: &str) -> Option<&str>;
    /// A number.
    fn number(&self, name: &str) -> Option<i64>;
    /// How many members a set has.
    fn members(&self, name: &str) -> usize;
}

impl Read for Item {
    fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Attr::S(text)) => Some(text),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Some(Attr::N(number)) => Some(*number),
            _ => None,
        }
    }

    fn members(&self, name: &str) -> usize {
        match self.get(name) {
            Some(Attr::Set(members)) => members.len(),
            _ => 0,
        }
    }
}
