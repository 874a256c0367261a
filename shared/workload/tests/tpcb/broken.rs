//! Deliberately broken clients: each invariant is broken by one of them, and
//! verification says so.

use plan::{Isolation, TpcbVariant};
use workload::{Said, Verified, Workload};

use crate::backend::{Client, assert_ok, end, on_every_backend, params};
use crate::wire::Action;

/// Verification must say what is expected.
fn assert_says(verified: &Verified, what: &str) {
    assert!(!verified.ok);
    assert!(
        verified.problems.iter().any(|line| line.contains(what)),
        "{what}: {:#?}",
        verified.problems
    );
}

#[test]
fn statements_that_do_less() {
    on_every_backend(async |backend| {
        backend
            .sql(
                "CREATE TABLE nowhere (tid int, bid int, aid int, delta int, mtime timestamp, \
                 filler char(22))",
            )
            .await;
        for (from, to, what) in [
            (
                "abalance + $2",
                "abalance + 0 * $2",
                "pgbench_accounts: the balances went",
            ),
            (
                "tbalance + $2",
                "tbalance + 0 * $2",
                "pgbench_tellers: the balances went",
            ),
            (
                "bbalance + $2",
                "bbalance + 0 * $2",
                "pgbench_branches: the balances went",
            ),
            (
                "INTO pgbench_history",
                "INTO nowhere",
                "was reported committed and is not here",
            ),
            (
                "VALUES ($1, $2, $3,",
                "VALUES ($2, $1, $3,",
                "and the row says otherwise",
            ),
        ] {
            let shape = params(Isolation::RepeatableRead, TpcbVariant::TpcbLike);
            let workload = backend.tpcb(&shape).await;
            let mut client = Client::rewritten(backend, &workload, 0, &[(from, to)]).await;
            let mut claims = Vec::new();
            for n in 0..3 {
                let mut operation = client.operation(n);
                claims.push(client.commit(&mut operation).await);
            }
            assert_says(&backend.verify(&workload, &claims).await, what);
            end(&client).await;
        }
    });
}

/// A driver that forgets its doubt and tries again, where no key stops it.
#[test]
fn a_retry_after_an_unknown_outcome_without_a_look_up() {
    on_every_backend(async |backend| {
        backend.pgbench(1).await;
        let shape = params(Isolation::RepeatableRead, TpcbVariant::TpcbLike);
        let workload = backend.tpcb(&shape).await;
        let mut client = Client::open(backend, &workload, 0).await;
        let mut operation = client.operation(0);
        client.struck(&mut operation, Action::CutAfter).await;
        client.reopen(backend).await;
        let mut anew = client.operation(0);
        let claim = client.commit(&mut anew).await;
        let verified = backend.verify(&workload, &[claim]).await;
        assert_says(&verified, "operation 0 is here twice");
        end(&client).await;
    });
}

#[test]
fn reports_that_are_not_true() {
    on_every_backend(async |backend| {
        let shape = params(Isolation::RepeatableRead, TpcbVariant::TpcbLike);
        let workload = backend.tpcb(&shape).await;
        let mut client = Client::open(backend, &workload, 0).await;
        let mut operation = client.operation(0);
        client.struck(&mut operation, Action::CutBefore).await;
        client.reopen(backend).await;
        let claim = client.workload.claim(&operation, Said::Committed);
        let verified = backend.verify(&workload, &[claim]).await;
        assert_says(&verified, "was reported committed and is not here");
        let mut claim = client.commit(&mut operation).await;
        assert_ok(&backend.verify(&workload, &[claim.clone()]).await, "true");
        claim.said = Said::Failed;
        let verified = backend.verify(&workload, &[claim]).await;
        assert_says(&verified, "is here, but was reported failed");
        let verified = backend.verify(&workload, &[]).await;
        assert_says(&verified, "is here, and nobody reported it");
        // A row of the rep that no operation of it can have left.
        backend
            .sql("UPDATE pgbench_history SET filler = left(filler, 13) || '00zzzzzzz'")
            .await;
        let verified = backend.verify(&workload, &[]).await;
        assert_says(&verified, "this rep has no such operation");
        client.workload.clean(&client.conn).await.unwrap();
        let verified = backend.verify(&workload, &[]).await;
        assert_says(&verified, "nobody knows what the balances were");
    });
}
