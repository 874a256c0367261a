//! Appends whose COMMIT was sent and not answered.

use plan::{AppendParams, Isolation, Trips};
use workload::append::Operation;
use workload::{AttemptEnd, Found, Said, Workload};

use crate::backend::{Backend, Client, assert_ok, on_every_backend, params};
use crate::common::backend::InFlight;
use crate::whole::ALL_TRIPS;
use crate::wire::{Action, Event};

/// Two writers of one stream, the first of which has a head to remember.
async fn writers(
    backend: &Backend,
    trips: Trips,
    isolation: Isolation,
    batch: u32,
) -> (Client, Client, Vec<workload::Claim>) {
    let append = backend
        .append(AppendParams {
            batch,
            ..params(trips, isolation)
        })
        .await;
    let mut one = Client::open(backend, &append, 0).await;
    let two = Client::open(backend, &append, 1).await;
    let mut operation = one.operation(0);
    let claims = vec![one.commit(&mut operation).await];
    (one, two, claims)
}

/// Every combination of trips, level and batch.
async fn everywhere(backend: &Backend, test: impl AsyncFn(Trips, Isolation, u32)) {
    for &isolation in &backend.levels {
        for trips in ALL_TRIPS {
            for batch in [1, 3] {
                test(trips, isolation, batch).await;
            }
        }
    }
}

#[test]
fn an_answer_that_was_lost_is_looked_up_as_committed() {
    on_every_backend(async |backend| {
        everywhere(backend, async |trips, isolation, batch| {
            for action in [Action::CutAfter, Action::RefuseAfter("XX000")] {
                let (mut one, _two, mut claims) = writers(backend, trips, isolation, batch).await;
                let mut operation = one.operation(1);
                let what = format!("{trips:?} at {isolation:?}, {batch}, {action:?}");
                one.struck(&mut operation, action).await;
                if one.conn.is_lost() {
                    one.reopen(backend).await;
                }
                assert_eq!(
                    one.look_up(&mut operation).await,
                    Found::Committed,
                    "{what}"
                );
                claims.push(one.workload.claim(&operation, Said::Committed));
                // The head that was looked up is a confirmed one.
                let mut next = one.operation(2);
                let attempt = one.attempt(&mut next).await;
                assert!(
                    matches!(attempt.end, AttemptEnd::Committed),
                    "{what}: {attempt:?}"
                );
                if trips == Trips::Sticky {
                    assert_eq!(attempt.round_trips, 1, "{what}");
                }
                claims.push(one.workload.claim(&next, Said::Committed));
                assert_ok(&backend.verify(&one.workload, &claims).await, &what);
                one.workload.clean(&one.conn).await.unwrap();
            }
        })
        .await;
    });
}

#[test]
fn a_commit_that_never_arrived_is_sent_again_as_it_was() {
    on_every_backend(async |backend| {
        everywhere(backend, async |trips, isolation, batch| {
            for action in [Action::CutBefore, Action::RefuseBefore("XX000")] {
                let (mut one, _two, mut claims) = writers(backend, trips, isolation, batch).await;
                let mut operation = one.operation(1);
                let what = format!("{trips:?} at {isolation:?}, {batch}, {action:?}");
                one.struck(&mut operation, action).await;
                if one.conn.is_lost() {
                    one.reopen(backend).await;
                }
                assert_eq!(one.look_up(&mut operation).await, Found::Pending, "{what}");
                let unknown = one.workload.claim(&operation, Said::Failed);
                assert_eq!(unknown.said, Said::Unknown, "nobody may say that it failed");
                let attempt = one.attempt(&mut operation).await;
                assert!(
                    matches!(attempt.end, AttemptEnd::Committed),
                    "{what}: {attempt:?}"
                );
                claims.push(one.workload.claim(&operation, Said::Committed));
                assert_eq!(unknown.at, claims[1].at, "{what}: at the same place");
                assert_ok(&backend.verify(&one.workload, &claims).await, &what);
                one.workload.clean(&one.conn).await.unwrap();
            }
        })
        .await;
    });
}

#[test]
fn a_slot_that_another_took_makes_it_absent_for_good() {
    on_every_backend(async |backend| {
        everywhere(backend, async |trips, isolation, batch| {
            let (mut one, mut two, mut claims) = writers(backend, trips, isolation, batch).await;
            let mut operation = one.operation(1);
            let what = format!("{trips:?} at {isolation:?}, {batch}");
            one.struck(&mut operation, Action::CutBefore).await;
            one.reopen(backend).await;
            assert_eq!(one.look_up(&mut operation).await, Found::Pending, "{what}");
            let mut other = two.operation(0);
            claims.push(two.commit(&mut other).await);
            // Sending it again cannot succeed, and does not build on the new
            // head before the slot has been read.
            for _ in 0..2 {
                let attempt = one.attempt(&mut operation).await;
                let lost = matches!(&attempt.end, AttemptEnd::Failed(f) if f.is_conflict());
                assert!(lost, "{what}: {attempt:?}");
            }
            assert_eq!(one.look_up(&mut operation).await, Found::Absent, "{what}");
            let absent = one.workload.claim(&operation, Said::Failed);
            let all = [&claims[..], &[absent]].concat();
            assert_ok(&backend.verify(&one.workload, &all).await, &what);
            claims.push(one.commit(&mut operation).await);
            assert_ok(&backend.verify(&one.workload, &claims).await, &what);
            one.workload.clean(&one.conn).await.unwrap();
        })
        .await;
    });
}

/// Sends an append whose COMMIT will land later, and finds its slot empty.
async fn in_flight(backend: &Backend, one: &mut Client, operation: &mut Operation) -> InFlight {
    let in_flight = one.in_flight(backend, operation).await;
    assert_eq!(one.look_up(operation).await, Found::Pending);
    in_flight
}

#[test]
fn a_commit_that_lands_after_the_look_up_is_found_by_the_next() {
    on_every_backend(async |backend| {
        everywhere(backend, async |trips, isolation, batch| {
            let (mut one, _two, mut claims) = writers(backend, trips, isolation, batch).await;
            let mut operation = one.operation(1);
            let what = format!("{trips:?} at {isolation:?}, {batch}");
            let late = in_flight(backend, &mut one, &mut operation).await;
            late.land().await;
            let attempt = one.attempt(&mut operation).await;
            let lost = matches!(&attempt.end, AttemptEnd::Failed(f) if f.is_conflict());
            assert!(lost, "{what}: {attempt:?}");
            assert_eq!(
                one.look_up(&mut operation).await,
                Found::Committed,
                "{what}"
            );
            claims.push(one.workload.claim(&operation, Said::Committed));
            assert_ok(&backend.verify(&one.workload, &claims).await, &what);
            one.workload.clean(&one.conn).await.unwrap();
        })
        .await;
    });
}

#[test]
fn a_commit_that_lands_after_it_was_sent_again_does_nothing() {
    on_every_backend(async |backend| {
        everywhere(backend, async |trips, isolation, batch| {
            if trips == Trips::Stepwise && backend.locks {
                // The first attempt's open transaction holds the record's key:
                // the second would wait for it to end.
                return;
            }
            let (mut one, _two, mut claims) = writers(backend, trips, isolation, batch).await;
            let mut operation = one.operation(1);
            let what = format!("{trips:?} at {isolation:?}, {batch}");
            let late = in_flight(backend, &mut one, &mut operation).await;
            let attempt = one.attempt(&mut operation).await;
            assert!(
                matches!(attempt.end, AttemptEnd::Committed),
                "{what}: {attempt:?}"
            );
            claims.push(one.workload.claim(&operation, Said::Committed));
            let mut next = one.operation(2);
            claims.push(one.commit(&mut next).await);
            late.land().await;
            assert_ok(&backend.verify(&one.workload, &claims).await, &what);
            one.workload.clean(&one.conn).await.unwrap();
        })
        .await;
    });
}

/// What all this is for: the client that looks once, finds nothing, and starts
/// afresh puts its records in twice when the first COMMIT lands in between.
/// Verification must see it.
#[test]
fn looking_once_and_rebuilding_puts_records_in_twice() {
    on_every_backend(async |backend| {
        everywhere(backend, async |trips, isolation, batch| {
            let (mut one, _two, mut claims) = writers(backend, trips, isolation, batch).await;
            let mut operation = one.operation(1);
            let late = in_flight(backend, &mut one, &mut operation).await;
            late.land().await;
            // Made anew, it knows nothing of the attempt in doubt.
            let mut rebuilt = one.operation(1);
            claims.push(one.commit(&mut rebuilt).await);
            let verified = backend.verify(&one.workload, &claims).await;
            assert!(!verified.ok);
            let twice = format!("record 0 of operation {} is there twice", 1);
            assert!(
                verified.problems[0].contains(&twice),
                "{:?}",
                verified.problems
            );
            one.workload.clean(&one.conn).await.unwrap();
        })
        .await;
    });
}

/// What ends before it is known is settled by verification, either way.
#[test]
fn verification_settles_what_nobody_could_look_up() {
    on_every_backend(async |backend| {
        everywhere(backend, async |trips, isolation, batch| {
            for (action, there) in [(Action::CutAfter, true), (Action::CutBefore, false)] {
                let (mut one, _two, mut claims) = writers(backend, trips, isolation, batch).await;
                let mut operation = one.operation(1);
                one.struck(&mut operation, action).await;
                claims.push(one.workload.claim(&operation, Said::Unknown));
                let verified = backend.verify(&one.workload, &claims).await;
                assert_ok(&verified, "either is right");
                let number = one.workload.number(&operation);
                let (committed, absent) = (verified.settled_committed, verified.settled_absent);
                if there {
                    assert_eq!((committed, absent), (vec![number], vec![]));
                } else {
                    assert_eq!((committed, absent), (vec![], vec![number]));
                }
                one.reopen(backend).await;
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
        for trips in ALL_TRIPS {
            for dropped_at in 1..=5 {
                let (mut one, _two, mut claims) =
                    writers(backend, trips, Isolation::RepeatableRead, 2).await;
                let mut operation = one.operation(1);
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
                            continue;
                        }
                        () = stopped => {}
                    }
                }
                // The flight that nobody waits for any more still arrives.
                one.wire.act(Action::Pass);
                while one.wire.events.recv().await != Some(Event::Answered) {}
                one.reopen(backend).await;
                let said = match one.look_up(&mut operation).await {
                    Found::Committed => Said::Committed,
                    Found::Absent => Said::Failed,
                    Found::Pending => panic!("the COMMIT was answered"),
                };
                let claim = one.workload.claim(&operation, said);
                let all = [&claims[..], std::slice::from_ref(&claim)].concat();
                let what = format!("{trips:?}, dropped at {dropped_at}: {said:?}");
                assert_ok(&backend.verify(&one.workload, &all).await, &what);
                if said == Said::Failed {
                    claims.push(one.commit(&mut operation).await);
                } else {
                    claims.push(claim);
                }
                assert_ok(&backend.verify(&one.workload, &claims).await, &what);
                one.workload.clean(&one.conn).await.unwrap();
            }
        }
    });
}
