//! Deleting a rep's rows. Balances stay as they are: they are nobody's.

use std::pin::pin;

use futures_util::TryStreamExt;
use target::{Class, Conn, SqlFailure};

use super::Tpcb;
use super::deal::marks;
use crate::Step;
use crate::table::is_missing;
use crate::tries::{self, Tries};

/// Rows that one transaction deletes at most; DSQL takes 3,000.
const ROWS_PER_STEP: usize = 1_000;

/// Deletes the rep's history and its baseline.
///
/// A COMMIT that is still on its way could land afterwards: nothing of the rep
/// goes that would stop it, since the account that it moves must stay. The
/// driver waits for those in doubt before it verifies, and so before this.
pub(crate) async fn clean(workload: &Tpcb, conn: &Conn) -> Result<Step, SqlFailure> {
    let (clock, rep) = (workload.clock, workload.rep);
    let started = clock.now();
    let mut rows = delete_history(workload, conn).await?;
    let sql = format!("DELETE FROM tpcb_baselines WHERE rep = {rep}");
    rows += tries::delete(clock, conn, &sql).await?;
    Ok(Step {
        rows,
        took: clock.now().since(started),
    })
}

/// All at once where the server takes it, since without an index each statement
/// reads the whole table. DSQL does not take it, beyond its limit of rows; there
/// marks are the key, and rows are listed once and deleted by ranges of them.
async fn delete_history(workload: &Tpcb, conn: &Conn) -> Result<u64, SqlFailure> {
    let (first, last) = marks(workload.rep);
    match delete_range(workload, conn, &first, &last).await {
        Err(failure) if failure.class == Class::Limit => {}
        other => return other,
    }
    let mut tries = Tries::new(workload.clock);
    let ends = loop {
        match ends_of_steps(conn, &first, &last).await {
            Ok(ends) => break ends,
            Err(failure) if is_missing(&failure) => return Ok(0),
            Err(failure) => tries.again(failure).await?,
        }
    };
    let (mut rows, mut from) = (0, first);
    for end in ends {
        rows += delete_range(workload, conn, &from, &end).await?;
        from = end;
    }
    Ok(rows)
}

async fn delete_range(
    workload: &Tpcb,
    conn: &Conn,
    first: &str,
    last: &str,
) -> Result<u64, SqlFailure> {
    // Marks are digits and letters.
    let sql =
        format!("DELETE FROM pgbench_history WHERE filler >= '{first}' AND filler <= '{last}'");
    tries::delete(workload.clock, conn, &sql).await
}

/// The last mark of every step.
async fn ends_of_steps(conn: &Conn, first: &str, last: &str) -> Result<Vec<String>, SqlFailure> {
    let failed = |error: tokio_postgres::Error| SqlFailure::from_driver(&error);
    let sql = "SELECT filler FROM pgbench_history WHERE filler >= $1 AND filler <= $2 \
               ORDER BY filler";
    let rows = conn.client.query_raw(sql, [first, last]).await;
    let mut rows = pin!(rows.map_err(failed)?);
    let (mut ends, mut seen) = (Vec::new(), 0);
    let mut mark = None;
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        let found: String = row.try_get(0).map_err(failed)?;
        seen += 1;
        if seen % ROWS_PER_STEP == 0 {
            ends.push(found);
            mark = None;
        } else {
            mark = Some(found);
        }
    }
    ends.extend(mark);
    Ok(ends)
}
