//! The two tables, and the head rows that a rep starts from.

use clock::Clock;
use target::{Class, Conn, SqlFailure};

use super::flight;
use super::tries::Tries;
use super::{Append, hex};
use crate::Step;
use crate::append::chain::GENESIS;

/// Head rows inserted by one transaction; DSQL takes up to 3,000.
const ROWS_PER_STEP: usize = 1_000;

/// A table: its name, and its columns with the names of their types.
struct Table {
    name: &'static str,
    columns: &'static [(&'static str, &'static str)],
    primary_key: &'static str,
}

const TABLES: [Table; 2] = [
    Table {
        name: "streams",
        columns: &[("id", "int8"), ("head_seq", "int8"), ("head_hash", "bytea")],
        primary_key: "id",
    },
    Table {
        name: "records",
        columns: &[
            ("stream_id", "int8"),
            ("seq", "int8"),
            ("prev_hash", "bytea"),
            ("hash", "bytea"),
            ("payload", "bytea"),
        ],
        primary_key: "stream_id, seq",
    },
];

impl Table {
    fn create(&self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|(name, ty)| match *ty {
                "int8" => format!("{name} bigint NOT NULL"),
                ty => format!("{name} {ty} NOT NULL"),
            })
            .collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))",
            self.name,
            columns.join(", "),
            self.primary_key
        )
    }

    /// Whether it is there; refused when it is there with other columns.
    ///
    /// Asking the server to describe a query tells the columns on every server
    /// that can run the workload at all, without a word about its catalog.
    async fn exists(&self, conn: &Conn) -> Result<bool, SqlFailure> {
        let sql = format!("SELECT * FROM {}", self.name);
        let described = match conn.client.prepare(&sql).await {
            Ok(described) => described,
            Err(error) => {
                let failure = SqlFailure::from_driver(&error);
                // 42P01: there is no such table.
                return match failure.sqlstate.as_deref() {
                    Some("42P01") => Ok(false),
                    _ => Err(failure),
                };
            }
        };
        let found: Vec<(&str, &str)> = described
            .columns()
            .iter()
            .map(|column| (column.name(), column.type_().name()))
            .collect();
        if found == self.columns {
            return Ok(true);
        }
        Err(SqlFailure::new(
            Class::Other,
            format!(
                "there is a table {} with other columns: it has ({}), append needs ({}); \
                 rename it, or use another database",
                self.name,
                list(&found),
                list(self.columns)
            ),
        ))
    }
}

impl Table {
    /// Refuses a table without its primary key: the records' one is part of the
    /// argument that no batch gets in twice.
    ///
    /// A server that is to skip duplicates of a key must have the key. No row
    /// can come of it: what is inserted is there already, or not at all.
    async fn require_key(&self, conn: &Conn) -> Result<(), SqlFailure> {
        let Table {
            name,
            primary_key: key,
            ..
        } = self;
        let zero = key.replace(", ", " = 0 AND ");
        let sql = format!(
            "INSERT INTO {name} SELECT * FROM {name} WHERE {zero} = 0 ON CONFLICT ({key}) DO NOTHING"
        );
        match statement(conn, &sql).await {
            Ok(_) => Ok(()),
            // 42P10: no unique constraint matches.
            Err(failure) if failure.sqlstate.as_deref() == Some("42P10") => Err(SqlFailure::new(
                Class::Other,
                format!(
                    "there is a table {name} without a primary key ({key}); rename it, or use \
                     another database"
                ),
            )),
            Err(failure) => Err(failure),
        }
    }
}

fn list(columns: &[(&str, &str)]) -> String {
    let columns: Vec<String> = columns
        .iter()
        .map(|(name, ty)| format!("{name} {ty}"))
        .collect();
    columns.join(", ")
}

/// Sees to it that both tables are there.
async fn create_tables(conn: &Conn, clock: Clock) -> Result<(), SqlFailure> {
    for table in &TABLES {
        let mut tries = Tries::new(clock);
        loop {
            // Looking first spares the others a new schema version, which on
            // DSQL would cost each of their sessions an OC001.
            let step = match table.exists(conn).await {
                Ok(true) => match table.require_key(conn).await {
                    Ok(()) => break,
                    Err(failure) => Err(failure),
                },
                Ok(false) => match statement(conn, &table.create()).await {
                    Ok(_) => Ok(()),
                    Err(failure) => Err(as_ddl_race(failure)),
                },
                Err(failure) => Err(failure),
            };
            if let Err(failure) = step {
                tries.again(failure).await?;
            }
        }
    }
    Ok(())
}

/// Refuses tables that verification could not read.
pub(crate) async fn require_tables(conn: &Conn) -> Result<(), SqlFailure> {
    for table in &TABLES {
        if !table.exists(conn).await? {
            return Err(SqlFailure::new(
                Class::Other,
                format!("there is no table {}", table.name),
            ));
        }
    }
    Ok(())
}

/// Two sessions that create one table at once: PostgreSQL's IF NOT EXISTS does
/// not keep the slower one from an error about the catalog's own keys.
fn as_ddl_race(mut failure: SqlFailure) -> SqlFailure {
    if let Some("23505" | "42P07" | "42710") = failure.sqlstate.as_deref() {
        failure.class = Class::SchemaConflict;
    }
    failure
}

/// Creates the tables and inserts a head row for every stream.
pub(crate) async fn prepare(append: &Append, conn: &Conn) -> Result<Step, SqlFailure> {
    let clock = append.clock;
    let started = clock.now();
    create_tables(conn, clock).await?;
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

/// Runs one statement as a transaction of its own; returns the rows it touched.
pub(crate) async fn statement(conn: &Conn, sql: &str) -> Result<u64, SqlFailure> {
    let answer = flight::send(conn, sql).await.whole()?;
    Ok(answer.counts.iter().sum())
}
