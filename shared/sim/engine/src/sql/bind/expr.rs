//! Expressions: one arm for every form that they have.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::cast::Context;
use crate::sql::expr::{Comparison, Expr, SubqueryKind};
use crate::sql::operators;
use crate::types::Type;
use crate::value::Value;
use sqlparser::ast::{self, Spanned as _};

impl<'b> Binder<'b> {
    // Expressions.

    pub(crate) fn exprs(&self, exprs: &[ast::Expr], place: Place<'_>) -> Result<Vec<Typed>> {
        exprs.iter().map(|expr| self.expr(expr, place)).collect()
    }

    pub(crate) fn expr(&self, expr: &ast::Expr, place: Place<'_>) -> Result<Typed> {
        self.deeper(|| self.any_expr(expr, place))
    }

    pub(super) fn any_expr(&self, expr: &ast::Expr, place: Place<'_>) -> Result<Typed> {
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
                    if let (ast::UnaryOperator::Minus, ast::Expr::Value(value)) = (op, &**expr)
                        && let ast::Value::Number(digits, _) = &value.value
                    {
                        return self.number(&format!("-{digits}"));
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
            } => self.case(
                operand.as_deref(),
                conditions,
                else_result.as_deref(),
                place,
            ),
            ast::Expr::Function(function) => self.function(function, place),
            ast::Expr::Subquery(query) => {
                let (plan, columns, correlated) = self.subplan(query, place.scope)?;
                let [(_, ty)] = columns.as_slice() else {
                    return Err(SqlError::new(
                        "42601",
                        "subquery must return only one column",
                    ));
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
                    return Err(
                        SqlError::new("42P18", "cannot determine type of empty array").hint(
                            "Explicitly cast to the desired type, for example ARRAY[]::integer[].",
                        ),
                    );
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

    pub(super) fn literal(&self, value: &ast::Value) -> Result<Typed> {
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
                    .ok_or_else(|| {
                        SqlError::new("42P02", format!("there is no parameter {name}"))
                    })?;
                let mut params = self.params.borrow_mut();
                while params.len() < n {
                    params.push(Type::UNKNOWN);
                }
                Typed::new(Expr::Param(n - 1), params[n - 1])
            }
            other => {
                return Err(SqlError::simulator(format!(
                    "the literal {}",
                    shorten(&other.to_string())
                )));
            }
        })
    }

    pub(super) fn number(&self, digits: &str) -> Result<Typed> {
        let mut plain = digits.replace('_', "");
        let bare = plain.trim_start_matches('-');
        let radix = match bare.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => 16,
            Some("0o") => 8,
            Some("0b") => 2,
            _ => 10,
        };
        if radix != 10 {
            let n =
                i128::from_str_radix(&bare[2..], radix).map_err(|_| SqlError::syntax(digits))?;
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
}
