//! Expressions after binding: every name is a position, every type known,
//! every conversion explicit. What is left is to compute.

mod eval;
mod number;

pub(crate) use eval::{any_of, eval, eval_ref, holds};
pub(crate) use number::arithmetic;

use crate::error::{Result, SqlError};
use crate::sql::exec::Run;
use crate::sql::functions::Function;
use crate::sql::plan::Node;
use crate::types::Type;
use crate::value::Value;
use std::sync::Arc;

/// A bound expression over a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Const(Value),
    Param(usize),
    Column(usize),
    /// A column of a row further out, `depth` queries up.
    Outer {
        depth: usize,
        column: usize,
    },
    Compare {
        op: Comparison,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        expr: Box<Expr>,
        negated: bool,
    },
    /// IS [NOT] TRUE, FALSE, UNKNOWN (`None`).
    IsBool {
        expr: Box<Expr>,
        value: Option<bool>,
        negated: bool,
    },
    Distinct {
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    Arithmetic {
        op: Arithmetic,
        class: Class,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Call {
        function: &'static Function,
        args: Vec<Expr>,
    },
    Cast {
        expr: Box<Expr>,
        from: Type,
        to: Type,
        explicit: bool,
    },
    Case {
        branches: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Coalesce(Vec<Expr>),
    /// The largest (or smallest) of what is not NULL.
    Extreme {
        args: Vec<Expr>,
        greatest: bool,
    },
    InList {
        expr: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    /// `expr op ANY (array)`, or ALL.
    AnyArray {
        expr: Box<Expr>,
        op: Comparison,
        array: Box<Expr>,
        all: bool,
    },
    Subquery(Box<Subquery>),
    Row(Vec<(Type, Expr)>),
    Array {
        element: Type,
        items: Vec<Expr>,
    },
    /// The `n`th aggregate of a query; replaced by a column before execution.
    Aggregate(usize),
    /// The `n`th window function; replaced by a column before execution.
    Window(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Comparison {
    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Eq => order.is_eq(),
            Comparison::Ne => order.is_ne(),
            Comparison::Lt => order.is_lt(),
            Comparison::Le => order.is_le(),
            Comparison::Gt => order.is_gt(),
            Comparison::Ge => order.is_ge(),
        }
    }

    /// The same comparison with its sides exchanged.
    pub(crate) fn mirrored(self) -> Comparison {
        match self {
            Comparison::Lt => Comparison::Gt,
            Comparison::Le => Comparison::Ge,
            Comparison::Gt => Comparison::Lt,
            Comparison::Ge => Comparison::Le,
            same => same,
        }
    }

    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Comparison::Eq => "=",
            Comparison::Ne => "<>",
            Comparison::Lt => "<",
            Comparison::Le => "<=",
            Comparison::Gt => ">",
            Comparison::Ge => ">=",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

/// What arithmetic is done in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Int2,
    Int4,
    Int8,
    Numeric,
    Float4,
    Float8,
}

/// How a subquery is used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SubqueryKind {
    Scalar,
    Exists,
    /// `(exprs) op ANY (subquery)`; IN is `= ANY`.
    Any {
        exprs: Vec<Expr>,
        op: Comparison,
        /// ALL instead of ANY.
        all: bool,
    },
    /// ARRAY(subquery)
    Array(Type),
}

/// A subquery within an expression.
#[derive(Clone, Debug)]
pub(crate) struct Subquery {
    pub kind: SubqueryKind,
    pub plan: Arc<Node>,
    /// Whether it looks at outer rows; if not, it runs once a statement.
    pub correlated: bool,
    /// Where its rows are kept when it is not.
    pub slot: usize,
    pub negated: bool,
}

impl PartialEq for Subquery {
    fn eq(&self, other: &Subquery) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan) && self.kind == other.kind
    }
}

/// Rows of the queries around this one, the nearest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outer<'a> {
    pub row: &'a [Value],
    pub next: Option<&'a Outer<'a>>,
}

/// What an expression may look at beside its row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ctx<'a> {
    pub params: &'a [Value],
    pub outer: Option<&'a Outer<'a>>,
    /// The running statement; `None` where an expression stands alone, as in an
    /// index.
    pub run: Option<&'a Run<'a>>,
}

impl<'a> Ctx<'a> {
    /// For expressions that stand alone.
    pub(crate) fn bare() -> Ctx<'a> {
        Ctx {
            params: &[],
            outer: None,
            run: None,
        }
    }

    pub(crate) fn run(&self) -> Result<&'a Run<'a>> {
        self.run.ok_or_else(|| {
            SqlError::new(
                "42P17",
                "functions in index expression must be marked IMMUTABLE",
            )
        })
    }
}

impl Expr {
    pub(crate) fn boxed(self) -> Box<Expr> {
        Box::new(self)
    }

    pub(crate) fn null() -> Expr {
        Expr::Const(Value::Null)
    }

    pub(crate) fn equal(left: Expr, right: Expr) -> Expr {
        Expr::Compare {
            op: Comparison::Eq,
            left: left.boxed(),
            right: right.boxed(),
        }
    }

    /// Calls `f` for every direct part.
    pub(crate) fn for_each_part<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        match self {
            Expr::Const(_)
            | Expr::Param(_)
            | Expr::Column(_)
            | Expr::Outer { .. }
            | Expr::Aggregate(_)
            | Expr::Window(_) => {}
            Expr::Compare { left, right, .. }
            | Expr::Distinct { left, right, .. }
            | Expr::Arithmetic { left, right, .. } => {
                f(left);
                f(right);
            }
            Expr::And(parts) | Expr::Or(parts) | Expr::Coalesce(parts) => parts.iter().for_each(f),
            Expr::Extreme { args, .. } | Expr::Call { args, .. } => args.iter().for_each(f),
            Expr::Not(expr)
            | Expr::IsNull { expr, .. }
            | Expr::IsBool { expr, .. }
            | Expr::Cast { expr, .. } => f(expr),
            Expr::Case {
                branches,
                otherwise,
            } => {
                for (when, then) in branches {
                    f(when);
                    f(then);
                }
                f(otherwise);
            }
            Expr::InList { expr, list, .. } => {
                f(expr);
                list.iter().for_each(f);
            }
            Expr::AnyArray { expr, array, .. } => {
                f(expr);
                f(array);
            }
            Expr::Subquery(subquery) => {
                if let SubqueryKind::Any { exprs, .. } = &subquery.kind {
                    exprs.iter().for_each(f);
                }
            }
            Expr::Row(fields) => fields.iter().for_each(|(_, field)| f(field)),
            Expr::Array { items, .. } => items.iter().for_each(f),
        }
    }

    /// Rewrites every direct part.
    pub(crate) fn map_parts(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        match self {
            Expr::Const(_)
            | Expr::Param(_)
            | Expr::Column(_)
            | Expr::Outer { .. }
            | Expr::Aggregate(_)
            | Expr::Window(_) => {}
            Expr::Compare { left, right, .. }
            | Expr::Distinct { left, right, .. }
            | Expr::Arithmetic { left, right, .. } => {
                f(left);
                f(right);
            }
            Expr::And(parts) | Expr::Or(parts) | Expr::Coalesce(parts) => {
                parts.iter_mut().for_each(f);
            }
            Expr::Extreme { args, .. } | Expr::Call { args, .. } => args.iter_mut().for_each(f),
            Expr::Not(expr)
            | Expr::IsNull { expr, .. }
            | Expr::IsBool { expr, .. }
            | Expr::Cast { expr, .. } => f(expr),
            Expr::Case {
                branches,
                otherwise,
            } => {
                for (when, then) in branches {
                    f(when);
                    f(then);
                }
                f(otherwise);
            }
            Expr::InList { expr, list, .. } => {
                f(expr);
                list.iter_mut().for_each(f);
            }
            Expr::AnyArray { expr, array, .. } => {
                f(expr);
                f(array);
            }
            Expr::Subquery(subquery) => {
                if let SubqueryKind::Any { exprs, .. } = &mut subquery.kind {
                    exprs.iter_mut().for_each(f);
                }
            }
            Expr::Row(fields) => fields.iter_mut().for_each(|(_, field)| f(field)),
            Expr::Array { items, .. } => items.iter_mut().for_each(f),
        }
    }

    /// Whether any part, or the whole, is so.
    pub(crate) fn any(&self, is: &dyn Fn(&Expr) -> bool) -> bool {
        if is(self) {
            return true;
        }
        let mut found = false;
        self.for_each_part(&mut |part| found = found || part.any(is));
        found
    }

    /// Calls `f` with every column of the row itself. A correlated subquery
    /// looks at the row in ways that are not listed: `None` stands for that.
    pub(crate) fn columns(&self, f: &mut dyn FnMut(Option<usize>)) {
        match self {
            Expr::Column(column) => f(Some(*column)),
            Expr::Subquery(subquery) if subquery.correlated => f(None),
            _ => {}
        }
        self.for_each_part(&mut |part| part.columns(f));
    }

    /// Whether all columns that it looks at lie in `range`.
    pub(crate) fn only_in(&self, range: &std::ops::Range<usize>) -> bool {
        let mut only = true;
        self.columns(&mut |column| {
            only = only && column.is_some_and(|column| range.contains(&column));
        });
        only
    }

    /// Moves every column by `offset` to the left.
    pub(crate) fn shifted(mut self, offset: usize) -> Expr {
        fn shift(expr: &mut Expr, offset: usize) {
            if let Expr::Column(column) = expr {
                *column -= offset;
            }
            expr.map_parts(&mut |part| shift(part, offset));
        }
        if offset > 0 {
            shift(&mut self, offset);
        }
        self
    }

    /// Whether it gives the same value whenever it is computed within one
    /// statement, whatever the row.
    pub(crate) fn is_constant(&self) -> bool {
        !self.any(&|part| match part {
            Expr::Column(_) | Expr::Aggregate(_) | Expr::Window(_) => true,
            Expr::Subquery(_) => true,
            Expr::Call { function, .. } => function.volatile,
            _ => false,
        })
    }
}
