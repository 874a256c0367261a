//! SELECT: from FROM and WHERE over grouping to the target list.

use std::cell::RefCell;
use std::ops::Range;

use sqlparser::ast;

use super::access::Wanted;
use super::from::{FromClause, table_function};
use super::query::{Planned, Tail, is_null_constant, limited, position};
use super::{Aggregation, Columns, Node, SetItem, SortKey, conjuncts, filtered};
use crate::error::{Result, SqlError};
use crate::sql::bind::{self, Binder, KEY_COLUMN, Place, Scope, Typed};
use crate::sql::expr::Expr;
use crate::types::Type;

/// A column of the target list.
struct Item {
    name: String,
    value: ItemValue,
    ty: Type,
}

enum ItemValue {
    Expr(Expr),
    Set(super::TableFunction),
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
    let grouped = !aggregates.is_empty() || !groups.is_empty() || having.is_some() || !sets.is_empty();
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
        items.iter().filter_map(Item::expr).for_each(|expr| bare(expr, &mut groups));
        keys.iter().for_each(|(key, _)| bare(&key.expr, &mut groups));
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
    assemble(binder, node, items, keys, on, distinct, sorted, lock_keys, tail)
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
            let place = item.or_else(|| {
                items
                    .iter()
                    .position(|item| item.expr() == Some(&key.expr))
            });
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

fn target_list(
    binder: &Binder<'_>,
    projection: &[ast::SelectItem],
    place: Place<'_>,
    want: Option<&[Type]>,
) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for item in projection {
        match item {
            ast::SelectItem::UnnamedExpr(expr) => {
                items.push(one_item(binder, expr, None, place, want, items.len())?);
            }
            ast::SelectItem::ExprWithAlias { expr, alias } => {
                let name = Some(bind::fold(alias));
                items.push(one_item(binder, expr, name, place, want, items.len())?);
            }
            ast::SelectItem::Wildcard(_) => {
                if place.scope.columns.is_empty() {
                    return Err(SqlError::new(
                        "42601",
                        "SELECT * with no tables specified is not valid",
                    ));
                }
                wildcard(place.scope, None, &mut items)?;
            }
            ast::SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) => {
                let (_, table) = bind::qualified(name)?;
                wildcard(place.scope, Some(&table), &mut items)?;
            }
            _ => return Err(SqlError::simulator("this form of target list")),
        }
    }
    Ok(items)
}

fn wildcard(scope: &Scope<'_>, table: Option<&str>, items: &mut Vec<Item>) -> Result<()> {
    let before = items.len();
    for (i, column) in scope.columns.iter().enumerate() {
        let fits = match table {
            Some(table) => column.table == table && !column.name.starts_with(KEY_COLUMN),
            None => !column.hidden,
        };
        if fits {
            items.push(Item {
                name: column.name.clone(),
                value: ItemValue::Expr(Expr::Column(i)),
                ty: column.ty,
            });
        }
    }
    match table {
        Some(table) if items.len() == before => Err(SqlError::new(
            "42P01",
            format!("missing FROM-clause entry for table \"{table}\""),
        )),
        _ => Ok(()),
    }
}

fn one_item(
    binder: &Binder<'_>,
    expr: &ast::Expr,
    name: Option<String>,
    place: Place<'_>,
    want: Option<&[Type]>,
    at: usize,
) -> Result<Item> {
    let name = name.unwrap_or_else(|| item_name(expr));
    if let Some((function, args)) = set_function(expr)? {
        let mut bound = Vec::new();
        for arg in args {
            bound.push(binder.expr(arg, place)?);
        }
        let (function, types) = table_function(binder, function, bound, false)?;
        let [ty] = types.as_slice() else {
            return Err(SqlError::simulator("unnest of several arrays in a target list"));
        };
        return Ok(Item {
            name,
            ty: *ty,
            value: ItemValue::Set(function),
        });
    }
    let typed = binder.expr(expr, place)?;
    let wanted = want.and_then(|want| want.get(at)).copied();
    let typed = match wanted {
        Some(ty) if typed.ty.is_unknown() && !is_null_constant(&typed.expr) => {
            let expr = binder.coerce(typed, ty, crate::sql::cast::Context::Assignment)?;
            Typed::new(expr, ty)
        }
        Some(ty) if typed.ty.is_unknown() => Typed::new(typed.expr, ty),
        _ => binder.settle(typed)?,
    };
    Ok(Item {
        name,
        value: ItemValue::Expr(typed.expr),
        ty: typed.ty,
    })
}

/// A function of the target list that gives several rows, with its arguments.
fn set_function(expr: &ast::Expr) -> Result<Option<(&'static str, Vec<&ast::Expr>)>> {
    let ast::Expr::Function(function) = expr else {
        return Ok(None);
    };
    let name = match bind::function_name(&function.name)?.as_str() {
        "generate_series" => "generate_series",
        "unnest" => "unnest",
        _ => return Ok(None),
    };
    let ast::FunctionArguments::List(list) = &function.args else {
        return Ok(None);
    };
    let args = list
        .args
        .iter()
        .map(|arg| match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Ok(expr),
            _ => Err(SqlError::simulator(format!("this form of arguments of {name}"))),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Some((name, args)))
}

/// The name that PostgreSQL gives to an unnamed column.
pub(crate) fn item_name(expr: &ast::Expr) -> String {
    named(expr).unwrap_or_else(|| "?column?".to_owned())
}

fn named(expr: &ast::Expr) -> Option<String> {
    let fixed = |name: &str| Some(name.to_owned());
    match expr {
        ast::Expr::Identifier(ident) => Some(bind::fold(ident)),
        ast::Expr::CompoundIdentifier(idents) => idents.last().map(bind::fold),
        ast::Expr::Nested(inner) | ast::Expr::Collate { expr: inner, .. } => named(inner),
        ast::Expr::CompoundFieldAccess { root, .. } => named(root),
        ast::Expr::Function(function) => bind::name_parts(&function.name).ok()?.pop(),
        ast::Expr::Cast {
            expr, data_type, ..
        } => named(expr).or_else(|| {
            let (ty, _) = bind::data_type(&Default::default(), data_type).ok()?;
            Some(ty.element().unwrap_or(ty).name())
        }),
        ast::Expr::TypedString(typed) => {
            let (ty, _) = bind::data_type(&Default::default(), &typed.data_type).ok()?;
            Some(ty.name())
        }
        ast::Expr::Interval(_) => fixed("interval"),
        ast::Expr::Case { else_result, .. } => else_result
            .as_deref()
            .and_then(named)
            .or_else(|| fixed("case")),
        ast::Expr::Exists { negated: false, .. } => fixed("exists"),
        ast::Expr::Subquery(query) => match &*query.body {
            ast::SetExpr::Select(select) => match select.projection.first()? {
                ast::SelectItem::UnnamedExpr(expr) => named(expr),
                ast::SelectItem::ExprWithAlias { alias, .. } => Some(bind::fold(alias)),
                _ => None,
            },
            _ => None,
        },
        ast::Expr::Array(_) => fixed("array"),
        ast::Expr::Tuple(_) => fixed("row"),
        ast::Expr::Extract { .. } => fixed("extract"),
        ast::Expr::Ceil { .. } => fixed("ceil"),
        ast::Expr::Floor { .. } => fixed("floor"),
        ast::Expr::Position { .. } => fixed("position"),
        ast::Expr::Substring { .. } => fixed("substring"),
        ast::Expr::AtTimeZone { .. } => fixed("timezone"),
        ast::Expr::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => fixed("ltrim"),
            Some(ast::TrimWhereField::Trailing) => fixed("rtrim"),
            _ => fixed("btrim"),
        },
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Boolean(_) => fixed("bool"),
            _ => None,
        },
        _ => None,
    }
}

type Groups = (Vec<Expr>, Vec<Vec<bool>>);

/// Expressions of GROUP BY; and for each grouping set, which of them count.
fn group_by(
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
                (0..=parts.len()).rev().map(|n| parts[..n].concat()).collect()
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
        several = several || matches!(expr, ast::Expr::Rollup(_) | ast::Expr::Cube(_) | ast::Expr::GroupingSets(_));
        product = product
            .iter()
            .flat_map(|set| {
                alternatives
                    .iter()
                    .map(|more| [set.as_slice(), more.as_slice()].concat())
            })
            .collect();
        if product.len() > 4_096 {
            return Err(SqlError::new("54011", "too many grouping sets present (maximum 4096)"));
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

fn group_expr(
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
        if binder.column(scope, None, &name)?.is_none() {
            if let Some(at) = items.iter().position(|item| item.name == name) {
                return of_item(at);
            }
        }
    }
    let typed = binder.expr(expr, Place::of(scope, "GROUP BY"))?;
    Ok(binder.settle(typed)?.expr)
}

/// Keys of ORDER BY, with the column of the target list that they are, if they
/// were named or numbered as one.
fn order_by(
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
            let mut same = items.iter().enumerate().filter(|(_, item)| item.name == name);
            at = same.next().map(|(at, _)| at);
            let other = same.any(|(_, item)| at.is_some_and(|at| items[at].expr() != item.expr()));
            if other {
                return Err(SqlError::new("42702", format!("ORDER BY \"{name}\" is ambiguous")));
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
fn add_dependent(expr: &Expr, keys: &[(Range<usize>, Vec<usize>)], groups: &mut Vec<Expr>) {
    if groups.contains(expr) {
        return;
    }
    if let Expr::Column(column) = expr {
        let dependent = keys.iter().any(|(columns, key)| {
            columns.contains(column)
                && key.iter().all(|column| groups.contains(&Expr::Column(*column)))
        });
        if dependent {
            groups.push(expr.clone());
        }
    }
    expr.for_each_part(&mut |part| add_dependent(part, keys, groups));
}

/// Replaces grouped expressions and aggregates by the columns that hold them.
fn regroup(expr: &mut Expr, groups: &[Expr]) {
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
fn check_grouped(expr: &Expr, scope: &Scope<'_>) -> Result<()> {
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

fn place_windows(expr: &mut Expr, base: usize) {
    if let Expr::Window(n) = expr {
        *expr = Expr::Column(base + *n);
        return;
    }
    expr.map_parts(&mut |part| place_windows(part, base));
}

/// The target list of RETURNING.
pub(crate) fn returning(
    binder: &Binder<'_>,
    list: &[ast::SelectItem],
    scope: &Scope<'_>,
) -> Result<(Vec<Expr>, Columns)> {
    let items = target_list(binder, list, Place::of(scope, "RETURNING"), None)?;
    let mut exprs = Vec::new();
    let mut columns = Vec::new();
    for item in items {
        match item.value {
            ItemValue::Expr(expr) => exprs.push(expr),
            ItemValue::Set(_) => {
                return Err(SqlError::unsupported(
                    "set-returning functions are not allowed in RETURNING",
                ));
            }
        }
        columns.push((item.name, item.ty));
    }
    Ok((exprs, columns))
}

