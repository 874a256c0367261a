//! DDL: a statement and a catalog give another catalog.

use std::sync::Arc;

use sqlparser::ast;

use super::bind::{self, Binder, Place, Scope, ScopeColumn, qualified};
use super::expr::Expr;
use super::parse::{Command, Statement};
use crate::catalog::{
    Action, Catalog, Check, Column, Domain, ForeignKey, Identity, Index, IndexKey, Relation,
    Sequence, Table, View,
};
use crate::engine::Database;
use crate::error::{Result, SqlError};
use crate::jobs::{self, JobKind, JobRequest};
use crate::types::Type;

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

    // Tables.

    fn create_table(&self, create: &ast::CreateTable) -> Result<Outcome> {
        let odd = create.like.is_some()
            || create.clone.is_some()
            || create.inherits.is_some()
            || create.partition_by.is_some()
            || create.partition_of.is_some()
            || create.or_replace
            || create.external;
        if odd {
            return Err(SqlError::simulator("this form of CREATE TABLE"));
        }
        let (schema, name) = self.place(&create.name)?;
        if self.catalog.is_taken(&schema, &name) {
            let message = format!("relation \"{name}\" already exists");
            if create.if_not_exists {
                return Ok(Outcome::skipped("CREATE TABLE", format!("{message}, skipping")));
            }
            return Err(SqlError::new("42P07", message));
        }
        if self.catalog.tables().count() >= MAX_TABLES {
            return Err(SqlError::new("54000", "more than 1000 tables are not allowed"));
        }
        if create.columns.len() > MAX_COLUMNS {
            return Err(SqlError::new("54011", "tables can have at most 255 columns"));
        }
        let mut catalog = (**self.catalog).clone();
        let mut table = Table {
            oid: catalog.take_oid(),
            schema,
            name,
            columns: Vec::new(),
            primary: Vec::new(),
            primary_name: String::new(),
            primary_oid: 0,
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            owner: self.user.to_owned(),
        };
        for column in &create.columns {
            self.add_column(&mut catalog, &mut table, column)?;
        }
        // Constraints may look at any column, so they come after all of them.
        for column in &create.columns {
            for option in &column.options {
                self.column_constraint(&mut catalog, &mut table, column, option)?;
            }
        }
        for constraint in &create.constraints {
            self.table_constraint(&mut catalog, &mut table, constraint)?;
        }
        if table.has_primary() {
            table.primary_oid = catalog.take_oid();
        }
        catalog.put_table(table);
        Ok(Outcome::new("CREATE TABLE", catalog))
    }

    fn add_column(
        &self,
        catalog: &mut Catalog,
        table: &mut Table,
        column: &ast::ColumnDef,
    ) -> Result<()> {
        let name = bind::fold(&column.name);
        if table.slot(&name).is_some() {
            return Err(SqlError::new(
                "42701",
                format!("column \"{name}\" specified more than once"),
            ));
        }
        let (ty, domain) = self.column_type(&column.data_type)?;
        let mut made = Column {
            name: name.clone(),
            ty,
            not_null: false,
            default: None,
            identity: None,
            domain,
            dropped: false,
        };
        for option in &column.options {
            match &option.option {
                ast::ColumnOption::NotNull => made.not_null = true,
                ast::ColumnOption::Default(expr) => {
                    self.check_default(expr, ty, &name)?;
                    made.default = Some(Arc::new(expr.clone()));
                }
                ast::ColumnOption::Generated {
                    generated_as,
                    sequence_options,
                    generation_expr: None,
                    ..
                } => {
                    made.identity = Some(self.identity(
                        catalog,
                        table,
                        &name,
                        ty,
                        *generated_as == ast::GeneratedAs::Always,
                        sequence_options.as_deref().unwrap_or(&[]),
                    )?);
                    made.not_null = true;
                }
                ast::ColumnOption::Generated { .. } => {
                    return Err(SqlError::simulator("a generated column"));
                }
                _ => {}
            }
        }
        table.columns.push(made);
        Ok(())
    }

    /// A type that a column may have.
    fn column_type(&self, ty: &ast::DataType) -> Result<(Type, Option<Arc<Domain>>)> {
        let (ty, domain) = bind::data_type(self.catalog, ty)?;
        let storable = matches!(
            ty.oid,
            16 | 17 | 20 | 21 | 23 | 25 | 114 | 700 | 701 | 1042 | 1043 | 1082 | 1083 | 1114 | 1184
                | 1186 | 1266 | 1700 | 2950 | 3802
        );
        if !storable {
            return Err(SqlError::unsupported(format!(
                "datatype {} not supported",
                ty.display()
            )));
        }
        Ok((ty, domain))
    }

    fn check_default(&self, expr: &ast::Expr, ty: Type, name: &str) -> Result<()> {
        let binder = self.binder();
        let scope = Scope::empty();
        let typed = binder.expr(expr, Place::of(&scope, "DEFAULT expressions"))?;
        let from = typed.ty;
        if !super::cast::allowed(from, ty, super::cast::Context::Assignment) {
            return Err(SqlError::datatype_mismatch(format!(
                "column \"{name}\" is of type {} but default expression is of type {}",
                ty.display(),
                from.display()
            ))
            .hint("You will need to rewrite or cast the expression."));
        }
        binder
            .coerce(typed, ty, super::cast::Context::Assignment)
            .map(drop)
    }

    fn identity(
        &self,
        catalog: &mut Catalog,
        table: &Table,
        column: &str,
        ty: Type,
        always: bool,
        options: &[ast::SequenceOptions],
    ) -> Result<Identity> {
        if !ty.is(Type::INT8) {
            return Err(SqlError::unsupported(format!(
                "datatype {} not supported, identity column type must be bigint",
                ty.display()
            )));
        }
        let name = format!("{}_{column}_seq", table.name);
        let sequence = sequence(catalog, &table.schema, &name, options, "identity column")?;
        let oid = sequence.oid;
        catalog.relations.insert(
            (table.schema.clone(), name),
            Relation::Sequence(Arc::new(sequence)),
        );
        Ok(Identity {
            always,
            sequence: oid,
        })
    }

    fn column_constraint(
        &self,
        catalog: &mut Catalog,
        table: &mut Table,
        column: &ast::ColumnDef,
        option: &ast::ColumnOptionDef,
    ) -> Result<()> {
        let name = bind::fold(&column.name);
        let slot = table
            .slot(&name)
            .ok_or_else(|| SqlError::undefined_column(&name))?;
        let given = option.name.as_ref().map(bind::fold);
        match &option.option {
            ast::ColumnOption::PrimaryKey(_) => set_primary(table, vec![slot], given),
            ast::ColumnOption::Unique(_) => add_unique(catalog, table, vec![slot], given),
            ast::ColumnOption::Check(check) => {
                self.add_check(catalog, table, &check.expr, given, Some(&name))
            }
            ast::ColumnOption::ForeignKey(key) => {
                self.add_foreign_key(catalog, table, vec![slot], key, given, true)
            }
            ast::ColumnOption::Null
            | ast::ColumnOption::NotNull
            | ast::ColumnOption::Default(_)
            | ast::ColumnOption::Generated { .. } => Ok(()),
            ast::ColumnOption::Collation(collation) => {
                let collation = collation.to_string().to_lowercase();
                if matches!(collation.trim_matches('"'), "c" | "default") {
                    return Ok(());
                }
                Err(SqlError::new(
                    "42704",
                    format!("collation \"{collation}\" for encoding \"UTF8\" does not exist"),
                ))
            }
            other => Err(SqlError::simulator(format!("the column option {other}"))),
        }
    }

    fn table_constraint(
        &self,
        catalog: &mut Catalog,
        table: &mut Table,
        constraint: &ast::TableConstraint,
    ) -> Result<()> {
        match constraint {
            ast::TableConstraint::PrimaryKey(key) => {
                let slots = constraint_columns(table, &key.columns)?;
                set_primary(table, slots, key.name.as_ref().map(bind::fold))
            }
            ast::TableConstraint::Unique(unique) => {
                let slots = constraint_columns(table, &unique.columns)?;
                add_unique(catalog, table, slots, unique.name.as_ref().map(bind::fold))
            }
            ast::TableConstraint::Check(check) => {
                let given = check.name.as_ref().map(bind::fold);
                self.add_check(catalog, table, &check.expr, given, None)
            }
            ast::TableConstraint::ForeignKey(key) => {
                let mut slots = Vec::new();
                for column in &key.columns {
                    slots.push(constraint_column(table, &bind::fold(column))?);
                }
                let given = key.name.as_ref().map(bind::fold);
                self.add_foreign_key(catalog, table, slots, key, given, true)
            }
            other => Err(SqlError::simulator(format!("the constraint {other}"))),
        }
    }

    fn table_scope(table: &Table) -> Scope<'static> {
        Scope {
            columns: table
                .columns
                .iter()
                .map(|column| ScopeColumn {
                    table: table.name.clone(),
                    name: column.name.clone(),
                    ty: column.ty,
                    hidden: column.dropped,
                })
                .collect(),
            parent: None,
        }
    }

    fn add_check(
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
            unused(base, |name| table.checks.iter().any(|check| check.name == name))
        });
        table.checks.push(Check {
            oid: catalog.take_oid(),
            name,
            expr: bound,
            text: expr.to_string(),
        });
        Ok(())
    }

    fn add_foreign_key(
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
                    format!("column \"{name}\" referenced in foreign key constraint does not exist"),
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
            keys.len() == parent_columns.len() && keys.iter().all(|key| parent_columns.contains(key))
        };
        let unique = same(&parent.primary)
            || parent.indexes.iter().any(|index| {
                index.unique && index.predicate.is_none() && same(&slots_of(index))
            });
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
            if !a.ty.is(b.ty) && !(a.ty.is_int() && b.ty.is_int()) && !(a.ty.is_text() && b.ty.is_text()) {
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
            unused(base, |name| table.foreign_keys.iter().any(|key| key.name == name))
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

    // Indexes.

    fn create_index(&self, create: &ast::CreateIndex) -> Result<Outcome> {
        check(self.catalog, &ast::Statement::CreateIndex(create.clone()))?;
        let (schema, table_name) = qualified(&create.table_name)?;
        let table = Arc::clone(self.catalog.table(schema.as_deref(), &table_name)?);
        if let Some(using) = &create.using {
            if !matches!(using.to_string().to_lowercase().as_str(), "btree" | "btree_index") {
                return Err(SqlError::new(
                    "0A000",
                    format!("access method \"{}\" not supported", using.to_string().to_lowercase()),
                ));
            }
        }
        let binder = self.binder();
        let scope = Self::table_scope(&table);
        let mut keys = Vec::new();
        let mut names = Vec::new();
        for column in &create.columns {
            let typed = binder.expr(
                &column.column.expr,
                Place::of(&scope, "index expressions"),
            )?;
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
                        ast::Expr::Function(_) => super::plan::item_name(bare),
                        _ => "expr".to_owned(),
                    });
                    keys.push(IndexKey::Expr(expr));
                }
            }
        }
        if keys.len() > MAX_KEY_COLUMNS {
            return Err(SqlError::new("54011", "cannot use more than 8 columns in an index"));
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
                return Ok(Outcome::skipped("CREATE INDEX", format!("{message}, skipping")));
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

    fn job(&self, kind: JobKind, table: u32, object: u32, object_name: String) -> JobRequest {
        JobRequest {
            id: jobs::job_id(self.db.random_bits()),
            kind,
            table,
            object,
            object_name,
        }
    }

    fn validate(&self, alter: &ast::AlterTable) -> Result<Outcome> {
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

    // The rest.

    fn create_view(&self, create: &ast::CreateView) -> Result<Outcome> {
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
        let planned = super::plan::query(&binder, &create.query, None, None)?;
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

    fn create_schema(&self, name: &ast::SchemaName, if_not_exists: bool) -> Result<Outcome> {
        let ast::SchemaName::Simple(name) = name else {
            return Err(SqlError::simulator("CREATE SCHEMA AUTHORIZATION"));
        };
        let (_, name) = qualified(name)?;
        if self.catalog.schemas.contains_key(&name) {
            let message = format!("schema \"{name}\" already exists");
            if if_not_exists {
                return Ok(Outcome::skipped("CREATE SCHEMA", format!("{message}, skipping")));
            }
            return Err(SqlError::new("42P06", message));
        }
        if name.starts_with("pg_") {
            return Err(SqlError::new(
                "42939",
                format!("unacceptable schema name \"{name}\""),
            )
            .detail("The prefix \"pg_\" is reserved for system schemas."));
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

    fn create_sequence(
        &self,
        name: &ast::ObjectName,
        if_not_exists: bool,
        options: &[ast::SequenceOptions],
    ) -> Result<Outcome> {
        let (schema, name) = self.place(name)?;
        if self.catalog.is_taken(&schema, &name) {
            let message = format!("relation \"{name}\" already exists");
            if if_not_exists {
                return Ok(Outcome::skipped("CREATE SEQUENCE", format!("{message}, skipping")));
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

    fn create_domain(&self, create: &ast::CreateDomain) -> Result<Outcome> {
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

    fn alter_table(&self, alter: &ast::AlterTable) -> Result<Outcome> {
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

    fn alter(
        &self,
        catalog: &mut Catalog,
        table: &mut Table,
        operation: &ast::AlterTableOperation,
    ) -> Result<()> {
        use ast::AlterTableOperation as O;
        let unsupported = |what: &str| {
            Err(SqlError::unsupported(format!("unsupported ALTER TABLE {what} statement")))
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
                        format!("column \"{name}\" of relation \"{}\" already exists", table.name),
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
                    return Err(SqlError::new("54011", "tables can have at most 255 columns"));
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
                            format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
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
                    let uses = |expr: &Expr| {
                        expr.any(&|part| *part == Expr::Column(slot))
                    };
                    table.indexes.retain(|index| {
                        !index.keys.iter().any(|key| match key {
                            IndexKey::Slot(other) => *other == slot,
                            IndexKey::Expr(expr) => uses(expr),
                        }) && !index.predicate.as_ref().is_some_and(uses)
                            && !index.include.contains(&slot)
                    });
                    table.checks.retain(|check| !uses(&check.expr));
                    table.foreign_keys.retain(|key| !key.columns.contains(&slot));
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
                        format!("column \"{new}\" of relation \"{}\" already exists", table.name),
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
                Err(SqlError::simulator(format!("ALTER TABLE {}", words.join(" "))))
            }
        }
    }

    fn drop(
        &self,
        kind: &ast::ObjectType,
        if_exists: bool,
        names: &[ast::ObjectName],
        cascade: bool,
    ) -> Result<Outcome> {
        let (word, tag) = match kind {
            ast::ObjectType::Table => ("table", "DROP TABLE"),
            ast::ObjectType::View => ("view", "DROP VIEW"),
            ast::ObjectType::Index => ("index", "DROP INDEX"),
            ast::ObjectType::Sequence => ("sequence", "DROP SEQUENCE"),
            ast::ObjectType::Schema => ("schema", "DROP SCHEMA"),
            ast::ObjectType::Type => {
                return Err(SqlError::unsupported("unsupported object in DROP statement"));
            }
            other => return Err(SqlError::simulator(format!("DROP {other}"))),
        };
        let mut catalog = (**self.catalog).clone();
        let mut notices = Vec::new();
        let mut changed = false;
        for name in names {
            let (schema, name) = qualified(name)?;
            let found = match kind {
                ast::ObjectType::Schema => drop_schema(&mut catalog, &name, cascade)?,
                ast::ObjectType::Index => drop_index(&mut catalog, schema.as_deref(), &name)?,
                _ => drop_relation(&mut catalog, kind, schema.as_deref(), &name, cascade)?,
            };
            changed = changed || found;
            if !found {
                let message = format!("{word} \"{name}\" does not exist");
                if !if_exists {
                    let state = match kind {
                        ast::ObjectType::Schema => "3F000",
                        ast::ObjectType::Index => "42704",
                        _ => "42P01",
                    };
                    return Err(SqlError::new(state, message));
                }
                notices.push(SqlError::new("00000", format!("{message}, skipping")));
            }
        }
        Ok(Outcome {
            catalog: changed.then_some(catalog),
            job: None,
            tag,
            notices,
        })
    }
}

fn depends(what: &str, on: &str) -> SqlError {
    SqlError::new(
        "2BP01",
        format!("cannot drop {what} because other objects depend on it"),
    )
    .detail(on)
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

fn drop_relation(
    catalog: &mut Catalog,
    kind: &ast::ObjectType,
    schema: Option<&str>,
    name: &str,
    cascade: bool,
) -> Result<bool> {
    let Some(relation) = catalog.relation(schema, name).cloned() else {
        return Ok(false);
    };
    let wrong = |word: &str| SqlError::new("42809", format!("\"{name}\" is not a {word}"));
    match (kind, &relation) {
        (ast::ObjectType::Table, Relation::Table(table)) => {
            let references = catalog.references(table.oid);
            let others: Vec<_> = references
                .iter()
                .filter(|(child, _)| child.oid != table.oid)
                .collect();
            if let (Some((child, key)), false) = (others.first(), cascade) {
                return Err(depends(
                    &format!("table {name}"),
                    &format!("constraint {} on table {} depends on table {name}", key.name, child.name),
                ));
            }
            for (child, key) in &others {
                let mut changed = match catalog.table_by_oid(child.oid) {
                    Some(child) => (**child).clone(),
                    None => continue,
                };
                changed.foreign_keys.retain(|other| other.oid != key.oid);
                catalog.put_table(changed);
            }
            // The sequences of its identity columns go with it.
            let sequences: Vec<u32> = table
                .columns
                .iter()
                .filter_map(|column| column.identity.map(|identity| identity.sequence))
                .collect();
            catalog
                .relations
                .retain(|_, relation| !sequences.contains(&relation.oid()));
        }
        (ast::ObjectType::View, Relation::View(_))
        | (ast::ObjectType::Sequence, Relation::Sequence(_)) => {}
        (ast::ObjectType::Table, _) => return Err(wrong("table")),
        (ast::ObjectType::View, _) => return Err(wrong("view")),
        _ => return Err(wrong("sequence")),
    }
    let oid = relation.oid();
    let views = catalog.views_of(oid);
    if let (Some(view), false) = (views.first(), cascade) {
        let word = if matches!(relation, Relation::Table(_)) { "table" } else { "view" };
        return Err(depends(
            &format!("{word} {name}"),
            &format!("view {} depends on {word} {name}", view.name),
        ));
    }
    catalog.relations.retain(|_, relation| relation.oid() != oid);
    for view in views {
        drop_relation(catalog, &ast::ObjectType::View, Some(&view.schema), &view.name, true)?;
    }
    Ok(true)
}

fn drop_index(catalog: &mut Catalog, schema: Option<&str>, name: &str) -> Result<bool> {
    let Some(table) = catalog.index(schema, name) else {
        return Ok(false);
    };
    let mut table = (**table).clone();
    let constraint = table.primary_name == name
        || table
            .indexes
            .iter()
            .any(|index| index.name == name && index.constraint);
    if constraint {
        return Err(SqlError::new(
            "2BP01",
            format!(
                "cannot drop index {name} because constraint {name} on table {} requires it",
                table.name
            ),
        ));
    }
    table.indexes.retain(|index| index.name != name);
    catalog.put_table(table);
    Ok(true)
}

fn drop_schema(catalog: &mut Catalog, name: &str, cascade: bool) -> Result<bool> {
    if !catalog.schemas.contains_key(name) {
        return Ok(false);
    }
    if matches!(name, "public" | "pg_catalog" | "information_schema" | "sys") {
        return Err(SqlError::new("42501", format!("must be owner of schema {name}")));
    }
    let used = catalog.relations.keys().find(|(schema, _)| schema == name).cloned();
    if let (Some((_, relation)), false) = (used, cascade) {
        return Err(depends(
            &format!("schema {name}"),
            &format!("table {name}.{relation} depends on schema {name}"),
        ));
    }
    catalog.relations.retain(|(schema, _), _| schema != name);
    catalog.schemas.remove(name);
    Ok(true)
}

fn no_constraint(name: &str, table: &Table) -> SqlError {
    SqlError::new(
        "42704",
        format!(
            "constraint \"{name}\" of relation \"{}\" does not exist",
            table.name
        ),
    )
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
        SqlError::new("42703", format!("column \"{name}\" named in key does not exist"))
    })
}

fn constraint_columns(table: &Table, columns: &[ast::IndexColumn]) -> Result<Vec<usize>> {
    let mut slots = Vec::new();
    for column in columns {
        let ast::Expr::Identifier(ident) = &column.column.expr else {
            return Err(SqlError::syntax("("));
        };
        let slot = constraint_column(table, &bind::fold(ident))?;
        if slots.contains(&slot) {
            return Err(SqlError::new(
                "42701",
                format!("column \"{}\" appears twice in primary key constraint", bind::fold(ident)),
            ));
        }
        slots.push(slot);
    }
    Ok(slots)
}

fn set_primary(table: &mut Table, slots: Vec<usize>, name: Option<String>) -> Result<()> {
    if table.has_primary() {
        return Err(SqlError::new(
            "42P16",
            format!("multiple primary keys for table \"{}\" are not allowed", table.name),
        ));
    }
    if slots.len() > MAX_KEY_COLUMNS {
        return Err(SqlError::new("54011", "cannot use more than 8 columns in a primary key"));
    }
    for slot in &slots {
        let column = &mut table.columns[*slot];
        if matches!(column.ty.oid, 114 | 3802) {
            return Err(SqlError::new(
                "42704",
                format!(
                    "data type {} has no default operator class for access method \"btree\"",
                    column.ty.display()
                ),
            ));
        }
        column.not_null = true;
    }
    table.primary = slots;
    table.primary_name = name.unwrap_or_else(|| format!("{}_pkey", table.name));
    Ok(())
}

fn add_unique(
    catalog: &mut Catalog,
    table: &mut Table,
    slots: Vec<usize>,
    name: Option<String>,
) -> Result<()> {
    if slots.len() > MAX_KEY_COLUMNS {
        return Err(SqlError::new("54011", "cannot use more than 8 columns in an index"));
    }
    let names: Vec<&str> = slots
        .iter()
        .map(|slot| table.columns[*slot].name.as_str())
        .collect();
    let base = format!("{}_{}_key", table.name, names.join("_"));
    let name = name.unwrap_or_else(|| {
        unused(base, |name| {
            table.indexes.iter().any(|index| index.name == name)
                || catalog.is_taken(&table.schema, name)
        })
    });
    let definition = format!(
        "CREATE UNIQUE INDEX {} ON {}.{} USING btree_index ({})",
        crate::pgcatalog::quote(&name),
        table.schema,
        crate::pgcatalog::quote(&table.name),
        names.join(", ")
    );
    table.indexes.push(Arc::new(Index {
        oid: catalog.take_oid(),
        name,
        keys: slots.into_iter().map(IndexKey::Slot).collect(),
        include: Vec::new(),
        unique: true,
        predicate: None,
        valid: true,
        constraint: true,
        definition,
    }));
    Ok(())
}

/// A sequence, whose CACHE has to be given, and to be 1 or at least 65,536.
fn sequence(
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
