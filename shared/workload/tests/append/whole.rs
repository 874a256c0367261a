//! A whole rep: prepare, append from several connections, verify, clean.

use plan::Trips;
use workload::append::{Append, stream_ids, verify_streams};
use workload::{Claim, Workload};

use crate::backend::{Backend, Client, assert_ok, on_every_backend, params};

pub const ALL_TRIPS: [Trips; 3] = [Trips::Stepwise, Trips::Pipelined, Trips::Sticky];

/// Runs every writer to the end of its share, all at once.
async fn run_all(backend: &Backend, append: &Append) -> Vec<Claim> {
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..append.writers() {
        let mut client = Client::open(backend, append, index).await;
        tasks.spawn_local(async move {
            let mut claims = Vec::new();
            for n in 0.. {
                let Some(mut operation) = client.workload.operation(&mut client.writer, n) else {
                    return claims;
                };
                claims.push(client.commit(&mut operation).await);
            }
            claims
        });
    }
    tasks.join_all().await.concat()
}

#[test]
fn a_rep_from_prepare_to_clean() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            for trips in ALL_TRIPS {
                let append = backend
                    .append(plan::AppendParams {
                        writers: 3,
                        streams: 2,
                        batch: 4,
                        records: Some(31),
                        measure_s: None,
                        ..params(trips, isolation)
                    })
                    .await;
                let local = tokio::task::LocalSet::new();
                let claims = local.run_until(run_all(backend, &append)).await;
                // 31 records over 3 writers: 11, 10 and 10, so 3 batches each.
                assert_eq!(claims.len(), 2 * 3 * 3);
                let verified = backend.verify(&append, &claims).await;
                assert_ok(&verified, &format!("{trips:?} at {isolation:?}"));
                assert_eq!(verified.step.rows, 62);

                let (conn, _wire) = backend.connect().await;
                let ids = append.stream_ids();
                let all = stream_ids(&conn).await.unwrap();
                assert!(ids.iter().all(|id| all.contains(id)));
                let alone = verify_streams(&conn, &ids, backend.clock).await.unwrap();
                assert_ok(&alone, "without claims");
                assert_eq!(alone.step.rows, 62);

                assert_eq!(append.clean(&conn).await.unwrap().rows, 64);
                assert_eq!(append.clean(&conn).await.unwrap().rows, 0);
                let gone = backend.verify(&append, &claims).await;
                assert!(!gone.ok);
                assert_eq!(gone.problems.len(), 20);
            }
        }
    });
}

#[test]
fn long_chains_are_read_and_deleted_in_pages() {
    on_every_backend(async |backend| {
        let append = backend
            .append(plan::AppendParams {
                writers: 1,
                batch: 100,
                records: Some(2_345),
                measure_s: None,
                ..params(Trips::Pipelined, plan::Isolation::RepeatableRead)
            })
            .await;
        let mut client = Client::open(backend, &append, 0).await;
        let mut claims = Vec::new();
        for n in 0..24 {
            let mut operation = client.operation(n);
            claims.push(client.commit(&mut operation).await);
        }
        assert!(append.operation(&mut client.writer, 24).is_none());
        let verified = backend.verify(&append, &claims).await;
        assert_ok(&verified, "in pages");
        assert_eq!(verified.step.rows, 2_345);
        assert_eq!(append.clean(&client.conn).await.unwrap().rows, 2_346);
    });
}

#[test]
fn large_payloads_make_small_pages() {
    on_every_backend(async |backend| {
        let append = backend
            .append(plan::AppendParams {
                writers: 1,
                batch: 9,
                records: Some(20),
                payload_bytes: 1_000_000,
                measure_s: None,
                ..params(Trips::Stepwise, plan::Isolation::RepeatableRead)
            })
            .await;
        let mut client = Client::open(backend, &append, 0).await;
        let mut claims = Vec::new();
        for n in 0..3 {
            let mut operation = client.operation(n);
            claims.push(client.commit(&mut operation).await);
        }
        let verified = backend.verify(&append, &claims).await;
        assert_ok(&verified, "in small pages");
        assert_eq!(verified.step.rows, 20);
        assert_eq!(append.clean(&client.conn).await.unwrap().rows, 21);
    });
}

#[test]
fn many_streams_are_made_in_steps() {
    on_every_backend(async |backend| {
        let append = Append::new(
            &plan::AppendParams {
                streams: 1_100,
                writers: 1,
                ..params(Trips::Sticky, plan::Isolation::RepeatableRead)
            },
            // So many ids are not handed out to a test by default.
            -backend.id_base() - 1_100,
            7,
            backend.clock,
        );
        let (conn, _wire) = backend.connect().await;
        assert_eq!(append.prepare(&conn).await.unwrap().rows, 1_100);
        assert_eq!(append.prepare(&conn).await.unwrap().rows, 1_100);
        let verified = backend.verify(&append, &[]).await;
        assert_ok(&verified, "empty streams");
        assert_eq!(append.clean(&conn).await.unwrap().rows, 1_100);
    });
}

#[test]
fn preparing_and_cleaning_may_be_repeated_from_anywhere() {
    on_every_backend(async |backend| {
        let append = Append::new(
            &params(Trips::Stepwise, plan::Isolation::RepeatableRead),
            backend.id_base(),
            7,
            backend.clock,
        );
        let (conn, _wire) = backend.connect().await;
        // On a database that nobody has prepared there is not even a table.
        assert_eq!(append.clean(&conn).await.unwrap().rows, 0);
        append.prepare(&conn).await.unwrap();
        append.prepare(&conn).await.unwrap();
        assert_eq!(append.clean(&conn).await.unwrap().rows, 1);
        append.prepare(&conn).await.unwrap();
        let mut client = Client::open(backend, &append, 0).await;
        let mut operation = client.operation(0);
        let claim = client.commit(&mut operation).await;
        // Once there is load it is no longer a beginning.
        let refused = append.prepare(&conn).await.unwrap_err();
        assert!(
            refused.message.contains("hold records already"),
            "{refused}"
        );
        assert_ok(&backend.verify(&append, &[claim]).await, "one append");
        assert_eq!(append.clean(&conn).await.unwrap().rows, 2);
    });
}
