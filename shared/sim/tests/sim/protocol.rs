//! The protocol loop, message by message and through a driver.

use sim::FaultPlan;
use tokio_postgres::SimpleQueryMessage;

use crate::common::{Raw, cluster, connect, simulated, sql_error};

/// A session on a cluster with one table of three rows.
async fn with_table(clock: clock::Clock) -> (sim::Cluster, Raw) {
    let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
    let mut raw = Raw::login(&cluster, 0).await;
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
    ] {
        raw.query(sql).answers().await;
    }
    (cluster, raw)
}

const OC000: &str = "error ERROR 40001 change conflicts with another transaction (OC000)";

#[test]
fn start_up_says_what_dsql_says() {
    simulated(async |clock| {
        let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
        let mut raw = Raw::new(cluster.dial(0).unwrap());
        raw.start_up(&[("user", "admin"), ("application_name", "test")]);
        let answers = raw.answers().await;
        assert_eq!(answers[0], "authenticated");
        for expected in [
            "server_version = 16.15",
            "client_encoding = UTF8",
            "TimeZone = UTC",
            "application_name = test",
            "session_authorization = admin",
            "key",
            "ready I",
        ] {
            assert!(answers.iter().any(|line| line == expected), "{expected}");
        }
    });
}

#[test]
fn start_up_refuses_what_it_cannot_serve() {
    simulated(async |clock| {
        let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
        let refused = async |parameters: &[(&str, &str)]| {
            let mut raw = Raw::new(cluster.dial(0).unwrap());
            raw.start_up(parameters);
            raw.answers().await
        };
        assert_eq!(
            refused(&[("user", "admin"), ("database", "shop")]).await,
            ["error FATAL 3D000 database \"shop\" does not exist", "end"]
        );
        assert_eq!(
            refused(&[("database", "postgres")]).await,
            [
                "error FATAL 28000 no PostgreSQL user name specified in startup packet",
                "end"
            ]
        );
        let sent = async |bytes: &[u8]| {
            let mut raw = Raw::new(cluster.dial(0).unwrap());
            raw.out.extend_from_slice(bytes);
            raw.answers().await
        };
        assert_eq!(
            sent(b"GET / HTTP/1.1\r\n\r\n").await,
            ["error FATAL 08P01 invalid length of startup packet", "end"]
        );
        assert_eq!(
            sent(b"\0\0\0\x08\0\x02\0\0").await,
            [
                "error FATAL 0A000 unsupported frontend protocol 2.0: server supports 3.0 to 3.0",
                "end"
            ]
        );
        // A cancel request is ignored, as DSQL does.
        let cancel = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02";
        assert_eq!(sent(cancel).await, ["end"]);
    });
}

#[test]
fn a_script_is_one_transaction_and_stops_at_the_first_error() {
    simulated(async |clock| {
        let (_cluster, mut raw) = with_table(clock).await;
        let script = "INSERT INTO t VALUES (4, 40); SELECT count(*) FROM t; \
                      INSERT INTO t VALUES (1, 1); SELECT 1";
        let answers = raw.query(script).answers().await;
        assert_eq!(answers[0], "INSERT 0 1");
        assert_eq!(answers[2..4], ["row [4]", "SELECT 1"]);
        assert!(
            answers[4].starts_with("error ERROR 23505"),
            "{}",
            answers[4]
        );
        assert_eq!(answers[5..], ["ready I"]);
        let answers = raw.query("SELECT count(*) FROM t").answers().await;
        assert_eq!(answers[1..], ["row [3]", "SELECT 1", "ready I"]);
        // Nothing runs when any of it does not parse.
        let answers = raw
            .query("INSERT INTO t VALUES (5, 5); SELEC")
            .answers()
            .await;
        assert!(
            answers[0].starts_with("error ERROR 42601"),
            "{}",
            answers[0]
        );
        assert_eq!(answers[1..], ["ready I"]);
        assert_eq!(raw.query("").answers().await, ["empty", "ready I"]);
        assert_eq!(raw.query(" ; -- x").answers().await, ["empty", "ready I"]);
    });
}

#[test]
fn a_block_that_failed_stays_failed_until_it_ends() {
    simulated(async |clock| {
        let (_cluster, mut raw) = with_table(clock).await;
        assert_eq!(raw.query("BEGIN").answers().await, ["BEGIN", "ready T"]);
        let answers = raw.query("SELECT 1 / 0").answers().await;
        assert_eq!(answers, ["error ERROR 22012 division by zero", "ready E"]);
        let answers = raw.query("SELECT 1").answers().await;
        assert!(
            answers[0].starts_with("error ERROR 25P02"),
            "{}",
            answers[0]
        );
        assert_eq!(answers[1], "ready E");
        assert_eq!(raw.query("COMMIT").answers().await, ["ROLLBACK", "ready I"]);
    });
}

#[test]
fn an_error_of_the_protocol_fails_the_block_too() {
    simulated(async |clock| {
        let (_cluster, mut raw) = with_table(clock).await;
        raw.query("BEGIN; INSERT INTO t VALUES (4, 4)")
            .answers()
            .await;
        let answers = raw.bind("", "nowhere", &[]).sync().answers().await;
        assert_eq!(
            answers,
            [
                "error ERROR 26000 prepared statement \"nowhere\" does not exist",
                "ready E"
            ]
        );
        assert_eq!(raw.query("COMMIT").answers().await, ["ROLLBACK", "ready I"]);
    });
}

#[test]
fn the_extended_protocol_answers_step_by_step() {
    simulated(async |clock| {
        let (_cluster, mut raw) = with_table(clock).await;
        raw.parse("s", "SELECT id, v FROM t WHERE id >= $1 ORDER BY id")
            .describe(b'S', "s")
            .bind("", "s", &["2"])
            .describe(b'P', "")
            .execute("", 0)
            .close(b'S', "s")
            .bind("", "s", &["2"])
            .execute("", 0)
            .sync();
        let answers = raw.answers().await;
        assert_eq!(
            answers,
            [
                "parsed",
                "parameters [23]",
                "columns [id:23 v:23]",
                "bound",
                "columns [id:23 v:23]",
                "row [2 20]",
                "row [3 30]",
                "SELECT 2",
                "closed",
                // The rest is skipped up to Sync.
                "error ERROR 26000 prepared statement \"s\" does not exist",
                "ready I",
            ]
        );
    });
}

#[test]
fn a_portal_is_fetched_in_parts() {
    simulated(async |clock| {
        let (_cluster, mut raw) = with_table(clock).await;
        raw.query("BEGIN").answers().await;
        raw.parse("", "SELECT id FROM t ORDER BY id")
            .bind("p", "", &[]);
        for _ in 0..3 {
            raw.execute("p", 2);
        }
        let answers = raw.sync().answers().await;
        assert_eq!(
            answers,
            [
                "parsed",
                "bound",
                "row [1]",
                "row [2]",
                "suspended",
                "row [3]",
                "SELECT 1",
                "SELECT 0",
                "ready T",
            ]
        );
        // It ends with its transaction.
        raw.query("COMMIT").answers().await;
        let answers = raw.execute("p", 0).sync().answers().await;
        assert_eq!(answers[0], "error ERROR 34000 portal \"p\" does not exist");
    });
}

#[test]
fn empty_and_wrong_statements_in_the_extended_protocol() {
    simulated(async |clock| {
        let (_cluster, mut raw) = with_table(clock).await;
        raw.parse("", "")
            .bind("", "", &[])
            .describe(b'P', "")
            .execute("", 0);
        assert_eq!(
            raw.sync().answers().await,
            ["parsed", "bound", "no data", "empty", "ready I"]
        );
        raw.parse("", "SELECT $1::int")
            .bind("", "", &[])
            .execute("", 0);
        assert_eq!(
            raw.sync().answers().await,
            [
                "parsed",
                "error ERROR 08P01 bind message supplies 0 parameters, but prepared statement \
                 \"\" requires 1",
                "ready I"
            ]
        );
        raw.parse("twice", "SELECT 1").parse("twice", "SELECT 1");
        assert_eq!(
            raw.sync().answers().await,
            [
                "parsed",
                "error ERROR 42P05 prepared statement \"twice\" already exists",
                "ready I"
            ]
        );
        raw.parse("", "SELECT 'x").sync();
        assert!(raw.answers().await[0].starts_with("error ERROR 42601"));
    });
}

#[test]
fn answers_leave_at_flush_before_sync() {
    simulated(async |clock| {
        let (_cluster, mut raw) = with_table(clock).await;
        raw.parse("", "SELECT 1").flush().send().await;
        assert_eq!(raw.message().await, "parsed");
        raw.bind("", "", &[]).execute("", 0).sync();
        assert_eq!(
            raw.answers().await,
            ["bound", "row [1]", "SELECT 1", "ready I"]
        );
    });
}

#[test]
fn function_calls_and_copies_are_refused() {
    simulated(async |clock| {
        let (_cluster, mut raw) = with_table(clock).await;
        raw.out.extend_from_slice(b"F\0\0\0\x04");
        let answers = raw.answers().await;
        assert!(answers[0].starts_with("error ERROR 0A000 simulator:"));
        assert_eq!(answers[1], "ready I");
        let answers = raw.query("COPY t FROM STDIN").answers().await;
        assert!(
            answers[0].starts_with("error ERROR 0A000"),
            "{}",
            answers[0]
        );
        // What a driver still sends after it is ignored.
        raw.out.extend_from_slice(b"d\0\0\0\x05xc\0\0\0\x04");
        assert_eq!(raw.query("").answers().await, ["empty", "ready I"]);
    });
}

/// Two sessions that will both write row 1; the other one commits first.
async fn losing(cluster: &sim::Cluster, raw: &mut Raw, begin: &str) {
    raw.query(begin).answers().await;
    let mut other = Raw::login(cluster, 1).await;
    let answers = other
        .query("UPDATE t SET v = 0 WHERE id = 1")
        .answers()
        .await;
    assert_eq!(answers, ["UPDATE 1", "ready I"]);
}

#[test]
fn a_lost_race_is_answered_at_commit() {
    simulated(async |clock| {
        let (cluster, mut raw) = with_table(clock).await;
        losing(&cluster, &mut raw, "BEGIN; UPDATE t SET v = 1 WHERE id = 1").await;
        assert_eq!(raw.query("COMMIT").answers().await, [OC000, "ready I"]);
        // In one message with what is after it, which does not run.
        losing(&cluster, &mut raw, "BEGIN").await;
        let answers = raw.query("UPDATE t SET v = 2 WHERE id = 1; COMMIT; SELECT 1");
        assert_eq!(answers.answers().await, ["UPDATE 1", OC000, "ready I"]);
        // In one Sync.
        losing(&cluster, &mut raw, "BEGIN").await;
        raw.parse("", "UPDATE t SET v = 3 WHERE id = 1")
            .bind("", "", &[])
            .execute("", 0);
        raw.parse("", "COMMIT").bind("", "", &[]).execute("", 0);
        raw.parse("", "SELECT 1").bind("", "", &[]).execute("", 0);
        assert_eq!(
            raw.sync().answers().await,
            [
                "parsed", "bound", "UPDATE 1", "parsed", "bound", OC000, "ready I"
            ]
        );
    });
}

#[test]
fn an_implicit_commit_that_fails_is_never_shown_as_success() {
    simulated(async |clock| {
        let (cluster, mut raw) = with_table(clock).await;
        // Both arrive while neither has been decided; the other one is first.
        let mut other = Raw::login(&cluster, 0).await;
        let update = "UPDATE t SET v = v + 1 WHERE id = 1";
        raw.parse("u", update).sync().answers().await;
        other.query(update).send().await;
        raw.bind("", "u", &[]).execute("", 0).sync().send().await;
        assert_eq!(other.receive().await, ["UPDATE 1", "ready I"]);
        assert_eq!(raw.receive().await, ["bound", OC000, "ready I"]);
        // The same with a Sync that comes later than its Execute.
        other.query(update).send().await;
        raw.bind("", "u", &[]).execute("", 0).send().await;
        assert_eq!(other.receive().await, ["UPDATE 1", "ready I"]);
        raw.sync().send().await;
        assert_eq!(raw.receive().await, ["bound", OC000, "ready I"]);
        // The same in a simple Query.
        other.query(update).send().await;
        raw.query(update).send().await;
        assert_eq!(other.receive().await, ["UPDATE 1", "ready I"]);
        assert_eq!(raw.receive().await, [OC000, "ready I"]);
    });
}

#[test]
fn everything_up_to_sync_is_one_implicit_transaction() {
    simulated(async |clock| {
        let (_cluster, mut raw) = with_table(clock).await;
        for insert in ["INSERT INTO t VALUES (4, 4)", "INSERT INTO t VALUES (1, 1)"] {
            raw.parse("", insert).bind("", "", &[]).execute("", 0);
        }
        let answers = raw.sync().answers().await;
        assert_eq!(answers[2], "INSERT 0 1");
        assert!(
            answers[5].starts_with("error ERROR 23505"),
            "{}",
            answers[5]
        );
        let answers = raw.query("SELECT count(*) FROM t").answers().await;
        assert_eq!(answers[1], "row [3]");
    });
}

#[test]
fn a_driver_reads_and_writes() {
    simulated(async |clock| {
        let (cluster, _raw) = with_table(clock).await;
        let client = connect(&cluster, 1).await;
        let rows = client
            .query("SELECT v, id FROM t WHERE v > $1 ORDER BY v", &[&15_i32])
            .await
            .unwrap();
        let read: Vec<(i32, i32)> = rows.iter().map(|row| (row.get("v"), row.get(1))).collect();
        assert_eq!(read, [(20, 2), (30, 3)]);
        let written = client
            .execute("INSERT INTO t VALUES ($1, $2)", &[&9_i32, &None::<i32>])
            .await
            .unwrap();
        assert_eq!(written, 1);
        let row = client
            .query_one("SELECT v FROM t WHERE id = 9", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, Option<i32>>(0), None);
        let error = client
            .query("SELECT nothing FROM t", &[])
            .await
            .unwrap_err();
        assert_eq!(sql_error(&error).0, "42703");
        let script = client
            .simple_query("SELECT 1 AS a; SELECT 'b' AS b")
            .await
            .unwrap();
        let values = script.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        assert_eq!(values.collect::<Vec<_>>(), ["1", "b"]);
    });
}

#[test]
fn a_large_result_arrives_whole() {
    simulated(async |clock| {
        let (cluster, _raw) = with_table(clock).await;
        let client = connect(&cluster, 0).await;
        client
            .batch_execute("CREATE TABLE big (id int PRIMARY KEY, v text)")
            .await
            .unwrap();
        let insert = client
            .prepare("INSERT INTO big VALUES ($1, $2)")
            .await
            .unwrap();
        let text = "x".repeat(100_000);
        for id in 0..30_i32 {
            client.execute(&insert, &[&id, &text]).await.unwrap();
        }
        let rows = client.query("SELECT v FROM big", &[]).await.unwrap();
        assert_eq!(rows.len(), 30);
        assert!(rows.iter().all(|row| row.get::<_, &str>(0) == text));
    });
}

#[test]
fn a_client_that_leaves_takes_its_transaction_with_it() {
    simulated(async |clock| {
        let (cluster, mut raw) = with_table(clock).await;
        let mut leaving = Raw::login(&cluster, 0).await;
        leaving
            .query("BEGIN; UPDATE t SET v = 99 WHERE id = 1")
            .answers()
            .await;
        drop(leaving);
        clock.sleep(std::time::Duration::from_secs(1)).await;
        let answers = raw.query("SELECT v FROM t WHERE id = 1").answers().await;
        assert_eq!(answers[1], "row [10]");
        // What was sent before it left still happens.
        let mut leaving = Raw::login(&cluster, 0).await;
        leaving
            .query("BEGIN")
            .query("UPDATE t SET v = 98 WHERE id = 1")
            .query("COMMIT");
        leaving.send().await;
        drop(leaving);
        clock.sleep(std::time::Duration::from_secs(1)).await;
        let answers = raw.query("SELECT v FROM t WHERE id = 1").answers().await;
        assert_eq!(answers[1], "row [98]");
    });
}
