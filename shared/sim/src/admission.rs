//! Who may connect: so many a second, so many in all, for so long.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clock::Time;

use crate::faults::Refusal;

/// The cluster's rules for connections; by default those of Aurora DSQL
/// (<https://docs.aws.amazon.com/aurora-dsql/latest/userguide/CHAP_quotas.html>).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionLimits {
    /// Open connections of the whole cluster.
    pub open: u32,
    /// Connections that may be opened at once.
    pub burst: u32,
    /// Connections a second that may be opened once the burst is used up.
    pub per_second: f64,
    /// How long a connection lives. A transaction that is open then may end.
    pub lifetime: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            open: 10_000,
            burst: 1_000,
            per_second: 100.0,
            lifetime: Duration::from_secs(3_600),
        }
    }
}

/// The gate of a cluster: a token bucket and a count.
///
/// Whether the endpoints of a multi-region cluster have a bucket each is not
/// documented; the quota is stated per cluster, so they share one here.
#[derive(Debug)]
pub(crate) struct Gate {
    limits: ConnectionLimits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tokens: f64,
    filled: Time,
    open: u32,
}

impl Gate {
    pub(crate) fn new(limits: ConnectionLimits) -> Gate {
        let state = Mutex::new(State {
            tokens: f64::from(limits.burst),
            filled: Time::ZERO,
            open: 0,
        });
        Gate { limits, state }
    }

    /// How long a connection lives; a year is as good as for ever, and keeps
    /// instants within what timers can hold.
    pub(crate) fn lifetime(&self) -> Duration {
        self.limits.lifetime.min(Duration::from_secs(365 * 86_400))
    }

    /// Lets one connection in, or says why not. A refused one takes no token.
    pub(crate) fn enter(&self, now: Time) -> Result<(), Refusal> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = now.since(state.filled).as_secs_f64() * self.limits.per_second;
        state.tokens = (state.tokens + earned).min(f64::from(self.limits.burst));
        state.filled = state.filled.max(now);
        if state.open >= self.limits.open {
            return Err(Refusal::TooMany);
        }
        // A token that is earned at this very instant must not be missed for
        // a rounding error.
        if state.tokens < 1.0 - 1e-9 {
            return Err(Refusal::Rate);
        }
        state.tokens -= 1.0;
        state.open += 1;
        Ok(())
    }

    pub(crate) fn leave(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_a_rate() {
        let gate = Gate::new(ConnectionLimits::default());
        let at = |ms| Time::from_origin(Duration::from_millis(ms));
        let admitted = |now, tries| (0..tries).filter(|_| gate.enter(now).is_ok()).count();
        assert_eq!(admitted(at(0), 1_200), 1_000);
        assert_eq!(gate.enter(at(9)), Err(Refusal::Rate));
        assert_eq!(admitted(at(10), 5), 1);
        assert_eq!(admitted(at(1_010), 200), 100);
        // An idle hour fills the bucket, not more.
        assert_eq!(admitted(at(3_600_000), 1_200), 1_000);
    }

    #[test]
    fn a_full_cluster_refuses_until_one_leaves() {
        let gate = Gate::new(ConnectionLimits {
            open: 2,
            ..ConnectionLimits::default()
        });
        assert_eq!(gate.enter(Time::ZERO), Ok(()));
        assert_eq!(gate.enter(Time::ZERO), Ok(()));
        assert_eq!(gate.enter(Time::ZERO), Err(Refusal::TooMany));
        gate.leave();
        assert_eq!(gate.enter(Time::ZERO), Ok(()));
    }
}
