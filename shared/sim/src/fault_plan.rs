//! What a fault plan says, and whether it can be followed.

use clock::Time;
use serde::{Deserialize, Serialize};

use crate::service::micros;

/// What goes wrong, and how likely; by default nothing.
///
/// Probabilities are between 0 and 1. Those of a COMMIT exclude each other and
/// add up to at most 1, as do those of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultPlan {
    /// Per statement other than COMMIT: XX000 `server unavailable`. The
    /// transaction has failed, the connection stays.
    pub statement_unavailable: f64,
    /// Per COMMIT: XX000, and the transaction was not committed.
    pub commit_unavailable_not_applied: f64,
    /// Per COMMIT: XX000, and yet the transaction was committed.
    pub commit_unavailable_applied: f64,
    /// Per COMMIT: the connection is lost before the COMMIT reaches the
    /// adjudicator; it never applies.
    pub drop_before_commit: f64,
    /// Per COMMIT: the connection is lost after the commit, before its answer.
    pub drop_after_commit: f64,
    /// Per COMMIT: the connection is lost, and the COMMIT reaches the
    /// adjudicator only later: `late_ms` after the client has seen the loss, so
    /// possibly after it has looked up what became of it.
    pub drop_late_commit: f64,
    /// How much later, in milliseconds: between the first and the second,
    /// uniformly.
    pub late_ms: Late,
    /// Per connection: refused as 53300, too many open connections.
    pub refuse_too_many: f64,
    /// Per connection: refused as 53400, rate exceeded.
    pub refuse_rate: f64,
    /// All of the above strike only in this window; everywhere when absent.
    pub only: Option<Span>,
    /// Endpoints whose service times are longer for a while.
    pub slow: Vec<Slow>,
    /// Endpoints that answer nothing for a while, and then go on.
    pub frozen: Vec<Outage>,
    /// Endpoints that lose their connections and refuse new ones for a while.
    pub lost: Vec<Outage>,
}

/// A range of delays in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Late {
    /// The shortest.
    pub min: f64,
    /// The longest.
    pub max: f64,
}

impl Default for Late {
    /// From before a look-up's first round trip ends to long after it.
    fn default() -> Late {
        Late {
            min: 1.0,
            max: 1_000.0,
        }
    }
}

/// A stretch of time, in milliseconds after the clock's origin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Its beginning.
    pub from_ms: f64,
    /// Its end.
    pub to_ms: f64,
}

/// A stretch of time at one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Index of the endpoint.
    pub endpoint: usize,
    /// Its beginning, in milliseconds after the clock's origin.
    pub from_ms: f64,
    /// Its end.
    pub to_ms: f64,
}

/// A stretch of slowness at one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// Index of the endpoint.
    pub endpoint: usize,
    /// Its beginning, in milliseconds after the clock's origin.
    pub from_ms: f64,
    /// Its end.
    pub to_ms: f64,
    /// Service times are so many times longer.
    pub factor: f64,
}

impl Span {
    pub(crate) fn new(from_ms: f64, to_ms: f64) -> Span {
        Span { from_ms, to_ms }
    }

    pub(crate) fn start(&self) -> Time {
        Time::from_origin(micros(self.from_ms * 1_000.0))
    }

    pub(crate) fn end(&self) -> Time {
        Time::from_origin(micros(self.to_ms * 1_000.0))
    }

    pub(crate) fn contains(&self, now: Time) -> bool {
        self.start() <= now && now < self.end()
    }
}

impl Outage {
    pub(crate) fn span(&self) -> Span {
        Span::new(self.from_ms, self.to_ms)
    }
}

impl FaultPlan {
    /// Whether nothing ever goes wrong.
    pub fn is_none(&self) -> bool {
        *self == FaultPlan::default()
    }

    /// Checks that the plan can be followed on a cluster of so many endpoints.
    ///
    /// # Errors
    /// One line that names the field and what would be accepted.
    pub fn check(&self, endpoints: usize) -> Result<(), String> {
        let per_commit = [
            (
                "commit_unavailable_not_applied",
                self.commit_unavailable_not_applied,
            ),
            (
                "commit_unavailable_applied",
                self.commit_unavailable_applied,
            ),
            ("drop_before_commit", self.drop_before_commit),
            ("drop_after_commit", self.drop_after_commit),
            ("drop_late_commit", self.drop_late_commit),
        ];
        let per_connection = [
            ("refuse_too_many", self.refuse_too_many),
            ("refuse_rate", self.refuse_rate),
        ];
        let per_statement = [("statement_unavailable", self.statement_unavailable)];
        for group in [&per_commit[..], &per_connection, &per_statement] {
            for (field, chance) in group {
                if !(0.0..=1.0).contains(chance) {
                    return Err(format!("{field}: {chance} is not between 0 and 1"));
                }
            }
            let sum: f64 = group.iter().map(|(_, chance)| chance).sum();
            if sum > 1.0 {
                let fields: Vec<_> = group.iter().map(|(field, _)| *field).collect();
                return Err(format!("{}: add up to {sum}, over 1", fields.join(" + ")));
            }
        }
        let Late { min, max } = self.late_ms;
        if !(0.0 <= min && min <= max && max < LONGEST_MS) {
            return Err(format!(
                "late_ms: {min} to {max} is no range of milliseconds"
            ));
        }
        let slow = self.slow.iter().map(|slow| {
            (
                "slow",
                Some(slow.endpoint),
                Span::new(slow.from_ms, slow.to_ms),
            )
        });
        let frozen = self.frozen.iter();
        let lost = self.lost.iter();
        let spans = slow
            .chain(frozen.map(|outage| ("frozen", Some(outage.endpoint), outage.span())))
            .chain(lost.map(|outage| ("lost", Some(outage.endpoint), outage.span())))
            .chain(self.only.iter().map(|span| ("only", None, *span)));
        for (field, endpoint, span) in spans {
            if let Some(endpoint) = endpoint.filter(|endpoint| *endpoint >= endpoints) {
                return Err(format!(
                    "{field}: there is no endpoint {endpoint}; there are {endpoints}"
                ));
            }
            if !(0.0 <= span.from_ms && span.from_ms < span.to_ms && span.to_ms < LONGEST_MS) {
                return Err(format!(
                    "{field}: {} to {} is no stretch of milliseconds",
                    span.from_ms, span.to_ms
                ));
            }
        }
        for slow in &self.slow {
            if !(1.0..=10_000.0).contains(&slow.factor) {
                return Err(format!(
                    "slow: factor {} is not between 1 and 10000",
                    slow.factor
                ));
            }
        }
        Ok(())
    }
}

/// A simulated run lasts 19 hours at most; a day is beyond any window.
const LONGEST_MS: f64 = 86_400_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_reads_from_json_and_is_none_by_default() {
        let plan: FaultPlan = serde_json::from_str("{}").unwrap();
        assert!(plan.is_none());
        let plan: FaultPlan = serde_json::from_str(
            r#"{"drop_late_commit": 0.5, "late_ms": {"min": 5, "max": 5},
                "lost": [{"endpoint": 1, "from_ms": 10, "to_ms": 20}]}"#,
        )
        .unwrap();
        assert_eq!(plan.check(2), Ok(()));
        assert_eq!(
            plan.check(1).unwrap_err(),
            "lost: there is no endpoint 1; there are 1"
        );
        assert!(serde_json::from_str::<FaultPlan>(r#"{"drop_lat": 1}"#).is_err());
    }

    #[test]
    fn a_plan_that_cannot_be_followed_is_refused_in_one_line() {
        let refused = |change: fn(&mut FaultPlan)| {
            let mut plan = FaultPlan::default();
            change(&mut plan);
            plan.check(1).unwrap_err()
        };
        assert_eq!(
            refused(|plan| plan.refuse_rate = 1.5),
            "refuse_rate: 1.5 is not between 0 and 1"
        );
        assert!(refused(|plan| plan.statement_unavailable = f64::NAN).contains("NaN"));
        assert!(
            refused(|plan| {
                plan.drop_after_commit = 0.7;
                plan.drop_before_commit = 0.7;
            })
            .contains("over 1")
        );
        assert!(
            refused(|plan| plan.only = Some(Span::new(20.0, 10.0))).starts_with("only: 20 to 10")
        );
    }
}
