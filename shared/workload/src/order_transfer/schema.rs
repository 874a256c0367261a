//! The five tables, and the rows that a rep starts from.

use target::{Class, Conn, SqlFailure};

use super::OrderTransfer;
use crate::Step;
use crate::table::{self, Table};
use crate::tries;

/// Rows that one transaction inserts; DSQL takes up to 3,000.
pub(crate) const ROWS_PER_STEP: u64 = 1_000;

const BIGINT: &str = "bigint NOT NULL";

/// Every key begins with the rep, which is the id that no other attempt has.
const TABLES: [Table; 5] = [
    Table {
        name: "inventory",
        columns: &[
            ("rep", "int8", BIGINT),
            ("product", "int8", BIGINT),
            ("shard", "int8", BIGINT),
            ("stock", "int8", BIGINT),
        ],
        primary_key: "rep, product, shard",
    },
    Table {
        name: "accounts",
        columns: &[
            ("rep", "int8", BIGINT),
            ("account", "int8", BIGINT),
            ("balance", "int8", BIGINT),
        ],
        primary_key: "rep, account",
    },
    Table {
        name: "orders",
        columns: &[
            ("rep", "int8", BIGINT),
            ("id", "int8", BIGINT),
            ("items", "int8", BIGINT),
        ],
        primary_key: "rep, id",
    },
    Table {
        name: "order_items",
        columns: &[
            ("rep", "int8", BIGINT),
            ("order_id", "int8", BIGINT),
            ("line", "int8", BIGINT),
            ("product", "int8", BIGINT),
            ("shard", "int8", BIGINT),
            ("quantity", "int8", BIGINT),
        ],
        primary_key: "rep, order_id, line",
    },
    Table {
        name: "receipts",
        columns: &[
            ("rep", "int8", BIGINT),
            ("id", "int8", BIGINT),
            ("operation", "int8", BIGINT),
            ("kind", "text", "text NOT NULL"),
            ("debited", "int8", "bigint"),
            ("credited", "int8", "bigint"),
            ("amount", "int8", BIGINT),
        ],
        primary_key: "rep, id",
    },
];

/// Creates the tables, fills inventory and accounts.
///
/// # Errors
/// Also when the rep has effects already: then its id is not its own, or the
/// load has begun.
pub(crate) async fn prepare(workload: &OrderTransfer, conn: &Conn) -> Result<Step, SqlFailure> {
    let (clock, deal, rep) = (workload.clock, &workload.deal, workload.rep);
    let started = clock.now();
    table::create_tables(&TABLES, "order_transfer", conn, clock).await?;
    for table in ["receipts", "orders"] {
        let sql = format!("SELECT id FROM {table} WHERE rep = $1 LIMIT 1");
        if !tries::rows(clock, conn, &sql, &[&rep]).await?.is_empty() {
            return Err(SqlFailure::new(
                Class::Other,
                format!("there are {table} of rep {rep} already: the id is not this attempt's own"),
            ));
        }
    }
    let (shards, (each, rest)) = (deal.shards, deal.split_stock());
    let rows = u64::from(deal.products) * u64::from(shards);
    for (from, to) in steps(rows) {
        let sql = format!(
            "INSERT INTO inventory (rep, product, shard, stock) \
             SELECT {rep}, r / {shards}, r % {shards}, \
             {each} + CASE WHEN r % {shards} < {rest} THEN 1 ELSE 0 END \
             FROM generate_series({from}, {to}) AS g (r) ON CONFLICT DO NOTHING"
        );
        tries::statement(clock, conn, &sql).await?;
    }
    let balance = deal.balance;
    for (from, to) in steps(deal.accounts.into()) {
        let sql = format!(
            "INSERT INTO accounts (rep, account, balance) SELECT {rep}, a, {balance} \
             FROM generate_series({from}, {to}) AS g (a) ON CONFLICT DO NOTHING"
        );
        tries::statement(clock, conn, &sql).await?;
    }
    Ok(Step {
        rows: rows + u64::from(deal.accounts),
        took: clock.now().since(started),
    })
}

/// First and last of every step over so many rows.
pub(crate) fn steps(rows: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..rows)
        .step_by(ROWS_PER_STEP as usize)
        .map(move |from| (from, (from + ROWS_PER_STEP).min(rows) - 1))
}
