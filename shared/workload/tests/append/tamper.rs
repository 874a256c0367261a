//! Chains that somebody has laid hands on: each is caught and named, in the
//! database and in an exported file.

use plan::{AppendParams, Isolation, Trips};
use workload::append::{export, verify_exported, verify_streams};
use workload::{Claim, Workload};

use crate::backend::{Backend, Client, assert_ok, on_every_backend, on_postgres, params};

/// A stream with four operations of two records, and what was said about them.
async fn chain(backend: &Backend) -> (Client, Vec<Claim>) {
    let append = backend
        .append(AppendParams {
            batch: 2,
            ..params(Trips::Pipelined, Isolation::RepeatableRead)
        })
        .await;
    let mut client = Client::open(backend, &append, 0).await;
    let mut claims = Vec::new();
    for n in 0..4 {
        let mut operation = client.operation(n);
        claims.push(client.commit(&mut operation).await);
    }
    (client, claims)
}

/// Changes a chain by SQL; `{id}` is its stream. Every problem found must be
/// about the stream, and one must say each of the expected things.
async fn tampered(backend: &Backend, sql: &[&str], expected: &[&str]) {
    let (client, claims) = chain(backend).await;
    let id = client.workload.stream_id(0);
    for statement in sql {
        backend
            .sql(&statement.replace("{id}", &id.to_string()))
            .await;
    }
    let verified = backend.verify(&client.workload, &claims).await;
    assert!(!verified.ok, "{sql:?}");
    for problem in &verified.problems {
        assert!(
            problem.starts_with(&format!("stream {id}, seq ")),
            "{problem}"
        );
    }
    for what in expected {
        assert!(
            verified
                .problems
                .iter()
                .any(|problem| problem.contains(what)),
            "{sql:?}: no `{what}` in {:#?}",
            verified.problems
        );
    }
    client.workload.clean(&client.conn).await.unwrap();
}

#[test]
fn whatever_is_changed_is_named() {
    on_every_backend(async |backend| {
        let here = "stream_id = {id} AND";
        tampered(
            backend,
            &[&format!(
                "UPDATE records SET payload = '\\x00'::bytea WHERE {here} seq = 3"
            )],
            &[
                "seq 3: hash is",
                "seq 3: the payload is too short to name its operation",
            ],
        )
        .await;
        tampered(
            backend,
            &[&format!(
                "UPDATE records SET prev_hash = hash WHERE {here} seq = 3"
            )],
            &["seq 3: prev_hash is", "seq 3: hash is"],
        )
        .await;
        tampered(
            backend,
            &[&format!(
                "UPDATE records SET hash = prev_hash WHERE {here} seq = 3"
            )],
            &["seq 3: hash is", "seq 4: prev_hash is"],
        )
        .await;
        tampered(
            backend,
            &["UPDATE streams SET head_seq = 7 WHERE id = {id}"],
            &["seq 8: the last record; the head says that seq 7 is"],
        )
        .await;
        tampered(
            backend,
            &["UPDATE streams SET head_seq = 9 WHERE id = {id}"],
            &["seq 8: the last record; the head says that seq 9 is"],
        )
        .await;
        tampered(
            backend,
            &["UPDATE streams SET head_hash = '\\x11'::bytea WHERE id = {id}"],
            &["seq 8: the head's hash is 11 (1 bytes), the last record's is"],
        )
        .await;
        tampered(
            backend,
            &["DELETE FROM streams WHERE id = {id}"],
            &["seq 8: the stream has no head row"],
        )
        .await;
        tampered(
            backend,
            &[&format!("DELETE FROM records WHERE {here} seq = 4")],
            &[
                "seq 5: seq 4 is missing before it",
                "seq 3: operation 1 has 1 of its 2 records",
            ],
        )
        .await;
        tampered(
            backend,
            &[&format!("DELETE FROM records WHERE {here} seq >= 7")],
            &[
                "seq 6: the last record; the head says that seq 8 is",
                "seq 7: operation 3 was reported committed here with 2 records and is nowhere",
            ],
        )
        .await;
        tampered(
            backend,
            &[
                "INSERT INTO records SELECT stream_id, 9, prev_hash, hash, payload \
                 FROM records WHERE stream_id = {id} AND seq = 8",
            ],
            &[
                "seq 9: prev_hash is",
                "seq 9: record 1 of operation 3 is there twice, first at seq 8",
                "seq 9: the last record; the head says that seq 8 is",
            ],
        )
        .await;
    });
}

#[test]
fn claims_are_held_against_the_chain() {
    on_every_backend(async |backend| {
        let (client, claims) = chain(backend).await;
        let id = client.workload.stream_id(0);
        let check = async |change: &dyn Fn(&mut Vec<Claim>), expected: &[&str]| {
            let mut claims = claims.clone();
            change(&mut claims);
            let verified = backend.verify(&client.workload, &claims).await;
            let expected = expected
                .iter()
                .map(|line| line.replace("{id}", &id.to_string()));
            assert_eq!(verified.problems, expected.collect::<Vec<_>>());
        };
        const UNCLAIMED: &str = "stream {id}, seq 3: operation 1 is here, and nobody reported it";
        check(
            &|claims| claims[1].said = workload::Said::Failed,
            &["stream {id}, seq 3: operation 1 is here, but was reported failed"],
        )
        .await;
        check(
            &|claims| claims[1].at = Some((0, 5)),
            &["stream {id}, seq 3: operation 1 is here, but was reported at seq 5"],
        )
        .await;
        check(
            &|claims| claims[1].op = 9,
            &[
                "stream {id}, seq 3: operation 9 was reported committed here with 2 records and is \
                 nowhere",
                UNCLAIMED,
            ],
        )
        .await;
        check(
            &|claims| claims[1].op = 7 << 32,
            &[
                UNCLAIMED,
                "a claim names operation 30064771072, which this wave does not have",
            ],
        )
        .await;
        check(&|claims| claims.retain(|claim| claim.op != 1), &[UNCLAIMED]).await;
        client.workload.clean(&client.conn).await.unwrap();
    });
}

/// Without the primary key a table can hold a fork; then it is seen too.
#[test]
fn a_fork_is_named() {
    on_postgres(async |backend| {
        let (client, claims) = chain(backend).await;
        let id = client.workload.stream_id(0);
        let (conn, _wire) = backend.connect().await;
        conn.client
            .batch_execute(&format!(
                "CREATE TEMP TABLE records AS SELECT * FROM public.records WHERE stream_id = {id}; \
                 INSERT INTO records SELECT stream_id, seq, prev_hash, '\\x22'::bytea, payload \
                 FROM records WHERE seq = 5"
            ))
            .await
            .unwrap();
        let verified = client.workload.verify(&conn, &claims, &[]).await.unwrap();
        let forks = format!("stream {id}, seq 5: the chain forks: hash ");
        assert!(
            verified
                .problems
                .iter()
                .any(|problem| problem.starts_with(&forks)),
            "{:?}",
            verified.problems
        );
        client.workload.clean(&client.conn).await.unwrap();
    });
}

#[test]
fn an_exported_chain_can_be_checked_without_the_database() {
    on_every_backend(async |backend| {
        let (client, _claims) = chain(backend).await;
        let ids = client.workload.stream_ids();
        let mut file = Vec::new();
        let records = export(&client.conn, &ids, &mut file).await.unwrap();
        assert_eq!(records, 8);
        let verified = verify_exported(&file[..]).unwrap();
        assert_ok(&verified, "as exported");
        assert_eq!(verified.step.rows, 8);

        let text = String::from_utf8(file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 9);
        let without = |line: usize| {
            let mut lines = lines.clone();
            lines.remove(line);
            verify_exported(lines.join("\n").as_bytes())
                .unwrap()
                .problems
        };
        assert!(without(2)[0].contains("seq 4: seq 3 is missing before it"));
        assert!(without(8)[0].contains("seq 8: the stream has no head row"));
        let twice = [&lines[..3], &lines[2..]].concat().join("\n");
        let twice = verify_exported(twice.as_bytes()).unwrap().problems;
        assert!(twice[0].contains("seq 3: is there twice"));
        client.workload.clean(&client.conn).await.unwrap();
    });
}

/// A chain that grows while it is read is read to a head that fits.
#[test]
fn verification_may_run_beside_appends() {
    on_every_backend(async |backend| {
        let (mut client, _claims) = chain(backend).await;
        let ids = client.workload.stream_ids();
        let (reader, mut wire) = backend.connect().await;
        wire.gate();
        let (verified, ()) = tokio::join!(verify_streams(&reader, &ids, backend.clock), async {
            // Between any two of its flights two more records come.
            for n in 4..20 {
                if wire.events.recv().await.is_none() {
                    return;
                }
                let mut operation = client.operation(n);
                client.commit(&mut operation).await;
                wire.act(crate::wire::Action::Pass);
            }
            wire.open();
            wire.act(crate::wire::Action::Pass);
        });
        let verified = verified.unwrap();
        assert_ok(&verified, "beside appends");
        assert!(verified.step.rows > 8);
        client.workload.clean(&client.conn).await.unwrap();
    });
}
