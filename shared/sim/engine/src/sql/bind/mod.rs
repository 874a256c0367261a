//! Binding: names to positions, types to everything, as PostgreSQL infers them.

mod coerce;
mod expr;
mod forms;
mod function;
mod names;

use names::{UNSUPPORTED_TYPES, unsupported_type};
pub(crate) use names::{data_type, fold, function_name, name_parts, qualified};

use crate::catalog::{Catalog, Domain};
use crate::error::{Result, SqlError};
use crate::sql::aggregate::{AggregateCall, WindowCall};
use crate::sql::expr::Expr;
use crate::types::Type;
use sqlparser::ast;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A bound expression and its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub expr: Expr,
    pub ty: Type,
}

impl Typed {
    pub(crate) fn new(expr: Expr, ty: Type) -> Typed {
        Typed { expr, ty }
    }

    pub(crate) fn bool(expr: Expr) -> Typed {
        Typed::new(expr, Type::BOOL)
    }
}

/// A column that a name can mean.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    /// Name or alias of its table.
    pub table: String,
    pub name: String,
    pub ty: Type,
    /// Reached by a qualified name only: joined away by USING, or a table's key.
    pub hidden: bool,
}

/// The columns that names can mean, and the scopes further out.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'s> {
    pub columns: Vec<ScopeColumn>,
    pub parent: Option<&'s Scope<'s>>,
}

impl Scope<'_> {
    pub(crate) fn empty() -> Scope<'static> {
        Scope {
            columns: Vec::new(),
            parent: None,
        }
    }
}

/// A common table expression that can be named.
#[derive(Clone, Debug)]
pub(crate) struct Cte {
    pub name: String,
    pub slot: usize,
    pub columns: Vec<(String, Type)>,
    /// It looks at rows further out.
    pub correlated: bool,
}

/// Where an expression stands.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p> {
    pub scope: &'p Scope<'p>,
    /// Aggregates found here; `None` where none are allowed.
    pub aggregates: Option<&'p RefCell<Vec<AggregateCall>>>,
    pub windows: Option<&'p RefCell<Vec<WindowCall>>>,
    /// The clause, for messages.
    pub clause: &'static str,
}

impl<'p> Place<'p> {
    pub(crate) fn of(scope: &'p Scope<'p>, clause: &'static str) -> Place<'p> {
        Place {
            scope,
            aggregates: None,
            windows: None,
            clause,
        }
    }
}

/// How deep expressions and queries may nest.
const MAX_DEPTH: usize = 120;

/// Binds one statement.
pub(crate) struct Binder<'b> {
    pub catalog: &'b Arc<Catalog>,
    /// Types of the parameters as far as they are known.
    pub params: RefCell<Vec<Type>>,
    pub ctes: RefCell<Vec<Cte>>,
    /// Places where rows of subqueries are kept while a statement runs.
    pub slots: Cell<usize>,
    /// How many queries up the query being bound looks at most.
    pub reach: Cell<usize>,
    pub depth: Cell<usize>,
    /// Text of the statement, to find positions in.
    pub source: &'b str,
    /// Tables and views that it looks at; a change of the schema matters to it
    /// if there are any.
    pub relations: RefCell<Vec<u32>>,
}

impl<'b> Binder<'b> {
    pub(crate) fn new(catalog: &'b Arc<Catalog>, params: Vec<Type>, source: &'b str) -> Binder<'b> {
        Binder {
            catalog,
            params: RefCell::new(params),
            ctes: RefCell::new(Vec::new()),
            slots: Cell::new(0),
            reach: Cell::new(0),
            depth: Cell::new(0),
            source,
            relations: RefCell::new(Vec::new()),
        }
    }

    pub(crate) fn take_slot(&self) -> usize {
        let slot = self.slots.get();
        self.slots.set(slot + 1);
        slot
    }

    /// Notes that the statement looks at a table or view.
    pub(crate) fn touch(&self, oid: u32) {
        self.relations.borrow_mut().push(oid);
    }

    /// Guards the stack: an error instead of an overflow.
    pub(crate) fn deeper<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.depth.get() >= MAX_DEPTH {
            return Err(SqlError::new("54001", "stack depth limit exceeded"));
        }
        self.depth.set(self.depth.get() + 1);
        let result = f();
        self.depth.set(self.depth.get() - 1);
        result
    }

    /// Character position of a place in the statement.
    pub(crate) fn position(&self, span: sqlparser::tokenizer::Span) -> Option<u32> {
        crate::sql::parse::position(self.source, span.start)
    }

    // Names.

    /// What a column name means.
    pub(crate) fn column(
        &self,
        scope: &Scope<'_>,
        table: Option<&str>,
        name: &str,
    ) -> Result<Option<Typed>> {
        let mut depth = 0;
        let mut at = Some(scope);
        while let Some(scope) = at {
            let mut found = None;
            for (i, column) in scope.columns.iter().enumerate() {
                let fits = column.name == name
                    && match table {
                        Some(table) => column.table == table,
                        None => !column.hidden,
                    };
                if !fits {
                    continue;
                }
                if found.is_some() {
                    return Err(SqlError::new(
                        "42702",
                        format!("column reference \"{name}\" is ambiguous"),
                    ));
                }
                found = Some((i, column.ty));
            }
            if let Some((column, ty)) = found {
                let expr = if depth == 0 {
                    Expr::Column(column)
                } else {
                    self.reach.set(self.reach.get().max(depth));
                    Expr::Outer { depth, column }
                };
                return Ok(Some(Typed::new(expr, ty)));
            }
            depth += 1;
            at = scope.parent;
        }
        Ok(None)
    }

    /// A whole row by the name of its table.
    fn whole_row(&self, scope: &Scope<'_>, table: &str) -> Option<Typed> {
        let fields: Vec<(Type, Expr)> = scope
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.table == table && column.name != KEY_COLUMN)
            .map(|(i, column)| (column.ty, Expr::Column(i)))
            .collect();
        if !fields.is_empty() {
            return Some(Typed::new(Expr::Row(fields), Type::RECORD));
        }
        None
    }

    fn identifier(&self, ident: &ast::Ident, place: Place<'_>) -> Result<Typed> {
        let name = fold(ident);
        if let Some(column) = self
            .column(place.scope, None, &name)
            .map_err(|e| e.at(self.position(ident.span)))?
        {
            return Ok(column);
        }
        if let Some(row) = self.whole_row(place.scope, &name) {
            return Ok(row);
        }
        if ident.quote_style.is_none() {
            let bare = match name.as_str() {
                "current_user" | "session_user" | "user" | "current_role" | "current_catalog"
                | "current_schema" | "current_date" | "current_timestamp" | "localtimestamp" => {
                    Some(name.as_str())
                }
                _ => None,
            };
            if let Some(bare) = bare {
                return self.call(bare, Vec::new());
            }
        }
        Err(SqlError::undefined_column(&name).at(self.position(ident.span)))
    }

    fn compound(&self, idents: &[ast::Ident], place: Place<'_>) -> Result<Typed> {
        let names: Vec<String> = idents.iter().map(fold).collect();
        let span = idents.first().map(|ident| ident.span);
        let position = span.and_then(|span| self.position(span));
        let (table, name) = match names.as_slice() {
            [table, name] | [_, table, name] => (table, name),
            _ => {
                return Err(SqlError::new(
                    "42601",
                    format!(
                        "improper qualified name (too many dotted names): {}",
                        names.join(".")
                    ),
                )
                .at(position));
            }
        };
        if let Some(column) = self
            .column(place.scope, Some(table), name)
            .map_err(|e| e.at(position))?
        {
            return Ok(column);
        }
        let mut at = Some(place.scope);
        while let Some(scope) = at {
            if scope.columns.iter().any(|column| column.table == *table) {
                return Err(SqlError::new(
                    "42703",
                    format!("column {table}.{name} does not exist"),
                )
                .at(position));
            }
            at = scope.parent;
        }
        Err(SqlError::new(
            "42P01",
            format!("missing FROM-clause entry for table \"{table}\""),
        )
        .at(position))
    }

    // Types.

    /// The type that a data type names, and its domain if it is one.
    pub(crate) fn data_type(&self, ty: &ast::DataType) -> Result<(Type, Option<Arc<Domain>>)> {
        data_type(self.catalog, ty)
    }
}

/// The name under which a scan gives the key of its rows.
pub(crate) const KEY_COLUMN: &str = "\0key";

/// A condition, turned round if asked.
pub(crate) fn negate(expr: Expr, negated: bool) -> Expr {
    if negated {
        Expr::Not(expr.boxed())
    } else {
        expr
    }
}

/// The beginning of a text, for messages.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
