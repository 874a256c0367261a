//! Whole reps: prepare, orders and transfers from several connections, verify,
//! clean.

use plan::{Distribution, Isolation, OrderTransferParams};
use workload::order_transfer::OrderTransfer;
use workload::{AttemptEnd, Claim, Said, Workload};

use crate::backend::{Backend, Client, assert_ok, on_every_backend, params};

/// Runs every client to the end of its share, all at once. Claims and how many
/// were rejected as duplicates.
pub async fn run_all(backend: &Backend, workload: &OrderTransfer) -> (Vec<Claim>, Vec<AttemptEnd>) {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let mut tasks = tokio::task::JoinSet::new();
            for index in 0..workload.writers() {
                let mut client = Client::open(backend, workload, index).await;
                tasks.spawn_local(async move {
                    let mut ended = Vec::new();
                    for n in 0.. {
                        let operation = client.workload.operation(&mut client.writer, n);
                        let Some(mut operation) = operation else {
                            break;
                        };
                        ended.push(client.finish(&mut operation).await);
                    }
                    ended
                });
            }
            let ended = tasks.join_all().await.concat();
            let (ends, claims) = ended.into_iter().unzip();
            (claims, ends)
        })
        .await
}

pub fn rejected(ends: &[AttemptEnd], why: &str) -> usize {
    ends.iter()
        .filter(|end| matches!(end, AttemptEnd::Rejected(rule) if *rule == why))
        .count()
}

pub fn committed(claims: &[Claim]) -> usize {
    claims
        .iter()
        .filter(|claim| claim.said == Said::Committed)
        .count()
}

#[test]
fn a_rep_from_prepare_to_clean() {
    on_every_backend(async |backend| {
        for &isolation in &backend.levels {
            let workload = backend
                .orders(&OrderTransferParams {
                    concurrency: 4,
                    operations: Some(120),
                    distribution: Distribution::Hot,
                    products: 5,
                    accounts: 7,
                    inventory_shards: 3,
                    duplicate_pct: 20.0,
                    measure_s: None,
                    ..params(isolation)
                })
                .await;
            let (claims, ends) = run_all(backend, &workload).await;
            assert_eq!(claims.len(), 120);
            let duplicates = rejected(&ends, "duplicate");
            assert!(duplicates > 5, "{duplicates}");
            let committed = committed(&claims);
            assert_eq!(committed + duplicates, 120);
            let what = format!("{isolation:?}");
            let verified = backend.verify(&workload, &claims).await;
            assert_ok(&verified, &what);
            // Twice as good: reading changes nothing.
            let again = backend.verify(&workload, &claims).await;
            assert_eq!(again.step.rows, verified.step.rows);

            let (conn, _wire) = backend.connect().await;
            let rows = verified.step.rows;
            assert!(rows > 5 * 3 + 7 + committed as u64);
            assert_eq!(workload.clean(&conn).await.unwrap().rows, rows);
            assert_eq!(workload.clean(&conn).await.unwrap().rows, 0);
            let gone = backend.verify(&workload, &claims).await;
            assert!(!gone.ok);
            assert_eq!(gone.problems.len(), 20);
        }
    });
}

#[test]
fn preparing_and_cleaning_may_be_repeated_from_anywhere() {
    on_every_backend(async |backend| {
        let shape = OrderTransferParams {
            products: 50,
            inventory_shards: 21,
            accounts: 1_001,
            ..params(Isolation::RepeatableRead)
        };
        let workload = OrderTransfer::new(&shape, backend.id_base(), 7, backend.clock);
        let other = OrderTransfer::new(&shape, backend.id_base(), 7, backend.clock);
        let (conn, _wire) = backend.connect().await;
        // On a database that nobody has prepared there is not even a table.
        assert_eq!(workload.clean(&conn).await.unwrap().rows, 0);
        for workload in [&workload, &workload, &other] {
            assert_eq!(workload.prepare(&conn).await.unwrap().rows, 2_051);
        }
        assert_ok(&backend.verify(&workload, &[]).await, "nothing but stock");
        assert_eq!(workload.clean(&conn).await.unwrap().rows, 2_051);
        workload.prepare(&conn).await.unwrap();
        let mut client = Client::open(backend, &workload, 0).await;
        let mut operation = client.operation(0);
        let claim = client.commit(&mut operation).await;
        // Once there is load it is no longer a beginning.
        let refused = workload.prepare(&conn).await.unwrap_err();
        assert!(refused.message.contains("already"), "{refused}");
        assert_ok(&backend.verify(&workload, &[claim]).await, "one operation");
        workload.clean(&conn).await.unwrap();
        // Reps do not meet.
        assert_ok(&backend.verify(&other, &[]).await, "the other rep");
        assert_eq!(other.clean(&conn).await.unwrap().rows, 2_051);
    });
}

/// More rows of one product than DSQL deletes at once.
#[test]
fn stock_of_thousands_of_rows_is_made_and_deleted_in_steps() {
    on_every_backend(async |backend| {
        let workload = backend
            .orders(&OrderTransferParams {
                products: 2,
                inventory_shards: 4_321,
                ..params(Isolation::RepeatableRead)
            })
            .await;
        let (conn, _wire) = backend.connect().await;
        assert_ok(&backend.verify(&workload, &[]).await, "many rows");
        assert_eq!(workload.clean(&conn).await.unwrap().rows, 8_645);
    });
}

#[test]
fn many_effects_are_read_and_deleted_in_pages() {
    on_every_backend(async |backend| {
        let workload = backend
            .orders(&OrderTransferParams {
                concurrency: 1,
                ..params(Isolation::RepeatableRead)
            })
            .await;
        let mut client = Client::open(backend, &workload, 0).await;
        let mut claims = Vec::new();
        for n in 0..2_100 {
            let mut operation = client.operation(n);
            claims.push(client.commit(&mut operation).await);
        }
        let verified = backend.verify(&workload, &claims).await;
        assert_ok(&verified, "in pages");
        assert!(verified.step.rows > 4_000);
        let rows = workload.clean(&client.conn).await.unwrap().rows;
        assert_eq!(rows, verified.step.rows);
    });
}

#[test]
fn tables_of_another_shape_are_refused() {
    on_every_backend(async |backend| {
        backend
            .sql("CREATE TABLE orders (id bigint PRIMARY KEY, customer text)")
            .await;
        let workload = OrderTransfer::new(
            &params(Isolation::RepeatableRead),
            backend.id_base(),
            7,
            backend.clock,
        );
        let (conn, _wire) = backend.connect().await;
        let refused = workload.prepare(&conn).await.unwrap_err();
        assert_eq!(
            refused.message,
            "there is a table orders with other columns: it has (id int8, customer text), \
             order_transfer needs (rep int8, id int8, items int8); rename it, or use another \
             database"
        );
    });
}

#[test]
fn writers_that_never_reported_may_have_done_anything_but_halves() {
    on_every_backend(async |backend| {
        let workload = backend
            .orders(&OrderTransferParams {
                operations: Some(20),
                measure_s: None,
                ..params(Isolation::RepeatableRead)
            })
            .await;
        let (claims, _) = run_all(backend, &workload).await;
        let first: Vec<Claim> = claims.into_iter().filter(|c| c.op >> 32 == 0).collect();
        assert_eq!(first.len(), 10);
        let (conn, _wire) = backend.connect().await;
        let verified = workload.verify(&conn, &first, &[1]).await.unwrap();
        assert_ok(&verified, "writer 1 is missing");
        let accused = workload.verify(&conn, &first, &[]).await.unwrap();
        assert_eq!(accused.problems.len(), 10);
        assert!(
            accused.problems[0].ends_with("is here, and nobody reported it"),
            "{:?}",
            accused.problems
        );
    });
}
