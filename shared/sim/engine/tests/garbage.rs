//! Whatever is sent, there is an answer: no panic, no endless loop.

#![allow(clippy::unwrap_used)]

mod common;

use common::Client;
use fabric_engine::{Engine, Limits};
use proptest::prelude::*;

/// Statements of every kind, to be damaged.
const CORPUS: &[&str] = &[
    "SELECT a, b + 1 AS c FROM t WHERE a > 1 AND b IN (1, 2, 3) ORDER BY c DESC NULLS LAST LIMIT 5 OFFSET 1",
    "SELECT count(*), sum(a), avg(b), string_agg(c, ',' ORDER BY a) FROM t GROUP BY b HAVING count(*) > 0",
    "SELECT t.a, u.a FROM t LEFT JOIN t u ON u.a = t.b AND u.c LIKE 'x%' WHERE t.a BETWEEN 1 AND 5",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "SELECT CASE WHEN a = 1 THEN 'one' ELSE c END, coalesce(b, 0), a::text || c, round(1.5, 1) FROM t",
    "SELECT * FROM generate_series(1, 5) AS g(n), LATERAL (SELECT a FROM t WHERE a = g.n) AS x",
    "INSERT INTO t (a, b, c) VALUES (10, 2, 'x'), (11, DEFAULT, NULL) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING *",
    "INSERT INTO t SELECT n, n, 'n' FROM generate_series(20, 25) AS n",
    "UPDATE t SET b = b * 2, c = upper(c) WHERE (a, b) IN ((1, 1), (2, 2)) RETURNING a",
    "DELETE FROM t USING t u WHERE t.a = u.b AND u.a = ANY ('{1,2}')",
    "SELECT a FROM t UNION SELECT b FROM t EXCEPT ALL SELECT 3 ORDER BY 1",
    "SELECT row_number() OVER (PARTITION BY b ORDER BY a), lag(a, 1) OVER (ORDER BY a) FROM t",
    "CREATE TABLE x (id bigint PRIMARY KEY, v numeric(10, 2) DEFAULT 1.5 CHECK (v > 0), w text UNIQUE)",
    "CREATE INDEX ASYNC i ON t (lower(c), b) WHERE b > 0",
    "ALTER TABLE t ADD COLUMN d timestamptz",
    "SELECT now() - interval '1 day', date '2026-01-01' + 1, extract(epoch FROM timestamp '2026-01-01')",
    "SELECT '{\"a\": [1, 2]}'::jsonb -> 'a' ->> 0, array[1, 2, 3][2], 'abc' ~ '^(a|b)+c*$'",
    "SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "SELECT a FROM t WHERE a = $1 AND c = $2 FOR UPDATE",
    "SET application_name = 'x'; SHOW ALL",
];

fn world() -> Client {
    let engine = Engine::new(Limits::default());
    let mut client = Client::new(&engine);
    client.ok("CREATE TABLE t (a int PRIMARY KEY, b int, c text)");
    client.ok("INSERT INTO t VALUES (1, 1, 'one'), (2, 1, 'two'), (3, NULL, NULL)");
    client
}

/// Sends it both ways; what comes back is not looked at.
fn send(client: &mut Client, sql: &str) {
    let _ = client.simple(sql);
    let _ = client.extended(sql);
    client.session.abort();
}

/// A statement with a few pieces taken out, doubled, or put elsewhere.
fn damaged() -> impl Strategy<Value = String> {
    let edits = proptest::collection::vec((any::<u16>(), any::<u16>(), 0..4u8), 1..5);
    (0..CORPUS.len(), 0..CORPUS.len(), edits).prop_map(|(which, other, edits)| {
        let split = |sql: &str| -> Vec<String> {
            let mut pieces = vec![String::new()];
            let mut last = ' ';
            for c in sql.chars() {
                let same = c.is_alphanumeric() == last.is_alphanumeric();
                if !same {
                    pieces.push(String::new());
                }
                if let Some(piece) = pieces.last_mut() {
                    piece.push(c);
                }
                last = c;
            }
            pieces
        };
        let mut pieces = split(CORPUS[which]);
        let others = split(CORPUS[other]);
        for (a, b, edit) in edits {
            let at = a as usize % pieces.len().max(1);
            let from = b as usize % others.len().max(1);
            match edit {
                0 if pieces.len() > 1 => {
                    pieces.remove(at);
                }
                1 => pieces.insert(at, others[from].clone()),
                2 => pieces[at] = others[from].clone(),
                _ => {
                    let to = b as usize % pieces.len().max(1);
                    pieces.swap(at, to);
                }
            }
        }
        pieces.concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn damaged_statements(sql in damaged()) {
        send(&mut world(), &sql);
    }

    #[test]
    fn any_text(sql in "\\PC{0,40}") {
        send(&mut world(), &sql);
    }

    #[test]
    fn tokens(words in proptest::collection::vec(prop_oneof![
        Just("SELECT"), Just("FROM"), Just("t"), Just("a"), Just("("), Just(")"), Just("1"),
        Just("'x'"), Just(","), Just("*"), Just("WHERE"), Just("="), Just("AND"), Just("-"),
        Just("$1"), Just("::int"), Just("NULL"), Just("||"), Just("ORDER BY"), Just("IN"),
        Just("9223372036854775807"), Just("1e400"), Just("/"), Just("%"), Just("INTERVAL"),
        Just("'9 years'"), Just("now()"), Just("array["), Just("]"), Just("AS"), Just("JOIN"),
    ], 0..25)) {
        send(&mut world(), &words.join(" "));
    }
}

#[test]
fn deep_nesting_is_refused_and_not_fatal() {
    let mut client = world();
    for sql in [
        format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("SELECT 1{}", " + 1".repeat(3_000)),
        format!("SELECT 1{}", " + 1".repeat(100_000)),
        format!("SELECT {}1", "- ".repeat(3_000)),
        format!("SELECT {} true", "NOT ".repeat(3_000)),
        format!("SELECT a FROM t WHERE a = 1{}", " OR a = 2".repeat(3_000)),
        format!("SELECT {}1{}", "(SELECT ".repeat(200), ")".repeat(200)),
        format!("SELECT 'a'{}", "::text".repeat(3_000)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(2_000)),
        format!("SELECT 1 FROM t{}", ", t".repeat(500)),
        // A product of more rows than anybody has time for.
        "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"
            .to_owned(),
        format!("SELECT '{}'::json", "[".repeat(100_000)),
        format!("SELECT repeat('a', 100000) ~ '{}'", "(a*)*".repeat(20)),
        format!("SELECT 'x' ~ '{}'", "(".repeat(10_000)),
    ] {
        send(&mut client, &sql);
    }
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["3"]]);
}

/// Values at the edges of their types.
#[test]
fn extreme_values_are_errors_at_most() {
    let mut client = world();
    for sql in [
        "SELECT -9223372036854775808, -(-9223372036854775808)",
        "SELECT abs(-2147483648), (-2147483648)::int / -1, 5 % 0",
        "SELECT 9223372036854775807 + 1, 9223372036854775807 * 2",
        "SELECT (-9223372036854775808) / (-1)",
        "SELECT timestamp '294276-12-31' + interval '999999999 years'",
        "SELECT timestamp '999999-01-01', date '5874897-12-31'::timestamp",
        "SELECT date '2026-01-01' + 2147483647, date '2026-01-01' - -2147483648",
        "SELECT interval '2147483647 months' + interval '1 month'",
        "SELECT interval '999999999 days' * 1e300",
        "SELECT extract(epoch FROM interval '178956970 years')",
        "SELECT 1e37 * 1e37, 1e-38 / 3, round(12345.678, -40), round(1e37, 38)",
        "SELECT substring('abc', -2147483648, 2147483647), left('abc', -2147483648)",
        "SELECT lpad('x', 2147483647), repeat('x', 2147483647)",
        "SELECT generate_series(1, 9223372036854775807, 9223372036854775806)",
        "SELECT * FROM generate_series(9223372036854775806, 9223372036854775807)",
        "SELECT 'NaN'::float8, 'inf'::float8::int, '1e308'::float8 * 10",
        "SELECT power(10, 400), exp(1000), ln(0), sqrt(-1), power(0, -1)",
        "SELECT split_part('a', 'b', -9223372036854775808)",
        "SELECT lag(a, 9223372036854775807) OVER (ORDER BY a), lead(a, -9223372036854775808) OVER (ORDER BY a) FROM t",
        "SELECT a FROM t LIMIT 9223372036854775807 OFFSET 9223372036854775807",
        "SELECT pg_sleep(1e300)",
        "SELECT chr(55296), chr(-1), ascii('')",
        "SELECT array_position(array[1], NULL), (array[1])[-2147483648]",
        "SELECT to_timestamp(1e18), to_timestamp(-1e300)",
        "SELECT 1 << 100, 1 >> -1",
        "SELECT '24:00:00'::time, '23:59:60'::time, '99:99'::time",
    ] {
        for part in sql.trim_start_matches("SELECT ").split(", ") {
            send(&mut client, &format!("SELECT {part}"));
        }
        send(&mut client, sql);
    }
}
