//! The statements of an append.

use std::fmt::Write;

use super::chain::{Batch, Hash, Record};
use super::hex;

/// Reads a head.
pub(crate) const READ_HEAD: &str = "SELECT head_seq, head_hash FROM streams WHERE id = $1";

/// Moves a head that was read in the same transaction. There the seq alone is
/// guard enough: it only ever grows, and a chain has one hash at one seq.
pub(crate) const MOVE_HEAD: &str =
    "UPDATE streams SET head_seq = $2, head_hash = $3 WHERE id = $1 AND head_seq = $4";

/// Reads what is at one place of a chain.
pub(crate) const READ_SLOT: &str = "SELECT hash FROM records WHERE stream_id = $1 AND seq = $2";

/// A multi-row INSERT with parameters: `$1` is the stream, then four for each
/// record.
pub(crate) fn insert(records: u32) -> String {
    let mut sql =
        String::from("INSERT INTO records (stream_id, seq, prev_hash, hash, payload) VALUES ");
    for i in 0..records {
        let comma = if i == 0 { "" } else { ", " };
        let p = 4 * i + 2;
        // Writing to a String cannot fail.
        let _ = write!(sql, "{comma}($1, ${p}, ${}, ${}, ${})", p + 1, p + 2, p + 3);
    }
    sql
}

/// Reads a head, in text form.
pub(crate) fn read_head_text(stream_id: i64) -> String {
    format!("SELECT head_seq, head_hash FROM streams WHERE id = {stream_id}")
}

/// The writes of one batch and COMMIT: three statements for one flight.
///
/// The head moves first, guarded by the seq and hash that the batch is chained
/// to; the records are then taken from the head *as this batch leaves it*. A
/// transaction sees its own update, so the INSERT has its rows if and only if
/// the UPDATE moved the head, at every isolation level and whatever the guard
/// was built from. See `docs/append.md`.
pub(crate) fn writes(stream_id: i64, batch: &Batch) -> String {
    let (before, after) = (batch.before, batch.after());
    let bytes: usize = batch.records.iter().map(|r| r.payload.len()).sum();
    let mut sql = String::with_capacity(600 + batch.records.len() * 220 + 2 * bytes);
    sql.push_str("UPDATE streams SET head_seq = ");
    let _ = write!(sql, "{}, head_hash = ", after.seq);
    literal(&after.hash, &mut sql);
    where_head(stream_id, "", before.seq, &before.hash, &mut sql);
    sql.push_str(
        "; INSERT INTO records (stream_id, seq, prev_hash, hash, payload) \
         SELECT s.id, r.seq, r.prev_hash, r.hash, r.payload FROM streams AS s CROSS JOIN (VALUES ",
    );
    for (i, record) in batch.records.iter().enumerate() {
        if i > 0 {
            sql.push_str(", ");
        }
        row(record, &mut sql);
    }
    sql.push_str(") AS r (seq, prev_hash, hash, payload)");
    where_head(stream_id, "s.", after.seq, &after.hash, &mut sql);
    sql.push_str("; COMMIT");
    sql
}

fn where_head(stream_id: i64, table: &str, seq: i64, hash: &Hash, sql: &mut String) {
    let _ = write!(
        sql,
        " WHERE {table}id = {stream_id} AND {table}head_seq = {seq} AND {table}head_hash = "
    );
    literal(hash, sql);
}

fn row(record: &Record, sql: &mut String) {
    let _ = write!(sql, "({}, ", record.seq);
    literal(&record.prev_hash, sql);
    sql.push_str(", ");
    literal(&record.hash, sql);
    sql.push_str(", ");
    literal(&record.payload, sql);
    sql.push(')');
}

/// A bytea literal. The cast says its type where nothing else would.
fn literal(bytes: &[u8], sql: &mut String) {
    sql.push_str("'\\x");
    hex::push(bytes, sql);
    sql.push_str("'::bytea");
}
