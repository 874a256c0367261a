//! What a connection brings to every attempt on it.

use target::{Conn, SqlFailure};
use tokio_postgres::Statement;
use tokio_postgres::types::Type;

use crate::block::Block;

/// What is prepared on a connection, and whether a block may be open on it.
#[derive(Debug)]
pub struct Session {
    pub(crate) block: Block,
    pub(crate) account: Statement,
    pub(crate) balance: Statement,
    pub(crate) teller: Statement,
    pub(crate) branch: Statement,
    pub(crate) history: Statement,
    pub(crate) look_up: Statement,
}

impl Session {
    pub(crate) async fn prepare(conn: &Conn) -> Result<Session, SqlFailure> {
        let prepared = |sql: &'static str, types: &'static [Type]| async move {
            let statement = conn.client.prepare_typed(sql, types).await;
            statement.map_err(|error| SqlFailure::from_driver(&error))
        };
        const TWO: [Type; 2] = [Type::INT4; 2];
        Ok(Session {
            block: Block::default(),
            account: prepared(
                "UPDATE pgbench_accounts SET abalance = abalance + $2 WHERE aid = $1",
                &TWO,
            )
            .await?,
            balance: prepared(
                "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
                &[Type::INT4],
            )
            .await?,
            teller: prepared(
                "UPDATE pgbench_tellers SET tbalance = tbalance + $2 WHERE tid = $1",
                &TWO,
            )
            .await?,
            branch: prepared(
                "UPDATE pgbench_branches SET bbalance = bbalance + $2 WHERE bid = $1",
                &TWO,
            )
            .await?,
            history: prepared(
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime, filler) \
                 VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP, $5)",
                &[Type::INT4, Type::INT4, Type::INT4, Type::INT4, Type::BPCHAR],
            )
            .await?,
            look_up: prepared(
                "SELECT aid FROM pgbench_history WHERE filler = $1 LIMIT 1",
                &[Type::BPCHAR],
            )
            .await?,
        })
    }
}
