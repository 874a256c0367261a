//! Views, schemas, sequences and domains.

use super::*;
use crate::catalog::{Catalog, Domain, Relation, Sequence, View};
use crate::error::{Result, SqlError};
use crate::sql::bind::{self, Place, Scope, ScopeColumn, qualified};
use crate::sql::expr::Expr;
use sqlparser::ast;
use std::sync::Arc;

impl Ddl<'_> {
    // The rest.

    pub(super) fn create_view(&self, create: &ast::CreateView) -> Result<Outcome> {
        if create.temporary || create.or_alter {
            return Err(SqlError::simulator("this form of CREATE VIEW"));
        }
        let (schema, name) = self.place(&create.name)?;
        let mut catalog = (**self.catalog).clone();
        let existing = match self.catalog.relation(Some(&schema), &name) {
            Some(Relation::View(view)) if create.or_replace => Some(view.oid),
            None if !self.catalog.is_taken(&schema, &name) => None,
            _ => {
                return Err(SqlError::new(
                    "42P07",
                    format!("relation \"{name}\" already exists"),
                ));
            }
        };
        let binder = self.binder();
        let planned = crate::sql::plan::query(&binder, &create.query, None, None)?;
        if !binder.params.borrow().is_empty() {
            return Err(SqlError::new("42P02", "there is no parameter $1"));
        }
        let mut columns = planned.columns;
        for (column, given) in columns.iter_mut().zip(&create.columns) {
            column.0 = bind::fold(&given.name);
        }
        let oid = existing.unwrap_or_else(|| catalog.take_oid());
        let uses = binder.relations.take();
        catalog.relations.insert(
            (schema.clone(), name.clone()),
            Relation::View(Arc::new(View {
                oid,
                schema,
                name,
                query: Arc::new((*create.query).clone()),
                columns,
                uses,
                owner: self.user.to_owned(),
            })),
        );
        Ok(Outcome::new("CREATE VIEW", catalog))
    }

    pub(super) fn create_schema(
        &self,
        name: &ast::SchemaName,
        if_not_exists: bool,
    ) -> Result<Outcome> {
        let ast::SchemaName::Simple(name) = name else {
            return Err(SqlError::simulator("CREATE SCHEMA AUTHORIZATION"));
        };
        let (_, name) = qualified(name)?;
        if self.catalog.schemas.contains_key(&name) {
            let message = format!("schema \"{name}\" already exists");
            if if_not_exists {
                return Ok(Outcome::skipped(
                    "CREATE SCHEMA",
                    format!("{message}, skipping"),
                ));
            }
            return Err(SqlError::new("42P06", message));
        }
        if name.starts_with("pg_") {
            return Err(
                SqlError::new("42939", format!("unacceptable schema name \"{name}\""))
                    .detail("The prefix \"pg_\" is reserved for system schemas."),
            );
        }
        // The four schemas of the system do not count.
        if self.catalog.schemas.len() >= MAX_SCHEMAS + 4 {
            return Err(SqlError::new("54000", "more than 10 schemas not allowed"));
        }
        let mut catalog = (**self.catalog).clone();
        let oid = catalog.take_oid();
        catalog.schemas.insert(name, oid);
        Ok(Outcome::new("CREATE SCHEMA", catalog))
    }

    pub(super) fn create_sequence(
        &self,
        name: &ast::ObjectName,
        if_not_exists: bool,
        options: &[ast::SequenceOptions],
    ) -> Result<Outcome> {
        let (schema, name) = self.place(name)?;
        if self.catalog.is_taken(&schema, &name) {
            let message = format!("relation \"{name}\" already exists");
            if if_not_exists {
                return Ok(Outcome::skipped(
                    "CREATE SEQUENCE",
                    format!("{message}, skipping"),
                ));
            }
            return Err(SqlError::new("42P07", message));
        }
        let mut catalog = (**self.catalog).clone();
        let sequence = sequence(&mut catalog, &schema, &name, options, "CREATE SEQUENCE")?;
        catalog
            .relations
            .insert((schema, name), Relation::Sequence(Arc::new(sequence)));
        Ok(Outcome::new("CREATE SEQUENCE", catalog))
    }

    pub(super) fn create_domain(&self, create: &ast::CreateDomain) -> Result<Outcome> {
        let (_, name) = self.place(&create.name)?;
        if self.catalog.domains.contains_key(&name) {
            return Err(SqlError::new(
                "42710",
                format!("type \"{name}\" already exists"),
            ));
        }
        let (ty, _) = self.column_type(&create.data_type)?;
        let binder = self.binder();
        let scope = Scope {
            columns: vec![ScopeColumn {
                table: String::new(),
                name: "value".to_owned(),
                ty,
                hidden: false,
            }],
            parent: None,
        };
        let mut checks: Vec<(String, Expr)> = Vec::new();
        for constraint in &create.constraints {
            let ast::TableConstraint::Check(check) = constraint else {
                return Err(SqlError::simulator(format!("the constraint {constraint}")));
            };
            let expr = binder.condition(&check.expr, Place::of(&scope, "CHECK constraints"))?;
            let given = check.name.as_ref().map(bind::fold);
            let check_name = given.unwrap_or_else(|| {
                unused(format!("{name}_check"), |name| {
                    checks.iter().any(|(other, _)| other == name)
                })
            });
            checks.push((check_name, expr));
        }
        let mut catalog = (**self.catalog).clone();
        let oid = catalog.take_oid();
        catalog.domains.insert(
            name.clone(),
            Arc::new(Domain {
                oid,
                name,
                ty,
                not_null: false,
                default: create.default.clone().map(Arc::new),
                checks,
            }),
        );
        Ok(Outcome::new("CREATE DOMAIN", catalog))
    }
}

/// A sequence, whose CACHE has to be given, and to be 1 or at least 65,536.
pub(super) fn sequence(
    catalog: &mut Catalog,
    schema: &str,
    name: &str,
    options: &[ast::SequenceOptions],
    what: &str,
) -> Result<Sequence> {
    let number = |expr: &ast::Expr| -> Result<i64> {
        expr.to_string()
            .replace(' ', "")
            .parse()
            .map_err(|_| SqlError::syntax(&expr.to_string()))
    };
    let mut cache = None;
    let mut increment = 1;
    let mut start = None;
    for option in options {
        match option {
            ast::SequenceOptions::Cache(expr) => cache = Some(number(expr)?),
            ast::SequenceOptions::IncrementBy(expr, _) => increment = number(expr)?,
            ast::SequenceOptions::StartWith(expr, _) => start = Some(number(expr)?),
            _ => {}
        }
    }
    let bounds = "please define CACHE greater than or equal to 65536 or equal to 1";
    match cache {
        None => {
            return Err(SqlError::unsupported(format!(
                "{what} is not supported without an explicit cache size. {bounds}"
            )));
        }
        Some(1 | 65_536..) => {}
        Some(_) => {
            return Err(SqlError::unsupported(format!(
                "{what} is not supported with this cache size. {bounds}"
            )));
        }
    }
    if increment == 0 {
        return Err(SqlError::new("22023", "INCREMENT must not be zero"));
    }
    Ok(Sequence {
        oid: catalog.take_oid(),
        schema: schema.to_owned(),
        name: name.to_owned(),
        start: start.unwrap_or(if increment > 0 { 1 } else { -1 }),
        increment,
    })
}
