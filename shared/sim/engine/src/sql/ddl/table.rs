//! CREATE TABLE: columns and constraints.

use super::*;
use crate::catalog::{Catalog, Column, Domain, Identity, Index, IndexKey, Relation, Table};
use crate::error::{Result, SqlError};
use crate::sql::bind::{self, Place, Scope, ScopeColumn};
use crate::types::Type;
use sqlparser::ast;
use std::sync::Arc;

impl Ddl<'_> {
    // Tables.

    pub(super) fn create_table(&self, create: &ast::CreateTable) -> Result<Outcome> {
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
                return Ok(Outcome::skipped(
                    "CREATE TABLE",
                    format!("{message}, skipping"),
                ));
            }
            return Err(SqlError::new("42P07", message));
        }
        if self.catalog.tables().count() >= MAX_TABLES {
            return Err(SqlError::new(
                "54000",
                "more than 1000 tables are not allowed",
            ));
        }
        if create.columns.len() > MAX_COLUMNS {
            return Err(SqlError::new(
                "54011",
                "tables can have at most 255 columns",
            ));
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

    pub(super) fn add_column(
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
    pub(super) fn column_type(&self, ty: &ast::DataType) -> Result<(Type, Option<Arc<Domain>>)> {
        let (ty, domain) = bind::data_type(self.catalog, ty)?;
        let storable = matches!(
            ty.oid,
            16 | 17
                | 20
                | 21
                | 23
                | 25
                | 114
                | 700
                | 701
                | 1042
                | 1043
                | 1082
                | 1083
                | 1114
                | 1184
                | 1186
                | 1266
                | 1700
                | 2950
                | 3802
        );
        if !storable {
            return Err(SqlError::unsupported(format!(
                "datatype {} not supported",
                ty.display()
            )));
        }
        Ok((ty, domain))
    }

    pub(super) fn check_default(&self, expr: &ast::Expr, ty: Type, name: &str) -> Result<()> {
        let binder = self.binder();
        let scope = Scope::empty();
        let typed = binder.expr(expr, Place::of(&scope, "DEFAULT expressions"))?;
        let from = typed.ty;
        if !crate::sql::cast::allowed(from, ty, crate::sql::cast::Context::Assignment) {
            return Err(SqlError::datatype_mismatch(format!(
                "column \"{name}\" is of type {} but default expression is of type {}",
                ty.display(),
                from.display()
            ))
            .hint("You will need to rewrite or cast the expression."));
        }
        binder
            .coerce(typed, ty, crate::sql::cast::Context::Assignment)
            .map(drop)
    }

    pub(super) fn identity(
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

    pub(super) fn column_constraint(
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

    pub(super) fn table_constraint(
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

    pub(super) fn table_scope(table: &Table) -> Scope<'static> {
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
}

pub(super) fn constraint_columns(
    table: &Table,
    columns: &[ast::IndexColumn],
) -> Result<Vec<usize>> {
    let mut slots = Vec::new();
    for column in columns {
        let ast::Expr::Identifier(ident) = &column.column.expr else {
            return Err(SqlError::syntax("("));
        };
        let slot = constraint_column(table, &bind::fold(ident))?;
        if slots.contains(&slot) {
            return Err(SqlError::new(
                "42701",
                format!(
                    "column \"{}\" appears twice in primary key constraint",
                    bind::fold(ident)
                ),
            ));
        }
        slots.push(slot);
    }
    Ok(slots)
}

pub(super) fn set_primary(
    table: &mut Table,
    slots: Vec<usize>,
    name: Option<String>,
) -> Result<()> {
    if table.has_primary() {
        return Err(SqlError::new(
            "42P16",
            format!(
                "multiple primary keys for table \"{}\" are not allowed",
                table.name
            ),
        ));
    }
    if slots.len() > MAX_KEY_COLUMNS {
        return Err(SqlError::new(
            "54011",
            "cannot use more than 8 columns in a primary key",
        ));
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

pub(super) fn add_unique(
    catalog: &mut Catalog,
    table: &mut Table,
    slots: Vec<usize>,
    name: Option<String>,
) -> Result<()> {
    if slots.len() > MAX_KEY_COLUMNS {
        return Err(SqlError::new(
            "54011",
            "cannot use more than 8 columns in an index",
        ));
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
