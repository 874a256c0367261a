//! What the protocol relies on, of the store and the queues in memory. The same
//! bodies run against AWS's in `shared/cloud/tests/contract.rs`.
#![allow(clippy::unwrap_used)]

extern crate fabric_fleet as fleet;

mod queue;
mod store;

use std::collections::BTreeMap;

use fleet::To;
use fleet::embedded::{MemoryQueue, MemoryStore};

fn runtime() -> tokio::runtime::Runtime {
    clock::simulated_runtime().unwrap()
}

#[test]
fn store_in_memory() {
    runtime().block_on(store::contract(&MemoryStore::default(), "a"));
}

#[test]
fn queue_in_memory() {
    runtime().block_on(async {
        let clock = clock::Clock::simulated();
        let letters = MemoryQueue::new(clock);
        let receive = async |to: &To| {
            let mut found: BTreeMap<String, Option<String>> = BTreeMap::new();
            for letter in letters.dead() {
                if let To::Dead { region, reason } = &letter.to
                    && matches!(to, To::Dead { region: wanted, .. } if wanted == region)
                {
                    found.insert(letter.body, Some(reason.clone()));
                }
            }
            while let Some(letter) = letters.take(|other| other == to) {
                found.insert(letter.body, None);
            }
            found
        };
        queue::contract(&letters, clock, receive).await;
    });
}
