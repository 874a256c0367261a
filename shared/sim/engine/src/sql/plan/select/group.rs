//! GROUP BY and ORDER BY, and what is left of expressions behind them.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::bind::{self, Binder, Place, Scope};
use crate::sql::expr::Expr;
use crate::sql::plan::SortKey;
use crate::sql::plan::query::position;
use sqlparser::ast;
use std::ops::Range;

pub(super) type Groups = (Vec<Expr>, Vec<Vec<bool>>);

/// Expressions of GROUP BY; and for each grouping set, which of them count.
pub(super) fn group_by(
    binder: &Binder<'_>,
    group_by: &ast::GroupByExpr,
    items: &[Item],
    scope: &Scope<'_>,
) -> Result<Groups> {
    let (exprs, modifiers) = match group_by {
        ast::GroupByExpr::Expressions(exprs, modifiers) => (exprs, modifiers),
        ast::GroupByExpr::All(_) => {
            return Err(SqlError::new("42601", "syntax error at end of input"));
        }
    };
    if !modifiers.is_empty() {
        return Err(SqlError::syntax("WITH"));
    }
    let mut groups: Vec<Expr> = Vec::new();
    let mut add = |expr: &ast::Expr| -> Result<usize> {
        let bound = group_expr(binder, expr, items, scope)?;
        Ok(match groups.iter().position(|group| *group == bound) {
            Some(at) => at,
            None => {
                groups.push(bound);
                groups.len() - 1
            }
        })
    };
    // Every item gives alternatives; the sets are their product.
    let mut product: Vec<Vec<usize>> = vec![Vec::new()];
    let mut several = false;
    for expr in exprs {
        let mut lists = |lists: &[Vec<ast::Expr>]| -> Result<Vec<Vec<usize>>> {
            lists
                .iter()
                .map(|list| list.iter().map(&mut add).collect())
                .collect()
        };
        let alternatives: Vec<Vec<usize>> = match expr {
            ast::Expr::Rollup(parts) => {
                let parts = lists(parts)?;
                (0..=parts.len())
                    .rev()
                    .map(|n| parts[..n].concat())
                    .collect()
            }
            ast::Expr::Cube(parts) => {
                let parts = lists(parts)?;
                if parts.len() > 12 {
                    return Err(SqlError::new("54011", "CUBE is limited to 12 elements"));
                }
                (0..1usize << parts.len())
                    .rev()
                    .map(|mask| {
                        let chosen = parts.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1);
                        chosen.flat_map(|(_, part)| part.iter().copied()).collect()
                    })
                    .collect()
            }
            ast::Expr::GroupingSets(sets) => lists(sets)?,
            ast::Expr::Tuple(parts) if !parts.is_empty() => {
                vec![parts.iter().map(&mut add).collect::<Result<_>>()?]
            }
            other => vec![vec![add(other)?]],
        };
        several = several
            || matches!(
                expr,
                ast::Expr::Rollup(_) | ast::Expr::Cube(_) | ast::Expr::GroupingSets(_)
            );
        product = product
            .iter()
            .flat_map(|set| {
                alternatives
                    .iter()
                    .map(|more| [set.as_slice(), more.as_slice()].concat())
            })
            .collect();
        if product.len() > 4_096 {
            return Err(SqlError::new(
                "54011",
                "too many grouping sets present (maximum 4096)",
            ));
        }
    }
    let sets = if several {
        product
            .into_iter()
            .map(|set| (0..groups.len()).map(|i| set.contains(&i)).collect())
            .collect()
    } else {
        Vec::new()
    };
    Ok((groups, sets))
}

pub(super) fn group_expr(
    binder: &Binder<'_>,
    expr: &ast::Expr,
    items: &[Item],
    scope: &Scope<'_>,
) -> Result<Expr> {
    let of_item = |at: usize| match items[at].expr() {
        Some(expr) if expr.any(&|part| matches!(part, Expr::Aggregate(_))) => Err(SqlError::new(
            "42803",
            "aggregate functions are not allowed in GROUP BY",
        )),
        Some(expr) => Ok(expr.clone()),
        None => Err(SqlError::simulator("GROUP BY of a set-returning function")),
    };
    if let Some(at) = position(expr, items.len(), "GROUP BY")? {
        return of_item(at);
    }
    if let ast::Expr::Identifier(ident) = expr {
        let name = bind::fold(ident);
        // A column goes before a name of the target list.
        if binder.column(scope, None, &name)?.is_none()
            && let Some(at) = items.iter().position(|item| item.name == name)
        {
            return of_item(at);
        }
    }
    let typed = binder.expr(expr, Place::of(scope, "GROUP BY"))?;
    Ok(binder.settle(typed)?.expr)
}

/// Keys of ORDER BY, with the column of the target list that they are, if they
/// were named or numbered as one.
pub(super) fn order_by(
    binder: &Binder<'_>,
    order: &[ast::OrderByExpr],
    items: &[Item],
    place: Place<'_>,
) -> Result<Vec<(SortKey, Option<usize>)>> {
    let mut keys = Vec::new();
    for key in order {
        let mut at = position(&key.expr, items.len(), "ORDER BY")?;
        if let (None, ast::Expr::Identifier(ident)) = (at, &key.expr) {
            let name = bind::fold(ident);
            let mut same = items
                .iter()
                .enumerate()
                .filter(|(_, item)| item.name == name);
            at = same.next().map(|(at, _)| at);
            let other = same.any(|(_, item)| at.is_some_and(|at| items[at].expr() != item.expr()));
            if other {
                return Err(SqlError::new(
                    "42702",
                    format!("ORDER BY \"{name}\" is ambiguous"),
                ));
            }
        }
        let expr = match at {
            Some(at) => items[at].expr().cloned().unwrap_or_else(Expr::null),
            None => {
                let place = Place {
                    clause: "ORDER BY",
                    ..place
                };
                binder.settle(binder.expr(&key.expr, place)?)?.expr
            }
        };
        keys.push((SortKey::new(expr, &key.options), at));
    }
    Ok(keys)
}

/// Columns of a table whose whole primary key is grouped by have one value in
/// every group: grouping by them as well changes nothing.
pub(super) fn add_dependent(
    expr: &Expr,
    keys: &[(Range<usize>, Vec<usize>)],
    groups: &mut Vec<Expr>,
) {
    if groups.contains(expr) {
        return;
    }
    if let Expr::Column(column) = expr {
        let dependent = keys.iter().any(|(columns, key)| {
            columns.contains(column)
                && key
                    .iter()
                    .all(|column| groups.contains(&Expr::Column(*column)))
        });
        if dependent {
            groups.push(expr.clone());
        }
    }
    expr.for_each_part(&mut |part| add_dependent(part, keys, groups));
}

/// Replaces grouped expressions and aggregates by the columns that hold them.
pub(super) fn regroup(expr: &mut Expr, groups: &[Expr]) {
    if let Some(at) = groups.iter().position(|group| group == expr) {
        *expr = Expr::Column(at);
        return;
    }
    match expr {
        Expr::Aggregate(n) => *expr = Expr::Column(groups.len() + *n),
        // Marked, so that it is not taken for a column of the groups.
        Expr::Column(column) => {
            *expr = Expr::Outer {
                depth: 0,
                column: *column,
            };
        }
        other => other.map_parts(&mut |part| regroup(part, groups)),
    }
}

/// What is neither grouped nor aggregated has no one value for a group.
pub(super) fn check_grouped(expr: &Expr, scope: &Scope<'_>) -> Result<()> {
    let mut bad = None;
    fn look(expr: &Expr, bad: &mut Option<usize>, correlated: &mut bool) {
        match expr {
            Expr::Outer { depth: 0, column } => *bad = Some(*column),
            Expr::Subquery(subquery) if subquery.correlated => *correlated = true,
            _ => {}
        }
        expr.for_each_part(&mut |part| look(part, bad, correlated));
    }
    let mut correlated = false;
    look(expr, &mut bad, &mut correlated);
    if correlated {
        return Err(SqlError::simulator("a correlated subquery over groups"));
    }
    match bad.and_then(|column| scope.columns.get(column)) {
        None => Ok(()),
        Some(column) => {
            let name = if column.table.is_empty() {
                column.name.clone()
            } else {
                format!("{}.{}", column.table, column.name)
            };
            Err(SqlError::new(
                "42803",
                format!(
                    "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
                ),
            ))
        }
    }
}

pub(super) fn place_windows(expr: &mut Expr, base: usize) {
    if let Expr::Window(n) = expr {
        *expr = Expr::Column(base + *n);
        return;
    }
    expr.map_parts(&mut |part| place_windows(part, base));
}
