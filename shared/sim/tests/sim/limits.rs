//! Who may connect, and for how long.

use std::time::Duration;

use sim::{Cluster, ConnectionLimits, FaultPlan};

use crate::common::{Raw, connect, preset, simulated, sql_error, try_connect};

fn limited(limits: ConnectionLimits, clock: clock::Clock) -> Cluster {
    let preset = preset("us-pair-in-region");
    Cluster::with_limits(preset, 1, FaultPlan::default(), clock, limits)
}

#[test]
fn a_thousand_at_once_then_a_hundred_a_second() {
    simulated(async |clock| {
        let cluster = limited(ConnectionLimits::default(), clock);
        let mut open = Vec::new();
        let mut refused = 0;
        let all = (0..1_050).map(|n| try_connect(&cluster, n % 2));
        for opened in futures_util::future::join_all(all).await {
            match opened {
                Ok(client) => open.push(client),
                Err(error) => {
                    refused += 1;
                    assert_eq!(
                        sql_error(&error),
                        (
                            "53400".to_owned(),
                            "Unable to accept connection, rate exceeded.".to_owned()
                        )
                    );
                }
            }
        }
        assert_eq!((open.len(), refused), (1_000, 50));
        clock.sleep(Duration::from_millis(500)).await;
        let all = (0..60).map(|_| try_connect(&cluster, 0));
        let opened = futures_util::future::join_all(all).await;
        assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 50);
    });
}

#[test]
fn a_full_cluster_refuses_until_a_connection_ends() {
    simulated(async |clock| {
        let limits = ConnectionLimits {
            open: 2,
            ..ConnectionLimits::default()
        };
        let cluster = limited(limits, clock);
        let first = connect(&cluster, 0).await;
        let _second = connect(&cluster, 1).await;
        let error = try_connect(&cluster, 0).await.err().unwrap();
        assert_eq!(
            sql_error(&error),
            (
                "53300".to_owned(),
                "Unable to accept connection, too many open connections.".to_owned()
            )
        );
        drop(first);
        clock.sleep(Duration::from_millis(10)).await;
        connect(&cluster, 0).await;
    });
}

#[test]
fn a_connection_lives_an_hour_and_its_transaction_to_its_end() {
    simulated(async |clock| {
        let cluster = limited(ConnectionLimits::default(), clock);
        let mut idle = Raw::login(&cluster, 0).await;
        let mut busy = Raw::login(&cluster, 0).await;
        clock.sleep(Duration::from_secs(3_599)).await;
        assert_eq!(idle.query("SELECT 1").answers().await.len(), 4);
        assert_eq!(busy.query("BEGIN").answers().await, ["BEGIN", "ready T"]);
        clock.sleep(Duration::from_secs(60)).await;
        let last_words = "error FATAL 57P01 simulator: the connection has reached its limit of \
                          60 minutes";
        assert_eq!(idle.receive().await, [last_words, "end"]);
        assert_eq!(busy.query("SELECT 1").answers().await.len(), 4);
        assert_eq!(busy.query("COMMIT").answers().await, ["COMMIT", "ready I"]);
        assert_eq!(busy.receive().await, [last_words, "end"]);
    });
}
