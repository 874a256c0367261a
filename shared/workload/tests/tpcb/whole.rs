//! Whole reps: prepare, transactions from several connections, verify, clean.

use plan::{Isolation, TpcbParams, TpcbVariant};
use workload::tpcb::Tpcb;
use workload::{AttemptEnd, Claim, Said, Workload};

use crate::backend::{
    Backend, Client, assert_ok, everywhere, on_every_backend, on_postgres, params,
};
use crate::wire::Action;

/// Runs every client to the end of its share, all at once.
async fn run_all(backend: &Backend, workload: &Tpcb) -> Vec<Claim> {
    let local = tokio::task::LocalSet::new();
    let run = local.run_until(async {
        let mut tasks = tokio::task::JoinSet::new();
        for index in 0..workload.writers() {
            let mut client = Client::open(backend, workload, index).await;
            tasks.spawn_local(async move {
                let mut claims = Vec::new();
                for n in 0.. {
                    let operation = client.workload.operation(&mut client.writer, n);
                    let Some(mut operation) = operation else {
                        break;
                    };
                    claims.push(client.commit(&mut operation).await);
                }
                claims
            });
        }
        tasks.join_all().await.concat()
    });
    run.await
}

#[test]
fn a_rep_from_prepare_to_clean() {
    on_every_backend(async |backend| {
        everywhere(backend, async |shape, what| {
            let workload = backend
                .tpcb(&TpcbParams {
                    concurrency: 3,
                    operations: Some(40),
                    measure_s: None,
                    ..shape
                })
                .await;
            let claims = run_all(backend, &workload).await;
            assert_eq!(claims.len(), 40);
            let verified = backend.verify(&workload, &claims).await;
            assert_ok(&verified, &what);
            assert_eq!(verified.step.rows, 41);

            let first: Vec<Claim> = claims.iter().filter(|c| c.op >> 32 != 2).cloned().collect();
            let (conn, _wire) = backend.connect().await;
            let missing = workload.verify(&conn, &first, &[2]).await.unwrap();
            assert_ok(&missing, "writer 2 is missing");

            assert_eq!(workload.clean(&conn).await.unwrap().rows, 41);
            assert_eq!(workload.clean(&conn).await.unwrap().rows, 0);
            let gone = backend.verify(&workload, &claims).await;
            assert_eq!(gone.problems.len(), 20);
        })
        .await;
    });
}

#[test]
fn preparing_and_cleaning_may_be_repeated_from_anywhere() {
    on_every_backend(async |backend| {
        let shape = params(Isolation::RepeatableRead, TpcbVariant::TpcbLike);
        let workload = Tpcb::new(&shape, backend.id_base(), 7, backend.clock);
        let (conn, _wire) = backend.connect().await;
        // On a database that nobody has prepared there is not even a table.
        assert_eq!(workload.clean(&conn).await.unwrap().rows, 0);
        assert_eq!(workload.prepare(&conn).await.unwrap().rows, 100_012);
        // What an earlier try did not come to is made up for.
        let half = "DELETE FROM pgbench_accounts WHERE aid > 99990";
        backend.sql(half).await;
        assert_eq!(workload.prepare(&conn).await.unwrap().rows, 11);
        assert_eq!(workload.prepare(&conn).await.unwrap().rows, 1);
        assert_eq!(workload.clean(&conn).await.unwrap().rows, 1);
        workload.prepare(&conn).await.unwrap();
        let mut client = Client::open(backend, &workload, 0).await;
        let mut operation = client.operation(0);
        let claim = client.commit(&mut operation).await;
        // Once there is load it is no longer a beginning.
        let refused = workload.prepare(&conn).await.unwrap_err();
        assert!(refused.message.contains("already"), "{refused}");
        assert_ok(&backend.verify(&workload, &[claim]).await, "one");
        // A rep that comes later begins from what this one left.
        let later = backend.tpcb(&shape).await;
        assert_ok(&backend.verify(&later, &[]).await, "the later one");
        assert_eq!(workload.clean(&conn).await.unwrap().rows, 2);
        // Tables of our own making grow with the scale.
        let larger = Tpcb::new(
            &TpcbParams { scale: 2, ..shape },
            backend.id_base(),
            7,
            backend.clock,
        );
        assert_eq!(larger.prepare(&conn).await.unwrap().rows, 100_012);
    });
}

#[test]
fn every_statement_is_a_round_trip() {
    on_every_backend(async |backend| {
        everywhere(backend, async |shape, what| {
            let workload = backend.tpcb(&shape).await;
            let mut client = Client::open(backend, &workload, 0).await;
            let mut operation = client.operation(0);
            let attempt = client.attempt(&mut operation).await;
            assert!(matches!(attempt.end, AttemptEnd::Committed), "{what}");
            let trips = match shape.variant {
                TpcbVariant::TpcbLike => 7,
                TpcbVariant::SimpleUpdate => 5,
            };
            assert_eq!(attempt.round_trips, trips, "{what}");
            crate::backend::end(&client).await;
        })
        .await;
    });
}

#[test]
fn tables_that_pgbench_made_are_used_as_they_are() {
    on_every_backend(async |backend| {
        backend.pgbench(1).await;
        // What others did before is none of our business.
        backend
            .sql("UPDATE pgbench_accounts SET abalance = 77 WHERE aid = 5")
            .await;
        backend
            .sql("INSERT INTO pgbench_history VALUES (1, 1, 5, 77, CURRENT_TIMESTAMP, NULL)")
            .await;
        everywhere(backend, async |shape, what| {
            let workload = backend
                .tpcb(&TpcbParams {
                    operations: Some(20),
                    measure_s: None,
                    ..shape
                })
                .await;
            let claims = run_all(backend, &workload).await;
            assert_ok(&backend.verify(&workload, &claims).await, &what);
            let (conn, _wire) = backend.connect().await;
            assert_eq!(workload.clean(&conn).await.unwrap().rows, 21);
        })
        .await;
        let (conn, _wire) = backend.connect().await;
        let left = conn
            .client
            .query_one("SELECT count(*) FROM pgbench_history", &[])
            .await;
        assert_eq!(left.unwrap().get::<_, i64>(0), 1);
        let larger = Tpcb::new(
            &TpcbParams {
                scale: 3,
                ..params(Isolation::RepeatableRead, TpcbVariant::TpcbLike)
            },
            backend.id_base(),
            7,
            backend.clock,
        );
        let refused = larger.prepare(&conn).await.unwrap_err();
        assert_eq!(
            refused.message,
            "pgbench_accounts has 100000 of the 300000 rows that scale 3 needs; \
             run pgbench -i -s 3, or ask for a smaller scale"
        );
    });
}

#[test]
fn tables_of_another_shape_are_refused() {
    on_every_backend(async |backend| {
        backend
            .sql("CREATE TABLE pgbench_tellers (tid bigint PRIMARY KEY, tbalance bigint)")
            .await;
        let shape = params(Isolation::RepeatableRead, TpcbVariant::TpcbLike);
        let workload = Tpcb::new(&shape, backend.id_base(), 7, backend.clock);
        let (conn, _wire) = backend.connect().await;
        let refused = workload.prepare(&conn).await.unwrap_err();
        let start = "there is a table pgbench_tellers with other columns: it has (tid int8, \
                     tbalance int8), tpcb needs (tid int4,";
        assert!(refused.message.starts_with(start), "{refused}");
    });
}

/// Beyond DSQL's 3,000 rows of a transaction history goes in steps.
#[test]
fn long_histories_are_deleted() {
    on_every_backend(async |backend| {
        let shape = params(Isolation::RepeatableRead, TpcbVariant::SimpleUpdate);
        let workload = backend.tpcb(&shape).await;
        let mut client = Client::open(backend, &workload, 0).await;
        let mut claims = Vec::new();
        for n in 0..3_456 {
            let mut operation = client.operation(n);
            claims.push(client.commit(&mut operation).await);
        }
        assert_ok(&backend.verify(&workload, &claims).await, "long");
        assert_eq!(workload.clean(&client.conn).await.unwrap().rows, 3_457);
    });
}

/// Two transactions of one branch meet: on DSQL at COMMIT, on PostgreSQL at the
/// row, where the second one waits.
#[test]
fn two_transactions_of_one_branch_meet() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            let workload = backend
                .tpcb(&params(isolation, TpcbVariant::TpcbLike))
                .await;
            let mut one = Client::open(backend, &workload, 0).await;
            let mut two = Client::open(backend, &workload, 1).await;
            let (monitor, _wire) = backend.connect().await;
            let (mut first, mut second) = (one.operation(0), two.operation(0));
            one.wire.gate();
            let held = one
                .workload
                .attempt(&one.conn, &one.session, &mut one.writer, &mut first);
            let other = async {
                // All but COMMIT.
                for _ in 0..6 {
                    one.wire.arrival().await;
                    one.wire.act(Action::Pass);
                }
                one.wire.arrival().await;
                let attempt =
                    two.workload
                        .attempt(&two.conn, &two.session, &mut two.writer, &mut second);
                let blocked = async {
                    while backend.locks && !backend.is_blocked(&monitor, &two.wire).await {
                        let span = std::time::Duration::from_millis(2);
                        backend.clock.sleep(span).await;
                    }
                    if backend.locks {
                        one.wire.act(Action::Pass);
                    }
                };
                let (attempt, ()) = tokio::join!(attempt, blocked);
                if !backend.locks {
                    one.wire.act(Action::Pass);
                }
                one.wire.open();
                attempt
            };
            let (a, b) = tokio::join!(held, other);
            let what = format!("{isolation:?}: {a:?} {b:?}");
            let conflict =
                |end: &AttemptEnd| matches!(end, AttemptEnd::Failed(f) if f.is_conflict());
            let committed = |end: &AttemptEnd| matches!(end, AttemptEnd::Committed);
            let mut claims = Vec::new();
            match (backend.locks, isolation) {
                (false, _) => {
                    assert!(conflict(&a.end) && committed(&b.end), "{what}");
                    claims.push(two.workload.claim(&second, Said::Committed));
                    claims.push(one.commit(&mut first).await);
                }
                (true, Isolation::ReadCommitted) => {
                    assert!(committed(&a.end) && committed(&b.end), "{what}");
                    claims.push(one.workload.claim(&first, Said::Committed));
                    claims.push(two.workload.claim(&second, Said::Committed));
                }
                (true, _) => {
                    assert!(committed(&a.end) && conflict(&b.end), "{what}");
                    claims.push(one.workload.claim(&first, Said::Committed));
                    claims.push(two.commit(&mut second).await);
                }
            }
            assert_ok(&backend.verify(&workload, &claims).await, &what);
            crate::backend::end(&one).await;
        }
    });
}

/// On the tables of the real pgbench, where it is installed.
#[test]
fn tables_of_the_real_pgbench() {
    on_postgres(async |backend| {
        let Some(url) = backend.url.as_deref() else {
            return;
        };
        let made = std::process::Command::new("pgbench")
            .args(["-i", "-q", "-s", "1", url])
            .output();
        match made {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(_) => return println!("skipped: no pgbench in PATH"),
        }
        let shape = params(Isolation::RepeatableRead, TpcbVariant::TpcbLike);
        let workload = backend
            .tpcb(&TpcbParams {
                operations: Some(20),
                measure_s: None,
                ..shape
            })
            .await;
        let claims = run_all(backend, &workload).await;
        assert_ok(&backend.verify(&workload, &claims).await, "pgbench's own");
    });
}
