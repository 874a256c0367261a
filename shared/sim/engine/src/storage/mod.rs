//! Versioned storage: every row is a chain of versions, each with the commit
//! that wrote it.
//!
//! ```text
//! key (7, 1) ── newest: commit 12, row ── older: commit 5, row
//!                                                commit 3, row
//! ```
//!
//! A reader with snapshot 8 takes the newest version that is not younger,
//! commit 5's. Commits are numbered one after the other; a snapshot is the
//! number of the last commit before it. Nothing here is ever locked: a writer
//! appends a version when it commits, and a reader never looks at it.
//!
//! A version is garbage when every snapshot still in use, and every later one,
//! reads a younger one. Superseded keys wait in a queue in commit order, so
//! that collecting costs each write once, however long readers held it up.
//!
//! Secondary indexes are not versioned. An entry says that *some* version of
//! the row has this key; a reader checks it against the version that it sees,
//! and the entry goes when the last version with this key does.

mod reader;

pub(crate) use reader::{OnRow, Range, Reader};

use crate::catalog::{Index, IndexKey, Table};
use crate::sql::expr::{self, Ctx};
use crate::value::Value;
use crate::value::key::{self, Key};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// The number of a commit, or of the last commit before a snapshot.
pub(crate) type Ts = u64;

/// A stored row: one value per slot. It may be shorter than the table has
/// columns, when some were added later; what is missing is NULL.
pub(crate) type Row = Arc<[Value]>;

/// Bytes that a row counts for beside its values: a header of 8 and 1 a column.
pub(crate) fn row_width(row: &[Value]) -> usize {
    8 + row.iter().map(|value| value.width() + 1).sum::<usize>()
}

#[derive(Clone, Debug)]
struct Version {
    ts: Ts,
    /// `None` when the row was deleted.
    row: Option<Row>,
}

/// Last commits that did something else to a row than writing it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// FOR UPDATE.
    pub locked: Ts,
    /// FOR KEY SHARE.
    pub shared: Ts,
    /// A unique key of the row was changed, or the row deleted.
    pub key_changed: Ts,
}

/// All versions of one row.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    newest: Version,
    /// The oldest first.
    older: Vec<Version>,
    marks: Option<Box<Marks>>,
}

impl Chain {
    fn visible(&self, snapshot: Ts) -> Option<&Row> {
        if self.newest.ts <= snapshot {
            return self.newest.row.as_ref();
        }
        self.older
            .iter()
            .rev()
            .find(|version| version.ts <= snapshot)
            .and_then(|version| version.row.as_ref())
    }

    /// When the row was last written.
    pub(crate) fn written(&self) -> Ts {
        self.newest.ts
    }

    pub(crate) fn marks(&self) -> Marks {
        self.marks.as_deref().copied().unwrap_or_default()
    }

    pub(crate) fn marks_mut(&mut self) -> &mut Marks {
        self.marks.get_or_insert_default()
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.older
            .iter()
            .chain(std::iter::once(&self.newest))
            .filter_map(|version| version.row.as_ref())
    }
}

/// An entry of a secondary index. Its key is the indexed columns and then the
/// row's own key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Where the row's key begins.
    pub row_key: u16,
    /// The commit that gave the row this index key.
    pub added: Ts,
}

/// Rows and index entries of one table.
#[derive(Debug)]
pub(crate) struct TableStore {
    table: Arc<Table>,
    rows: BTreeMap<Key, Chain>,
    indexes: BTreeMap<u32, BTreeMap<Key, Entry>>,
}

/// Appends the key of a row in an index; false when a partial index leaves the
/// row out. What an expression cannot compute is indexed as NULL: the statement
/// that writes the row has been refused before.
pub(crate) fn push_index_key(index: &Index, row: &[Value], out: &mut Vec<u8>) -> bool {
    let cx = Ctx::bare();
    if let Some(predicate) = &index.predicate
        && !matches!(expr::holds(predicate, &cx, row), Ok(true))
    {
        return false;
    }
    for part in &index.keys {
        match part {
            IndexKey::Slot(slot) => key::push(out, row.get(*slot).unwrap_or(&Value::Null)),
            IndexKey::Expr(expr) => {
                key::push(out, &expr::eval(expr, &cx, row).unwrap_or(Value::Null));
            }
        }
    }
    true
}

/// The whole key of an index entry, and where the row's key begins in it.
pub(crate) fn entry_key(index: &Index, row: &[Value], row_key: &Key) -> Option<(Key, u16)> {
    let mut bytes = Vec::with_capacity(48);
    if !push_index_key(index, row, &mut bytes) {
        return None;
    }
    let at = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    bytes.extend_from_slice(row_key.bytes());
    Some((Key::new(&bytes), at))
}

impl TableStore {
    pub(crate) fn new(table: Arc<Table>) -> TableStore {
        let mut store = TableStore {
            table: Arc::clone(&table),
            rows: BTreeMap::new(),
            indexes: BTreeMap::new(),
        };
        store.redefine(table);
        store
    }

    /// Takes over a changed definition: builds new indexes, over all versions,
    /// and drops those that are gone.
    pub(crate) fn redefine(&mut self, table: Arc<Table>) {
        self.indexes
            .retain(|oid, _| table.indexes.iter().any(|index| index.oid == *oid));
        for index in &table.indexes {
            if self.indexes.contains_key(&index.oid) {
                continue;
            }
            let mut entries = BTreeMap::new();
            for (row_key, chain) in &self.rows {
                for version in chain.older.iter().chain(std::iter::once(&chain.newest)) {
                    let Some(row) = &version.row else { continue };
                    if let Some((key, at)) = entry_key(index, row, row_key) {
                        entries.entry(key).or_insert(Entry {
                            row_key: at,
                            added: version.ts,
                        });
                    }
                }
            }
            self.indexes.insert(index.oid, entries);
        }
        self.table = table;
    }

    /// Rows that the newest snapshot sees.
    pub(crate) fn live_rows(&self) -> usize {
        self.rows
            .values()
            .filter(|chain| chain.newest.row.is_some())
            .count()
    }

    /// Whether two live rows share a key of a unique index.
    pub(crate) fn has_duplicates(&self, index: &Index) -> bool {
        let mut last: Option<Vec<u8>> = None;
        let mut keys: Vec<Vec<u8>> = self
            .rows
            .values()
            .filter_map(|chain| chain.newest.row.as_ref())
            .filter(|row| !has_null(index, row))
            .filter_map(|row| {
                let mut bytes = Vec::new();
                push_index_key(index, row, &mut bytes).then_some(bytes)
            })
            .collect();
        keys.sort_unstable();
        keys.into_iter().any(|key| {
            let same = last.as_ref() == Some(&key);
            last = Some(key);
            same
        })
    }

    pub(crate) fn chain(&self, key: &Key) -> Option<&Chain> {
        self.rows.get(key)
    }

    pub(crate) fn chain_mut(&mut self, key: &Key) -> Option<&mut Chain> {
        self.rows.get_mut(key)
    }

    /// The last commit that gave some row the unique key `prefix`.
    pub(crate) fn key_added(&self, index: u32, prefix: &[u8]) -> Ts {
        let Some(entries) = self.indexes.get(&index) else {
            return 0;
        };
        let end = key::successor(prefix);
        entries
            .range::<[u8], _>((Bound::Included(prefix), Bound::Excluded(end.as_slice())))
            .map(|(_, entry)| entry.added)
            .max()
            .unwrap_or(0)
    }

    /// Appends a version. True when it supersedes something that may have to
    /// be collected.
    pub(crate) fn write(&mut self, key: &Key, row: Option<Row>, ts: Ts, horizon: Ts) -> bool {
        if let Some(row) = &row {
            for index in &self.table.indexes {
                let Some((entry, at)) = entry_key(index, row, key) else {
                    continue;
                };
                let entries = self.indexes.entry(index.oid).or_default();
                let same = self.rows.get(key).is_some_and(|chain| {
                    chain.newest.row.as_ref().is_some_and(|old| {
                        entry_key(index, old, key).is_some_and(|(old, _)| old == entry)
                    })
                });
                let slot = entries.entry(entry).or_insert(Entry {
                    row_key: at,
                    added: ts,
                });
                if !same {
                    slot.added = ts;
                }
            }
        }
        let version = Version { ts, row };
        match self.rows.get_mut(key) {
            None => {
                self.rows.insert(
                    key.clone(),
                    Chain {
                        newest: version,
                        older: Vec::new(),
                        marks: None,
                    },
                );
                false
            }
            Some(chain) => {
                let deleted = version.row.is_none();
                let old = std::mem::replace(&mut chain.newest, version);
                if deleted {
                    chain.marks_mut().key_changed = ts;
                }
                // With nobody left to read it, the old version goes at once.
                if horizon >= ts && chain.older.is_empty() && self.table.indexes.is_empty() {
                    return deleted;
                }
                chain.older.push(old);
                true
            }
        }
    }

    /// Drops the versions of a row that no snapshot from `horizon` on reads.
    fn prune(&mut self, key: &Key, horizon: Ts) {
        let Some(chain) = self.rows.get_mut(key) else {
            return;
        };
        if let Some(marks) = &chain.marks
            && marks.locked.max(marks.shared).max(marks.key_changed) <= horizon
        {
            chain.marks = None;
        }
        let keep = if chain.newest.ts <= horizon {
            chain.older.len()
        } else {
            // The youngest of the old ones that is not younger than the
            // horizon is still read.
            chain
                .older
                .iter()
                .rposition(|version| version.ts <= horizon)
                .unwrap_or(0)
        };
        let gone: Vec<Version> = chain.older.drain(..keep).collect();
        let dead = chain.newest.row.is_none()
            && chain.newest.ts <= horizon
            && chain.older.is_empty()
            && chain.marks.is_none();
        for index in &self.table.indexes {
            let Some(entries) = self.indexes.get_mut(&index.oid) else {
                continue;
            };
            for row in gone.iter().filter_map(|version| version.row.as_ref()) {
                let Some((entry, _)) = entry_key(index, row, key) else {
                    continue;
                };
                let still = chain
                    .rows()
                    .any(|row| entry_key(index, row, key).is_some_and(|(other, _)| other == entry));
                if !still {
                    entries.remove(&entry);
                }
            }
        }
        if dead {
            self.rows.remove(key);
        }
    }

    #[cfg(test)]
    fn versions(&self) -> usize {
        self.rows.values().map(|chain| 1 + chain.older.len()).sum()
    }

    #[cfg(test)]
    fn entries(&self) -> usize {
        self.indexes.values().map(BTreeMap::len).sum()
    }
}

/// Whether an indexed column of the row is NULL, which makes it unique.
pub(crate) fn has_null(index: &Index, row: &[Value]) -> bool {
    index.keys.iter().any(|part| match part {
        IndexKey::Slot(slot) => row.get(*slot).is_none_or(Value::is_null),
        IndexKey::Expr(expr) => {
            expr::eval(expr, &Ctx::bare(), row).is_ok_and(|value| value.is_null())
        }
    })
}

/// Keys whose older versions, or marks, wait to be collected.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    queue: VecDeque<(Ts, u32, Key)>,
}

impl Garbage {
    pub(crate) fn push(&mut self, ts: Ts, table: u32, key: Key) {
        self.queue.push_back((ts, table, key));
    }

    /// Collects what nobody at or after `horizon` can read.
    pub(crate) fn collect(&mut self, stores: &mut BTreeMap<u32, TableStore>, horizon: Ts) {
        while self.queue.front().is_some_and(|(ts, ..)| *ts <= horizon) {
            if let Some((_, table, key)) = self.queue.pop_front()
                && let Some(store) = stores.get_mut(&table)
            {
                store.prune(&key, horizon);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Arc<Table> {
        Arc::new(Table {
            oid: 1,
            schema: "public".to_owned(),
            name: "t".to_owned(),
            columns: Vec::new(),
            primary: vec![0],
            primary_name: "t_pkey".to_owned(),
            primary_oid: 2,
            indexes: vec![Arc::new(Index {
                oid: 3,
                name: "i".to_owned(),
                keys: vec![IndexKey::Slot(1)],
                include: Vec::new(),
                unique: false,
                predicate: None,
                valid: true,
                constraint: false,
                definition: String::new(),
            })],
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            owner: String::new(),
        })
    }

    fn row(id: i64, v: i64) -> Row {
        Arc::from([Value::Int(id), Value::Int(v)])
    }

    fn at(id: i64) -> Key {
        let mut bytes = Vec::new();
        key::push(&mut bytes, &Value::Int(id));
        Key::new(&bytes)
    }

    #[test]
    fn old_versions_and_their_index_entries_go_when_no_snapshot_reads_them() {
        let mut stores = BTreeMap::from([(1, TableStore::new(table()))]);
        let mut garbage = Garbage::default();
        for ts in 1..=10 {
            let store = stores.get_mut(&1).unwrap();
            if store.write(&at(7), Some(row(7, ts as i64)), ts, 0) {
                garbage.push(ts, 1, at(7));
            }
        }
        // A snapshot at 4 still reads the version of commit 4.
        garbage.collect(&mut stores, 4);
        assert_eq!(stores[&1].versions(), 7);
        let reader = Reader {
            store: Some(&stores[&1]),
            buffer: None,
            snapshot: 4,
        };
        assert_eq!(reader.get(&at(7)), Some(&row(7, 4)));
        garbage.collect(&mut stores, 10);
        assert_eq!((stores[&1].versions(), stores[&1].entries()), (1, 1));
        // A deleted row leaves nothing behind.
        let store = stores.get_mut(&1).unwrap();
        assert!(store.write(&at(7), None, 11, 10));
        garbage.push(11, 1, at(7));
        garbage.collect(&mut stores, 11);
        assert_eq!((stores[&1].versions(), stores[&1].entries()), (0, 0));
    }
}
