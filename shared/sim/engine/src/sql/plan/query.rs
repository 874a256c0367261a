//! Whole queries: WITH, set operations, VALUES, ORDER BY and LIMIT.

use sqlparser::ast;

use super::from::LockWanted;
use super::select::select;
use super::{Columns, CtePlan, Node, SetOperation, SortKey};
use crate::error::{Result, SqlError};
use crate::sql::bind::{self, Binder, Cte, Place, Scope, ScopeColumn, Typed};
use crate::sql::cast::Context;
use crate::sql::expr::Expr;
use crate::txn::Lock;
use crate::types::Type;
use crate::value::Value;

/// Leaves as many columns as a result can have without a type.
static UNTYPED: [Type; 1_664] = [Type::UNKNOWN; 1_664];

/// A planned query.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub node: Node,
    pub columns: Columns,
}

/// ORDER BY, LIMIT and OFFSET of a query.
pub(super) struct Tail<'q> {
    pub order: &'q [ast::OrderByExpr],
    pub limit: Option<&'q ast::Expr>,
    pub offset: Option<&'q ast::Expr>,
    pub lock: Option<LockWanted>,
}

/// Plans a query. `want` are the types of the columns that its rows go to, if
/// any: what has no type of its own takes them.
pub(crate) fn query(
    binder: &Binder<'_>,
    query: &ast::Query,
    parent: Option<&Scope<'_>>,
    want: Option<&[Type]>,
) -> Result<Planned> {
    binder.deeper(|| {
        let Some(clause) = &query.with else {
            return body(binder, query, parent, want);
        };
        let depth = binder.ctes.borrow().len();
        let planned = with(binder, clause, parent).and_then(|ctes| {
            let planned = body(binder, query, parent, want)?;
            Ok(Planned {
                node: Node::With {
                    ctes,
                    body: Box::new(planned.node),
                },
                columns: planned.columns,
            })
        });
        binder.ctes.borrow_mut().truncate(depth);
        planned
    })
}

/// Plans the common table expressions of a WITH and makes them known.
pub(crate) fn with(
    binder: &Binder<'_>,
    clause: &ast::With,
    parent: Option<&Scope<'_>>,
) -> Result<Vec<CtePlan>> {
    let mut plans = Vec::new();
    for cte in &clause.cte_tables {
        let name = bind::fold(&cte.alias.name);
        let renamed = |columns: Columns| -> Result<Columns> {
            if cte.alias.columns.len() > columns.len() {
                return Err(SqlError::new(
                    "42P10",
                    format!(
                        "WITH query \"{name}\" has {} columns available but {} columns specified",
                        columns.len(),
                        cte.alias.columns.len()
                    ),
                ));
            }
            let mut columns = columns;
            for (column, alias) in columns.iter_mut().zip(&cte.alias.columns) {
                column.0 = bind::fold(&alias.name);
            }
            Ok(columns)
        };
        let slot = binder.take_slot();
        let outside = binder.reach.replace(0);
        if clause.recursive
            && let ast::SetExpr::SetOperation {
                op: ast::SetOperator::Union,
                set_quantifier,
                left,
                right,
            } = &*cte.query.body
        {
            let base = set_expr(binder, left, parent, None)?;
            let columns = renamed(base.columns)?;
            binder.ctes.borrow_mut().push(Cte {
                name: name.clone(),
                slot,
                columns: columns.clone(),
                correlated: false,
            });
            let step = set_expr(binder, right, parent, None)?;
            let types: Vec<Type> = columns.iter().map(|(_, ty)| *ty).collect();
            let step = converted(binder, step, &types, "UNION")?;
            plans.push(CtePlan {
                slot,
                plan: base.node,
                step: Some(step),
                union_all: matches!(set_quantifier, ast::SetQuantifier::All),
            });
            let reach = binder.reach.get();
            if let Some(cte) = binder.ctes.borrow_mut().last_mut() {
                cte.correlated = reach > 0;
            }
            binder.reach.set(outside.max(reach));
            continue;
        }
        if matches!(
            &*cte.query.body,
            ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_)
        ) {
            return Err(SqlError::simulator("a data-modifying statement in WITH"));
        }
        let planned = query(binder, &cte.query, parent, None)?;
        let columns = renamed(planned.columns)?;
        let reach = binder.reach.get();
        binder.reach.set(outside.max(reach));
        binder.ctes.borrow_mut().push(Cte {
            name,
            slot,
            columns,
            correlated: reach > 0,
        });
        plans.push(CtePlan {
            slot,
            plan: planned.node,
            step: None,
            union_all: true,
        });
    }
    Ok(plans)
}

fn lock_wanted(query: &ast::Query) -> Result<Option<LockWanted>> {
    let [] = query.locks.as_slice() else {
        let [lock] = query.locks.as_slice() else {
            return Err(SqlError::simulator("several locking clauses"));
        };
        // The pre-pass has refused FOR SHARE and turned FOR KEY SHARE into it.
        let kind = match lock.lock_type {
            ast::LockType::Update => Lock::Update,
            ast::LockType::Share => Lock::KeyShare,
        };
        if lock.nonblock.is_some() {
            return Err(SqlError::simulator("NOWAIT and SKIP LOCKED"));
        }
        let of = match &lock.of {
            Some(name) => Some(bind::qualified(name)?.1),
            None => None,
        };
        return Ok(Some(LockWanted { lock: kind, of }));
    };
    Ok(None)
}

fn body(
    binder: &Binder<'_>,
    query: &ast::Query,
    parent: Option<&Scope<'_>>,
    want: Option<&[Type]>,
) -> Result<Planned> {
    if query.for_clause.is_some() || query.settings.is_some() || !query.pipe_operators.is_empty() {
        return Err(SqlError::simulator("this form of query"));
    }
    let order = match &query.order_by {
        None => &[][..],
        Some(ast::OrderBy {
            kind: ast::OrderByKind::Expressions(exprs),
            ..
        }) => exprs,
        Some(_) => return Err(SqlError::syntax("ALL")),
    };
    let (limit, offset) = match &query.limit_clause {
        None => (None, None),
        Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
            return Err(SqlError::new("42601", "LIMIT #,# syntax is not supported"));
        }
    };
    let limit = match &query.fetch {
        Some(ast::Fetch {
            with_ties: false,
            percent: false,
            quantity,
        }) => quantity.as_ref().or(limit),
        Some(_) => return Err(SqlError::simulator("this form of FETCH")),
        None => limit,
    };
    let tail = Tail {
        order,
        limit,
        offset,
        lock: lock_wanted(query)?,
    };
    match &*query.body {
        ast::SetExpr::Select(inner) => select(binder, inner, parent, &tail, want),
        other => {
            if tail.lock.is_some() {
                return Err(SqlError::unsupported(
                    "FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT",
                ));
            }
            let planned = set_expr(binder, other, parent, want)?;
            finish(binder, planned, &tail)
        }
    }
}

/// LIMIT or OFFSET as an expression.
pub(super) fn count(binder: &Binder<'_>, expr: &ast::Expr, clause: &'static str) -> Result<Expr> {
    let scope = Scope::empty();
    let typed = binder.expr(expr, Place::of(&scope, clause))?;
    binder.coerce(typed, Type::INT8, Context::Assignment)
}

/// Sorts and cuts a result by its own columns.
fn finish(binder: &Binder<'_>, planned: Planned, tail: &Tail<'_>) -> Result<Planned> {
    let Planned { mut node, columns } = planned;
    if !tail.order.is_empty() {
        let scope = Scope {
            columns: columns
                .iter()
                .map(|(name, ty)| ScopeColumn {
                    table: String::new(),
                    name: name.clone(),
                    ty: *ty,
                    hidden: false,
                })
                .collect(),
            parent: None,
        };
        let mut keys = Vec::new();
        for key in tail.order {
            let expr = match position(&key.expr, columns.len(), "ORDER BY")? {
                Some(at) => Expr::Column(at),
                None => {
                    match binder.expr(&key.expr, Place::of(&scope, "ORDER BY"))?.expr {
                        column @ Expr::Column(_) => column,
                        _ => {
                            return Err(SqlError::new(
                            "0A000",
                            "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                        )
                        .detail("Only result column names can be used, not expressions or functions."));
                        }
                    }
                }
            };
            keys.push(SortKey::new(expr, &key.options));
        }
        node = Node::Sort {
            input: Box::new(node),
            keys,
        };
    }
    Ok(Planned {
        node: limited(binder, node, tail)?,
        columns,
    })
}

pub(super) fn limited(binder: &Binder<'_>, node: Node, tail: &Tail<'_>) -> Result<Node> {
    if tail.limit.is_none() && tail.offset.is_none() {
        return Ok(node);
    }
    // LIMIT ALL parses as a column of that name.
    let all = |expr: &&ast::Expr| !matches!(expr, ast::Expr::Identifier(ident) if ident.value.eq_ignore_ascii_case("all"));
    Ok(Node::Limit {
        input: Box::new(node),
        limit: tail
            .limit
            .filter(all)
            .map(|expr| count(binder, expr, "LIMIT"))
            .transpose()?,
        offset: tail
            .offset
            .map(|expr| count(binder, expr, "OFFSET"))
            .transpose()?,
    })
}

/// The column that `ORDER BY 2` or `GROUP BY 2` means.
pub(super) fn position(expr: &ast::Expr, columns: usize, clause: &str) -> Result<Option<usize>> {
    let ast::Expr::Value(value) = expr else {
        return Ok(None);
    };
    match &value.value {
        ast::Value::Number(digits, _) => match digits.parse::<usize>() {
            Ok(n) if (1..=columns).contains(&n) => Ok(Some(n - 1)),
            Ok(n) => Err(SqlError::new(
                "42P10",
                format!("{clause} position {n} is not in select list"),
            )),
            Err(_) => Err(SqlError::new(
                "42601",
                format!("non-integer constant in {clause}"),
            )),
        },
        ast::Value::SingleQuotedString(_) => Err(SqlError::new(
            "42601",
            format!("non-integer constant in {clause}"),
        )),
        _ => Ok(None),
    }
}

fn set_expr(
    binder: &Binder<'_>,
    expr: &ast::SetExpr,
    parent: Option<&Scope<'_>>,
    want: Option<&[Type]>,
) -> Result<Planned> {
    binder.deeper(|| any_set_expr(binder, expr, parent, want))
}

fn any_set_expr(
    binder: &Binder<'_>,
    expr: &ast::SetExpr,
    parent: Option<&Scope<'_>>,
    want: Option<&[Type]>,
) -> Result<Planned> {
    match expr {
        ast::SetExpr::Select(inner) => {
            let tail = Tail {
                order: &[],
                limit: None,
                offset: None,
                lock: None,
            };
            select(binder, inner, parent, &tail, want)
        }
        ast::SetExpr::Query(inner) => query(binder, inner, parent, want),
        ast::SetExpr::Values(values) => self::values(binder, values, parent, want),
        ast::SetExpr::SetOperation {
            left,
            op,
            set_quantifier,
            right,
        } => {
            // What has no type takes that of the other side.
            let left = set_expr(binder, left, parent, Some(&UNTYPED))?;
            let right = set_expr(binder, right, parent, Some(&UNTYPED))?;
            let (op, word) = match op {
                ast::SetOperator::Union => (SetOperation::Union, "UNION"),
                ast::SetOperator::Intersect => (SetOperation::Intersect, "INTERSECT"),
                ast::SetOperator::Except | ast::SetOperator::Minus => {
                    (SetOperation::Except, "EXCEPT")
                }
            };
            let all = match set_quantifier {
                ast::SetQuantifier::All => true,
                ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
                _ => return Err(SqlError::syntax("BY")),
            };
            if left.columns.len() != right.columns.len() {
                return Err(SqlError::new(
                    "42601",
                    format!("each {word} query must have the same number of columns"),
                ));
            }
            let mut types = Vec::new();
            for ((_, a), (_, b)) in left.columns.iter().zip(&right.columns) {
                types.push(binder.common_type(&[*a, *b], word)?);
            }
            let columns = left
                .columns
                .iter()
                .zip(&types)
                .map(|((name, _), ty)| (name.clone(), *ty))
                .collect();
            Ok(Planned {
                node: Node::SetOperation {
                    op,
                    all,
                    left: Box::new(converted(binder, left, &types, word)?),
                    right: Box::new(converted(binder, right, &types, word)?),
                },
                columns,
            })
        }
        ast::SetExpr::Insert(_)
        | ast::SetExpr::Update(_)
        | ast::SetExpr::Delete(_)
        | ast::SetExpr::Merge(_) => Err(SqlError::simulator("a data-modifying query here")),
        ast::SetExpr::Table(_) => Err(SqlError::simulator("the TABLE command")),
    }
}

/// A result with its columns converted to types.
fn converted(
    binder: &Binder<'_>,
    mut planned: Planned,
    types: &[Type],
    word: &str,
) -> Result<Node> {
    if planned.columns.len() != types.len() {
        return Err(SqlError::new(
            "42601",
            format!("each {word} query must have the same number of columns"),
        ));
    }
    // What has no type yet gets it where it stands.
    if let Node::Project { exprs, .. } = &mut planned.node {
        for ((expr, (_, from)), to) in exprs.iter_mut().zip(&mut planned.columns).zip(types) {
            if from.is_unknown() {
                let untyped = Typed::new(std::mem::replace(expr, Expr::null()), *from);
                *expr = binder.coerce(untyped, to.plain(), Context::Implicit)?;
                *from = *to;
            }
        }
    }
    let mut same = true;
    let mut exprs = Vec::new();
    for (i, ((_, from), to)) in planned.columns.iter().zip(types).enumerate() {
        let column = Typed::new(Expr::Column(i), *from);
        let expr = binder.coerce(column, to.plain(), Context::Implicit)?;
        same = same && expr == Expr::Column(i);
        exprs.push(expr);
    }
    if same {
        return Ok(planned.node);
    }
    Ok(Node::Project {
        input: Box::new(planned.node),
        exprs,
    })
}

/// VALUES: each column has the one type that its values share, or the wanted
/// one.
fn values(
    binder: &Binder<'_>,
    values: &ast::Values,
    parent: Option<&Scope<'_>>,
    want: Option<&[Type]>,
) -> Result<Planned> {
    let scope = Scope {
        columns: Vec::new(),
        parent,
    };
    let place = Place::of(&scope, "VALUES");
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let mut rows: Vec<Vec<Typed>> = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        if row.content.len() != width {
            return Err(SqlError::new(
                "42601",
                "VALUES lists must all be the same length",
            ));
        }
        rows.push(binder.exprs(&row.content, place)?);
    }
    let mut types = Vec::new();
    for column in 0..width {
        let wanted = want.and_then(|want| want.get(column)).copied();
        let given: Vec<Type> = rows.iter().map(|row| row[column].ty).collect();
        let ty = match wanted {
            // A single row, or untyped ones, go straight to their column.
            Some(ty) if given.iter().all(|given| given.is_unknown()) => ty.plain(),
            _ => binder.common_type(&given, "VALUES")?,
        };
        types.push(ty);
    }
    let rows: Result<Vec<Vec<Expr>>> = rows
        .into_iter()
        .map(|row| {
            row.into_iter()
                .zip(&types)
                .map(|(typed, ty)| binder.coerce(typed, ty.plain(), Context::Implicit))
                .collect()
        })
        .collect();
    let columns = types
        .into_iter()
        .enumerate()
        .map(|(i, ty)| (format!("column{}", i + 1), ty))
        .collect();
    Ok(Planned {
        node: Node::Values(rows?),
        columns,
    })
}

/// A constant that stands for a missing value.
pub(super) fn is_null_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(Value::Null))
}
