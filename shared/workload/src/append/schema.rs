//! The two tables, and the head rows that a rep starts from.

use target::{Class, Conn, SqlFailure};

use super::chain::GENESIS;
use super::{Append, hex};
use crate::Step;
use crate::flight::statement;
use crate::table::{self, Table};
use crate::tries::Tries;

/// Head rows inserted by one transaction; DSQL takes up to 3,000.
const ROWS_PER_STEP: usize = 1_000;

const TABLES: [Table; 2] = [
    Table {
        name: "streams",
        columns: &[
            ("id", "int8", "bigint NOT NULL"),
            ("head_seq", "int8", "bigint NOT NULL"),
            ("head_hash", "bytea", "bytea NOT NULL"),
        ],
        primary_key: "id",
    },
    Table {
        name: "records",
        columns: &[
            ("stream_id", "int8", "bigint NOT NULL"),
            ("seq", "int8", "bigint NOT NULL"),
            ("prev_hash", "bytea", "bytea NOT NULL"),
            ("hash", "bytea", "bytea NOT NULL"),
            ("payload", "bytea", "bytea NOT NULL"),
        ],
        primary_key: "stream_id, seq",
    },
];

/// Refuses tables that verification could not read.
pub(crate) async fn require_tables(conn: &Conn) -> Result<(), SqlFailure> {
    table::require_tables(&TABLES, "append", conn).await
}

/// Creates the tables and inserts a head row for every stream.
pub(crate) async fn prepare(append: &Append, conn: &Conn) -> Result<Step, SqlFailure> {
    let clock = append.clock;
    let started = clock.now();
    table::create_tables(&TABLES, "append", conn, clock).await?;
    let ids = append.stream_ids();
    for ids in ids.chunks(ROWS_PER_STEP) {
        let sql = insert_heads(ids);
        let mut tries = Tries::new(clock);
        while let Err(failure) = statement(conn, &sql).await {
            tries.again(failure).await?;
        }
    }
    if let (Some(first), Some(last)) = (ids.first(), ids.last()) {
        let mut tries = Tries::new(clock);
        let used = loop {
            match used_heads(conn, *first, *last).await {
                Ok(used) => break used,
                Err(failure) => tries.again(failure).await?,
            }
        };
        if used > 0 {
            return Err(SqlFailure::new(
                Class::Other,
                format!(
                    "{used} of the streams {first} to {last} hold records already: \
                     their ids are not this attempt's own"
                ),
            ));
        }
    }
    Ok(Step {
        rows: ids.len() as u64,
        took: clock.now().since(started),
    })
}

/// Nothing happens to head rows that an earlier try inserted.
fn insert_heads(ids: &[i64]) -> String {
    let genesis = hex::encode(&GENESIS);
    let rows: Vec<String> = ids
        .iter()
        .map(|id| format!("({id}, 0, '\\x{genesis}'::bytea)"))
        .collect();
    format!(
        "INSERT INTO streams (id, head_seq, head_hash) VALUES {} ON CONFLICT DO NOTHING",
        rows.join(", ")
    )
}

async fn used_heads(conn: &Conn, first: i64, last: i64) -> Result<i64, SqlFailure> {
    let row = conn
        .client
        .query_one(
            "SELECT count(*) FROM streams WHERE id >= $1 AND id <= $2 AND head_seq <> 0",
            &[&first, &last],
        )
        .await;
    row.and_then(|row| row.try_get(0))
        .map_err(|error| SqlFailure::from_driver(&error))
}
