//! Planning: a query as a tree of operators.
//!
//! Joins are made in the order in which they are written; what the planner
//! chooses is how each table is reached (a point, a prefix, a range of the
//! primary key or of an index, or all of it), where every condition is tested
//! (as deep as it can be), and whether an ORDER BY comes for free.

pub(crate) mod access;
mod from;
mod query;
mod select;

use sqlparser::ast;

pub(crate) use access::{Access, KeyPart, Scan};
pub(crate) use from::FromClause;
pub(crate) use query::{Planned, query, with};
pub(crate) use select::{item_name, returning};

use super::aggregate::{AggregateCall, WindowCall};
use super::expr::Expr;
use crate::txn::Lock;
use crate::types::Type;
use crate::value::Value;

/// An operator. It hands its rows to the one above it, one by one, until that
/// says that it has enough.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// One row without columns.
    One,
    Values(Vec<Vec<Expr>>),
    Scan(Box<Scan>),
    /// A table of the system, whose rows are made when asked for.
    System(&'static crate::pgcatalog::SystemTable),
    Function(TableFunction),
    Filter {
        input: Box<Node>,
        predicate: Expr,
    },
    Project {
        input: Box<Node>,
        exprs: Vec<Expr>,
    },
    /// A projection with functions that give several rows.
    ProjectSet {
        input: Box<Node>,
        items: Vec<SetItem>,
    },
    Join(Box<Join>),
    /// For every row of the left, rows of a table by a key made of it.
    Probe(Box<Probe>),
    Aggregate(Box<Aggregation>),
    Window {
        input: Box<Node>,
        calls: Vec<WindowCall>,
    },
    /// Distinct rows by their first `columns` columns.
    Distinct {
        input: Box<Node>,
        columns: usize,
    },
    Sort {
        input: Box<Node>,
        keys: Vec<SortKey>,
    },
    Limit {
        input: Box<Node>,
        limit: Option<Expr>,
        offset: Option<Expr>,
    },
    SetOperation {
        op: SetOperation,
        all: bool,
        left: Box<Node>,
        right: Box<Node>,
    },
    /// Computes common table expressions, then the body.
    With {
        ctes: Vec<CtePlan>,
        body: Box<Node>,
    },
    Cte(usize),
    /// Claims the rows whose keys stand in these columns.
    Lock {
        input: Box<Node>,
        lock: Lock,
        /// Tables and columns.
        keys: Vec<(u32, usize)>,
    },
}

/// A function in FROM.
#[derive(Clone, Debug)]
pub(crate) struct TableFunction {
    pub kind: TableFunctionKind,
    pub args: Vec<Expr>,
    pub ordinality: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableFunctionKind {
    /// Integers or decimals from, to and by.
    Series,
    /// One column per array; the shorter ones are filled up with NULL.
    Unnest,
    /// One row with the value of an ordinary function.
    Scalar,
}

/// A column of a [`Node::ProjectSet`].
#[derive(Clone, Debug)]
pub(crate) enum SetItem {
    Scalar(Expr),
    Set(TableFunction),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub kind: JoinKind,
    pub left: Node,
    pub right: Node,
    pub left_width: usize,
    pub right_width: usize,
    /// Columns that must be equal: expressions over the left and the right row.
    pub hash: Vec<(Expr, Expr)>,
    /// What else must hold, over both.
    pub on: Option<Expr>,
    /// The right side looks at the row of the left.
    pub lateral: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub outer_join: bool,
    pub left: Node,
    pub scan: Scan,
    pub right_width: usize,
    pub on: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    pub input: Node,
    pub groups: Vec<Expr>,
    /// Which of the groups count, for each grouping set; one set with all of
    /// them for a plain GROUP BY.
    pub sets: Vec<Vec<bool>>,
    pub calls: Vec<AggregateCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOperation {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug)]
pub(crate) struct CtePlan {
    pub slot: usize,
    pub plan: Node,
    /// The step of a recursive one, run until it gives nothing new.
    pub step: Option<Node>,
    pub union_all: bool,
}

/// One key of a sort.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortKey {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

impl SortKey {
    pub(crate) fn new(expr: Expr, options: &ast::OrderByOptions) -> SortKey {
        let descending = matches!(options.sort, Some(ast::OrderBySort::Desc));
        SortKey {
            expr,
            descending,
            nulls_first: options.nulls_first.unwrap_or(descending),
        }
    }

    /// Order of two rows of sort values.
    pub(crate) fn compare(keys: &[SortKey], a: &[Value], b: &[Value]) -> std::cmp::Ordering {
        use std::cmp::Ordering;
        for ((key, a), b) in keys.iter().zip(a).zip(b) {
            let order = match (a.is_null(), b.is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) if key.nulls_first => Ordering::Less,
                (true, false) => Ordering::Greater,
                (false, true) if key.nulls_first => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) if key.descending => b.compare(a),
                (false, false) => a.compare(b),
            };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// Takes a condition apart into conditions that must all hold; comparisons of
/// rows with `=` are taken apart as well.
pub(crate) fn conjuncts(expr: Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::And(parts) => parts.into_iter().for_each(|part| conjuncts(part, out)),
        Expr::Const(Value::Bool(true)) => {}
        Expr::Compare {
            op: super::expr::Comparison::Eq,
            left,
            right,
        } => match (*left, *right) {
            (Expr::Row(lefts), Expr::Row(rights)) if lefts.len() == rights.len() => {
                for ((_, left), (_, right)) in lefts.into_iter().zip(rights) {
                    conjuncts(Expr::equal(left, right), out);
                }
            }
            (left, right) => out.push(Expr::equal(left, right)),
        },
        other => out.push(other),
    }
}

/// All of the conditions as one, `None` when there are none.
pub(crate) fn all_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    match conditions.len() {
        0 => None,
        1 => conditions.pop(),
        _ => Some(Expr::And(conditions)),
    }
}

/// A node behind a filter, if there is anything to test.
pub(crate) fn filtered(input: Node, conditions: Vec<Expr>) -> Node {
    match all_of(conditions) {
        Some(predicate) => Node::Filter {
            input: Box::new(input),
            predicate,
        },
        None => input,
    }
}

/// Names and types of a result.
pub(crate) type Columns = Vec<(String, Type)>;
