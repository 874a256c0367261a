//! What the protocol layer relies on beside rows and errors: who commits when,
//! what things cost, and plans that outlive the schema they were made with.

#![allow(clippy::unwrap_used)]

mod common;

use common::Client;
use fabric_engine::{
    Engine, Limits, Meter, PendingCommit, Prepared, Session, TransactionStatus, Value, WorkKind,
};

fn engine() -> Engine {
    let engine = Engine::new(Limits::default());
    let mut client = Client::new(&engine);
    client.ok("CREATE TABLE t (id bigint PRIMARY KEY, v text)");
    client.ok("INSERT INTO t SELECT n, 'row' FROM generate_series(1, 10) AS n");
    engine
}

#[test]
fn sessions_and_statements_can_go_to_another_thread() {
    fn send<T: Send>() {}
    fn share<T: Send + Sync>() {}
    send::<Session>();
    share::<Engine>();
    share::<Prepared>();
}

#[test]
fn an_implicit_transaction_stays_open_until_the_caller_ends_it() {
    let engine = engine();
    let mut session = engine.session("admin");
    assert_eq!(session.pending_commit(), None);
    let read = session
        .prepare("SELECT v FROM t WHERE id = 1", &[])
        .unwrap();
    session.execute(&read, &[], 0).unwrap();
    // It is no block, but there is something to end.
    assert_eq!(session.status(), TransactionStatus::Idle);
    let nothing = PendingCommit {
        read_only: true,
        rows: 0,
        bytes: 0,
    };
    assert_eq!(session.pending_commit(), Some(nothing));
    let write = session.prepare("DELETE FROM t WHERE id < 4", &[]).unwrap();
    session.execute(&write, &[], 0).unwrap();
    let pending = session.pending_commit().unwrap();
    assert!(!pending.read_only && pending.rows == 3 && pending.bytes > 0);
    session.commit(0).unwrap();
    assert_eq!(session.pending_commit(), None);
    // After an error there is nothing to commit, only to give up.
    session.execute(&write, &[], 0).unwrap();
    let wrong = session
        .prepare("SELECT 1 / id FROM t WHERE id - 10 = 1 / 0", &[])
        .unwrap();
    session.execute(&wrong, &[], 0).unwrap_err();
    assert_eq!(session.pending_commit(), None);
    session.abort_implicit();
    assert_eq!(Client::new(&engine).rows("SELECT count(*) FROM t"), [["7"]]);
}

#[test]
fn a_block_is_committed_by_its_commit_alone() {
    let engine = engine();
    let mut session = engine.session("admin");
    let run = |session: &mut Session, sql: &str| {
        let prepared = session.prepare(sql, &[]).unwrap();
        session.execute(&prepared, &[], 0).unwrap()
    };
    run(&mut session, "BEGIN");
    assert_eq!(session.status(), TransactionStatus::InBlock);
    run(&mut session, "UPDATE t SET v = 'x' WHERE id = 1");
    assert_eq!(session.pending_commit(), None);
    let done = run(&mut session, "COMMIT");
    // Said, but not decided: another transaction may still come first.
    assert!(done.commit && done.tag == "COMMIT");
    assert_eq!(session.pending_commit().unwrap().rows, 1);
    Client::new(&engine).ok("UPDATE t SET v = 'y' WHERE id = 1");
    assert_eq!(session.commit(0).unwrap_err().sqlstate, "40001");
    assert_eq!(session.status(), TransactionStatus::Idle);
    // A parameter that cannot be read fails the block as a statement does.
    run(&mut session, "BEGIN");
    session.fail();
    assert_eq!(session.status(), TransactionStatus::Failed);
    session.abort_implicit();
    assert_eq!(session.status(), TransactionStatus::Failed);
    session.abort();
    assert_eq!(session.status(), TransactionStatus::Idle);
}

#[test]
fn statements_say_what_they_cost() {
    let engine = engine();
    let mut client = Client::new(&engine);
    let before = engine.meter();
    for (sql, kind, read, written) in [
        ("SELECT 1", WorkKind::Trivial, 0, 0),
        ("SHOW server_version", WorkKind::Trivial, 0, 0),
        ("SELECT v FROM t WHERE id = 5", WorkKind::Read, 1, 0),
        ("SELECT v FROM t WHERE id = 500", WorkKind::Read, 0, 0),
        (
            "SELECT v FROM t WHERE id > 2 ORDER BY id LIMIT 3",
            WorkKind::Read,
            3,
            0,
        ),
        (
            "SELECT v FROM t WHERE id IN (1, 2, 77)",
            WorkKind::Read,
            2,
            0,
        ),
        ("SELECT count(*) FROM t", WorkKind::Read, 10, 0),
        (
            "SELECT v FROM t WHERE id = 5 FOR UPDATE",
            WorkKind::Write,
            1,
            0,
        ),
        ("UPDATE t SET v = 'z' WHERE id = 5", WorkKind::Write, 1, 1),
        (
            "INSERT INTO t VALUES (11, 'x'), (12, 'y')",
            WorkKind::Write,
            0,
            2,
        ),
        ("DELETE FROM t WHERE id >= 11", WorkKind::Write, 2, 2),
    ] {
        let work = client.ok(sql).work;
        assert_eq!(
            (work.kind, work.rows_read, work.rows_written),
            (kind, read, written),
            "{sql}"
        );
        assert_eq!(
            (work.rows_read > 0, work.rows_written > 0),
            (work.bytes_read > 0, work.bytes_written > 0),
            "{sql}"
        );
    }
    let Meter {
        statements,
        rows_read,
        rows_written,
        rows_committed,
        ..
    } = engine.meter();
    assert_eq!(statements - before.statements, 11);
    assert_eq!(rows_read - before.rows_read, 1 + 3 + 2 + 10 + 1 + 1 + 2);
    assert_eq!(rows_written - before.rows_written, 5);
    assert_eq!(rows_committed - before.rows_committed, 5);
}

#[test]
fn a_prepared_statement_outlives_schema_changes() {
    let engine = engine();
    let mut session = engine.session("admin");
    let mut other = Client::new(&engine);
    let read = session
        .prepare("SELECT id FROM t WHERE v = $1 ORDER BY id LIMIT 1", &[])
        .unwrap();
    let all = session
        .prepare("SELECT * FROM t WHERE id = 1", &[])
        .unwrap();
    let find = |session: &mut Session, now| {
        let done = session.execute(&read, &[Value::text("row")], now).unwrap();
        session.commit(now).unwrap();
        (done.rows, done.work.rows_read)
    };
    assert_eq!(find(&mut session, 0), (vec![vec![Value::Int(1)]], 1));
    other.ok("UPDATE t SET v = 'other' WHERE id < 10");
    assert_eq!(find(&mut session, 0), (vec![vec![Value::Int(10)]], 10));
    other.ok("CREATE INDEX ASYNC ON t (v)");
    // The index is used as soon as its job has ended.
    assert_eq!(
        find(&mut session, 10_000_000),
        (vec![vec![Value::Int(10)]], 1)
    );
    other.ok("ALTER TABLE t ADD COLUMN w int");
    assert_eq!(find(&mut session, 10_000_000).0, [[Value::Int(10)]]);
    let error = session.execute(&all, &[], 10_000_000).unwrap_err();
    assert_eq!(error.message, "cached plan must not change result type");
    session.abort_implicit();
    other.ok("DROP TABLE t");
    let error = session
        .execute(&read, &[Value::text("row")], 10_000_000)
        .unwrap_err();
    assert_eq!(error.sqlstate, "42P01");
}

#[test]
fn equal_seeds_make_up_equal_values() {
    let made = |seed| {
        let engine = Engine::with_seed(Limits::default(), seed);
        Client::new(&engine).rows("SELECT gen_random_uuid(), random(), now()")
    };
    assert_eq!(made(7), made(7));
    assert_ne!(made(7), made(8));
}

/// As the driver asks for types that it does not know.
#[test]
fn catalog_queries_of_drivers_are_answered() {
    let engine = engine();
    let mut session = engine.session("admin");
    let sql = "SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid \
               FROM pg_catalog.pg_type t \
               LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid \
               INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = $1";
    let prepared = session.prepare(sql, &[]).unwrap();
    assert_eq!(prepared.params()[0].oid, 26);
    let done = session.execute(&prepared, &[Value::Int(3802)], 0).unwrap();
    assert_eq!(done.rows[0][0], Value::text("jsonb"));
}
