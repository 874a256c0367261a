//! Business rules: what is out of stock or too poor is rejected, at once.

use plan::{Isolation, OrderTransferParams};
use workload::{AttemptEnd, Claim, Said, Workload};

use crate::backend::{Backend, Client, assert_ok, on_every_backend, operation_of, params};
use crate::whole::{committed, rejected, run_all};

#[test]
fn what_cannot_be_had_is_rejected_at_once_and_sums_up() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            let workload = backend
                .orders(&OrderTransferParams {
                    concurrency: 3,
                    operations: Some(90),
                    stock: Some(10),
                    balance: Some(60),
                    measure_s: None,
                    ..params(isolation)
                })
                .await;
            // A rejection that came as anything else would not end `finish`.
            let (claims, ends) = run_all(backend, &workload).await;
            let out_of_stock = rejected(&ends, "out of stock");
            let too_poor = rejected(&ends, "balance too small");
            assert!(out_of_stock > 0 && too_poor > 0, "{ends:?}");
            assert_eq!(committed(&claims) + out_of_stock + too_poor, 90);
            let what = format!("{isolation:?}");
            assert_ok(&backend.verify(&workload, &claims).await, &what);
        }
    });
}

#[test]
fn every_statement_is_a_round_trip_and_a_rejection_is_rolled_back() {
    on_every_backend(async |backend| {
        let workload = backend
            .orders(&OrderTransferParams {
                items: 1,
                stock: Some(3),
                balance: Some(100),
                ..params(Isolation::RepeatableRead)
            })
            .await;
        let mut client = Client::open(backend, &workload, 0).await;
        let (mut claims, mut seen) = (Vec::new(), [false; 4]);
        for n in 0..60 {
            let mut operation = client.operation(n);
            let is_order = client.workload.kind(&operation) == "order";
            let attempt = client.attempt(&mut operation).await;
            let (committed, trips) = match attempt.end {
                AttemptEnd::Committed => (true, 6),
                // BEGIN, the statement that found too little, ROLLBACK.
                AttemptEnd::Rejected(_) => (false, 3),
                end => panic!("{end:?}"),
            };
            assert_eq!(attempt.round_trips, trips);
            assert_eq!(attempt.commit.is_some(), committed);
            seen[usize::from(is_order) * 2 + usize::from(committed)] = true;
            let said = if committed {
                Said::Committed
            } else {
                Said::Failed
            };
            claims.push(client.workload.claim(&operation, said));
        }
        assert_eq!(seen, [true; 4]);
        assert_ok(&backend.verify(&workload, &claims).await, "low");
    });
}

/// Sells one product until nothing can be had any more.
async fn sell_out(backend: &Backend, shards: u32) -> (Vec<u32>, i64) {
    const STOCK: u64 = 41;
    let workload = backend
        .orders(&OrderTransferParams {
            products: 1,
            items: 1,
            transfers_pct: 0.0,
            inventory_shards: shards,
            stock: Some(STOCK),
            ..params(Isolation::RepeatableRead)
        })
        .await;
    let sum = "SELECT CAST(sum(stock) AS bigint) FROM inventory";
    assert_eq!(backend.figure(sum).await, STOCK as i64);
    let mut client = Client::open(backend, &workload, 0).await;
    let mut claims: Vec<Claim> = Vec::new();
    let mut trips = Vec::new();
    for n in 0..100 {
        let mut operation = client.operation(n);
        let attempt = client.attempt(&mut operation).await;
        let left = backend.figure("SELECT max(stock) FROM inventory").await;
        let said = match attempt.end {
            AttemptEnd::Committed => {
                trips.push(attempt.round_trips);
                Said::Committed
            }
            AttemptEnd::Rejected("out of stock") => {
                // Every row was asked.
                assert_eq!(attempt.round_trips, shards + 2);
                assert!(left < 3, "{left} are left in one row");
                Said::Failed
            }
            end => panic!("{end:?}"),
        };
        claims.push(client.workload.claim(&operation, said));
    }
    assert_ok(&backend.verify(&workload, &claims).await, "sold out");
    let left = backend.figure(sum).await;
    workload.clean(&client.conn).await.unwrap();
    (trips, left)
}

#[test]
fn stock_in_several_rows_is_sold_to_the_last_row_that_has_enough() {
    on_every_backend(async |backend| {
        let (trips, left) = sell_out(backend, 1).await;
        assert!(trips.iter().all(|trips| *trips == 6));
        assert_eq!(left, 0);
        let (trips, left) = sell_out(backend, 4).await;
        let extra = trips.iter().filter(|trips| **trips > 6).count();
        assert!(extra > 2, "{trips:?}");
        assert!(trips.iter().all(|trips| (6..=9).contains(trips)));
        // Single pieces are still to be had, so all are sold here too.
        assert_eq!(left, 0);
    });
}

/// A transfer to an account that another one has emptied meanwhile.
#[test]
fn a_balance_that_is_gone_when_it_is_debited_rejects() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            if isolation != Isolation::ReadCommitted {
                continue;
            }
            let workload = backend
                .orders(&OrderTransferParams {
                    balance: Some(100),
                    ..params(isolation)
                })
                .await;
            let mut client = Client::open(backend, &workload, 0).await;
            let mut transfer = operation_of(&mut client, "transfer", 0);
            client.wire.gate();
            let attempt = client.workload.attempt(
                &client.conn,
                &client.session,
                &mut client.writer,
                &mut transfer,
            );
            let emptied = async {
                // BEGIN and the SELECT pass; the debit waits.
                for _ in 0..2 {
                    client.wire.arrival().await;
                    client.wire.act(crate::wire::Action::Pass);
                }
                client.wire.arrival().await;
                backend.sql("UPDATE accounts SET balance = 0").await;
                client.wire.act(crate::wire::Action::Pass);
                client.wire.open();
            };
            let (attempt, ()) = tokio::join!(attempt, emptied);
            assert!(
                matches!(attempt.end, AttemptEnd::Rejected("balance too small")),
                "{attempt:?}"
            );
            assert_eq!(attempt.round_trips, 4);
        }
    });
}
