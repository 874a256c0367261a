//! From a target of a plan to one that a worker can connect to.
//!
//! # What is kept, and for how long
//!
//! A [`Target`] lives by the clock it was made with, and so do the ages of its
//! connections and the expiry of its tokens. While a Lambda is frozen its
//! monotonic clock may stand still, and a clock from before would then be minutes
//! behind: an expired token would pass for a good one. So a clock is made for
//! each invocation, and a [`Targets`] with it; within the invocation one target
//! serves all tasks.
//!
//! What a warm Lambda wants to keep is not in a target: the signer of tokens is
//! one for the whole process. It judges a token's age by the wall clock that it is
//! handed, so a token is signed once for all connections and serves the next
//! invocation as long as it is really good. The URL of a secret is asked for once
//! in an invocation: it may have been rotated since the last.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use clock::Clock;
use plan::{AddressKind, TargetSpec};
use target::Target;

use crate::clients::Clients;
use crate::secrets;

/// The targets of one invocation.
#[derive(Debug)]
pub struct Targets {
    clients: Rc<Clients>,
    region: String,
    clock: Clock,
    /// By address, secrets by their name.
    kept: RefCell<BTreeMap<String, Target>>,
}

impl Targets {
    /// None yet; secrets are looked for in `region`.
    pub fn new(clients: Rc<Clients>, region: impl Into<String>, clock: Clock) -> Targets {
        Targets {
            clients,
            region: region.into(),
            clock,
            kept: RefCell::default(),
        }
    }

    /// The target that a plan means.
    ///
    /// # Errors
    /// In one line, without a password: why a worker can't have it.
    pub async fn resolve(&self, spec: &TargetSpec) -> Result<Target, String> {
        let address = spec.address.expose();
        if let Some(target) = self.kept.borrow().get(address) {
            return Ok(target.clone());
        }
        let made = match spec.address.kind() {
            AddressKind::Simulator { preset } => {
                return Err(format!(
                    "target {}: workers do not hold the simulator; serve it with `fabric sim \
                     serve --preset {preset}` and give its dsql:// address",
                    spec.name
                ));
            }
            AddressKind::Dsql { .. } | AddressKind::Postgres => {
                Target::from_url(address, self.clock)
            }
            AddressKind::Secret { id } => {
                let url = secrets::url(&self.clients, id, &self.region).await?;
                Target::from_url(url.expose(), self.clock)
            }
        };
        let target = made.map_err(|error| format!("target {}: {error}", spec.name))?;
        let mut kept = self.kept.borrow_mut();
        Ok(kept.entry(address.to_owned()).or_insert(target).clone())
    }
}
