//! Many seeds of a small rep on a simulator where a great deal goes wrong.

use plan::{Distribution, Isolation, OrderTransferParams};
use workload::order_transfer::OrderTransfer;

use crate::backend::params;
use crate::common::faults::many_seeds;

#[test]
fn nothing_is_lost_halved_or_doubled_whatever_fails() {
    many_seeds("plenty, and twins", 60, &[], |seed, clock| {
        let params = OrderTransferParams {
            concurrency: 4,
            operations: Some(16),
            distribution: Distribution::Hot,
            inventory_shards: 1 + (seed % 3) as u32,
            duplicate_pct: 40.0,
            measure_s: None,
            ..params(Isolation::RepeatableRead)
        };
        OrderTransfer::new(&params, 1, seed, clock)
    });
    many_seeds("too little", 60, &["found_absent"], |seed, clock| {
        let params = OrderTransferParams {
            concurrency: 4,
            operations: Some(16),
            stock: Some(6),
            balance: Some(70),
            inventory_shards: 1 + (seed % 3) as u32,
            measure_s: None,
            ..params(Isolation::RepeatableRead)
        };
        OrderTransfer::new(&params, 1, seed, clock)
    });
}
