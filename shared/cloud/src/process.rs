//! What a function has in its process and makes for each invocation.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use clock::{Clock, Time};
use fleet::{Env, Settings};

use crate::clients::Clients;
use crate::config::{Config, ConfigError};
use crate::queues::CloudQueue;
use crate::store::CloudStore;
use crate::targets::Targets;

/// Made once: what a warm function keeps.
#[derive(Debug)]
pub struct Process {
    clients: Rc<Clients>,
    /// Its stack; `None` for a function that runs on its own.
    config: Result<Option<Rc<Config>>, ConfigError>,
    region: String,
    memory_mb: f64,
}

/// MB of memory that buy a function one vCPU. Source: "Configure Lambda function
/// memory" in Lambda's developer guide.
const MB_PER_VCPU: f64 = 1_769.0;

/// Epoch milliseconds are above this. `cargo lambda watch` gives the milliseconds
/// that are left instead.
const EPOCH_MS: u64 = 1_000_000_000_000;

impl Process {
    /// Reads the environment. What is wrong with it is told when it is needed.
    pub fn open() -> Process {
        let variable = |name| std::env::var(name).ok();
        let memory = variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE");
        Process {
            clients: Rc::new(Clients::new()),
            config: Config::from_env_if_any().map(|config| config.map(Rc::new)),
            region: variable("AWS_REGION").unwrap_or_else(|| "us-east-1".to_owned()),
            memory_mb: memory.and_then(|mb| mb.parse().ok()).unwrap_or(MB_PER_VCPU),
        }
    }

    /// The region that it runs in.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// vCPUs that its memory buys.
    pub fn vcpus(&self) -> f64 {
        self.memory_mb / MB_PER_VCPU
    }

    /// Whether it belongs to a stack.
    ///
    /// # Errors
    /// When it does and something of it is missing.
    pub fn has_stack(&self) -> Result<bool, ConfigError> {
        self.config.clone().map(|config| config.is_some())
    }

    /// Its stack.
    ///
    /// # Errors
    /// The first variable that is missing or does not make sense.
    pub fn config(&self) -> Result<Rc<Config>, ConfigError> {
        let config = self.config.clone()?;
        config.ok_or(ConfigError::Missing("FABRIC_STACK"))
    }

    /// The protocol's surroundings for one invocation, `id` being its own.
    ///
    /// # Errors
    /// Those of [`Process::config`].
    pub fn env(&self, clock: Clock, id: &str) -> Result<Env<CloudStore, CloudQueue>, ConfigError> {
        let config = self.config()?;
        let clients = &self.clients;
        // Pauses of functions that are throttled together should differ.
        let seed = id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Ok(Env::new(
            CloudStore::new(clients.clone(), config.clone(), clock),
            CloudQueue::new(clients.clone(), config.clone(), clock),
            clock,
            config.regions.clone(),
            settings(config.worker_timeout),
            seed,
        ))
    }

    /// The targets of one invocation.
    pub fn targets(&self, clock: Clock) -> Targets {
        Targets::new(self.clients.clone(), &self.region, clock)
    }
}

/// The instant of an invocation's deadline, which the platform gives in
/// milliseconds since 1970.
pub fn deadline(clock: Clock, deadline_ms: u64) -> Time {
    if deadline_ms < EPOCH_MS {
        return clock.now() + Duration::from_millis(deadline_ms);
    }
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(deadline_ms);
    clock.now() + at.duration_since(clock.wall()).unwrap_or_default()
}

/// How long things may take where a worker lives for `life`. Workers and the
/// conductor must agree on it; both have the same variable from the template.
///
/// A worker of the first leg gathers, connects, runs its leg and writes what it
/// has; one of a later leg waits for its turn first. Both must fit into its life.
pub fn settings(life: Duration) -> Settings {
    let whole = Settings::default();
    let reserve = (life / 12).clamp(Duration::from_secs(2), whole.reserve);
    let gather = (life * 4 / 15).min(whole.gather);
    let connect = life / 20;
    let leg = life.saturating_sub(gather + reserve + connect);
    Settings {
        reserve,
        gather,
        leg: leg.min(whole.leg),
        leg_lead: (life / 15).clamp(Duration::from_secs(4), whole.leg_lead),
        step: life.saturating_sub(2 * reserve).min(whole.step),
        ..whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leg_fits_into_a_workers_life() {
        for s in [15, 30, 60, 120, 300, 600, 900] {
            let life = Duration::from_secs(s);
            let settings = settings(life);
            let first = settings.gather + settings.leg + settings.reserve;
            let later = settings.leg_lead + settings.leg + settings.reserve;
            assert!(first < life && later < life, "{s} s: {settings:?}");
            assert!(settings.step + settings.reserve < life, "{s} s");
            assert!(
                settings.leg >= life / 2,
                "{s} s: a leg of {:?}",
                settings.leg
            );
        }
        let whole = settings(Duration::from_secs(900));
        assert_eq!(whole.reserve, Settings::default().reserve);
        assert_eq!(whole.gather, Settings::default().gather);
    }

    #[test]
    fn a_deadline_is_an_instant_or_a_span() {
        let clock = Clock::real();
        let now = clock.now();
        let wall = clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let in_a_minute = u64::try_from(wall.as_millis()).unwrap() + 60_000;
        for given in [in_a_minute, 60_000] {
            let left = deadline(clock, given).since(now).as_millis();
            assert!((59_000..61_000).contains(&left), "{given}: {left} ms");
        }
        // One that has passed leaves nothing.
        let past = deadline(clock, in_a_minute - 120_000);
        assert!(past.since(clock.now()).is_zero());
    }
}
