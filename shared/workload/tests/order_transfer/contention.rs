//! Several clients on the same rows, and on the same business ids.

use plan::{Isolation, OrderTransferParams};
use workload::order_transfer::{Operation, OrderTransfer};
use workload::{Attempt, AttemptEnd, Found, Said, Workload};

use crate::backend::{Backend, Client, assert_ok, on_every_backend, operation_of, params};
use crate::wire::Action;

/// Runs `first` up to its second flight (BEGIN and a write), then `second` until
/// it has ended or waits for `first`'s locks, then `first` to its end.
async fn crossed(
    backend: &Backend,
    (one, first): (&mut Client, &mut Operation),
    (two, second): (&mut Client, &mut Operation),
) -> (Attempt, Attempt, bool) {
    let (monitor, _wire) = backend.connect().await;
    one.wire.gate();
    let waited = std::cell::Cell::new(false);
    let (written, may_start) = tokio::sync::oneshot::channel();
    let (may_go, go) = tokio::sync::oneshot::channel();
    let first = one
        .workload
        .attempt(&one.conn, &one.session, &mut one.writer, first);
    let guide = async {
        for _ in 0..2 {
            one.wire.arrival().await;
            one.wire.act(Action::Pass);
        }
        // The answer to the write was delivered when the third flight comes.
        one.wire.arrival().await;
        written.send(()).unwrap();
        let _ = go.await;
        one.wire.act(Action::Pass);
        one.wire.open();
    };
    let second = async {
        may_start.await.unwrap();
        let mut may_go = Some(may_go);
        let attempt = two
            .workload
            .attempt(&two.conn, &two.session, &mut two.writer, second);
        let watch = async {
            while backend.locks && !backend.is_blocked(&monitor, &two.wire).await {
                backend
                    .clock
                    .sleep(std::time::Duration::from_millis(2))
                    .await;
            }
            if !backend.locks {
                std::future::pending::<()>().await;
            }
        };
        tokio::pin!(attempt);
        let early = tokio::select! {
            biased;
            ended = &mut attempt => Some(ended),
            () = watch => None,
        };
        waited.set(early.is_none());
        let _ = may_go.take().unwrap().send(());
        match early {
            Some(ended) => ended,
            None => attempt.await,
        }
    };
    let (first, (), second) = tokio::join!(first, guide, second);
    (first, second, waited.get())
}

fn is_conflict(attempt: &Attempt) -> bool {
    matches!(&attempt.end, AttemptEnd::Failed(failure) if failure.is_conflict())
}

fn has_committed(attempt: &Attempt) -> bool {
    matches!(attempt.end, AttemptEnd::Committed)
}

#[test]
fn two_orders_for_one_row_meet() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            let workload = backend
                .orders(&OrderTransferParams {
                    products: 1,
                    ..params(isolation)
                })
                .await;
            let mut one = Client::open(backend, &workload, 0).await;
            let mut two = Client::open(backend, &workload, 1).await;
            let mut first = operation_of(&mut one, "order", 0);
            let mut second = operation_of(&mut two, "order", 0);
            let (a, b, waited) =
                crossed(backend, (&mut one, &mut first), (&mut two, &mut second)).await;
            let what = format!("{isolation:?}: {a:?} {b:?}");
            assert_eq!(waited, backend.locks, "{what}");
            let (lost, mut claims) = match (backend.locks, isolation) {
                // Whoever commits first wins, and that was the second.
                (false, _) => {
                    assert!(is_conflict(&a) && has_committed(&b), "{what}");
                    let claims = vec![two.workload.claim(&second, Said::Committed)];
                    (Some((&mut one, &mut first)), claims)
                }
                // It waited and took what was left.
                (true, Isolation::ReadCommitted) => {
                    assert!(has_committed(&a) && has_committed(&b), "{what}");
                    let both = [(&one, &first), (&two, &second)];
                    let claims = both.map(|(c, op)| c.workload.claim(op, Said::Committed));
                    (None, claims.to_vec())
                }
                (true, _) => {
                    assert!(has_committed(&a) && is_conflict(&b), "{what}");
                    let claims = vec![one.workload.claim(&first, Said::Committed)];
                    (Some((&mut two, &mut second)), claims)
                }
            };
            if let Some((client, operation)) = lost {
                // The same order, once more.
                claims.push(client.commit(operation).await);
            }
            assert_eq!(claims.len(), 2);
            assert_ok(&backend.verify(&workload, &claims).await, &what);
            workload.clean(&one.conn).await.unwrap();
        }
    });
}

/// A workload in which writer 1 sends a business id of writer 0 again: the two
/// operations.
async fn twins(backend: &Backend, isolation: Isolation, kind: &str) -> (OrderTransfer, u64, u64) {
    let workload = backend
        .orders(&OrderTransferParams {
            duplicate_pct: 30.0,
            ..params(isolation)
        })
        .await;
    let (conn, _wire) = backend.connect().await;
    drop(conn);
    let mut writer = workload.writer(1);
    let twins = (0..200).find_map(|n| {
        let operation = workload.operation(&mut writer, n)?;
        let number = workload.number(&operation);
        let (_, id) = workload.claim(&operation, Said::Committed).at?;
        let again = id as u64 != number && workload.kind(&operation) == kind;
        again.then_some((id as u64, n))
    });
    let (original, again) = twins.unwrap();
    assert_eq!(original >> 32, 0);
    (workload, original, again)
}

#[test]
fn what_is_sent_again_by_another_connection_has_no_second_effect() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            for kind in ["order", "transfer"] {
                for original_first in [true, false] {
                    let (workload, original, again) = twins(backend, isolation, kind).await;
                    let mut one = Client::open(backend, &workload, 0).await;
                    let mut two = Client::open(backend, &workload, 1).await;
                    let mut first = one.operation(original);
                    let mut second = two.operation(again);
                    let (a, b) = match original_first {
                        true => {
                            let a = one.finish(&mut first).await;
                            (a, two.finish(&mut second).await)
                        }
                        // Whoever comes first has the effect.
                        false => {
                            let b = two.finish(&mut second).await;
                            (b, one.finish(&mut first).await)
                        }
                    };
                    let what = format!("{isolation:?} {kind} {original_first}: {b:?}");
                    assert!(matches!(a.0, AttemptEnd::Committed), "{what}");
                    assert!(matches!(b.0, AttemptEnd::Rejected("duplicate")), "{what}");
                    assert_eq!(b.1.said, Said::Failed);
                    assert_ok(&backend.verify(&workload, &[a.1, b.1]).await, &what);
                    workload.clean(&one.conn).await.unwrap();
                }
            }
        }
    });
}

#[test]
fn twins_at_the_same_time_have_one_effect() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            for kind in ["order", "transfer"] {
                let (workload, original, again) = twins(backend, isolation, kind).await;
                let mut one = Client::open(backend, &workload, 0).await;
                let mut two = Client::open(backend, &workload, 1).await;
                let mut first = one.operation(original);
                let mut second = two.operation(again);
                let (a, b, _) =
                    crossed(backend, (&mut one, &mut first), (&mut two, &mut second)).await;
                let what = format!("{isolation:?} {kind}: {a:?} {b:?}");
                assert!(has_committed(&a) != has_committed(&b), "{what}");
                let (mut loser, mut lost, winner) = match has_committed(&a) {
                    true => (two, second, one.workload.claim(&first, Said::Committed)),
                    false => (one, first, two.workload.claim(&second, Said::Committed)),
                };
                let (end, claim) = loser.finish(&mut lost).await;
                assert!(
                    matches!(end, AttemptEnd::Rejected("duplicate")),
                    "{what}: {end:?}"
                );
                assert_ok(&backend.verify(&workload, &[winner, claim]).await, &what);
                workload.clean(&loser.conn).await.unwrap();
            }
        }
    });
}

/// Of two operations with one business id, each knows whether it was the one.
#[test]
fn a_doubt_is_settled_by_the_receipt_of_the_other() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            for kind in ["order", "transfer"] {
                let (workload, original, again) = twins(backend, isolation, kind).await;
                let mut one = Client::open(backend, &workload, 0).await;
                let mut two = Client::open(backend, &workload, 1).await;
                let mut first = one.operation(original);
                one.struck(&mut first, Action::CutBefore).await;
                one.reopen(backend).await;
                let mut second = two.operation(again);
                let claim = two.commit(&mut second).await;
                assert_eq!(one.look_up(&mut first).await, Found::Absent);
                let (end, lost) = one.finish(&mut first).await;
                assert!(matches!(end, AttemptEnd::Rejected("duplicate")), "{end:?}");
                assert_eq!(lost.said, Said::Failed);
                let what = format!("{isolation:?} {kind}");
                assert_ok(&backend.verify(&workload, &[claim, lost]).await, &what);
                workload.clean(&one.conn).await.unwrap();
            }
        }
    });
}
