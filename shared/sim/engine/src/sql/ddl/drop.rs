//! DROP.

use super::*;
use crate::catalog::{Catalog, Relation};
use crate::error::{Result, SqlError};
use crate::sql::bind::qualified;
use sqlparser::ast;

impl Ddl<'_> {
    pub(super) fn drop(
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
                return Err(SqlError::unsupported(
                    "unsupported object in DROP statement",
                ));
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

pub(super) fn depends(what: &str, on: &str) -> SqlError {
    SqlError::new(
        "2BP01",
        format!("cannot drop {what} because other objects depend on it"),
    )
    .detail(on)
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

pub(super) fn drop_relation(
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
                    &format!(
                        "constraint {} on table {} depends on table {name}",
                        key.name, child.name
                    ),
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
        let word = if matches!(relation, Relation::Table(_)) {
            "table"
        } else {
            "view"
        };
        return Err(depends(
            &format!("{word} {name}"),
            &format!("view {} depends on {word} {name}", view.name),
        ));
    }
    catalog
        .relations
        .retain(|_, relation| relation.oid() != oid);
    for view in views {
        drop_relation(
            catalog,
            &ast::ObjectType::View,
            Some(&view.schema),
            &view.name,
            true,
        )?;
    }
    Ok(true)
}

pub(super) fn drop_index(catalog: &mut Catalog, schema: Option<&str>, name: &str) -> Result<bool> {
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

pub(super) fn drop_schema(catalog: &mut Catalog, name: &str, cascade: bool) -> Result<bool> {
    if !catalog.schemas.contains_key(name) {
        return Ok(false);
    }
    if matches!(name, "public" | "pg_catalog" | "information_schema" | "sys") {
        return Err(SqlError::new(
            "42501",
            format!("must be owner of schema {name}"),
        ));
    }
    let used = catalog
        .relations
        .keys()
        .find(|(schema, _)| schema == name)
        .cloned();
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
