//! SELECT: from FROM and WHERE over grouping to the target list.

mod group;
mod items;

pub(crate) use items::{item_name, returning};

use group::{add_dependent, check_grouped, group_by, order_by, place_windows, regroup};
use items::target_list;

use crate::error::{Result, SqlError};
use crate::sql::bind::{Binder, Place, Scope};
use crate::sql::expr::Expr;
use crate::sql::plan::access::Wanted;
use crate::sql::plan::from::FromClause;
use crate::sql::plan::query::{Planned, Tail, limited, position};
use crate::sql::plan::{Aggregation, Columns, Node, SetItem, SortKey, conjuncts, filtered};
use crate::types::Type;
use sqlparser::ast;
use std::cell::RefCell;

/// A column of the target list.
struct Item {
    name: String,
    value: ItemValue,
    ty: Type,
}

enum ItemValue {
    Expr(Expr),
    Set(crate::sql::plan::TableFunction),
}

impl Item {
    fn expr(&self) -> Option<&Expr> {
        match &self.value {
            ItemValue::Expr(expr) => Some(expr),
            ItemValue::Set(_) => None,
        }
    }
}

pub(super) fn select(
    binder: &Binder<'_>,
    select: &ast::Select,
    parent: Option<&Scope<'_>>,
    tail: &Tail<'_>,
    want: Option<&[Type]>,
) -> Result<Planned> {
    refuse_odd(select)?;
    let from = FromClause::bind(binder, None, &select.from, parent, tail.lock.as_ref())?;
    let scope = Scope {
        columns: from.columns.clone(),
        parent,
    };
    let mut conditions = Vec::new();
    if let Some(selection) = &select.selection {
        conjuncts(
            binder.condition(selection, Place::of(&scope, "WHERE"))?,
            &mut conditions,
        );
    }
    let aggregates = RefCell::new(Vec::new());
    let windows = RefCell::new(Vec::new());
    let place = Place {
        scope: &scope,
        aggregates: Some(&aggregates),
        windows: Some(&windows),
        clause: "SELECT",
    };
    let mut items = target_list(binder, &select.projection, place, want)?;
    let (mut groups, sets) = group_by(binder, &select.group_by, &items, &scope)?;
    let having = match &select.having {
        Some(having) => {
            let place = Place {
                windows: None,
                clause: "HAVING",
                ..place
            };
            Some(binder.condition(having, place)?)
        }
        None => None,
    };
    let mut keys = order_by(binder, tail.order, &items, place)?;
    let on = match &select.distinct {
        Some(ast::Distinct::On(exprs)) => {
            let mut on = Vec::new();
            for expr in exprs {
                on.push(match position(expr, items.len(), "SELECT DISTINCT ON")? {
                    Some(at) => items[at].expr().cloned().unwrap_or_else(Expr::null),
                    None => binder.settle(binder.expr(expr, place)?)?.expr,
                });
            }
            Some(on)
        }
        _ => None,
    };
    let distinct = matches!(&select.distinct, Some(ast::Distinct::Distinct));
    let aggregates = aggregates.into_inner();
    let windows = windows.into_inner();
    let grouped =
        !aggregates.is_empty() || !groups.is_empty() || having.is_some() || !sets.is_empty();
    if tail.lock.is_some() && (grouped || distinct || on.is_some() || !windows.is_empty()) {
        return Err(SqlError::unsupported(
            "FOR UPDATE is not allowed with GROUP BY, DISTINCT, aggregate or window functions",
        ));
    }

    // An order that the way to the rows gives by itself.
    let plain = !grouped && !distinct && on.is_none() && windows.is_empty();
    let wanted: Option<Vec<Wanted>> = keys
        .iter()
        .map(|key| match &key.0.expr {
            Expr::Column(column) if key.0.descending == key.0.nulls_first => Some(Wanted {
                column: *column,
                descending: key.0.descending,
            }),
            _ => None,
        })
        .collect();
    let wanted = wanted.filter(|_| plain).unwrap_or_default();
    let lock_keys = from.lock_keys.clone();
    if sets.is_empty() && !groups.is_empty() {
        let bare = |expr: &Expr, groups: &mut Vec<Expr>| add_dependent(expr, &from.keys, groups);
        items
            .iter()
            .filter_map(Item::expr)
            .for_each(|expr| bare(expr, &mut groups));
        keys.iter()
            .for_each(|(key, _)| bare(&key.expr, &mut groups));
        having.iter().for_each(|expr| bare(expr, &mut groups));
    }
    let built = from.build(conditions, &wanted);
    let mut node = built.node;
    let sorted = keys.is_empty() || (built.ordered && wanted.len() == keys.len());

    let mut window_base = scope.columns.len();
    let mut windows = windows;
    if grouped {
        let mut rewrite = |expr: &mut Expr| {
            regroup(expr, &groups);
            check_grouped(expr, &scope)
        };
        for item in &mut items {
            match &mut item.value {
                ItemValue::Expr(expr) => rewrite(expr)?,
                ItemValue::Set(function) => {
                    function.args.iter_mut().try_for_each(&mut rewrite)?;
                }
            }
        }
        for (key, _) in &mut keys {
            rewrite(&mut key.expr)?;
        }
        for call in &mut windows {
            call.args.iter_mut().try_for_each(&mut rewrite)?;
            call.partition.iter_mut().try_for_each(&mut rewrite)?;
            for key in &mut call.order {
                rewrite(&mut key.expr)?;
            }
        }
        let having = match having {
            Some(mut having) => {
                rewrite(&mut having)?;
                vec![having]
            }
            None => Vec::new(),
        };
        window_base = groups.len() + aggregates.len();
        let sets = if sets.is_empty() {
            vec![vec![true; groups.len()]]
        } else {
            sets
        };
        node = filtered(
            Node::Aggregate(Box::new(Aggregation {
                input: node,
                groups: std::mem::take(&mut groups),
                sets,
                calls: aggregates,
            })),
            having,
        );
    }
    if !windows.is_empty() {
        for item in &mut items {
            if let ItemValue::Expr(expr) = &mut item.value {
                place_windows(expr, window_base);
            }
        }
        for (key, _) in &mut keys {
            place_windows(&mut key.expr, window_base);
        }
        node = Node::Window {
            input: Box::new(node),
            calls: windows,
        };
    }
    assemble(
        binder, node, items, keys, on, distinct, sorted, lock_keys, tail,
    )
}

/// From the rows to the result: projection, DISTINCT, ORDER BY, locks, LIMIT.
#[allow(clippy::too_many_arguments)]
fn assemble(
    binder: &Binder<'_>,
    mut node: Node,
    items: Vec<Item>,
    keys: Vec<(SortKey, Option<usize>)>,
    on: Option<Vec<Expr>>,
    distinct: bool,
    sorted: bool,
    lock_keys: Vec<(u32, usize)>,
    tail: &Tail<'_>,
) -> Result<Planned> {
    let width = items.len();
    let columns: Columns = items
        .iter()
        .map(|item| (item.name.clone(), item.ty))
        .collect();
    let has_sets = items
        .iter()
        .any(|item| matches!(item.value, ItemValue::Set(_)));
    let mut extra: Vec<Expr> = Vec::new();
    // DISTINCT ON compares columns in front of all others.
    let lead = on.as_ref().map_or(0, Vec::len);
    let mut sort = Vec::new();
    if !sorted || on.is_some() {
        for (key, item) in keys {
            let place =
                item.or_else(|| items.iter().position(|item| item.expr() == Some(&key.expr)));
            let column = match place {
                Some(at) => lead + at,
                None if distinct => {
                    return Err(SqlError::new(
                        "42P10",
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    ));
                }
                None => {
                    extra.push(key.expr);
                    lead + width + extra.len() - 1
                }
            };
            sort.push(SortKey {
                expr: Expr::Column(column),
                ..key
            });
        }
    }
    let first_lock = lead + width + extra.len();
    extra.extend(lock_keys.iter().map(|(_, column)| Expr::Column(*column)));
    if has_sets {
        let mut set_items: Vec<SetItem> = on.into_iter().flatten().map(SetItem::Scalar).collect();
        set_items.extend(items.into_iter().map(|item| match item.value {
            ItemValue::Expr(expr) => SetItem::Scalar(expr),
            ItemValue::Set(function) => SetItem::Set(function),
        }));
        set_items.extend(extra.iter().cloned().map(SetItem::Scalar));
        node = Node::ProjectSet {
            input: Box::new(node),
            items: set_items,
        };
    } else {
        let mut exprs: Vec<Expr> = on.into_iter().flatten().collect();
        exprs.extend(items.into_iter().filter_map(|item| match item.value {
            ItemValue::Expr(expr) => Some(expr),
            ItemValue::Set(_) => None,
        }));
        exprs.extend(extra.iter().cloned());
        node = Node::Project {
            input: Box::new(node),
            exprs,
        };
    }
    if distinct {
        node = Node::Distinct {
            input: Box::new(node),
            columns: width,
        };
    }
    if !sort.is_empty() {
        node = Node::Sort {
            input: Box::new(node),
            keys: sort,
        };
    }
    if lead > 0 {
        node = Node::Distinct {
            input: Box::new(node),
            columns: lead,
        };
    }
    if let Some(wanted) = &tail.lock {
        node = limited(binder, node, tail)?;
        node = Node::Lock {
            input: Box::new(node),
            lock: wanted.lock,
            keys: lock_keys
                .iter()
                .enumerate()
                .map(|(i, (table, _))| (*table, first_lock + i))
                .collect(),
        };
    } else {
        node = limited(binder, node, tail)?;
    }
    if lead > 0 || !extra.is_empty() {
        node = Node::Project {
            input: Box::new(node),
            exprs: (lead..lead + width).map(Expr::Column).collect(),
        };
    }
    Ok(Planned { node, columns })
}

fn refuse_odd(select: &ast::Select) -> Result<()> {
    if select.into.is_some() {
        return Err(SqlError::statement("CreateTableAs"));
    }
    let odd = select.top.is_some()
        || !select.lateral_views.is_empty()
        || select.prewhere.is_some()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.distribute_by.is_empty()
        || !select.sort_by.is_empty()
        || select.qualify.is_some()
        || select.value_table_mode.is_some()
        || select.exclude.is_some()
        || !select.named_window.is_empty();
    if odd {
        return Err(SqlError::simulator("this form of SELECT"));
    }
    Ok(())
}
