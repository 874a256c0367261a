//! Turns operations that have ended into counts, histograms, rows and claims.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::Time;
use stats::{Event, Part, RoundTrips, ShardResult};
use workload::{Claim, Said};

use crate::load::Progress;
use crate::operation::{Ended, Outcome};
use crate::report::{Row, ShardReport, Unsettled};
use crate::shard::Window;

/// Collects what the writers of one shard did.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    window: Option<Window>,
    /// Names of the endpoints by index.
    endpoints: Vec<String>,
    /// Wire time per endpoint, for `net`.
    wires: Vec<Option<Duration>>,
    keep_rows: bool,
    progress: Arc<Progress>,
    report: ShardReport,
}

impl Recorder {
    pub(crate) fn new(
        window: Window,
        endpoints: Vec<String>,
        round_trips: BTreeMap<String, RoundTrips>,
        keep_rows: bool,
        progress: Arc<Progress>,
    ) -> Recorder {
        let wires = endpoints
            .iter()
            .map(|name| round_trips.get(name)?.wire_us.map(Duration::from_micros))
            .collect();
        let result = ShardResult {
            window_us: window.end.map(|end| us(end.since(window.start))),
            round_trips,
            ..ShardResult::default()
        };
        Recorder {
            window: Some(window),
            endpoints,
            wires,
            keep_rows,
            progress,
            report: ShardReport {
                result,
                ..ShardReport::default()
            },
        }
    }

    /// The load begins.
    pub(crate) fn started(&mut self, at: Time) {
        let Some(window) = self.window else { return };
        self.report.result.start_late_us = Some(us(at.since(window.first_plan)));
    }

    /// What has been recorded so far.
    pub(crate) fn result(&self) -> &ShardResult {
        &self.report.result
    }

    /// A connection was opened before the barrier.
    pub(crate) fn connected(&mut self, endpoint: usize, took: Duration) {
        let name = self.endpoints[endpoint].clone();
        let result = &mut self.report.result;
        result.total.latencies.connect.record(took);
        let part = result.by_endpoint.entry(name).or_default();
        part.latencies.connect.record(took);
    }

    /// An operation that a writer never started.
    pub(crate) fn skipped(&mut self, endpoint: usize, kind: &'static str) {
        let name = self.endpoints[endpoint].clone();
        let result = &mut self.report.result;
        for part in [
            &mut result.total,
            result.by_endpoint.entry(name).or_default(),
            result.by_operation.entry(kind.to_owned()).or_default(),
        ] {
            part.counts.planned += 1;
            part.counts.skipped += 1;
        }
    }

    /// An operation ended.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn ended(
        &mut self,
        writer: u32,
        endpoint: usize,
        kind: &'static str,
        number: u64,
        records: u64,
        claim: Claim,
        ended: Ended,
    ) {
        let Some(window) = self.window else { return };
        self.show(&ended);
        let name = self.endpoints[endpoint].clone();
        let committed = ended.outcome == Outcome::Committed;
        let result = &mut self.report.result;
        let inside = window.holds(ended.ended);
        if inside && ended.outcome != Outcome::Unfinished {
            result.series.record(
                us(ended.ended.since(window.start)),
                Event {
                    committed,
                    failed: matches!(ended.outcome, Outcome::Failed(_)),
                    attempts: u64::from(ended.attempts),
                    conflicts: u64::from(ended.conflicts),
                    response: ended.ended.since(ended.planned),
                },
            );
        }
        let measured = window.holds(ended.planned);
        let wire = self.wires[endpoint];
        for part in [
            &mut result.total,
            result.by_endpoint.entry(name.clone()).or_default(),
            result.by_operation.entry(kind.to_owned()).or_default(),
        ] {
            if measured {
                add(part, &ended, records, wire);
            }
            if inside && window.end.is_some() {
                part.in_window.attempts += u64::from(ended.attempts);
                part.in_window.committed += u64::from(committed);
                part.in_window.records += if committed { records } else { 0 };
            }
        }
        let start = us(ended.started.since(window.barrier));
        let end = us(ended.ended.since(window.barrier));
        let least = |at: &mut Option<u64>| *at = Some(at.map_or(start, |at| at.min(start)));
        let most = |at: &mut Option<u64>| *at = Some(at.map_or(end, |at| at.max(end)));
        least(&mut result.leg_first_us);
        most(&mut result.leg_last_us);
        if measured {
            least(&mut result.first_start_us);
            most(&mut result.last_end_us);
        }
        if claim.said == Said::Unknown {
            self.report.unsettled.push(Unsettled {
                number,
                endpoint: name.clone(),
                kind: kind.to_owned(),
                records,
                attempts: ended.attempts,
                in_doubt: ended.unknown.unresolved,
                class: ended
                    .failure
                    .as_ref()
                    .map_or("deadline", |f| f.class.name())
                    .to_owned(),
                measured,
                unresolved: ended.outcome == Outcome::Failed("unresolved"),
            });
        }
        self.report.claims.push(claim);
        if self.keep_rows {
            let offset = |at: Time| us(at.since(window.barrier));
            self.report.rows.push(Row {
                writer,
                endpoint: name,
                operation: kind.to_owned(),
                id: number,
                planned_us: offset(ended.planned),
                start_us: offset(ended.started),
                end_us: offset(ended.ended),
                attempts: ended.attempts,
                outcome: outcome_name(&ended.outcome).to_owned(),
                sqlstate: ended.failure.and_then(|failure| failure.sqlstate),
                ok: committed,
                measured,
            });
        }
    }

    fn show(&self, ended: &Ended) {
        let progress = &self.progress;
        progress.ended.fetch_add(1, Ordering::Relaxed);
        let conflicts = u64::from(ended.conflicts);
        progress.conflicts.fetch_add(conflicts, Ordering::Relaxed);
        match ended.outcome {
            Outcome::Committed => progress.committed.fetch_add(1, Ordering::Relaxed),
            Outcome::Failed(class) => {
                let starved = u64::from(class == "starved");
                progress.starved.fetch_add(starved, Ordering::Relaxed);
                progress.failed.fetch_add(1, Ordering::Relaxed)
            }
            Outcome::Rejected | Outcome::Unfinished => 0,
        };
    }

    /// The report, when every writer has ended.
    pub(crate) fn finish(self) -> ShardReport {
        self.report
    }
}

/// The name of an outcome in a row.
fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Committed => "committed",
        Outcome::Rejected => "rejected",
        Outcome::Failed(class) => class,
        Outcome::Unfinished => "unfinished",
    }
}

/// Adds an operation of the window to one part.
fn add(part: &mut Part, ended: &Ended, records: u64, wire: Option<Duration>) {
    let counts = &mut part.counts;
    counts.planned += 1;
    if ended.outcome == Outcome::Unfinished {
        // Its latency is not known: it had not ended.
        counts.unfinished += 1;
        return;
    }
    let attempts = u64::from(ended.attempts);
    counts.attempts += attempts;
    counts.conflicts += u64::from(ended.conflicts);
    counts.deadlocks += u64::from(ended.deadlocks);
    counts.retried += u64::from(ended.attempts > 1);
    counts.unknown.total += ended.unknown.total;
    counts.unknown.committed += ended.unknown.committed;
    counts.unknown.absent += ended.unknown.absent;
    counts.unknown.unresolved += ended.unknown.unresolved;

    let response = ended.ended.since(ended.planned);
    let latencies = &mut part.latencies;
    latencies.response.record(response);
    if ended.attempts > 0 {
        latencies.service.record(ended.service);
    }
    latencies.lag.record(ended.started.since(ended.planned));
    latencies.wait.record(ended.wait);
    for took in &ended.reconnects {
        latencies.connect.record(*took);
    }
    if let Some(commit) = ended.commit {
        latencies.commit.record(commit);
    }
    match ended.outcome {
        Outcome::Committed => {
            counts.committed += 1;
            counts.attempts_of_committed += attempts;
            counts.records += records;
            latencies.committed.record(response);
            if ended.attempts == 1 {
                counts.first_try += 1;
                latencies.first_try.record(response);
            }
        }
        Outcome::Rejected => counts.rejected += 1,
        Outcome::Failed(class) => {
            *counts.failed.entry(class.to_owned()).or_default() += 1;
            latencies.failed.record(response);
        }
        Outcome::Unfinished => {}
    }
    if let Some(wire) = wire {
        match response.checked_sub(wire * ended.round_trips) {
            Some(net) => latencies.net.record(net),
            None => latencies.net_negative += 1,
        }
    }
}

fn us(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
