//! Properties of the deal.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Isolation, Placement, Retry, SplitTag};
use proptest::prelude::*;

use super::*;

fn params() -> OrderTransferParams {
    OrderTransferParams {
        concurrency: 8,
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
        retry: Retry {
            max_attempts: 1,
            base_ms: 10.0,
            cap_ms: 1_000.0,
            deadline_ms: None,
            on: Vec::new(),
        },
        isolation: Isolation::RepeatableRead,
        warmup_s: 0.0,
        measure_s: None,
        abort_after_starved: 0,
    }
}

fn all(deal: &Deal, each: u32) -> Vec<(u64, Dealt)> {
    (0..deal.clients)
        .flat_map(|writer| (0..each).map(move |n| number(writer, n)))
        .filter_map(|operation| Some((operation, deal.dealt(operation)?)))
        .collect()
}

fn pct(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of as f64
}

#[test]
fn shares_of_kinds_and_duplicates_are_as_asked() {
    let deal = Deal::new(
        &OrderTransferParams {
            duplicate_pct: 10.0,
            ..params()
        },
        1,
    );
    let all = all(&deal, 1_000);
    assert_eq!(all.len(), 8_000);
    let transfers = all.iter().filter(|(_, d)| d.request.kind() == TRANSFER);
    assert!((28.0..32.0).contains(&pct(transfers.count(), all.len())));
    let again = all.iter().filter(|(op, d)| d.business_id != *op as i64);
    assert!((9.0..11.0).contains(&pct(again.clone().count(), all.len())));
    let by_id: BTreeMap<u64, &Dealt> = all.iter().map(|(op, d)| (*op, d)).collect();
    for (op, dealt) in again {
        // The same request, of an operation that sends its own.
        assert_eq!(by_id[&(dealt.business_id as u64)], dealt);
        let ((writer, n), (other, earlier)) = (writer_of(*op), writer_of(dealt.business_id as u64));
        assert_ne!(writer, other);
        assert!(earlier <= n && n - earlier <= LOOK_BACK);
    }
}

#[test]
fn who_is_alone_repeats_nobody() {
    let deal = Deal::new(
        &OrderTransferParams {
            concurrency: 1,
            duplicate_pct: 100.0,
            ..params()
        },
        1,
    );
    assert!(
        all(&deal, 100)
            .iter()
            .all(|(op, d)| d.business_id == *op as i64)
    );
}

#[test]
fn four_fifths_of_the_requests_go_to_one_key_in_a_hundred() {
    let deal = Deal::new(
        &OrderTransferParams {
            distribution: Distribution::Hot,
            ..params()
        },
        1,
    );
    let (mut hot, mut orders, mut keys) = (0, 0, BTreeSet::new());
    for (_, dealt) in all(&deal, 2_000) {
        match dealt.request {
            Request::Order(items) => {
                orders += 1;
                hot += usize::from(items[0].product < 40);
                keys.insert(items[0].product);
            }
            Request::Transfer(transfer) => assert_ne!(transfer.debited, transfer.credited),
        }
    }
    assert!((78.0..82.0).contains(&pct(hot, orders)));
    assert_eq!(keys.range(..40).count(), 40);
    assert!(keys.range(40..).count() > 1_500);
}

proptest! {
    #[test]
    fn any_request_can_be_made(
        products in 1u32..300, accounts in 2u32..300, items in 1u32..12, shards in 1u32..70,
        hot: bool, seed: u64,
    ) {
        let distribution = if hot { Distribution::Hot } else { Distribution::Uniform };
        let deal = Deal::new(
            &OrderTransferParams {
                products, accounts, items, inventory_shards: shards, distribution, ..params()
            },
            seed,
        );
        for (op, dealt) in all(&deal, 5) {
            prop_assert_eq!(deal.dealt(op), Some(dealt.clone()));
            match dealt.request {
                Request::Order(lines) => {
                    prop_assert_eq!(lines.len() as u32, items.min(products));
                    let distinct: BTreeSet<u32> = lines.iter().map(|l| l.product).collect();
                    prop_assert_eq!(distinct.len(), lines.len());
                    for line in lines {
                        prop_assert!(line.product < products && line.first_shard < shards);
                        prop_assert!((1..=MOST_PIECES).contains(&line.quantity));
                    }
                }
                Request::Transfer(transfer) => {
                    prop_assert_ne!(transfer.debited, transfer.credited);
                    prop_assert!(transfer.debited < accounts && transfer.credited < accounts);
                    prop_assert!((1..=LARGEST_AMOUNT).contains(&transfer.amount));
                }
            }
        }
    }

    #[test]
    fn stock_is_split_without_a_rest(stock in 0u64..10_000, shards in 1u32..70) {
        let deal = Deal::new(
            &OrderTransferParams { stock: Some(stock), inventory_shards: shards, ..params() },
            1,
        );
        let rows: Vec<i64> = (0..shards).map(|shard| deal.stock_of(shard)).collect();
        prop_assert_eq!(rows.iter().sum::<i64>(), stock as i64);
        prop_assert!(rows.is_sorted_by(|a, b| a >= b && a - b <= 1));
    }
}

#[test]
fn operations_are_shared_out() {
    let deal = Deal::new(
        &OrderTransferParams {
            operations: Some(29),
            duplicate_pct: 20.0,
            ..params()
        },
        1,
    );
    let all = all(&deal, 100);
    assert_eq!(all.len(), 29);
    assert!(all.iter().all(|(_, d)| deal.has(d.business_id as u64)));
    assert!(deal.dealt(number(8, 0)).is_none());
}
