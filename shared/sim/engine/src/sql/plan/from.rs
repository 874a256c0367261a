//! FROM: what names mean, and how the tables come together.

use std::ops::Range;
use std::sync::Arc;

use sqlparser::ast;

use super::access::{self, Wanted};
use super::{
    Columns, Join, JoinKind, Node, Probe, Scan, TableFunction, TableFunctionKind, all_of,
    conjuncts, filtered,
};
use crate::catalog::{Relation, Table};
use crate::error::{Result, SqlError};
use crate::pgcatalog;
use crate::sql::bind::{self, Binder, KEY_COLUMN, Place, Scope, ScopeColumn, Typed};
use crate::sql::cast::Context;
use crate::sql::expr::{Comparison, Expr};
use crate::sql::operators;
use crate::txn::Lock;
use crate::types::Type;

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
        builder.labels.extend(target.map(|(_, alias)| alias.to_owned()));
        for item in items {
            tree = Some(builder.item(tree, item)?);
        }
        if let Some(of) = lock.and_then(|lock| lock.of.as_ref()) {
            if !builder.columns.iter().any(|column| column.table == *of) {
                return Err(SqlError::new(
                    "42P01",
                    format!("relation \"{of}\" in FOR UPDATE clause not found in FROM clause"),
                ));
            }
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
        let chain = item
            .joins
            .iter()
            .all(|join| matches!(kind(&join.join_operator), Ok((JoinKind::Inner | JoinKind::Left, _))));
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
            return Err(SqlError::simulator("a lateral reference within a nested join"));
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
                format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
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

    /// Refuses a name that another item has.
    fn label(&mut self, label: String) -> Result<()> {
        if !label.is_empty() && self.labels.contains(&label) {
            return Err(SqlError::new(
                "42712",
                format!("table name \"{label}\" specified more than once"),
            ));
        }
        self.labels.push(label);
        Ok(())
    }

    /// One table, function or subquery; true if it looks at columns before
    /// `before`, which stand to its left.
    fn factor(&mut self, factor: &ast::TableFactor, before: usize) -> Result<(Tree, bool)> {
        let binder = self.binder;
        match factor {
            ast::TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => self.named(name, alias.as_ref()).map(|tree| (tree, false)),
            ast::TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality,
                ..
            } => {
                let function = bind::function_name(name)?;
                self.function(&function, &args.args, alias.as_ref(), *with_ordinality, before)
            }
            ast::TableFactor::Function {
                name,
                args,
                alias,
                with_ordinality,
                ..
            } => {
                let function = bind::function_name(name)?;
                self.function(&function, args, alias.as_ref(), *with_ordinality, before)
            }
            ast::TableFactor::UNNEST {
                alias,
                array_exprs,
                with_ordinality,
                with_offset: false,
                ..
            } => {
                let args: Vec<ast::FunctionArg> = array_exprs
                    .iter()
                    .map(|expr| {
                        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr.clone()))
                    })
                    .collect();
                self.function("unnest", &args, alias.as_ref(), *with_ordinality, before)
            }
            ast::TableFactor::Derived {
                lateral,
                subquery,
                alias,
                ..
            } => {
                let outside = binder.reach.replace(0);
                let left = Scope {
                    columns: self.columns[..before].to_vec(),
                    parent: self.parent,
                };
                // With nothing to its left there is no row to push out for it.
                let lateral = *lateral && before > 0;
                let scope = if lateral { Some(&left) } else { self.parent };
                let planned = super::query(binder, subquery, scope, None)?;
                let reach = binder.reach.get();
                let looks_left = lateral && reach > 0;
                let reach = if lateral { reach.saturating_sub(1) } else { reach };
                binder.reach.set(outside.max(reach));
                let tree = self.node(planned.node, planned.columns, alias.as_ref(), "")?;
                Ok((tree, looks_left))
            }
            ast::TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => Ok((self.item(None, table_with_joins)?, false)),
            _ => Err(SqlError::simulator("this form of FROM")),
        }
    }

    fn named(&mut self, name: &ast::ObjectName, alias: Option<&ast::TableAlias>) -> Result<Tree> {
        let binder = self.binder;
        let position = binder.position(sqlparser::ast::Spanned::span(name));
        let (schema, relation) = bind::qualified(name)?;
        if schema.is_none() {
            let ctes = binder.ctes.borrow();
            if let Some(cte) = ctes.iter().rev().find(|cte| cte.name == relation).cloned() {
                drop(ctes);
                if cte.correlated {
                    binder.reach.set(binder.reach.get().max(1));
                }
                return self.node(Node::Cte(cte.slot), cte.columns, alias, &relation);
            }
        }
        match binder.catalog.relation(schema.as_deref(), &relation) {
            Some(Relation::Table(table)) => {
                let table = Arc::clone(table);
                let label = alias.map_or(relation, |alias| bind::fold(&alias.name));
                self.label(label.clone())?;
                let with_key = self
                    .lock
                    .is_some_and(|lock| lock.of.as_ref().is_none_or(|of| *of == label));
                let tree = self.table(&table, &label, with_key);
                if let Some(alias) = alias {
                    self.rename(&tree.columns(), &alias.columns)?;
                }
                Ok(tree)
            }
            Some(Relation::View(view)) => {
                let view = Arc::clone(view);
                binder.touch(view.oid);
                // A view knows neither our names nor our CTEs.
                let ctes = binder.ctes.take();
                let planned = binder.deeper(|| super::query(binder, &view.query, None, None));
                binder.ctes.replace(ctes);
                let planned = planned?;
                let columns = planned
                    .columns
                    .into_iter()
                    .zip(&view.columns)
                    .map(|((_, ty), (name, _))| (name.clone(), ty))
                    .collect();
                self.node(planned.node, columns, alias, &relation)
            }
            Some(Relation::Sequence(_)) => Err(SqlError::simulator("reading a sequence")),
            None => match pgcatalog::system_table(schema.as_deref(), &relation) {
                Some(table) => {
                    let columns: Columns = table
                        .columns
                        .iter()
                        .map(|(name, ty)| ((*name).to_owned(), *ty))
                        .collect();
                    self.node(Node::System(table), columns, alias, &relation)
                }
                None => {
                    Err(crate::catalog::undefined(schema.as_deref(), &relation).at(position))
                }
            },
        }
    }

    fn table(&mut self, table: &Arc<Table>, label: &str, with_key: bool) -> Tree {
        self.binder.touch(table.oid);
        let start = self.columns.len();
        for column in &table.columns {
            self.columns.push(ScopeColumn {
                table: label.to_owned(),
                // Nothing can have the name of a dropped column.
                name: if column.dropped {
                    format!("{KEY_COLUMN}dropped")
                } else {
                    column.name.clone()
                },
                ty: column.ty,
                hidden: column.dropped,
            });
        }
        if table.has_primary() {
            let key = table.primary.iter().map(|slot| start + slot).collect();
            self.keys.push((start..self.columns.len(), key));
        }
        if with_key {
            self.lock_keys.push((table.oid, self.columns.len()));
            self.columns.push(ScopeColumn {
                table: label.to_owned(),
                name: KEY_COLUMN.to_owned(),
                ty: Type::BYTEA,
                hidden: true,
            });
        }
        Tree::Leaf {
            source: Source::Table {
                table: Arc::clone(table),
                with_key,
            },
            columns: start..self.columns.len(),
        }
    }

    fn node(
        &mut self,
        node: Node,
        columns: Columns,
        alias: Option<&ast::TableAlias>,
        label: &str,
    ) -> Result<Tree> {
        let start = self.columns.len();
        let label = alias.map_or(label.to_owned(), |alias| bind::fold(&alias.name));
        self.label(label.clone())?;
        for (name, ty) in columns {
            self.columns.push(ScopeColumn {
                table: label.clone(),
                name,
                ty,
                hidden: false,
            });
        }
        let range = start..self.columns.len();
        if let Some(alias) = alias {
            self.rename(&range, &alias.columns)?;
        }
        Ok(Tree::Leaf {
            source: Source::Node(node),
            columns: range,
        })
    }

    /// Column names of an alias.
    fn rename(&mut self, range: &Range<usize>, names: &[ast::TableAliasColumnDef]) -> Result<()> {
        if names.len() > range.len() {
            return Err(SqlError::new(
                "42P10",
                format!(
                    "table has {} columns available but {} columns specified",
                    range.len(),
                    names.len()
                ),
            ));
        }
        let visible: Vec<usize> = range
            .clone()
            .filter(|i| !self.columns[*i].hidden)
            .collect();
        for (i, name) in visible.into_iter().zip(names) {
            self.columns[i].name = bind::fold(&name.name);
        }
        Ok(())
    }

    fn function(
        &mut self,
        name: &str,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        ordinality: bool,
        before: usize,
    ) -> Result<(Tree, bool)> {
        let binder = self.binder;
        let outside = binder.reach.replace(0);
        let left = Scope {
            columns: self.columns[..before].to_vec(),
            parent: self.parent,
        };
        // The row to the left is one step out, as for any lateral item.
        let own = Scope {
            columns: Vec::new(),
            parent: if before > 0 { Some(&left) } else { self.parent },
        };
        let place = Place::of(&own, "functions in FROM");
        let mut bound = Vec::new();
        for arg in args {
            match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                    bound.push(binder.expr(expr, place)?);
                }
                _ => return Err(SqlError::simulator("this form of function in FROM")),
            }
        }
        let (function, types) = table_function(binder, name, bound, ordinality)?;
        let reach = binder.reach.get();
        let looks_left = before > 0 && reach > 0;
        let outward = if before > 0 { reach.saturating_sub(1) } else { reach };
        binder.reach.set(outside.max(outward));
        // A function of one column is named by its table's alias, too.
        let label = alias.map_or(name.to_owned(), |alias| bind::fold(&alias.name));
        let single = if types.len() == 1 { label.as_str() } else { name };
        let mut columns: Columns = types
            .into_iter()
            .map(|ty| (single.to_owned(), ty))
            .collect();
        if ordinality {
            columns.push(("ordinality".to_owned(), Type::INT8));
        }
        let tree = self.node(Node::Function(function), columns, alias, name)?;
        Ok((tree, looks_left))
    }
}

/// Binds a function that gives rows: with the types of its columns.
pub(crate) fn table_function(
    binder: &Binder<'_>,
    name: &str,
    args: Vec<Typed>,
    ordinality: bool,
) -> Result<(TableFunction, Vec<Type>)> {
    let (kind, args, types) = match name {
        "generate_series" if (2..=3).contains(&args.len()) => {
            let types: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
            if types.iter().any(|ty| ty.is_datetime()) {
                let mut exprs = Vec::new();
                let ty = if types[0].is(Type::TIMESTAMP) { Type::TIMESTAMP } else { Type::TIMESTAMPTZ };
                for (i, arg) in args.into_iter().enumerate() {
                    let to = if i == 2 { Type::INTERVAL } else { ty };
                    exprs.push(binder.coerce(arg, to, Context::Implicit)?);
                }
                (TableFunctionKind::Series, exprs, vec![ty])
            } else {
                let mut ty = binder.common_type(&types, "generate_series")?;
                if !matches!(ty.oid, 20 | 23 | 1700) {
                    ty = if types.iter().all(|ty| ty.is_unknown()) || ty.is_int() {
                        Type::INT4
                    } else {
                        return Err(SqlError::new(
                            "42883",
                            "function generate_series with these arguments does not exist",
                        ));
                    };
                }
                let exprs: Result<Vec<Expr>> = args
                    .into_iter()
                    .map(|arg| binder.coerce(arg, ty, Context::Implicit))
                    .collect();
                (TableFunctionKind::Series, exprs?, vec![ty])
            }
        }
        "unnest" if !args.is_empty() => {
            let mut exprs = Vec::new();
            let mut types = Vec::new();
            for arg in args {
                let element = match arg.ty.element() {
                    Some(element) => element,
                    None => {
                        return Err(SqlError::new(
                            "42883",
                            format!("function unnest({}) does not exist", arg.ty.display()),
                        )
                        .hint("No function matches the given name and argument types. You might need to add explicit type casts."));
                    }
                };
                types.push(element);
                exprs.push(arg.expr);
            }
            (TableFunctionKind::Unnest, exprs, types)
        }
        _ => {
            let value = binder.call(name, args)?;
            (TableFunctionKind::Scalar, vec![value.expr], vec![value.ty])
        }
    };
    let function = TableFunction {
        kind,
        args,
        ordinality,
    };
    Ok((function, types))
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

/// Adds what follows from `a = b` and `b = 5`, so that both tables of a join are
/// reached by their keys.
fn with_implied(mut conditions: Vec<Expr>, tree: &Tree) -> Vec<Expr> {
    fn inner(tree: &Tree, out: &mut Vec<Expr>) {
        if let Tree::Join {
            kind: JoinKind::Inner,
            left,
            right,
            on,
            ..
        } = tree
        {
            out.extend(on.iter().cloned());
            inner(left, out);
            inner(right, out);
        }
    }
    let mut known = conditions.clone();
    inner(tree, &mut known);
    let mut pairs = Vec::new();
    let mut values = Vec::new();
    for condition in &known {
        let Expr::Compare {
            op: Comparison::Eq,
            left,
            right,
        } = condition
        else {
            continue;
        };
        match (&**left, &**right) {
            (Expr::Column(a), Expr::Column(b)) => pairs.push((*a, *b)),
            (Expr::Column(a), value) | (value, Expr::Column(a)) if value.is_constant() => {
                values.push((*a, value.clone()));
            }
            _ => {}
        }
    }
    // Each round reaches one equality further.
    for _ in 0..pairs.len() {
        for (a, b) in &pairs {
            for (from, to) in [(*a, *b), (*b, *a)] {
                let found = values.iter().find(|(column, _)| *column == from).cloned();
                if let Some((_, value)) = found {
                    if !values.iter().any(|(column, _)| *column == to) {
                        conditions.push(Expr::equal(Expr::Column(to), value.clone()));
                        values.push((to, value));
                    }
                }
            }
        }
    }
    conditions
}

/// Takes the conditions that lie within some columns.
fn take(conditions: &mut Vec<Expr>, range: &Range<usize>) -> Vec<Expr> {
    let (within, rest) = std::mem::take(conditions)
        .into_iter()
        .partition(|condition| condition.only_in(range));
    *conditions = rest;
    within
}

fn shifted(conditions: Vec<Expr>, offset: usize) -> Vec<Expr> {
    conditions
        .into_iter()
        .map(|condition| condition.shifted(offset))
        .collect()
}

fn build(tree: Tree, mut conditions: Vec<Expr>, wanted: &[Wanted]) -> Built {
    match tree {
        Tree::Leaf {
            source: Source::Table { table, with_key },
            columns,
        } => {
            let wanted: Vec<Wanted> = wanted
                .iter()
                .map(|want| Wanted {
                    column: want.column.wrapping_sub(columns.start),
                    ..*want
                })
                .collect();
            let conditions = shifted(conditions, columns.start);
            let (scan, ordered) = access::scan(&table, conditions, &wanted, with_key);
            Built {
                node: Node::Scan(Box::new(scan)),
                ordered,
            }
        }
        Tree::Leaf {
            source: Source::Node(node),
            columns,
        } => Built {
            node: filtered(node, shifted(conditions, columns.start)),
            ordered: false,
        },
        Tree::Join {
            kind,
            left,
            right,
            mut on,
            lateral,
        } => {
            let (lefts, rights) = (left.columns(), right.columns());
            let (mut for_left, mut for_right) = (Vec::new(), Vec::new());
            match kind {
                JoinKind::Inner => {
                    on.append(&mut conditions);
                    for_left = take(&mut on, &lefts);
                    for_right = take(&mut on, &rights);
                }
                JoinKind::Left => {
                    for_left = take(&mut conditions, &lefts);
                    for_right = take(&mut on, &rights);
                }
                JoinKind::Right => {
                    for_right = take(&mut conditions, &rights);
                    for_left = take(&mut on, &lefts);
                }
                JoinKind::Full => {}
            }
            // Conditions without columns come to the left of an inner join,
            // where the range is empty of them but they still hold for it.
            let base = lefts.start;
            let left = build(*left, for_left, wanted);
            let ordered = left.ordered && matches!(kind, JoinKind::Inner | JoinKind::Left);
            let node = combine(kind, left.node, *right, on, for_right, lateral, &lefts, &rights);
            let rest = shifted(conditions, base);
            Built {
                node: filtered(node, rest),
                ordered,
            }
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn combine(
    kind: JoinKind,
    left: Node,
    right: Tree,
    on: Vec<Expr>,
    for_right: Vec<Expr>,
    lateral: bool,
    lefts: &Range<usize>,
    rights: &Range<usize>,
) -> Node {
    let base = lefts.start;
    if let (
        JoinKind::Inner | JoinKind::Left,
        Tree::Leaf {
            source: Source::Table { table, with_key },
            ..
        },
    ) = (kind, &right)
    {
        let mut all = on.clone();
        all.extend(for_right.iter().cloned());
        let choice = access::choose(table, rights, all, &[]);
        if choice.probes && !choice.access.equal.is_empty() {
            let mut rest = choice.rest;
            let own = take(&mut rest, rights);
            let scan = Scan {
                table: Arc::clone(table),
                access: access::shift_access(choice.access, base),
                filter: all_of(shifted(own, rights.start)),
                with_key: *with_key,
            };
            return Node::Probe(Box::new(Probe {
                outer_join: kind == JoinKind::Left,
                left,
                scan,
                right_width: rights.len(),
                on: all_of(shifted(rest, base)),
            }));
        }
    }
    let right = build(right, for_right, &[]).node;
    let (mut hash, mut rest) = (Vec::new(), Vec::new());
    for condition in on {
        let (l, r) = match &condition {
            Expr::Compare {
                op: Comparison::Eq,
                left,
                right,
            } => (&**left, &**right),
            _ => {
                rest.push(condition);
                continue;
            }
        };
        let sides = if l.only_in(lefts) && r.only_in(rights) && !r.is_constant() {
            Some((l, r))
        } else if r.only_in(lefts) && l.only_in(rights) && !l.is_constant() {
            Some((r, l))
        } else {
            None
        };
        match sides {
            Some((l, r)) if !lateral => {
                hash.push((
                    l.clone().shifted(base),
                    r.clone().shifted(rights.start),
                ));
            }
            _ => rest.push(condition),
        }
    }
    Node::Join(Box::new(Join {
        kind,
        left,
        right,
        left_width: lefts.len(),
        right_width: rights.len(),
        hash,
        on: all_of(shifted(rest, base)),
        lateral,
    }))
}
