//! CREATE INDEX ASYNC, and the jobs that DDL leaves behind.

use super::*;
use crate::catalog::{Index, IndexKey};
use crate::error::{Result, SqlError};
use crate::jobs::{self, JobKind, JobRequest};
use crate::sql::bind::{self, Place, qualified};
use crate::sql::expr::Expr;
use sqlparser::ast;
use std::sync::Arc;

impl Ddl<'_> {
    // Indexes.

    pub(super) fn create_index(&self, create: &ast::CreateIndex) -> Result<Outcome> {
        check(self.catalog, &ast::Statement::CreateIndex(create.clone()))?;
        let (schema, table_name) = qualified(&create.table_name)?;
        let table = Arc::clone(self.catalog.table(schema.as_deref(), &table_name)?);
        if let Some(using) = &create.using
            && !matches!(
                using.to_string().to_lowercase().as_str(),
                "btree" | "btree_index"
            )
        {
            return Err(SqlError::new(
                "0A000",
                format!(
                    "access method \"{}\" not supported",
                    using.to_string().to_lowercase()
                ),
            ));
        }
        let binder = self.binder();
        let scope = Self::table_scope(&table);
        let mut keys = Vec::new();
        let mut names = Vec::new();
        for column in &create.columns {
            let typed = binder.expr(&column.column.expr, Place::of(&scope, "index expressions"))?;
            let typed = binder.settle(typed)?;
            if matches!(typed.ty.oid, 114 | 3802) {
                return Err(SqlError::new(
                    "42704",
                    format!(
                        "data type {} has no default operator class for access method \"btree\"",
                        typed.ty.display()
                    ),
                ));
            }
            match typed.expr {
                Expr::Column(slot) => {
                    keys.push(IndexKey::Slot(slot));
                    names.push(table.columns[slot].name.clone());
                }
                expr => {
                    let standalone = !expr.any(&|part| match part {
                        Expr::Subquery(_) => true,
                        Expr::Call { function, .. } => function.volatile,
                        _ => false,
                    });
                    if !standalone {
                        return Err(SqlError::new(
                            "42P17",
                            "functions in index expression must be marked IMMUTABLE",
                        ));
                    }
                    let mut bare = &column.column.expr;
                    while let ast::Expr::Nested(inner) = bare {
                        bare = inner;
                    }
                    names.push(match bare {
                        ast::Expr::Function(_) => crate::sql::plan::item_name(bare),
                        _ => "expr".to_owned(),
                    });
                    keys.push(IndexKey::Expr(expr));
                }
            }
        }
        if keys.len() > MAX_KEY_COLUMNS {
            return Err(SqlError::new(
                "54011",
                "cannot use more than 8 columns in an index",
            ));
        }
        let predicate = create
            .predicate
            .as_ref()
            .map(|predicate| binder.condition(predicate, Place::of(&scope, "index predicates")))
            .transpose()?;
        let mut include = Vec::new();
        for column in &create.include {
            include.push(constraint_column(&table, &bind::fold(column))?);
        }
        let taken = |name: &str| self.catalog.is_taken(&table.schema, name);
        let name = match &create.name {
            Some(name) => qualified(name)?.1,
            None => unused(format!("{}_{}_idx", table.name, names.join("_")), taken),
        };
        if taken(&name) {
            let message = format!("relation \"{name}\" already exists");
            if create.if_not_exists {
                return Ok(Outcome::skipped(
                    "CREATE INDEX",
                    format!("{message}, skipping"),
                ));
            }
            return Err(SqlError::new("42P07", message));
        }
        // The primary key's index counts as well.
        if table.indexes.len() + usize::from(table.has_primary()) >= MAX_INDEXES {
            return Err(SqlError::new(
                "54000",
                "more than 24 indexes per table are not allowed",
            ));
        }
        let mut catalog = (**self.catalog).clone();
        let oid = catalog.take_oid();
        let mut table = (*table).clone();
        let columns: Vec<String> = create.columns.iter().map(ToString::to_string).collect();
        let mut definition = format!(
            "CREATE {}INDEX {} ON {}.{} USING btree_index ({})",
            if create.unique { "UNIQUE " } else { "" },
            crate::pgcatalog::quote(&name),
            table.schema,
            crate::pgcatalog::quote(&table.name),
            columns.join(", ")
        );
        if !include.is_empty() {
            let names: Vec<&str> = include
                .iter()
                .map(|slot| table.columns[*slot].name.as_str())
                .collect();
            definition.push_str(&format!(" INCLUDE ({})", names.join(", ")));
        }
        if let Some(predicate) = &create.predicate {
            definition.push_str(&format!(" WHERE ({predicate})"));
        }
        table.indexes.push(Arc::new(Index {
            oid,
            name: name.clone(),
            keys,
            include,
            unique: create.unique,
            predicate,
            valid: false,
            constraint: false,
            definition,
        }));
        let table_oid = table.oid;
        catalog.put_table(table);
        let mut outcome = Outcome::new("CREATE INDEX", catalog);
        outcome.job = Some(self.job(JobKind::IndexBuild, table_oid, oid, name));
        Ok(outcome)
    }

    pub(super) fn job(
        &self,
        kind: JobKind,
        table: u32,
        object: u32,
        object_name: String,
    ) -> JobRequest {
        JobRequest {
            id: jobs::job_id(self.db.random_bits()),
            kind,
            table,
            object,
            object_name,
        }
    }

    pub(super) fn validate(&self, alter: &ast::AlterTable) -> Result<Outcome> {
        let (schema, name) = qualified(&alter.name)?;
        let table = self.catalog.table(schema.as_deref(), &name)?;
        let [ast::AlterTableOperation::ValidateConstraint { name }] = alter.operations.as_slice()
        else {
            return Err(SqlError::simulator("this form of ALTER TABLE ASYNC"));
        };
        let name = bind::fold(name);
        let key = table.foreign_keys.iter().find(|key| key.name == name);
        let check = table.checks.iter().find(|check| check.name == name);
        let object = key.map(|key| key.oid).or(check.map(|check| check.oid));
        let Some(object) = object else {
            return Err(no_constraint(&name, table));
        };
        let mut outcome = Outcome::new("ALTER TABLE", (**self.catalog).clone());
        outcome.job = Some(self.job(JobKind::ValidateConstraint, table.oid, object, name));
        Ok(outcome)
    }
}
