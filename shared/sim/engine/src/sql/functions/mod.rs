//! Functions by name: what they take, what they give, how they are computed.

mod digest;
mod math;
mod string;
mod system;
mod time;

use super::cast::{self, Context};
use super::expr::Ctx;
use crate::error::{Result, SqlError};
use crate::types::Type;
use crate::value::Value;

const fn pseudo(oid: u32) -> Type {
    Type {
        oid,
        size: -1,
        modifier: -1,
    }
}

/// Takes a value of any type.
pub(crate) const ANY: Type = pseudo(2276);
/// Takes an array of any type.
pub(crate) const ANYARRAY: Type = pseudo(2277);
/// Takes a value of the element type of the array beside it.
pub(crate) const ANYELEMENT: Type = pseudo(2283);

/// What a function gives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gives {
    Type(Type),
    /// The type of its `n`th argument.
    Same(usize),
    /// The element type of its `n`th argument.
    Element(usize),
}

/// Computes a function from its arguments.
pub(crate) type Eval = fn(&Ctx<'_>, &[Value]) -> Result<Value>;

/// One function, or one of several of a name.
pub(crate) struct Function {
    pub name: &'static str,
    pub args: &'static [Type],
    /// The last argument may come any number of times, also not at all.
    pub variadic: bool,
    pub gives: Gives,
    /// NULL for NULL, without being asked.
    pub strict: bool,
    /// May give something else the next time.
    pub volatile: bool,
    pub eval: Eval,
}

impl Function {
    pub(crate) const fn new(
        name: &'static str,
        args: &'static [Type],
        gives: Type,
        eval: Eval,
    ) -> Function {
        Function {
            name,
            args,
            variadic: false,
            gives: Gives::Type(gives),
            strict: true,
            volatile: false,
            eval,
        }
    }

    pub(crate) const fn gives(mut self, gives: Gives) -> Function {
        self.gives = gives;
        self
    }

    /// Wants to see NULLs.
    pub(crate) const fn lenient(mut self) -> Function {
        self.strict = false;
        self
    }

    pub(crate) const fn volatile(mut self) -> Function {
        self.volatile = true;
        self
    }

    pub(crate) const fn variadic(mut self) -> Function {
        self.variadic = true;
        self
    }

    pub(crate) fn call(&self, cx: &Ctx<'_>, args: &[Value]) -> Result<Value> {
        if self.strict && args.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        (self.eval)(cx, args)
    }

    /// The type of its `n`th argument.
    fn arg(&self, n: usize) -> Option<Type> {
        match self.args.get(n) {
            Some(ty) => Some(*ty),
            None if self.variadic => self.args.last().copied(),
            None => None,
        }
    }

    fn takes(&self, count: usize) -> bool {
        if self.variadic {
            count + 1 >= self.args.len()
        } else {
            count == self.args.len()
        }
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        std::ptr::eq(self, other)
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All functions; of equally good ones the first is taken.
fn all() -> impl Iterator<Item = &'static Function> {
    string::FUNCTIONS
        .iter()
        .chain(math::FUNCTIONS)
        .chain(time::FUNCTIONS)
        .chain(system::FUNCTIONS)
}

/// Whether there is a function of this name at all.
pub(crate) fn exists(name: &str) -> bool {
    all().any(|function| function.name == name)
}

/// How well an argument suits: higher is better, `None` not at all.
fn suits(given: Type, wanted: Type) -> Option<u32> {
    if wanted.is(ANY) || wanted.is(ANYELEMENT) {
        return Some(2);
    }
    if wanted.is(ANYARRAY) {
        return given.element().map(|_| 2);
    }
    if given.is(wanted) {
        return Some(9);
    }
    if given.is_unknown() {
        // Text is what an untyped literal most likely is; of numbers, double
        // precision is preferred.
        return Some(match wanted {
            Type::TEXT => 3,
            Type::FLOAT8 => 2,
            _ => 1,
        });
    }
    if !cast::allowed(given, wanted, Context::Implicit) {
        return None;
    }
    // What PostgreSQL prefers when nothing fits exactly is double precision;
    // else the nearer along the ladder of numbers, the better.
    if wanted.is(Type::FLOAT8) && given.is_number() {
        return Some(8);
    }
    let steps = u32::from(wanted.rank().abs_diff(given.rank()));
    Some(8u32.saturating_sub(steps).max(1))
}

/// The best function of a name for these arguments, with the types that they
/// are to be converted to and the type of its result.
pub(crate) fn resolve(name: &str, given: &[Type]) -> Result<(&'static Function, Vec<Type>, Type)> {
    let mut best: Option<(u32, &'static Function)> = None;
    for function in all().filter(|f| f.name == name && f.takes(given.len())) {
        let score = given.iter().enumerate().try_fold(0, |sum, (n, ty)| {
            function
                .arg(n)
                .and_then(|wanted| suits(*ty, wanted))
                .map(|score| sum + score)
        });
        if let Some(score) = score
            && best.is_none_or(|(most, _)| score > most)
        {
            best = Some((score, function));
        }
    }
    let Some((_, function)) = best else {
        return Err(undefined(name, given));
    };
    // Array and element types among the arguments have to agree.
    let element = given
        .iter()
        .enumerate()
        .find(|(n, _)| function.arg(*n).is_some_and(|ty| ty.is(ANYARRAY)))
        .and_then(|(_, ty)| ty.element());
    let wanted: Vec<Type> = given
        .iter()
        .enumerate()
        .map(|(n, ty)| match function.arg(n) {
            Some(wanted) if wanted.is(ANYELEMENT) => element.unwrap_or(*ty),
            Some(wanted) if wanted.is(ANY) || wanted.is(ANYARRAY) => {
                if ty.is_unknown() {
                    Type::TEXT
                } else {
                    *ty
                }
            }
            Some(wanted) => wanted,
            None => *ty,
        })
        .collect();
    let result = match function.gives {
        Gives::Type(ty) => ty,
        Gives::Same(n) => wanted.get(n).copied().unwrap_or(Type::TEXT).plain(),
        Gives::Element(n) => wanted
            .get(n)
            .and_then(|ty| ty.element())
            .unwrap_or(Type::TEXT),
    };
    Ok((function, wanted, result))
}

fn undefined(name: &str, given: &[Type]) -> SqlError {
    let types: Vec<String> = given.iter().map(|ty| ty.display()).collect();
    let error = SqlError::new(
        "42883",
        format!("function {name}({}) does not exist", types.join(", ")),
    );
    error.hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

/// What a strict function's arguments are known to be; anything else is a
/// mistake in the planner.
macro_rules! arg {
    ($args:expr, $n:expr, $variant:ident) => {
        match $args.get($n) {
            Some($crate::value::Value::$variant(value)) => value,
            _ => return Ok($crate::value::Value::Null),
        }
    };
}
pub(crate) use arg;
