//! Transactions whose COMMIT was sent and not answered, on tables of our own
//! making and on pgbench's, whose history has no key.

use plan::{Isolation, TpcbParams, TpcbVariant};
use workload::tpcb::Operation;
use workload::{AttemptEnd, Found, Said, Workload};

use crate::backend::{Backend, Client, assert_ok, end, everywhere, on_every_backend, params};
use crate::wire::{Action, Event};

/// Runs a test at every level and with both variants, on both kinds of tables.
fn on_both_tables(test: impl AsyncFn(&Backend, TpcbParams, String)) {
    for of_pgbench in [false, true] {
        on_every_backend(async |backend| {
            if of_pgbench {
                backend.pgbench(1).await;
            }
            everywhere(backend, async |shape, what| {
                let what = format!("{what}, pgbench's: {of_pgbench}");
                test(backend, shape, what).await;
            })
            .await;
        });
    }
}

async fn client(backend: &Backend, shape: &TpcbParams) -> (Client, Operation) {
    let workload = backend.tpcb(shape).await;
    let mut client = Client::open(backend, &workload, 0).await;
    let operation = client.operation(0);
    (client, operation)
}

#[test]
fn an_answer_that_was_lost_is_looked_up_as_committed() {
    on_both_tables(async |backend, shape, what| {
        for action in [Action::CutAfter, Action::RefuseAfter("XX000")] {
            let (mut one, mut operation) = client(backend, &shape).await;
            one.struck(&mut operation, action).await;
            if one.conn.is_lost() {
                one.reopen(backend).await;
            }
            let found = one.look_up(&mut operation).await;
            assert_eq!(found, Found::Committed, "{what}");
            let claim = one.workload.claim(&operation, Said::Committed);
            assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
            end(&one).await;
        }
    });
}

#[test]
fn a_commit_that_never_arrived_may_be_sent_again() {
    on_both_tables(async |backend, shape, what| {
        for action in [Action::CutBefore, Action::RefuseBefore("XX000")] {
            let (mut one, mut operation) = client(backend, &shape).await;
            one.struck(&mut operation, action).await;
            if one.conn.is_lost() {
                one.reopen(backend).await;
            }
            assert_eq!(one.look_up(&mut operation).await, Found::Pending, "{what}");
            let claim = one.workload.claim(&operation, Said::Failed);
            assert_eq!(claim.said, Said::Unknown, "nobody may say that it failed");
            let claim = one.commit(&mut operation).await;
            assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
            end(&one).await;
        }
    });
}

#[test]
fn a_commit_that_lands_after_the_look_up_is_found_by_the_next() {
    on_both_tables(async |backend, shape, what| {
        let (mut one, mut operation) = client(backend, &shape).await;
        let late = one.in_flight(backend, &mut operation).await;
        assert_eq!(one.look_up(&mut operation).await, Found::Pending, "{what}");
        late.land().await;
        let attempt = one.attempt(&mut operation).await;
        assert!(
            matches!(attempt.end, AttemptEnd::Failed(_)),
            "{what}: {attempt:?}"
        );
        let found = one.look_up(&mut operation).await;
        assert_eq!(found, Found::Committed, "{what}");
        let claim = one.workload.claim(&operation, Said::Committed);
        assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
        end(&one).await;
    });
}

/// It lands while the same operation is under way again, after that has begun
/// and before it ends.
#[test]
fn a_commit_that_lands_while_it_is_sent_again_is_not_doubled() {
    on_both_tables(async |backend, shape, what| {
        let (mut one, mut operation) = client(backend, &shape).await;
        let late = one.in_flight(backend, &mut operation).await;
        assert_eq!(one.look_up(&mut operation).await, Found::Pending, "{what}");
        let (monitor, _wire) = backend.connect().await;
        if !backend.locks {
            one.wire.gate();
        }
        let again = one
            .workload
            .attempt(&one.conn, &one.session, &mut one.writer, &mut operation);
        let landing = async {
            if backend.locks {
                while !backend.is_blocked(&monitor, &one.wire).await {
                    let span = std::time::Duration::from_millis(2);
                    backend.clock.sleep(span).await;
                }
                return late.land().await;
            }
            // BEGIN, the account and the look have passed.
            for _ in 0..3 {
                one.wire.arrival().await;
                one.wire.act(Action::Pass);
            }
            one.wire.arrival().await;
            late.land().await;
            one.wire.act(Action::Pass);
            one.wire.open();
        };
        let (again, ()) = tokio::join!(again, landing);
        assert!(
            matches!(again.end, AttemptEnd::Failed(_)),
            "{what}: {again:?}"
        );
        let found = one.look_up(&mut operation).await;
        assert_eq!(found, Found::Committed, "{what}");
        let claim = one.workload.claim(&operation, Said::Committed);
        assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
        end(&one).await;
    });
}

/// Where nothing waits for a lock the second attempt may be the first to land.
#[test]
fn a_commit_that_lands_after_it_was_sent_again_does_nothing() {
    on_both_tables(async |backend, shape, what| {
        if backend.locks {
            return;
        }
        let (mut one, mut operation) = client(backend, &shape).await;
        let late = one.in_flight(backend, &mut operation).await;
        assert_eq!(one.look_up(&mut operation).await, Found::Pending, "{what}");
        let claim = one.commit(&mut operation).await;
        late.land().await;
        assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
        end(&one).await;
    });
}

/// What ends before it is known is settled by verification, either way.
#[test]
fn verification_settles_what_nobody_could_look_up() {
    on_both_tables(async |backend, shape, what| {
        for (action, there) in [(Action::CutAfter, true), (Action::CutBefore, false)] {
            let (mut one, mut operation) = client(backend, &shape).await;
            one.struck(&mut operation, action).await;
            let claim = one.workload.claim(&operation, Said::Unknown);
            one.reopen(backend).await;
            let verified = backend.verify(&one.workload, &[claim]).await;
            assert_ok(&verified, &what);
            let settled = (
                verified.settled_committed.len(),
                verified.settled_absent.len(),
            );
            assert_eq!(settled, if there { (1, 0) } else { (0, 1) }, "{what}");
            end(&one).await;
        }
    });
}

/// A driver drops an attempt at a deadline; wherever that happens, what it
/// finds out afterwards is the truth.
#[test]
fn an_attempt_can_be_dropped_before_any_flight_is_answered() {
    on_every_backend(async |backend| {
        let shape = params(Isolation::RepeatableRead, TpcbVariant::TpcbLike);
        let mut found_out = Vec::new();
        for dropped_at in 1.. {
            let (mut one, mut operation) = client(backend, &shape).await;
            one.wire.gate();
            {
                let attempt =
                    one.workload
                        .attempt(&one.conn, &one.session, &mut one.writer, &mut operation);
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
            let claim = match found {
                Found::Committed => one.workload.claim(&operation, Said::Committed),
                Found::Absent => one.commit(&mut operation).await,
                Found::Pending => panic!("the COMMIT was answered"),
            };
            let what = format!("dropped at {dropped_at}: {found:?}");
            assert_ok(&backend.verify(&one.workload, &[claim]).await, &what);
            end(&one).await;
        }
        assert_eq!(found_out.pop(), Some(Found::Committed));
        assert_eq!(found_out, [Found::Absent; 6]);
    });
}
