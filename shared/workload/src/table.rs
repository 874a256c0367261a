//! The tables of a workload: made where they are missing, refused where they
//! are there and are not what the workload needs.

use clock::Clock;
use target::{Class, Conn, SqlFailure};

use crate::flight::statement;
use crate::tries::Tries;

/// A table that a workload needs.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// Each column's name, the name of its type as a server describes it, and
    /// its type in CREATE TABLE.
    pub(crate) columns: &'static [(&'static str, &'static str, &'static str)],
    /// Empty when it has none.
    pub(crate) primary_key: &'static str,
}

impl Table {
    fn create(&self) -> String {
        let mut parts: Vec<String> = self
            .columns
            .iter()
            .map(|(name, _, ty)| format!("{name} {ty}"))
            .collect();
        if !self.primary_key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", self.primary_key));
        }
        let name = self.name;
        format!("CREATE TABLE IF NOT EXISTS {name} ({})", parts.join(", "))
    }

    /// Makes it; the slower of two sessions that do so at once gets a conflict.
    pub(crate) async fn make(&self, conn: &Conn) -> Result<(), SqlFailure> {
        match statement(conn, &self.create()).await {
            Ok(_) => Ok(()),
            Err(failure) => Err(as_ddl_race(failure)),
        }
    }

    /// Whether it is there; refused when it is there with other columns.
    ///
    /// Asking the server to describe a query tells the columns on every server
    /// that can run the workload at all, without a word about its catalog.
    pub(crate) async fn exists(&self, workload: &str, conn: &Conn) -> Result<bool, SqlFailure> {
        let sql = format!("SELECT * FROM {}", self.name);
        let described = match conn.client.prepare(&sql).await {
            Ok(described) => described,
            Err(error) => {
                let failure = SqlFailure::from_driver(&error);
                return match is_missing(&failure) {
                    true => Ok(false),
                    false => Err(failure),
                };
            }
        };
        let found: Vec<(&str, &str)> = described
            .columns()
            .iter()
            .map(|column| (column.name(), column.type_().name()))
            .collect();
        let needed: Vec<(&str, &str)> = self.columns.iter().map(|(n, ty, _)| (*n, *ty)).collect();
        if found == needed {
            return Ok(true);
        }
        Err(SqlFailure::new(
            Class::Other,
            format!(
                "there is a table {} with other columns: it has ({}), {workload} needs ({}); \
                 rename it, or use another database",
                self.name,
                list(&found),
                list(&needed)
            ),
        ))
    }

    /// Refuses a table without its primary key: that nothing is there twice
    /// rests on it.
    async fn require_key(&self, conn: &Conn) -> Result<(), SqlFailure> {
        let Table {
            name,
            primary_key: key,
            ..
        } = self;
        if key.is_empty() || has_key(conn, name, key).await? {
            return Ok(());
        }
        Err(SqlFailure::new(
            Class::Other,
            format!(
                "there is a table {name} without a primary key ({key}); rename it, or use \
                 another database"
            ),
        ))
    }
}

/// Whether a table has that key.
///
/// A server that is to skip duplicates of a key must have the key. No row can
/// come of it: none is read.
pub(crate) async fn has_key(conn: &Conn, table: &str, key: &str) -> Result<bool, SqlFailure> {
    let sql =
        format!("INSERT INTO {table} SELECT * FROM {table} LIMIT 0 ON CONFLICT ({key}) DO NOTHING");
    match statement(conn, &sql).await {
        Ok(_) => Ok(true),
        // 42P10: no unique constraint matches.
        Err(failure) if failure.sqlstate.as_deref() == Some("42P10") => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn list(columns: &[(&str, &str)]) -> String {
    let columns: Vec<String> = columns
        .iter()
        .map(|(name, ty)| format!("{name} {ty}"))
        .collect();
    columns.join(", ")
}

/// Sees to it that all tables of a workload are there, one DDL a transaction.
pub(crate) async fn create_tables(
    tables: &[Table],
    workload: &str,
    conn: &Conn,
    clock: Clock,
) -> Result<(), SqlFailure> {
    for table in tables {
        let mut tries = Tries::new(clock);
        loop {
            // Looking first spares the others a new schema version, which on
            // DSQL would cost each of their sessions an OC001.
            let step = match table.exists(workload, conn).await {
                Ok(true) => match table.require_key(conn).await {
                    Ok(()) => break,
                    Err(failure) => Err(failure),
                },
                Ok(false) => table.make(conn).await,
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
pub(crate) async fn require_tables(
    tables: &[Table],
    workload: &str,
    conn: &Conn,
) -> Result<(), SqlFailure> {
    for table in tables {
        if !table.exists(workload, conn).await? {
            return Err(SqlFailure::new(
                Class::Other,
                format!("there is no table {}", table.name),
            ));
        }
    }
    Ok(())
}

/// 42P01: whoever was to prepare the rep did not come to making the table.
pub(crate) fn is_missing(failure: &SqlFailure) -> bool {
    failure.sqlstate.as_deref() == Some("42P01")
}

/// Two sessions that create one table at once: PostgreSQL's IF NOT EXISTS does
/// not keep the slower one from an error about the catalog's own keys.
fn as_ddl_race(mut failure: SqlFailure) -> SqlFailure {
    if let Some("23505" | "42P07" | "42710") = failure.sqlstate.as_deref() {
        failure.class = Class::SchemaConflict;
    }
    failure
}
