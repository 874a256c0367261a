//! Each kind of fault strikes, is counted, and has its stated effect.

use std::time::Duration;

use sim::{Cluster, FaultPlan, Late, Outage, Slow, Span};
use tokio_postgres::Client;

use crate::common::{cluster, connect, preset, simulated, sql_error, timed, try_connect, us};

/// A cluster whose table has one row, `v` = 0, before any fault of a COMMIT or
/// a statement can strike.
async fn with_row(plan: FaultPlan, clock: clock::Clock) -> (Cluster, Client) {
    let plan = FaultPlan {
        only: Some(Span {
            from_ms: 1_000.0,
            to_ms: 1_000_000.0,
        }),
        ..plan
    };
    let cluster = cluster("us-pair-in-region", plan, clock);
    let client = connect(&cluster, 0).await;
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t VALUES (1, 0)",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    clock
        .sleep_until(clock::Time::from_origin(Duration::from_secs(1)))
        .await;
    (cluster, client)
}

async fn value(client: &Client) -> i32 {
    let row = client
        .query_one("SELECT v FROM t WHERE id = 1", &[])
        .await
        .unwrap();
    row.get(0)
}

async fn write(client: &Client, v: i32) -> Result<(), tokio_postgres::Error> {
    client.batch_execute("BEGIN").await?;
    client
        .batch_execute(&format!("UPDATE t SET v = {v} WHERE id = 1"))
        .await?;
    client.batch_execute("COMMIT").await
}

const UNAVAILABLE: (&str, &str) = ("XX000", "server unavailable");

fn assert_unavailable(error: &tokio_postgres::Error) {
    let (code, message) = sql_error(error);
    assert_eq!((code.as_str(), message.as_str()), UNAVAILABLE);
}

#[test]
fn a_statement_is_unavailable_and_its_block_has_failed() {
    simulated(async |clock| {
        let plan = FaultPlan {
            statement_unavailable: 0.5,
            ..FaultPlan::default()
        };
        let (cluster, client) = with_row(plan, clock).await;
        let (mut begins, mut others) = (0, 0);
        for _ in 0..50 {
            if let Err(error) = client.batch_execute("BEGIN").await {
                assert_unavailable(&error);
                begins += 1;
                // Then there is no block: this is a transaction of its own.
                continue;
            }
            if let Err(error) = client
                .batch_execute("UPDATE t SET v = 7 WHERE id = 1")
                .await
            {
                assert_unavailable(&error);
                others += 1;
                let error = client.batch_execute("SELECT 1").await.unwrap_err();
                assert_eq!(sql_error(&error).0, "25P02");
            }
            client.batch_execute("ROLLBACK").await.unwrap();
        }
        assert!(begins > 10 && others > 5, "{begins} {others}");
        let struck = cluster.faults_struck();
        assert_eq!(struck.statement_unavailable, begins + others);
    });
}

#[test]
fn a_commit_is_unavailable_and_was_not_applied() {
    simulated(async |clock| {
        let plan = FaultPlan {
            commit_unavailable_not_applied: 1.0,
            ..FaultPlan::default()
        };
        let (cluster, client) = with_row(plan, clock).await;
        assert_unavailable(&write(&client, 1).await.unwrap_err());
        assert_eq!(value(&client).await, 0);
        // The implicit transaction of a statement is no exception.
        let update = client.execute("UPDATE t SET v = 2 WHERE id = 1", &[]).await;
        assert_unavailable(&update.unwrap_err());
        assert_eq!(value(&client).await, 0);
        assert_eq!(cluster.faults_struck().commit_unavailable_not_applied, 2);
    });
}

#[test]
fn a_commit_is_unavailable_and_was_applied() {
    simulated(async |clock| {
        let plan = FaultPlan {
            commit_unavailable_applied: 1.0,
            ..FaultPlan::default()
        };
        let (cluster, client) = with_row(plan, clock).await;
        assert_unavailable(&write(&client, 1).await.unwrap_err());
        assert_eq!(value(&client).await, 1);
        assert_eq!(cluster.faults_struck().commit_unavailable_applied, 1);
    });
}

#[test]
fn a_connection_is_lost_before_its_commit() {
    simulated(async |clock| {
        let plan = FaultPlan {
            drop_before_commit: 1.0,
            ..FaultPlan::default()
        };
        let (cluster, client) = with_row(plan, clock).await;
        assert!(write(&client, 1).await.unwrap_err().is_closed());
        let again = connect(&cluster, 1).await;
        clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(value(&again).await, 0);
        assert_eq!(cluster.faults_struck().drop_before_commit, 1);
    });
}

#[test]
fn a_connection_is_lost_after_its_commit() {
    simulated(async |clock| {
        let plan = FaultPlan {
            drop_after_commit: 1.0,
            ..FaultPlan::default()
        };
        let (cluster, client) = with_row(plan, clock).await;
        assert!(write(&client, 1).await.unwrap_err().is_closed());
        let again = connect(&cluster, 1).await;
        assert_eq!(value(&again).await, 1);
        assert_eq!(cluster.faults_struck().drop_after_commit, 1);
    });
}

fn late_by(ms: f64) -> FaultPlan {
    FaultPlan {
        drop_late_commit: 1.0,
        late_ms: Late { min: ms, max: ms },
        ..FaultPlan::default()
    }
}

#[test]
fn a_commit_lands_after_its_client_has_looked_it_up() {
    simulated(async |clock| {
        let (cluster, client) = with_row(late_by(200.0), clock).await;
        assert!(write(&client, 1).await.unwrap_err().is_closed());
        let dropped = clock.now();
        let again = connect(&cluster, 1).await;
        // The look-up does not find it; then it is there after all.
        let mut absent = 0;
        while value(&again).await == 0 {
            absent += 1;
        }
        // A read takes the round trip and the endpoint's part; the snapshot is
        // taken on its arrival.
        let seen = us(clock.now().since(dropped));
        assert!((200_000..203_000).contains(&seen), "{seen}");
        assert!(absent > 50);
        let struck = cluster.faults_struck();
        assert_eq!(
            (struck.drop_late_commit, struck.late_commit_applied),
            (1, 1)
        );
    });
}

#[test]
fn a_late_commit_loses_to_one_that_came_before_it() {
    simulated(async |clock| {
        let (cluster, client) = with_row(late_by(500.0), clock).await;
        assert!(write(&client, 1).await.unwrap_err().is_closed());
        let again = connect(&cluster, 1).await;
        // This one is late too, but was asked for earlier than the first lands.
        assert!(write(&again, 2).await.unwrap_err().is_closed());
        clock.sleep(Duration::from_secs(2)).await;
        let look = connect(&cluster, 0).await;
        assert_eq!(value(&look).await, 1);
        let struck = cluster.faults_struck();
        assert_eq!(
            (struck.late_commit_applied, struck.late_commit_refused),
            (1, 1)
        );
    });
}

#[test]
fn connections_are_refused_by_the_plan() {
    simulated(async |clock| {
        let plan = FaultPlan {
            refuse_too_many: 0.3,
            refuse_rate: 0.3,
            ..FaultPlan::default()
        };
        let cluster = cluster("us-pair-in-region", plan, clock);
        let mut refused = [0, 0];
        for _ in 0..100 {
            match try_connect(&cluster, 0).await {
                Ok(_) => {}
                Err(error) => match sql_error(&error).0.as_str() {
                    "53300" => refused[0] += 1,
                    "53400" => refused[1] += 1,
                    other => panic!("{other}"),
                },
            }
        }
        assert!(refused.iter().all(|count| *count > 15), "{refused:?}");
        let struck = cluster.faults_struck();
        assert_eq!(refused, [struck.refuse_too_many, struck.refuse_rate]);
    });
}

fn outage(endpoint: usize, from_ms: f64, to_ms: f64) -> Outage {
    Outage {
        endpoint,
        from_ms,
        to_ms,
    }
}

#[test]
fn a_slow_endpoint_works_slower_and_the_other_does_not() {
    simulated(async |clock| {
        let plan = FaultPlan {
            slow: vec![Slow {
                endpoint: 0,
                from_ms: 1_000.0,
                to_ms: 10_000.0,
                factor: 10.0,
            }],
            ..FaultPlan::default()
        };
        let (cluster, slow) = with_row(plan, clock).await;
        let quick = connect(&cluster, 1).await;
        let regions = &preset("us-pair-in-region").regions;
        for (client, region, factor) in [(&slow, &regions[0], 10), (&quick, &regions[1], 1)] {
            let (done, took) = timed(clock, client.simple_query("SELECT 1")).await;
            done.unwrap();
            assert_eq!(us(took), region.round_trip.us + factor * region.select1.us);
        }
        assert_eq!(cluster.faults_struck().slow, 1);
    });
}

#[test]
fn a_frozen_endpoint_answers_when_it_thaws() {
    simulated(async |clock| {
        let plan = FaultPlan {
            frozen: vec![outage(0, 1_000.0, 5_000.0)],
            ..FaultPlan::default()
        };
        let (cluster, client) = with_row(plan, clock).await;
        let (done, took) = timed(clock, client.simple_query("SELECT 1")).await;
        done.unwrap();
        let region = &preset("us-pair-in-region").regions[0];
        assert_eq!(
            us(took),
            4_000_000 + region.round_trip.us / 2 + region.select1.us
        );
        assert!(cluster.faults_struck().frozen > 0);
    });
}

#[test]
fn a_lost_endpoint_drops_its_connections_and_refuses_new_ones() {
    simulated(async |clock| {
        let plan = FaultPlan {
            lost: vec![outage(0, 2_000.0, 3_000.0)],
            ..FaultPlan::default()
        };
        let (cluster, client) = with_row(plan, clock).await;
        let other = connect(&cluster, 1).await;
        client.batch_execute("BEGIN").await.unwrap();
        client
            .batch_execute("UPDATE t SET v = 1 WHERE id = 1")
            .await
            .unwrap();
        // The COMMIT is on its way when the endpoint goes.
        let leaves = 2_000_000 - preset("us-pair-in-region").regions[0].round_trip.us / 2;
        clock
            .sleep_until(clock::Time::from_origin(Duration::from_micros(
                leaves - 100,
            )))
            .await;
        let lost = client.batch_execute("COMMIT").await.unwrap_err();
        assert!(lost.is_closed());
        assert_eq!(
            cluster.dial(0).unwrap_err().kind(),
            std::io::ErrorKind::ConnectionRefused
        );
        assert_eq!(value(&other).await, 0);
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(value(&connect(&cluster, 0).await).await, 0);
        assert_eq!(cluster.faults_struck().lost, 2);
    });
}

#[test]
fn the_same_seed_gives_the_same_events() {
    let plan = FaultPlan {
        statement_unavailable: 0.05,
        commit_unavailable_not_applied: 0.05,
        commit_unavailable_applied: 0.05,
        drop_before_commit: 0.05,
        drop_after_commit: 0.05,
        drop_late_commit: 0.05,
        refuse_rate: 0.1,
        ..FaultPlan::default()
    };
    let trace = |seed: u64| {
        let plan = plan.clone();
        simulated(async move |clock| {
            let cluster = Cluster::new(preset("us-pair-in-region"), seed, plan, clock);
            let setup = loop {
                let Ok(client) = try_connect(&cluster, 0).await else {
                    continue;
                };
                let _ = client
                    .batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
                    .await;
                let _ = client.batch_execute("INSERT INTO t VALUES (1, 0)").await;
                if client
                    .query_one("SELECT v FROM t WHERE id = 1", &[])
                    .await
                    .is_ok()
                {
                    break client;
                }
            };
            drop(setup);
            let writer = async |number: usize| {
                let mut events = Vec::new();
                let mut client = None;
                for turn in 0..30 {
                    if client.as_ref().is_none_or(Client::is_closed) {
                        client = try_connect(&cluster, number % 2).await.ok();
                    }
                    let event = match &client {
                        None => "refused".to_owned(),
                        Some(client) => match write(client, turn).await {
                            Ok(()) => "ok".to_owned(),
                            Err(error) => {
                                let _ = client.batch_execute("ROLLBACK").await;
                                error.to_string()
                            }
                        },
                    };
                    events.push((clock.now().as_us(), event));
                }
                events
            };
            let events = futures_util::future::join_all((0..8).map(writer)).await;
            (events, cluster.faults_struck())
        })
    };
    let (events, struck) = trace(11);
    assert!(struck.drop_late_commit > 0 && struck.commit_unavailable_applied > 0);
    assert_eq!((events.clone(), struck), trace(11));
    assert_ne!(events, trace(12).0);
}
