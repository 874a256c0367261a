//! Joins.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::expr::{self, Ctx, Expr, Outer};
use crate::sql::plan::{Join, JoinKind, Probe};
use crate::value::{Value, key};
use std::collections::HashMap;

pub(super) fn joined(
    left: &[Value],
    right: &[Value],
    left_width: usize,
    right_width: usize,
) -> Vec<Value> {
    let mut row = Vec::with_capacity(left_width + right_width);
    row.extend_from_slice(left);
    row.resize(left_width, Value::Null);
    row.extend_from_slice(right);
    row.resize(left_width + right_width, Value::Null);
    row
}

pub(super) fn passes(on: Option<&Expr>, cx: &Ctx<'_>, row: &[Value]) -> Result<bool> {
    match on {
        Some(on) => expr::holds(on, cx, row),
        None => Ok(true),
    }
}

pub(super) fn run_join(join: &Join, cx: &Ctx<'_>, emit: &mut Emit<'_>) -> Result<()> {
    let (lw, rw) = (join.left_width, join.right_width);
    let keep_left = matches!(join.kind, JoinKind::Left | JoinKind::Full);
    let keep_right = matches!(join.kind, JoinKind::Right | JoinKind::Full);
    if join.lateral {
        if keep_right {
            return Err(SqlError::new(
                "42P10",
                "invalid reference to FROM-clause entry",
            ));
        }
        return run(&join.left, cx, &mut |left| {
            let outer = Outer {
                row: &left,
                next: cx.outer,
            };
            let inner = Ctx {
                params: cx.params,
                outer: Some(&outer),
                run: cx.run,
            };
            let mut found = false;
            let mut more = true;
            run(&join.right, &inner, &mut |right| {
                cx.run()?.step()?;
                let row = joined(&left, &right, lw, rw);
                if passes(join.on.as_ref(), cx, &row)? {
                    found = true;
                    more = emit(Tuple::Own(row))?;
                }
                Ok(more)
            })?;
            if more && keep_left && !found {
                more = emit(Tuple::Own(joined(&left, &[], lw, rw)))?;
            }
            Ok(more)
        });
    }
    let rights = collect(&join.right, cx)?;
    if rights.is_empty() && !keep_left && !keep_right {
        return Ok(());
    }
    let mut table: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    let all: Vec<usize> = if join.hash.is_empty() {
        (0..rights.len()).collect()
    } else {
        for (i, right) in rights.iter().enumerate() {
            if let Some(key) = hash_key(join.hash.iter().map(|(_, right)| right), cx, right)? {
                table.entry(key).or_default().push(i);
            }
        }
        Vec::new()
    };
    let mut matched = vec![false; rights.len()];
    let mut more = true;
    run(&join.left, cx, &mut |left| {
        let candidates = if join.hash.is_empty() {
            all.as_slice()
        } else {
            let key = hash_key(join.hash.iter().map(|(left, _)| left), cx, &left)?;
            key.and_then(|key| table.get(&key))
                .map_or(&[][..], Vec::as_slice)
        };
        let mut found = false;
        for i in candidates {
            cx.run()?.step()?;
            let row = joined(&left, &rights[*i], lw, rw);
            if passes(join.on.as_ref(), cx, &row)? {
                found = true;
                matched[*i] = true;
                more = emit(Tuple::Own(row))?;
                if !more {
                    return Ok(false);
                }
            }
        }
        if keep_left && !found {
            more = emit(Tuple::Own(joined(&left, &[], lw, rw)))?;
        }
        Ok(more)
    })?;
    if keep_right && more {
        for (right, matched) in rights.iter().zip(matched) {
            if !matched && !emit(Tuple::Own(joined(&[], right, lw, rw)))? {
                break;
            }
        }
    }
    Ok(())
}

/// The key of a row in a hash join; `None` when NULL is in it, which equals
/// nothing.
pub(super) fn hash_key<'e>(
    exprs: impl Iterator<Item = &'e Expr>,
    cx: &Ctx<'_>,
    row: &[Value],
) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    for expr in exprs {
        let value = expr::eval(expr, cx, row)?;
        if value.is_null() {
            return Ok(None);
        }
        key::push(&mut bytes, &value);
    }
    Ok(Some(bytes))
}

pub(super) fn run_probe(probe: &Probe, cx: &Ctx<'_>, emit: &mut Emit<'_>) -> Result<()> {
    let scan = &probe.scan;
    let rw = probe.right_width;
    run(&probe.left, cx, &mut |left| {
        let lw = left.len();
        let mut found = false;
        let mut more = true;
        scan_rows(scan, cx, &left, &mut |key, right| {
            let mut row = joined(&left, right, lw, rw);
            if scan.with_key
                && let Some(last) = row.last_mut()
            {
                *last = Value::bytes(key);
            }
            if passes(probe.on.as_ref(), cx, &row)? {
                found = true;
                more = emit(Tuple::Own(row))?;
            }
            Ok(more)
        })?;
        if more && probe.outer_join && !found {
            more = emit(Tuple::Own(joined(&left, &[], lw, rw)))?;
        }
        Ok(more)
    })
}
