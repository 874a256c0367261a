//! Relations, types and their columns.

use super::*;
use crate::catalog::{Catalog, IndexKey, Relation};
use crate::pgcatalog::tables::TABLES;
use crate::sql::exec::Run;
use crate::types::{TYPES, Type};
use crate::value::Value;

pub(super) struct Class<'c> {
    oid: u32,
    name: &'c str,
    schema: &'c str,
    kind: &'static str,
    columns: usize,
    method: u32,
    checks: usize,
    has_index: bool,
    has_triggers: bool,
}

pub(super) fn class_row(catalog: &Catalog, class: &Class<'_>) -> Vec<Value> {
    vec![
        oid(class.oid),
        text(class.name),
        namespace(catalog, class.schema),
        oid(0),
        oid(0),
        oid(OWNER),
        oid(class.method),
        oid(class.oid),
        oid(0),
        int(0),
        Value::Float(-1.0),
        int(0),
        oid(0),
        bool(class.has_index),
        bool(false),
        text("p"),
        text(class.kind),
        int(class.columns),
        int(class.checks),
        bool(false),
        bool(class.has_triggers),
        bool(false),
        bool(false),
        bool(false),
        bool(true),
        text("d"),
        bool(false),
        oid(0),
        oid(0),
        oid(0),
        Value::Null,
        Value::Null,
        Value::Null,
    ]
}

pub(crate) fn pg_class(run: &Run<'_>) -> Rows {
    let catalog = &run.catalog;
    let mut rows = Vec::new();
    for relation in catalog.relations.values() {
        match relation {
            Relation::Table(table) => {
                rows.push(class_row(
                    catalog,
                    &Class {
                        oid: table.oid,
                        name: &table.name,
                        schema: &table.schema,
                        kind: "r",
                        columns: table.columns.len(),
                        method: TABLE_METHOD,
                        checks: table.checks.len(),
                        has_index: table.has_primary() || !table.indexes.is_empty(),
                        // References are triggers on both sides in PostgreSQL, and
                        // psql shows them only where there are some.
                        has_triggers: !table.foreign_keys.is_empty()
                            || !catalog.references(table.oid).is_empty(),
                    },
                ));
                let mut index = |oid, name: &str, columns| {
                    rows.push(class_row(
                        catalog,
                        &Class {
                            oid,
                            name,
                            schema: &table.schema,
                            kind: "i",
                            columns,
                            method: INDEX_METHOD,
                            checks: 0,
                            has_index: false,
                            has_triggers: false,
                        },
                    ));
                };
                if table.has_primary() {
                    index(table.primary_oid, &table.primary_name, table.primary.len());
                }
                for one in &table.indexes {
                    index(one.oid, &one.name, one.keys.len() + one.include.len());
                }
            }
            Relation::View(view) => rows.push(class_row(
                catalog,
                &Class {
                    oid: view.oid,
                    name: &view.name,
                    schema: &view.schema,
                    kind: "v",
                    columns: view.columns.len(),
                    method: 0,
                    checks: 0,
                    has_index: false,
                    has_triggers: false,
                },
            )),
            Relation::Sequence(sequence) => rows.push(class_row(
                catalog,
                &Class {
                    oid: sequence.oid,
                    name: &sequence.name,
                    schema: &sequence.schema,
                    kind: "S",
                    columns: 3,
                    method: 0,
                    checks: 0,
                    has_index: false,
                    has_triggers: false,
                },
            )),
        }
    }
    for table in TABLES {
        rows.push(class_row(
            catalog,
            &Class {
                oid: table.oid,
                name: table.name,
                schema: table.schema,
                kind: if table.oid >= 12_000 { "v" } else { "r" },
                columns: table.columns.len(),
                method: 0,
                checks: 0,
                has_index: false,
                has_triggers: false,
            },
        ));
    }
    Ok(rows)
}

pub(crate) fn pg_namespace(run: &Run<'_>) -> Rows {
    let schemas = run.catalog.schemas.iter();
    Ok(schemas
        .map(|(name, schema)| vec![oid(*schema), text(name), oid(OWNER), Value::Null])
        .collect())
}

#[allow(clippy::too_many_arguments)]
pub(super) fn type_row(
    id: u32,
    name: &str,
    schema: u32,
    size: i16,
    kind: &str,
    category: char,
    element: u32,
    array: u32,
    base: Type,
) -> Vec<Value> {
    let function = || oid(0);
    vec![
        oid(id),
        text(name),
        oid(schema),
        oid(OWNER),
        Value::Int(size.into()),
        bool(size > 0 && size <= 8),
        text(kind),
        text(category.to_string()),
        bool(matches!(id, 16 | 25 | 26 | 701 | 869 | 1184 | 1186)),
        bool(true),
        text(","),
        oid(0),
        function(),
        oid(element),
        oid(array),
        function(),
        function(),
        function(),
        function(),
        text(if size == 8 { "d" } else { "i" }),
        text(if size < 0 { "x" } else { "p" }),
        bool(false),
        oid(base.oid),
        Value::Int(base.modifier.into()),
        int(0),
        oid(if matches!(id, 19 | 25 | 1042 | 1043) {
            100
        } else {
            0
        }),
        Value::Null,
        Value::Null,
    ]
}

pub(crate) fn pg_type(run: &Run<'_>) -> Rows {
    let none = Type {
        oid: 0,
        size: 0,
        modifier: -1,
    };
    let mut rows = Vec::new();
    for info in TYPES {
        let kind = if info.category == 'P' || info.category == 'X' {
            "p"
        } else {
            "b"
        };
        let element = Type::from_oid(info.oid)
            .filter(|_| info.category == 'A')
            .and_then(Type::element)
            .map_or(0, |ty| ty.oid);
        rows.push(type_row(
            info.oid,
            info.name,
            11,
            info.size,
            kind,
            info.category,
            element,
            info.array,
            none,
        ));
        if info.array != 0 {
            let name = format!("_{}", info.name);
            rows.push(type_row(
                info.array, &name, 11, -1, "b", 'A', info.oid, 0, none,
            ));
        }
    }
    for domain in run.catalog.domains.values() {
        rows.push(type_row(
            domain.oid,
            &domain.name,
            2_200,
            domain.ty.size,
            "d",
            'U',
            0,
            0,
            domain.ty,
        ));
    }
    Ok(rows)
}

pub(super) struct Attribute<'c> {
    relation: u32,
    name: &'c str,
    ty: Type,
    number: usize,
    not_null: bool,
    has_default: bool,
    identity: &'static str,
    dropped: bool,
}

pub(super) fn attribute_row(attribute: &Attribute<'_>) -> Vec<Value> {
    let ty = attribute.ty;
    let name = if attribute.dropped {
        format!("........pg.dropped.{}........", attribute.number)
    } else {
        attribute.name.to_owned()
    };
    vec![
        oid(attribute.relation),
        text(name),
        oid(if attribute.dropped { 0 } else { ty.oid }),
        Value::Int(ty.size.into()),
        int(attribute.number),
        int(0),
        Value::Int(ty.modifier.into()),
        bool(ty.size > 0 && ty.size <= 8),
        text(if ty.size == 8 { "d" } else { "i" }),
        text(if ty.size < 0 { "x" } else { "p" }),
        text(""),
        bool(attribute.not_null),
        bool(attribute.has_default),
        bool(false),
        text(attribute.identity),
        text(""),
        bool(attribute.dropped),
        bool(true),
        int(0),
        Value::Int(-1),
        oid(0),
        Value::Null,
        Value::Null,
        Value::Null,
    ]
}

pub(crate) fn pg_attribute(run: &Run<'_>) -> Rows {
    let mut rows = Vec::new();
    let plain = |relation, name, ty, number| {
        attribute_row(&Attribute {
            relation,
            name,
            ty,
            number,
            not_null: false,
            has_default: false,
            identity: "",
            dropped: false,
        })
    };
    for relation in run.catalog.relations.values() {
        match relation {
            Relation::Table(table) => {
                for (slot, column) in table.columns.iter().enumerate() {
                    rows.push(attribute_row(&Attribute {
                        relation: table.oid,
                        name: &column.name,
                        ty: column.ty,
                        number: slot + 1,
                        not_null: column.not_null,
                        has_default: column.default.is_some(),
                        identity: match column.identity {
                            Some(identity) if identity.always => "a",
                            Some(_) => "d",
                            None => "",
                        },
                        dropped: column.dropped,
                    }));
                }
                for (n, slot) in table.primary.iter().enumerate() {
                    let column = &table.columns[*slot];
                    rows.push(plain(table.primary_oid, &column.name, column.ty, n + 1));
                }
                for index in &table.indexes {
                    for (n, key) in index.keys.iter().enumerate() {
                        let (name, ty) = match key {
                            IndexKey::Slot(slot) => {
                                (table.columns[*slot].name.as_str(), table.columns[*slot].ty)
                            }
                            IndexKey::Expr(_) => ("expr", Type::TEXT),
                        };
                        rows.push(plain(index.oid, name, ty, n + 1));
                    }
                }
            }
            Relation::View(view) => {
                for (n, (name, ty)) in view.columns.iter().enumerate() {
                    rows.push(plain(view.oid, name, *ty, n + 1));
                }
            }
            Relation::Sequence(_) => {}
        }
    }
    for table in TABLES {
        for (n, (name, ty)) in table.columns.iter().enumerate() {
            rows.push(plain(table.oid, name, *ty, n + 1));
        }
    }
    Ok(rows)
}

pub(crate) fn pg_attrdef(run: &Run<'_>) -> Rows {
    let mut rows = Vec::new();
    for table in run.catalog.tables() {
        for (slot, column) in table.live() {
            if let Some(default) = &column.default {
                // A default has no OID here; the table's and the column's make one.
                rows.push(vec![
                    oid(table.oid),
                    oid(table.oid),
                    attnum(slot),
                    text(default.to_string()),
                ]);
            }
        }
    }
    Ok(rows)
}
