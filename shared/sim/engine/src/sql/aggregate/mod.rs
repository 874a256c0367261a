//! Aggregates and window functions: binding and computing.

mod bind;
mod window;

pub(crate) use bind::{bind, bind_window, is_aggregate, is_window_only};
pub(crate) use window::windows;

use crate::error::Result;
use crate::sql::expr::{self, Arithmetic, Class, Ctx, Expr};
use crate::sql::plan::SortKey;
use crate::types::Type;
use crate::value::key;
use crate::value::{Numeric, Value, text};
use std::collections::BTreeSet;

/// What an aggregate computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    CountRows,
    Count,
    SumInt,
    SumNumeric,
    SumFloat,
    SumInterval,
    AvgNumeric,
    AvgFloat,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    StringAgg,
    ByteaAgg,
    ArrayAgg,
    /// Sample (or population) variance (or its root).
    Variance {
        population: bool,
        root: bool,
    },
}

/// An aggregate of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AggregateCall {
    pub kind: Kind,
    pub args: Vec<Expr>,
    pub distinct: bool,
    pub order: Vec<SortKey>,
    pub filter: Option<Expr>,
    pub ty: Type,
}

/// A window function of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowCall {
    pub kind: WindowKind,
    pub args: Vec<Expr>,
    pub partition: Vec<Expr>,
    pub order: Vec<SortKey>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WindowKind {
    RowNumber,
    Rank,
    DenseRank,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    /// Over the partition up to the current row's peers, or all of it when
    /// there is no order.
    Aggregate(AggregateCall),
}

/// The state of one aggregate of one group.
#[derive(Debug)]
pub(crate) struct Accumulator<'c> {
    call: &'c AggregateCall,
    count: i64,
    value: Value,
    /// Sum and sum of squares, for variances.
    sums: (Value, Value),
    seen: BTreeSet<Vec<u8>>,
    /// Arguments with the keys that they are sorted by.
    kept: Vec<(Vec<Value>, Value)>,
    parts: Vec<Value>,
}

impl<'c> Accumulator<'c> {
    pub(crate) fn new(call: &'c AggregateCall) -> Accumulator<'c> {
        Accumulator {
            call,
            count: 0,
            value: Value::Null,
            sums: (Value::Null, Value::Null),
            seen: BTreeSet::new(),
            kept: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Takes one row.
    pub(crate) fn add(&mut self, cx: &Ctx<'_>, row: &[Value]) -> Result<()> {
        let call = self.call;
        if let Some(filter) = &call.filter
            && !expr::holds(filter, cx, row)?
        {
            return Ok(());
        }
        let Some(arg) = call.args.first() else {
            self.count += 1;
            return Ok(());
        };
        let value = expr::eval(arg, cx, row)?;
        if value.is_null() && call.kind != Kind::ArrayAgg {
            return Ok(());
        }
        if call.distinct {
            let mut bytes = Vec::new();
            key::push(&mut bytes, &value);
            if !self.seen.insert(bytes) {
                return Ok(());
            }
        }
        if let Some(separator) = call.args.get(1)
            && self.parts.is_empty()
        {
            self.parts.push(expr::eval(separator, cx, row)?);
        }
        if !call.order.is_empty() || (call.distinct && self.collects()) {
            let keys: Result<Vec<Value>> = if call.order.is_empty() {
                Ok(vec![value.clone()])
            } else {
                call.order
                    .iter()
                    .map(|key| expr::eval(&key.expr, cx, row))
                    .collect()
            };
            self.kept.push((keys?, value));
            return Ok(());
        }
        self.take(value)
    }

    fn collects(&self) -> bool {
        matches!(
            self.call.kind,
            Kind::StringAgg | Kind::ByteaAgg | Kind::ArrayAgg
        )
    }

    fn take(&mut self, value: Value) -> Result<()> {
        self.count += 1;
        let old = std::mem::replace(&mut self.value, Value::Null);
        self.value = match self.call.kind {
            Kind::CountRows | Kind::Count => Value::Null,
            Kind::SumInt => add(Class::Int8, old, value)?,
            Kind::SumNumeric | Kind::AvgNumeric => add(Class::Numeric, old, value)?,
            Kind::SumFloat if self.call.ty.is(Type::FLOAT4) => add(Class::Float4, old, value)?,
            Kind::SumFloat | Kind::AvgFloat => add(Class::Float8, old, value)?,
            Kind::SumInterval => match (old, value) {
                (Value::Interval(a), Value::Interval(b)) => {
                    Value::Interval(Box::new(crate::value::Interval {
                        months: a.months.saturating_add(b.months),
                        days: a.days.saturating_add(b.days),
                        us: a.us.saturating_add(b.us),
                    }))
                }
                (_, value) => value,
            },
            Kind::Min if !old.is_null() && old.compare(&value).is_le() => old,
            Kind::Max if !old.is_null() && old.compare(&value).is_ge() => old,
            Kind::Min | Kind::Max => value,
            Kind::BoolAnd | Kind::BoolOr => match (old, value) {
                (Value::Bool(a), Value::Bool(b)) if self.call.kind == Kind::BoolAnd => {
                    Value::Bool(a && b)
                }
                (Value::Bool(a), Value::Bool(b)) => Value::Bool(a || b),
                (_, value) => value,
            },
            Kind::StringAgg | Kind::ByteaAgg | Kind::ArrayAgg => {
                self.kept.push((Vec::new(), value));
                Value::Null
            }
            Kind::Variance { .. } => {
                let class = self.variance_class();
                let square = expr::arithmetic(Arithmetic::Mul, class, &value, &value)?;
                let (sum, squares) = std::mem::replace(&mut self.sums, (Value::Null, Value::Null));
                self.sums = (add(class, sum, value)?, add(class, squares, square)?);
                Value::Null
            }
        };
        Ok(())
    }

    /// The aggregate of what was taken.
    pub(crate) fn finish(&mut self) -> Result<Value> {
        let mut kept = std::mem::take(&mut self.kept);
        let ordered = kept.iter().any(|(keys, _)| !keys.is_empty());
        if ordered {
            let order = &self.call.order;
            kept.sort_by(|(a, _), (b, _)| {
                if order.is_empty() {
                    a.first()
                        .zip(b.first())
                        .map_or(std::cmp::Ordering::Equal, |(a, b)| a.compare(b))
                } else {
                    SortKey::compare(order, a, b)
                }
            });
            if !self.collects() {
                for (_, value) in kept.drain(..) {
                    self.take(value)?;
                }
            }
        }
        let count = self.count;
        Ok(match self.call.kind {
            Kind::CountRows | Kind::Count => Value::Int(count),
            Kind::AvgNumeric => match &self.value {
                Value::Numeric(sum) => Value::numeric(sum.div(Numeric::from_int(count))?),
                _ => Value::Null,
            },
            Kind::AvgFloat => match &self.value {
                Value::Float(sum) => Value::Float(sum / count as f64),
                _ => Value::Null,
            },
            _ if self.collects() && kept.is_empty() => Value::Null,
            Kind::ArrayAgg => {
                let element = self.call.ty.element().unwrap_or(Type::TEXT);
                Value::array(element, kept.into_iter().map(|(_, value)| value).collect())
            }
            Kind::StringAgg => {
                let separator = match self.parts.first() {
                    Some(Value::Text(text)) => text.to_string(),
                    _ => String::new(),
                };
                let parts: Vec<String> = kept
                    .iter()
                    .map(|(_, value)| text::to_text(value, Type::TEXT))
                    .collect();
                Value::text(parts.join(&separator))
            }
            Kind::ByteaAgg => {
                let separator: &[u8] = match self.parts.first() {
                    Some(Value::Bytea(bytes)) => bytes,
                    _ => &[],
                };
                let parts: Vec<&[u8]> = kept
                    .iter()
                    .filter_map(|(_, value)| match value {
                        Value::Bytea(bytes) => Some(&**bytes),
                        _ => None,
                    })
                    .collect();
                Value::bytes(parts.join(separator))
            }
            Kind::Variance { population, root } => self.variance(population, root)?,
            _ => std::mem::replace(&mut self.value, Value::Null),
        })
    }

    fn variance_class(&self) -> Class {
        if self.call.ty.is(Type::NUMERIC) {
            Class::Numeric
        } else {
            Class::Float8
        }
    }

    /// (n Σx² - (Σx)²) / n (n - 1), or n² for a population.
    fn variance(&self, population: bool, root: bool) -> Result<Value> {
        let n = self.count;
        let over = if population { n } else { n - 1 };
        if over <= 0 {
            return Ok(Value::Null);
        }
        match &self.sums {
            (Value::Numeric(sum), Value::Numeric(squares)) => {
                let count = Numeric::from_int(n);
                let spread = count.mul(**squares)?.sub(sum.mul(**sum)?)?;
                if spread <= Numeric::ZERO {
                    return Ok(Value::numeric(Numeric::ZERO));
                }
                let variance = spread.div(count.mul(Numeric::from_int(over))?)?;
                let value = if root {
                    variance.sqrt(Some(variance.scale()))?
                } else {
                    variance
                };
                Ok(Value::numeric(value))
            }
            (Value::Float(sum), Value::Float(squares)) => {
                let count = n as f64;
                let spread = (count * squares - sum * sum).max(0.0);
                let variance = spread / (count * over as f64);
                Ok(Value::Float(if root { variance.sqrt() } else { variance }))
            }
            _ => Ok(Value::Null),
        }
    }

    /// The aggregate of what was taken so far, for a running window.
    fn so_far(&mut self) -> Result<Value> {
        let kept = self.kept.clone();
        let value = self.value.clone();
        let count = self.count;
        let result = self.finish();
        self.kept = kept;
        self.value = value;
        self.count = count;
        result
    }
}

fn add(class: Class, old: Value, value: Value) -> Result<Value> {
    if old.is_null() {
        return Ok(value);
    }
    expr::arithmetic(Arithmetic::Add, class, &old, &value)
}
