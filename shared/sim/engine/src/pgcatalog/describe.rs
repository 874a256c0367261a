//! Definitions as text, for psql's \d.

use crate::catalog::{Action, Catalog, ForeignKey, Relation, Table};

/// An identifier, quoted where it has to be.
pub(crate) fn quote(name: &str) -> String {
    let plain = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty();
    if plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

fn names(table: &Table, slots: &[usize]) -> String {
    slots
        .iter()
        .filter_map(|slot| table.columns.get(*slot))
        .map(|column| quote(&column.name))
        .collect::<Vec<_>>()
        .join(", ")
}

pub(crate) fn index_definition(catalog: &Catalog, oid: u32) -> Option<String> {
    catalog.tables().find_map(|table| {
        if table.has_primary() && table.primary_oid == oid {
            return Some(format!(
                "CREATE UNIQUE INDEX {} ON {}.{} USING btree_index ({})",
                quote(&table.primary_name),
                table.schema,
                quote(&table.name),
                names(table, &table.primary)
            ));
        }
        table
            .indexes
            .iter()
            .find(|index| index.oid == oid)
            .map(|index| index.definition.clone())
    })
}

fn foreign_key(catalog: &Catalog, table: &Table, key: &ForeignKey) -> Option<String> {
    let parent = catalog.table_by_oid(key.parent)?;
    let mut text = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        names(table, &key.columns),
        quote(&parent.name),
        names(parent, &key.parent_columns)
    );
    let action = |action| match action {
        Action::Refuse => None,
        Action::Cascade => Some("CASCADE"),
        Action::SetNull => Some("SET NULL"),
        Action::SetDefault => Some("SET DEFAULT"),
    };
    for (event, action) in [
        ("UPDATE", action(key.on_update)),
        ("DELETE", action(key.on_delete)),
    ] {
        if let Some(action) = action {
            text.push_str(&format!(" ON {event} {action}"));
        }
    }
    if key.deferrable {
        text.push_str(" DEFERRABLE");
    }
    if key.deferred {
        text.push_str(" INITIALLY DEFERRED");
    }
    if !key.validated {
        text.push_str(" NOT VALID");
    }
    Some(text)
}

/// The OID of a table's primary key constraint, which shares its index's.
pub(crate) fn constraint_definition(catalog: &Catalog, oid: u32) -> Option<String> {
    catalog.tables().find_map(|table| {
        if table.has_primary() && table.primary_oid == oid {
            return Some(format!("PRIMARY KEY ({})", names(table, &table.primary)));
        }
        if let Some(check) = table.checks.iter().find(|check| check.oid == oid) {
            return Some(format!("CHECK ({})", check.text));
        }
        if let Some(index) = table.indexes.iter().find(|index| index.oid == oid) {
            let (_, columns) = index.definition.split_once(" USING btree_index ")?;
            return Some(format!("UNIQUE {columns}"));
        }
        let key = table.foreign_keys.iter().find(|key| key.oid == oid)?;
        foreign_key(catalog, table, key)
    })
}

pub(crate) fn view_definition(catalog: &Catalog, oid: u32) -> Option<String> {
    catalog
        .relations
        .values()
        .find_map(|relation| match relation {
            Relation::View(view) if view.oid == oid => Some(format!(" {};", view.query)),
            _ => None,
        })
}
