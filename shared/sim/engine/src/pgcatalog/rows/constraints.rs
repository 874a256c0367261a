//! Indexes and constraints.

use super::*;
use crate::catalog::{Action, Catalog, Index, IndexKey, Table};
use crate::pgcatalog::describe::constraint_definition;
use crate::sql::exec::Run;
use crate::types::Type;
use crate::value::Value;

pub(super) fn vector(ty: Type, items: Vec<Value>) -> Value {
    Value::array(ty, items)
}

#[allow(clippy::too_many_arguments)]
pub(super) fn index_row(
    id: u32,
    table: &Table,
    keys: Vec<Value>,
    key_columns: usize,
    unique: bool,
    primary: bool,
    valid: bool,
    predicate: Option<&Index>,
) -> Vec<Value> {
    let zeros = |ty| vector(ty, keys.iter().map(|_| Value::Int(0)).collect());
    let (collation, class, option) = (zeros(Type::OID), zeros(Type::OID), zeros(Type::INT2));
    let expressions = keys.contains(&Value::Int(0));
    let where_clause = predicate.and_then(|index| {
        let (_, text) = index.definition.split_once(" WHERE ")?;
        Some(text.to_owned())
    });
    vec![
        oid(id),
        oid(table.oid),
        int(keys.len()),
        int(key_columns),
        bool(unique),
        bool(false),
        bool(primary),
        bool(false),
        bool(true),
        bool(false),
        bool(valid),
        bool(false),
        bool(true),
        bool(true),
        bool(false),
        vector(Type::INT2, keys),
        collation,
        class,
        option,
        if expressions {
            text("expr")
        } else {
            Value::Null
        },
        where_clause.map_or(Value::Null, text),
    ]
}

pub(crate) fn pg_index(run: &Run<'_>) -> Rows {
    let mut rows = Vec::new();
    for table in run.catalog.tables() {
        if table.has_primary() {
            let keys: Vec<Value> = table.primary.iter().map(|slot| attnum(*slot)).collect();
            let count = keys.len();
            rows.push(index_row(
                table.primary_oid,
                table,
                keys,
                count,
                true,
                true,
                true,
                None,
            ));
        }
        for index in &table.indexes {
            let mut keys: Vec<Value> = index
                .keys
                .iter()
                .map(|key| match key {
                    IndexKey::Slot(slot) => attnum(*slot),
                    IndexKey::Expr(_) => Value::Int(0),
                })
                .collect();
            keys.extend(index.include.iter().map(|slot| attnum(*slot)));
            rows.push(index_row(
                index.oid,
                table,
                keys,
                index.keys.len(),
                index.unique,
                false,
                index.valid,
                index.predicate.is_some().then_some(index),
            ));
        }
    }
    Ok(rows)
}

pub(super) struct Constraint<'c> {
    pub(super) oid: u32,
    pub(super) name: &'c str,
    pub(super) table: &'c Table,
    pub(super) kind: &'static str,
    pub(super) index: u32,
    pub(super) parent: u32,
    pub(super) columns: Vec<usize>,
    pub(super) parent_columns: Vec<usize>,
    pub(super) deferrable: bool,
    pub(super) deferred: bool,
    pub(super) validated: bool,
    pub(super) on_update: Action,
    pub(super) on_delete: Action,
}

impl<'c> Constraint<'c> {
    fn new(oid: u32, name: &'c str, table: &'c Table, kind: &'static str) -> Constraint<'c> {
        Constraint {
            oid,
            name,
            table,
            kind,
            index: 0,
            parent: 0,
            columns: Vec::new(),
            parent_columns: Vec::new(),
            deferrable: false,
            deferred: false,
            validated: true,
            on_update: Action::Refuse,
            on_delete: Action::Refuse,
        }
    }
}

pub(super) fn index_slots(index: &Index) -> Vec<usize> {
    index
        .keys
        .iter()
        .filter_map(|key| match key {
            IndexKey::Slot(slot) => Some(*slot),
            IndexKey::Expr(_) => None,
        })
        .collect()
}

pub(super) fn constraints(catalog: &Catalog) -> Vec<Constraint<'_>> {
    let mut all = Vec::new();
    for table in catalog.tables() {
        if table.has_primary() {
            all.push(Constraint {
                index: table.primary_oid,
                columns: table.primary.clone(),
                ..Constraint::new(table.primary_oid, &table.primary_name, table, "p")
            });
        }
        for index in table.indexes.iter().filter(|index| index.constraint) {
            all.push(Constraint {
                index: index.oid,
                columns: index_slots(index),
                ..Constraint::new(index.oid, &index.name, table, "u")
            });
        }
        for check in &table.checks {
            all.push(Constraint::new(check.oid, &check.name, table, "c"));
        }
        for key in &table.foreign_keys {
            all.push(Constraint {
                parent: key.parent,
                columns: key.columns.clone(),
                parent_columns: key.parent_columns.clone(),
                deferrable: key.deferrable,
                deferred: key.deferred,
                validated: key.validated,
                on_update: key.on_update,
                on_delete: key.on_delete,
                ..Constraint::new(key.oid, &key.name, table, "f")
            });
        }
    }
    all
}

pub(crate) fn pg_constraint(run: &Run<'_>) -> Rows {
    let catalog = &run.catalog;
    let action = |key: bool, action: Action| {
        text(match action {
            _ if !key => " ",
            Action::Refuse => "a",
            Action::Cascade => "c",
            Action::SetNull => "n",
            Action::SetDefault => "d",
        })
    };
    let rows = constraints(catalog).into_iter().map(|one| {
        let foreign = one.kind == "f";
        vec![
            oid(one.oid),
            text(one.name),
            namespace(catalog, &one.table.schema),
            text(one.kind),
            bool(one.deferrable),
            bool(one.deferred),
            bool(one.validated),
            oid(one.table.oid),
            oid(0),
            oid(one.index),
            oid(0),
            oid(one.parent),
            action(foreign, one.on_update),
            action(foreign, one.on_delete),
            text(if foreign { "s" } else { " " }),
            bool(true),
            int(0),
            bool(true),
            attnums(&one.columns),
            if foreign {
                attnums(&one.parent_columns)
            } else {
                Value::Null
            },
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            constraint_definition(catalog, one.oid)
                .filter(|_| one.kind == "c")
                .map_or(Value::Null, text),
        ]
    });
    Ok(rows.collect())
}
