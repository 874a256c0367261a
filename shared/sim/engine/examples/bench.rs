//! Statements per second of the engine alone, without protocol and delays:
//! prepared point reads and updates by primary key, and commits.
//!
//! `cargo run --release -p fabric-engine --example bench`

use std::time::Instant;

use fabric_engine::{Engine, Limits, Session, Value};

const ROWS: i64 = 100_000;
const ROUNDS: i64 = 500_000;

fn run(session: &mut Session, sql: &str) {
    let prepared = session.prepare(sql, &[]).expect(sql);
    session.execute(&prepared, &[], 0).expect(sql);
    session.commit(0).expect(sql);
}

/// A walk over all ids that no cache can foresee.
fn id(n: i64) -> Value {
    Value::Int(n * 7_919 % ROWS)
}

#[allow(clippy::disallowed_methods)]
fn measure(what: &str, count: i64, mut f: impl FnMut(i64)) {
    let start = Instant::now();
    for n in 0..count {
        f(n);
    }
    let took = start.elapsed();
    let each = took.as_secs_f64() / count as f64;
    println!(
        "{what:<40} {:>10.0} a second {:>8.0} ns",
        1.0 / each,
        each * 1e9
    );
}

fn main() {
    let engine = Engine::new(Limits::default());
    let mut session = engine.session("admin");
    run(
        &mut session,
        "CREATE TABLE accounts (id bigint PRIMARY KEY, branch int, balance bigint NOT NULL, filler text)",
    );
    for start in (0..ROWS).step_by(2_000) {
        let sql = format!(
            "INSERT INTO accounts SELECT n, n % 10, 1000, 'filler' FROM generate_series({start}, {}) AS n",
            start + 1_999
        );
        run(&mut session, &sql);
    }
    let mut each = |what: &str, sql: &str, params: &dyn Fn(i64) -> Vec<Value>| {
        let prepared = session.prepare(sql, &[]).expect(sql);
        measure(what, ROUNDS, |n| {
            let done = session.execute(&prepared, &params(n), 0).expect(sql);
            std::hint::black_box(done);
            session.commit(0).expect(sql);
        });
    };
    each("SELECT 1, autocommit", "SELECT 1", &|_| Vec::new());
    each(
        "point read, autocommit",
        "SELECT balance FROM accounts WHERE id = $1",
        &|n| vec![id(n)],
    );
    each(
        "point update, autocommit",
        "UPDATE accounts SET balance = balance - $1 WHERE id = $2",
        &|n| vec![Value::Int(1), id(n)],
    );
    each(
        "guarded update, RETURNING, autocommit",
        "UPDATE accounts SET balance = balance + $1 WHERE id = $2 AND balance > 0 RETURNING balance",
        &|n| vec![Value::Int(1), id(n)],
    );
    let begin = session.prepare("BEGIN", &[]).expect("BEGIN");
    let read = session
        .prepare("SELECT balance FROM accounts WHERE id = $1", &[])
        .expect("read");
    let update = session
        .prepare("UPDATE accounts SET balance = $1 WHERE id = $2", &[])
        .expect("update");
    let commit = session.prepare("COMMIT", &[]).expect("COMMIT");
    measure("block of BEGIN, read, update, COMMIT", ROUNDS / 2, |n| {
        session.execute(&begin, &[], 0).expect("BEGIN");
        let done = session.execute(&read, &[id(n)], 0).expect("read");
        let balance = done.rows[0][0].clone();
        session
            .execute(&update, &[balance, id(n)], 0)
            .expect("update");
        let done = session.execute(&commit, &[], 0).expect("COMMIT");
        assert!(done.commit);
        session.commit(0).expect("commit");
    });
    println!("{:?}", engine.meter());
}
