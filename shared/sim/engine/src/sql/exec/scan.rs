//! Scans: from values to intervals of keys, and the rows in them.

use super::*;
use crate::catalog::Table;
use crate::error::Result;
use crate::sql::expr::{self, Ctx, Expr};
use crate::sql::plan::{Access, KeyPart, Scan};
use crate::storage::{OnRow, Range, Row};
use crate::value::{Value, key};
use std::cell::Cell;

/// A row in all of its columns, also those that were added after it.
pub(super) fn whole(table: &Table, row: &Row) -> Vec<Value> {
    let mut out = Vec::with_capacity(table.columns.len() + 1);
    out.extend(row.iter().cloned());
    out.resize(table.columns.len(), Value::Null);
    out
}

/// A whole row, and its key.
pub(super) fn keyed(table: &Table, key: &[u8], row: &Row) -> Vec<Value> {
    let mut out = whole(table, row);
    out.push(Value::bytes(key));
    out
}

/// Visits the rows of a scan with their keys. `probe` is the row that the key
/// is made of in a join.
pub(crate) fn scan_rows<'a>(
    scan: &Scan,
    cx: &Ctx<'a>,
    probe: &[Value],
    f: &mut OnRow<'_, 'a>,
) -> Result<()> {
    let run = cx.run()?;
    let reader = run.reader(scan.table.oid);
    let mut visit = |key: &'a [u8], row: &'a Row| -> Result<bool> {
        run.count_read(row)?;
        if let Some(filter) = &scan.filter
            && !expr::holds(filter, cx, row)?
        {
            return Ok(true);
        }
        f(key, row)
    };
    let access = &scan.access;
    if access.index.is_none() && access.point {
        let mut bytes = Vec::with_capacity(36);
        for part in &access.equal {
            if let KeyPart::One(expr) = part {
                let value = expr::eval_ref(expr, cx, probe)?;
                if value.is_null() {
                    return Ok(());
                }
                key::push(&mut bytes, &value);
            }
        }
        return match reader.find(&key::Key::new(&bytes)) {
            Some((key, row)) => visit(key, row).map(drop),
            None => Ok(()),
        };
    }
    let stopped = Cell::new(false);
    let mut go_on = |key: &'a [u8], row: &'a Row| {
        let more = visit(key, row)?;
        stopped.set(!more);
        Ok(more)
    };
    let ranges = ranges(access, cx, probe)?;
    let index = access.index.and_then(|i| scan.table.indexes.get(i));
    let ranges: Box<dyn Iterator<Item = Range>> = if access.reverse {
        Box::new(ranges.into_iter().rev())
    } else {
        Box::new(ranges.into_iter())
    };
    for range in ranges {
        match index {
            Some(index) => reader.scan_index(index, &range, access.reverse, &mut go_on)?,
            None => reader.scan(&range, access.reverse, &mut go_on)?,
        }
        if stopped.get() {
            break;
        }
    }
    Ok(())
}

/// The intervals that a way leads to, in order and without overlap.
pub(super) fn ranges(access: &Access, cx: &Ctx<'_>, probe: &[Value]) -> Result<Vec<Range>> {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::with_capacity(36)];
    for part in &access.equal {
        let alternatives: Vec<Vec<u8>> = match part {
            KeyPart::One(expr) => {
                let value = expr::eval_ref(expr, cx, probe)?;
                if value.is_null() {
                    return Ok(Vec::new());
                }
                for prefix in &mut prefixes {
                    key::push(prefix, &value);
                }
                continue;
            }
            KeyPart::List(list) => {
                let mut all = Vec::with_capacity(list.len());
                for expr in list {
                    let value = expr::eval_ref(expr, cx, probe)?;
                    if !value.is_null() {
                        all.push(encoded(std::slice::from_ref(&value)));
                    }
                }
                all
            }
            KeyPart::Array(expr) => match &*expr::eval_ref(expr, cx, probe)? {
                Value::Array(array) => array
                    .items
                    .iter()
                    .filter(|item| !item.is_null())
                    .map(|item| encoded(std::slice::from_ref(item)))
                    .collect(),
                _ => Vec::new(),
            },
            KeyPart::Tuples(_, tuples) => {
                let mut all = Vec::with_capacity(tuples.len());
                for tuple in tuples {
                    let values = project(tuple, cx, probe)?;
                    if !values.iter().any(Value::is_null) {
                        all.push(encoded(&values));
                    }
                }
                all
            }
        };
        prefixes = prefixes
            .iter()
            .flat_map(|prefix| {
                alternatives
                    .iter()
                    .map(|more| [prefix.as_slice(), more.as_slice()].concat())
            })
            .collect();
        prefixes.sort_unstable();
        prefixes.dedup();
    }
    // A comparison with NULL holds for nothing.
    let Ok(low) = bound(access.low.as_ref(), cx, probe)? else {
        return Ok(Vec::new());
    };
    let Ok(high) = bound(access.high.as_ref(), cx, probe)? else {
        return Ok(Vec::new());
    };
    let bounded = low.is_some() || high.is_some();
    Ok(prefixes
        .into_iter()
        .map(|prefix| {
            if !bounded {
                return if prefix.is_empty() {
                    Range::default()
                } else {
                    Range::prefix(prefix)
                };
            }
            let lo = match &low {
                Some((bytes, true)) => [prefix.as_slice(), bytes].concat(),
                Some((bytes, false)) => key::successor(&[prefix.as_slice(), bytes].concat()),
                None => prefix.clone(),
            };
            let hi = match &high {
                Some((bytes, true)) => key::successor(&[prefix.as_slice(), bytes].concat()),
                Some((bytes, false)) => [prefix.as_slice(), bytes].concat(),
                None => key::before_null(&prefix),
            };
            Range { lo, hi }
        })
        .collect())
}

/// A bound was NULL.
struct IsNull;

/// An end of an interval, encoded, and whether it belongs to it; `None` where
/// there is none.
type End = Option<(Vec<u8>, bool)>;

fn bound(
    bound: Option<&(Expr, bool)>,
    cx: &Ctx<'_>,
    probe: &[Value],
) -> Result<std::result::Result<End, IsNull>> {
    let Some((expr, inclusive)) = bound else {
        return Ok(Ok(None));
    };
    let value = expr::eval_ref(expr, cx, probe)?;
    if value.is_null() {
        return Ok(Err(IsNull));
    }
    let bytes = encoded(std::slice::from_ref(&value));
    Ok(Ok(Some((bytes, *inclusive))))
}
