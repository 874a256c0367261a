//! The target list: its columns and their names.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::bind::{self, Binder, KEY_COLUMN, Place, Scope, Typed};
use crate::sql::expr::Expr;
use crate::sql::plan::Columns;
use crate::sql::plan::from::table_function;
use crate::sql::plan::query::is_null_constant;
use crate::types::Type;
use sqlparser::ast;

pub(super) fn target_list(
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

pub(super) fn wildcard(
    scope: &Scope<'_>,
    table: Option<&str>,
    items: &mut Vec<Item>,
) -> Result<()> {
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

pub(super) fn one_item(
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
            return Err(SqlError::simulator(
                "unnest of several arrays in a target list",
            ));
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
pub(super) fn set_function(expr: &ast::Expr) -> Result<Option<(&'static str, Vec<&ast::Expr>)>> {
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
            _ => Err(SqlError::simulator(format!(
                "this form of arguments of {name}"
            ))),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Some((name, args)))
}

/// The name that PostgreSQL gives to an unnamed column.
pub(crate) fn item_name(expr: &ast::Expr) -> String {
    named(expr).unwrap_or_else(|| "?column?".to_owned())
}

pub(super) fn named(expr: &ast::Expr) -> Option<String> {
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
