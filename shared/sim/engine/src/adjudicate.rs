//! The adjudicator: of two transactions that want the same thing, the one that
//! commits first has it.
//!
//! A transaction is checked against everything that was committed after its
//! snapshot:
//!
//! | it wants to            | and loses to a later commit that              |
//! |------------------------|-----------------------------------------------|
//! | write a row            | wrote it, or claimed it FOR UPDATE            |
//! | delete it, change a unique key of it, claim it FOR UPDATE | also to one that claimed it FOR KEY SHARE |
//! | claim it FOR KEY SHARE | deleted it, changed a unique key of it, or claimed it FOR UPDATE |
//! | add a unique key       | added the same one, to whatever row           |
//!
//! Reads are not checked: two transactions that read what the other writes may
//! both commit (write skew), as under any snapshot isolation. And nobody waits:
//! a claim is a mark that a commit leaves behind.

use std::collections::BTreeMap;

use crate::catalog::Table;
use crate::error::{Result, SqlError};
use crate::storage::{self, Garbage, TableStore, Ts};
use crate::txn::{Lock, TableBuffer, Txn};
use crate::value::key::Key;

/// Checks a transaction against what was committed after its snapshot.
pub(crate) fn check(stores: &BTreeMap<u32, TableStore>, txn: &Txn) -> Result<()> {
    for (oid, buffer) in txn.buffers.iter() {
        let Some(store) = stores.get(&oid) else {
            continue;
        };
        check_rows(store, buffer, txn.snapshot)?;
        if let Some(table) = txn.catalog.table_by_oid(oid) {
            check_unique(store, table, buffer, txn.snapshot)?;
        }
    }
    Ok(())
}

fn check_rows(store: &TableStore, buffer: &TableBuffer, snapshot: Ts) -> Result<()> {
    for (key, pending) in &buffer.rows {
        let Some(chain) = store.chain(key) else {
            continue;
        };
        let marks = chain.marks();
        let mut latest = chain.written().max(marks.locked);
        if pending.key_changed {
            latest = latest.max(marks.shared);
        }
        if latest > snapshot {
            return Err(SqlError::conflict());
        }
    }
    for (key, lock) in &buffer.locks {
        let Some(chain) = store.chain(key) else {
            continue;
        };
        let marks = chain.marks();
        let latest = match lock {
            Lock::Update => chain.written().max(marks.locked).max(marks.shared),
            Lock::KeyShare => marks.key_changed.max(marks.locked),
        };
        if latest > snapshot {
            return Err(SqlError::conflict());
        }
    }
    Ok(())
}

fn check_unique(
    store: &TableStore,
    table: &Table,
    buffer: &TableBuffer,
    snapshot: Ts,
) -> Result<()> {
    for index in table.indexes.iter().filter(|index| index.unique) {
        for pending in buffer.rows.values() {
            let Some(row) = &pending.row else { continue };
            let mut wanted = Vec::new();
            if storage::has_null(index, row) || !storage::push_index_key(index, row, &mut wanted) {
                continue;
            }
            // A key that the row had before is not added.
            let had = pending.base.as_ref().is_some_and(|base| {
                let mut old = Vec::new();
                storage::push_index_key(index, base, &mut old) && old == wanted
            });
            if !had && store.key_added(index.oid, &wanted) > snapshot {
                return Err(SqlError::conflict());
            }
        }
    }
    Ok(())
}

/// Makes a checked transaction's writes visible to snapshots from `ts` on.
/// `horizon` is the oldest snapshot still in use.
pub(crate) fn apply(
    stores: &mut BTreeMap<u32, TableStore>,
    garbage: &mut Garbage,
    txn: &Txn,
    ts: Ts,
    horizon: Ts,
) {
    for (oid, buffer) in txn.buffers.iter() {
        let Some(store) = stores.get_mut(&oid) else {
            continue;
        };
        for (key, pending) in &buffer.rows {
            if pending.row.is_none() && pending.base.is_none() {
                // Inserted and deleted again: nothing was there, nothing is.
                continue;
            }
            let mut wait = store.write(key, pending.row.clone(), ts, horizon);
            if pending.key_changed
                && pending.row.is_some()
                && let Some(chain) = store.chain_mut(key)
            {
                chain.marks_mut().key_changed = ts;
                wait = true;
            }
            if wait {
                garbage.push(ts, oid, key.clone());
            }
        }
        for (key, lock) in &buffer.locks {
            mark(store, key, *lock, ts);
            garbage.push(ts, oid, key.clone());
        }
    }
}

fn mark(store: &mut TableStore, key: &Key, lock: Lock, ts: Ts) {
    if let Some(chain) = store.chain_mut(key) {
        match lock {
            Lock::Update => chain.marks_mut().locked = ts,
            Lock::KeyShare => chain.marks_mut().shared = ts,
        }
    }
}
