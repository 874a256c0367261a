//! Computing window functions.

use super::*;
use crate::error::Result;
use crate::sql::expr::{self, Ctx};
use crate::sql::plan::SortKey;
use crate::value::Value;

/// Computes window functions: appends one value per call to every row.
pub(crate) fn windows(calls: &[WindowCall], cx: &Ctx<'_>, rows: &mut [Vec<Value>]) -> Result<()> {
    for call in calls {
        let mut keyed = Vec::with_capacity(rows.len());
        for (i, row) in rows.iter().enumerate() {
            let partition: Result<Vec<Value>> = call
                .partition
                .iter()
                .map(|e| expr::eval(e, cx, row))
                .collect();
            let order: Result<Vec<Value>> = call
                .order
                .iter()
                .map(|k| expr::eval(&k.expr, cx, row))
                .collect();
            keyed.push((partition?, order?, i));
        }
        let same = |a: &[Value], b: &[Value]| a.iter().zip(b).all(|(a, b)| a.compare(b).is_eq());
        keyed.sort_by(|(pa, oa, _), (pb, ob, _)| {
            pa.iter()
                .zip(pb)
                .map(|(a, b)| a.compare(b))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| SortKey::compare(&call.order, oa, ob))
        });
        let mut results = vec![Value::Null; rows.len()];
        let mut start = 0;
        while start < keyed.len() {
            let mut end = start + 1;
            while end < keyed.len() && same(&keyed[start].0, &keyed[end].0) {
                end += 1;
            }
            let part = &keyed[start..end];
            one_partition(call, cx, rows, part, &mut results)?;
            start = end;
        }
        for (row, result) in rows.iter_mut().zip(results) {
            row.push(result);
        }
    }
    Ok(())
}

pub(super) type Keyed = (Vec<Value>, Vec<Value>, usize);

pub(super) fn one_partition(
    call: &WindowCall,
    cx: &Ctx<'_>,
    rows: &[Vec<Value>],
    part: &[Keyed],
    results: &mut [Value],
) -> Result<()> {
    let peers = |a: &Keyed, b: &Keyed| SortKey::compare(&call.order, &a.1, &b.1).is_eq();
    let arg = |n: usize, at: &Keyed| match call.args.get(n) {
        Some(arg) => expr::eval(arg, cx, &rows[at.2]),
        None => Ok(Value::Null),
    };
    let (mut rank, mut dense) = (1i64, 0i64);
    let mut running = match &call.kind {
        WindowKind::Aggregate(aggregate) => Some(Accumulator::new(aggregate)),
        _ => None,
    };
    let mut group_end = 0;
    for (i, at) in part.iter().enumerate() {
        if i == group_end {
            rank = i64::try_from(i).unwrap_or(i64::MAX) + 1;
            dense += 1;
            group_end = i + 1;
            while group_end < part.len() && peers(at, &part[group_end]) {
                group_end += 1;
            }
            if let Some(running) = &mut running {
                for peer in &part[i..group_end] {
                    running.add(cx, &rows[peer.2])?;
                }
            }
        }
        results[at.2] = match &call.kind {
            WindowKind::RowNumber => Value::Int(i64::try_from(i).unwrap_or(i64::MAX) + 1),
            WindowKind::Rank => Value::Int(rank),
            WindowKind::DenseRank => Value::Int(dense),
            WindowKind::FirstValue => arg(0, &part[0])?,
            WindowKind::LastValue => arg(0, &part[group_end - 1])?,
            WindowKind::Lag | WindowKind::Lead => {
                let distance = match arg(1, at)? {
                    Value::Int(n) => n,
                    _ => 1,
                };
                let sign = if call.kind == WindowKind::Lag { -1 } else { 1 };
                let there = i64::try_from(i)
                    .unwrap_or(0)
                    .saturating_add(distance.saturating_mul(sign));
                match usize::try_from(there).ok().and_then(|i| part.get(i)) {
                    Some(there) => arg(0, there)?,
                    None => arg(2, at)?,
                }
            }
            WindowKind::Aggregate(_) => match &mut running {
                Some(running) => running.so_far()?,
                None => Value::Null,
            },
        };
    }
    Ok(())
}
