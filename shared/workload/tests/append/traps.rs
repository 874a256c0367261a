//! The traps that an append can fall into, one test each.

use plan::{AppendParams, Isolation, Trips};
use target::Class;
use workload::append::Append;
use workload::{AttemptEnd, Found, Said, Workload};

use crate::backend::{Backend, Client, assert_ok, on_every_backend, on_postgres, params};
use crate::whole::ALL_TRIPS;
use crate::wire::Action;

async fn client(backend: &Backend, trips: Trips, isolation: Isolation) -> Client {
    let append = backend
        .append(AppendParams {
            batch: 2,
            ..params(trips, isolation)
        })
        .await;
    Client::open(backend, &append, 0).await
}

/// The driver reports the COMMIT of a failed block as success, though the
/// server's answer is ROLLBACK. No attempt may take it for one.
#[test]
fn a_commit_behind_a_failed_insert_is_no_commit() {
    on_every_backend(async |backend| {
        for trips in ALL_TRIPS {
            let mut client = client(backend, trips, Isolation::RepeatableRead).await;
            let id = client.workload.stream_id(0);
            // Something else has put a record where the append wants to go.
            let stray = format!(
                "INSERT INTO records VALUES ({id}, 2, '\\x00'::bytea, '\\x00'::bytea, '\\x00'::bytea)"
            );
            backend.sql(&stray).await;

            let raw = &client.conn.client;
            raw.batch_execute("BEGIN").await.unwrap();
            raw.batch_execute(&stray).await.unwrap_err();
            raw.batch_execute("COMMIT").await.expect("it says so");

            let mut operation = client.operation(0);
            let attempt = client.attempt(&mut operation).await;
            let AttemptEnd::Failed(failure) = attempt.end else {
                panic!("{trips:?}: {attempt:?}");
            };
            assert_eq!(failure.class, Class::Conflict, "{trips:?}");
            assert_eq!(failure.sqlstate.as_deref(), Some("23505"), "{trips:?}");
            backend
                .sql(&format!(
                    "DELETE FROM records WHERE stream_id = {id} AND seq = 2"
                ))
                .await;
            let failed = client.workload.claim(&operation, Said::Failed);
            assert_ok(
                &backend.verify(&client.workload, &[failed]).await,
                "nothing is there",
            );

            // The session is usable at once, whatever block it was left in.
            let committed = client.commit(&mut operation).await;
            assert_ok(
                &backend.verify(&client.workload, &[committed]).await,
                "committed",
            );
            client.workload.clean(&client.conn).await.unwrap();
        }
    });
}

/// An UPDATE that matches nothing does not stop the COMMIT behind it. The
/// records of the same flight must not get in either, and the attempt must not
/// be taken for a commit.
#[test]
fn an_update_that_matches_nothing_takes_the_records_with_it() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            let mut one = client(backend, Trips::Sticky, isolation).await;
            let mut two = Client::open(backend, &one.workload, 1).await;
            let mut operation = one.operation(0);
            let mut claims = vec![one.commit(&mut operation).await];
            let mut operation = two.operation(0);
            claims.push(two.commit(&mut operation).await);

            // The first one's head is behind now; nothing runs beside it, so
            // no conflict and no error can save it.
            let mut stale = one.operation(1);
            let attempt = one.attempt(&mut stale).await;
            assert_eq!(attempt.round_trips, 1);
            let AttemptEnd::Failed(failure) = attempt.end else {
                panic!("{isolation:?}: {attempt:?}");
            };
            assert_eq!(failure.class, Class::Conflict);
            assert_eq!(failure.sqlstate, None);
            let failed = one.workload.claim(&stale, Said::Failed);
            let all = [&claims[..], &[failed]].concat();
            assert_ok(
                &backend.verify(&one.workload, &all).await,
                "nothing of it is there",
            );

            // Only now is the head read again.
            let attempt = one.attempt(&mut stale).await;
            assert!(matches!(attempt.end, AttemptEnd::Committed));
            assert_eq!(attempt.round_trips, 2);
            claims.push(one.workload.claim(&stale, Said::Committed));
            assert_ok(
                &backend.verify(&one.workload, &claims).await,
                "all are there",
            );
            one.workload.clean(&one.conn).await.unwrap();
        }
    });
}

/// At READ COMMITTED each statement has its own snapshot. Were the records
/// inserted first and the head moved last, both guarded by the head that is
/// expected, a head that is ahead of the truth could be reached by a commit
/// between the two: the head would move and the records be missing. Moving the
/// head first leaves no such gap.
#[test]
fn why_the_head_moves_first() {
    on_postgres(async |backend| {
        let append = backend
            .append(params(Trips::Sticky, Isolation::ReadCommitted))
            .await;
        let id = append.stream_id(0);
        let mut honest = Client::open(backend, &append, 0).await;
        let (conn, _wire) = backend.connect().await;
        let insert = format!(
            "INSERT INTO records SELECT id, 2, head_hash, '\\x01'::bytea, '\\x01'::bytea \
             FROM streams WHERE id = {id} AND head_seq = 1"
        );
        let update = format!(
            "UPDATE streams SET head_seq = 2, head_hash = '\\x01'::bytea \
             WHERE id = {id} AND head_seq = 1"
        );
        conn.client
            .batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            .await
            .unwrap();
        assert_eq!(conn.client.execute(&insert, &[]).await.unwrap(), 0);
        let mut operation = honest.operation(0);
        let claim = honest.commit(&mut operation).await;
        assert_eq!(conn.client.execute(&update, &[]).await.unwrap(), 1);
        conn.client.batch_execute("COMMIT").await.unwrap();
        let verified = backend.verify(&append, &[claim]).await;
        assert_eq!(
            verified.problems,
            [format!(
                "stream {id}, seq 1: the last record; the head says that seq 2 is"
            )]
        );
        append.clean(&conn).await.unwrap();
    });
}

/// XX000 at any flight, with the flight executed or not: the session works at
/// once, whatever block it was left in, and nothing is done twice.
#[test]
fn an_error_at_any_flight_does_no_harm() {
    on_every_backend(async |backend| {
        for trips in ALL_TRIPS {
            for n in 1..=5 {
                for executed in [false, true] {
                    let what = format!("{trips:?}, flight {n}, executed: {executed}");
                    let mut client = client(backend, trips, Isolation::RepeatableRead).await;
                    let mut operation = client.operation(0);
                    client.wire.gate();
                    let end = {
                        let attempt = client.workload.attempt(
                            &client.conn,
                            &client.session,
                            &mut client.writer,
                            &mut operation,
                        );
                        let action = match executed {
                            true => Action::RefuseAfter("XX000"),
                            false => Action::RefuseBefore("XX000"),
                        };
                        let strike = async {
                            client.wire.strike_nth(n, action).await;
                            client.wire.open();
                            std::future::pending::<()>().await;
                        };
                        tokio::select! {
                            biased;
                            attempt = attempt => attempt.end,
                            () = strike => unreachable!(),
                        }
                    };
                    client.wire.open();
                    let claim = match end {
                        // It had fewer flights than that.
                        AttemptEnd::Committed => continue,
                        AttemptEnd::Failed(failure) => {
                            assert_eq!(failure.class, Class::Unavailable, "{what}");
                            client.commit(&mut operation).await
                        }
                        AttemptEnd::Unknown(failure) => {
                            assert_eq!(failure.class, Class::Unavailable, "{what}");
                            match client.look_up(&mut operation).await {
                                Found::Committed => {
                                    client.workload.claim(&operation, Said::Committed)
                                }
                                Found::Pending => client.commit(&mut operation).await,
                                Found::Absent => panic!("{what}: there is no one else"),
                            }
                        }
                        AttemptEnd::Rejected(why) => panic!("{what}: {why}"),
                    };
                    assert_ok(&backend.verify(&client.workload, &[claim]).await, &what);
                    client.workload.clean(&client.conn).await.unwrap();
                }
            }
        }
    });
}

#[test]
fn tables_with_other_columns_are_refused_before_anything_is_done() {
    on_postgres(async |backend| {
        let append = Append::new(
            &params(Trips::Stepwise, Isolation::RepeatableRead),
            backend.id_base(),
            7,
            backend.clock,
        );
        let (conn, _wire) = backend.connect().await;
        let schema = format!("other_{}", backend.id_base());
        conn.client
            .batch_execute(&format!(
                "CREATE SCHEMA {schema}; SET search_path = {schema}; \
                 CREATE TABLE streams (id bigint PRIMARY KEY, name text)"
            ))
            .await
            .unwrap();
        let failure = append.prepare(&conn).await.unwrap_err();
        assert_eq!(
            failure.message,
            "there is a table streams with other columns: it has (id int8, name text), append \
             needs (id int8, head_seq int8, head_hash bytea); rename it, or use another database"
        );
        conn.client
            .batch_execute(
                "DROP TABLE streams; CREATE TABLE streams \
                 (id bigint PRIMARY KEY, head_seq bigint NOT NULL, head_hash bytea NOT NULL); \
                 CREATE TABLE records (stream_id bigint, seq bigint, prev_hash bytea NOT NULL, \
                 hash bytea NOT NULL, payload bytea NOT NULL)",
            )
            .await
            .unwrap();
        let failure = append.prepare(&conn).await.unwrap_err();
        assert_eq!(
            failure.message,
            "there is a table records without a primary key (stream_id, seq); rename it, or use \
             another database"
        );
        conn.client
            .batch_execute(&format!("DROP SCHEMA {schema} CASCADE"))
            .await
            .unwrap();
    });
}

#[test]
fn streams_that_are_in_use_are_refused() {
    on_every_backend(async |backend| {
        let mut client = client(backend, Trips::Stepwise, Isolation::RepeatableRead).await;
        // Preparing twice is no harm, as after an unknown outcome.
        client.workload.prepare(&client.conn).await.unwrap();
        let mut operation = client.operation(0);
        client.commit(&mut operation).await;
        let failure = client.workload.prepare(&client.conn).await.unwrap_err();
        let id = client.workload.stream_id(0);
        assert_eq!(
            failure.message,
            format!(
                "1 of the streams {id} to {id} hold records already: their ids are not this \
                 attempt's own"
            )
        );
        client.workload.clean(&client.conn).await.unwrap();
    });
}

#[test]
fn many_sessions_may_create_the_tables_at_once() {
    on_postgres(async |backend| {
        let schema = format!("race_{}", backend.id_base());
        backend.sql(&format!("CREATE SCHEMA {schema}")).await;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (conn, wire) = backend.connect().await;
            conn.client
                .batch_execute(&format!("SET search_path = {schema}"))
                .await
                .unwrap();
            let params = params(Trips::Sticky, Isolation::RepeatableRead);
            let append = Append::new(&params, backend.id_base(), 7, backend.clock);
            tasks.spawn(async move {
                let _wire = wire;
                append.prepare(&conn).await.unwrap().rows
            });
        }
        assert_eq!(tasks.join_all().await, [1; 8]);
        backend.sql(&format!("DROP SCHEMA {schema} CASCADE")).await;
    });
}
