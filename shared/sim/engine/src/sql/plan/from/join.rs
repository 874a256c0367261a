//! From a bound FROM clause to operators.

use super::*;
use crate::sql::expr::{Comparison, Expr};
use crate::sql::plan::access::{self, Wanted};
use crate::sql::plan::{Join, JoinKind, Node, Probe, Scan, all_of, filtered};
use std::ops::Range;
use std::sync::Arc;

/// Adds what follows from `a = b` and `b = 5`, so that both tables of a join are
/// reached by their keys.
pub(super) fn with_implied(mut conditions: Vec<Expr>, tree: &Tree) -> Vec<Expr> {
    fn inner(tree: &Tree, out: &mut Vec<Expr>) {
        if let Tree::Join {
            kind: JoinKind::Inner,
            left,
            right,
            on,
            ..
        } = tree
        {
            out.extend(on.iter().cloned());
            inner(left, out);
            inner(right, out);
        }
    }
    let mut known = conditions.clone();
    inner(tree, &mut known);
    let mut pairs = Vec::new();
    let mut values = Vec::new();
    for condition in &known {
        let Expr::Compare {
            op: Comparison::Eq,
            left,
            right,
        } = condition
        else {
            continue;
        };
        match (&**left, &**right) {
            (Expr::Column(a), Expr::Column(b)) => pairs.push((*a, *b)),
            (Expr::Column(a), value) | (value, Expr::Column(a)) if value.is_constant() => {
                values.push((*a, value.clone()));
            }
            _ => {}
        }
    }
    // Each round reaches one equality further.
    for _ in 0..pairs.len() {
        for (a, b) in &pairs {
            for (from, to) in [(*a, *b), (*b, *a)] {
                let found = values.iter().find(|(column, _)| *column == from).cloned();
                if let Some((_, value)) = found
                    && !values.iter().any(|(column, _)| *column == to)
                {
                    conditions.push(Expr::equal(Expr::Column(to), value.clone()));
                    values.push((to, value));
                }
            }
        }
    }
    conditions
}

/// Takes the conditions that lie within some columns.
pub(super) fn take(conditions: &mut Vec<Expr>, range: &Range<usize>) -> Vec<Expr> {
    let (within, rest) = std::mem::take(conditions)
        .into_iter()
        .partition(|condition| condition.only_in(range));
    *conditions = rest;
    within
}

pub(super) fn shifted(conditions: Vec<Expr>, offset: usize) -> Vec<Expr> {
    conditions
        .into_iter()
        .map(|condition| condition.shifted(offset))
        .collect()
}

pub(super) fn build(tree: Tree, mut conditions: Vec<Expr>, wanted: &[Wanted]) -> Built {
    match tree {
        Tree::Leaf {
            source: Source::Table { table, with_key },
            columns,
        } => {
            let wanted: Vec<Wanted> = wanted
                .iter()
                .map(|want| Wanted {
                    column: want.column.wrapping_sub(columns.start),
                    ..*want
                })
                .collect();
            let conditions = shifted(conditions, columns.start);
            let (scan, ordered) = access::scan(&table, conditions, &wanted, with_key);
            Built {
                node: Node::Scan(Box::new(scan)),
                ordered,
            }
        }
        Tree::Leaf {
            source: Source::Node(node),
            columns,
        } => Built {
            node: filtered(node, shifted(conditions, columns.start)),
            ordered: false,
        },
        Tree::Join {
            kind,
            left,
            right,
            mut on,
            lateral,
        } => {
            let (lefts, rights) = (left.columns(), right.columns());
            let (mut for_left, mut for_right) = (Vec::new(), Vec::new());
            match kind {
                JoinKind::Inner => {
                    on.append(&mut conditions);
                    for_left = take(&mut on, &lefts);
                    for_right = take(&mut on, &rights);
                }
                JoinKind::Left => {
                    for_left = take(&mut conditions, &lefts);
                    for_right = take(&mut on, &rights);
                }
                JoinKind::Right => {
                    for_right = take(&mut conditions, &rights);
                    for_left = take(&mut on, &lefts);
                }
                JoinKind::Full => {}
            }
            // Conditions without columns come to the left of an inner join,
            // where the range is empty of them but they still hold for it.
            let base = lefts.start;
            let left = build(*left, for_left, wanted);
            let ordered = left.ordered && matches!(kind, JoinKind::Inner | JoinKind::Left);
            let node = combine(
                kind, left.node, *right, on, for_right, lateral, &lefts, &rights,
            );
            let rest = shifted(conditions, base);
            Built {
                node: filtered(node, rest),
                ordered,
            }
        }
    }
}

#[allow(clippy::too_many_arguments)]
pub(super) fn combine(
    kind: JoinKind,
    left: Node,
    right: Tree,
    on: Vec<Expr>,
    for_right: Vec<Expr>,
    lateral: bool,
    lefts: &Range<usize>,
    rights: &Range<usize>,
) -> Node {
    let base = lefts.start;
    if let (
        JoinKind::Inner | JoinKind::Left,
        Tree::Leaf {
            source: Source::Table { table, with_key },
            ..
        },
    ) = (kind, &right)
    {
        let mut all = on.clone();
        all.extend(for_right.iter().cloned());
        let choice = access::choose(table, rights, all, &[]);
        if choice.probes && !choice.access.equal.is_empty() {
            let mut rest = choice.rest;
            let own = take(&mut rest, rights);
            let scan = Scan {
                table: Arc::clone(table),
                access: access::shift_access(choice.access, base),
                filter: all_of(shifted(own, rights.start)),
                with_key: *with_key,
            };
            return Node::Probe(Box::new(Probe {
                outer_join: kind == JoinKind::Left,
                left,
                scan,
                right_width: rights.len(),
                on: all_of(shifted(rest, base)),
            }));
        }
    }
    let right = build(right, for_right, &[]).node;
    let (mut hash, mut rest) = (Vec::new(), Vec::new());
    for condition in on {
        let (l, r) = match &condition {
            Expr::Compare {
                op: Comparison::Eq,
                left,
                right,
            } => (&**left, &**right),
            _ => {
                rest.push(condition);
                continue;
            }
        };
        let sides = if l.only_in(lefts) && r.only_in(rights) && !r.is_constant() {
            Some((l, r))
        } else if r.only_in(lefts) && l.only_in(rights) && !l.is_constant() {
            Some((r, l))
        } else {
            None
        };
        match sides {
            Some((l, r)) if !lateral => {
                hash.push((l.clone().shifted(base), r.clone().shifted(rights.start)));
            }
            _ => rest.push(condition),
        }
    }
    Node::Join(Box::new(Join {
        kind,
        left,
        right,
        left_width: lefts.len(),
        right_width: rights.len(),
        hash,
        on: all_of(shifted(rest, base)),
        lateral,
    }))
}
