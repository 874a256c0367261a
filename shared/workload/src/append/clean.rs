//! Deleting a rep's rows, in transactions under the limits.

use target::{Conn, SqlFailure};

use super::Append;
use crate::Step;
use crate::table::is_missing;
use crate::tries::{self, Tries};

/// Records that one transaction deletes at most; DSQL takes 3,000 rows.
const ROWS_PER_STEP: i64 = 1_000;

/// Bytes of payload that one transaction deletes at most; DSQL takes 10 MiB.
const BYTES_PER_STEP: i64 = 8 << 20;

/// Deletes every stream of the rep with its records.
///
/// The ids follow from the workload, so it does not matter what an earlier try
/// has deleted already. A stream's head row goes after the records that are
/// there, and then the records are looked at once more: a COMMIT that was still
/// on its way may have landed before the head row went, but none can after, for
/// its guard has nothing to match.
pub(crate) async fn clean(append: &Append, conn: &Conn) -> Result<Step, SqlFailure> {
    let started = append.clock.now();
    let mut rows = 0;
    for id in append.stream_ids() {
        rows += delete_records(append, conn, id).await?;
        let head = format!("DELETE FROM streams WHERE id = {id}");
        rows += tries::delete(append.clock, conn, &head).await?;
        rows += delete_records(append, conn, id).await?;
    }
    Ok(Step {
        rows,
        took: append.clock.now().since(started),
    })
}

/// Deletes the records of one stream by ranges of their key, listed once.
async fn delete_records(append: &Append, conn: &Conn, id: i64) -> Result<u64, SqlFailure> {
    let mut tries = Tries::new(append.clock);
    let range = loop {
        match range(conn, id).await {
            Ok(range) => break range,
            Err(failure) if is_missing(&failure) => return Ok(0),
            Err(failure) => tries.again(failure).await?,
        }
    };
    let Some((first, last)) = range else {
        return Ok(0);
    };
    let step = (BYTES_PER_STEP / append.deal.payload_len() as i64).clamp(1, ROWS_PER_STEP);
    let mut rows = 0;
    let mut from = first;
    while from <= last {
        let to = from.saturating_add(step - 1).min(last);
        let sql =
            format!("DELETE FROM records WHERE stream_id = {id} AND seq >= {from} AND seq <= {to}");
        rows += tries::delete(append.clock, conn, &sql).await?;
        from = to + 1;
    }
    Ok(rows)
}

async fn range(conn: &Conn, id: i64) -> Result<Option<(i64, i64)>, SqlFailure> {
    let row = conn
        .client
        .query_one(
            "SELECT min(seq), max(seq) FROM records WHERE stream_id = $1",
            &[&id],
        )
        .await
        .map_err(|error| SqlFailure::from_driver(&error))?;
    let first: Result<Option<i64>, _> = row.try_get(0);
    let last: Result<Option<i64>, _> = row.try_get(1);
    match (first, last) {
        (Ok(first), Ok(last)) => Ok(first.zip(last)),
        (Err(error), _) | (_, Err(error)) => Err(SqlFailure::from_driver(&error)),
    }
}
