//! Prepared statements: plans that outlive the schema they were made with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Column;
use crate::catalog::Catalog;
use crate::error::{Result, SqlError};
use crate::sql::bind::Binder;
use crate::sql::parse::{Command, Statement};
use crate::statement::{self, Plan};
use crate::types::Type;

/// A statement that was parsed and planned, ready to be executed many times.
/// When the schema changes it is planned anew by itself.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) statement: Arc<Statement>,
    params: Arc<[Type]>,
    columns: Option<Arc<[Column]>>,
    current: Mutex<Current>,
}

/// A plan and the schema that it was made with.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    /// Of the catalog.
    generation: u64,
    plan: Arc<Plan>,
    params: Arc<[Type]>,
    columns: Option<Arc<[Column]>>,
}

impl Current {
    /// Plans a statement; what is not known of its parameters is inferred.
    fn new(catalog: &Arc<Catalog>, statement: &Statement, params: Vec<Type>) -> Result<Current> {
        let binder = Binder::new(catalog, params, &statement.script);
        let planned = statement::plan(&binder, &statement.command)?;
        let params = binder.params.into_inner();
        if let Some(n) = params.iter().position(|ty| ty.is_unknown()) {
            return Err(SqlError::new(
                "42P18",
                format!("could not determine data type of parameter ${}", n + 1),
            ));
        }
        Ok(Current {
            generation: catalog.generation,
            plan: Arc::new(planned.plan),
            params: params.into(),
            columns: planned.columns,
        })
    }
}

/// The types that a Parse message declares; 0 is one to be inferred.
fn declared(oids: &[u32]) -> Result<Vec<Type>> {
    oids.iter()
        .map(|oid| match Type::from_oid(*oid) {
            _ if *oid == 0 => Ok(Type::UNKNOWN),
            Some(ty) => Ok(ty),
            None => Err(SqlError::new(
                "42704",
                format!("type with OID {oid} does not exist"),
            )),
        })
        .collect()
}

impl Prepared {
    /// Plans a statement, or finds the plan that it already has.
    pub(super) fn new(
        catalog: &Arc<Catalog>,
        statement: &Arc<Statement>,
        param_types: &[u32],
    ) -> Result<Prepared> {
        let known = statement.planned();
        let current = match &*known {
            Some(known) if param_types.is_empty() && known.generation == catalog.generation => {
                known.clone()
            }
            _ => {
                // Planning may take long; the place of the plan is free
                // meanwhile.
                drop(known);
                let current = Current::new(catalog, statement, declared(param_types)?)?;
                if param_types.is_empty() {
                    *statement.planned() = Some(current.clone());
                }
                current
            }
        };
        Ok(Prepared {
            statement: Arc::clone(statement),
            params: Arc::clone(&current.params),
            columns: current.columns.clone(),
            current: Mutex::new(current),
        })
    }

    /// Types of `$1`, `$2`, ….
    pub fn params(&self) -> &[Type] {
        &self.params
    }

    /// Columns of its result, `None` when it returns none (NoData).
    pub fn columns(&self) -> Option<&Arc<[Column]>> {
        self.columns.as_ref()
    }

    /// Nothing but white space and comments: EmptyQueryResponse.
    pub fn is_empty(&self) -> bool {
        matches!(self.statement.command, Command::Empty)
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its plan is one for this schema.
    pub(super) fn fits(&self, catalog: &Catalog) -> bool {
        self.current().generation == catalog.generation
    }

    /// The plan for a schema, made anew if the schema is another one.
    pub(super) fn plan(&self, catalog: &Arc<Catalog>) -> Result<Arc<Plan>> {
        let mut current = self.current();
        if current.generation != catalog.generation {
            let again = Current::new(catalog, &self.statement, self.params.to_vec())?;
            let same = match (&again.columns, &self.columns) {
                (None, None) => true,
                (Some(new), Some(old)) => new[..] == old[..],
                _ => false,
            };
            if !same {
                return Err(SqlError::unsupported(
                    "cached plan must not change result type",
                ));
            }
            *current = again;
        }
        Ok(Arc::clone(&current.plan))
    }
}
