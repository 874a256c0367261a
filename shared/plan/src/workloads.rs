//! The workloads of the format: their names, and what a block of each means
//! where it says nothing.
//!
//! A block has a key for every parameter of its workload, under the
//! parameter's name, beside the few keys that say where and how often it runs.
//! So the defaults below also say which keys there are, and a cell comes of
//! them by putting the block's values in their places (`block`).

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::cell::{
    AppendParams, Distribution, Isolation, OrderTransferParams, Params, Placement, Retry, SplitTag,
    TpcbParams, TpcbVariant, Trips,
};
use crate::value::Words;

/// A workload by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Append,
    OrderTransfer,
    Tpcb,
}

impl Words for Workload {
    const ALL: &'static [(&'static str, Workload, &'static str)] = &[
        (
            "append",
            Workload::Append,
            "Chained records: one transaction reads a stream's head, inserts `batch` records that link to it, and moves it.",
        ),
        (
            "order_transfer",
            Workload::OrderTransfer,
            "Orders that take from stock and transfers between accounts, which meet on the same rows.",
        ),
        (
            "tpcb",
            Workload::Tpcb,
            "pgbench's built-in transaction over accounts, tellers and branches.",
        ),
    ];
}

/// Keys of a block that are no parameters of its workload.
const AROUND: [&str; 6] = ["name", "workload", "target", "reps", "raw", "thresholds"];

/// Repetitions where a block does not say.
pub(crate) const DEFAULT_REPS: u32 = 3;

/// An append block that says nothing: the values of the hash-chain report.
pub(crate) const APPEND: AppendParams = AppendParams {
    writers: 1,
    streams: 1,
    batch: 1,
    records: Some(128),
    payload_bytes: 100,
    placement: Placement::Split(SplitTag::Split),
    trips: Trips::Stepwise,
    retry: Retry {
        max_attempts: 25,
        base_ms: 25.0,
        cap_ms: 1000.0,
        deadline_ms: None,
        on: Vec::new(),
    },
    isolation: Isolation::RepeatableRead,
    warmup_s: 0.0,
    measure_s: None,
    abort_after_starved: 3,
};

/// Retries of the contention report: up to three, within two seconds.
const CONTENTION_RETRY: Retry = Retry {
    max_attempts: 4,
    base_ms: 10.0,
    cap_ms: 1000.0,
    deadline_ms: Some(2000.0),
    on: Vec::new(),
};

/// An order_transfer block that says nothing: the smallest load of the
/// contention report, over keys that put its conflict rates where they were.
pub(crate) const ORDER_TRANSFER: OrderTransferParams = OrderTransferParams {
    concurrency: 16,
    transfers_pct: 30.0,
    distribution: Distribution::Uniform,
    products: 4_000,
    accounts: 1_000,
    items: 1,
    inventory_shards: 1,
    stock: None,
    balance: None,
    duplicate_pct: 0.0,
    operations: None,
    placement: Placement::Split(SplitTag::Split),
    retry: CONTENTION_RETRY,
    isolation: Isolation::RepeatableRead,
    warmup_s: 5.0,
    measure_s: Some(20.0),
    abort_after_starved: 0,
};

/// A tpcb block that says nothing.
pub(crate) const TPCB: TpcbParams = TpcbParams {
    concurrency: 8,
    scale: 1,
    variant: TpcbVariant::TpcbLike,
    operations: None,
    placement: Placement::Split(SplitTag::Split),
    retry: CONTENTION_RETRY,
    isolation: Isolation::RepeatableRead,
    warmup_s: 5.0,
    measure_s: Some(20.0),
    abort_after_starved: 0,
};

/// Each workload's defaults as JSON, which is what is looked into: made once.
static DEFAULTS: LazyLock<[Map<String, Value>; 3]> = LazyLock::new(|| {
    [
        Params::Append(APPEND).json(),
        Params::OrderTransfer(ORDER_TRANSFER).json(),
        Params::Tpcb(TPCB).json(),
    ]
});

impl Workload {
    /// Every workload.
    pub(crate) fn all() -> Vec<Workload> {
        Workload::ALL.iter().map(|(_, this, _)| *this).collect()
    }

    /// As it stands in the file.
    pub(crate) fn name(self) -> &'static str {
        Workload::ALL
            .iter()
            .find(|(_, this, _)| *this == self)
            .map_or("", |(name, ..)| name)
    }

    /// What a block means where it says nothing: its parameters by name.
    pub(crate) fn defaults(self) -> &'static Map<String, Value> {
        &DEFAULTS[self as usize]
    }

    /// Whether its blocks have a key.
    pub(crate) fn has(self, key: &str) -> bool {
        AROUND.contains(&key) || self.defaults().contains_key(key)
    }

    /// The keys of its blocks, sorted.
    pub(crate) fn keys(self) -> Vec<&'static str> {
        let parameters = self.defaults().keys().map(String::as_str);
        let mut keys: Vec<&str> = AROUND.into_iter().chain(parameters).collect();
        keys.sort_unstable();
        keys
    }

    /// The key that bounds a rep by a number.
    pub(crate) fn count_key(self) -> &'static str {
        match self {
            Workload::Append => "records",
            Workload::OrderTransfer | Workload::Tpcb => "operations",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::TAG;

    #[test]
    fn names_and_tags_agree() {
        let defaults = [
            Params::Append(APPEND),
            Params::OrderTransfer(ORDER_TRANSFER),
            Params::Tpcb(TPCB),
        ];
        for (workload, params) in Workload::all().into_iter().zip(defaults) {
            assert_eq!(params.workload(), workload.name());
            assert_eq!(serde_json::to_value(&params).unwrap()[TAG], workload.name());
            assert_eq!(&params.json(), workload.defaults());
            assert!(workload.has(workload.count_key()));
        }
    }
}
