//! What DPU are made of: AWS's formulas, with what is not published as a range.

use super::Range;

/// ComputeDPU of AWS's example of a one-row insert.
pub(super) const COMPUTE_LEAST: f64 = 0.008;
/// ComputeDPU for each second that a transaction is open, as measured by a
/// third party.
const COMPUTE_PER_OPEN_S: f64 = 1.0;
const READ_DPU_PER_BYTE: f64 = 0.000_001_831_05;
const READ_LEAST_BYTES: f64 = 2048.0;
const WRITE_DPU_PER_BYTE: f64 = 0.000_048_83;
const WRITE_LEAST_BYTES: f64 = 1024.0;
pub(super) const ROW_LEAST_BYTES: f64 = 128.0;
/// Rows that preparation writes, verification reads and clean-up deletes in one
/// transaction.
const PAGE_ROWS: f64 = 1000.0;

/// What one attempt does.
pub(super) struct Attempt {
    /// Seconds that its transaction is open.
    pub open_s: Range,
    /// Reads, each of the least that is billed.
    pub reads: Range,
    /// Bytes that it writes.
    pub bytes: Range,
}

/// DPU of `attempts` attempts, of which `commits` commit, in so many regions.
pub(super) fn of_load(attempt: &Attempt, commits: Range, attempts: Range, regions: f64) -> Range {
    let compute = Range::new(COMPUTE_LEAST, COMPUTE_PER_OPEN_S * attempt.open_s.high);
    let read = attempt.reads.scaled(READ_LEAST_BYTES * READ_DPU_PER_BYTE);
    let billed = Range::new(
        attempt.bytes.low.max(WRITE_LEAST_BYTES),
        attempt.bytes.high.max(WRITE_LEAST_BYTES),
    );
    let write = billed.scaled(WRITE_DPU_PER_BYTE * regions);
    // Whether an attempt that lost is billed for what it would have written is
    // not published.
    let written = Range::new(commits.low, attempts.high).times(write);
    attempts.times(compute + read) + written
}

/// DPU of writing rows in large transactions.
pub(super) fn of_preparing(rows: Range, row_bytes: f64, regions: f64) -> Range {
    let write = rows.scaled(ROW_LEAST_BYTES.max(row_bytes) * WRITE_DPU_PER_BYTE * regions);
    write + pages(rows).scaled(COMPUTE_LEAST)
}

/// DPU of verifying and deleting rows.
pub(super) fn of_leaving(rows: Range, row_bytes: f64, regions: f64) -> Range {
    let read = rows.scaled(row_bytes * READ_DPU_PER_BYTE);
    let deleted = Range::new(ROW_LEAST_BYTES, row_bytes).scaled(WRITE_DPU_PER_BYTE * regions);
    let pages = pages(rows);
    let transactions = Range::new(pages.low * 2.0, pages.high * 2.0 + 10.0);
    let least = COMPUTE_LEAST + READ_LEAST_BYTES * READ_DPU_PER_BYTE;
    read + rows.times(deleted) + transactions.scaled(least)
}

fn pages(rows: Range) -> Range {
    let pages = |rows: f64| (rows / PAGE_ROWS).ceil().max(1.0);
    Range::new(pages(rows.low), pages(rows.high))
}
