//! The tables of one play: made before any transaction begins, under names that
//! nobody else has, and dropped afterwards.

use target::{Class, Conn, SqlFailure};

use crate::player::query;
use crate::script::Script;

/// DSQL answers OC001 to a statement that meets a change of the schema on its way;
/// the same statement succeeds soon.
const TRIES: u32 = 5;

/// Tables that are there, or may be.
#[derive(Debug)]
pub(crate) struct Tables {
    /// What stands before a script's table name in the database.
    prefix: String,
    /// Full names.
    made: Vec<String>,
}

impl Tables {
    /// None yet. `run` is the run's own id, `play` the play's number in it.
    pub fn new(run: &str, play: usize) -> Tables {
        Tables {
            prefix: format!("fabric_iso_{run}_{play}_"),
            made: Vec::new(),
        }
    }

    /// A statement of a script with its tables as the database calls them.
    pub fn named(&self, sql: &str) -> String {
        sql.replace('{', &self.prefix).replace('}', "")
    }

    /// A message of the database with the tables as the script calls them.
    pub fn unnamed(&self, message: &str) -> String {
        message.replace(&self.prefix, "")
    }

    /// Full names of tables that may be there.
    pub fn left(&self) -> &[String] {
        &self.made
    }

    /// Makes and fills the tables of a script.
    pub async fn create(&mut self, conn: &Conn, script: &Script) -> Result<(), SqlFailure> {
        for table in &script.tables {
            let name = format!("{}{}", self.prefix, table.name);
            let create = format!("CREATE TABLE {name} ({})", table.columns);
            let insert = format!("INSERT INTO {name} VALUES {}", table.rows);
            // From here on it may be there, whatever is answered.
            self.made.push(name);
            insist(conn, &create).await?;
            if !table.rows.is_empty() {
                insist(conn, &insert).await?;
            }
        }
        Ok(())
    }

    /// Drops what is left; what could be dropped is, also after an error.
    pub async fn drop(&mut self, conn: &Conn) -> Result<(), SqlFailure> {
        let mut ended = Ok(());
        let mut left = Vec::new();
        for name in std::mem::take(&mut self.made) {
            if let Err(failure) = insist(conn, &format!("DROP TABLE IF EXISTS {name}")).await {
                ended = Err(failure);
                left.push(name);
            }
        }
        self.made = left;
        ended
    }
}

async fn insist(conn: &Conn, sql: &str) -> Result<(), SqlFailure> {
    let mut tries = 1;
    loop {
        match query(conn, sql).await {
            Ok(_) => return Ok(()),
            Err(failure) if failure.class == Class::SchemaConflict && tries < TRIES => tries += 1,
            Err(failure) => return Err(failure),
        }
    }
}
