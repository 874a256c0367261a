//! Orders and transfers whose COMMIT was sent and not answered.

use plan::{Isolation, OrderTransferParams};
use workload::order_transfer::Operation;
use workload::{AttemptEnd, Found, Said, Workload};

use crate::backend::{Backend, Client, KINDS, assert_ok, on_every_backend, operation_of, params};
use crate::wire::{Action, Event};

/// A client with an operation of that kind.
async fn client(backend: &Backend, isolation: Isolation, kind: &str) -> (Client, Operation) {
    let workload = backend.orders(&params(isolation)).await;
    let mut client = Client::open(backend, &workload, 0).await;
    let operation = operation_of(&mut client, kind, 0);
    (client, operation)
}

async fn everywhere(backend: &Backend, test: impl AsyncFn(Isolation, &str)) {
    for &isolation in &backend.levels {
        for kind in KINDS {
            test(isolation, kind).await;
        }
    }
}

#[test]
fn an_answer_that_was_lost_is_looked_up_as_committed() {
    on_every_backend(async |backend| {
        everywhere(backend, async |isolation, kind| {
            for action in [Action::CutAfter, Action::RefuseAfter("XX000")] {
                let what = format!("{isolation:?}, {kind}, {action:?}");
                let (mut one, mut operation) = client(backend, isolation, kind).await;
                one.struck(&mut operation, action).await;
                if one.conn.is_lost() {
                    one.reopen(backend).await;
                }
                let found = one.look_up(&mut operation).await;
                assert_eq!(found, Found::Committed, "{what}");
                let claim = one.workload.claim(&operation, Said::Committed);
                assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
                one.workload.clean(&one.conn).await.unwrap();
            }
        })
        .await;
    });
}

#[test]
fn a_commit_that_never_arrived_may_be_sent_again() {
    on_every_backend(async |backend| {
        everywhere(backend, async |isolation, kind| {
            for action in [Action::CutBefore, Action::RefuseBefore("XX000")] {
                let what = format!("{isolation:?}, {kind}, {action:?}");
                let (mut one, mut operation) = client(backend, isolation, kind).await;
                one.struck(&mut operation, action).await;
                if one.conn.is_lost() {
                    one.reopen(backend).await;
                }
                assert_eq!(one.look_up(&mut operation).await, Found::Pending, "{what}");
                let claim = one.workload.claim(&operation, Said::Failed);
                assert_eq!(claim.said, Said::Unknown, "nobody may say that it failed");
                let claim = one.commit(&mut operation).await;
                assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
                one.workload.clean(&one.conn).await.unwrap();
            }
        })
        .await;
    });
}

#[test]
fn a_commit_that_lands_after_the_look_up_is_found_by_the_next() {
    on_every_backend(async |backend| {
        everywhere(backend, async |isolation, kind| {
            let what = format!("{isolation:?}, {kind}");
            let (mut one, mut operation) = client(backend, isolation, kind).await;
            let late = one.in_flight(backend, &mut operation).await;
            assert_eq!(one.look_up(&mut operation).await, Found::Pending, "{what}");
            late.land().await;
            let attempt = one.attempt(&mut operation).await;
            // Not `Rejected`: the receipt that is there may be its own.
            assert!(
                matches!(attempt.end, AttemptEnd::Failed(_)),
                "{what}: {attempt:?}"
            );
            let found = one.look_up(&mut operation).await;
            assert_eq!(found, Found::Committed, "{what}");
            let claim = one.workload.claim(&operation, Said::Committed);
            assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
            one.workload.clean(&one.conn).await.unwrap();
        })
        .await;
    });
}

#[test]
fn a_commit_that_lands_after_it_was_sent_again_has_no_second_effect() {
    on_every_backend(async |backend| {
        everywhere(backend, async |isolation, kind| {
            let what = format!("{isolation:?}, {kind}");
            let (mut one, mut operation) = client(backend, isolation, kind).await;
            let late = one.in_flight(backend, &mut operation).await;
            assert_eq!(one.look_up(&mut operation).await, Found::Pending, "{what}");
            if backend.locks {
                // The first attempt's open transaction holds the row that the
                // second one wants.
                let (monitor, _wire) = backend.connect().await;
                let again =
                    one.workload
                        .attempt(&one.conn, &one.session, &mut one.writer, &mut operation);
                let landing = async {
                    while !backend.is_blocked(&monitor, &one.wire).await {
                        let span = std::time::Duration::from_millis(2);
                        backend.clock.sleep(span).await;
                    }
                    late.land().await;
                };
                let (again, ()) = tokio::join!(again, landing);
                assert!(
                    matches!(again.end, AttemptEnd::Failed(_)),
                    "{what}: {again:?}"
                );
                let found = one.look_up(&mut operation).await;
                assert_eq!(found, Found::Committed, "{what}");
            } else {
                let again = one.attempt(&mut operation).await;
                assert!(
                    matches!(again.end, AttemptEnd::Committed),
                    "{what}: {again:?}"
                );
                late.land().await;
            }
            let claim = one.workload.claim(&operation, Said::Committed);
            assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
            one.workload.clean(&one.conn).await.unwrap();
        })
        .await;
    });
}

/// An order that took the last pieces finds none when it is sent again. That is
/// no rejection.
#[test]
fn no_rule_refuses_what_may_have_committed() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            for kind in KINDS {
                let workload = backend
                    .orders(&OrderTransferParams {
                        items: 1,
                        stock: Some(3),
                        balance: Some(100),
                        ..params(isolation)
                    })
                    .await;
                let mut refused = false;
                for n in 0..12 {
                    let mut one = Client::open(backend, &workload, 0).await;
                    let mut operation = operation_of(&mut one, kind, n);
                    let late = one.in_flight(backend, &mut operation).await;
                    late.land().await;
                    let attempt = one.attempt(&mut operation).await;
                    let AttemptEnd::Failed(failure) = &attempt.end else {
                        panic!("{attempt:?}");
                    };
                    refused |= failure.message.contains("may still land");
                    let claim = one.workload.claim(&operation, Said::Failed);
                    assert_eq!(claim.said, Said::Unknown);
                    assert_eq!(one.look_up(&mut operation).await, Found::Committed);
                    one.workload.clean(&one.conn).await.unwrap();
                    one.workload.prepare(&one.conn).await.unwrap();
                }
                assert!(refused, "{kind}: never too little left");
                let (conn, _wire) = backend.connect().await;
                workload.clean(&conn).await.unwrap();
            }
        }
    });
}

/// What ends before it is known is settled by verification, either way.
#[test]
fn verification_settles_what_nobody_could_look_up() {
    on_every_backend(async |backend| {
        everywhere(backend, async |isolation, kind| {
            for (action, there) in [(Action::CutAfter, true), (Action::CutBefore, false)] {
                let (mut one, mut operation) = client(backend, isolation, kind).await;
                one.struck(&mut operation, action).await;
                let claim = one.workload.claim(&operation, Said::Unknown);
                one.reopen(backend).await;
                let verified = backend.verify(&one.workload, &[claim]).await;
                assert_ok(&verified, "either is right");
                let number = one.workload.number(&operation);
                let (committed, absent) = (verified.settled_committed, verified.settled_absent);
                if there {
                    assert_eq!((committed, absent), (vec![number], vec![]));
                } else {
                    assert_eq!((committed, absent), (vec![], vec![number]));
                }
                one.workload.clean(&one.conn).await.unwrap();
            }
        })
        .await;
    });
}

/// A driver drops an attempt at a deadline; wherever that happens, what it
/// finds out afterwards is the truth.
#[test]
fn an_attempt_can_be_dropped_before_any_flight_is_answered() {
    on_every_backend(async |backend| {
        for kind in KINDS {
            let mut found_out = Vec::new();
            for dropped_at in 1.. {
                let isolation = Isolation::RepeatableRead;
                let (mut one, mut operation) = client(backend, isolation, kind).await;
                one.wire.gate();
                {
                    let attempt = one.workload.attempt(
                        &one.conn,
                        &one.session,
                        &mut one.writer,
                        &mut operation,
                    );
                    let stopped = async {
                        for _ in 1..dropped_at {
                            one.wire.arrival().await;
                            one.wire.act(Action::Pass);
                        }
                        one.wire.arrival().await;
                    };
                    tokio::select! {
                        biased;
                        ended = attempt => {
                            // It had fewer flights than that.
                            assert!(matches!(ended.end, AttemptEnd::Committed));
                            break;
                        }
                        () = stopped => {}
                    }
                }
                // The flight that nobody waits for any more still arrives.
                one.wire.act(Action::Pass);
                while one.wire.events.recv().await != Some(Event::Answered) {}
                one.reopen(backend).await;
                let found = one.look_up(&mut operation).await;
                found_out.push(found);
                let said = match found {
                    Found::Committed => Said::Committed,
                    Found::Absent => Said::Failed,
                    Found::Pending => panic!("the COMMIT was answered"),
                };
                let mut claim = one.workload.claim(&operation, said);
                let what = format!("{kind}, dropped at {dropped_at}: {said:?}");
                let claims = std::slice::from_ref(&claim);
                assert_ok(&backend.verify(&one.workload, claims).await, &what);
                if said == Said::Failed {
                    claim = one.commit(&mut operation).await;
                }
                assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
                one.workload.clean(&one.conn).await.unwrap();
            }
            let last = found_out.pop();
            assert_eq!(last, Some(Found::Committed));
            // An order of two lines has seven flights, a transfer six.
            let before = if kind == "order" { 6 } else { 5 };
            assert_eq!(found_out, vec![Found::Absent; before]);
        }
    });
}
