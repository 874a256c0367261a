//! Deleting a rep's rows, in transactions under the limits.

use target::{Conn, SqlFailure};
use tokio_postgres::types::ToSql;

use super::OrderTransfer;
use super::schema::ROWS_PER_STEP;
use crate::Step;
use crate::tries;

/// Below every key. (The very lowest bigint is none as a literal: its digits
/// without the sign are too large for one.)
const BEFORE_ALL: i64 = i64::MIN + 1;

/// Deletes everything of the rep.
///
/// Stock and accounts go first: a COMMIT that is still on its way has moved one
/// of their rows, so it lands before that row is deleted, and its order and
/// receipt are found below, or it never does.
pub(crate) async fn clean(workload: &OrderTransfer, conn: &Conn) -> Result<Step, SqlFailure> {
    let clock = workload.clock;
    let started = clock.now();
    let mut rows = 0;
    for (table, key, rest) in [
        ("inventory", "product", "shard"),
        ("accounts", "account", ""),
        ("order_items", "order_id", "line"),
        ("orders", "id", ""),
        ("receipts", "id", ""),
    ] {
        rows += delete_all(workload, conn, table, key, rest).await?;
    }
    Ok(Step {
        rows,
        took: clock.now().since(started),
    })
}

/// Deletes a table's rows of the rep. Each is listed once, in the order of the
/// key, and deleted by the range of its page: a DELETE that looked for its own
/// rows would walk over all that were deleted before.
async fn delete_all(
    workload: &OrderTransfer,
    conn: &Conn,
    table: &str,
    key: &str,
    rest: &str,
) -> Result<u64, SqlFailure> {
    let (clock, rep) = (workload.clock, workload.rep);
    let (columns, behind) = match rest {
        "" => (key.to_owned(), String::new()),
        rest => (
            format!("{key}, {rest}"),
            format!(" AND ({key} > $2 OR {rest} > $3)"),
        ),
    };
    let from = if rest.is_empty() { ">" } else { ">=" };
    let page = format!(
        "SELECT {columns} FROM {table} WHERE rep = $1 AND {key} {from} $2{behind} \
         ORDER BY {columns} LIMIT {ROWS_PER_STEP}"
    );
    let mut rows = 0;
    let mut after = [BEFORE_ALL; 2];
    loop {
        let values: [&(dyn ToSql + Sync); 3] = [&rep, &after[0], &after[1]];
        let values = &values[..if rest.is_empty() { 2 } else { 3 }];
        let listed = tries::rows(clock, conn, &page, values).await?;
        let Some(row) = listed.last() else {
            return Ok(rows);
        };
        let mut last = [0; 2];
        for (column, last) in last.iter_mut().enumerate().take(row.len()) {
            *last = row
                .try_get(column)
                .map_err(|error| SqlFailure::from_driver(&error))?;
        }
        let ([from_key, from_rest], [to_key, to_rest]) = (after, last);
        let range = match rest {
            "" => format!("{key} > {from_key} AND {key} <= {to_key}"),
            rest => format!(
                "{key} >= {from_key} AND ({key} > {from_key} OR {rest} > {from_rest}) \
                 AND {key} <= {to_key} AND ({key} < {to_key} OR {rest} <= {to_rest})"
            ),
        };
        let sql = format!("DELETE FROM {table} WHERE rep = {rep} AND {range}");
        rows += tries::delete(clock, conn, &sql).await?;
        after = last;
    }
}
