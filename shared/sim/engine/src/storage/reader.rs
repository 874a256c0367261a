//! Reading: a table as one transaction sees it.

use super::*;
use crate::catalog::Index;
use crate::error::Result;
use crate::txn::TableBuffer;
use crate::value::key::{self, Key};
use std::ops::Bound;

/// Both ends of an interval, as a BTreeMap takes them.
type Bounds<'r> = (Bound<&'r [u8]>, Bound<&'r [u8]>);

/// An interval of keys, as bytes: from `lo` on, up to but not including `hi`
/// (no end when empty).
#[derive(Clone, Debug, Default)]
pub(crate) struct Range {
    pub lo: Vec<u8>,
    pub hi: Vec<u8>,
}

impl Range {
    /// Everything that begins with `prefix`.
    pub(crate) fn prefix(prefix: Vec<u8>) -> Range {
        let hi = key::successor(&prefix);
        Range { lo: prefix, hi }
    }

    fn bounds(&self) -> Option<Bounds<'_>> {
        if self.hi.is_empty() {
            return Some((Bound::Included(&self.lo), Bound::Unbounded));
        }
        // BTreeMap::range panics on an interval that is turned round.
        (self.lo < self.hi)
            .then_some((Bound::Included(&self.lo[..]), Bound::Excluded(&self.hi[..])))
    }
}

/// A table as one transaction sees it: its snapshot, and over it what it has
/// buffered itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    /// `None` for a table that this very transaction creates.
    pub store: Option<&'a TableStore>,
    pub buffer: Option<&'a TableBuffer>,
    pub snapshot: Ts,
}

/// What is called for each row: its key and the row. False stops the scan.
pub(crate) type OnRow<'f, 'a> = dyn FnMut(&'a [u8], &'a Row) -> Result<bool> + 'f;

impl<'a> Reader<'a> {
    /// The row of a key.
    pub(crate) fn get(&self, key: &Key) -> Option<&'a Row> {
        if let Some(pending) = self.buffer.and_then(|buffer| buffer.rows.get(key)) {
            return pending.row.as_ref();
        }
        self.committed(key)
    }

    /// The row of a key, and the key as it is kept beside it.
    pub(crate) fn find(&self, key: &Key) -> Option<(&'a [u8], &'a Row)> {
        if let Some(buffer) = self.buffer
            && let Some((key, pending)) = buffer.rows.get_key_value(key)
        {
            return Some((key.bytes(), pending.row.as_ref()?));
        }
        let (key, chain) = self.store?.rows.get_key_value(key)?;
        Some((key.bytes(), chain.visible(self.snapshot)?))
    }

    /// The row of a key in the snapshot alone.
    pub(crate) fn committed(&self, key: &Key) -> Option<&'a Row> {
        self.store?.rows.get(key)?.visible(self.snapshot)
    }

    /// Rows of an interval of keys, in the order of the keys or against it.
    pub(crate) fn scan(&self, range: &Range, reverse: bool, f: &mut OnRow<'_, 'a>) -> Result<()> {
        let Some(bounds) = range.bounds() else {
            return Ok(());
        };
        let snapshot = self.snapshot;
        let buffer = self.buffer.filter(|buffer| !buffer.rows.is_empty());
        let stored = self.store.map(|store| store.rows.range::<[u8], _>(bounds));
        let Some(buffer) = buffer else {
            let stored = stored.into_iter().flatten();
            let mut visit = |(key, chain): (&'a Key, &'a Chain)| match chain.visible(snapshot) {
                Some(row) => f(key.bytes(), row),
                None => Ok(true),
            };
            if reverse {
                for item in stored.rev() {
                    if !visit(item)? {
                        break;
                    }
                }
            } else {
                for item in stored {
                    if !visit(item)? {
                        break;
                    }
                }
            }
            return Ok(());
        };
        let stored = stored
            .into_iter()
            .flatten()
            .map(|(key, chain)| (key, chain.visible(snapshot)));
        let own = buffer
            .rows
            .range::<[u8], _>(bounds)
            .map(|(key, pending)| (key, pending.row.as_ref()));
        if reverse {
            merge(stored.rev(), own.rev(), true, f)
        } else {
            merge(stored, own, false, f)
        }
    }

    /// Rows whose key in an index lies in an interval, in the index's order or
    /// against it.
    pub(crate) fn scan_index(
        &self,
        index: &Index,
        range: &Range,
        reverse: bool,
        f: &mut OnRow<'_, 'a>,
    ) -> Result<()> {
        let Some(bounds) = range.bounds() else {
            return Ok(());
        };
        let reader = *self;
        let stored = self
            .store
            .and_then(|store| store.indexes.get(&index.oid))
            .map(|entries| entries.range::<[u8], _>(bounds))
            .into_iter()
            .flatten()
            .filter_map(move |(key, entry)| {
                let (columns, row_key) = key.bytes().split_at(usize::from(entry.row_key));
                if reader
                    .buffer
                    .is_some_and(|buffer| buffer.rows.contains_key(row_key))
                {
                    return None;
                }
                let chain = reader.store?.rows.get(row_key)?;
                let row = chain.visible(reader.snapshot)?;
                // With a single version there is nothing else that the entry
                // could be about.
                if !chain.older.is_empty() {
                    let mut now = Vec::with_capacity(columns.len());
                    if !push_index_key(index, row, &mut now) || now != columns {
                        return None;
                    }
                }
                Some((key.bytes(), row_key, row))
            });
        let own = self
            .buffer
            .and_then(|buffer| buffer.indexes.get(&index.oid))
            .map(|entries| entries.range::<[u8], _>(bounds))
            .into_iter()
            .flatten()
            .filter_map(move |(key, at)| {
                let (_, row_key) = key.bytes().split_at(usize::from(*at));
                let row = reader.buffer?.rows.get(row_key)?.row.as_ref()?;
                Some((key.bytes(), row_key, row))
            });
        if reverse {
            merge_entries(stored.rev(), own.rev(), true, f)
        } else {
            merge_entries(stored, own, false, f)
        }
    }
}

/// Two sorted streams as one; a buffered row hides the stored one of its key.
pub(super) fn merge<'a>(
    stored: impl Iterator<Item = (&'a Key, Option<&'a Row>)>,
    own: impl Iterator<Item = (&'a Key, Option<&'a Row>)>,
    reverse: bool,
    f: &mut OnRow<'_, 'a>,
) -> Result<()> {
    let mut stored = stored.peekable();
    let mut own = own.peekable();
    loop {
        let order = match (stored.peek(), own.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((a, _)), Some((b, _))) if reverse => b.cmp(a),
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let next = if order.is_lt() {
            stored.next()
        } else {
            if order.is_eq() {
                stored.next();
            }
            own.next()
        };
        if let Some((key, Some(row))) = next
            && !f(key.bytes(), row)?
        {
            return Ok(());
        }
    }
}

pub(super) type EntryRow<'a> = (&'a [u8], &'a [u8], &'a Row);

pub(super) fn merge_entries<'a>(
    stored: impl Iterator<Item = EntryRow<'a>>,
    own: impl Iterator<Item = EntryRow<'a>>,
    reverse: bool,
    f: &mut OnRow<'_, 'a>,
) -> Result<()> {
    let mut stored = stored.peekable();
    let mut own = own.peekable();
    loop {
        let stored_first = match (stored.peek(), own.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((a, ..)), Some((b, ..))) => (a < b) != reverse,
        };
        let next = if stored_first {
            stored.next()
        } else {
            own.next()
        };
        if let Some((_, row_key, row)) = next
            && !f(row_key, row)?
        {
            return Ok(());
        }
    }
}
