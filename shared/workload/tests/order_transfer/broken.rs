//! Deliberately broken clients: each invariant is broken by one of them, and
//! verification says so.

use plan::{Isolation, OrderTransferParams};
use workload::order_transfer::OrderTransfer;
use workload::{AttemptEnd, Claim, Said, Verified, Workload};

use crate::backend::{Backend, Client, assert_ok, on_every_backend, operation_of, params};
use crate::wire::Action;

/// A client whose statements differ.
async fn broken(backend: &Backend, workload: &OrderTransfer, rewrites: &[(&str, &str)]) -> Client {
    // Where a client that leaves a write out puts it.
    backend
        .sql(
            "CREATE TABLE IF NOT EXISTS nowhere (rep bigint, id bigint, operation bigint, \
             kind text, debited bigint, credited bigint, amount bigint, items bigint, \
             order_id bigint, line bigint, product bigint, shard bigint, quantity bigint)",
        )
        .await;
    Client::rewritten(backend, workload, 0, rewrites).await
}

fn low() -> OrderTransferParams {
    OrderTransferParams {
        products: 1,
        items: 1,
        stock: Some(1),
        balance: Some(0),
        ..params(Isolation::RepeatableRead)
    }
}

/// Verification must say what is expected.
fn assert_says(verified: &Verified, what: &str) {
    assert!(!verified.ok);
    assert!(
        verified.problems.iter().any(|line| line.contains(what)),
        "{what}: {:#?}",
        verified.problems
    );
}

/// Some operations of a kind by a broken client, verified.
async fn after(
    backend: &Backend,
    shape: &OrderTransferParams,
    kind: &str,
    rewrites: &[(&str, &str)],
) -> Verified {
    let workload = backend.orders(shape).await;
    let mut client = broken(backend, &workload, rewrites).await;
    let mut claims = Vec::new();
    for n in 0..6 {
        let mut operation = client.operation(n);
        if client.workload.kind(&operation) == kind {
            claims.push(client.commit(&mut operation).await);
        }
    }
    assert!(!claims.is_empty());
    backend.verify(&workload, &claims).await
}

#[test]
fn no_guard_on_stock() {
    on_every_backend(async |backend| {
        let rewrites = [(" AND stock >= $4", "")];
        let verified = after(backend, &low(), "order", &rewrites).await;
        assert_says(&verified, "product 0, row 0: stock is -");
        assert_eq!(verified.problems.len(), 1, "{:?}", verified.problems);
    });
}

#[test]
fn no_look_at_the_balance() {
    on_every_backend(async |backend| {
        let rewrites = [
            (" AND balance >= $3", ""),
            ("SELECT balance FROM", "SELECT 1000 + balance FROM"),
        ];
        let verified = after(backend, &low(), "transfer", &rewrites).await;
        assert_says(&verified, ": the balance is -");
    });
}

#[test]
fn stock_that_was_not_taken() {
    on_every_backend(async |backend| {
        let rewrites = [("SET stock = stock - $4", "SET stock = stock - 1 * $4 + $4")];
        let shape = params(Isolation::RepeatableRead);
        let verified = after(backend, &shape, "order", &rewrites).await;
        assert_says(&verified, "pieces were ordered");
    });
}

#[test]
fn no_receipt() {
    on_every_backend(async |backend| {
        let rewrites = [("INTO receipts", "INTO nowhere")];
        let shape = params(Isolation::RepeatableRead);
        let orders = after(backend, &shape, "order", &rewrites).await;
        assert_says(&orders, "there is no receipt of it");
        assert_says(&orders, "was reported committed and is not here");
        let transfers = after(backend, &shape, "transfer", &rewrites).await;
        assert_says(&transfers, "but its transfers make +0");
        assert_says(&transfers, "was reported committed and is not here");
    });
}

#[test]
fn half_an_order() {
    on_every_backend(async |backend| {
        let shape = params(Isolation::RepeatableRead);
        let rewrites = [("INTO order_items", "INTO nowhere")];
        let no_lines = after(backend, &shape, "order", &rewrites).await;
        assert_says(&no_lines, "it should have 2 lines and has 0");
        let rewrites = [("INTO orders", "INTO nowhere")];
        let no_order = after(backend, &shape, "order", &rewrites).await;
        assert_says(&no_order, "there is a receipt and no order");
        assert_says(&no_order, "there are 2 lines without an order");
    });
}

#[test]
fn half_a_transfer() {
    on_every_backend(async |backend| {
        let shape = params(Isolation::RepeatableRead);
        let rewrites = [("balance + $3", "balance + 0 * $3")];
        let verified = after(backend, &shape, "transfer", &rewrites).await;
        assert_says(&verified, "all balances together were");
        assert_says(&verified, "but its transfers make +");
    });
}

/// A driver that forgets its doubt and tries again.
#[test]
fn a_retry_after_an_unknown_outcome_without_a_look_up() {
    on_every_backend(async |backend| {
        for kind in ["order", "transfer"] {
            let workload = backend.orders(&params(Isolation::RepeatableRead)).await;
            let mut client = Client::open(backend, &workload, 0).await;
            let mut operation = operation_of(&mut client, kind, 0);
            let n = workload.number(&operation);
            client.struck(&mut operation, Action::CutAfter).await;
            client.reopen(backend).await;
            // With a receipt there is no second effect, but the report is wrong.
            let mut anew = client.operation(n);
            let (end, claim) = client.finish(&mut anew).await;
            assert!(matches!(end, AttemptEnd::Rejected("duplicate")), "{end:?}");
            let verified = backend.verify(&workload, &[claim]).await;
            assert_says(&verified, "is here, but was reported failed");
            workload.clean(&client.conn).await.unwrap();
        }
        // Without one it moves the money twice.
        let workload = backend.orders(&params(Isolation::RepeatableRead)).await;
        let rewrites = [("INTO receipts", "INTO nowhere")];
        let mut client = broken(backend, &workload, &rewrites).await;
        let mut operation = operation_of(&mut client, "transfer", 0);
        let n = workload.number(&operation);
        client.struck(&mut operation, Action::CutAfter).await;
        let mut honest = Client::open(backend, &workload, 0).await;
        let mut anew = honest.operation(n);
        let claim = honest.commit(&mut anew).await;
        let verified = backend.verify(&workload, &[claim]).await;
        assert_says(&verified, "but its transfers make");
        assert_eq!(verified.problems.len(), 2, "{:?}", verified.problems);
    });
}

#[test]
fn a_commit_that_is_lost_and_one_that_nobody_reported() {
    on_every_backend(async |backend| {
        for kind in ["order", "transfer"] {
            let workload = backend.orders(&params(Isolation::RepeatableRead)).await;
            let mut client = Client::open(backend, &workload, 0).await;
            let mut operation = operation_of(&mut client, kind, 0);
            client.struck(&mut operation, Action::CutBefore).await;
            let claim = client.workload.claim(&operation, Said::Committed);
            let verified = backend.verify(&workload, &[claim]).await;
            assert_says(&verified, "was reported committed and is not here");
            client.reopen(backend).await;
            client.commit(&mut operation).await;
            let verified = backend.verify(&workload, &[]).await;
            assert_says(&verified, "is here, and nobody reported it");
            workload.clean(&client.conn).await.unwrap();
        }
    });
}

/// What is stored must be what was asked for, to the last column.
#[test]
fn other_things_than_were_asked_for() {
    on_every_backend(async |backend| {
        let workload = backend.orders(&params(Isolation::RepeatableRead)).await;
        let mut client = Client::open(backend, &workload, 0).await;
        let mut claims: Vec<Claim> = Vec::new();
        for kind in ["order", "transfer"] {
            let mut operation = operation_of(&mut client, kind, 0);
            claims.push(client.commit(&mut operation).await);
        }
        for (damage, repair, what) in [
            (
                "UPDATE order_items SET quantity = quantity + 1",
                "UPDATE order_items SET quantity = quantity - 1",
                "its lines are not what was ordered",
            ),
            (
                "UPDATE receipts SET amount = amount + 1 WHERE kind = 'transfer'",
                "UPDATE receipts SET amount = amount - 1 WHERE kind = 'transfer'",
                "it should be of a transfer of",
            ),
            (
                "UPDATE receipts SET amount = amount + 1 WHERE kind = 'order'",
                "UPDATE receipts SET amount = amount - 1 WHERE kind = 'order'",
                "it should be of an order of",
            ),
            (
                "UPDATE receipts SET operation = operation + 4294967296",
                "UPDATE receipts SET operation = operation - 4294967296",
                "has the business id",
            ),
            (
                "UPDATE receipts SET operation = operation + 42949672960",
                "UPDATE receipts SET operation = operation - 42949672960",
                "this rep has no operation",
            ),
            (
                "UPDATE inventory SET stock = stock + 5",
                "UPDATE inventory SET stock = stock - 5",
                "pieces were ordered",
            ),
            (
                "UPDATE inventory SET rep = rep - 1000000 WHERE product = 2",
                "UPDATE inventory SET rep = rep + 1000000 WHERE product = 2",
                "there are 2 rows of stock and should be 3",
            ),
            (
                "UPDATE accounts SET rep = rep - 1000000 WHERE account = 1",
                "UPDATE accounts SET rep = rep + 1000000 WHERE account = 1",
                "there are 2 accounts and should be 3",
            ),
            (
                "UPDATE order_items SET shard = 1",
                "UPDATE order_items SET shard = 0",
                "there is no stock row 1 of product",
            ),
        ] {
            backend.sql(damage).await;
            assert_says(&backend.verify(&workload, &claims).await, what);
            backend.sql(repair).await;
            assert_ok(&backend.verify(&workload, &claims).await, what);
        }
    });
}
