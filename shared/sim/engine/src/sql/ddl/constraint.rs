//! CHECK and FOREIGN KEY.

use super::*;
use crate::catalog::{Action, Catalog, Check, ForeignKey, Table};
use crate::error::{Result, SqlError};
use crate::sql::bind::{self, Place, qualified};
use crate::sql::expr::Expr;
use sqlparser::ast;

impl Ddl<'_> {
    pub(super) fn add_check(
        &self,
        catalog: &mut Catalog,
        table: &mut Table,
        expr: &ast::Expr,
        given: Option<String>,
        column: Option<&str>,
    ) -> Result<()> {
        let binder = self.binder();
        let scope = Self::table_scope(table);
        let bound = binder.condition(expr, Place::of(&scope, "CHECK constraints"))?;
        if bound.any(&|part| matches!(part, Expr::Subquery(_))) {
            return Err(SqlError::unsupported(
                "cannot use subquery in check constraint",
            ));
        }
        // A check of one column is named by it.
        let mut used = Vec::new();
        bound.columns(&mut |column| used.extend(column));
        used.sort_unstable();
        used.dedup();
        let about = match (column, used.as_slice()) {
            (Some(column), _) => Some(column.to_owned()),
            (None, [slot]) => table.columns.get(*slot).map(|column| column.name.clone()),
            _ => None,
        };
        let base = match about {
            Some(column) => format!("{}_{column}_check", table.name),
            None => format!("{}_check", table.name),
        };
        let name = given.unwrap_or_else(|| {
            unused(base, |name| {
                table.checks.iter().any(|check| check.name == name)
            })
        });
        table.checks.push(Check {
            oid: catalog.take_oid(),
            name,
            expr: bound,
            text: expr.to_string(),
        });
        Ok(())
    }

    pub(super) fn add_foreign_key(
        &self,
        catalog: &mut Catalog,
        table: &mut Table,
        columns: Vec<usize>,
        key: &ast::ForeignKeyConstraint,
        given: Option<String>,
        validated: bool,
    ) -> Result<()> {
        let (schema, parent_name) = qualified(&key.foreign_table)?;
        let itself = schema.as_ref().is_none_or(|schema| *schema == table.schema)
            && parent_name == table.name;
        let parent = if itself {
            table.clone()
        } else {
            (**catalog.table(schema.as_deref(), &parent_name)?).clone()
        };
        let mut parent_columns = Vec::new();
        for column in &key.referred_columns {
            let name = bind::fold(column);
            parent_columns.push(parent.slot(&name).ok_or_else(|| {
                SqlError::new(
                    "42703",
                    format!(
                        "column \"{name}\" referenced in foreign key constraint does not exist"
                    ),
                )
            })?);
        }
        if parent_columns.is_empty() {
            if !parent.has_primary() {
                return Err(SqlError::new(
                    "42704",
                    format!("there is no primary key for referenced table \"{parent_name}\""),
                ));
            }
            parent_columns.clone_from(&parent.primary);
        }
        if parent_columns.len() != columns.len() {
            return Err(SqlError::new(
                "42830",
                "number of referencing and referenced columns for foreign key disagree",
            ));
        }
        let same = |keys: &[usize]| {
            keys.len() == parent_columns.len()
                && keys.iter().all(|key| parent_columns.contains(key))
        };
        let unique = same(&parent.primary)
            || parent
                .indexes
                .iter()
                .any(|index| index.unique && index.predicate.is_none() && same(&slots_of(index)));
        if !unique {
            return Err(SqlError::new(
                "42830",
                format!(
                    "there is no unique constraint matching given keys for referenced table \"{parent_name}\""
                ),
            ));
        }
        for (slot, parent_slot) in columns.iter().zip(&parent_columns) {
            let (a, b) = (&table.columns[*slot], &parent.columns[*parent_slot]);
            let comparable = a.ty.is(b.ty)
                || (a.ty.is_int() && b.ty.is_int())
                || (a.ty.is_text() && b.ty.is_text());
            if !comparable {
                return Err(SqlError::datatype_mismatch(format!(
                    "foreign key constraint \"{}\" cannot be implemented",
                    given.as_deref().unwrap_or(&a.name)
                )));
            }
        }
        let action = |action: Option<ast::ReferentialAction>| match action {
            None | Some(ast::ReferentialAction::NoAction | ast::ReferentialAction::Restrict) => {
                Action::Refuse
            }
            Some(ast::ReferentialAction::Cascade) => Action::Cascade,
            Some(ast::ReferentialAction::SetNull) => Action::SetNull,
            Some(ast::ReferentialAction::SetDefault) => Action::SetDefault,
        };
        let names: Vec<&str> = columns
            .iter()
            .map(|slot| table.columns[*slot].name.as_str())
            .collect();
        let base = format!("{}_{}_fkey", table.name, names.join("_"));
        let name = given.unwrap_or_else(|| {
            unused(base, |name| {
                table.foreign_keys.iter().any(|key| key.name == name)
            })
        });
        let characteristics = key.characteristics.as_ref();
        table.foreign_keys.push(ForeignKey {
            oid: catalog.take_oid(),
            name,
            columns,
            parent: parent.oid,
            parent_columns,
            on_delete: action(key.on_delete),
            on_update: action(key.on_update),
            deferrable: characteristics.is_some_and(|c| c.deferrable == Some(true)),
            deferred: characteristics
                .is_some_and(|c| c.initially == Some(ast::DeferrableInitial::Deferred)),
            validated,
        });
        Ok(())
    }
}
