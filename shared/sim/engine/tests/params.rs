//! Types of parameters: what PostgreSQL 15 infers for the same statements.

#![allow(clippy::unwrap_used)]

mod common;

use common::Client;
use fabric_engine::{Engine, Limits, Type};

const INFERRED: &[(&str, &str)] = &[
    ("SELECT $1", "text"),
    ("SELECT $1 + 1", "integer"),
    ("SELECT $1::int", "integer"),
    ("SELECT a FROM t WHERE a = $1", "integer"),
    ("SELECT a FROM t WHERE $1 = i", "bigint"),
    ("SELECT a FROM t WHERE c = $1 AND d > $2", "text,numeric"),
    ("SELECT a FROM t WHERE a IN ($1, $2)", "integer,integer"),
    ("SELECT a FROM t WHERE a = ANY($1)", "integer[]"),
    (
        "SELECT a FROM t WHERE a BETWEEN $1 AND $2 ORDER BY a LIMIT $3 OFFSET $4",
        "integer,integer,bigint,bigint",
    ),
    ("SELECT a FROM t WHERE c LIKE $1", "text"),
    ("SELECT a FROM t WHERE (a, i) > ($1, $2)", "integer,bigint"),
    (
        "SELECT a FROM t WHERE (a, i) IN (($1, $2))",
        "integer,bigint",
    ),
    ("SELECT coalesce(b, $1) FROM t", "integer"),
    ("SELECT CASE WHEN f THEN $1 ELSE a END FROM t", "integer"),
    ("SELECT $1 || 'x'", "text"),
    ("SELECT length($1)", "text"),
    (
        "SELECT b * $1, d * $2, k * $3 FROM t",
        "integer,numeric,double precision",
    ),
    ("SELECT e + $1 FROM t", "interval"),
    ("SELECT e > $1 FROM t", "timestamp with time zone"),
    (
        "INSERT INTO t (a, b, c, d, e, f, g, h, i) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        "integer,integer,text,numeric,timestamp with time zone,boolean,bytea,uuid,bigint",
    ),
    ("INSERT INTO t (a, b) SELECT $1, $2", "integer,integer"),
    (
        "INSERT INTO t (a, c) SELECT a + $1, $2 FROM t",
        "integer,text",
    ),
    (
        "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4)",
        "integer,integer,integer,integer",
    ),
    (
        "INSERT INTO t (a, b) SELECT x, y FROM unnest($1::int[], $2::int[]) AS u(x, y)",
        "integer[],integer[]",
    ),
    (
        "UPDATE t SET b = b - $1 WHERE a = $2 AND b >= $1",
        "integer,integer",
    ),
    (
        "UPDATE t SET b = $1, c = $2, d = $3",
        "integer,text,numeric",
    ),
    ("UPDATE t SET d = d + $1 WHERE a = $2", "numeric,integer"),
    ("DELETE FROM t WHERE a = $1 AND c = $2", "integer,text"),
    ("SELECT * FROM generate_series(1, $1)", "integer"),
    ("SELECT a FROM t WHERE a > $1::bigint", "bigint"),
    ("SELECT $1 = $2", "text,text"),
    ("SELECT sum(a) > $1 FROM t", "bigint"),
    ("SELECT a FROM t WHERE g = $1 AND h = $2", "bytea,uuid"),
    ("SELECT nullif($1, 5), greatest($2, 1.5)", "integer,numeric"),
    ("SELECT a FROM t WHERE f = $1 OR $2", "boolean,boolean"),
    ("SELECT a FROM t WHERE d = $1 AND a = $1", "numeric"),
    ("SELECT $1::text, $1", "text"),
    (
        "SELECT n FROM (VALUES ($1, 2), (3, $2)) v(n, m)",
        "integer,integer",
    ),
    (
        "SELECT a FROM t WHERE j = $1 AND n = $2 AND m = $3",
        "smallint,character,text",
    ),
    ("SELECT a FROM t WHERE l = $1", "real"),
    (
        "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT (a) DO UPDATE SET b = t.b + $3",
        "integer,integer,integer",
    ),
    (
        "SELECT a FROM t WHERE a = $1 UNION SELECT $2",
        "integer,integer",
    ),
    (
        "SELECT round($1, 2), abs($2), now() - $3",
        "numeric,double precision,timestamp with time zone",
    ),
];

fn client() -> Client {
    let mut client = Client::new(&Engine::new(Limits::default()));
    client.ok(
        "CREATE TABLE t (a int PRIMARY KEY, b int, c text, d numeric(10,2), e timestamptz, f bool, \
         g bytea, h uuid, i bigint, j smallint, k float8, l real, m varchar(5), n char(4), o date)",
    );
    client
}

#[test]
fn types_are_inferred_as_by_postgresql() {
    let mut client = client();
    for (sql, wanted) in INFERRED {
        let prepared = client
            .session
            .prepare(sql, &[])
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        let types: Vec<String> = prepared.params().iter().map(|ty| ty.display()).collect();
        assert_eq!(types.join(","), *wanted, "{sql}");
    }
}

#[test]
fn what_nothing_says_is_an_error() {
    let mut client = client();
    for (sql, sqlstate) in [
        ("SELECT $1 IS NULL", "42P18"),
        ("SELECT $2::int", "42P18"),
        ("SELECT -$1", "42725"),
        ("SELECT $1 + $2", "42725"),
        ("SELECT a FROM t WHERE a = $0", "42P02"),
    ] {
        let error = client.session.prepare(sql, &[]).unwrap_err();
        assert_eq!(error.sqlstate, sqlstate, "{sql}: {}", error.message);
    }
}

#[test]
fn declared_types_are_kept() {
    let mut client = client();
    let prepared = client
        .session
        .prepare(
            "SELECT a FROM t WHERE i = $1 AND c = $2",
            &[Type::INT4.oid, 0],
        )
        .unwrap();
    let oids: Vec<u32> = prepared.params().iter().map(|ty| ty.oid).collect();
    assert_eq!(oids, [Type::INT4.oid, Type::TEXT.oid]);
    let error = client.session.prepare("SELECT $1", &[999_999]).unwrap_err();
    assert_eq!(error.sqlstate, "42704");
}
