//! Who asks for what: everything about an operation follows from the seed and
//! its number, so that any process can tell what any writer was to do.

use plan::{Distribution, OrderTransferParams};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::number::{self, number, writer_of};

/// Pieces of one product that an order asks for at most; at least one.
const MOST_PIECES: i64 = 3;

/// What a transfer moves at most; at least 1.
const LARGEST_AMOUNT: i64 = 100;

/// Stock of a product and balance of an account that no rep uses up, and of
/// which a million still have a sum.
const PLENTY: i64 = 1_000_000_000_000;

/// How many operations back a business id that is sent again comes from at most.
/// Small, so that its first sender is often still at it.
const LOOK_BACK: u32 = 3;

/// Draws of another writer's operation before an operation that was to be a
/// duplicate is one of its own.
const SOURCES_TRIED: u32 = 8;

/// Draws of a key that is not taken yet, before the next free one is.
const KEYS_TRIED: u32 = 64;

/// How a wave's operations are dealt.
#[derive(Clone, Debug)]
pub(crate) struct Deal {
    pub(crate) clients: u32,
    pub(crate) products: u32,
    pub(crate) accounts: u32,
    /// Rows of a product's stock.
    pub(crate) shards: u32,
    pub(crate) balance: i64,
    stock: i64,
    /// Products of an order.
    pub(crate) items: u32,
    operations: Option<u64>,
    transfers_pct: f64,
    duplicate_pct: f64,
    distribution: Distribution,
    seed: u64,
}

/// What an operation asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Order(Vec<Item>),
    Transfer(Transfer),
}

/// One line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) product: u32,
    pub(crate) quantity: i64,
    /// The stock row that is tried first.
    pub(crate) first_shard: u32,
}

/// Money that changes its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) debited: u32,
    pub(crate) credited: u32,
    pub(crate) amount: i64,
}

/// An operation's part in the deal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dealt {
    /// Number of the operation whose request this is: its own, or another's
    /// that is sent again.
    pub(crate) business_id: i64,
    pub(crate) request: Request,
}

impl Deal {
    pub(crate) fn new(params: &OrderTransferParams, seed: u64) -> Deal {
        let or_plenty = |given: Option<u64>| {
            given.map_or(PLENTY, |given| i64::try_from(given).unwrap_or(i64::MAX))
        };
        Deal {
            clients: params.concurrency,
            products: params.products.max(1),
            accounts: params.accounts.max(1),
            shards: params.inventory_shards.max(1),
            balance: or_plenty(params.balance),
            stock: or_plenty(params.stock),
            items: params.items.clamp(1, params.products.max(1)),
            operations: params.operations,
            transfers_pct: params.transfers_pct,
            duplicate_pct: params.duplicate_pct,
            distribution: params.distribution,
            seed,
        }
    }

    /// Pieces that one row of a product's stock begins with. What does not
    /// divide evenly is in the first rows.
    pub(crate) fn stock_of(&self, shard: u32) -> i64 {
        let (each, rest) = self.split_stock();
        each + i64::from(i64::from(shard) < rest)
    }

    /// Pieces of every row, and how many of the first rows have one more.
    pub(crate) fn split_stock(&self) -> (i64, i64) {
        let shards = i64::from(self.shards);
        (self.stock / shards, self.stock % shards)
    }

    /// Whether there is such an operation.
    pub(crate) fn has(&self, operation: u64) -> bool {
        let (writer, n) = writer_of(operation);
        let share = self
            .operations
            .map(|all| number::share(all, self.clients, writer));
        writer < self.clients && share.is_none_or(|share| u64::from(n) < share)
    }

    /// What an operation is to do; `None` when there is no such operation.
    pub(crate) fn dealt(&self, operation: u64) -> Option<Dealt> {
        if !self.has(operation) {
            return None;
        }
        let mut rng = self.rng(operation);
        let source = match self.is_duplicate(&mut rng) {
            true => self.source(operation, &mut rng),
            false => None,
        };
        let request = match source {
            Some(source) => {
                let mut rng = self.rng(source);
                // What the source drew first.
                self.is_duplicate(&mut rng);
                self.request(&mut rng)
            }
            None => self.request(&mut rng),
        };
        Some(Dealt {
            // Writers are far fewer than 2^31.
            business_id: source.unwrap_or(operation) as i64,
            request,
        })
    }

    /// The generator's key is its inputs side by side: different inputs,
    /// different key.
    fn rng(&self, operation: u64) -> ChaCha8Rng {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_be_bytes());
        key[8..16].copy_from_slice(&operation.to_be_bytes());
        ChaCha8Rng::from_seed(key)
    }

    /// The first draw of every operation.
    fn is_duplicate(&self, rng: &mut ChaCha8Rng) -> bool {
        rng.random_range(0.0..100.0) < self.duplicate_pct
    }

    /// An operation of another writer, from about the same time, that is no
    /// duplicate itself.
    fn source(&self, operation: u64, rng: &mut ChaCha8Rng) -> Option<u64> {
        let (writer, n) = writer_of(operation);
        if self.clients < 2 {
            return None;
        }
        (0..SOURCES_TRIED).find_map(|_| {
            let step = rng.random_range(1..self.clients);
            let other = (writer + step) % self.clients;
            let earlier = n - rng.random_range(0..=LOOK_BACK.min(n));
            let source = number(other, earlier);
            let is_source = self.has(source) && !self.is_duplicate(&mut self.rng(source));
            is_source.then_some(source)
        })
    }

    fn request(&self, rng: &mut ChaCha8Rng) -> Request {
        if rng.random_range(0.0..100.0) < self.transfers_pct {
            let debited = self.key(rng, self.accounts);
            let credited = self.another_key(rng, self.accounts, &[debited]);
            return Request::Transfer(Transfer {
                debited,
                credited,
                amount: rng.random_range(1..=LARGEST_AMOUNT),
            });
        }
        let mut taken = Vec::with_capacity(self.items as usize);
        let mut items = Vec::with_capacity(self.items as usize);
        for _ in 0..self.items {
            let product = self.another_key(rng, self.products, &taken);
            taken.push(product);
            items.push(Item {
                product,
                quantity: rng.random_range(1..=MOST_PIECES),
                first_shard: rng.random_range(0..self.shards),
            });
        }
        Request::Order(items)
    }

    fn key(&self, rng: &mut ChaCha8Rng, keys: u32) -> u32 {
        let hot = (keys / 100).max(1);
        match self.distribution {
            Distribution::Hot if hot < keys => {
                if rng.random_range(0..10) < 8 {
                    rng.random_range(0..hot)
                } else {
                    rng.random_range(hot..keys)
                }
            }
            Distribution::Hot | Distribution::Uniform => rng.random_range(0..keys),
        }
    }

    /// A key that is not taken, if there is one.
    fn another_key(&self, rng: &mut ChaCha8Rng, keys: u32, taken: &[u32]) -> u32 {
        let mut key = self.key(rng, keys);
        for _ in 0..KEYS_TRIED {
            if !taken.contains(&key) {
                return key;
            }
            key = self.key(rng, keys);
        }
        let next = (0..keys).map(|step| (key + step) % keys);
        next.into_iter()
            .find(|key| !taken.contains(key))
            .unwrap_or(key)
    }
}

impl Request {
    /// Its name in reports and receipts.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Request::Order(_) => ORDER,
            Request::Transfer(_) => TRANSFER,
        }
    }

    /// Pieces of an order, or the money of a transfer.
    pub(crate) fn amount(&self) -> i64 {
        match self {
            Request::Order(items) => items.iter().map(|item| item.quantity).sum(),
            Request::Transfer(transfer) => transfer.amount,
        }
    }
}

pub(crate) const ORDER: &str = "order";
pub(crate) const TRANSFER: &str = "transfer";

#[cfg(test)]
#[path = "deal_tests.rs"]
mod tests;
