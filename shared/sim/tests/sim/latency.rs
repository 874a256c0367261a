//! Where time passes, and where it does not.

use sim::{Cluster, FaultPlan};

use crate::common::{Raw, cluster, connect, preset, simulated, timed, us};

/// From here to each endpoint and back, in microseconds.
fn round_trips(name: &str) -> Vec<u64> {
    let regions = preset(name).regions.iter();
    regions.map(|region| region.round_trip.us).collect()
}

#[test]
fn select_1_takes_the_round_trip_and_the_endpoints_part() {
    for name in [
        "us-pair-workstation",
        "us-pair-in-region",
        "seoul-in-region",
    ] {
        simulated(async |clock| {
            let cluster = Cluster::new(preset(name), 3, FaultPlan::default(), clock);
            for (endpoint, round_trip) in round_trips(name).into_iter().enumerate() {
                let client = connect(&cluster, endpoint).await;
                let (row, took) = timed(clock, client.simple_query("SELECT 1")).await;
                row.unwrap();
                assert_eq!(us(took), round_trip + cluster.select1_service_us(endpoint));
            }
        });
    }
    let seoul = preset("seoul-in-region");
    assert_eq!(
        seoul.regions[0].round_trip.us + seoul.regions[0].select1.us,
        2_600
    );
}

#[test]
fn begin_and_rollback_take_a_round_trip_each() {
    simulated(async |clock| {
        let cluster = cluster("us-pair-workstation", FaultPlan::default(), clock);
        let client = connect(&cluster, 0).await;
        let (done, took) = timed(clock, client.batch_execute("BEGIN")).await;
        done.unwrap();
        assert_eq!(us(took), round_trips("us-pair-workstation")[0]);
        let (done, took) = timed(clock, client.batch_execute("ROLLBACK")).await;
        done.unwrap();
        assert_eq!(us(took), round_trips("us-pair-workstation")[0]);
    });
}

#[test]
fn two_queries_in_one_flight_take_one_round_trip() {
    simulated(async |clock| {
        let cluster = cluster("us-pair-workstation", FaultPlan::default(), clock);
        let client = connect(&cluster, 0).await;
        let both = async {
            let first = client.simple_query("SELECT 1");
            let second = client.simple_query("SELECT 2");
            tokio::try_join!(first, second)
        };
        let (done, took) = timed(clock, both).await;
        done.unwrap();
        let once = round_trips("us-pair-workstation")[0];
        assert_eq!(us(took), once + 2 * cluster.select1_service_us(0));
    });
}

#[test]
fn opening_takes_three_round_trips() {
    // TCP, TLS and the start-up packet.
    simulated(async |clock| {
        let cluster = cluster("us-pair-workstation", FaultPlan::default(), clock);
        let (_client, took) = timed(clock, connect(&cluster, 1)).await;
        assert_eq!(us(took), 3 * round_trips("us-pair-workstation")[1]);
    });
}

#[test]
fn a_commit_is_seen_half_its_service_time_after_it_arrives() {
    simulated(async |clock| {
        let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
        let (writer, reader) = (connect(&cluster, 0).await, connect(&cluster, 1).await);
        writer
            .batch_execute("CREATE TABLE t (id int PRIMARY KEY)")
            .await
            .unwrap();
        let region = &preset("us-pair-in-region").regions[0];
        let (half_trip, commit) = (region.round_trip.us / 2, region.commit.p50_us);
        writer.batch_execute("BEGIN").await.unwrap();
        writer
            .batch_execute("INSERT INTO t VALUES (1)")
            .await
            .unwrap();
        let begun = clock.now();
        let seen_at = async {
            loop {
                // The snapshot is the query's arrival, half a round trip on.
                let snapshot = us(clock.now().since(begun)) + half_trip;
                if !reader
                    .query("SELECT id FROM t", &[])
                    .await
                    .unwrap()
                    .is_empty()
                {
                    return snapshot;
                }
            }
        };
        let committed = async {
            writer.batch_execute("COMMIT").await.unwrap();
            us(clock.now().since(begun))
        };
        let (seen_at, committed) = tokio::join!(seen_at, committed);
        assert_eq!(committed, 2 * half_trip + commit);
        let adjudicated = half_trip + commit / 2;
        assert!(
            (adjudicated..adjudicated + 4_000).contains(&seen_at),
            "{seen_at}"
        );
    });
}

/// One writer, five awaited statements: what the first report measured.
#[test]
fn whole_appends_have_the_reports_medians() {
    for (endpoint, median_ms) in [(0, 181.0), (1, 126.0)] {
        simulated(async |clock| {
            let preset = preset("us-pair-workstation");
            let cluster = Cluster::new(preset, 5, FaultPlan::default(), clock);
            let client = connect(&cluster, endpoint).await;
            for sql in [
                "CREATE TABLE streams (id int PRIMARY KEY, head int)",
                "CREATE TABLE records (stream int, seq int, PRIMARY KEY (stream, seq))",
                "INSERT INTO streams VALUES (1, 0)",
            ] {
                client.batch_execute(sql).await.unwrap();
            }
            let read = client
                .prepare("SELECT head FROM streams WHERE id = $1")
                .await
                .unwrap();
            let insert = client
                .prepare("INSERT INTO records VALUES (1, $1)")
                .await
                .unwrap();
            let guarded = "UPDATE streams SET head = $1 WHERE id = 1 AND head = $2";
            let update = client.prepare(guarded).await.unwrap();
            let append = async || {
                client.batch_execute("BEGIN").await.unwrap();
                let head: i32 = client.query_one(&read, &[&1_i32]).await.unwrap().get(0);
                client.execute(&insert, &[&(head + 1)]).await.unwrap();
                let moved = client
                    .execute(&update, &[&(head + 1), &head])
                    .await
                    .unwrap();
                assert_eq!(moved, 1);
                client.batch_execute("COMMIT").await.unwrap();
            };
            let mut took = Vec::new();
            for _ in 0..401 {
                took.push(us(timed(clock, append()).await.1));
            }
            took.sort_unstable();
            let median = took[200] as f64 / 1_000.0;
            assert!((median / median_ms - 1.0).abs() < 0.01, "{median} ms");
        });
    }
}

#[test]
fn a_statement_waits_for_the_one_before_it() {
    simulated(async |clock| {
        let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
        let mut raw = Raw::login(&cluster, 0).await;
        raw.query("CREATE TABLE t (id int PRIMARY KEY)")
            .answers()
            .await;
        raw.query("INSERT INTO t VALUES (1)").answers().await;
        let region = &preset("us-pair-in-region").regions[0];
        let begun = clock.now();
        for _ in 0..3 {
            raw.query("SELECT id FROM t WHERE id = 1");
        }
        raw.send().await;
        let half_trip = region.round_trip.us / 2;
        let each = region.read.p50_us;
        for answer in 1..=3 {
            raw.receive().await;
            let at = us(clock.now().since(begun));
            assert_eq!(at, 2 * half_trip + answer * each);
        }
    });
}

#[test]
fn pg_sleep_takes_its_time() {
    simulated(async |clock| {
        let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
        let client = connect(&cluster, 0).await;
        let (slept, took) = timed(clock, client.simple_query("SELECT pg_sleep(1.5)")).await;
        slept.unwrap();
        let round_trip = round_trips("us-pair-in-region")[0];
        assert_eq!(us(took), round_trip + 1_500_000);
    });
}
