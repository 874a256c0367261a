//! What a connection brings to every attempt on it.

use target::{Conn, SqlFailure};
use tokio_postgres::Statement;
use tokio_postgres::types::Type;

use crate::block::Block;

/// What is prepared on a connection, and whether a block may be open on it.
#[derive(Debug)]
pub struct Session {
    pub(crate) block: Block,
    pub(crate) take: Statement,
    pub(crate) order: Statement,
    /// All lines of an order.
    pub(crate) items: Statement,
    pub(crate) balance: Statement,
    pub(crate) debit: Statement,
    pub(crate) credit: Statement,
    pub(crate) receipt: Statement,
    pub(crate) look_up: Statement,
}

impl Session {
    /// Prepares a connection for orders of so many lines.
    pub(crate) async fn prepare(conn: &Conn, items: u32) -> Result<Session, SqlFailure> {
        let bigints = |n: u32| vec![Type::INT8; n as usize];
        let prepared = |sql: String, types: Vec<Type>| async move {
            let statement = conn.client.prepare_typed(&sql, &types).await;
            statement.map_err(|error| SqlFailure::from_driver(&error))
        };
        let mut receipt = bigints(7);
        receipt[3] = Type::TEXT;
        Ok(Session {
            block: Block::default(),
            take: prepared(
                "UPDATE inventory SET stock = stock - $4 \
                 WHERE rep = $1 AND product = $2 AND shard = $3 AND stock >= $4"
                    .to_owned(),
                bigints(4),
            )
            .await?,
            order: prepared(
                "INSERT INTO orders (rep, id, items) VALUES ($1, $2, $3)".to_owned(),
                bigints(3),
            )
            .await?,
            items: prepared(insert_items(items), bigints(2 + 4 * items)).await?,
            balance: prepared(
                "SELECT balance FROM accounts WHERE rep = $1 AND account = $2".to_owned(),
                bigints(2),
            )
            .await?,
            // Guarded as well as checked: at READ COMMITTED the balance that was
            // read may be gone.
            debit: prepared(
                "UPDATE accounts SET balance = balance - $3 \
                 WHERE rep = $1 AND account = $2 AND balance >= $3"
                    .to_owned(),
                bigints(3),
            )
            .await?,
            credit: prepared(
                "UPDATE accounts SET balance = balance + $3 WHERE rep = $1 AND account = $2"
                    .to_owned(),
                bigints(3),
            )
            .await?,
            receipt: prepared(
                "INSERT INTO receipts (rep, id, operation, kind, debited, credited, amount) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)"
                    .to_owned(),
                receipt,
            )
            .await?,
            look_up: prepared(
                "SELECT operation FROM receipts WHERE rep = $1 AND id = $2".to_owned(),
                bigints(2),
            )
            .await?,
        })
    }
}

/// `$1` is the rep and `$2` the order, then four for each line.
fn insert_items(items: u32) -> String {
    let lines: Vec<String> = (0..items)
        .map(|line| {
            let p = 4 * line + 3;
            format!("($1, $2, ${p}, ${}, ${}, ${})", p + 1, p + 2, p + 3)
        })
        .collect();
    format!(
        "INSERT INTO order_items (rep, order_id, line, product, shard, quantity) VALUES {}",
        lines.join(", ")
    )
}
