//! Binding: names to positions, types to everything, as PostgreSQL infers them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use sqlparser::ast::{self, Spanned as _};

use super::aggregate::{AggregateCall, WindowCall};
use super::cast::{self, Context};
use super::expr::{Comparison, Expr, Subquery, SubqueryKind};
use super::functions;
use super::operators;
use super::plan::Node;
use crate::catalog::{Catalog, Domain};
use crate::error::{Result, SqlError};
use crate::types::{self, Type};
use crate::value::{Value, text};

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
    pub(crate) fn new(
        catalog: &'b Arc<Catalog>,
        params: Vec<Type>,
        source: &'b str,
    ) -> Binder<'b> {
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
        super::parse::position(self.source, span.start)
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
                    format!("improper qualified name (too many dotted names): {}", names.join(".")),
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

    // Conversion.

    /// Converts an expression to a type, where the context allows it.
    pub(crate) fn coerce(&self, typed: Typed, to: Type, context: Context) -> Result<Expr> {
        let Typed { expr, ty: from } = typed;
        if to.is(functions::ANY) || to.is_unknown() {
            return Ok(expr);
        }
        if from.is_unknown() {
            match expr {
                Expr::Const(Value::Null) => return Ok(Expr::null()),
                Expr::Const(Value::Text(ref literal)) => {
                    if to.is_oid() && !to.is(Type::OID) {
                        return Ok(Expr::Cast {
                            expr: expr.boxed(),
                            from: Type::TEXT,
                            to,
                            explicit: true,
                        });
                    }
                    // An explicit cast cuts what is too long.
                    let value = text::parse(to.plain(), literal)?;
                    let value = text::constrain(value, to, context == Context::Explicit)?;
                    return Ok(Expr::Const(value));
                }
                Expr::Param(n) => {
                    let known = self.params.borrow().get(n).copied();
                    if known.is_none_or(Type::is_unknown) {
                        if let Some(param) = self.params.borrow_mut().get_mut(n) {
                            *param = to.plain();
                        }
                        let typed = Typed::new(Expr::Param(n), to.plain());
                        return self.coerce(typed, to, context);
                    }
                    let typed = Typed::new(Expr::Param(n), known.unwrap_or(to));
                    return self.coerce(typed, to, context);
                }
                other => return self.coerce(Typed::new(other, Type::TEXT), to, Context::Explicit),
            }
        }
        if from.is(to) {
            if to.modifier < 0 || from.modifier == to.modifier {
                return Ok(expr);
            }
        } else if !cast::allowed(from, to, context) {
            return Err(SqlError::new(
                "42846",
                format!("cannot cast type {} to {}", from.display(), to.display()),
            ));
        }
        // What shares a representation and only gets wider is left alone.
        let widens = from.is_int() && to.is_int() && from.rank() <= to.rank();
        let same_text = from.is_text()
            && to.is_text()
            && to.modifier < 0
            && !to.is(Type::BPCHAR)
            && !to.is(Type::NAME);
        if widens || same_text {
            return Ok(expr);
        }
        let cast = Expr::Cast {
            expr: expr.boxed(),
            from,
            to,
            explicit: context == Context::Explicit,
        };
        self.fold_constant(cast)
    }

    /// Computes what can be computed now: a cast of a constant.
    fn fold_constant(&self, cast: Expr) -> Result<Expr> {
        if let Expr::Cast { expr, from, to, .. } = &cast {
            let needs_catalog = (from.is_oid() || to.is_oid()) && !to.is_int();
            if matches!(**expr, Expr::Const(_)) && !needs_catalog {
                let value = super::expr::eval(&cast, &super::expr::Ctx::bare(), &[])?;
                return Ok(Expr::Const(value));
            }
        }
        Ok(cast)
    }

    /// What has no type at the end is text.
    pub(crate) fn settle(&self, typed: Typed) -> Result<Typed> {
        if typed.ty.is_unknown() {
            let expr = self.coerce(typed, Type::TEXT, Context::Implicit)?;
            return Ok(Typed::new(expr, Type::TEXT));
        }
        Ok(typed)
    }

    /// A condition: boolean, or an error that names the clause.
    pub(crate) fn condition(&self, expr: &ast::Expr, place: Place<'_>) -> Result<Expr> {
        let typed = self.expr(expr, place)?;
        self.boolean(typed, place.clause)
            .map_err(|e| e.at(self.position(expr.span())))
    }

    pub(crate) fn boolean(&self, typed: Typed, clause: &str) -> Result<Expr> {
        if !typed.ty.is(Type::BOOL) && !typed.ty.is_unknown() {
            return Err(SqlError::datatype_mismatch(format!(
                "argument of {clause} must be type boolean, not type {}",
                typed.ty.display()
            )));
        }
        self.coerce(typed, Type::BOOL, Context::Implicit)
    }

    /// The one type that several expressions become, as in UNION, CASE,
    /// COALESCE, VALUES and IN.
    pub(crate) fn common_type(&self, types: &[Type], what: &str) -> Result<Type> {
        let mut common = Type::UNKNOWN;
        for ty in types {
            if ty.is_unknown() || ty.is(common) {
                if ty.modifier != common.modifier {
                    common = common.plain();
                }
            } else if common.is_unknown() {
                common = *ty;
            } else if cast::allowed(common, *ty, Context::Implicit)
                && !(ty.is_text() && common.is(Type::TEXT))
            {
                common = ty.plain();
            } else if cast::allowed(*ty, common, Context::Implicit) {
                common = common.plain();
            } else {
                return Err(SqlError::datatype_mismatch(format!(
                    "{what} types {} and {} cannot be matched",
                    common.display(),
                    ty.display()
                )));
            }
        }
        Ok(if common.is_unknown() { Type::TEXT } else { common })
    }

    fn unify(&self, all: Vec<Typed>, what: &str) -> Result<(Vec<Expr>, Type)> {
        let types: Vec<Type> = all.iter().map(|typed| typed.ty).collect();
        let common = self.common_type(&types, what)?;
        let exprs: Result<Vec<Expr>> = all
            .into_iter()
            .map(|typed| self.coerce(typed, common, Context::Implicit))
            .collect();
        Ok((exprs?, common))
    }

    // Expressions.

    pub(crate) fn exprs(&self, exprs: &[ast::Expr], place: Place<'_>) -> Result<Vec<Typed>> {
        exprs.iter().map(|expr| self.expr(expr, place)).collect()
    }

    pub(crate) fn expr(&self, expr: &ast::Expr, place: Place<'_>) -> Result<Typed> {
        self.deeper(|| self.any_expr(expr, place))
    }

    fn any_expr(&self, expr: &ast::Expr, place: Place<'_>) -> Result<Typed> {
        match expr {
            ast::Expr::Identifier(ident) => self.identifier(ident, place),
            ast::Expr::CompoundIdentifier(idents) => self.compound(idents, place),
            ast::Expr::Nested(inner) => self.expr(inner, place),
            ast::Expr::Value(value) => self.literal(&value.value),
            ast::Expr::BinaryOp { left, op, right } => match op {
                ast::BinaryOperator::And | ast::BinaryOperator::Or => {
                    self.junction(left, op, right, place)
                }
                _ => {
                    let left = self.expr(left, place)?;
                    let right = self.expr(right, place)?;
                    operators::binary(self, op, left, right)
                        .map_err(|e| e.at(self.position(expr.span())))
                }
            },
            ast::Expr::UnaryOp { op, expr } => match op {
                ast::UnaryOperator::Not => {
                    let inner = self.expr(expr, place)?;
                    Ok(Typed::bool(Expr::Not(self.boolean(inner, "NOT")?.boxed())))
                }
                _ => {
                    // "-9223372036854775808" is one number.
                    if let (ast::UnaryOperator::Minus, ast::Expr::Value(value)) = (op, &**expr) {
                        if let ast::Value::Number(digits, _) = &value.value {
                            return self.number(&format!("-{digits}"));
                        }
                    }
                    let inner = self.expr(expr, place)?;
                    operators::unary(self, op, inner)
                }
            },
            ast::Expr::IsNull(inner) => self.is_null(inner, false, place),
            ast::Expr::IsNotNull(inner) => self.is_null(inner, true, place),
            ast::Expr::IsTrue(inner) => self.is_bool(inner, Some(true), false, place),
            ast::Expr::IsNotTrue(inner) => self.is_bool(inner, Some(true), true, place),
            ast::Expr::IsFalse(inner) => self.is_bool(inner, Some(false), false, place),
            ast::Expr::IsNotFalse(inner) => self.is_bool(inner, Some(false), true, place),
            ast::Expr::IsUnknown(inner) => self.is_bool(inner, None, false, place),
            ast::Expr::IsNotUnknown(inner) => self.is_bool(inner, None, true, place),
            ast::Expr::IsDistinctFrom(left, right) => self.distinct(left, right, false, place),
            ast::Expr::IsNotDistinctFrom(left, right) => self.distinct(left, right, true, place),
            ast::Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let value = self.expr(expr, place)?;
                let low = self.expr(low, place)?;
                let high = self.expr(high, place)?;
                let above = operators::compare(self, Comparison::Ge, value.clone(), low)?;
                let below = operators::compare(self, Comparison::Le, value, high)?;
                let both = Expr::And(vec![above, below]);
                Ok(Typed::bool(negate(both, *negated)))
            }
            ast::Expr::In {
                expr,
                target,
                negated,
                ..
            } => match target {
                ast::InTarget::List(list) => self.in_list(expr, list, *negated, place),
                ast::InTarget::Subquery(query) => {
                    self.any_subquery(expr, Comparison::Eq, query, false, *negated, place)
                }
                _ => Err(SqlError::simulator("this form of IN")),
            },
            ast::Expr::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => self.quantified(left, compare_op, right, false, place),
            ast::Expr::AllOp {
                left,
                compare_op,
                right,
            } => self.quantified(left, compare_op, right, true, place),
            ast::Expr::Like {
                negated,
                expr,
                pattern,
                escape_char,
                any: false,
            } => {
                let mut args = vec![self.expr(expr, place)?, self.expr(pattern, place)?];
                if let Some(escape) = escape_char {
                    args.push(self.expr(escape, place)?);
                }
                let like = self.call("like", args)?;
                Ok(Typed::bool(negate(like.expr, *negated)))
            }
            ast::Expr::ILike {
                negated,
                expr,
                pattern,
                escape_char: None,
                any: false,
            } => {
                let args = vec![self.expr(expr, place)?, self.expr(pattern, place)?];
                let like = self.call("texticlike", args)?;
                Ok(Typed::bool(negate(like.expr, *negated)))
            }
            ast::Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr: inner,
                data_type,
                format: None,
            } => {
                let to = self.data_type(data_type)?;
                let typed = self.expr(inner, place)?;
                self.explicit_cast(typed, to.0)
                    .map_err(|e| e.at(self.position(expr.span())))
            }
            ast::Expr::TypedString(typed) => {
                let to = self.data_type(&typed.data_type)?;
                let literal = self.literal(&typed.value.value)?;
                self.explicit_cast(literal, to.0)
            }
            ast::Expr::Interval(interval) => self.interval(interval, place),
            ast::Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(operand.as_deref(), conditions, else_result.as_deref(), place),
            ast::Expr::Function(function) => self.function(function, place),
            ast::Expr::Subquery(query) => {
                let (plan, columns, correlated) = self.subplan(query, place.scope)?;
                let [(_, ty)] = columns.as_slice() else {
                    return Err(SqlError::new("42601", "subquery must return only one column"));
                };
                let expr = self.subquery(SubqueryKind::Scalar, plan, correlated, false);
                Ok(Typed::new(expr, *ty))
            }
            ast::Expr::Exists { subquery, negated } => {
                let (plan, _, correlated) = self.subplan(subquery, place.scope)?;
                Ok(Typed::bool(self.subquery(
                    SubqueryKind::Exists,
                    plan,
                    correlated,
                    *negated,
                )))
            }
            ast::Expr::Tuple(items) => self.row(items, place),
            ast::Expr::Array(array) => {
                let items = self.exprs(&array.elem, place)?;
                if items.is_empty() {
                    return Err(SqlError::new("42P18", "cannot determine type of empty array")
                        .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
                }
                let (items, element) = self.unify(items, "ARRAY")?;
                let ty = element
                    .plain()
                    .array()
                    .ok_or_else(|| SqlError::simulator("an array of arrays"))?;
                Ok(Typed::new(
                    Expr::Array {
                        element: element.plain(),
                        items,
                    },
                    ty,
                ))
            }
            ast::Expr::Extract { field, expr, .. } => {
                let field = Typed::new(
                    Expr::Const(Value::text(field.to_string().to_lowercase())),
                    Type::TEXT,
                );
                let value = self.expr(expr, place)?;
                self.call("extract", vec![field, value])
            }
            ast::Expr::Ceil { expr, .. } => {
                let value = self.expr(expr, place)?;
                self.call("ceil", vec![value])
            }
            ast::Expr::Floor { expr, .. } => {
                let value = self.expr(expr, place)?;
                self.call("floor", vec![value])
            }
            ast::Expr::Position { expr, r#in } => {
                let what = self.expr(expr, place)?;
                let within = self.expr(r#in, place)?;
                self.call("strpos", vec![within, what])
            }
            ast::Expr::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => {
                let mut args = vec![self.expr(expr, place)?];
                match substring_from {
                    Some(from) => args.push(self.expr(from, place)?),
                    None => args.push(Typed::new(Expr::Const(Value::Int(1)), Type::INT4)),
                }
                if let Some(count) = substring_for {
                    args.push(self.expr(count, place)?);
                }
                self.call("substring", args)
            }
            ast::Expr::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let mut args = vec![self.expr(expr, place)?];
                if let Some(what) = trim_what {
                    args.push(self.expr(what, place)?);
                } else if let Some([what]) = trim_characters.as_deref() {
                    args.push(self.expr(what, place)?);
                }
                self.call(name, args)
            }
            ast::Expr::AtTimeZone {
                timestamp,
                time_zone,
            } => {
                let value = self.expr(timestamp, place)?;
                let zone = self.expr(time_zone, place)?;
                match &zone.expr {
                    Expr::Const(Value::Text(name)) if name.eq_ignore_ascii_case("utc") => {}
                    _ => return Err(SqlError::simulator("a time zone other than UTC")),
                }
                // The instant is the same; only what it is called changes.
                let to = if value.ty.is(Type::TIMESTAMP) {
                    Type::TIMESTAMPTZ
                } else {
                    Type::TIMESTAMP
                };
                let expr = self.coerce(value, to, Context::Explicit)?;
                Ok(Typed::new(expr, to))
            }
            // The one collation of DSQL is C, which is how text is compared.
            ast::Expr::Collate { expr, collation } => {
                let name = collation.to_string().to_lowercase();
                let name = name.rsplit('.').next().unwrap_or("").trim_matches('"');
                if matches!(name, "c" | "posix" | "default" | "ucs_basic") {
                    return self.expr(expr, place);
                }
                Err(SqlError::new(
                    "42704",
                    format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
                ))
            }
            ast::Expr::CompoundFieldAccess { root, access_chain } => {
                self.subscript(root, access_chain, place)
            }
            ast::Expr::IsJson { .. } => Err(SqlError::simulator("IS JSON")),
            other => Err(SqlError::simulator(format!(
                "the expression {}",
                shorten(&other.to_string())
            ))
            .at(self.position(other.span()))),
        }
    }

    fn literal(&self, value: &ast::Value) -> Result<Typed> {
        Ok(match value {
            ast::Value::Null => Typed::new(Expr::null(), Type::UNKNOWN),
            ast::Value::Boolean(b) => Typed::bool(Expr::Const(Value::Bool(*b))),
            ast::Value::Number(digits, _) => return self.number(digits),
            ast::Value::SingleQuotedString(text)
            | ast::Value::EscapedStringLiteral(text)
            | ast::Value::UnicodeStringLiteral(text)
            | ast::Value::NationalStringLiteral(text) => {
                Typed::new(Expr::Const(Value::text(text)), Type::UNKNOWN)
            }
            ast::Value::DollarQuotedString(text) => {
                Typed::new(Expr::Const(Value::text(&text.value)), Type::UNKNOWN)
            }
            ast::Value::Placeholder(name) => {
                let n = name
                    .strip_prefix('$')
                    .and_then(|digits| digits.parse::<usize>().ok())
                    .filter(|n| (1..=65_535).contains(n))
                    .ok_or_else(|| SqlError::new("42P02", format!("there is no parameter {name}")))?;
                let mut params = self.params.borrow_mut();
                while params.len() < n {
                    params.push(Type::UNKNOWN);
                }
                Typed::new(Expr::Param(n - 1), params[n - 1])
            }
            other => {
                return Err(SqlError::simulator(format!("the literal {}", shorten(&other.to_string()))));
            }
        })
    }

    fn number(&self, digits: &str) -> Result<Typed> {
        let mut plain = digits.replace('_', "");
        let bare = plain.trim_start_matches('-');
        let radix = match bare.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => 16,
            Some("0o") => 8,
            Some("0b") => 2,
            _ => 10,
        };
        if radix != 10 {
            let n = i128::from_str_radix(&bare[2..], radix)
                .map_err(|_| SqlError::syntax(digits))?;
            plain = if plain.starts_with('-') { -n } else { n }.to_string();
        }
        if let Ok(n) = plain.parse::<i64>() {
            let ty = if i32::try_from(n).is_ok() {
                Type::INT4
            } else {
                Type::INT8
            };
            return Ok(Typed::new(Expr::Const(Value::Int(n)), ty));
        }
        let number = crate::value::Numeric::parse(&plain)?;
        Ok(Typed::new(
            Expr::Const(Value::numeric(number)),
            Type::NUMERIC,
        ))
    }

    fn junction(
        &self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        place: Place<'_>,
    ) -> Result<Typed> {
        let name = op.to_string();
        // Long chains of one operator lean to the left; they are walked, not
        // descended into.
        let mut operands = vec![right];
        let mut at = left;
        while let ast::Expr::BinaryOp {
            left,
            op: inner,
            right,
        } = at
        {
            if inner != op {
                break;
            }
            operands.push(right);
            at = left;
        }
        operands.push(at);
        let mut parts = Vec::new();
        for operand in operands.into_iter().rev() {
            let typed = self.expr(operand, place)?;
            parts.push(self.boolean(typed, &name)?);
        }
        Ok(Typed::bool(match op {
            ast::BinaryOperator::And => Expr::And(parts),
            _ => Expr::Or(parts),
        }))
    }

    fn is_null(&self, inner: &ast::Expr, negated: bool, place: Place<'_>) -> Result<Typed> {
        let typed = self.expr(inner, place)?;
        Ok(Typed::bool(Expr::IsNull {
            expr: typed.expr.boxed(),
            negated,
        }))
    }

    /// A parameter with the type that it has got since.
    fn retyped(&self, typed: Typed) -> Typed {
        match typed.expr {
            Expr::Param(n) => {
                let known = self.params.borrow().get(n).copied();
                Typed::new(Expr::Param(n), known.unwrap_or(typed.ty))
            }
            _ => typed,
        }
    }

    fn is_bool(
        &self,
        inner: &ast::Expr,
        value: Option<bool>,
        negated: bool,
        place: Place<'_>,
    ) -> Result<Typed> {
        let typed = self.expr(inner, place)?;
        Ok(Typed::bool(Expr::IsBool {
            expr: self.boolean(typed, "IS")?.boxed(),
            value,
            negated,
        }))
    }

    fn distinct(
        &self,
        left: &ast::Expr,
        right: &ast::Expr,
        negated: bool,
        place: Place<'_>,
    ) -> Result<Typed> {
        let left = self.expr(left, place)?;
        let right = self.expr(right, place)?;
        let (left, right) = operators::comparable(self, "=", left, right)?;
        Ok(Typed::bool(Expr::Distinct {
            left: left.boxed(),
            right: right.boxed(),
            negated,
        }))
    }

    fn in_list(
        &self,
        expr: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
        place: Place<'_>,
    ) -> Result<Typed> {
        let value = self.expr(expr, place)?;
        let items = self.exprs(list, place)?;
        if value.ty.is(Type::RECORD) {
            let mut tests = Vec::new();
            for item in items {
                tests.push(operators::compare(self, Comparison::Eq, value.clone(), item)?);
            }
            return Ok(Typed::bool(negate(Expr::Or(tests), negated)));
        }
        let mut types: Vec<Type> = items.iter().map(|item| item.ty).collect();
        types.push(value.ty);
        let known = types.iter().filter(|ty| !ty.is_unknown());
        let numbers = known.clone().all(|ty| ty.is_number());
        let common = match self.common_type(&types, "IN") {
            Ok(common) => common,
            Err(_) if numbers => Type::FLOAT8,
            Err(_) => {
                let other = known.into_iter().find(|ty| !ty.is(value.ty)).copied();
                return Err(operators::no_operator("=", value.ty, other.unwrap_or(Type::TEXT)));
            }
        };
        let list: Result<Vec<Expr>> = items
            .into_iter()
            .map(|item| self.coerce(item, common.plain(), Context::Implicit))
            .collect();
        Ok(Typed::bool(Expr::InList {
            expr: self.coerce(value, common.plain(), Context::Implicit)?.boxed(),
            list: list?,
            negated,
        }))
    }

    fn quantified(
        &self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        all: bool,
        place: Place<'_>,
    ) -> Result<Typed> {
        let Some(comparison) = operators::comparison(op) else {
            return Err(SqlError::simulator(format!("{op} with ANY or ALL")));
        };
        let mut inner = right;
        while let ast::Expr::Nested(nested) = inner {
            inner = nested;
        }
        if let ast::Expr::Subquery(query) = inner {
            return self.any_subquery(left, comparison, query, all, false, place);
        }
        let value = self.expr(left, place)?;
        let array = self.expr(right, place)?;
        let element = match array.ty.element() {
            Some(element) => element,
            None if array.ty.is_unknown() => {
                if value.ty.is_unknown() {
                    Type::TEXT
                } else {
                    value.ty.plain()
                }
            }
            None => {
                return Err(SqlError::new(
                    "42809",
                    "op ANY/ALL (array) requires array on right side",
                ));
            }
        };
        let common = if value.ty.is_unknown() || value.ty.is(element) {
            element
        } else {
            self.common_type(&[value.ty, element], "ANY")
                .map_err(|_| operators::no_operator(comparison.symbol(), value.ty, element))?
        };
        let array_type = common
            .plain()
            .array()
            .ok_or_else(|| SqlError::simulator("an array of arrays"))?;
        Ok(Typed::bool(Expr::AnyArray {
            expr: self.coerce(value, common.plain(), Context::Implicit)?.boxed(),
            op: comparison,
            array: self.coerce(array, array_type, Context::Implicit)?.boxed(),
            all,
        }))
    }

    fn any_subquery(
        &self,
        left: &ast::Expr,
        op: Comparison,
        query: &ast::Query,
        all: bool,
        negated: bool,
        place: Place<'_>,
    ) -> Result<Typed> {
        let mut bare = left;
        while let ast::Expr::Nested(inner) = bare {
            bare = inner;
        }
        let lefts = match bare {
            ast::Expr::Tuple(items) => self.exprs(items, place)?,
            other => vec![self.expr(other, place)?],
        };
        let (plan, columns, correlated) = self.subplan(query, place.scope)?;
        if columns.len() != lefts.len() {
            return Err(SqlError::new(
                "42601",
                if columns.len() > lefts.len() {
                    "subquery has too many columns"
                } else {
                    "subquery has too few columns"
                },
            ));
        }
        let mut exprs = Vec::new();
        let mut rights = Vec::new();
        let mut same = true;
        for (i, (left, (_, ty))) in lefts.into_iter().zip(&columns).enumerate() {
            let right = Typed::new(Expr::Column(i), *ty);
            let (left, right) = operators::comparable(self, op.symbol(), left, right)?;
            same = same && right == Expr::Column(i);
            exprs.push(left);
            rights.push(right);
        }
        let plan = if same {
            plan
        } else {
            Node::Project {
                input: Box::new(plan),
                exprs: rights,
            }
        };
        let kind = SubqueryKind::Any { exprs, op, all };
        Ok(Typed::bool(self.subquery(kind, plan, correlated, negated)))
    }

    fn subquery(&self, kind: SubqueryKind, plan: Node, correlated: bool, negated: bool) -> Expr {
        Expr::Subquery(Box::new(Subquery {
            kind,
            plan: Arc::new(plan),
            correlated,
            slot: self.take_slot(),
            negated,
        }))
    }

    /// Plans a subquery and finds out whether it looks outside.
    fn subplan(
        &self,
        query: &ast::Query,
        scope: &Scope<'_>,
    ) -> Result<(Node, Vec<(String, Type)>, bool)> {
        let before = self.reach.replace(0);
        let planned = super::plan::query(self, query, Some(scope), None)?;
        let reach = self.reach.get();
        self.reach.set(before.max(reach.saturating_sub(1)));
        Ok((planned.node, planned.columns, reach > 0))
    }

    fn row(&self, items: &[ast::Expr], place: Place<'_>) -> Result<Typed> {
        let mut fields = Vec::new();
        for item in items {
            let typed = self.expr(item, place)?;
            fields.push((typed.ty, typed.expr));
        }
        Ok(Typed::new(Expr::Row(fields), Type::RECORD))
    }

    fn case(
        &self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        place: Place<'_>,
    ) -> Result<Typed> {
        let operand = operand.map(|operand| self.expr(operand, place)).transpose()?;
        let mut whens = Vec::new();
        let mut thens = Vec::new();
        for branch in conditions {
            let when = self.expr(&branch.condition, place)?;
            whens.push(match &operand {
                Some(operand) => operators::compare(self, Comparison::Eq, operand.clone(), when)?,
                None => self.boolean(when, "CASE/WHEN")?,
            });
            thens.push(self.expr(&branch.result, place)?);
        }
        thens.push(match otherwise {
            Some(otherwise) => self.expr(otherwise, place)?,
            None => Typed::new(Expr::null(), Type::UNKNOWN),
        });
        let (mut thens, ty) = self.unify(thens, "CASE")?;
        let otherwise = thens.pop().unwrap_or_else(Expr::null).boxed();
        let branches = whens.into_iter().zip(thens).collect();
        Ok(Typed::new(
            Expr::Case {
                branches,
                otherwise,
            },
            ty,
        ))
    }

    fn interval(&self, interval: &ast::Interval, place: Place<'_>) -> Result<Typed> {
        let value = self.expr(&interval.value, place)?;
        let Expr::Const(Value::Text(text)) = &value.expr else {
            return Err(SqlError::simulator("INTERVAL of an expression"));
        };
        let full = match &interval.leading_field {
            Some(field) if text.trim().parse::<f64>().is_ok() => format!("{text} {field}"),
            _ => text.to_string(),
        };
        let span = crate::value::datetime::parse_interval(&full)?;
        Ok(Typed::new(
            Expr::Const(Value::Interval(Box::new(span))),
            Type::INTERVAL,
        ))
    }

    fn subscript(
        &self,
        root: &ast::Expr,
        chain: &[ast::AccessExpr],
        place: Place<'_>,
    ) -> Result<Typed> {
        let value = self.expr(root, place)?;
        let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = chain else {
            return Err(SqlError::simulator("field selection and array slices"));
        };
        let element = value
            .ty
            .element()
            .ok_or_else(|| {
                SqlError::datatype_mismatch(format!(
                    "cannot subscript type {} because it does not support subscripting",
                    value.ty.display()
                ))
            })?;
        let index = self.expr(index, place)?;
        let index = self.coerce(index, Type::INT4, Context::Assignment)?;
        let array = Typed::new(value.expr, value.ty);
        let index = Typed::new(index, Type::INT4);
        let item = self.call("array_item", vec![array, index])?;
        Ok(Typed::new(item.expr, element))
    }

    pub(crate) fn explicit_cast(&self, typed: Typed, to: Type) -> Result<Typed> {
        let expr = self.coerce(typed, to, Context::Explicit)?;
        Ok(Typed::new(expr, to))
    }

    // Functions.

    /// Calls a function by name.
    pub(crate) fn call(&self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        let given: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
        let (function, wanted, result) = functions::resolve(name, &given)?;
        let args: Result<Vec<Expr>> = args
            .into_iter()
            .zip(wanted)
            .map(|(arg, ty)| self.coerce(arg, ty.plain(), Context::Implicit))
            .collect();
        Ok(Typed::new(
            Expr::Call {
                function,
                args: args?,
            },
            result,
        ))
    }

    fn function(&self, function: &ast::Function, place: Place<'_>) -> Result<Typed> {
        let position = self.position(function.name.span());
        self.any_function(function, place).map_err(|e| e.at(position))
    }

    fn any_function(&self, function: &ast::Function, place: Place<'_>) -> Result<Typed> {
        let name = function_name(&function.name)?;
        let args = match &function.args {
            ast::FunctionArguments::None => &[][..],
            ast::FunctionArguments::Subquery(query) if name == "array" => {
                let (plan, columns, correlated) = self.subplan(query, place.scope)?;
                let [(_, ty)] = columns.as_slice() else {
                    return Err(SqlError::new("42601", "subquery must return only one column"));
                };
                let array = ty
                    .plain()
                    .array()
                    .ok_or_else(|| SqlError::simulator("an array of arrays"))?;
                let kind = SubqueryKind::Array(ty.plain());
                return Ok(Typed::new(self.subquery(kind, plan, correlated, false), array));
            }
            ast::FunctionArguments::Subquery(_) => {
                return Err(SqlError::simulator("a subquery as the arguments of a function"));
            }
            ast::FunctionArguments::List(list) => &list.args[..],
        };
        if name == "sys.wait_for_job" {
            return Err(SqlError::new("42809", "sys.wait_for_job(text) is a procedure")
                .hint("To call a procedure, use CALL."));
        }
        if let Some(window) = &function.over {
            return super::aggregate::bind_window(self, &name, function, window, place);
        }
        if super::aggregate::is_aggregate(&name) {
            return super::aggregate::bind(self, &name, function, place);
        }
        if super::aggregate::is_window_only(&name) {
            return Err(SqlError::new(
                "42P20",
                format!("window function {name} requires an OVER clause"),
            ));
        }
        if function.filter.is_some() || !function.within_group.is_empty() {
            return Err(SqlError::new(
                "42809",
                format!("FILTER specified, but {name} is not an aggregate function"),
            ));
        }
        let mut bound = Vec::new();
        for arg in args {
            match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                    bound.push(self.expr(expr, place)?);
                }
                _ => return Err(SqlError::simulator(format!("this form of arguments of {name}"))),
            }
        }
        match name.as_str() {
            "coalesce" => {
                let (args, ty) = self.unify(bound, "COALESCE")?;
                Ok(Typed::new(Expr::Coalesce(args), ty))
            }
            "greatest" | "least" => {
                let greatest = name == "greatest";
                let what = if greatest { "GREATEST" } else { "LEAST" };
                let (args, ty) = self.unify(bound, what)?;
                Ok(Typed::new(Expr::Extreme { args, greatest }, ty))
            }
            "nullif" => {
                let [left, right] = <[Typed; 2]>::try_from(bound)
                    .map_err(|_| SqlError::syntax("nullif"))?;
                let same = operators::compare(self, Comparison::Eq, left.clone(), right)?;
                let value = self.settle(self.retyped(left))?;
                Ok(Typed::new(
                    Expr::Case {
                        branches: vec![(same, Expr::null())],
                        otherwise: value.expr.boxed(),
                    },
                    value.ty,
                ))
            }
            "row" => Ok(Typed::new(
                Expr::Row(bound.into_iter().map(|t| (t.ty, t.expr)).collect()),
                Type::RECORD,
            )),
            "generate_series" | "unnest" => Err(SqlError::new(
                "0A000",
                format!("set-returning functions are not allowed in {}", place.clause),
            )),
            "to_tsvector" | "to_tsquery" | "plainto_tsquery" => match bound.first() {
                // There is no text search configuration on DSQL.
                Some(Typed {
                    expr: Expr::Const(Value::Text(name)),
                    ..
                }) if bound.len() == 2 => Err(SqlError::new(
                    "42704",
                    format!("text search configuration \"{name}\" does not exist"),
                )),
                _ => Err(SqlError::simulator("full text search")),
            },
            "pg_typeof" => {
                let ty = bound.first().map_or(Type::UNKNOWN, |arg| arg.ty);
                Ok(Typed::new(
                    Expr::Const(Value::Int(i64::from(ty.oid))),
                    Type::REGTYPE,
                ))
            }
            _ => {
                if !functions::exists(&name) {
                    return self.undefined_function(&name, bound);
                }
                self.call(&name, bound)
            }
        }
    }

    fn undefined_function(&self, name: &str, mut args: Vec<Typed>) -> Result<Typed> {
        // A type's name called with one argument is a cast.
        if let ([arg], Ok(to)) = (args.as_slice(), types::by_name(name, &[])) {
            if arg.ty.is_unknown() || cast::allowed(arg.ty, to, Context::Explicit) {
                if let Some(arg) = args.pop() {
                    return self.explicit_cast(arg, to.plain());
                }
            }
        }
        if UNSUPPORTED_TYPES.contains(&name) {
            return Err(unsupported_type(name));
        }
        if self.catalog.functions.contains_key(name) {
            return Err(SqlError::simulator("calling a function written in SQL"));
        }
        let given: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
        functions::resolve(name, &given)?;
        Err(SqlError::new("42883", format!("function {name} does not exist")))
    }

    // Types.

    /// The type that a data type names, and its domain if it is one.
    pub(crate) fn data_type(&self, ty: &ast::DataType) -> Result<(Type, Option<Arc<Domain>>)> {
        data_type(self.catalog, ty)
    }
}

/// The name under which a scan gives the key of its rows.
pub(crate) const KEY_COLUMN: &str = "\0key";

/// Types that PostgreSQL has and DSQL refuses.
const UNSUPPORTED_TYPES: &[&str] = &[
    "money", "xml", "cidr", "macaddr", "macaddr8", "point", "line", "lseg", "box", "path", "polygon",
    "circle", "tsvector", "tsquery", "int4range", "int8range", "numrange", "tsrange", "tstzrange",
    "daterange", "int4multirange", "int8multirange", "nummultirange", "tsmultirange",
    "tstzmultirange", "datemultirange", "bit", "bit varying", "pg_lsn", "txid_snapshot",
    "pg_snapshot", "jsonpath",
];

fn unsupported_type(name: &str) -> SqlError {
    SqlError::unsupported(format!("datatype {name} not supported"))
}

/// The type that a data type names, and its domain if it is one.
pub(crate) fn data_type(
    catalog: &Catalog,
    ty: &ast::DataType,
) -> Result<(Type, Option<Arc<Domain>>)> {
    use ast::DataType as D;
    let length = |length: &Option<ast::CharacterLength>| match length {
        Some(ast::CharacterLength::IntegerLength { length, .. }) => vec![*length],
        _ => Vec::new(),
    };
    let exact = |info: &ast::ExactNumberInfo| match info {
        ast::ExactNumberInfo::None => Vec::new(),
        ast::ExactNumberInfo::Precision(precision) => vec![*precision],
        ast::ExactNumberInfo::PrecisionAndScale(precision, scale) => {
            vec![*precision, u64::try_from(*scale).unwrap_or(0)]
        }
    };
    let zoned = |zone: &ast::TimezoneInfo| {
        matches!(zone, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz)
    };
    let named = |name: &str, modifiers: Vec<u64>| types::by_name(name, &modifiers);
    let plain = |ty: Type| Ok((ty, None));
    let ty = match ty {
        D::Character(n) | D::Char(n) => named("char", length(n))?,
        D::CharacterVarying(n) | D::CharVarying(n) | D::Varchar(n) => named("varchar", length(n))?,
        D::Uuid => Type::UUID,
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => named("numeric", exact(info))?,
        D::Float(info) => named("float", exact(info))?,
        D::Int2(_) | D::SmallInt(_) => Type::INT2,
        D::Int(_) | D::Int4(_) | D::Integer(_) => Type::INT4,
        D::Int8(_) | D::BigInt(_) => Type::INT8,
        D::Float4 | D::Real => Type::FLOAT4,
        D::Float8 | D::DoublePrecision => Type::FLOAT8,
        D::Bool | D::Boolean => Type::BOOL,
        D::Date => Type::DATE,
        D::Time(n, zone) => {
            let name = if zoned(zone) { "timetz" } else { "time" };
            named(name, n.iter().copied().collect())?
        }
        D::Timestamp(n, zone) => {
            let name = if zoned(zone) { "timestamptz" } else { "timestamp" };
            named(name, n.iter().copied().collect())?
        }
        D::Interval { .. } => Type::INTERVAL,
        D::JSON => Type::JSON,
        D::JSONB => Type::JSONB,
        D::Regclass => Type::REGCLASS,
        D::Text => Type::TEXT,
        D::Bytea => Type::BYTEA,
        D::Bit(_) => return Err(unsupported_type("bit")),
        D::BitVarying(_) | D::VarBit(_) => return Err(unsupported_type("bit varying")),
        D::TsVector => return Err(unsupported_type("tsvector")),
        D::TsQuery => return Err(unsupported_type("tsquery")),
        D::GeometricType(kind) => {
            return Err(unsupported_type(&kind.to_string().to_lowercase()));
        }
        D::Array(
            ast::ArrayElemTypeDef::SquareBracket(element, _)
            | ast::ArrayElemTypeDef::AngleBracket(element),
        ) => {
            let (element, _) = data_type(catalog, element)?;
            return match element.plain().array() {
                Some(array) => plain(array),
                None => Err(SqlError::simulator("an array of arrays")),
            };
        }
        D::Custom(name, modifiers) => {
            let parts = name_parts(name)?;
            let last = parts.last().map_or("", String::as_str);
            if let Some(domain) = catalog.domains.get(last) {
                return Ok((domain.ty, Some(Arc::clone(domain))));
            }
            let numbers: Vec<u64> = modifiers
                .iter()
                .filter_map(|modifier| match modifier {
                    ast::TypeModifier::Number(digits, _) => digits.parse().ok(),
                    _ => None,
                })
                .collect();
            if UNSUPPORTED_TYPES.contains(&last) {
                return Err(unsupported_type(last));
            }
            if last == "varbit" {
                return Err(unsupported_type("bit varying"));
            }
            if let Some(element) = last.strip_prefix('_') {
                if let Ok(element) = types::by_name(element, &[]) {
                    if let Some(array) = element.array() {
                        return plain(array);
                    }
                }
            }
            // A bare bpchar has no length, unlike char.
            named(last, numbers)?
        }
        other => {
            let name = other.to_string().to_lowercase();
            return Err(SqlError::new(
                "42704",
                format!("type \"{name}\" does not exist"),
            ));
        }
    };
    plain(ty)
}

/// A name as it is looked up: lower case unless it was quoted.
pub(crate) fn fold(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() {
        ident.value.clone()
    } else {
        ident.value.to_lowercase()
    }
}

/// The parts of a dotted name.
pub(crate) fn name_parts(name: &ast::ObjectName) -> Result<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part {
            ast::ObjectNamePart::Identifier(ident) => Ok(fold(ident)),
            ast::ObjectNamePart::Function(_) => Err(SqlError::simulator("a function in a name")),
        })
        .collect()
}

/// Schema, if given, and name.
pub(crate) fn qualified(name: &ast::ObjectName) -> Result<(Option<String>, String)> {
    let mut parts = name_parts(name)?;
    match parts.len() {
        1 => Ok((None, parts.remove(0))),
        2 => {
            let schema = parts.remove(0);
            Ok((Some(schema), parts.remove(0)))
        }
        3 => {
            let schema = parts.remove(1);
            Ok((Some(schema), parts.remove(1)))
        }
        _ => Err(SqlError::new(
            "42601",
            format!("improper relation name (too many dotted names): {name}"),
        )),
    }
}

/// A function's name; that of a system function without its schema.
pub(crate) fn function_name(name: &ast::ObjectName) -> Result<String> {
    let parts = name_parts(name)?;
    Ok(match parts.as_slice() {
        [schema, name] if schema == "pg_catalog" || schema == "public" => name.clone(),
        parts => parts.join("."),
    })
}

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
