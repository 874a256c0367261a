//! The rows of the system tables.

use super::describe::{constraint_definition, index_definition};
use super::tables::TABLES;
use crate::catalog::{Action, Catalog, Index, IndexKey, Relation, Table};
use crate::error::Result;
use crate::sql::exec::Run;
use crate::statement;
use crate::types::{TYPES, Type, numeric_modifier};
use crate::value::Value;

type Rows = Result<Vec<Vec<Value>>>;

/// The one role that owns everything.
const OWNER: u32 = 10;
/// Access methods: of tables and of indexes.
const TABLE_METHOD: u32 = 16_386;
const INDEX_METHOD: u32 = 16_387;

fn text(value: impl AsRef<str>) -> Value {
    Value::text(value)
}

fn oid(oid: u32) -> Value {
    Value::Int(oid.into())
}

fn int(n: usize) -> Value {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

const fn bool(b: bool) -> Value {
    Value::Bool(b)
}

fn yes_no(b: bool) -> Value {
    text(if b { "YES" } else { "NO" })
}

fn namespace(catalog: &Catalog, schema: &str) -> Value {
    oid(catalog.schemas.get(schema).copied().unwrap_or(0))
}

fn attnum(slot: usize) -> Value {
    int(slot + 1)
}

fn attnums(slots: &[usize]) -> Value {
    Value::array(Type::INT2, slots.iter().map(|slot| attnum(*slot)).collect())
}

struct Class<'c> {
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

fn class_row(catalog: &Catalog, class: &Class<'_>) -> Vec<Value> {
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

pub(super) fn pg_class(run: &Run<'_>) -> Rows {
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
                        has_triggers: false,
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

pub(super) fn pg_namespace(run: &Run<'_>) -> Rows {
    let schemas = run.catalog.schemas.iter();
    Ok(schemas
        .map(|(name, schema)| vec![oid(*schema), text(name), oid(OWNER), Value::Null])
        .collect())
}

#[allow(clippy::too_many_arguments)]
fn type_row(
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
        oid(if matches!(id, 19 | 25 | 1042 | 1043) { 100 } else { 0 }),
        Value::Null,
        Value::Null,
    ]
}

pub(super) fn pg_type(run: &Run<'_>) -> Rows {
    let none = Type {
        oid: 0,
        size: 0,
        modifier: -1,
    };
    let mut rows = Vec::new();
    for info in TYPES {
        let kind = if info.category == 'P' || info.category == 'X' { "p" } else { "b" };
        let element = Type::from_oid(info.oid)
            .filter(|_| info.category == 'A')
            .and_then(Type::element)
            .map_or(0, |ty| ty.oid);
        rows.push(type_row(
            info.oid, info.name, 11, info.size, kind, info.category, element, info.array, none,
        ));
        if info.array != 0 {
            let name = format!("_{}", info.name);
            rows.push(type_row(info.array, &name, 11, -1, "b", 'A', info.oid, 0, none));
        }
    }
    for domain in run.catalog.domains.values() {
        rows.push(type_row(
            domain.oid, &domain.name, 2_200, domain.ty.size, "d", 'U', 0, 0, domain.ty,
        ));
    }
    Ok(rows)
}

struct Attribute<'c> {
    relation: u32,
    name: &'c str,
    ty: Type,
    number: usize,
    not_null: bool,
    has_default: bool,
    identity: &'static str,
    dropped: bool,
}

fn attribute_row(attribute: &Attribute<'_>) -> Vec<Value> {
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

pub(super) fn pg_attribute(run: &Run<'_>) -> Rows {
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

pub(super) fn pg_attrdef(run: &Run<'_>) -> Rows {
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

fn vector(ty: Type, items: Vec<Value>) -> Value {
    Value::array(ty, items)
}

#[allow(clippy::too_many_arguments)]
fn index_row(
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
        if expressions { text("expr") } else { Value::Null },
        where_clause.map_or(Value::Null, text),
    ]
}

pub(super) fn pg_index(run: &Run<'_>) -> Rows {
    let mut rows = Vec::new();
    for table in run.catalog.tables() {
        if table.has_primary() {
            let keys: Vec<Value> = table.primary.iter().map(|slot| attnum(*slot)).collect();
            let count = keys.len();
            rows.push(index_row(table.primary_oid, table, keys, count, true, true, true, None));
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

struct Constraint<'c> {
    oid: u32,
    name: &'c str,
    table: &'c Table,
    kind: &'static str,
    index: u32,
    parent: u32,
    columns: Vec<usize>,
    parent_columns: Vec<usize>,
    deferrable: bool,
    deferred: bool,
    validated: bool,
    on_update: Action,
    on_delete: Action,
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

fn index_slots(index: &Index) -> Vec<usize> {
    index
        .keys
        .iter()
        .filter_map(|key| match key {
            IndexKey::Slot(slot) => Some(*slot),
            IndexKey::Expr(_) => None,
        })
        .collect()
}

fn constraints(catalog: &Catalog) -> Vec<Constraint<'_>> {
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

pub(super) fn pg_constraint(run: &Run<'_>) -> Rows {
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
            if foreign { attnums(&one.parent_columns) } else { Value::Null },
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

pub(super) fn pg_database(_: &Run<'_>) -> Rows {
    Ok(vec![vec![
        oid(5),
        text("postgres"),
        oid(OWNER),
        int(6),
        text("c"),
        bool(false),
        bool(true),
        Value::Int(-1),
        oid(0),
        oid(0),
        oid(1663),
        text("C"),
        text("C"),
        Value::Null,
        Value::Null,
        Value::Null,
    ]])
}

pub(super) fn pg_roles(run: &Run<'_>) -> Rows {
    Ok(vec![vec![
        text(&run.session.user),
        bool(false),
        bool(true),
        bool(true),
        bool(false),
        bool(true),
        bool(false),
        Value::Int(-1),
        text("********"),
        Value::Null,
        bool(false),
        Value::Null,
        oid(OWNER),
    ]])
}

pub(super) fn pg_user(run: &Run<'_>) -> Rows {
    Ok(vec![vec![
        text(&run.session.user),
        oid(OWNER),
        bool(false),
        bool(false),
        bool(false),
        bool(false),
        text("********"),
    ]])
}

pub(super) fn pg_settings(run: &Run<'_>) -> Rows {
    let rows = statement::parameters(run.session).into_iter().map(|(name, value)| {
        vec![
            text(name),
            text(&value),
            Value::Null,
            text(""),
            text(""),
            text("user"),
            text("string"),
            text("default"),
            Value::Null,
            Value::Null,
            Value::Null,
            text(&value),
            text(&value),
        ]
    });
    Ok(rows.collect())
}

pub(super) fn pg_tables(run: &Run<'_>) -> Rows {
    let rows = run.catalog.tables().map(|table| {
        vec![
            text(&table.schema),
            text(&table.name),
            text(&table.owner),
            Value::Null,
            bool(table.has_primary() || !table.indexes.is_empty()),
            bool(false),
            bool(false),
            bool(false),
        ]
    });
    Ok(rows.collect())
}

pub(super) fn pg_indexes(run: &Run<'_>) -> Rows {
    let mut rows = Vec::new();
    for table in run.catalog.tables() {
        let primary = table.has_primary().then_some((table.primary_oid, &table.primary_name));
        let others = table.indexes.iter().map(|index| (index.oid, &index.name));
        for (id, name) in primary.into_iter().chain(others) {
            rows.push(vec![
                text(&table.schema),
                text(&table.name),
                text(name),
                Value::Null,
                index_definition(&run.catalog, id).map_or(Value::Null, text),
            ]);
        }
    }
    Ok(rows)
}

pub(super) fn pg_views(run: &Run<'_>) -> Rows {
    let rows = run.catalog.relations.values().filter_map(|relation| match relation {
        Relation::View(view) => Some(vec![
            text(&view.schema),
            text(&view.name),
            text(&view.owner),
            text(view.query.to_string()),
        ]),
        _ => None,
    });
    Ok(rows.collect())
}

pub(super) fn pg_stat_activity(run: &Run<'_>) -> Rows {
    let name = statement::parameter(run.session, "application_name")?;
    Ok(vec![vec![
        oid(5),
        text("postgres"),
        Value::Int(run.session.pid.into()),
        oid(OWNER),
        text(&run.session.user),
        text(name),
        Value::Null,
        Value::Null,
        Value::Timestamp(run.began_instant()),
        Value::Timestamp(run.now_instant()),
        text("active"),
        text(""),
    ]])
}

pub(super) fn pg_am(_: &Run<'_>) -> Rows {
    Ok(vec![
        vec![oid(TABLE_METHOD), text("btree_table"), oid(0), text("t")],
        vec![oid(INDEX_METHOD), text("btree_index"), oid(0), text("i")],
    ])
}

pub(super) fn information_tables(run: &Run<'_>) -> Rows {
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

pub(super) fn information_columns(run: &Run<'_>) -> Rows {
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
            let default = column.default.as_ref().map(|default| text(default.to_string()));
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
                    text(if identity.always { "ALWAYS" } else { "BY DEFAULT" })
                }),
                text("NEVER"),
                text("YES"),
            ]);
        }
    }
    Ok(rows)
}

pub(super) fn information_schemata(run: &Run<'_>) -> Rows {
    let rows = run.catalog.schemas.keys().map(|schema| {
        vec![text("postgres"), text(schema), text(&run.session.user)]
    });
    Ok(rows.collect())
}

pub(super) fn information_constraints(run: &Run<'_>) -> Rows {
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

pub(super) fn information_keys(run: &Run<'_>) -> Rows {
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
                if one.kind == "f" { int(n + 1) } else { Value::Null },
            ]);
        }
    }
    Ok(rows)
}

pub(super) fn information_views(run: &Run<'_>) -> Rows {
    let rows = run.catalog.relations.values().filter_map(|relation| match relation {
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

pub(super) fn sys_jobs(run: &Run<'_>) -> Rows {
    let rows = run.db.jobs.iter().map(|job| {
        let request = &job.request;
        let schema = run
            .catalog
            .table_by_oid(request.table)
            .map_or("public", |table| table.schema.as_str());
        vec![
            text(&request.id),
            text(job.status(run.now_us)),
            job.error
                .as_ref()
                .filter(|_| job.done_us <= run.now_us)
                .map_or(Value::Null, text),
            text(request.kind.name()),
            oid(1259),
            oid(request.object),
            text(format!("{schema}.{}", request.object_name)),
            Value::Timestamp(run.db.instant(job.submitted_us)),
            Value::Timestamp(run.db.instant(job.done_us.min(run.now_us))),
        ]
    });
    Ok(rows.collect())
}
