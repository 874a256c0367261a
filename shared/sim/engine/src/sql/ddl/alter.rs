//! ALTER TABLE.

use super::*;
use crate::catalog::{Catalog, IndexKey, Table};
use crate::error::{Result, SqlError};
use crate::sql::bind::{self, qualified};
use crate::sql::expr::Expr;
use sqlparser::ast;

impl Ddl<'_> {
    pub(super) fn alter_table(&self, alter: &ast::AlterTable) -> Result<Outcome> {
        let (schema, name) = qualified(&alter.name)?;
        let table = match self.catalog.table(schema.as_deref(), &name) {
            Ok(table) => table,
            Err(_) if alter.if_exists => {
                return Ok(Outcome::skipped(
                    "ALTER TABLE",
                    format!("relation \"{name}\" does not exist, skipping"),
                ));
            }
            Err(error) => return Err(error),
        };
        let [operation] = alter.operations.as_slice() else {
            return Err(SqlError::simulator("several changes in one ALTER TABLE"));
        };
        let renames = !matches!(
            operation,
            ast::AlterTableOperation::AddColumn { .. }
                | ast::AlterTableOperation::AddConstraint { .. }
                | ast::AlterTableOperation::OwnerTo { .. }
        );
        if renames && !self.catalog.views_of(table.oid).is_empty() {
            return Err(SqlError::simulator("changing a table that views look at"));
        }
        let mut catalog = (**self.catalog).clone();
        let mut changed = (**table).clone();
        self.alter(&mut catalog, &mut changed, operation)?;
        if changed.name != table.name || changed.schema != table.schema {
            let key = (table.schema.clone(), table.name.clone());
            catalog.relations.remove(&key);
        }
        catalog.put_table(changed);
        Ok(Outcome::new("ALTER TABLE", catalog))
    }

    pub(super) fn alter(
        &self,
        catalog: &mut Catalog,
        table: &mut Table,
        operation: &ast::AlterTableOperation,
    ) -> Result<()> {
        use ast::AlterTableOperation as O;
        let unsupported = |what: &str| {
            Err(SqlError::unsupported(format!(
                "unsupported ALTER TABLE {what} statement"
            )))
        };
        match operation {
            O::AddColumn {
                column_def,
                if_not_exists,
                ..
            } => {
                let name = bind::fold(&column_def.name);
                if table.slot(&name).is_some() {
                    if *if_not_exists {
                        return Ok(());
                    }
                    return Err(SqlError::new(
                        "42701",
                        format!(
                            "column \"{name}\" of relation \"{}\" already exists",
                            table.name
                        ),
                    ));
                }
                self.column_type(&column_def.data_type)?;
                // Every option is a constraint in PostgreSQL's grammar.
                if !column_def.options.is_empty() {
                    return Err(SqlError::unsupported(
                        "ALTER TABLE ADD COLUMN with constraint not supported",
                    ));
                }
                if table.live().count() >= MAX_COLUMNS {
                    return Err(SqlError::new(
                        "54011",
                        "tables can have at most 255 columns",
                    ));
                }
                self.add_column(catalog, table, column_def)
            }
            O::DropColumn {
                column_names,
                if_exists,
                ..
            } => {
                for name in column_names {
                    let name = bind::fold(name);
                    let Some(slot) = table.slot(&name) else {
                        if *if_exists {
                            continue;
                        }
                        return Err(SqlError::new(
                            "42703",
                            format!(
                                "column \"{name}\" of relation \"{}\" does not exist",
                                table.name
                            ),
                        ));
                    };
                    if table.primary.contains(&slot) {
                        return Err(SqlError::unsupported(format!(
                            "cannot drop primary key column {name}"
                        )));
                    }
                    table.columns[slot].dropped = true;
                    table.columns[slot].not_null = false;
                    table.columns[slot].domain = None;
                    let uses = |expr: &Expr| expr.any(&|part| *part == Expr::Column(slot));
                    table.indexes.retain(|index| {
                        !index.keys.iter().any(|key| match key {
                            IndexKey::Slot(other) => *other == slot,
                            IndexKey::Expr(expr) => uses(expr),
                        }) && !index.predicate.as_ref().is_some_and(uses)
                            && !index.include.contains(&slot)
                    });
                    table.checks.retain(|check| !uses(&check.expr));
                    table
                        .foreign_keys
                        .retain(|key| !key.columns.contains(&slot));
                }
                Ok(())
            }
            O::RenameColumn {
                old_column_name,
                new_column_name,
            } => {
                let (old, new) = (bind::fold(old_column_name), bind::fold(new_column_name));
                let slot = table
                    .slot(&old)
                    .ok_or_else(|| SqlError::undefined_column(&old))?;
                if table.slot(&new).is_some() {
                    return Err(SqlError::new(
                        "42701",
                        format!(
                            "column \"{new}\" of relation \"{}\" already exists",
                            table.name
                        ),
                    ));
                }
                table.columns[slot].name = new;
                Ok(())
            }
            O::RenameTable { table_name } => {
                let name = match table_name {
                    ast::RenameTableNameKind::As(name) | ast::RenameTableNameKind::To(name) => name,
                };
                let (_, name) = qualified(name)?;
                if self.catalog.is_taken(&table.schema, &name) {
                    return Err(SqlError::new(
                        "42P07",
                        format!("relation \"{name}\" already exists"),
                    ));
                }
                table.name = name;
                Ok(())
            }
            O::AddConstraint {
                constraint,
                not_valid,
            } => match constraint {
                ast::TableConstraint::ForeignKey(key) if *not_valid => {
                    let mut slots = Vec::new();
                    for column in &key.columns {
                        slots.push(constraint_column(table, &bind::fold(column))?);
                    }
                    let given = key.name.as_ref().map(bind::fold);
                    self.add_foreign_key(catalog, table, slots, key, given, false)
                }
                ast::TableConstraint::Check(check) if *not_valid => {
                    let given = check.name.as_ref().map(bind::fold);
                    self.add_check(catalog, table, &check.expr, given, None)
                }
                _ => unsupported("ADD CONSTRAINT"),
            },
            O::DropConstraint {
                name, if_exists, ..
            } => {
                let name = bind::fold(name);
                let before = table.checks.len() + table.foreign_keys.len() + table.indexes.len();
                table.checks.retain(|check| check.name != name);
                table.foreign_keys.retain(|key| key.name != name);
                table
                    .indexes
                    .retain(|index| !(index.constraint && index.name == name));
                let after = table.checks.len() + table.foreign_keys.len() + table.indexes.len();
                if before == after && !if_exists {
                    return Err(no_constraint(&name, table));
                }
                Ok(())
            }
            O::ValidateConstraint { .. } => unsupported("VALIDATE CONSTRAINT"),
            O::AlterColumn {
                op: ast::AlterColumnOperation::SetDataType { .. },
                ..
            } => unsupported("ALTER COLUMN ... SET DATA TYPE"),
            O::OwnerTo { .. } => Ok(()),
            other => {
                let text = other.to_string();
                let words: Vec<&str> = text.split_whitespace().take(2).collect();
                Err(SqlError::simulator(format!(
                    "ALTER TABLE {}",
                    words.join(" ")
                )))
            }
        }
    }
}

pub(super) fn no_constraint(name: &str, table: &Table) -> SqlError {
    SqlError::new(
        "42704",
        format!(
            "constraint \"{name}\" of relation \"{}\" does not exist",
            table.name
        ),
    )
}
