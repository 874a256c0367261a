//! Reading all rows of a rep, page by page, into its books.

use plan::Isolation;
use target::{Conn, SqlFailure};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

use super::OrderTransfer;
use super::audit::{Audit, Effect, Line, Order, Receipt};
use super::deal::Deal;
use super::schema::ROWS_PER_STEP;
use crate::flight::statement;
use crate::{Claim, Verified};

/// Checks a rep. Reads only; can be repeated.
///
/// Nothing writes any more, except for a COMMIT that is still on its way. Each
/// page is therefore one snapshot, in which an effect is there with all its rows
/// or not at all. Sums over all pages have no such protection, which would cost
/// a transaction that lives too long for DSQL: whoever has operations in doubt
/// waits for them to settle first.
pub(crate) async fn verify(
    workload: &OrderTransfer,
    conn: &Conn,
    claims: &[Claim],
    missing: &[u32],
) -> Result<Verified, SqlFailure> {
    let started = workload.clock.now();
    let mut audit = Audit::new(&workload.deal, claims, missing);
    let reader = Reader::new(conn, workload.rep).await?;
    let mut after = Some(i64::MIN);
    while let Some(last) = after {
        after = reader.effects(last, &mut audit).await?;
    }
    reader.stock(&workload.deal, &mut audit).await?;
    reader.accounts(&mut audit).await?;
    Ok(audit.end(workload.clock.now().since(started)))
}

/// Reads a rep through one connection.
struct Reader<'a> {
    conn: &'a Conn,
    rep: i64,
    receipts: Statement,
    orders: Statement,
    lines: Statement,
    stock: Statement,
    accounts: Statement,
}

impl<'a> Reader<'a> {
    async fn new(conn: &'a Conn, rep: i64) -> Result<Reader<'a>, SqlFailure> {
        let prepared = |sql: &'static str, bigints: usize| async move {
            let types = vec![Type::INT8; bigints];
            let statement = conn.client.prepare_typed(sql, &types).await;
            statement.map_err(|error| SqlFailure::from_driver(&error))
        };
        Ok(Reader {
            conn,
            rep,
            receipts: prepared(
                "SELECT id, operation, kind, debited, credited, amount FROM receipts \
                 WHERE rep = $1 AND id > $2 ORDER BY id LIMIT $3",
                3,
            )
            .await?,
            orders: prepared(
                "SELECT id, items FROM orders WHERE rep = $1 AND id > $2 AND id <= $3 ORDER BY id",
                3,
            )
            .await?,
            lines: prepared(
                "SELECT order_id, line, product, shard, quantity FROM order_items \
                 WHERE rep = $1 AND order_id > $2 AND order_id <= $3 ORDER BY order_id, line",
                3,
            )
            .await?,
            stock: prepared(
                "SELECT product, shard, stock FROM inventory \
                 WHERE rep = $1 AND product >= $2 AND product <= $3 ORDER BY product, shard",
                3,
            )
            .await?,
            accounts: prepared(
                "SELECT account, balance FROM accounts \
                 WHERE rep = $1 AND account > $2 ORDER BY account LIMIT $3",
                3,
            )
            .await?,
        })
    }

    /// Reads a page of receipts with everything in its range of ids; returns
    /// where the next one begins.
    async fn effects(&self, after: i64, audit: &mut Audit<'_>) -> Result<Option<i64>, SqlFailure> {
        let begin = format!("BEGIN ISOLATION LEVEL {}", Isolation::RepeatableRead.sql());
        statement(self.conn, &begin).await?;
        let page = self.page(after).await;
        // Nothing was written, so either end will do; one of them is needed
        // before the connection can be used again.
        let ended = statement(self.conn, if page.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
        let (receipts, orders, lines) = page?;
        ended?;
        let next = match receipts.last() {
            Some(last) if receipts.len() as u64 == ROWS_PER_STEP => Some(last.id),
            _ => None,
        };
        merge(&receipts, &orders, &lines, audit);
        Ok(next)
    }

    async fn page(&self, after: i64) -> Result<(Vec<Receipt>, Vec<Order>, Vec<Line>), SqlFailure> {
        let limit = ROWS_PER_STEP as i64;
        let receipts = self.read(&self.receipts, after, limit, receipt).await?;
        // What is behind the last receipt belongs to the last page.
        let last = match receipts.last() {
            Some(last) if receipts.len() as u64 == ROWS_PER_STEP => last.id,
            _ => i64::MAX,
        };
        let orders = self.read(&self.orders, after, last, order).await?;
        let lines = self.read(&self.lines, after, last, line).await?;
        Ok((receipts, orders, lines))
    }

    async fn stock(&self, deal: &Deal, audit: &mut Audit<'_>) -> Result<(), SqlFailure> {
        // Products of a page: about as many rows as any other.
        let products = (ROWS_PER_STEP as i64 / i64::from(deal.shards)).max(1);
        let mut from = i64::MIN;
        let mut to = products - 1;
        loop {
            // The outer pages find what should not be there.
            let to_read = if to + 1 >= i64::from(deal.products) {
                i64::MAX
            } else {
                to
            };
            let rows = self.read(&self.stock, from, to_read, stock_row).await?;
            for (product, shard, stock) in rows {
                audit.stock(product, shard, stock);
            }
            if to_read == i64::MAX {
                return Ok(());
            }
            from = to + 1;
            to += products;
        }
    }

    async fn accounts(&self, audit: &mut Audit<'_>) -> Result<(), SqlFailure> {
        let limit = ROWS_PER_STEP as i64;
        let mut after = i64::MIN;
        loop {
            let rows = self.read(&self.accounts, after, limit, account_row).await?;
            let Some((last, _)) = rows.last() else {
                return Ok(());
            };
            after = *last;
            for (account, balance) in rows {
                audit.account(account, balance);
            }
        }
    }

    async fn read<T>(
        &self,
        statement: &Statement,
        from: i64,
        to: i64,
        row: fn(&Row) -> Result<T, tokio_postgres::Error>,
    ) -> Result<Vec<T>, SqlFailure> {
        let values: [&(dyn ToSql + Sync); 3] = [&self.rep, &from, &to];
        let rows = self.conn.client.query(statement, &values).await;
        rows.and_then(|rows| rows.iter().map(row).collect())
            .map_err(|error| SqlFailure::from_driver(&error))
    }
}

/// Brings together what belongs to one business id. All three are in the order
/// of it.
fn merge(
    mut receipts: &[Receipt],
    mut orders: &[Order],
    mut lines: &[Line],
    audit: &mut Audit<'_>,
) {
    loop {
        let ids = [
            receipts.first().map(|receipt| receipt.id),
            orders.first().map(|order| order.id),
            lines.first().map(|line| line.order_id),
        ];
        let Some(id) = ids.into_iter().flatten().min() else {
            return;
        };
        let receipt = first_if(&mut receipts, |receipt| receipt.id == id);
        let order = first_if(&mut orders, |order| order.id == id);
        let own = lines.partition_point(|line| line.order_id == id);
        let (of_order, rest) = lines.split_at(own);
        lines = rest;
        audit.effect(Effect {
            id,
            receipt,
            order,
            lines: of_order,
        });
    }
}

/// Takes the first one, if it is such a one.
fn first_if<'a, T>(from: &mut &'a [T], is: impl Fn(&T) -> bool) -> Option<&'a T> {
    let (first, rest) = from.split_first()?;
    is(first).then(|| {
        *from = rest;
        first
    })
}

fn receipt(row: &Row) -> Result<Receipt, tokio_postgres::Error> {
    Ok(Receipt {
        id: row.try_get(0)?,
        operation: row.try_get(1)?,
        kind: row.try_get(2)?,
        debited: row.try_get(3)?,
        credited: row.try_get(4)?,
        amount: row.try_get(5)?,
    })
}

fn order(row: &Row) -> Result<Order, tokio_postgres::Error> {
    Ok(Order {
        id: row.try_get(0)?,
        items: row.try_get(1)?,
    })
}

fn line(row: &Row) -> Result<Line, tokio_postgres::Error> {
    Ok(Line {
        order_id: row.try_get(0)?,
        line: row.try_get(1)?,
        product: row.try_get(2)?,
        shard: row.try_get(3)?,
        quantity: row.try_get(4)?,
    })
}

fn stock_row(row: &Row) -> Result<(i64, i64, i64), tokio_postgres::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
}

fn account_row(row: &Row) -> Result<(i64, i64), tokio_postgres::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}
