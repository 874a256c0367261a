//! The system's own tables: what psql, pgbench and drivers ask when they
//! connect or describe something. Their rows are made from the catalog when
//! asked for; nothing of them is stored.

mod describe;
mod rows;
mod tables;

use crate::catalog::{Catalog, Relation};
use crate::error::Result;
use crate::sql::exec::Run;
use crate::types::Type;
use crate::value::Value;

pub(crate) use describe::{constraint_definition, index_definition, quote, view_definition};

/// A table of the system.
pub(crate) struct SystemTable {
    pub oid: u32,
    pub schema: &'static str,
    pub name: &'static str,
    pub columns: &'static [(&'static str, Type)],
    pub rows: fn(&Run<'_>) -> Result<Vec<Vec<Value>>>,
}

impl std::fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A system table by its name: those of `pg_catalog` need no schema.
pub(crate) fn system_table(schema: Option<&str>, name: &str) -> Option<&'static SystemTable> {
    let schema = schema.unwrap_or("pg_catalog");
    tables::TABLES
        .iter()
        .find(|table| table.schema == schema && table.name == name)
}

/// The OID of a system table.
pub(crate) fn system_relation(schema: Option<&str>, name: &str) -> Option<u32> {
    system_table(schema, name).map(|table| table.oid)
}

/// The name of a relation or an index, as regclass shows it.
pub(crate) fn relation_name(catalog: &Catalog, oid: u32) -> Option<String> {
    let shown = |schema: &str, name: &str| {
        if schema == "public" || schema == "pg_catalog" {
            quote(name)
        } else {
            format!("{}.{}", quote(schema), quote(name))
        }
    };
    for ((schema, name), relation) in &catalog.relations {
        if relation.oid() == oid {
            return Some(shown(schema, name));
        }
        if let Relation::Table(table) = relation {
            if table.has_primary() && table.primary_oid == oid {
                return Some(shown(schema, &table.primary_name));
            }
            if let Some(index) = table.indexes.iter().find(|index| index.oid == oid) {
                return Some(shown(schema, &index.name));
            }
        }
    }
    tables::TABLES
        .iter()
        .find(|table| table.oid == oid)
        .map(|table| shown(table.schema, table.name))
}

/// Whether a relation is found without its schema.
pub(crate) fn is_visible(catalog: &Catalog, oid: u32) -> bool {
    let found = catalog
        .relations
        .iter()
        .find_map(|((schema, _), relation)| {
            let mine = match relation {
                Relation::Table(table) => {
                    table.oid == oid
                        || table.primary_oid == oid
                        || table.indexes.iter().any(|index| index.oid == oid)
                }
                other => other.oid() == oid,
            };
            mine.then_some(schema)
        });
    match found {
        Some(schema) => schema == "public",
        None => tables::TABLES
            .iter()
            .any(|table| table.oid == oid && table.schema == "pg_catalog"),
    }
}
