//! What is a view on PostgreSQL: settings, roles, lists, jobs.

use super::*;
use crate::catalog::Relation;
use crate::pgcatalog::describe::index_definition;
use crate::sql::exec::Run;
use crate::statement;
use crate::value::Value;

pub(crate) fn pg_database(_: &Run<'_>) -> Rows {
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

pub(crate) fn pg_roles(run: &Run<'_>) -> Rows {
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

pub(crate) fn pg_user(run: &Run<'_>) -> Rows {
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

pub(crate) fn pg_settings(run: &Run<'_>) -> Rows {
    let rows = statement::parameters(run.session)
        .into_iter()
        .map(|(name, value)| {
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

pub(crate) fn pg_tables(run: &Run<'_>) -> Rows {
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

pub(crate) fn pg_indexes(run: &Run<'_>) -> Rows {
    let mut rows = Vec::new();
    for table in run.catalog.tables() {
        let primary = table
            .has_primary()
            .then_some((table.primary_oid, &table.primary_name));
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

pub(crate) fn pg_views(run: &Run<'_>) -> Rows {
    let rows = run
        .catalog
        .relations
        .values()
        .filter_map(|relation| match relation {
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

pub(crate) fn pg_stat_activity(run: &Run<'_>) -> Rows {
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

pub(crate) fn pg_am(_: &Run<'_>) -> Rows {
    Ok(vec![
        vec![oid(TABLE_METHOD), text("btree_table"), oid(0), text("t")],
        vec![oid(INDEX_METHOD), text("btree_index"), oid(0), text("i")],
    ])
}

pub(crate) fn sys_jobs(run: &Run<'_>) -> Rows {
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
