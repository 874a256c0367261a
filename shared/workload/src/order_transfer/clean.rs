//! Deleting a rep's rows, in transactions under the limits.

use target::{Conn, SqlFailure};

use super::OrderTransfer;
use super::schema::ROWS_PER_STEP;
use crate::Step;
use crate::tries;

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
        ("inventory", "product", ", shard"),
        ("accounts", "account", ""),
        ("order_items", "order_id", ", line"),
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
    let page = format!(
        "SELECT {key} FROM {table} WHERE rep = $1 AND {key} > $2 \
         ORDER BY {key}{rest} LIMIT {ROWS_PER_STEP}"
    );
    let mut rows = 0;
    let mut after = i64::MIN;
    loop {
        let listed = tries::rows(clock, conn, &page, &[&rep, &after]).await?;
        let Some(row) = listed.last() else {
            return Ok(rows);
        };
        let last: i64 = row
            .try_get(0)
            .map_err(|error| SqlFailure::from_driver(&error))?;
        // The last key's other rows (lines of an order, stock of a product) are
        // few enough to go with it.
        let sql = format!(
            "DELETE FROM {table} WHERE rep = {rep} AND {key} > {after} AND {key} <= {last}"
        );
        rows += tries::delete(clock, conn, &sql).await?;
        after = last;
    }
}
