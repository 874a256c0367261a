//! What a connection brings to every attempt on it.

use target::{Conn, SqlFailure};
use tokio_postgres::Statement;
use tokio_postgres::types::Type;

use super::sql;
use crate::block::Block;

/// What is prepared on a connection, and whether a block may be open on it.
#[derive(Debug)]
pub struct Session {
    pub(crate) read_head: Statement,
    pub(crate) read_slot: Statement,
    pub(crate) stepwise: Option<Stepwise>,
    pub(crate) block: Block,
}

/// Statements that only awaited steps use.
#[derive(Debug)]
pub(crate) struct Stepwise {
    pub(crate) move_head: Statement,
    /// By number of records.
    inserts: Vec<(u32, Statement)>,
}

impl Stepwise {
    /// The INSERT of so many records.
    pub(crate) fn insert(&self, records: usize) -> Option<&Statement> {
        let mut inserts = self.inserts.iter();
        let (_, insert) = inserts.find(|(of, _)| *of as usize == records)?;
        Some(insert)
    }
}

impl Session {
    /// Prepares a connection; with `lengths` also the INSERTs of awaited steps.
    pub(crate) async fn prepare(
        conn: &Conn,
        lengths: Option<&[u32]>,
    ) -> Result<Session, SqlFailure> {
        let prepared = |sql: String, types: Vec<Type>| async move {
            let statement = conn.client.prepare_typed(&sql, &types).await;
            statement.map_err(|error| SqlFailure::from_driver(&error))
        };
        let read_head = prepared(sql::READ_HEAD.to_owned(), vec![Type::INT8]).await?;
        let read_slot = prepared(sql::READ_SLOT.to_owned(), vec![Type::INT8, Type::INT8]).await?;
        let stepwise = match lengths {
            None => None,
            Some(lengths) => {
                let types = vec![Type::INT8, Type::INT8, Type::BYTEA, Type::INT8];
                let move_head = prepared(sql::MOVE_HEAD.to_owned(), types).await?;
                let mut inserts = Vec::with_capacity(lengths.len());
                for &records in lengths {
                    let mut types = vec![Type::INT8];
                    for _ in 0..records {
                        types.extend([Type::INT8, Type::BYTEA, Type::BYTEA, Type::BYTEA]);
                    }
                    inserts.push((records, prepared(sql::insert(records), types).await?));
                }
                Some(Stepwise { move_head, inserts })
            }
        };
        Ok(Session {
            read_head,
            read_slot,
            stepwise,
            block: Block::default(),
        })
    }
}
