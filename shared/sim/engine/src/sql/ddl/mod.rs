//! DDL: a statement and a catalog give another catalog.

mod alter;
mod constraint;
mod drop;
mod index;
mod other;
mod table;

use alter::no_constraint;
use other::sequence;

use crate::catalog::{Catalog, Index, IndexKey, Table};
use crate::engine::Database;
use crate::error::{Result, SqlError};
use crate::jobs::JobRequest;
use crate::sql::bind::{Binder, qualified};
use crate::sql::parse::{Command, Statement};
use sqlparser::ast;
use std::sync::Arc;

/// Columns of a table, indexes of a table, columns of a key.
const MAX_COLUMNS: usize = 255;

const MAX_INDEXES: usize = 24;

const MAX_KEY_COLUMNS: usize = 8;

/// Tables and schemas of a database.
const MAX_TABLES: usize = 1_000;

const MAX_SCHEMAS: usize = 10;

/// What a statement does to the schema.
pub(crate) struct Outcome {
    /// `None` when nothing changes.
    pub catalog: Option<Catalog>,
    pub job: Option<JobRequest>,
    pub tag: &'static str,
    pub notices: Vec<SqlError>,
}

impl Outcome {
    fn new(tag: &'static str, catalog: Catalog) -> Outcome {
        Outcome {
            catalog: Some(catalog),
            job: None,
            tag,
            notices: Vec::new(),
        }
    }

    fn nothing(tag: &'static str) -> Outcome {
        Outcome {
            catalog: None,
            job: None,
            tag,
            notices: Vec::new(),
        }
    }

    fn skipped(tag: &'static str, message: String) -> Outcome {
        let mut outcome = Outcome::nothing(tag);
        outcome.notices.push(SqlError::new("00000", message));
        outcome
    }
}

/// Whether a statement changes the schema.
pub(crate) fn is_ddl(statement: &ast::Statement) -> bool {
    use ast::Statement as S;
    matches!(
        statement,
        S::CreateTable(_)
            | S::CreateIndex(_)
            | S::CreateView(_)
            | S::CreateSchema { .. }
            | S::CreateSequence { .. }
            | S::CreateDomain(_)
            | S::CreateFunction(_)
            | S::AlterTable(_)
            | S::Drop { .. }
            | S::DropDomain(_)
            | S::DropFunction(_)
            | S::Comment { .. }
    )
}

/// Refuses at planning what is refused whatever the schema is.
pub(crate) fn check(catalog: &Arc<Catalog>, statement: &ast::Statement) -> Result<()> {
    let _ = catalog;
    match statement {
        ast::Statement::CreateIndex(index) if !index.r#async => Err(SqlError::unsupported(
            "unsupported mode. please use CREATE INDEX ASYNC.",
        )),
        ast::Statement::CreateTable(create) if create.query.is_some() => {
            Err(SqlError::statement("CreateTableAs"))
        }
        _ => Ok(()),
    }
}

/// ALTER TABLE ASYNC knows one form.
pub(crate) fn check_async(statement: &ast::Statement) -> Result<()> {
    match statement {
        ast::Statement::AlterTable(alter)
            if matches!(
                alter.operations.as_slice(),
                [ast::AlterTableOperation::ValidateConstraint { .. }]
            ) =>
        {
            Ok(())
        }
        _ => Err(SqlError::simulator("this form of ALTER TABLE ASYNC")),
    }
}

/// Executes a statement against a catalog.
pub(crate) fn execute(
    db: &Database,
    catalog: &Arc<Catalog>,
    statement: &Statement,
    user: &str,
) -> Result<Outcome> {
    let ddl = Ddl {
        db,
        catalog,
        user,
        script: &statement.script,
    };
    match &statement.command {
        Command::SetStorage(name) => {
            catalog.table(None, name)?;
            Ok(Outcome::nothing("ALTER TABLE"))
        }
        Command::AlterAsync(statement) => match &**statement {
            ast::Statement::AlterTable(alter) => ddl.validate(alter),
            _ => Err(SqlError::simulator("this form of ALTER TABLE ASYNC")),
        },
        Command::Sql(statement) => ddl.statement(statement),
        Command::Empty | Command::Refused(_) | Command::SetConstraints => {
            Err(SqlError::simulator("this statement"))
        }
    }
}

struct Ddl<'d> {
    db: &'d Database,
    catalog: &'d Arc<Catalog>,
    user: &'d str,
    script: &'d str,
}

impl Ddl<'_> {
    fn statement(&self, statement: &ast::Statement) -> Result<Outcome> {
        use ast::Statement as S;
        match statement {
            S::CreateTable(create) => self.create_table(create),
            S::CreateIndex(create) => self.create_index(create),
            S::CreateView(create) => self.create_view(create),
            S::CreateSchema {
                schema_name,
                if_not_exists,
                ..
            } => self.create_schema(schema_name, *if_not_exists),
            S::CreateSequence {
                name,
                if_not_exists,
                sequence_options,
                ..
            } => self.create_sequence(name, *if_not_exists, sequence_options),
            S::CreateDomain(create) => self.create_domain(create),
            S::CreateFunction(create) => {
                let mut catalog = (**self.catalog).clone();
                let oid = catalog.take_oid();
                let (_, name) = qualified(&create.name)?;
                catalog.functions.insert(name, oid);
                Ok(Outcome::new("CREATE FUNCTION", catalog))
            }
            S::AlterTable(alter) => self.alter_table(alter),
            S::Drop {
                object_type,
                if_exists,
                names,
                cascade,
                ..
            } => self.drop(object_type, *if_exists, names, *cascade),
            S::DropDomain(drop) => {
                let mut catalog = (**self.catalog).clone();
                let (_, name) = qualified(&drop.name)?;
                match catalog.domains.remove(&name) {
                    Some(_) => Ok(Outcome::new("DROP DOMAIN", catalog)),
                    None if drop.if_exists => Ok(Outcome::skipped(
                        "DROP DOMAIN",
                        format!("type \"{name}\" does not exist, skipping"),
                    )),
                    None => Err(SqlError::new(
                        "42704",
                        format!("type \"{name}\" does not exist"),
                    )),
                }
            }
            S::DropFunction(drop) => {
                let mut catalog = (**self.catalog).clone();
                for desc in &drop.func_desc {
                    let (_, name) = qualified(&desc.name)?;
                    if catalog.functions.remove(&name).is_none() && !drop.if_exists {
                        return Err(SqlError::new(
                            "42883",
                            format!("function {name}() does not exist"),
                        ));
                    }
                }
                Ok(Outcome::new("DROP FUNCTION", catalog))
            }
            S::Comment { .. } => Ok(Outcome::nothing("COMMENT")),
            _ => Err(SqlError::simulator("this statement")),
        }
    }

    fn binder(&self) -> Binder<'_> {
        Binder::new(self.catalog, Vec::new(), self.script)
    }

    /// Schema and name of something new.
    fn place(&self, name: &ast::ObjectName) -> Result<(String, String)> {
        let (schema, name) = qualified(name)?;
        let schema = schema.unwrap_or_else(|| "public".to_owned());
        if !self.catalog.schemas.contains_key(&schema) {
            return Err(SqlError::new(
                "3F000",
                format!("schema \"{schema}\" does not exist"),
            ));
        }
        if matches!(schema.as_str(), "pg_catalog" | "information_schema" | "sys") {
            return Err(SqlError::new(
                "42501",
                format!("permission denied for schema {schema}"),
            ));
        }
        Ok((schema, name))
    }
}

fn slots_of(index: &Index) -> Vec<usize> {
    index
        .keys
        .iter()
        .filter_map(|key| match key {
            IndexKey::Slot(slot) => Some(*slot),
            IndexKey::Expr(_) => None,
        })
        .collect()
}

/// `base`, or with the first number behind it that is free.
fn unused(base: String, taken: impl Fn(&str) -> bool) -> String {
    let mut name = base.clone();
    let mut n = 0;
    while taken(&name) {
        n += 1;
        name = format!("{base}{n}");
    }
    name
}

fn constraint_column(table: &Table, name: &str) -> Result<usize> {
    table.slot(name).ok_or_else(|| {
        SqlError::new(
            "42703",
            format!("column \"{name}\" named in key does not exist"),
        )
    })
}
