//! Reading a chain from a database, page by page.

use target::{Conn, SqlFailure};
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Statement};

use super::sql;
use super::walk::Found;

/// Records of one page at most.
const ROWS_PER_PAGE: i64 = 500;

/// Bytes of payload that a page should not exceed.
const BYTES_PER_PAGE: usize = 4 << 20;

/// Reads chains through one connection.
pub(crate) struct Reader<'a> {
    conn: &'a Conn,
    page: Statement,
    head: Statement,
}

impl<'a> Reader<'a> {
    pub(crate) async fn new(conn: &'a Conn) -> Result<Reader<'a>, SqlFailure> {
        let page = conn
            .client
            .prepare_typed(
                "SELECT seq, prev_hash, hash, payload FROM records \
                 WHERE stream_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                &[Type::INT8, Type::INT8, Type::INT8],
            )
            .await
            .map_err(|error| SqlFailure::from_driver(&error))?;
        let head = conn
            .client
            .prepare_typed(sql::READ_HEAD, &[Type::INT8])
            .await
            .map_err(|error| SqlFailure::from_driver(&error))?;
        Ok(Reader { conn, page, head })
    }

    /// Hands every record of a stream to `each`, in order, and returns the head
    /// that belongs to the last of them; `None` when there is no head row.
    ///
    /// No transaction holds all of this together, which on a long chain would
    /// outlive DSQL's five minutes. None is needed: records are only ever added
    /// behind the others, together with the head. So a head that was read after
    /// a page and is ahead of it means that there is more to read, and a head
    /// that is still ahead of all that was read *after it* is wrong.
    pub(crate) async fn stream(
        &self,
        stream_id: i64,
        mut each: impl FnMut(Found<'_>) + Send,
    ) -> Result<Option<(i64, Vec<u8>)>, SqlFailure> {
        let mut last = i64::MIN;
        let mut limit = ROWS_PER_PAGE;
        let mut head = None;
        loop {
            let rows = self.read_page(stream_id, last, limit).await?;
            let mut largest = 1;
            for row in &rows {
                let found = found(row).map_err(|error| SqlFailure::from_driver(&error))?;
                last = found.seq;
                largest = largest.max(found.payload.len());
                each(found);
            }
            if rows.is_empty() && head.is_some() {
                return Ok(head);
            }
            let full = rows.len() as i64 == limit;
            // `usize` fits: it is at most BYTES_PER_PAGE.
            limit = ((BYTES_PER_PAGE / largest) as i64).clamp(1, ROWS_PER_PAGE);
            if full {
                continue;
            }
            head = self.read_head(stream_id).await?;
            match &head {
                Some((seq, _)) if *seq > last.max(0) => {}
                _ => return Ok(head),
            }
        }
    }

    async fn read_page(
        &self,
        stream_id: i64,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Row>, SqlFailure> {
        self.conn
            .client
            .query(&self.page, &[&stream_id, &after, &limit])
            .await
            .map_err(|error| SqlFailure::from_driver(&error))
    }

    async fn read_head(&self, stream_id: i64) -> Result<Option<(i64, Vec<u8>)>, SqlFailure> {
        let row = self
            .conn
            .client
            .query_opt(&self.head, &[&stream_id])
            .await
            .map_err(|error| SqlFailure::from_driver(&error))?;
        let Some(row) = row else {
            return Ok(None);
        };
        let seq = row.try_get(0);
        let hash = row.try_get(1);
        match (seq, hash) {
            (Ok(seq), Ok(hash)) => Ok(Some((seq, hash))),
            (Err(error), _) | (_, Err(error)) => Err(SqlFailure::from_driver(&error)),
        }
    }
}

fn found(row: &Row) -> Result<Found<'_>, tokio_postgres::Error> {
    Ok(Found {
        seq: row.try_get(0)?,
        prev_hash: row.try_get(1)?,
        hash: row.try_get(2)?,
        payload: row.try_get(3)?,
    })
}
