//! Functions that give rows.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::expr::{self, Ctx};
use crate::sql::plan::{SetItem, TableFunction, TableFunctionKind};
use crate::value::{Array, Value};

/// Rows of a function in FROM. `row` is what its arguments may look at.
pub(super) fn table_function(
    function: &TableFunction,
    cx: &Ctx<'_>,
    row: &[Value],
) -> Result<Vec<Vec<Value>>> {
    let args = project(&function.args, cx, row)?;
    let mut rows: Vec<Vec<Value>> = match function.kind {
        TableFunctionKind::Scalar => vec![args],
        TableFunctionKind::Series => series(&args)?
            .into_iter()
            .map(|value| vec![value])
            .collect(),
        TableFunctionKind::Unnest => {
            let arrays: Vec<Option<&Array>> = args
                .iter()
                .map(|arg| match arg {
                    Value::Array(array) => Some(&**array),
                    _ => None,
                })
                .collect();
            let longest = arrays.iter().flatten().map(|array| array.items.len()).max();
            (0..longest.unwrap_or(0))
                .map(|i| {
                    arrays
                        .iter()
                        .map(|array| {
                            array
                                .and_then(|array| array.items.get(i))
                                .cloned()
                                .unwrap_or(Value::Null)
                        })
                        .collect()
                })
                .collect()
        }
    };
    if function.ordinality {
        for (i, row) in rows.iter_mut().enumerate() {
            row.push(Value::Int(i64::try_from(i).unwrap_or(i64::MAX) + 1));
        }
    }
    Ok(rows)
}

/// Rows that a series may have.
pub(super) const MAX_SERIES: usize = 10_000_000;

pub(super) fn series(args: &[Value]) -> Result<Vec<Value>> {
    let too_long = || SqlError::simulator("so long a series");
    let zero_step = || SqlError::new("22023", "step size cannot equal zero");
    let mut out = Vec::new();
    match args {
        [Value::Int(from), Value::Int(to), rest @ ..] => {
            let step = match rest.first() {
                Some(Value::Int(step)) => *step,
                Some(_) => return Ok(out),
                None => 1,
            };
            if step == 0 {
                return Err(zero_step());
            }
            let mut at = *from;
            while (step > 0 && at <= *to) || (step < 0 && at >= *to) {
                if out.len() >= MAX_SERIES {
                    return Err(too_long());
                }
                out.push(Value::Int(at));
                match at.checked_add(step) {
                    Some(next) => at = next,
                    None => break,
                }
            }
        }
        [Value::Numeric(from), Value::Numeric(to), rest @ ..] => {
            let step = match rest.first() {
                Some(Value::Numeric(step)) => **step,
                Some(_) => return Ok(out),
                None => crate::value::Numeric::from_int(1),
            };
            if step.is_zero() {
                return Err(zero_step());
            }
            let up = step > crate::value::Numeric::ZERO;
            let mut at = **from;
            while (up && at <= **to) || (!up && at >= **to) {
                if out.len() >= MAX_SERIES {
                    return Err(too_long());
                }
                out.push(Value::numeric(at));
                at = at.add(step)?;
            }
        }
        [
            Value::Timestamp(from),
            Value::Timestamp(to),
            Value::Interval(step),
        ] => {
            if step.comparable() == 0 {
                return Err(zero_step());
            }
            let up = step.comparable() > 0;
            let mut at = *from;
            while (up && at <= *to) || (!up && at >= *to) {
                if out.len() >= MAX_SERIES {
                    return Err(too_long());
                }
                out.push(Value::Timestamp(at));
                at = crate::value::datetime::add_interval(at, **step)?;
            }
        }
        _ => {}
    }
    Ok(out)
}

pub(super) fn project_set(
    items: &[SetItem],
    cx: &Ctx<'_>,
    row: &[Value],
    emit: &mut Emit<'_>,
) -> Result<bool> {
    let mut columns: Vec<(bool, Vec<Value>)> = Vec::with_capacity(items.len());
    for item in items {
        columns.push(match item {
            SetItem::Scalar(expr) => (false, vec![expr::eval(expr, cx, row)?]),
            SetItem::Set(function) => {
                let rows = table_function(function, cx, row)?;
                (
                    true,
                    rows.into_iter().filter_map(|mut row| row.pop()).collect(),
                )
            }
        });
    }
    let longest = columns
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, values)| values.len())
        .max()
        .unwrap_or(1);
    for i in 0..longest {
        let out = columns
            .iter()
            .map(|(set, values)| {
                let at = if *set { i } else { 0 };
                values.get(at).cloned().unwrap_or(Value::Null)
            })
            .collect();
        if !emit(Tuple::Own(out))? {
            return Ok(false);
        }
    }
    Ok(true)
}
