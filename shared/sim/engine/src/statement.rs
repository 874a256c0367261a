//! Statements: what each kind of them is planned into, and the small ones that
//! need no plan.

use std::sync::Arc;

use sqlparser::ast;

use crate::engine::Database;
use crate::error::{Result, SqlError};
use crate::jobs;
use crate::session::{Column, Executed, Settings, WorkKind};
use crate::sql::bind::{self, Binder, Place, Scope};
use crate::sql::dml::{self, Dml};
use crate::sql::expr::{self, Ctx, Expr};
use crate::sql::parse::{self, Command};
use crate::sql::plan::{self, Columns, Node, Planned};
use crate::sql::{cast::Context, ddl, explain};
use crate::txn::Txn;
use crate::types::Type;
use crate::value::Value;

/// A planned statement.
#[derive(Debug)]
pub(crate) enum Plan {
    Empty,
    Query {
        node: Box<Node>,
        work: WorkKind,
    },
    Dml {
        dml: Box<Dml>,
        tag: &'static str,
    },
    /// Done from the statement itself.
    Ddl,
    /// EXPLAIN.
    Lines(Vec<String>),
    Utility(Utility),
}

impl Plan {
    /// A change of the schema would have changed it.
    pub(crate) fn touches_tables(&self) -> bool {
        match self {
            Plan::Query { work, .. } => *work != WorkKind::Trivial,
            Plan::Dml { .. } | Plan::Ddl => true,
            Plan::Empty | Plan::Lines(_) | Plan::Utility(_) => false,
        }
    }
}

/// Statements that are neither queries nor changes.
#[derive(Debug)]
pub(crate) enum Utility {
    Set {
        name: &'static str,
        value: String,
    },
    Reset {
        name: Option<&'static str>,
        tag: &'static str,
    },
    Show(&'static str),
    ShowAll,
    /// CALL sys.wait_for_job(…)
    WaitForJob(Expr),
    Accept(&'static str),
}

/// Statements that begin or end a block.
pub(crate) enum Control {
    Begin { read_only: bool, tag: &'static str },
    Commit,
    Rollback,
}

/// A plan and what it returns.
pub(crate) struct PlannedStatement {
    pub plan: Plan,
    pub columns: Option<Arc<[Column]>>,
}

fn without_rows(plan: Plan) -> PlannedStatement {
    PlannedStatement {
        plan,
        columns: None,
    }
}

fn one_text_column(plan: Plan, name: &str) -> PlannedStatement {
    PlannedStatement {
        plan,
        columns: Some(Arc::from([Column {
            name: name.to_owned(),
            ty: Type::TEXT,
        }])),
    }
}

/// Whether a statement may run in a failed block.
pub(crate) fn ends_block(command: &Command) -> bool {
    matches!(command, Command::Empty | Command::Sql(_))
        && match command {
            Command::Sql(statement) => matches!(
                **statement,
                ast::Statement::Commit { .. }
                    | ast::Statement::Rollback {
                        savepoint: None,
                        ..
                    }
            ),
            _ => true,
        }
}

/// BEGIN, COMMIT or ROLLBACK, if the statement is one.
pub(crate) fn transaction_control(statement: &ast::Statement) -> Result<Option<Control>> {
    Ok(match statement {
        ast::Statement::StartTransaction { modes, begin, .. } => {
            let mut read_only = false;
            for mode in modes {
                match mode {
                    ast::TransactionMode::IsolationLevel(
                        ast::TransactionIsolationLevel::RepeatableRead,
                    ) => {}
                    ast::TransactionMode::IsolationLevel(level) => {
                        return Err(parse::unsupported_level(&level.to_string()));
                    }
                    ast::TransactionMode::AccessMode(mode) => {
                        read_only = *mode == ast::TransactionAccessMode::ReadOnly;
                    }
                }
            }
            Some(Control::Begin {
                read_only,
                tag: if *begin { "BEGIN" } else { "START TRANSACTION" },
            })
        }
        ast::Statement::Commit { chain: false, .. } => Some(Control::Commit),
        ast::Statement::Rollback {
            chain: false,
            savepoint: None,
        } => Some(Control::Rollback),
        ast::Statement::Commit { .. } | ast::Statement::Rollback { .. } => {
            return Err(SqlError::simulator("AND CHAIN"));
        }
        _ => None,
    })
}

/// Plans a statement.
pub(crate) fn plan(binder: &Binder<'_>, command: &Command) -> Result<PlannedStatement> {
    match command {
        Command::Empty => Ok(without_rows(Plan::Empty)),
        Command::Refused(error) => Err(error.clone()),
        Command::SetConstraints => Ok(without_rows(Plan::Utility(Utility::Accept(
            "SET CONSTRAINTS",
        )))),
        Command::SetStorage(_) => Ok(without_rows(Plan::Ddl)),
        Command::AlterAsync(statement) => {
            ddl::check_async(statement)?;
            Ok(one_text_column(Plan::Ddl, "job_id"))
        }
        Command::Sql(statement) => sql(binder, statement),
    }
}

fn sql(binder: &Binder<'_>, statement: &ast::Statement) -> Result<PlannedStatement> {
    use ast::Statement as S;
    match statement {
        S::Query(query) => match &*query.body {
            ast::SetExpr::Insert(inner)
            | ast::SetExpr::Update(inner)
            | ast::SetExpr::Delete(inner) => with_dml(binder, query, inner),
            _ => {
                let planned = plan::query(binder, query, None, None)?;
                let work = if !query.locks.is_empty() {
                    WorkKind::Write
                } else if !binder.relations.borrow().is_empty() {
                    WorkKind::Read
                } else {
                    WorkKind::Trivial
                };
                Ok(query_plan(planned, work))
            }
        },
        S::Insert(_) | S::Update(_) | S::Delete(_) => changed(binder, statement, Vec::new()),
        S::StartTransaction { .. } | S::Commit { .. } | S::Rollback { .. } => {
            // Executed by the session; a level that is refused is refused now.
            transaction_control(statement)?;
            Ok(without_rows(Plan::Empty))
        }
        S::Set(set) => set_parameter(set).map(|utility| without_rows(Plan::Utility(utility))),
        S::Reset(reset) => {
            let name = match &reset.reset {
                ast::Reset::ALL => None,
                ast::Reset::ConfigurationParameter(name) => {
                    Some(settable(&bind::name_parts(name)?.join("."))?)
                }
                ast::Reset::SessionAuthorization => {
                    return Err(SqlError::simulator("RESET SESSION AUTHORIZATION"));
                }
            };
            Ok(without_rows(Plan::Utility(Utility::Reset {
                name,
                tag: "RESET",
            })))
        }
        S::ShowVariable { variable } => show(variable),
        S::Discard { object_type } => Ok(without_rows(Plan::Utility(match object_type {
            ast::DiscardObject::ALL => Utility::Reset {
                name: None,
                tag: "DISCARD ALL",
            },
            _ => return Err(SqlError::simulator("DISCARD of anything but ALL")),
        }))),
        S::Deallocate { name, .. } => {
            let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            let tag = if all { "DEALLOCATE ALL" } else { "DEALLOCATE" };
            Ok(without_rows(Plan::Utility(Utility::Accept(tag))))
        }
        S::Call(function) => call(binder, function),
        S::Explain {
            statement,
            analyze: false,
            ..
        } => {
            let inner = sql(binder, statement)?;
            let lines = explain::lines(&inner.plan);
            Ok(one_text_column(Plan::Lines(lines), "QUERY PLAN"))
        }
        S::Explain { .. } => Err(SqlError::simulator("EXPLAIN ANALYZE")),
        S::CreateIndex(_) => {
            ddl::check(binder.catalog, statement)?;
            Ok(one_text_column(Plan::Ddl, "job_id"))
        }
        other if ddl::is_ddl(other) => {
            ddl::check(binder.catalog, other)?;
            Ok(without_rows(Plan::Ddl))
        }
        S::Prepare { .. } | S::Execute { .. } => Err(SqlError::simulator("SQL-level PREPARE")),
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            Err(SqlError::simulator(format!(
                "the statement {}",
                words.join(" ")
            )))
        }
    }
}

/// A query whose columns of names by OID are shown as names.
fn query_plan(planned: Planned, work: WorkKind) -> PlannedStatement {
    let Planned { mut node, columns } = planned;
    let named = |ty: Type| ty.is_oid() && !matches!(ty.oid, 26 | 28);
    if columns.iter().any(|(_, ty)| named(*ty)) {
        let exprs = columns
            .iter()
            .enumerate()
            .map(|(i, (_, ty))| {
                if named(*ty) {
                    Expr::Cast {
                        expr: Expr::Column(i).boxed(),
                        from: *ty,
                        to: Type::TEXT,
                        explicit: true,
                    }
                } else {
                    Expr::Column(i)
                }
            })
            .collect();
        node = Node::Project {
            input: Box::new(node),
            exprs,
        };
    }
    PlannedStatement {
        plan: Plan::Query {
            node: Box::new(node),
            work,
        },
        columns: Some(described(&columns)),
    }
}

fn described(columns: &Columns) -> Arc<[Column]> {
    columns
        .iter()
        .map(|(name, ty)| Column {
            name: name.clone(),
            ty: *ty,
        })
        .collect()
}

fn changed(
    binder: &Binder<'_>,
    statement: &ast::Statement,
    ctes: Vec<plan::CtePlan>,
) -> Result<PlannedStatement> {
    let (mut dml, tag) = match statement {
        ast::Statement::Insert(insert) => (dml::insert(binder, insert)?, "INSERT 0"),
        ast::Statement::Update(update) => (dml::update(binder, update)?, "UPDATE"),
        ast::Statement::Delete(delete) => (dml::delete(binder, delete)?, "DELETE"),
        _ => return Err(SqlError::simulator("this statement here")),
    };
    dml.ctes = ctes;
    let columns = dml.columns.as_ref().map(described);
    Ok(PlannedStatement {
        plan: Plan::Dml {
            dml: Box::new(dml),
            tag,
        },
        columns,
    })
}

/// WITH … INSERT, UPDATE or DELETE.
fn with_dml(
    binder: &Binder<'_>,
    query: &ast::Query,
    inner: &ast::Statement,
) -> Result<PlannedStatement> {
    let ctes = match &query.with {
        Some(clause) => plan::with(binder, clause, None)?,
        None => Vec::new(),
    };
    changed(binder, inner, ctes)
}

/// Parameters that can be set, with their values at the start. What they would
/// change is not simulated, except that `now()` and the like are always UTC.
const SETTABLE: &[(&str, &str)] = &[
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("DateStyle", "ISO, MDY"),
    ("extra_float_digits", "1"),
    ("IntervalStyle", "postgres"),
    ("search_path", "\"$user\", public"),
    ("standard_conforming_strings", "on"),
    ("TimeZone", "UTC"),
];

/// Parameters that can be shown only.
const FIXED: &[(&str, &str)] = &[
    ("block_size", "8192"),
    ("default_transaction_isolation", "repeatable read"),
    ("default_transaction_read_only", "off"),
    // Not DSQL's: by it a client can tell that it talks to a simulator.
    ("fabric.simulator", "on"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("is_superuser", "off"),
    ("max_connections", "20"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "8"),
    ("server_encoding", "UTF8"),
    ("server_version", "16.15"),
    ("server_version_num", "160015"),
    ("statement_timeout", "0"),
    ("transaction_isolation", "repeatable read"),
    ("transaction_read_only", "off"),
];

/// The name of a parameter as it is spelled.
fn known(name: &str) -> Option<&'static str> {
    SETTABLE
        .iter()
        .chain(FIXED)
        .map(|(known, _)| *known)
        .find(|known| known.eq_ignore_ascii_case(name))
}

/// All parameters and what they are now.
pub(crate) fn parameters(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&'static str, String)> = SETTABLE
        .iter()
        .chain(FIXED)
        .map(|(name, start)| {
            let value = settings.values.get(name).cloned();
            (*name, value.unwrap_or_else(|| (*start).to_owned()))
        })
        .collect();
    all.sort_by_key(|(name, _)| name.to_ascii_lowercase());
    all
}

/// What a parameter is now.
pub(crate) fn parameter(settings: &Settings, name: &str) -> Result<String> {
    parameters(settings)
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .ok_or_else(|| unrecognized(name))
}

fn unrecognized(name: &str) -> SqlError {
    SqlError::new(
        "42704",
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

/// A parameter that may be set, or the error that it may not.
fn settable(name: &str) -> Result<&'static str> {
    SETTABLE
        .iter()
        .map(|(known, _)| *known)
        .find(|known| known.eq_ignore_ascii_case(name))
        .ok_or_else(|| parse::unsupported_parameter(name))
}

fn set_parameter(set: &ast::Set) -> Result<Utility> {
    let text = |expr: &ast::Expr| -> String {
        match expr {
            ast::Expr::Identifier(ident) => ident.value.clone(),
            ast::Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) => text.clone(),
                other => other.to_string(),
            },
            other => other.to_string(),
        }
    };
    let (name, value) = match set {
        ast::Set::SingleAssignment {
            variable, values, ..
        } => {
            let name = bind::name_parts(variable)?.join(".");
            let values: Vec<String> = values.iter().map(text).collect();
            (name, values.join(", "))
        }
        ast::Set::SetTimeZone { value, .. } => ("TimeZone".to_owned(), text(value)),
        ast::Set::SetNames { charset_name, .. } => {
            ("client_encoding".to_owned(), charset_name.value.clone())
        }
        ast::Set::SetNamesDefault {} => ("client_encoding".to_owned(), "UTF8".to_owned()),
        ast::Set::SetRole { .. } | ast::Set::SetSessionAuthorization(_) => {
            return Err(SqlError::simulator(
                "SET ROLE and SET SESSION AUTHORIZATION",
            ));
        }
        _ => return Err(SqlError::simulator("this form of SET")),
    };
    let name = settable(&name)?;
    if value.eq_ignore_ascii_case("default") {
        return Ok(Utility::Reset {
            name: Some(name),
            tag: "SET",
        });
    }
    // Values that would change answers in ways that are not simulated.
    let only = |allowed: &[&str]| -> Result<()> {
        let plain = value.replace(['-', '\''], "").to_ascii_lowercase();
        if allowed.iter().any(|allowed| plain == *allowed) {
            return Ok(());
        }
        Err(SqlError::simulator(format!("{name} = {value}")))
    };
    match name {
        "client_encoding" => only(&["utf8", "unicode"])?,
        "TimeZone" => only(&["utc", "etc/utc", "gmt", "z", "0", "+00:00", "+00"])?,
        "bytea_output" => only(&["hex"])?,
        "standard_conforming_strings" => only(&["on", "true", "1"])?,
        "IntervalStyle" => only(&["postgres"])?,
        "DateStyle" => only(&["iso", "iso, mdy", "iso,mdy", "iso, ymd", "iso, dmy"])?,
        _ => {}
    }
    Ok(Utility::Set { name, value })
}

fn show(variable: &[ast::Ident]) -> Result<PlannedStatement> {
    let name = variable
        .iter()
        .map(|ident| ident.value.as_str())
        .collect::<Vec<_>>()
        .join(" ");
    let name = match name.to_ascii_lowercase().as_str() {
        "all" => {
            let text = |name: &str| Column {
                name: name.to_owned(),
                ty: Type::TEXT,
            };
            return Ok(PlannedStatement {
                plan: Plan::Utility(Utility::ShowAll),
                columns: Some(Arc::from([
                    text("name"),
                    text("setting"),
                    text("description"),
                ])),
            });
        }
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "time zone" => "TimeZone".to_owned(),
        // The parser has dropped the dots of a name such as `app.user`.
        _ => name.replace(' ', "."),
    };
    let known = known(&name).ok_or_else(|| unrecognized(&name))?;
    Ok(one_text_column(Plan::Utility(Utility::Show(known)), known))
}

fn call(binder: &Binder<'_>, function: &ast::Function) -> Result<PlannedStatement> {
    let name = bind::function_name(&function.name)?;
    let args = match &function.args {
        ast::FunctionArguments::List(list) => &list.args[..],
        _ => &[],
    };
    if name != "sys.wait_for_job" {
        return Err(SqlError::new(
            "42883",
            format!("procedure {name} does not exist"),
        )
        .hint("No procedure matches the given name and argument types. You might need to add explicit type casts."));
    }
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg))] = args else {
        return Err(SqlError::new(
            "42883",
            "procedure sys.wait_for_job with these arguments does not exist",
        ));
    };
    let mut bare = arg;
    while let ast::Expr::Nested(inner) = bare {
        bare = inner;
    }
    if matches!(bare, ast::Expr::Subquery(_)) {
        return Err(SqlError::unsupported(
            "cannot use subquery in CALL argument",
        ));
    }
    let scope = Scope::empty();
    let typed = binder.expr(arg, Place::of(&scope, "CALL"))?;
    let id = binder.coerce(typed, Type::TEXT, Context::Implicit)?;
    Ok(without_rows(Plan::Utility(Utility::WaitForJob(id))))
}

/// Executes a small statement.
pub(crate) fn utility(
    db: &Database,
    txn: &Txn,
    settings: &mut Settings,
    utility: &Utility,
    params: &[Value],
    now_us: u64,
) -> Result<Executed> {
    Ok(match utility {
        Utility::Set { name, value } => {
            settings.values.insert(name, value.clone());
            Executed::tag("SET")
        }
        Utility::Reset { name, tag } => {
            match name {
                Some(name) => {
                    settings.values.remove(name);
                }
                None => settings.values.clear(),
            }
            Executed::tag(*tag)
        }
        Utility::Show(name) => {
            let mut value = parameter(settings, name)?;
            if *name == "transaction_read_only" && txn.read_only {
                "on".clone_into(&mut value);
            }
            let mut done = Executed::tag("SHOW");
            done.rows.push(vec![Value::text(value)]);
            done
        }
        Utility::ShowAll => {
            let mut done = Executed::tag("SHOW");
            done.rows = parameters(settings)
                .into_iter()
                .map(|(name, value)| vec![Value::text(name), Value::text(value), Value::text("")])
                .collect();
            done
        }
        Utility::WaitForJob(id) => {
            let cx = Ctx {
                params,
                outer: None,
                run: None,
            };
            let Value::Text(id) = expr::eval(id, &cx, &[])? else {
                return Err(SqlError::new("22004", "job_id must not be null"));
            };
            if !jobs::is_job_id(&id) {
                return Err(SqlError::new("22P02", "Unable to convert text to UUID"));
            }
            let mut done = Executed::tag("CALL");
            // A job that is not known has ended long ago, or never was.
            if let Some(job) = db.jobs.iter().find(|job| job.request.id == *id) {
                done.not_before_us = job.done_us.max(now_us);
            }
            done
        }
        Utility::Accept(tag) => Executed::tag(*tag),
    })
}
