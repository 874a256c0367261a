//! Against a real PostgreSQL: the one that FABRIC_TEST_POSTGRES names.

// The lint knows test functions only, not their helpers.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use clock::{Clock, Time, real_runtime};
use fabric_target::{Class, Conn, Kind, Options, SqlFailure, Target};

/// Runs a test with the URL of the PostgreSQL, where there is one.
fn with_postgres(test: impl AsyncFnOnce(&str, Clock)) {
    let Ok(url) = std::env::var("FABRIC_TEST_POSTGRES") else {
        println!("skipped: no PostgreSQL (set FABRIC_TEST_POSTGRES)");
        return;
    };
    let clock = Clock::real();
    real_runtime().unwrap().block_on(test(&url, clock));
}

fn soon(clock: Clock) -> Time {
    clock.now() + Duration::from_secs(20)
}

async fn connect(url: &str, clock: Clock) -> (Target, Conn) {
    let target = Target::from_url(url, clock).unwrap();
    let conn = target.connect(0, soon(clock)).await.unwrap();
    (target, conn)
}

/// The first column of the first row of a query, as text.
async fn value(conn: &Conn, sql: &str) -> String {
    let rows = conn.client.simple_query(sql).await.unwrap();
    rows.iter()
        .find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
        .unwrap_or_default()
}

const SLEEP: &str = "SELECT pg_sleep(60)";

/// Waits until the session with that pid runs [`SLEEP`].
async fn until_asleep(watcher: &Conn, pid: &str, clock: Clock) {
    let asleep = format!(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE pid = {pid} AND state = 'active' AND query = '{SLEEP}'"
    );
    while value(watcher, &asleep).await != "1" {
        clock.sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_session_opens_with_its_settings() {
    with_postgres(async |url, clock| {
        let (target, conn) = connect(url, clock).await;
        assert_eq!(target.kind(), Kind::Postgres);
        assert_eq!((conn.refusals, conn.retire_at), (0, None));
        assert!(conn.took > Duration::ZERO && !conn.is_lost());
        assert_eq!(value(&conn, "SHOW application_name").await, "dsql-fabric");
        let version = target.server_version(&conn).await.unwrap();
        let major: u32 = version.split('.').next().unwrap().parse().unwrap();
        if major >= 14 && cfg!(target_os = "linux") {
            assert_eq!(
                value(&conn, "SHOW client_connection_check_interval").await,
                "1s"
            );
        }
        assert!(target.round_trip(&conn).await.unwrap() < Duration::from_secs(5));
        for level in ["read committed", "REPEATABLE_READ", "SERIALIZABLE"] {
            assert!(target.supports_isolation(level));
        }
        assert!(!target.supports_isolation("chaos"));
    });
}

#[test]
fn who_is_not_known_is_denied_at_once() {
    with_postgres(async |url, clock| {
        let separator = if url.contains('?') { '&' } else { '?' };
        let stranger = format!("{url}{separator}user=nobody_here&password=marked-secret");
        let target = Target::from_url(&stranger, clock).unwrap();
        let failure = target.connect(0, soon(clock)).await.unwrap_err();
        assert_eq!(failure.class, Class::AccessDenied);
        assert!(failure.sqlstate.as_deref().unwrap().starts_with("28"));
        assert!(!format!("{failure:?} {target:?}").contains("marked"));
        assert!(clock.now().since_origin() < Duration::from_secs(10));

        // A server that trusts everybody does not look at passwords.
        let wrong = format!("{url}{separator}password=marked-secret");
        match Target::from_url(&wrong, clock)
            .unwrap()
            .connect(0, soon(clock))
            .await
        {
            Ok(_) => println!("skipped: this PostgreSQL asks for no password"),
            Err(failure) => assert_eq!(failure.sqlstate.as_deref(), Some("28P01")),
        }
    });
}

#[test]
fn a_database_that_is_not_there() {
    with_postgres(async |url, clock| {
        let separator = if url.contains('?') { '&' } else { '?' };
        let other = format!("{url}{separator}dbname=no_such_database");
        let target = Target::from_url(&other, clock).unwrap();
        let failure = target.connect(0, soon(clock)).await.unwrap_err();
        assert_eq!(
            (failure.class, failure.sqlstate.as_deref()),
            (Class::Other, Some("3D000"))
        );
    });
}

#[test]
fn a_killed_backend_is_a_lost_connection() {
    with_postgres(async |url, clock| {
        let (_, victim) = connect(url, clock).await;
        let (_, killer) = connect(url, clock).await;
        let pid = value(&victim, "SELECT pg_backend_pid()").await;
        let (slept, _) = tokio::join!(victim.client.simple_query(SLEEP), async {
            until_asleep(&killer, &pid, clock).await;
            value(&killer, &format!("SELECT pg_terminate_backend({pid})")).await
        });
        let failure = SqlFailure::from_driver(&slept.unwrap_err());
        assert_eq!(
            (failure.class, failure.sqlstate.as_deref()),
            (Class::ConnectionLost, Some("57P01"))
        );
        let next = victim.client.simple_query("SELECT 1").await.unwrap_err();
        let next = SqlFailure::from_driver(&next);
        assert_eq!(next.class, Class::ConnectionLost);
        assert!(next.outcome_unknown_at_commit());
        assert!(victim.is_lost());
    });
}

#[test]
fn an_abandoned_statement_is_cancelled() {
    with_postgres(async |url, clock| {
        let (_, slow) = connect(url, clock).await;
        let (_, watcher) = connect(url, clock).await;
        let pid = value(&slow, "SELECT pg_backend_pid()").await;
        tokio::select! {
            biased;
            _ = slow.client.simple_query(SLEEP) => panic!("it did not sleep"),
            () = until_asleep(&watcher, &pid, clock) => {}
        }
        let asked = clock.now();
        slow.abandon().await;
        let alive = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
        while value(&watcher, &alive).await != "0" {
            assert!(
                clock.now().since(asked) < Duration::from_secs(10),
                "backend lives on"
            );
            clock.sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_cancelled_statement_leaves_the_session_alone() {
    with_postgres(async |url, clock| {
        let (target, conn) = connect(url, clock).await;
        let (_, watcher) = connect(url, clock).await;
        let pid = value(&conn, "SELECT pg_backend_pid()").await;
        let (slept, ()) = tokio::join!(conn.client.simple_query(SLEEP), async {
            until_asleep(&watcher, &pid, clock).await;
            conn.cancel().await;
        });
        let failure = SqlFailure::from_driver(&slept.unwrap_err());
        assert_eq!(
            (failure.class, failure.sqlstate.as_deref()),
            (Class::Other, Some("57014"))
        );
        assert!(!failure.connection_is_gone());
        target.round_trip(&conn).await.unwrap();
    });
}

/// The trap behind the rule that an attempt has committed only when each of
/// its statements has succeeded: the driver takes the answer ROLLBACK to COMMIT
/// for success.
#[test]
fn commit_in_a_failed_block_looks_like_success() {
    with_postgres(async |url, clock| {
        let (_, conn) = connect(url, clock).await;
        let run = async |sql: &str| conn.client.simple_query(sql).await;
        run("CREATE TEMP TABLE once (id int PRIMARY KEY)")
            .await
            .unwrap();
        run("INSERT INTO once VALUES (1)").await.unwrap();
        run("BEGIN").await.unwrap();
        run("INSERT INTO once VALUES (2)").await.unwrap();
        let failure =
            SqlFailure::from_driver(&run("INSERT INTO once VALUES (1)").await.unwrap_err());
        assert_eq!(
            (failure.class, failure.sqlstate.as_deref()),
            (Class::Constraint, Some("23505"))
        );
        assert!(
            failure.message.starts_with("23505: duplicate key value"),
            "{failure}"
        );
        assert!(
            failure
                .message
                .contains("; detail: Key (id)=(1) already exists."),
            "{failure}"
        );
        assert!(
            run("COMMIT").await.is_ok(),
            "the driver now tells the truth: simplify"
        );
        assert_eq!(value(&conn, "SELECT count(*) FROM once").await, "1");
    });
}

#[test]
fn races_have_their_classes() {
    with_postgres(async |url, clock| {
        let (_, a) = connect(url, clock).await;
        let (_, b) = connect(url, clock).await;
        let table = format!("target_race_{}", value(&a, "SELECT pg_backend_pid()").await);
        let run = async |conn: &Conn, sql: &str| {
            conn.client
                .simple_query(&sql.replace("race", &table))
                .await
                .map(drop)
                .map_err(|error| SqlFailure::from_driver(&error))
        };
        run(&a, "CREATE TABLE race (id int PRIMARY KEY, n int)")
            .await
            .unwrap();
        run(&a, "INSERT INTO race VALUES (1, 0), (2, 0)")
            .await
            .unwrap();

        run(
            &a,
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT n FROM race",
        )
        .await
        .unwrap();
        run(&b, "UPDATE race SET n = 1 WHERE id = 1").await.unwrap();
        let lost = run(&a, "UPDATE race SET n = 2 WHERE id = 1")
            .await
            .unwrap_err();
        run(&a, "ROLLBACK").await.unwrap();
        assert_eq!(lost.class, Class::Conflict);
        assert!(lost.is_conflict() && !lost.outcome_unknown_at_commit());

        run(&a, "BEGIN; UPDATE race SET n = 3 WHERE id = 1")
            .await
            .unwrap();
        run(&b, "BEGIN; UPDATE race SET n = 3 WHERE id = 2")
            .await
            .unwrap();
        let (first, second) = tokio::join!(
            run(&a, "UPDATE race SET n = 4 WHERE id = 2"),
            run(&b, "UPDATE race SET n = 4 WHERE id = 1"),
        );
        let victim = first.err().or(second.err()).unwrap();
        assert_eq!(victim.class, Class::Deadlock);
        run(&a, "ROLLBACK").await.unwrap();
        run(&b, "ROLLBACK").await.unwrap();
        run(&a, "DROP TABLE race").await.unwrap();
    });
}

#[test]
fn a_password_can_come_from_elsewhere() {
    with_postgres(async |url, clock| {
        // One in the URL goes first, so this must not disturb.
        let options = Options::new(clock).environment([("PGAPPNAME", "named-by-variable")]);
        let target = Target::from_url(url, options).unwrap();
        let conn = target.connect(0, soon(clock)).await.unwrap();
        assert_eq!(
            value(&conn, "SHOW application_name").await,
            "named-by-variable"
        );
    });
}
