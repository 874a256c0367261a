//! Calls: functions, what looks like one, and what there is none of.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::cast::{self, Context};
use crate::sql::expr::{Comparison, Expr, SubqueryKind};
use crate::sql::functions;
use crate::sql::operators;
use crate::types::{self, Type};
use crate::value::Value;
use sqlparser::ast::{self, Spanned as _};

impl<'b> Binder<'b> {
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

    pub(super) fn function(&self, function: &ast::Function, place: Place<'_>) -> Result<Typed> {
        let position = self.position(function.name.span());
        self.any_function(function, place)
            .map_err(|e| e.at(position))
    }

    pub(super) fn any_function(&self, function: &ast::Function, place: Place<'_>) -> Result<Typed> {
        let name = function_name(&function.name)?;
        let args = match &function.args {
            ast::FunctionArguments::None => &[][..],
            ast::FunctionArguments::Subquery(query) if name == "array" => {
                let (plan, columns, correlated) = self.subplan(query, place.scope)?;
                let [(_, ty)] = columns.as_slice() else {
                    return Err(SqlError::new(
                        "42601",
                        "subquery must return only one column",
                    ));
                };
                let array = ty
                    .plain()
                    .array()
                    .ok_or_else(|| SqlError::simulator("an array of arrays"))?;
                let kind = SubqueryKind::Array(ty.plain());
                return Ok(Typed::new(
                    self.subquery(kind, plan, correlated, false),
                    array,
                ));
            }
            ast::FunctionArguments::Subquery(_) => {
                return Err(SqlError::simulator(
                    "a subquery as the arguments of a function",
                ));
            }
            ast::FunctionArguments::List(list) => &list.args[..],
        };
        if name == "sys.wait_for_job" {
            return Err(
                SqlError::new("42809", "sys.wait_for_job(text) is a procedure")
                    .hint("To call a procedure, use CALL."),
            );
        }
        if let Some(window) = &function.over {
            return crate::sql::aggregate::bind_window(self, &name, function, window, place);
        }
        if crate::sql::aggregate::is_aggregate(&name) {
            return crate::sql::aggregate::bind(self, &name, function, place);
        }
        if crate::sql::aggregate::is_window_only(&name) {
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
                _ => {
                    return Err(SqlError::simulator(format!(
                        "this form of arguments of {name}"
                    )));
                }
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
                let [left, right] =
                    <[Typed; 2]>::try_from(bound).map_err(|_| SqlError::syntax("nullif"))?;
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
                format!(
                    "set-returning functions are not allowed in {}",
                    place.clause
                ),
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

    pub(super) fn undefined_function(&self, name: &str, mut args: Vec<Typed>) -> Result<Typed> {
        // A type's name called with one argument is a cast.
        if let ([arg], Ok(to)) = (args.as_slice(), types::by_name(name, &[]))
            && (arg.ty.is_unknown() || cast::allowed(arg.ty, to, Context::Explicit))
            && let Some(arg) = args.pop()
        {
            return self.explicit_cast(arg, to.plain());
        }
        if UNSUPPORTED_TYPES.contains(&name) {
            return Err(unsupported_type(name));
        }
        if self.catalog.functions.contains_key(name) {
            return Err(SqlError::simulator("calling a function written in SQL"));
        }
        let given: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
        functions::resolve(name, &given)?;
        Err(SqlError::new(
            "42883",
            format!("function {name} does not exist"),
        ))
    }
}
