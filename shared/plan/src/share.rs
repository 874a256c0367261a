//! Who does what in a wave: pure functions of a cell's parameters, so that any
//! process can tell any writer's part without asking it.

use serde_json::{Map, Value};

use crate::cell::{AppendParams, Cell, Isolation, Params, Placement, Retry};
use crate::error::{grouped, one_of, quote};
use crate::read::TAG;

/// A placement that a target does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No endpoint has that name.
    #[error("no endpoint is named {}; placement may be {}", quote(.name), placements(.endpoints))]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        endpoints: Vec<String>,
    },
    /// The target has no endpoint at all.
    #[error("the target has no endpoint")]
    NoEndpoint,
    /// The fleet has fewer workers than the wave needs.
    #[error(
        "{} writers need {} workers of {} connections each, the fleet has {}; raise `fleet.workers` \
         or `fleet.connections_per_worker`, or lower the writers",
        grouped((*.writers).into()), grouped(*.needed), grouped((*.each).into()),
        grouped((*.workers).into())
    )]
    TooFewWorkers {
        /// Writers of the wave.
        writers: u32,
        /// Connections that a worker holds.
        each: u32,
        /// Workers that it needs, at least one for each endpoint.
        needed: u64,
        /// Workers that there are.
        workers: u32,
    },
}

fn placements(endpoints: &[String]) -> String {
    let mut names = vec!["split", "first"];
    names.extend(endpoints.iter().map(String::as_str));
    one_of(&names)
}

/// One repetition of a cell: what is started together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Which repetition, from 1.
    pub rep: u32,
}

impl Cell {
    /// The cell's waves, one for each repetition.
    pub fn waves(&self) -> impl ExactSizeIterator<Item = Wave<'_>> {
        // From 0, because a range up to and including its end has no exact size.
        (0..self.reps).map(|rep| Wave {
            cell: self,
            rep: rep + 1,
        })
    }

    /// Every parameter, defaults included, as one flat object: what
    /// `summary.json` calls `params`.
    pub fn params_json(&self) -> Map<String, Value> {
        self.params.json()
    }
}

/// What a wave asks for, whatever its workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadShape<'a> {
    /// Writers of the wave, each with a connection of its own.
    pub writers: u32,
    /// Where they connect.
    pub placement: &'a Placement,
    /// Operations of all writers; `None` when time is the bound.
    pub operations: Option<u64>,
    /// Seconds before the window opens.
    pub warmup_s: f64,
    /// Length of the window; `None` when `operations` is the bound.
    pub measure_s: Option<f64>,
    /// The retry policy.
    pub retry: &'a Retry,
    /// Isolation level of the transactions.
    pub isolation: Isolation,
    /// Starved operations of the whole wave that abort the rep; 0 never does.
    pub abort_after_starved: u32,
}

impl Params {
    /// The workload's name, as in the sweep file.
    pub fn workload(&self) -> &'static str {
        match self {
            Params::Append(_) => "append",
            Params::OrderTransfer(_) => "order_transfer",
            Params::Tpcb(_) => "tpcb",
        }
    }

    /// Every parameter by its name.
    pub(crate) fn json(&self) -> Map<String, Value> {
        // Plain data of ours with string keys: it always serialises.
        match serde_json::to_value(self) {
            Ok(Value::Object(mut map)) => {
                map.remove(TAG);
                map
            }
            _ => Map::new(),
        }
    }

    /// What a wave of these asks for.
    pub fn shape(&self) -> LoadShape<'_> {
        match self {
            Params::Append(params) => LoadShape {
                writers: params.total_writers(),
                placement: &params.placement,
                operations: params.operations(),
                warmup_s: params.warmup_s,
                measure_s: params.measure_s,
                retry: &params.retry,
                isolation: params.isolation,
                abort_after_starved: params.abort_after_starved,
            },
            Params::OrderTransfer(params) => LoadShape {
                writers: params.concurrency,
                placement: &params.placement,
                operations: params.operations,
                warmup_s: params.warmup_s,
                measure_s: params.measure_s,
                retry: &params.retry,
                isolation: params.isolation,
                abort_after_starved: params.abort_after_starved,
            },
            Params::Tpcb(params) => LoadShape {
                writers: params.concurrency,
                placement: &params.placement,
                operations: params.operations,
                warmup_s: params.warmup_s,
                measure_s: params.measure_s,
                retry: &params.retry,
                isolation: params.isolation,
                abort_after_starved: params.abort_after_starved,
            },
        }
    }
}

impl AppendParams {
    /// Writers of all streams together; each has a connection of its own.
    pub fn total_writers(&self) -> u32 {
        self.writers.saturating_mul(self.streams)
    }

    /// The stream, from 0, that writer `writer` of the wave appends to. A
    /// stream's writers are numbered side by side, so that `split` placement
    /// spreads each stream over all endpoints.
    pub fn stream_of(&self, writer: u32) -> u32 {
        writer / self.writers.max(1)
    }

    /// Records of a writer; `None` when time is the bound. What does not
    /// divide evenly goes to the stream's first writers, one each.
    pub fn share_of(&self, writer: u32) -> Option<u64> {
        let records = self.records?;
        let writers = u64::from(self.writers.max(1));
        let place = u64::from(writer) % writers;
        Some(records / writers + u64::from(place < records % writers))
    }

    /// Operations of a writer: full batches and at most one short one; `None`
    /// when time is the bound.
    pub fn operations_of(&self, writer: u32) -> Option<u64> {
        let batch = u64::from(self.batch.max(1));
        self.share_of(writer).map(|share| share.div_ceil(batch))
    }

    /// Operations of all writers; `None` when time is the bound.
    pub fn operations(&self) -> Option<u64> {
        // Only two shares occur in a stream; the long one is the first
        // writers'.
        let records = self.records?;
        let writers = u64::from(self.writers.max(1));
        let batch = u64::from(self.batch.max(1));
        let (share, longer) = (records / writers, records % writers);
        let of_stream =
            longer * (share + 1).div_ceil(batch) + (writers - longer) * share.div_ceil(batch);
        Some(of_stream * u64::from(self.streams))
    }
}

impl Placement {
    /// Index of the endpoint that a writer connects to.
    ///
    /// # Errors
    /// When no endpoint has the placement's name.
    pub fn endpoint_of(&self, writer: u32, names: &[String]) -> Result<usize, PlacementError> {
        if names.is_empty() {
            return Err(PlacementError::NoEndpoint);
        }
        match self {
            Placement::Split(_) => Ok(writer as usize % names.len()),
            Placement::Region(first) if first == "first" => Ok(0),
            Placement::Region(name) => {
                names.iter().position(|known| known == name).ok_or_else(|| {
                    PlacementError::Unknown {
                        name: name.clone(),
                        endpoints: names.to_vec(),
                    }
                })
            }
        }
    }
}

impl Retry {
    /// Bound of the pause after attempt `attempt` (from 1) failed, in
    /// milliseconds: `base_ms`, doubling, up to `cap_ms`. The pause itself is
    /// drawn evenly between 0 and this.
    pub fn pause_bound_ms(&self, attempt: u32) -> f64 {
        // Past a few dozen doublings the bound is the cap, or 0 where the base
        // is; the clamp keeps the power finite.
        let doublings = attempt.saturating_sub(1).min(64);
        (self.base_ms * 2f64.powi(doublings as i32)).min(self.cap_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::APPEND;

    fn params(writers: u32, streams: u32, batch: u32, records: Option<u64>) -> AppendParams {
        AppendParams {
            writers,
            streams,
            batch,
            records,
            ..APPEND
        }
    }

    #[test]
    fn shares_add_up() {
        for (writers, streams, batch, records) in [
            (8, 1, 50, 400),
            (3, 4, 7, 100),
            (64, 1, 1, 128),
            (7, 2, 100, 7),
        ] {
            let params = params(writers, streams, batch, Some(records));
            let all = 0..params.total_writers();
            let shared: u64 = all.clone().filter_map(|w| params.share_of(w)).sum();
            assert_eq!(shared, records * u64::from(streams));
            let operations: u64 = all.filter_map(|w| params.operations_of(w)).sum();
            assert_eq!(Some(operations), params.operations());
        }
        // The report's sweep D: 8 writers take 400 records in 8 transactions.
        assert_eq!(params(8, 1, 50, Some(400)).operations(), Some(8));
        assert_eq!(params(8, 1, 50, None).operations(), None);
    }

    #[test]
    fn a_streams_writers_alternate_between_endpoints() {
        let params = params(4, 2, 1, Some(8));
        let names = ["a".to_owned(), "b".to_owned()];
        let seats: Vec<(u32, usize)> = (0..params.total_writers())
            .map(|w| {
                let endpoint = params.placement.endpoint_of(w, &names).unwrap();
                (params.stream_of(w), endpoint)
            })
            .collect();
        assert_eq!(
            seats,
            [
                (0, 0),
                (0, 1),
                (0, 0),
                (0, 1),
                (1, 0),
                (1, 1),
                (1, 0),
                (1, 1)
            ]
        );
    }

    #[test]
    fn placements_by_name() {
        let names = ["us-east-1".to_owned(), "us-east-2".to_owned()];
        let at = |name: &str| Placement::Region(name.to_owned()).endpoint_of(5, &names);
        assert_eq!(at("us-east-2"), Ok(1));
        assert_eq!(at("first"), Ok(0));
        assert_eq!(
            at("us-west-1").unwrap_err().to_string(),
            "no endpoint is named \"us-west-1\"; placement may be `split`, `first`, `us-east-1` or `us-east-2`"
        );
        assert!(
            Placement::Region("first".into())
                .endpoint_of(0, &[])
                .is_err()
        );
    }

    #[test]
    fn pauses_double_to_the_cap() {
        let bounds: Vec<f64> = (1..=8).map(|n| APPEND.retry.pause_bound_ms(n)).collect();
        assert_eq!(
            bounds,
            [25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1000.0, 1000.0]
        );
        assert_eq!(APPEND.retry.pause_bound_ms(u32::MAX), 1000.0);
        assert_eq!(APPEND.retry.pause_bound_ms(0), 25.0);
    }
}
