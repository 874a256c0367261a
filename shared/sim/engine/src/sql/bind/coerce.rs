//! Conversion: what an expression has to become, and what several become together.

use super::*;
use crate::error::{Result, SqlError};
use crate::sql::cast::{self, Context};
use crate::sql::expr::Expr;
use crate::sql::functions;
use crate::types::Type;
use crate::value::{Value, text};
use sqlparser::ast::{self, Spanned as _};

impl<'b> Binder<'b> {
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
    pub(super) fn fold_constant(&self, cast: Expr) -> Result<Expr> {
        if let Expr::Cast { expr, from, to, .. } = &cast {
            let needs_catalog = (from.is_oid() || to.is_oid()) && !to.is_int();
            if matches!(**expr, Expr::Const(_)) && !needs_catalog {
                let value = crate::sql::expr::eval(&cast, &crate::sql::expr::Ctx::bare(), &[])?;
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
        Ok(if common.is_unknown() {
            Type::TEXT
        } else {
            common
        })
    }

    pub(super) fn unify(&self, all: Vec<Typed>, what: &str) -> Result<(Vec<Expr>, Type)> {
        let types: Vec<Type> = all.iter().map(|typed| typed.ty).collect();
        let common = self.common_type(&types, what)?;
        let exprs: Result<Vec<Expr>> = all
            .into_iter()
            .map(|typed| self.coerce(typed, common, Context::Implicit))
            .collect();
        Ok((exprs?, common))
    }

    /// A parameter with the type that it has got since.
    pub(super) fn retyped(&self, typed: Typed) -> Typed {
        match typed.expr {
            Expr::Param(n) => {
                let known = self.params.borrow().get(n).copied();
                Typed::new(Expr::Param(n), known.unwrap_or(typed.ty))
            }
            _ => typed,
        }
    }

    pub(crate) fn explicit_cast(&self, typed: Typed, to: Type) -> Result<Typed> {
        let expr = self.coerce(typed, to, Context::Explicit)?;
        Ok(Typed::new(expr, to))
    }
}
