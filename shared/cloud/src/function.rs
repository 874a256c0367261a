//! What all functions do around their own work: log, keep what a warm process
//! keeps, make a clock for each invocation, and say in one line why one failed.

use std::time::Duration;

use clock::{Clock, Time};
use fleet::StoreError;
use fleet::run::RunError;
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::Value;

use crate::config::ConfigError;
use crate::process::{Process, deadline};

/// The longest that a run's start may lie before an invocation of it.
const PAST: Duration = Duration::from_secs(7 * 86_400);

/// One invocation.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its id, which no other has.
    pub id: String,
    /// Its clock, made when it began.
    pub clock: Clock,
    /// When the platform ends it.
    pub deadline: Time,
}

/// Why an invocation failed, as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refused {
    /// What kind of failure it was.
    pub kind: &'static str,
    /// In one line.
    pub why: String,
}

impl Refused {
    /// A refusal; nothing was done.
    pub fn new(kind: &'static str, why: impl ToString) -> Refused {
        Refused {
            kind,
            why: why.to_string(),
        }
    }
}

impl From<ConfigError> for Refused {
    fn from(error: ConfigError) -> Refused {
        Refused::new("Config", error)
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Refused {
        Refused::new("Store", error)
    }
}

impl From<RunError> for Refused {
    fn from(error: RunError) -> Refused {
        Refused::new("Run", error)
    }
}

impl From<Refused> for Diagnostic {
    fn from(refused: Refused) -> Diagnostic {
        Diagnostic {
            error_type: refused.kind.to_owned(),
            error_message: refused.why,
        }
    }
}

/// Serves invocations, one after the other, until the platform ends the process.
///
/// # Errors
/// When the platform cannot be reached.
pub fn serve<F>(handle: F) -> Result<(), lambda_runtime::Error>
where
    F: AsyncFn(&Process, Value, &Call) -> Result<Value, Refused>,
{
    crate::logs::start();
    // One thread: the fleet's futures stay on the one that made them.
    let runtime = clock::real_runtime()?;
    let (process, handle) = (&Process::open(), &handle);
    let serving = service_fn(move |event: LambdaEvent<Value>| async move {
        // A later leg counts from a start before this invocation.
        let clock = Clock::real_since(PAST);
        let (event, context) = event.into_parts();
        let call = Call {
            id: context.request_id,
            clock,
            deadline: deadline(clock, context.deadline),
        };
        // Boxed, or the runtime's own futures would hold it many times over.
        let answer = Box::pin(handle(process, event, &call)).await;
        answer.inspect_err(|refused| {
            tracing::error!(request = call.id, kind = refused.kind, "{refused}");
        })
    });
    runtime.block_on(lambda_runtime::run(serving))
}
