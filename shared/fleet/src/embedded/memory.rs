//! Store and queues in memory, with the semantics of the real ones: a change
//! is made at one instant or not at all, a message comes once unless somebody
//! makes it come twice.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use clock::{Clock, Time};

use crate::queue::{LONGEST_DELAY, Queue, To};
use crate::store::{Attr, Change, Changed, Item, Key, Read, Store, StoreError, When};

/// A store in memory; clones are the same store.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    items: Rc<RefCell<BTreeMap<Key, Item>>>,
    blobs: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
}

impl MemoryStore {
    /// Everything that is in it, for checking.
    pub fn items(&self) -> Vec<(Key, Item)> {
        let items = self.items.borrow();
        items
            .iter()
            .map(|(key, item)| (key.clone(), item.clone()))
            .collect()
    }

    /// An item, at once.
    pub fn item(&self, key: &Key) -> Option<Item> {
        self.items.borrow().get(key).cloned()
    }
}

fn holds(when: &When, item: Option<&Item>) -> bool {
    let value = |name: &str| item.and_then(|item| item.get(name));
    match when {
        When::Absent(name) => value(name).is_none(),
        When::Present(name) => value(name).is_some(),
        When::Is(name, wanted) => value(name) == Some(wanted),
        When::Below(name, bound) => matches!(value(name), Some(Attr::N(n)) if n < bound),
    }
}

impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        Ok(self.items.borrow().get(key).cloned())
    }

    async fn change(&self, change: &Change) -> Result<Changed, StoreError> {
        let Some(key) = &change.key else {
            return Err(StoreError::Refused("a change without a key".to_owned()));
        };
        let mut items = self.items.borrow_mut();
        let found = items.get(key);
        let all = |all: &Vec<When>| all.iter().all(|when| holds(when, found));
        if !change.when.is_empty() && !change.when.iter().any(all) {
            return Ok(Changed::No(found.cloned()));
        }
        let item = items.entry(key.clone()).or_insert_with(|| {
            let (pk, sk) = (key.pk.clone(), key.sk.clone());
            BTreeMap::from([
                ("pk".to_owned(), Attr::S(pk)),
                ("sk".to_owned(), Attr::S(sk)),
            ])
        });
        for (name, value) in &change.set {
            item.insert((*name).to_owned(), value.clone());
        }
        for (name, member) in &change.add {
            let set = item
                .entry((*name).to_owned())
                .or_insert_with(|| Attr::Set(BTreeSet::new()));
            match set {
                Attr::Set(members) => drop(members.insert(member.clone())),
                _ => return Err(StoreError::Refused(format!("{name} is no set"))),
            }
        }
        for name in &change.remove {
            item.remove(*name);
        }
        Ok(Changed::Yes(item.clone()))
    }

    async fn list(&self, pk: &str, prefix: &str) -> Result<Vec<Item>, StoreError> {
        let items = self.items.borrow();
        Ok(items
            .range(Key::new(pk, prefix)..)
            .take_while(|(key, _)| key.pk == pk && key.sk.starts_with(prefix))
            .map(|(_, item)| item.clone())
            .collect())
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StoreError> {
        let mut items = self.items.borrow_mut();
        for key in keys {
            items.remove(key);
        }
        Ok(())
    }

    async fn runs_of(&self, sweep: &str, limit: usize) -> Result<Vec<Item>, StoreError> {
        let items = self.items.borrow();
        let mut runs: Vec<Item> = items
            .iter()
            .filter(|(key, item)| key.sk == "run" && item.text("sweep") == Some(sweep))
            .map(|(_, item)| item.clone())
            .collect();
        runs.sort_by(|a, b| b.text("created").cmp(&a.text("created")));
        runs.truncate(limit);
        Ok(runs)
    }

    async fn put_blob(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.blobs.borrow_mut().insert(name.to_owned(), bytes);
        Ok(())
    }

    async fn get_blob(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.blobs.borrow().get(name).cloned())
    }

    async fn list_blobs(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let blobs = self.blobs.borrow();
        Ok(blobs
            .range(prefix.to_owned()..)
            .map(|(name, _)| name.clone())
            .take_while(|name| name.starts_with(prefix))
            .collect())
    }

    async fn delete_blobs(&self, names: &[String]) -> Result<(), StoreError> {
        let mut blobs = self.blobs.borrow_mut();
        for name in names {
            blobs.remove(name);
        }
        Ok(())
    }
}

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Where it goes.
    pub to: To,
    /// What it says.
    pub body: String,
    /// How often it was received.
    pub receives: u32,
}

/// Queues in memory; clones are the same queues.
#[derive(Clone, Debug)]
pub struct MemoryQueue {
    clock: Clock,
    // By when it is due, then by when it was sent.
    letters: Rc<RefCell<BTreeMap<(Time, u64), Letter>>>,
    sent: Rc<Cell<u64>>,
    dead: Rc<RefCell<Vec<Letter>>>,
    news: Rc<tokio::sync::Notify>,
}

impl MemoryQueue {
    /// Empty queues.
    pub fn new(clock: Clock) -> MemoryQueue {
        MemoryQueue {
            clock,
            letters: Rc::default(),
            sent: Rc::default(),
            dead: Rc::default(),
            news: Rc::default(),
        }
    }

    /// Puts a message in, due after a delay.
    pub fn put(&self, letter: Letter, delay: Duration) {
        if matches!(letter.to, To::Dead { .. }) {
            self.dead.borrow_mut().push(letter);
            return;
        }
        let number = self.sent.get();
        self.sent.set(number + 1);
        let due = self.clock.now() + delay;
        self.letters.borrow_mut().insert((due, number), letter);
        self.news.notify_one();
    }

    /// Takes out the first message that is due and that `fits`.
    pub fn take(&self, fits: impl Fn(&To) -> bool) -> Option<Letter> {
        let now = self.clock.now();
        let mut letters = self.letters.borrow_mut();
        let key = letters
            .iter()
            .take_while(|((due, _), _)| *due <= now)
            .find(|(_, letter)| fits(&letter.to))
            .map(|(key, _)| *key)?;
        letters.remove(&key)
    }

    /// When the next message is due that is not yet.
    pub fn next_due(&self) -> Option<Time> {
        let now = self.clock.now();
        let letters = self.letters.borrow();
        let mut due = letters.keys().map(|(due, _)| *due);
        due.find(|due| *due > now)
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.letters.borrow().is_empty()
    }

    /// Resolves when something was put in.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// The dead letters.
    pub fn dead(&self) -> Vec<Letter> {
        self.dead.borrow().clone()
    }
}

impl Queue for MemoryQueue {
    async fn send(&self, to: &To, bodies: &[String], delay: Duration) -> Result<(), StoreError> {
        for body in bodies {
            let letter = Letter {
                to: to.clone(),
                body: body.clone(),
                receives: 0,
            };
            self.put(letter, delay.min(LONGEST_DELAY));
        }
        Ok(())
    }
}
