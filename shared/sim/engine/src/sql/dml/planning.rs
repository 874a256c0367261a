//! Planning: targets, sources, assignments.

use super::*;
use crate::catalog::{IndexKey, Table};
use crate::error::{Result, SqlError};
use crate::sql::bind::{self, Binder, KEY_COLUMN, Place, Scope, ScopeColumn, Typed};
use crate::sql::cast::Context;
use crate::sql::expr::{self, Ctx, Expr};
use crate::sql::plan::{self, Columns, FromClause, Node};
use crate::sql::write::{Arbiter, Writer};
use crate::types::Type;
use crate::value::Value;
use sqlparser::ast;
use std::sync::Arc;

pub(super) fn target(binder: &Binder<'_>, name: &ast::ObjectName) -> Result<Arc<Table>> {
    let (schema, name_only) = bind::qualified(name)?;
    let position = binder.position(ast::Spanned::span(name));
    if crate::pgcatalog::system_table(schema.as_deref(), &name_only).is_some()
        && binder
            .catalog
            .relation(schema.as_deref(), &name_only)
            .is_none()
    {
        return Err(SqlError::new(
            "42501",
            format!("permission denied: \"{name_only}\" is a system catalog"),
        ));
    }
    let table = binder
        .catalog
        .table(schema.as_deref(), &name_only)
        .cloned()
        .map_err(|e| e.at(position))?;
    binder.touch(table.oid);
    Ok(table)
}

pub(super) fn scope_of(table: &Table, label: &str) -> Vec<ScopeColumn> {
    table
        .columns
        .iter()
        .map(|column| ScopeColumn {
            table: label.to_owned(),
            name: if column.dropped {
                format!("{KEY_COLUMN}dropped")
            } else {
                column.name.clone()
            },
            ty: column.ty,
            hidden: column.dropped,
        })
        .collect()
}

pub(super) fn no_column(name: &str, table: &Table) -> SqlError {
    SqlError::new(
        "42703",
        format!(
            "column \"{name}\" of relation \"{}\" does not exist",
            table.name
        ),
    )
}

pub(super) fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The DEFAULT of a column as a bound expression.
pub(crate) fn default_expr(binder: &Binder<'_>, table: &Table, slot: usize) -> Result<Expr> {
    let Some(column) = table.columns.get(slot) else {
        return Ok(Expr::null());
    };
    if let Some(identity) = column.identity {
        let sequence = Typed::new(
            Expr::Const(Value::Int(identity.sequence.into())),
            Type::REGCLASS,
        );
        return Ok(binder.call("nextval", vec![sequence])?.expr);
    }
    let default = column.default.as_ref().or_else(|| {
        column
            .domain
            .as_ref()
            .and_then(|domain| domain.default.as_ref())
    });
    match default {
        None => Ok(Expr::null()),
        Some(default) => {
            let scope = Scope::empty();
            let typed = binder.expr(default, Place::of(&scope, "DEFAULT expressions"))?;
            assign(binder, typed, table, slot)
        }
    }
}

/// The DEFAULT of a column, computed.
pub(crate) fn default_value(writer: &Writer<'_>, table: &Table, slot: usize) -> Result<Value> {
    let catalog = Arc::clone(&writer.txn.catalog);
    let binder = Binder::new(&catalog, Vec::new(), "");
    let default = default_expr(&binder, table, slot)?;
    let run = writer.run();
    let cx = Ctx {
        params: &[],
        outer: None,
        run: Some(&run),
    };
    expr::eval(&default, &cx, &[])
}

/// Converts a value for a column.
pub(super) fn assign(
    binder: &Binder<'_>,
    typed: Typed,
    table: &Table,
    slot: usize,
) -> Result<Expr> {
    let Some(column) = table.columns.get(slot) else {
        return Ok(typed.expr);
    };
    let from = typed.ty;
    if !crate::sql::cast::allowed(from, column.ty, Context::Assignment) {
        return Err(SqlError::datatype_mismatch(format!(
            "column \"{}\" is of type {} but expression is of type {}",
            column.name,
            column.ty.display(),
            from.display()
        ))
        .hint("You will need to rewrite or cast the expression."));
    }
    binder.coerce(typed, column.ty, Context::Assignment)
}

pub(super) fn bind_returning(
    binder: &Binder<'_>,
    list: Option<&Vec<ast::SelectItem>>,
    columns: Vec<ScopeColumn>,
) -> Result<(Option<Vec<Expr>>, Option<Columns>)> {
    let Some(list) = list else {
        return Ok((None, None));
    };
    let scope = Scope {
        columns,
        parent: None,
    };
    let (exprs, columns) = plan::returning(binder, list, &scope)?;
    Ok((Some(exprs), Some(columns)))
}

/// Plans INSERT.
pub(crate) fn insert(binder: &Binder<'_>, insert: &ast::Insert) -> Result<Dml> {
    let odd = insert.or.is_some()
        || insert.ignore
        || insert.overwrite
        || insert.partitioned.is_some()
        || insert.replace_into
        || !insert.assignments.is_empty()
        || insert.output.is_some();
    if odd {
        return Err(SqlError::syntax("insert"));
    }
    let ast::TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::simulator("INSERT INTO a function"));
    };
    let table = target(binder, name)?;
    let label = insert
        .table_alias
        .as_ref()
        .map_or_else(|| table.name.clone(), |alias| bind::fold(&alias.alias));
    let mut slots = Vec::new();
    if insert.columns.is_empty() {
        slots.extend(table.live().map(|(slot, _)| slot));
    }
    for column in &insert.columns {
        let (_, name) = bind::qualified(column)?;
        let position = binder.position(ast::Spanned::span(column));
        let slot = table
            .slot(&name)
            .ok_or_else(|| no_column(&name, &table).at(position))?;
        if slots.contains(&slot) {
            return Err(SqlError::new(
                "42701",
                format!("column \"{name}\" specified more than once"),
            )
            .at(position));
        }
        slots.push(slot);
    }
    let explicit = !insert.columns.is_empty();
    let (source, slots) = match &insert.source {
        None => (Node::One, Vec::new()),
        Some(query) => insert_source(
            binder,
            query,
            &table,
            slots,
            explicit,
            insert.overriding.is_some(),
        )?,
    };
    let mut defaults = Vec::new();
    for (slot, _) in table.live() {
        if !slots.contains(&slot) {
            let default = default_expr(binder, &table, slot)?;
            if default != Expr::null() {
                defaults.push((slot, default));
            }
        }
    }
    let conflict = match &insert.on {
        None => None,
        Some(ast::OnInsert::OnConflict(on)) => Some(on_conflict(binder, on, &table, &label)?),
        Some(_) => return Err(SqlError::syntax("ON")),
    };
    let (returning, columns) =
        bind_returning(binder, insert.returning.as_ref(), scope_of(&table, &label))?;
    Ok(Dml {
        ctes: Vec::new(),
        table,
        kind: DmlKind::Insert {
            source,
            slots,
            defaults,
            conflict,
        },
        returning,
        columns,
    })
}

pub(super) fn count_error(more: bool) -> SqlError {
    SqlError::new(
        "42601",
        if more {
            "INSERT has more expressions than target columns"
        } else {
            "INSERT has more target columns than expressions"
        },
    )
}

/// Rows to insert, converted to their columns.
pub(super) fn insert_source(
    binder: &Binder<'_>,
    query: &ast::Query,
    table: &Table,
    mut slots: Vec<usize>,
    explicit: bool,
    overriding: bool,
) -> Result<(Node, Vec<usize>)> {
    let refuse_identity = |slot: usize| match table.columns.get(slot) {
        Some(column) if column.identity.is_some_and(|identity| identity.always) && !overriding => {
            Err(SqlError::new(
                "428C9",
                format!(
                    "cannot insert a non-DEFAULT value into column \"{}\"",
                    column.name
                ),
            )
            .detail(format!(
                "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                column.name
            ))
            .hint("Use OVERRIDING SYSTEM VALUE to override."))
        }
        _ => Ok(()),
    };
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    if let (ast::SetExpr::Values(values), true) = (&*query.body, plain) {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        if width > slots.len() {
            return Err(count_error(true));
        }
        if width < slots.len() && explicit {
            return Err(count_error(false));
        }
        slots.truncate(width);
        let scope = Scope::empty();
        let place = Place::of(&scope, "VALUES");
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width {
                return Err(SqlError::new(
                    "42601",
                    "VALUES lists must all be the same length",
                ));
            }
            let mut exprs = Vec::with_capacity(width);
            for (expr, slot) in row.content.iter().zip(&slots) {
                if is_default(expr) {
                    exprs.push(default_expr(binder, table, *slot)?);
                    continue;
                }
                refuse_identity(*slot)?;
                let typed = binder.expr(expr, place)?;
                let position = binder.position(ast::Spanned::span(expr));
                exprs.push(assign(binder, typed, table, *slot).map_err(|e| e.at(position))?);
            }
            rows.push(exprs);
        }
        return Ok((Node::Values(rows), slots));
    }
    let want: Vec<Type> = slots.iter().map(|slot| table.columns[*slot].ty).collect();
    let planned = plan::query(binder, query, None, Some(&want))?;
    if planned.columns.len() > slots.len() {
        return Err(count_error(true));
    }
    if planned.columns.len() < slots.len() && explicit {
        return Err(count_error(false));
    }
    slots.truncate(planned.columns.len());
    let mut same = true;
    let mut exprs = Vec::new();
    for (i, ((_, ty), slot)) in planned.columns.iter().zip(&slots).enumerate() {
        refuse_identity(*slot)?;
        let column = Typed::new(Expr::Column(i), *ty);
        let expr = assign(binder, column, table, *slot)?;
        same = same && expr == Expr::Column(i);
        exprs.push(expr);
    }
    let node = if same {
        planned.node
    } else {
        Node::Project {
            input: Box::new(planned.node),
            exprs,
        }
    };
    Ok((node, slots))
}

pub(super) fn on_conflict(
    binder: &Binder<'_>,
    on: &ast::OnConflict,
    table: &Table,
    label: &str,
) -> Result<OnConflict> {
    let mut arbiters = Vec::new();
    match &on.conflict_target {
        None => {}
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let (_, name) = bind::qualified(name)?;
            if table.has_primary() && table.primary_name == name {
                arbiters.push(Arbiter::Primary);
            } else if let Some(index) = table
                .indexes
                .iter()
                .find(|index| index.name == name && index.unique)
            {
                arbiters.push(Arbiter::Index(index.oid));
            } else {
                return Err(SqlError::new(
                    "42704",
                    format!(
                        "constraint \"{name}\" for table \"{}\" does not exist",
                        table.name
                    ),
                ));
            }
        }
        Some(ast::ConflictTarget::Columns { columns, predicate }) => {
            let mut slots = Vec::new();
            for column in columns {
                let name = bind::fold(column);
                slots.push(
                    table
                        .slot(&name)
                        .ok_or_else(|| SqlError::undefined_column(&name))?,
                );
            }
            let same = |keys: &[usize]| {
                keys.len() == slots.len() && keys.iter().all(|key| slots.contains(key))
            };
            if table.has_primary() && same(&table.primary) {
                arbiters.push(Arbiter::Primary);
            }
            for index in table.indexes.iter().filter(|index| index.unique) {
                let keys: Option<Vec<usize>> = index
                    .keys
                    .iter()
                    .map(|key| match key {
                        IndexKey::Slot(slot) => Some(*slot),
                        IndexKey::Expr(_) => None,
                    })
                    .collect();
                let whole = index.predicate.is_none() || predicate.is_some();
                if whole && keys.is_some_and(|keys| same(&keys)) {
                    arbiters.push(Arbiter::Index(index.oid));
                }
            }
            if arbiters.is_empty() {
                return Err(SqlError::new(
                    "42P10",
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                ));
            }
        }
    }
    let update = match &on.action {
        ast::OnConflictAction::DoNothing => None,
        ast::OnConflictAction::DoUpdate(update) => {
            if arbiters.is_empty() {
                return Err(SqlError::new(
                    "42601",
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                )
                .hint("For example, ON CONFLICT (column_name)."));
            }
            let mut columns = scope_of(table, label);
            columns.extend(
                scope_of(table, "excluded")
                    .into_iter()
                    .map(|column| ScopeColumn {
                        hidden: true,
                        ..column
                    }),
            );
            let scope = Scope {
                columns,
                parent: None,
            };
            let assignments = assignments(binder, &update.assignments, table, &scope)?;
            let condition = update
                .selection
                .as_ref()
                .map(|condition| binder.condition(condition, Place::of(&scope, "WHERE")))
                .transpose()?;
            Some((assignments, condition))
        }
    };
    Ok(OnConflict { arbiters, update })
}

pub(super) fn assignments(
    binder: &Binder<'_>,
    list: &[ast::Assignment],
    table: &Table,
    scope: &Scope<'_>,
) -> Result<Vec<(usize, Expr)>> {
    let mut out: Vec<(usize, Expr)> = Vec::new();
    let place = Place::of(scope, "UPDATE");
    let mut one = |name: &ast::ObjectName, value: &ast::Expr| -> Result<()> {
        let position = binder.position(ast::Spanned::span(name));
        let parts = bind::name_parts(name)?;
        let [column] = parts.as_slice() else {
            return Err(no_column(&parts.join("."), table).at(position));
        };
        let slot = table
            .slot(column)
            .ok_or_else(|| no_column(column, table).at(position))?;
        if out.iter().any(|(other, _)| *other == slot) {
            return Err(SqlError::new(
                "42601",
                format!("multiple assignments to same column \"{column}\""),
            ));
        }
        if is_default(value) {
            out.push((slot, default_expr(binder, table, slot)?));
            return Ok(());
        }
        if table.columns[slot]
            .identity
            .is_some_and(|identity| identity.always)
        {
            return Err(SqlError::new(
                "428C9",
                format!("column \"{column}\" can only be updated to DEFAULT"),
            ));
        }
        let typed = binder.expr(value, place)?;
        let position = binder.position(ast::Spanned::span(value));
        out.push((
            slot,
            assign(binder, typed, table, slot).map_err(|e| e.at(position))?,
        ));
        Ok(())
    };
    for assignment in list {
        match (&assignment.target, &assignment.value) {
            (ast::AssignmentTarget::ColumnName(name), value) => one(name, value)?,
            (ast::AssignmentTarget::Tuple(names), ast::Expr::Tuple(values))
                if names.len() == values.len() =>
            {
                for (name, value) in names.iter().zip(values) {
                    one(name, value)?;
                }
            }
            _ => {
                return Err(SqlError::simulator(
                    "assigning a subquery to several columns",
                ));
            }
        }
    }
    Ok(out)
}

/// The one table of an UPDATE or DELETE, with its alias.
pub(super) fn single(
    factor: &ast::TableWithJoins,
) -> Result<(&ast::ObjectName, Option<&ast::TableAlias>)> {
    match (&factor.relation, factor.joins.as_slice()) {
        (
            ast::TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            },
            [],
        ) => Ok((name, alias.as_ref())),
        _ => Err(SqlError::syntax("JOIN")),
    }
}

pub(super) struct Target {
    table: Arc<Table>,
    source: Source,
    scope: Vec<ScopeColumn>,
}

/// Binds the target and what it is joined with.
pub(super) fn bind_target(
    binder: &Binder<'_>,
    name: &ast::ObjectName,
    alias: Option<&ast::TableAlias>,
    others: &[ast::TableWithJoins],
    selection: Option<&ast::Expr>,
) -> Result<Target> {
    let table = target(binder, name)?;
    let label = alias.map_or_else(|| table.name.clone(), |alias| bind::fold(&alias.name));
    let mut conditions = Vec::new();
    if others.is_empty() {
        let scope = Scope {
            columns: scope_of(&table, &label),
            parent: None,
        };
        if let Some(selection) = selection {
            plan::conjuncts(
                binder.condition(selection, Place::of(&scope, "WHERE"))?,
                &mut conditions,
            );
        }
        let (scan, _) = plan::access::scan(&table, conditions, &[], false);
        return Ok(Target {
            source: Source::Scan(scan),
            scope: scope.columns,
            table,
        });
    }
    let from = FromClause::bind(binder, Some((&table, &label)), others, None, None)?;
    let scope = Scope {
        columns: from.columns.clone(),
        parent: None,
    };
    if let Some(selection) = selection {
        plan::conjuncts(
            binder.condition(selection, Place::of(&scope, "WHERE"))?,
            &mut conditions,
        );
    }
    let built = from.build(conditions, &[]);
    Ok(Target {
        source: Source::Join(built.node),
        scope: scope.columns,
        table,
    })
}

/// Plans UPDATE.
pub(crate) fn update(binder: &Binder<'_>, update: &ast::Update) -> Result<Dml> {
    if update.or.is_some()
        || !update.order_by.is_empty()
        || update.limit.is_some()
        || update.output.is_some()
    {
        return Err(SqlError::syntax("update"));
    }
    let (name, alias) = single(&update.table)?;
    let others = match &update.from {
        None => &[][..],
        Some(ast::UpdateTableFromKind::AfterSet(from)) => from,
        Some(ast::UpdateTableFromKind::BeforeSet(_)) => return Err(SqlError::syntax("FROM")),
    };
    let target = bind_target(binder, name, alias, others, update.selection.as_ref())?;
    let scope = Scope {
        columns: target.scope.clone(),
        parent: None,
    };
    let assignments = assignments(binder, &update.assignments, &target.table, &scope)?;
    let (returning, columns) = bind_returning(binder, update.returning.as_ref(), target.scope)?;
    Ok(Dml {
        ctes: Vec::new(),
        table: target.table,
        kind: DmlKind::Update {
            source: target.source,
            assignments,
        },
        returning,
        columns,
    })
}

/// Plans DELETE.
pub(crate) fn delete(binder: &Binder<'_>, delete: &ast::Delete) -> Result<Dml> {
    if !delete.tables.is_empty()
        || !delete.order_by.is_empty()
        || delete.limit.is_some()
        || delete.output.is_some()
    {
        return Err(SqlError::syntax("delete"));
    }
    let from = match &delete.from {
        ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from) => from,
    };
    let [one] = from.as_slice() else {
        return Err(SqlError::syntax(","));
    };
    let (name, alias) = single(one)?;
    let others = delete.using.as_deref().unwrap_or(&[]);
    let target = bind_target(binder, name, alias, others, delete.selection.as_ref())?;
    let (returning, columns) = bind_returning(binder, delete.returning.as_ref(), target.scope)?;
    Ok(Dml {
        ctes: Vec::new(),
        table: target.table,
        kind: DmlKind::Delete {
            source: target.source,
        },
        returning,
        columns,
    })
}
