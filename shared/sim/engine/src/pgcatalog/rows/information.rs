//! The information schema.

use super::*;
use crate::catalog::Relation;
use crate::pgcatalog::tables::TABLES;
use crate::sql::exec::Run;
use crate::types::numeric_modifier;
use crate::value::Value;

pub(crate) fn information_tables(run: &Run<'_>) -> Rows {
    let mut rows = Vec::new();
    let mut add = |schema: &str, name: &str, kind: &str, insertable: bool| {
        rows.push(vec![
            text("postgres"),
            text(schema),
            text(name),
            text(kind),
            yes_no(insertable),
        ]);
    };
    for relation in run.catalog.relations.values() {
        match relation {
            Relation::Table(table) => add(&table.schema, &table.name, "BASE TABLE", true),
            Relation::View(view) => add(&view.schema, &view.name, "VIEW", false),
            Relation::Sequence(_) => {}
        }
    }
    for table in TABLES {
        add(table.schema, table.name, "VIEW", false);
    }
    Ok(rows)
}

pub(crate) fn information_columns(run: &Run<'_>) -> Rows {
    let mut rows = Vec::new();
    for table in run.catalog.tables() {
        for (slot, column) in table.live() {
            let ty = column.ty;
            let length = (matches!(ty.oid, 1042 | 1043) && ty.modifier > 4)
                .then(|| Value::Int(i64::from(ty.modifier) - 4));
            let (precision, scale) = match ty.oid {
                21 => (Value::Int(16), Value::Int(0)),
                23 => (Value::Int(32), Value::Int(0)),
                20 => (Value::Int(64), Value::Int(0)),
                700 => (Value::Int(24), Value::Null),
                701 => (Value::Int(53), Value::Null),
                1700 if ty.modifier >= 0 => {
                    let (precision, scale) = numeric_modifier(ty.modifier);
                    (Value::Int(precision.into()), Value::Int(scale.into()))
                }
                _ => (Value::Null, Value::Null),
            };
            let default = column
                .default
                .as_ref()
                .map(|default| text(default.to_string()));
            rows.push(vec![
                text("postgres"),
                text(&table.schema),
                text(&table.name),
                text(&column.name),
                attnum(slot),
                default.unwrap_or(Value::Null),
                yes_no(!column.not_null),
                text(ty.display()),
                length.unwrap_or(Value::Null),
                precision,
                scale,
                text("pg_catalog"),
                text(ty.name()),
                yes_no(column.identity.is_some()),
                column.identity.map_or(Value::Null, |identity| {
                    text(if identity.always {
                        "ALWAYS"
                    } else {
                        "BY DEFAULT"
                    })
                }),
                text("NEVER"),
                text("YES"),
            ]);
        }
    }
    Ok(rows)
}

pub(crate) fn information_schemata(run: &Run<'_>) -> Rows {
    let rows = run
        .catalog
        .schemas
        .keys()
        .map(|schema| vec![text("postgres"), text(schema), text(&run.session.user)]);
    Ok(rows.collect())
}

pub(crate) fn information_constraints(run: &Run<'_>) -> Rows {
    let rows = constraints(&run.catalog).into_iter().map(|one| {
        let kind = match one.kind {
            "p" => "PRIMARY KEY",
            "u" => "UNIQUE",
            "f" => "FOREIGN KEY",
            _ => "CHECK",
        };
        vec![
            text("postgres"),
            text(&one.table.schema),
            text(one.name),
            text("postgres"),
            text(&one.table.schema),
            text(&one.table.name),
            text(kind),
            yes_no(one.deferrable),
            yes_no(one.deferred),
        ]
    });
    Ok(rows.collect())
}

pub(crate) fn information_keys(run: &Run<'_>) -> Rows {
    let mut rows = Vec::new();
    for one in constraints(&run.catalog) {
        for (n, slot) in one.columns.iter().enumerate() {
            rows.push(vec![
                text("postgres"),
                text(&one.table.schema),
                text(one.name),
                text("postgres"),
                text(&one.table.schema),
                text(&one.table.name),
                text(&one.table.columns[*slot].name),
                int(n + 1),
                if one.kind == "f" {
                    int(n + 1)
                } else {
                    Value::Null
                },
            ]);
        }
    }
    Ok(rows)
}

pub(crate) fn information_views(run: &Run<'_>) -> Rows {
    let rows = run
        .catalog
        .relations
        .values()
        .filter_map(|relation| match relation {
            Relation::View(view) => Some(vec![
                text("postgres"),
                text(&view.schema),
                text(&view.name),
                text(view.query.to_string()),
            ]),
            _ => None,
        });
    Ok(rows.collect())
}
