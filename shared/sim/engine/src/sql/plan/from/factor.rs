//! The items of FROM.

use super::*;
use crate::catalog::{Relation, Table};
use crate::error::{Result, SqlError};
use crate::pgcatalog;
use crate::sql::bind::{self, Binder, KEY_COLUMN, Place, Scope, ScopeColumn, Typed};
use crate::sql::cast::Context;
use crate::sql::expr::Expr;
use crate::sql::plan::{Columns, Node, TableFunction, TableFunctionKind};
use crate::types::Type;
use sqlparser::ast;
use std::ops::Range;
use std::sync::Arc;

impl Builder<'_, '_> {
    /// Refuses a name that another item has.
    pub(super) fn label(&mut self, label: String) -> Result<()> {
        if !label.is_empty() && self.labels.contains(&label) {
            return Err(SqlError::new(
                "42712",
                format!("table name \"{label}\" specified more than once"),
            ));
        }
        self.labels.push(label);
        Ok(())
    }

    /// FOR UPDATE would have to claim the tables behind it.
    fn refuse_lock(&self, what: &str) -> Result<()> {
        match self.lock {
            Some(lock) if lock.of.is_none() => {
                Err(SqlError::simulator(format!("a locking clause on a {what}")))
            }
            _ => Ok(()),
        }
    }

    /// One table, function or subquery; true if it looks at columns before
    /// `before`, which stand to its left.
    pub(super) fn factor(
        &mut self,
        factor: &ast::TableFactor,
        before: usize,
    ) -> Result<(Tree, bool)> {
        let binder = self.binder;
        match factor {
            ast::TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => self.named(name, alias.as_ref()).map(|tree| (tree, false)),
            ast::TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality,
                ..
            } => {
                let function = bind::function_name(name)?;
                self.function(
                    &function,
                    &args.args,
                    alias.as_ref(),
                    *with_ordinality,
                    before,
                )
            }
            ast::TableFactor::Function {
                name,
                args,
                alias,
                with_ordinality,
                ..
            } => {
                let function = bind::function_name(name)?;
                self.function(&function, args, alias.as_ref(), *with_ordinality, before)
            }
            ast::TableFactor::UNNEST {
                alias,
                array_exprs,
                with_ordinality,
                with_offset: false,
                ..
            } => {
                let args: Vec<ast::FunctionArg> = array_exprs
                    .iter()
                    .map(|expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr.clone())))
                    .collect();
                self.function("unnest", &args, alias.as_ref(), *with_ordinality, before)
            }
            ast::TableFactor::Derived {
                lateral,
                subquery,
                alias,
                ..
            } => {
                self.refuse_lock("subquery")?;
                let outside = binder.reach.replace(0);
                let left = Scope {
                    columns: self.columns[..before].to_vec(),
                    parent: self.parent,
                };
                // With nothing to its left there is no row to push out for it.
                let lateral = *lateral && before > 0;
                let scope = if lateral { Some(&left) } else { self.parent };
                let planned = crate::sql::plan::query(binder, subquery, scope, None)?;
                let reach = binder.reach.get();
                let looks_left = lateral && reach > 0;
                let reach = if lateral {
                    reach.saturating_sub(1)
                } else {
                    reach
                };
                binder.reach.set(outside.max(reach));
                let tree = self.node(planned.node, planned.columns, alias.as_ref(), "")?;
                Ok((tree, looks_left))
            }
            ast::TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => Ok((self.item(None, table_with_joins)?, false)),
            _ => Err(SqlError::simulator("this form of FROM")),
        }
    }

    pub(super) fn named(
        &mut self,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Tree> {
        let binder = self.binder;
        let position = binder.position(sqlparser::ast::Spanned::span(name));
        let (schema, relation) = bind::qualified(name)?;
        if schema.is_none() {
            let ctes = binder.ctes.borrow();
            if let Some(cte) = ctes.iter().rev().find(|cte| cte.name == relation).cloned() {
                drop(ctes);
                if cte.correlated {
                    binder.reach.set(binder.reach.get().max(1));
                }
                return self.node(Node::Cte(cte.slot), cte.columns, alias, &relation);
            }
        }
        match binder.catalog.relation(schema.as_deref(), &relation) {
            Some(Relation::Table(table)) => {
                let table = Arc::clone(table);
                let label = alias.map_or(relation, |alias| bind::fold(&alias.name));
                self.label(label.clone())?;
                let with_key = self
                    .lock
                    .is_some_and(|lock| lock.of.as_ref().is_none_or(|of| *of == label));
                let tree = self.table(&table, &label, with_key);
                if let Some(alias) = alias {
                    self.rename(&tree.columns(), &alias.columns)?;
                }
                Ok(tree)
            }
            Some(Relation::View(view)) => {
                let view = Arc::clone(view);
                binder.touch(view.oid);
                self.refuse_lock("view")?;
                // A view knows neither our names nor our CTEs.
                let ctes = binder.ctes.take();
                let planned =
                    binder.deeper(|| crate::sql::plan::query(binder, &view.query, None, None));
                binder.ctes.replace(ctes);
                let planned = planned?;
                let columns = planned
                    .columns
                    .into_iter()
                    .zip(&view.columns)
                    .map(|((_, ty), (name, _))| (name.clone(), ty))
                    .collect();
                self.node(planned.node, columns, alias, &relation)
            }
            Some(Relation::Sequence(_)) => Err(SqlError::simulator("reading a sequence")),
            None => match pgcatalog::system_table(schema.as_deref(), &relation) {
                Some(table) => {
                    let columns: Columns = table
                        .columns
                        .iter()
                        .map(|(name, ty)| ((*name).to_owned(), *ty))
                        .collect();
                    self.node(Node::System(table), columns, alias, &relation)
                }
                None => Err(crate::catalog::undefined(schema.as_deref(), &relation).at(position)),
            },
        }
    }

    pub(super) fn table(&mut self, table: &Arc<Table>, label: &str, with_key: bool) -> Tree {
        self.binder.touch(table.oid);
        let start = self.columns.len();
        for column in &table.columns {
            self.columns.push(ScopeColumn {
                table: label.to_owned(),
                // Nothing can have the name of a dropped column.
                name: if column.dropped {
                    format!("{KEY_COLUMN}dropped")
                } else {
                    column.name.clone()
                },
                ty: column.ty,
                hidden: column.dropped,
            });
        }
        if table.has_primary() {
            let key = table.primary.iter().map(|slot| start + slot).collect();
            self.keys.push((start..self.columns.len(), key));
        }
        if with_key {
            self.lock_keys.push((table.oid, self.columns.len()));
            self.columns.push(ScopeColumn {
                table: label.to_owned(),
                name: KEY_COLUMN.to_owned(),
                ty: Type::BYTEA,
                hidden: true,
            });
        }
        Tree::Leaf {
            source: Source::Table {
                table: Arc::clone(table),
                with_key,
            },
            columns: start..self.columns.len(),
        }
    }

    pub(super) fn node(
        &mut self,
        node: Node,
        columns: Columns,
        alias: Option<&ast::TableAlias>,
        label: &str,
    ) -> Result<Tree> {
        let start = self.columns.len();
        let label = alias.map_or(label.to_owned(), |alias| bind::fold(&alias.name));
        self.label(label.clone())?;
        for (name, ty) in columns {
            self.columns.push(ScopeColumn {
                table: label.clone(),
                name,
                ty,
                hidden: false,
            });
        }
        let range = start..self.columns.len();
        if let Some(alias) = alias {
            self.rename(&range, &alias.columns)?;
        }
        Ok(Tree::Leaf {
            source: Source::Node(node),
            columns: range,
        })
    }

    /// Column names of an alias.
    pub(super) fn rename(
        &mut self,
        range: &Range<usize>,
        names: &[ast::TableAliasColumnDef],
    ) -> Result<()> {
        if names.len() > range.len() {
            return Err(SqlError::new(
                "42P10",
                format!(
                    "table has {} columns available but {} columns specified",
                    range.len(),
                    names.len()
                ),
            ));
        }
        let visible: Vec<usize> = range.clone().filter(|i| !self.columns[*i].hidden).collect();
        for (i, name) in visible.into_iter().zip(names) {
            self.columns[i].name = bind::fold(&name.name);
        }
        Ok(())
    }

    pub(super) fn function(
        &mut self,
        name: &str,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        ordinality: bool,
        before: usize,
    ) -> Result<(Tree, bool)> {
        let binder = self.binder;
        let outside = binder.reach.replace(0);
        let left = Scope {
            columns: self.columns[..before].to_vec(),
            parent: self.parent,
        };
        // The row to the left is one step out, as for any lateral item.
        let own = Scope {
            columns: Vec::new(),
            parent: if before > 0 { Some(&left) } else { self.parent },
        };
        let place = Place::of(&own, "functions in FROM");
        let mut bound = Vec::new();
        for arg in args {
            match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                    bound.push(binder.expr(expr, place)?);
                }
                _ => return Err(SqlError::simulator("this form of function in FROM")),
            }
        }
        let (function, types) = table_function(binder, name, bound, ordinality)?;
        let reach = binder.reach.get();
        let looks_left = before > 0 && reach > 0;
        let outward = if before > 0 {
            reach.saturating_sub(1)
        } else {
            reach
        };
        binder.reach.set(outside.max(outward));
        // A function of one column is named by its table's alias, too.
        let label = alias.map_or(name.to_owned(), |alias| bind::fold(&alias.name));
        let single = if types.len() == 1 {
            label.as_str()
        } else {
            name
        };
        let mut columns: Columns = types
            .into_iter()
            .map(|ty| (single.to_owned(), ty))
            .collect();
        if ordinality {
            columns.push(("ordinality".to_owned(), Type::INT8));
        }
        let tree = self.node(Node::Function(function), columns, alias, name)?;
        Ok((tree, looks_left))
    }
}

/// Binds a function that gives rows: with the types of its columns.
pub(crate) fn table_function(
    binder: &Binder<'_>,
    name: &str,
    args: Vec<Typed>,
    ordinality: bool,
) -> Result<(TableFunction, Vec<Type>)> {
    let (kind, args, types) = match name {
        "generate_series" if (2..=3).contains(&args.len()) => {
            let types: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
            if types.iter().any(|ty| ty.is_datetime()) {
                let mut exprs = Vec::new();
                let ty = if types[0].is(Type::TIMESTAMP) {
                    Type::TIMESTAMP
                } else {
                    Type::TIMESTAMPTZ
                };
                for (i, arg) in args.into_iter().enumerate() {
                    let to = if i == 2 { Type::INTERVAL } else { ty };
                    exprs.push(binder.coerce(arg, to, Context::Implicit)?);
                }
                (TableFunctionKind::Series, exprs, vec![ty])
            } else {
                let mut ty = binder.common_type(&types, "generate_series")?;
                if !matches!(ty.oid, 20 | 23 | 1700) {
                    ty = if types.iter().all(|ty| ty.is_unknown()) || ty.is_int() {
                        Type::INT4
                    } else {
                        return Err(SqlError::new(
                            "42883",
                            "function generate_series with these arguments does not exist",
                        ));
                    };
                }
                let exprs: Result<Vec<Expr>> = args
                    .into_iter()
                    .map(|arg| binder.coerce(arg, ty, Context::Implicit))
                    .collect();
                (TableFunctionKind::Series, exprs?, vec![ty])
            }
        }
        "unnest" if !args.is_empty() => {
            let mut exprs = Vec::new();
            let mut types = Vec::new();
            for arg in args {
                let element = match arg.ty.element() {
                    Some(element) => element,
                    None => {
                        return Err(SqlError::new(
                            "42883",
                            format!("function unnest({}) does not exist", arg.ty.display()),
                        )
                        .hint("No function matches the given name and argument types. You might need to add explicit type casts."));
                    }
                };
                types.push(element);
                exprs.push(arg.expr);
            }
            (TableFunctionKind::Unnest, exprs, types)
        }
        _ => {
            let value = binder.call(name, args)?;
            (TableFunctionKind::Scalar, vec![value.expr], vec![value.ty])
        }
    };
    let function = TableFunction {
        kind,
        args,
        ordinality,
    };
    Ok((function, types))
}
