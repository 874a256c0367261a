//! Runs a script from standard input and prints what comes back, as
//! `psql --no-align --tuples-only` would: one way to try the engine without its
//! wire. One line is one simple Query message.
//!
//! `echo 'SELECT 1 + 1' | cargo run -p fabric-engine --example shell`

use std::io::BufRead as _;

use fabric_engine::{Engine, Executed, Limits, Session, SqlError};

fn print(done: &Executed) {
    let Some(columns) = &done.columns else {
        println!("{}", done.tag);
        return;
    };
    for row in &done.rows {
        let cells: Vec<String> = row
            .iter()
            .zip(columns.iter())
            .map(|(value, column)| {
                let mut out = bytes::BytesMut::new();
                match value.encode(column.ty, false, &mut out) {
                    Ok(()) => String::from_utf8_lossy(&out).into_owned(),
                    Err(error) => error.message,
                }
            })
            .collect();
        println!("{}", cells.join("|"));
    }
    if !done.tag.starts_with("SELECT")
        && !done.tag.starts_with("EXPLAIN")
        && !done.tag.starts_with("SHOW")
    {
        println!("{}", done.tag);
    }
}

fn message(session: &mut Session, sql: &str, now_us: u64) -> Result<(), SqlError> {
    for parsed in session.parse(sql)? {
        let prepared = session.plan(&parsed, &[])?;
        let done = session.execute(&prepared, &[], now_us)?;
        if done.commit {
            session.commit(now_us)?;
        }
        print(&done);
    }
    if session.pending_commit().is_some() {
        session.commit(now_us)?;
    }
    Ok(())
}

fn main() {
    let engine = Engine::new(Limits::default());
    let mut session = engine.session("admin");
    let mut now_us = 0;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        // Time passes, so that jobs end.
        now_us += 2_000_000;
        if let Err(error) = message(&mut session, &line, now_us) {
            println!("ERROR:  {}: {}", error.sqlstate, error.message);
            if let Some(detail) = error.detail {
                println!("DETAIL:  {detail}");
            }
            session.abort_implicit();
        }
    }
}
