//! What is known of a target when a plan is estimated.

use super::{Assumptions, Range};
use crate::prices::PRICES;
use crate::share::LoadShape;
use crate::target::{AddressKind, TargetSpec};

/// Round trip where nothing is known: from inside a region to across an ocean.
pub(super) const ANY_ROUND_TRIP_MS: Range = Range::new(1.0, 100.0);

/// What is known of a target, guesses filled in.
pub(super) struct Site {
    pub(super) endpoints: Vec<String>,
    /// Round trips of the endpoints; empty where it is not known.
    pub(super) round_trip_ms: Vec<f64>,
    pub(super) dsql: bool,
}

impl Site {
    pub(super) fn of(target: &TargetSpec, assumptions: &Assumptions) -> Site {
        // A secret is for a password, and DSQL has none.
        let dsql = !matches!(
            target.address.kind(),
            AddressKind::Postgres | AddressKind::Secret { .. }
        );
        let given = assumptions.targets.get(&target.name);
        let endpoints = match (given, target.address.kind()) {
            (Some(setting), _) if !setting.endpoints.is_empty() => setting.endpoints.clone(),
            (_, AddressKind::Dsql { hosts }) => match target.address.regions() {
                regions if regions.len() == hosts.len() => regions,
                _ => hosts.clone(),
            },
            _ => Vec::new(),
        };
        Site {
            endpoints,
            round_trip_ms: given.map_or_else(Vec::new, |setting| setting.round_trip_ms.clone()),
            dsql,
        }
    }

    pub(super) fn regions(&self) -> usize {
        self.endpoints.len().max(1)
    }

    /// The round trips that a cell's writers have.
    pub(super) fn round_trip(&self, shape: &LoadShape<'_>) -> Range {
        let count = u32::try_from(self.round_trip_ms.len()).unwrap_or(u32::MAX);
        (0..shape.writers.min(count))
            .filter_map(|writer| {
                let endpoint = shape.placement.endpoint_of(writer, &self.endpoints).ok()?;
                self.round_trip_ms.get(endpoint).copied()
            })
            .map(Range::exactly)
            .reduce(|a, b| Range::new(a.low.min(b.low), a.high.max(b.high)))
            .unwrap_or(ANY_ROUND_TRIP_MS)
    }

    /// Dollars for a DPU, from the regions whose price is known.
    pub(super) fn price(&self) -> Option<Range> {
        self.endpoints
            .iter()
            .filter_map(|region| PRICES.of(region))
            .map(|price| Range::exactly(price.usd_per_million_dpu / 1e6))
            .reduce(|a, b| Range::new(a.low.min(b.low), a.high.max(b.high)))
    }
}
