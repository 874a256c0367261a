//! Functions about the session and the system, and those that catalog queries
//! call.

use super::{ANY, ANYARRAY, ANYELEMENT, Function, Gives, arg};
use crate::catalog::Relation;
use crate::error::{Result, SqlError};
use crate::pgcatalog;
use crate::sql::expr::Ctx;
use crate::statement;
use crate::types::Type;
use crate::value::{Value, json};

const T: Type = Type::TEXT;
const N: Type = Type::NAME;
const I: Type = Type::INT4;
const I8: Type = Type::INT8;
const O: Type = Type::OID;
const B: Type = Type::BOOL;

/// As `version()` begins on DSQL.
const VERSION: &str = "PostgreSQL 16";

fn text(value: impl AsRef<str>) -> Result<Value> {
    Ok(Value::text(value))
}

fn user(cx: &Ctx<'_>) -> Result<Value> {
    text(&cx.run()?.session.user)
}

fn uuid(cx: &Ctx<'_>) -> Result<Value> {
    // Version 4, variant 1.
    let mut bytes = cx.run()?.db.random_bits().to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Value::Uuid(bytes))
}

fn sleep(cx: &Ctx<'_>, seconds: f64) -> Result<Value> {
    let run = cx.run()?;
    let us = (seconds.clamp(0.0, 1e9) * 1e6) as u64;
    let from = run.not_before_us.get().max(run.now_us);
    run.not_before_us.set(from.saturating_add(us));
    // Of type void, which is not NULL.
    text("")
}

fn sequence_value(cx: &Ctx<'_>, oid: i64, advance: bool) -> Result<Value> {
    let run = cx.run()?;
    let found = run
        .catalog
        .relations
        .values()
        .find_map(|relation| match relation {
            Relation::Sequence(sequence) if i64::from(sequence.oid) == oid => Some(sequence),
            _ => None,
        });
    let Some(sequence) = found else {
        return Err(SqlError::undefined_table(&oid.to_string()));
    };
    let mut all = run.db.sequences.borrow_mut();
    let next = all.get(&sequence.oid).copied();
    if !advance {
        return next
            .map(|next| Value::Int(next - sequence.increment))
            .ok_or_else(|| {
                SqlError::new(
                    "55000",
                    format!(
                        "currval of sequence \"{}\" is not yet defined in this session",
                        sequence.name
                    ),
                )
            });
    }
    let value = next.unwrap_or(sequence.start);
    let after = value.checked_add(sequence.increment).ok_or_else(|| {
        SqlError::new(
            "2200H",
            format!(
                "nextval: reached maximum value of sequence \"{}\"",
                sequence.name
            ),
        )
    })?;
    all.insert(sequence.oid, after);
    Ok(Value::Int(value))
}

fn get(document: &Value, ty: &str, key: &Value) -> Result<Option<json::Json>> {
    let Value::Text(document) = document else {
        return Ok(None);
    };
    let parsed = json::parse(document, ty)?;
    Ok(match key {
        Value::Text(name) => parsed.field(name).cloned(),
        Value::Int(index) => parsed.item(*index).cloned(),
        _ => None,
    })
}

fn get_json(a: &[Value]) -> Result<Value> {
    let [document, key] = a else {
        return Ok(Value::Null);
    };
    Ok(get(document, "json", key)?.map_or(Value::Null, |found| Value::text(found.canonical())))
}

fn get_text(a: &[Value]) -> Result<Value> {
    let [document, key] = a else {
        return Ok(Value::Null);
    };
    let found = get(document, "json", key)?.and_then(|found| found.as_text());
    Ok(found.map_or(Value::Null, Value::text))
}

fn oid_arg(a: &[Value], n: usize) -> u32 {
    match a.get(n) {
        Some(Value::Int(oid)) => u32::try_from(*oid).unwrap_or(0),
        _ => 0,
    }
}

fn index_definition(cx: &Ctx<'_>, a: &[Value]) -> Result<Value> {
    let found = pgcatalog::index_definition(&cx.run()?.catalog, oid_arg(a, 0));
    Ok(found.map_or(Value::Null, Value::text))
}

fn constraint_definition(cx: &Ctx<'_>, a: &[Value]) -> Result<Value> {
    let found = pgcatalog::constraint_definition(&cx.run()?.catalog, oid_arg(a, 0));
    Ok(found.map_or(Value::Null, Value::text))
}

const fn f(name: &'static str, args: &'static [Type], gives: Type, eval: super::Eval) -> Function {
    Function::new(name, args, gives, eval)
}

/// Says yes to whoever asks whether something is allowed: there are no roles.
const fn allowed(name: &'static str, args: &'static [Type]) -> Function {
    f(name, args, B, |_, _| Ok(Value::Bool(true)))
}

const fn nothing(name: &'static str, args: &'static [Type], gives: Type) -> Function {
    f(name, args, gives, |_, _| Ok(Value::Null))
}

const NAMES: Type = Type {
    oid: 1003,
    size: -1,
    modifier: -1,
};

pub(super) static FUNCTIONS: &[Function] = &[
    f("version", &[], T, |_, _| text(VERSION)),
    f("current_user", &[], N, |cx, _| user(cx)),
    f("session_user", &[], N, |cx, _| user(cx)),
    f("user", &[], N, |cx, _| user(cx)),
    f("current_role", &[], N, |cx, _| user(cx)),
    f("current_database", &[], N, |_, _| text("postgres")),
    f("current_catalog", &[], N, |_, _| text("postgres")),
    f("current_schema", &[], N, |_, _| text("public")),
    f("current_schemas", &[B], NAMES, |_, a| {
        let all = *arg!(a, 0, Bool);
        let names = ["pg_catalog", "public"].iter().skip(usize::from(!all));
        Ok(Value::array(Type::NAME, names.map(Value::text).collect()))
    }),
    f("pg_backend_pid", &[], I, |cx, _| {
        Ok(Value::Int(cx.run()?.session.pid.into()))
    }),
    f("pg_is_in_recovery", &[], B, |_, _| Ok(Value::Bool(false))),
    f(
        "pg_postmaster_start_time",
        &[],
        Type::TIMESTAMPTZ,
        |cx, _| Ok(Value::Timestamp(cx.run()?.db.instant(0))),
    ),
    f("inet_server_addr", &[], Type::INET, |_, _| Ok(Value::Null)),
    f("inet_client_addr", &[], Type::INET, |_, _| Ok(Value::Null)),
    f("txid_current", &[], I8, |cx, _| {
        Ok(Value::Int(
            i64::try_from(cx.run()?.snapshot).unwrap_or(i64::MAX),
        ))
    }),
    f("current_setting", &[T], T, |cx, a| {
        text(statement::parameter(cx.run()?.session, arg!(a, 0, Text))?)
    }),
    f(
        "current_setting",
        &[T, B],
        T,
        |cx, a| match statement::parameter(cx.run()?.session, arg!(a, 0, Text)) {
            Ok(value) => text(value),
            Err(_) if *arg!(a, 1, Bool) => Ok(Value::Null),
            Err(error) => Err(error),
        },
    ),
    f("set_config", &[T, T, B], T, |_, a| {
        let (name, value) = (arg!(a, 0, Text), arg!(a, 1, Text));
        if &**name == "search_path" {
            // All names here are qualified or in public.
            return Ok(Value::Text(value.clone()));
        }
        Err(SqlError::simulator(format!("set_config of {name}")))
    }),
    f("gen_random_uuid", &[], Type::UUID, |cx, _| uuid(cx)).volatile(),
    f("pg_sleep", &[Type::FLOAT8], Type::VOID, |cx, a| {
        sleep(cx, *arg!(a, 0, Float))
    })
    .volatile(),
    f("nextval", &[Type::REGCLASS], I8, |cx, a| {
        sequence_value(cx, *arg!(a, 0, Int), true)
    })
    .volatile(),
    f("currval", &[Type::REGCLASS], I8, |cx, a| {
        sequence_value(cx, *arg!(a, 0, Int), false)
    })
    .volatile(),
    f("array_item", &[ANYARRAY, I], T, |_, a| {
        let at = usize::try_from(arg!(a, 1, Int).saturating_sub(1)).ok();
        let item = at.and_then(|at| arg_item(a, at));
        Ok(item.unwrap_or(Value::Null))
    })
    .gives(Gives::Element(0)),
    f("json_get", &[Type::JSONB, T], Type::JSONB, |_, a| {
        get_json(a)
    }),
    f("json_get", &[Type::JSONB, I], Type::JSONB, |_, a| {
        get_json(a)
    }),
    f("json_get", &[Type::JSON, T], Type::JSON, |_, a| get_json(a)),
    f("json_get", &[Type::JSON, I], Type::JSON, |_, a| get_json(a)),
    f("json_get_text", &[Type::JSONB, T], T, |_, a| get_text(a)),
    f("json_get_text", &[Type::JSONB, I], T, |_, a| get_text(a)),
    f("json_get_text", &[Type::JSON, T], T, |_, a| get_text(a)),
    f("json_get_text", &[Type::JSON, I], T, |_, a| get_text(a)),
    // What catalog queries call.
    f("format_type", &[O, I], T, |_, a| {
        let Some(Value::Int(oid)) = a.first() else {
            return Ok(Value::Null);
        };
        let modifier = match a.get(1) {
            Some(Value::Int(modifier)) => i32::try_from(*modifier).unwrap_or(-1),
            _ => -1,
        };
        match u32::try_from(*oid).ok().and_then(Type::from_oid) {
            Some(ty) => text(ty.with_modifier(modifier).display_full()),
            None => text("???"),
        }
    })
    .lenient(),
    f("pg_get_expr", &[T, O], T, |_, a| {
        Ok(a.first().cloned().unwrap_or(Value::Null))
    }),
    f("pg_get_expr", &[T, O, B], T, |_, a| {
        Ok(a.first().cloned().unwrap_or(Value::Null))
    }),
    f("pg_get_indexdef", &[O], T, index_definition),
    f("pg_get_indexdef", &[O, I, B], T, index_definition),
    f("pg_get_constraintdef", &[O], T, constraint_definition),
    f("pg_get_constraintdef", &[O, B], T, constraint_definition),
    f("pg_get_viewdef", &[O], T, |cx, a| {
        let found = pgcatalog::view_definition(&cx.run()?.catalog, oid_arg(a, 0));
        Ok(found.map_or(Value::Null, Value::text))
    }),
    f("pg_get_viewdef", &[O, B], T, |cx, a| {
        let found = pgcatalog::view_definition(&cx.run()?.catalog, oid_arg(a, 0));
        Ok(found.map_or(Value::Null, Value::text))
    }),
    f("pg_get_userbyid", &[O], N, |cx, _| user(cx)),
    f("pg_table_is_visible", &[O], B, |cx, a| {
        Ok(Value::Bool(pgcatalog::is_visible(
            &cx.run()?.catalog,
            oid_arg(a, 0),
        )))
    }),
    f("pg_type_is_visible", &[O], B, |_, _| Ok(Value::Bool(true))),
    f("pg_function_is_visible", &[O], B, |_, _| {
        Ok(Value::Bool(true))
    }),
    f("pg_encoding_to_char", &[I], N, |_, _| text("UTF8")),
    f(
        "pg_relation_is_publishable",
        &[Type::REGCLASS],
        B,
        |_, _| Ok(Value::Bool(false)),
    ),
    f("to_regclass", &[T], Type::REGCLASS, |cx, a| {
        let name = Value::Text(arg!(a, 0, Text).clone());
        let found = crate::sql::cast::cast(&name, T, Type::REGCLASS, true, cx);
        Ok(found.unwrap_or(Value::Null))
    }),
    nothing("obj_description", &[O, N], T),
    nothing("shobj_description", &[O, N], T),
    nothing("col_description", &[O, I], T),
    nothing("pg_get_statisticsobjdef_columns", &[O], T),
    nothing("pg_get_serial_sequence", &[T, T], T),
    nothing("pg_get_partkeydef", &[O], T),
    nothing("pg_partition_ancestors", &[Type::REGCLASS], Type::REGCLASS),
    nothing("pg_get_triggerdef", &[O, B], T),
    nothing("pg_get_triggerdef", &[O], T),
    nothing("pg_get_ruledef", &[O, B], T),
    nothing("pg_get_function_result", &[O], T),
    nothing("pg_get_function_arguments", &[O], T),
    nothing("pg_get_function_identity_arguments", &[O], T),
    nothing("pg_get_functiondef", &[O], T),
    f("pg_relation_size", &[Type::REGCLASS], I8, |_, _| {
        Ok(Value::Int(0))
    }),
    f("pg_total_relation_size", &[Type::REGCLASS], I8, |_, _| {
        Ok(Value::Int(0))
    }),
    f("pg_table_size", &[Type::REGCLASS], I8, |_, _| {
        Ok(Value::Int(0))
    }),
    f("pg_size_pretty", &[I8], T, |_, a| {
        text(format!("{} bytes", arg!(a, 0, Int)))
    }),
    allowed("has_table_privilege", &[T, T]),
    allowed("has_table_privilege", &[O, T]),
    allowed("has_schema_privilege", &[T, T]),
    allowed("has_schema_privilege", &[O, T]),
    allowed("has_schema_privilege", &[N, T, T]),
    allowed("has_database_privilege", &[T, T]),
    allowed("pg_has_role", &[T, T]),
    allowed("pg_has_role", &[O, T]),
    f("array_remove", &[ANYARRAY, ANYELEMENT], T, |_, a| {
        let array = arg!(a, 0, Array);
        let Some(gone) = a.get(1) else {
            return Ok(Value::Null);
        };
        let items = array
            .items
            .iter()
            .filter(|item| item.compare(gone).is_ne())
            .cloned()
            .collect();
        Ok(Value::array(array.element, items))
    })
    .gives(Gives::Same(0)),
    f("num_nulls", &[ANY], I, |_, a| {
        Ok(Value::Int(
            i64::try_from(a.iter().filter(|value| value.is_null()).count()).unwrap_or(0),
        ))
    })
    .lenient()
    .variadic(),
];

fn arg_item(args: &[Value], at: usize) -> Option<Value> {
    match args.first() {
        Some(Value::Array(array)) => array.items.get(at).cloned(),
        _ => None,
    }
}
