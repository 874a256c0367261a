//! Operators that look at many rows: grouping, LIMIT, UNION and its like, WITH.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::aggregate::Accumulator;
use crate::sql::expr::{self, Ctx, Expr};
use crate::sql::plan::{Aggregation, CtePlan, Node, SetOperation};
use crate::value::Value;
use indexmap::IndexMap;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Runs what a WITH defines and keeps its rows.
pub(crate) fn run_cte(cte: &CtePlan, cx: &Ctx<'_>) -> Result<()> {
    let run = cx.run()?;
    let mut rows = collect(&cte.plan, cx)?;
    let Some(step) = &cte.step else {
        run.keep(cte.slot, Some(Rc::new(rows)));
        return Ok(());
    };
    let mut seen = HashMap::new();
    let mut fresh = |rows: Vec<Vec<Value>>| -> Vec<Vec<Value>> {
        if cte.union_all {
            return rows;
        }
        rows.into_iter()
            .filter(|row| seen.insert(encoded(row), ()).is_none())
            .collect()
    };
    rows = fresh(rows);
    let mut all = rows.clone();
    while !rows.is_empty() {
        if all.len() > MAX_RECURSION_ROWS {
            return Err(SqlError::simulator("a recursive query with so many rows"));
        }
        run.keep(cte.slot, Some(Rc::new(rows)));
        rows = fresh(collect(step, cx)?);
        all.extend(rows.iter().cloned());
    }
    run.keep(cte.slot, Some(Rc::new(all)));
    Ok(())
}

/// Rows that a recursive query may make, so that an endless one ends.
pub(super) const MAX_RECURSION_ROWS: usize = 1_000_000;

pub(super) fn run_aggregation(
    aggregation: &Aggregation,
    cx: &Ctx<'_>,
    emit: &mut Emit<'_>,
) -> Result<()> {
    type Group<'c> = (Vec<Value>, Vec<Accumulator<'c>>);
    let calls = &aggregation.calls;
    let start = || calls.iter().map(Accumulator::new).collect::<Vec<_>>();
    // Groups come out in the order in which they were first seen.
    let mut groups: IndexMap<Vec<u8>, Group<'_>> = IndexMap::new();
    let single = aggregation.groups.is_empty() && aggregation.sets.len() == 1;
    if single {
        groups.insert(Vec::new(), (Vec::new(), start()));
    } else {
        // The empty grouping set has its row even without input.
        for (i, set) in aggregation.sets.iter().enumerate() {
            if aggregation.sets.len() > 1 && !set.contains(&true) {
                let nulls = vec![Value::Null; set.len()];
                groups.insert(set_key(i, &nulls, true), (nulls, start()));
            }
        }
    }
    run(&aggregation.input, cx, &mut |row| {
        if single {
            if let Some((_, (_, all))) = groups.first_mut() {
                for one in all {
                    one.add(cx, &row)?;
                }
            }
            return Ok(true);
        }
        let values = project(&aggregation.groups, cx, &row)?;
        let many = aggregation.sets.len() > 1;
        for (i, set) in aggregation.sets.iter().enumerate() {
            let masked: Vec<Value> = values
                .iter()
                .zip(set)
                .map(|(value, counts)| if *counts { value.clone() } else { Value::Null })
                .collect();
            let key = set_key(i, &masked, many);
            let (_, all) = groups.entry(key).or_insert_with(|| (masked, start()));
            for one in all {
                one.add(cx, &row)?;
            }
        }
        Ok(true)
    })?;
    for (_, (mut row, all)) in groups {
        for mut one in all {
            row.push(one.finish()?);
        }
        if !emit(Tuple::Own(row))? {
            break;
        }
    }
    Ok(())
}

pub(super) fn set_key(set: usize, values: &[Value], many: bool) -> Vec<u8> {
    let mut bytes = encoded(values);
    if many {
        bytes.extend_from_slice(&set.to_be_bytes());
    }
    bytes
}

pub(super) fn run_limit(
    input: &Node,
    limit: Option<&Expr>,
    offset: Option<&Expr>,
    cx: &Ctx<'_>,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let count = |expr: Option<&Expr>, sqlstate, clause: &str| -> Result<Option<u64>> {
        let Some(expr) = expr else { return Ok(None) };
        match expr::eval(expr, cx, &[])? {
            Value::Int(n) => u64::try_from(n)
                .map(Some)
                .map_err(|_| SqlError::new(sqlstate, format!("{clause} must not be negative"))),
            _ => Ok(None),
        }
    };
    let mut skip = count(offset, "2201X", "OFFSET")?.unwrap_or(0);
    let mut left = count(limit, "2201W", "LIMIT")?;
    if left == Some(0) {
        return Ok(());
    }
    run(input, cx, &mut |row| {
        if skip > 0 {
            skip -= 1;
            return Ok(true);
        }
        let more = emit(row)?;
        if let Some(left) = &mut left {
            *left -= 1;
            return Ok(more && *left > 0);
        }
        Ok(more)
    })
}

pub(super) fn set_operation(
    op: SetOperation,
    all: bool,
    left: &Node,
    right: &Node,
    cx: &Ctx<'_>,
    emit: &mut Emit<'_>,
) -> Result<()> {
    if op == SetOperation::Union {
        let mut seen = HashMap::new();
        let mut more = true;
        for side in [left, right] {
            if !more {
                break;
            }
            run(side, cx, &mut |row| {
                if all || seen.insert(encoded(&row), ()).is_none() {
                    more = emit(row)?;
                }
                Ok(more)
            })?;
        }
        return Ok(());
    }
    // How often each row stands on the right.
    let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    run(right, cx, &mut |row| {
        *counts.entry(encoded(&row)).or_default() += 1;
        Ok(true)
    })?;
    let mut given = HashMap::new();
    run(left, cx, &mut |row| {
        let bytes = encoded(&row);
        let count = counts.get_mut(&bytes).filter(|count| **count > 0);
        let wanted = match (op, count, all) {
            (SetOperation::Intersect, Some(count), true) => {
                *count -= 1;
                true
            }
            (SetOperation::Intersect, found, false) => {
                found.is_some() && given.insert(bytes, ()).is_none()
            }
            (SetOperation::Except, Some(count), true) => {
                *count -= 1;
                false
            }
            (SetOperation::Except, None, true) => true,
            (SetOperation::Except, found, false) => {
                found.is_none() && given.insert(bytes, ()).is_none()
            }
            _ => false,
        };
        if wanted { emit(row) } else { Ok(true) }
    })
}
