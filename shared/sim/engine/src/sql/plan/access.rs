//! How a table is reached.

use std::ops::Range;
use std::sync::Arc;

use super::all_of;
use crate::catalog::{IndexKey, Table};
use crate::sql::expr::{Comparison, Expr};

/// A table and the way to its rows.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub table: Arc<Table>,
    pub access: Access,
    /// Tested on every row found.
    pub filter: Option<Expr>,
    /// Rows get their key as one more column.
    pub with_key: bool,
}

/// An interval, or several, of the primary key or of an index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// Position in the table's indexes; `None` is the primary key.
    pub index: Option<usize>,
    /// Values of the first columns.
    pub equal: Vec<KeyPart>,
    /// Bounds of the column behind them, and whether they belong to it.
    pub low: Option<(Expr, bool)>,
    pub high: Option<(Expr, bool)>,
    pub reverse: bool,
    /// How many rows an equality is about at most one of.
    pub point: bool,
}

/// What one or several columns of a key are equal to.
#[derive(Clone, Debug)]
pub(crate) enum KeyPart {
    One(Expr),
    /// Any of these.
    List(Vec<Expr>),
    /// Any element of this array.
    Array(Expr),
    /// Any of these, each for several columns at once.
    Tuples(usize, Vec<Vec<Expr>>),
}

impl KeyPart {
    fn columns(&self) -> usize {
        match self {
            KeyPart::Tuples(columns, _) => *columns,
            _ => 1,
        }
    }
}

impl Access {
    pub(crate) fn is_full(&self) -> bool {
        self.equal.is_empty() && self.low.is_none() && self.high.is_none()
    }
}

/// One column that an order is asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub column: usize,
    pub descending: bool,
}

/// A condition that a key can answer.
struct Usable<'e> {
    /// Position among the conditions.
    at: usize,
    column: Side<'e>,
    what: What,
}

#[derive(PartialEq)]
enum Side<'e> {
    Expr(&'e Expr),
    Columns(Vec<usize>),
}

enum What {
    Equal(KeyPart),
    Low(Expr, bool),
    High(Expr, bool),
}

/// Whether a value can be computed before the table is read.
fn is_value(expr: &Expr, own: &Range<usize>) -> bool {
    let mut outside = true;
    expr.columns(&mut |column| {
        outside = outside && column.is_some_and(|column| !own.contains(&column));
    });
    outside
        && !expr.any(&|part| match part {
            Expr::Call { function, .. } => function.volatile,
            Expr::Subquery(subquery) => subquery.correlated,
            _ => false,
        })
}

/// Looks at one condition over columns `own` (the table's) and others.
fn usable<'e>(at: usize, expr: &'e Expr, own: &Range<usize>) -> Vec<Usable<'e>> {
    let about_own = |side: &Expr| {
        let mut any = false;
        side.columns(&mut |column| any = any || column.is_some());
        any && side.only_in(own)
    };
    let one = |column, what| vec![Usable { at, column, what }];
    match expr {
        Expr::Compare { op, left, right } => {
            if let (Expr::Row(lefts), Expr::Row(rights)) = (&**left, &**right) {
                // (a, b) > (1, 2) lies within a >= 1.
                let (Some((_, left)), Some((_, right))) = (lefts.first(), rights.first()) else {
                    return Vec::new();
                };
                if !about_own(left) || !is_value(right, own) {
                    return Vec::new();
                }
                let what = match op {
                    Comparison::Gt | Comparison::Ge => What::Low(right.clone(), true),
                    Comparison::Lt | Comparison::Le => What::High(right.clone(), true),
                    _ => return Vec::new(),
                };
                // The whole condition still has to be tested.
                return vec![Usable {
                    at: usize::MAX,
                    column: Side::Expr(left),
                    what,
                }];
            }
            let (side, op, value) = if about_own(left) && is_value(right, own) {
                (left, *op, right)
            } else if about_own(right) && is_value(left, own) {
                (right, op.mirrored(), left)
            } else {
                return Vec::new();
            };
            let value = (**value).clone();
            let what = match op {
                Comparison::Eq => What::Equal(KeyPart::One(value)),
                Comparison::Gt => What::Low(value, false),
                Comparison::Ge => What::Low(value, true),
                Comparison::Lt => What::High(value, false),
                Comparison::Le => What::High(value, true),
                Comparison::Ne => return Vec::new(),
            };
            one(Side::Expr(side), what)
        }
        Expr::InList {
            expr,
            list,
            negated: false,
        } if about_own(expr) && list.iter().all(|item| is_value(item, own)) => {
            one(Side::Expr(expr), What::Equal(KeyPart::List(list.clone())))
        }
        Expr::AnyArray {
            expr,
            op: Comparison::Eq,
            array,
            all: false,
        } if about_own(expr) && is_value(array, own) => one(
            Side::Expr(expr),
            What::Equal(KeyPart::Array((**array).clone())),
        ),
        Expr::Or(parts) => either(at, parts, own),
        _ => Vec::new(),
    }
}

/// `a = 1 OR a = 2`, and the same with rows, which is what IN becomes of them.
fn either<'e>(at: usize, parts: &'e [Expr], own: &Range<usize>) -> Vec<Usable<'e>> {
    let mut columns: Option<Vec<usize>> = None;
    let mut tuples = Vec::new();
    for part in parts {
        let Expr::Compare {
            op: Comparison::Eq,
            left,
            right,
        } = part
        else {
            return Vec::new();
        };
        let (lefts, rights): (Vec<&Expr>, Vec<&Expr>) = match (&**left, &**right) {
            (Expr::Row(lefts), Expr::Row(rights)) => (
                lefts.iter().map(|(_, field)| field).collect(),
                rights.iter().map(|(_, field)| field).collect(),
            ),
            (left, right) => (vec![left], vec![right]),
        };
        let slots: Option<Vec<usize>> = lefts
            .into_iter()
            .map(|left| match left {
                Expr::Column(column) if own.contains(column) => Some(*column),
                _ => None,
            })
            .collect();
        let Some(slots) = slots else {
            return Vec::new();
        };
        if columns.as_ref().is_some_and(|columns| *columns != slots)
            || !rights.iter().all(|right| is_value(right, own))
        {
            return Vec::new();
        }
        columns = Some(slots);
        tuples.push(rights.into_iter().cloned().collect());
    }
    let Some(columns) = columns else {
        return Vec::new();
    };
    let what = What::Equal(KeyPart::Tuples(columns.len(), tuples));
    vec![Usable {
        at,
        column: Side::Columns(columns),
        what,
    }]
}

/// A way to the table together with what it leaves to be tested.
pub(crate) struct Choice {
    pub access: Access,
    /// Conditions that the way does not answer.
    pub rest: Vec<Expr>,
    /// Rows come in the wanted order.
    pub ordered: bool,
    /// The way uses columns that are not the table's.
    pub probes: bool,
}

/// Chooses the way to a table whose columns are `own` under conditions that may
/// look at columns before them, which are known by then. Conditions keep their
/// numbering of columns.
pub(crate) fn choose(
    table: &Table,
    own: &Range<usize>,
    conditions: Vec<Expr>,
    wanted: &[Wanted],
) -> Choice {
    let usables: Vec<Usable<'_>> = conditions
        .iter()
        .enumerate()
        .flat_map(|(at, expr)| usable(at, expr, own))
        .collect();
    let primary: Vec<IndexKey> = table
        .primary
        .iter()
        .map(|slot| IndexKey::Slot(*slot))
        .collect();
    let ways = std::iter::once((None, &primary, true)).chain(
        table
            .indexes
            .iter()
            .enumerate()
            .filter(|(_, index)| index.valid && index.predicate.is_none())
            .map(|(i, index)| (Some(i), &index.keys, index.unique)),
    );
    let mut best: Option<(u32, Access, Vec<usize>, bool)> = None;
    for (index, keys, unique) in ways {
        let (access, answered) = fit(index, keys, unique, &usables, own);
        let reverse = order(keys, &access, own, wanted);
        let covered: usize = access.equal.iter().map(KeyPart::columns).sum();
        let mut score = u32::try_from(covered).unwrap_or(0) * 10;
        score += 4 * u32::from(access.low.is_some()) + 4 * u32::from(access.high.is_some());
        if access.point {
            score += 1_000;
        }
        if reverse.is_some() && !wanted.is_empty() {
            score += 3;
        }
        // Between equals, the primary key saves a step; a whole scan is its.
        score = score * 2 + u32::from(index.is_none());
        if access.is_full() && index.is_some() && (wanted.is_empty() || reverse.is_none()) {
            continue;
        }
        if best.as_ref().is_none_or(|(most, ..)| score > *most) {
            let mut access = access;
            access.reverse = reverse.unwrap_or(false);
            best = Some((score, access, answered, reverse.is_some()));
        }
    }
    let (_, access, answered, ordered) = best.unwrap_or_default();
    let probes = {
        let mut probes = false;
        let mut look = |expr: &Expr| {
            expr.columns(&mut |_| probes = true);
        };
        for part in &access.equal {
            match part {
                KeyPart::One(expr) | KeyPart::Array(expr) => look(expr),
                KeyPart::List(list) => list.iter().for_each(&mut look),
                KeyPart::Tuples(_, tuples) => tuples.iter().flatten().for_each(&mut look),
            }
        }
        for (expr, _) in access.low.iter().chain(&access.high) {
            look(expr);
        }
        probes
    };
    drop(usables);
    let rest = conditions
        .into_iter()
        .enumerate()
        .filter(|(at, _)| !answered.contains(at))
        .map(|(_, expr)| expr)
        .collect();
    Choice {
        access,
        rest,
        ordered,
        probes,
    }
}

/// Fits conditions to the columns of a key, from the first one on.
fn fit(
    index: Option<usize>,
    keys: &[IndexKey],
    unique: bool,
    usables: &[Usable<'_>],
    own: &Range<usize>,
) -> (Access, Vec<usize>) {
    let mut access = Access {
        index,
        ..Access::default()
    };
    let mut answered = Vec::new();
    let matches = |side: &Side<'_>, key: &IndexKey| match (side, key) {
        (Side::Expr(Expr::Column(column)), IndexKey::Slot(slot)) => *column == own.start + slot,
        (Side::Expr(expr), IndexKey::Expr(key)) => (*expr).clone().shifted(own.start) == *key,
        _ => false,
    };
    let mut at = 0;
    let mut all_single = true;
    while let Some(key) = keys.get(at) {
        let tuple = usables
            .iter()
            .find_map(|usable| match (&usable.column, &usable.what) {
                (Side::Columns(columns), What::Equal(part)) => {
                    let fits = columns.iter().enumerate().all(|(i, column)| {
                        keys.get(at + i) == Some(&IndexKey::Slot(column.wrapping_sub(own.start)))
                    });
                    fits.then_some((usable.at, part))
                }
                _ => None,
            });
        let single = usables.iter().filter_map(|usable| match &usable.what {
            What::Equal(part) if matches(&usable.column, key) => Some((usable.at, part)),
            _ => None,
        });
        // One value is better than a list of them.
        let single = single.min_by_key(|(_, part)| !matches!(part, KeyPart::One(_)));
        let Some((condition, part)) = single.or(tuple) else {
            break;
        };
        all_single = all_single && matches!(part, KeyPart::One(_));
        at += part.columns();
        answered.push(condition);
        access.equal.push(part.clone());
    }
    if let Some(key) = keys.get(at) {
        for usable in usables.iter().filter(|usable| matches(&usable.column, key)) {
            let (bound, value, inclusive) = match &usable.what {
                What::Low(value, inclusive) => (&mut access.low, value, inclusive),
                What::High(value, inclusive) => (&mut access.high, value, inclusive),
                What::Equal(_) => continue,
            };
            if bound.is_none() {
                *bound = Some((value.clone(), *inclusive));
                answered.push(usable.at);
            }
        }
    }
    access.point = unique && all_single && !keys.is_empty() && at == keys.len();
    (access, answered)
}

/// Whether rows come in the wanted order, and if so, whether against the key's.
fn order(
    keys: &[IndexKey],
    access: &Access,
    own: &Range<usize>,
    wanted: &[Wanted],
) -> Option<bool> {
    if access.point {
        return Some(false);
    }
    let fixed = |column: usize| {
        let mut at = 0;
        for part in &access.equal {
            if matches!(part, KeyPart::One(_))
                && keys.get(at) == Some(&IndexKey::Slot(column - own.start))
            {
                return true;
            }
            at += part.columns();
        }
        false
    };
    let mut reverse = None;
    let mut at = 0;
    for want in wanted {
        if !own.contains(&want.column) {
            return None;
        }
        if fixed(want.column) {
            continue;
        }
        // Columns with one value do not order anything.
        while let Some(IndexKey::Slot(slot)) = keys.get(at) {
            if !fixed(own.start + slot) {
                break;
            }
            at += 1;
        }
        match keys.get(at) {
            Some(IndexKey::Slot(slot)) if own.start + slot == want.column => at += 1,
            _ => return None,
        }
        if reverse.is_some_and(|reverse| reverse != want.descending) {
            return None;
        }
        reverse = Some(want.descending);
    }
    Some(reverse.unwrap_or(false))
}

/// Moves the columns of everything that a way is computed from.
pub(crate) fn shift_access(access: Access, offset: usize) -> Access {
    let list = |exprs: Vec<Expr>| exprs.into_iter().map(|expr| expr.shifted(offset)).collect();
    Access {
        equal: access
            .equal
            .into_iter()
            .map(|part| match part {
                KeyPart::One(expr) => KeyPart::One(expr.shifted(offset)),
                KeyPart::Array(expr) => KeyPart::Array(expr.shifted(offset)),
                KeyPart::List(exprs) => KeyPart::List(list(exprs)),
                KeyPart::Tuples(columns, tuples) => {
                    KeyPart::Tuples(columns, tuples.into_iter().map(list).collect())
                }
            })
            .collect(),
        low: access
            .low
            .map(|(expr, inclusive)| (expr.shifted(offset), inclusive)),
        high: access
            .high
            .map(|(expr, inclusive)| (expr.shifted(offset), inclusive)),
        ..access
    }
}

/// A scan of a table on its own, whose conditions number its columns from 0.
pub(crate) fn scan(
    table: &Arc<Table>,
    conditions: Vec<Expr>,
    wanted: &[Wanted],
    with_key: bool,
) -> (Scan, bool) {
    let own = 0..table.columns.len() + usize::from(with_key);
    let choice = choose(table, &own, conditions, wanted);
    let scan = Scan {
        table: Arc::clone(table),
        access: choice.access,
        filter: all_of(choice.rest),
        with_key,
    };
    (scan, choice.ordered)
}
