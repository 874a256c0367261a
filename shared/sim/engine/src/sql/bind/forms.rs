//! The forms of expressions that need more than a line.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::cast::Context;
use crate::sql::expr::{Comparison, Expr, Subquery, SubqueryKind};
use crate::sql::operators;
use crate::sql::plan::{Columns, Node};
use crate::types::Type;
use crate::value::Value;
use sqlparser::ast::{self};
use std::sync::Arc;

impl<'b> Binder<'b> {
    pub(super) fn junction(
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

    pub(super) fn is_null(
        &self,
        inner: &ast::Expr,
        negated: bool,
        place: Place<'_>,
    ) -> Result<Typed> {
        let typed = self.expr(inner, place)?;
        Ok(Typed::bool(Expr::IsNull {
            expr: typed.expr.boxed(),
            negated,
        }))
    }

    pub(super) fn is_bool(
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

    pub(super) fn distinct(
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

    pub(super) fn in_list(
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
                tests.push(operators::compare(
                    self,
                    Comparison::Eq,
                    value.clone(),
                    item,
                )?);
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
                return Err(operators::no_operator(
                    "=",
                    value.ty,
                    other.unwrap_or(Type::TEXT),
                ));
            }
        };
        let list: Result<Vec<Expr>> = items
            .into_iter()
            .map(|item| self.coerce(item, common.plain(), Context::Implicit))
            .collect();
        Ok(Typed::bool(Expr::InList {
            expr: self
                .coerce(value, common.plain(), Context::Implicit)?
                .boxed(),
            list: list?,
            negated,
        }))
    }

    pub(super) fn quantified(
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
            expr: self
                .coerce(value, common.plain(), Context::Implicit)?
                .boxed(),
            op: comparison,
            array: self.coerce(array, array_type, Context::Implicit)?.boxed(),
            all,
        }))
    }

    pub(super) fn any_subquery(
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

    pub(super) fn subquery(
        &self,
        kind: SubqueryKind,
        plan: Node,
        correlated: bool,
        negated: bool,
    ) -> Expr {
        Expr::Subquery(Box::new(Subquery {
            kind,
            plan: Arc::new(plan),
            correlated,
            slot: self.take_slot(),
            negated,
        }))
    }

    /// Plans a subquery and finds out whether it looks outside.
    pub(super) fn subplan(
        &self,
        query: &ast::Query,
        scope: &Scope<'_>,
    ) -> Result<(Node, Columns, bool)> {
        let before = self.reach.replace(0);
        let planned = crate::sql::plan::query(self, query, Some(scope), None)?;
        let reach = self.reach.get();
        self.reach.set(before.max(reach.saturating_sub(1)));
        Ok((planned.node, planned.columns, reach > 0))
    }

    pub(super) fn row(&self, items: &[ast::Expr], place: Place<'_>) -> Result<Typed> {
        let mut fields = Vec::new();
        for item in items {
            let typed = self.expr(item, place)?;
            fields.push((typed.ty, typed.expr));
        }
        Ok(Typed::new(Expr::Row(fields), Type::RECORD))
    }

    pub(super) fn case(
        &self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        place: Place<'_>,
    ) -> Result<Typed> {
        let operand = operand
            .map(|operand| self.expr(operand, place))
            .transpose()?;
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

    pub(super) fn interval(&self, interval: &ast::Interval, place: Place<'_>) -> Result<Typed> {
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

    pub(super) fn subscript(
        &self,
        root: &ast::Expr,
        chain: &[ast::AccessExpr],
        place: Place<'_>,
    ) -> Result<Typed> {
        let value = self.expr(root, place)?;
        let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = chain else {
            return Err(SqlError::simulator("field selection and array slices"));
        };
        let element = value.ty.element().ok_or_else(|| {
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
}
