//! FROM: what names mean, and how the tables come together.

mod factor;
mod join;

pub(crate) use factor::table_function;

use join::{build, with_implied};

use crate::catalog::Table;
use crate::error::{Result, SqlError};
use crate::sql::bind::{self, Binder, Place, Scope, ScopeColumn, Typed};
use crate::sql::expr::{Comparison, Expr};
use crate::sql::operators;
use crate::sql::plan::access::Wanted;
use crate::sql::plan::{JoinKind, Node, conjuncts, filtered};
use crate::txn::Lock;
use sqlparser::ast;
use std::ops::Range;
use std::sync::Arc;

/// Tables to be claimed by FOR UPDATE or FOR KEY SHARE.
#[derive(Clone, Debug)]
pub(crate) struct LockWanted {
    pub lock: Lock,
    /// The one alias that OF names; all tables otherwise.
    pub of: Option<String>,
}

/// A tree of joins. Columns are numbered from left to right over all of FROM.
#[derive(Debug)]
enum Tree {
    Leaf {
        source: Source,
        columns: Range<usize>,
    },
    Join {
        kind: JoinKind,
        left: Box<Tree>,
        right: Box<Tree>,
        on: Vec<Expr>,
        lateral: bool,
    },
}

#[derive(Debug)]
enum Source {
    Table { table: Arc<Table>, with_key: bool },
    Node(Node),
}

impl Tree {
    fn columns(&self) -> Range<usize> {
        match self {
            Tree::Leaf { columns, .. } => columns.clone(),
            Tree::Join { left, right, .. } => left.columns().start..right.columns().end,
        }
    }
}

/// A bound FROM clause.
pub(crate) struct FromClause {
    tree: Option<Tree>,
    pub columns: Vec<ScopeColumn>,
    /// Tables to claim and the columns that hold their keys.
    pub lock_keys: Vec<(u32, usize)>,
    /// Columns of each table that has a primary key, and the key's.
    pub keys: Vec<(Range<usize>, Vec<usize>)>,
}

/// A node and whether its rows come in the wanted order.
pub(crate) struct Built {
    pub node: Node,
    pub ordered: bool,
}

struct Builder<'a, 'b> {
    binder: &'a Binder<'b>,
    parent: Option<&'a Scope<'a>>,
    lock: Option<&'a LockWanted>,
    columns: Vec<ScopeColumn>,
    lock_keys: Vec<(u32, usize)>,
    keys: Vec<(Range<usize>, Vec<usize>)>,
    /// Names and aliases so far.
    labels: Vec<String>,
}

impl FromClause {
    /// Binds the items of a FROM clause, behind the target of a DML statement
    /// if there is one (whose rows then carry their keys).
    pub(crate) fn bind(
        binder: &Binder<'_>,
        target: Option<(&Arc<Table>, &str)>,
        items: &[ast::TableWithJoins],
        parent: Option<&Scope<'_>>,
        lock: Option<&LockWanted>,
    ) -> Result<FromClause> {
        let mut builder = Builder {
            binder,
            parent,
            lock,
            columns: Vec::new(),
            lock_keys: Vec::new(),
            keys: Vec::new(),
            labels: Vec::new(),
        };
        let mut tree = target.map(|(table, alias)| builder.table(table, alias, true));
        builder
            .labels
            .extend(target.map(|(_, alias)| alias.to_owned()));
        for item in items {
            tree = Some(builder.item(tree, item)?);
        }
        if let Some(of) = lock.and_then(|lock| lock.of.as_ref())
            && !builder.columns.iter().any(|column| column.table == *of)
        {
            return Err(SqlError::new(
                "42P01",
                format!("relation \"{of}\" in FOR UPDATE clause not found in FROM clause"),
            ));
        }
        Ok(FromClause {
            tree,
            columns: builder.columns,
            lock_keys: builder.lock_keys,
            keys: builder.keys,
        })
    }

    /// Builds the operators, testing each condition as early as possible.
    pub(crate) fn build(self, conditions: Vec<Expr>, wanted: &[Wanted]) -> Built {
        match self.tree {
            Some(tree) => {
                let conditions = with_implied(conditions, &tree);
                build(tree, conditions, wanted)
            }
            None => Built {
                node: filtered(Node::One, conditions),
                ordered: true,
            },
        }
    }
}

impl Builder<'_, '_> {
    /// One comma-separated item, joined to what stands before it.
    fn item(&mut self, before: Option<Tree>, item: &ast::TableWithJoins) -> Result<Tree> {
        // `a, b JOIN c` is the same as `(a, b) JOIN c` unless rows of c are
        // kept that b has no match for.
        let chain = item.joins.iter().all(|join| {
            matches!(
                kind(&join.join_operator),
                Ok((JoinKind::Inner | JoinKind::Left, _))
            )
        });
        if chain || item.joins.is_empty() {
            let mut tree = match before {
                Some(before) => {
                    let lateral = self.columns.len();
                    let (right, looks_left) = self.factor(&item.relation, lateral)?;
                    join(JoinKind::Inner, before, right, Vec::new(), looks_left)
                }
                None => self.factor(&item.relation, 0)?.0,
            };
            let start = match &tree {
                Tree::Join { right, .. } if !item.joins.is_empty() => right.columns().start,
                other => other.columns().start,
            };
            for one in &item.joins {
                tree = self.join(tree, one, start)?;
            }
            return Ok(tree);
        }
        let start = self.columns.len();
        let mut tree = self.factor(&item.relation, 0)?.0;
        for one in &item.joins {
            tree = self.join(tree, one, start)?;
        }
        Ok(match before {
            Some(before) => join(JoinKind::Inner, before, tree, Vec::new(), false),
            None => tree,
        })
    }

    /// Joins one more table. Names of USING are looked up from column `start`.
    fn join(&mut self, left: Tree, one: &ast::Join, start: usize) -> Result<Tree> {
        let (kind, constraint) = kind(&one.join_operator)?;
        let middle = self.columns.len();
        let (right, lateral) = self.factor(&one.relation, middle)?;
        let end = self.columns.len();
        let mut on = Vec::new();
        match constraint {
            ast::JoinConstraint::None => {}
            ast::JoinConstraint::On(expr) => {
                let scope = Scope {
                    columns: self.columns.clone(),
                    parent: self.parent,
                };
                let place = Place::of(&scope, "JOIN/ON");
                conjuncts(self.binder.condition(expr, place)?, &mut on);
            }
            ast::JoinConstraint::Using(names) => {
                for name in names {
                    let (_, name) = bind::qualified(name)?;
                    on.push(self.using(&name, start..middle, middle..end, kind)?);
                }
            }
            ast::JoinConstraint::Natural => {
                let names: Vec<String> = self.columns[start..middle]
                    .iter()
                    .filter(|column| !column.hidden)
                    .map(|column| column.name.clone())
                    .collect();
                for name in names {
                    let both = self.columns[middle..end]
                        .iter()
                        .any(|column| !column.hidden && column.name == name);
                    if both {
                        on.push(self.using(&name, start..middle, middle..end, kind)?);
                    }
                }
            }
            ast::JoinConstraint::UsingAlias(..) => {
                return Err(SqlError::simulator("JOIN USING with an alias"));
            }
        }
        // Both look at rows whose columns are numbered from the first table on.
        let correlated = |part: &Expr| matches!(part, Expr::Subquery(sub) if sub.correlated);
        if left.columns().start > 0 && (lateral || on.iter().any(|on| on.any(&correlated))) {
            return Err(SqlError::simulator(
                "a lateral reference within a nested join",
            ));
        }
        Ok(join(kind, left, right, on, lateral))
    }

    fn using(
        &mut self,
        name: &str,
        left: Range<usize>,
        right: Range<usize>,
        kind: JoinKind,
    ) -> Result<Expr> {
        let find = |range: Range<usize>| {
            range
                .into_iter()
                .find(|i| !self.columns[*i].hidden && self.columns[*i].name == name)
        };
        let missing = |side: &str| {
            SqlError::new(
                "42703",
                format!(
                    "column \"{name}\" specified in USING clause does not exist in {side} table"
                ),
            )
        };
        let l = find(left).ok_or_else(|| missing("left"))?;
        let r = find(right).ok_or_else(|| missing("right"))?;
        if kind == JoinKind::Full {
            return Err(SqlError::simulator("FULL JOIN with USING"));
        }
        let column = |i: usize| Typed::new(Expr::Column(i), self.columns[i].ty);
        let on = operators::compare(self.binder, Comparison::Eq, column(l), column(r))?;
        // The merged column is the one that is never filled up with NULL.
        let hidden = if kind == JoinKind::Right { l } else { r };
        self.columns[hidden].hidden = true;
        Ok(on)
    }
}

fn kind(operator: &ast::JoinOperator) -> Result<(JoinKind, &ast::JoinConstraint)> {
    use ast::JoinOperator as O;
    Ok(match operator {
        O::Join(c) | O::Inner(c) | O::CrossJoin(c) => (JoinKind::Inner, c),
        O::Left(c) | O::LeftOuter(c) => (JoinKind::Left, c),
        O::Right(c) | O::RightOuter(c) => (JoinKind::Right, c),
        O::FullOuter(c) => (JoinKind::Full, c),
        _ => return Err(SqlError::simulator("this kind of join")),
    })
}

fn join(kind: JoinKind, left: Tree, right: Tree, on: Vec<Expr>, lateral: bool) -> Tree {
    Tree::Join {
        kind,
        left: Box::new(left),
        right: Box::new(right),
        on,
        lateral,
    }
}
