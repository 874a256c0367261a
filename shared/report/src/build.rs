//! From what was measured to `summary.json`.
//!
//! `merged` is made of the last attempt at each rep, from counts and
//! histograms and never from the figures of the reps: a percentile over reps is
//! the percentile of all their values, a rate is total work over total time.
//! Only the confidence intervals start from one figure per rep.

use std::collections::BTreeMap;

use plan::{Cell, Params};
use stats::{Hist, LockWaits, Mean95, Part, Rates, RoundTrips, Series, ShardResult};

use crate::blocks::blocks;
use crate::figures::{Figures, round};
use crate::input::{CellReport, PartialShard, RepError, RepReport, Step, SweepInfo};
use crate::judge::{is_open_loop, judge, rate_reached_pct, verdict};
use crate::redact::without_password;
use crate::summary::{
    CellSummary, Curve, Instrument, Interval, LockWaitsSummary, Measured, Merged, RepSummary, Rtt,
    SeriesSummary, StepSummary, Summary, TargetSummary, VERSION, Verify,
};

/// Percentiles of [`Curve`]: dense enough for a line on a log(1 - q) axis.
const CURVE: [f64; 14] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999,
];

impl Summary {
    /// Derives everything that is reported from everything that was measured.
    pub fn build(sweep: &SweepInfo, cells: &[CellReport]) -> Summary {
        let simulated = |name: &str| {
            let mut targets = sweep.targets.iter();
            targets.any(|target| target.name == name && target.simulated)
        };
        let summaries: Vec<CellSummary> = cells
            .iter()
            .map(|report| cell_summary(report, simulated(&report.cell.target)))
            .collect();
        Summary {
            version: VERSION,
            name: sweep.name.clone(),
            about: sweep.about.clone(),
            seed: sweep.seed,
            simulated: sweep.targets.iter().any(|target| target.simulated),
            partial: summaries.iter().any(|cell| cell.merged.measured.partial),
            targets: sweep
                .targets
                .iter()
                .map(|target| TargetSummary {
                    name: target.name.clone(),
                    url: without_password(&target.url),
                    kind: target.kind.clone(),
                    simulated: target.simulated,
                })
                .collect(),
            verdict: verdict(&summaries),
            blocks: blocks(cells),
            cells: summaries,
        }
    }
}

fn cell_summary(report: &CellReport, simulated: bool) -> CellSummary {
    let CellReport { cell, reps } = report;
    let reps: Vec<RepReport> = reps.iter().map(account).collect();
    let summaries: Vec<RepSummary> = reps
        .iter()
        .map(|rep| RepSummary {
            rep: rep.rep,
            measured: rep_measured(cell, rep),
            error: rep.error.as_ref().map(RepError::to_string),
            missing: rep.missing.clone(),
            partial_progress: rep.partial_progress.iter().map(rounded).collect(),
        })
        .collect();
    let merged = merge(cell, &reps, &summaries);
    CellSummary {
        id: cell.id.clone(),
        block: cell.block.clone(),
        workload: cell.params.workload().to_owned(),
        target: cell.target.clone(),
        simulated,
        params: cell.params.clone(),
        reps_planned: cell.reps,
        thresholds: cell.thresholds.clone(),
        reps: summaries,
        merged,
    }
}

/// Whether the workload counts records beside operations.
fn has_records(params: &Params) -> bool {
    match params {
        Params::Append(_) => true,
        Params::OrderTransfer(_) | Params::Tpcb(_) => false,
    }
}

fn rounded(shard: &PartialShard) -> PartialShard {
    PartialShard {
        at_s: shard.at_s.map(round),
        ..shard.clone()
    }
}

/// Completes a rep's outcome sum by what the plan holds and no shard reported.
fn account(rep: &RepReport) -> RepReport {
    let mut rep = rep.clone();
    let counts = &mut rep.result.total.counts;
    if let Some(planned) = rep.planned
        && planned > counts.planned
    {
        let unreported = planned - counts.planned;
        counts.planned = planned;
        if rep.workers_reported < rep.workers_expected {
            counts.lost += unreported;
        } else if rep.workers_late > 0 || rep.error.is_some() || rep.partial || rep.result.stopped {
            counts.skipped += unreported;
        }
    }
    rep
}

/// The index of the last attempt at every rep, in the order of the reps.
pub(crate) fn last_attempts(reps: &[RepReport]) -> Vec<usize> {
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    for (index, rep) in reps.iter().enumerate() {
        let kept = last.entry(rep.rep).or_insert(index);
        if reps[*kept].attempt <= rep.attempt {
            *kept = index;
        }
    }
    last.into_values().collect()
}

fn rep_measured(cell: &Cell, rep: &RepReport) -> Measured {
    let open_loop = is_open_loop(&cell.params);
    let judgement = judge(rep, open_loop);
    let mut sums = Sums::default();
    sums.add(rep);
    let result = &rep.result;
    Measured {
        attempt: rep.attempt,
        valid: judgement.invalid_because.is_empty(),
        invalid_because: judgement.invalid_because,
        generator_limited: judgement.generator_limited,
        aborted: result.aborted,
        partial: rep.partial || result.stopped,
        verify: Verify {
            ok: rep.verify_ok,
            problems: rep.verify_problems.clone(),
            rows: rep.verify.map(|step| step.rows),
            seconds: rep.verify.map(|step| round(step.seconds)),
        },
        ..sums.measured(&cell.params)
    }
}

/// Merges the last attempts at a cell's reps.
fn merge(cell: &Cell, reps: &[RepReport], summaries: &[RepSummary]) -> Merged {
    let last = last_attempts(reps);
    let mut sums = Sums::default();
    for index in &last {
        sums.add(&reps[*index]);
    }
    let kept: Vec<&RepSummary> = last.iter().map(|index| &summaries[*index]).collect();
    let any = |is: fn(&Measured) -> bool| kept.iter().any(|rep| is(&rep.measured));
    let of_rep = |rep: &RepSummary, line: &String| match kept.len() {
        1 => line.clone(),
        _ => format!("rep {}: {line}", rep.rep),
    };
    let lines = |of: fn(&Measured) -> &Vec<String>| -> Vec<String> {
        let of_each = |rep: &&RepSummary| -> Vec<String> {
            let lines = of(&rep.measured).iter();
            lines.map(|line| of_rep(rep, line)).collect()
        };
        kept.iter().flat_map(of_each).collect()
    };
    let missing = (cell.reps as usize).saturating_sub(kept.len());
    let mut invalid_because = lines(|measured| &measured.invalid_because);
    if missing > 0 {
        invalid_because.push(format!("{missing} of {} reps did not run", cell.reps));
    }
    let verified = |wanted| move |rep: &&RepSummary| rep.measured.verify.ok == Some(wanted);
    let verify_ok = if kept.iter().any(verified(false)) {
        Some(false)
    } else if !kept.is_empty() && kept.iter().all(verified(true)) {
        Some(true)
    } else {
        None
    };
    let response_curve = curve(&sums.part.latencies.response);
    let verify = sums.verify;
    Merged {
        reps: u32::try_from(kept.len()).unwrap_or(u32::MAX),
        measured: Measured {
            attempt: reps.iter().map(|rep| rep.attempt).max().unwrap_or(0),
            valid: invalid_because.is_empty(),
            invalid_because,
            generator_limited: any(|measured| measured.generator_limited),
            aborted: any(|measured| measured.aborted),
            partial: missing > 0 || any(|measured| measured.partial),
            verify: Verify {
                ok: verify_ok,
                problems: lines(|measured| &measured.verify.problems),
                rows: verify.map(|step| step.rows),
                seconds: verify.map(|step| round(step.seconds)),
            },
            ..sums.measured(&cell.params)
        },
        ci95: intervals(&kept),
        response_curve,
    }
}

/// What one rep or several come to before anything is divided.
#[derive(Default)]
struct Sums {
    part: Part,
    rates: Rates,
    by_endpoint: BTreeMap<String, (Part, Rates)>,
    by_operation: BTreeMap<String, (Part, Rates)>,
    round_trips: BTreeMap<String, RoundTrips>,
    series: Series,
    lock_waits: Option<LockWaits>,
    prepare: Option<Step>,
    verify: Option<Step>,
    clean: Option<Step>,
    cpu_peak_pct: Option<f64>,
    clock_offset_us: Option<i64>,
    start_late_us: Option<u64>,
    start_spread_ms: Option<f64>,
    handover_gap_ms: Option<f64>,
    aborted: bool,
    /// A pool did not fill: what has no span ran at 0 per second.
    pool_error: bool,
    workers: u32,
    workers_reported: u32,
    workers_late: u32,
}

impl Sums {
    fn add(&mut self, rep: &RepReport) {
        let ShardResult {
            total,
            by_endpoint,
            by_operation,
            round_trips,
            first_start_us: _,
            last_end_us: _,
            leg_first_us: _,
            leg_last_us: _,
            start_late_us,
            window_us: _,
            series,
            lock_waits,
            cpu_peak_pct,
            clock_offset_us,
            aborted,
            stopped: _,
        } = &rep.result;
        self.part.merge(total);
        self.rates.merge(&rep.result.rates_of(total));
        for (sums, parts) in [
            (&mut self.by_endpoint, by_endpoint),
            (&mut self.by_operation, by_operation),
        ] {
            for (name, part) in parts {
                let (sum, rates) = sums.entry(name.clone()).or_default();
                sum.merge(part);
                rates.merge(&rep.result.rates_of(part));
            }
        }
        stats::merge_round_trips(&mut self.round_trips, round_trips);
        self.series.merge(series);
        if let Some(seen) = lock_waits {
            self.lock_waits.get_or_insert_default().merge(seen);
        }
        add_step(&mut self.prepare, rep.prepare);
        add_step(&mut self.verify, rep.verify);
        add_step(&mut self.clean, rep.clean);
        worst(&mut self.cpu_peak_pct, *cpu_peak_pct);
        worst(&mut self.start_late_us, *start_late_us);
        worst(&mut self.start_spread_ms, rep.start_spread_ms);
        worst(&mut self.handover_gap_ms, rep.handover_gap_ms);
        if let Some(offset) = clock_offset_us
            && self
                .clock_offset_us
                .is_none_or(|seen| seen.unsigned_abs() < offset.unsigned_abs())
        {
            self.clock_offset_us = Some(*offset);
        }
        self.aborted |= aborted;
        self.pool_error |= matches!(rep.error, Some(RepError::Pool(_)));
        self.workers += rep.workers_expected;
        self.workers_reported += rep.workers_reported;
        self.workers_late += rep.workers_late;
    }

    /// Figures of the whole and its parts; what is judged is left to the caller.
    fn measured(&self, params: &Params) -> Measured {
        let with_records = has_records(params);
        // An endpoint that had no operation in one of the reps still had that
        // rep's time to have some.
        let span_us = self.rates.span_us;
        let parts = |sums: &BTreeMap<String, (Part, Rates)>| {
            let figures = sums.iter().map(|(name, (part, rates))| {
                let rates = Rates { span_us, ..*rates };
                (name.clone(), Figures::of(part, &rates, with_records))
            });
            figures.collect()
        };
        let mut figures = Figures::of(&self.part, &self.rates, with_records);
        if self.pool_error && span_us.is_none() {
            figures.throughput_per_s = Some(0.0);
            figures.attempts_per_s = Some(0.0);
            figures.records_per_s = with_records.then_some(0.0);
        }
        let open_loop = is_open_loop(params);
        Measured {
            span_s: span_us.map(|us| round(us as f64 / 1e6)),
            figures,
            by_endpoint: parts(&self.by_endpoint),
            by_operation: parts(&self.by_operation),
            rtt_ms: self.round_trips.iter().map(rtt).collect(),
            prepare: step_summary(self.prepare),
            clean: step_summary(self.clean),
            lock_waits: self.lock_waits.as_ref().map(lock_waits_summary),
            instrument: Instrument {
                cpu_peak_pct: self.cpu_peak_pct.map(round),
                rate_reached_pct: rate_reached_pct(&self.part, open_loop, self.aborted),
                clock_offset_ms: self.clock_offset_us.map(|us| round(us as f64 / 1e3)),
                start_late_ms: self.start_late_us.map(|us| round(us as f64 / 1e3)),
                start_spread_ms: self.start_spread_ms.map(round),
                handover_gap_ms: self.handover_gap_ms.map(round),
                workers: self.workers,
                workers_reported: self.workers_reported,
                workers_late: self.workers_late,
            },
            series: series_summary(&self.series),
            ..Measured::default()
        }
    }
}

fn lock_waits_summary(seen: &LockWaits) -> LockWaitsSummary {
    LockWaitsSummary {
        looks: seen.looks,
        mean: round(seen.mean().unwrap_or_default()),
        peak: seen.peak,
        longest_ms: round(seen.longest_us as f64 / 1e3),
    }
}

/// Keeps the larger of two figures, where there are any.
fn worst<T: PartialOrd>(seen: &mut Option<T>, other: Option<T>) {
    // `None` is less than any value.
    if other > *seen {
        *seen = other;
    }
}

fn add_step(sum: &mut Option<Step>, step: Option<Step>) {
    if let Some(step) = step {
        let sum = sum.get_or_insert_default();
        sum.rows += step.rows;
        sum.seconds += step.seconds;
    }
}

fn step_summary(step: Option<Step>) -> StepSummary {
    StepSummary {
        rows: step.map(|step| step.rows),
        seconds: step.map(|step| round(step.seconds)),
    }
}

fn rtt((name, trips): (&String, &RoundTrips)) -> (String, Rtt) {
    let rtt = Rtt {
        before_p50: trips.before.percentile_ms(50.0).map(round),
        after_p50: trips.after.percentile_ms(50.0).map(round),
        wire: trips.wire_us.map(|us| round(us as f64 / 1e3)),
    };
    (name.clone(), rtt)
}

fn series_summary(series: &Series) -> SeriesSummary {
    let buckets = series.buckets();
    let counts = |of: fn(&stats::Bucket) -> u64| buckets.iter().map(of).collect();
    SeriesSummary {
        bucket_s: round(series.width_us() as f64 / 1e6),
        ended: counts(|bucket| bucket.ended),
        committed: counts(|bucket| bucket.committed),
        failed: counts(|bucket| bucket.failed),
        attempts: counts(|bucket| bucket.attempts),
        conflicts: counts(|bucket| bucket.conflicts),
        response_mean_ms: buckets
            .iter()
            .map(|bucket| bucket.response_mean_ms().map(round))
            .collect(),
        response_max_ms: buckets
            .iter()
            .map(|bucket| (bucket.ended > 0).then(|| round(bucket.response_max_us as f64 / 1e3)))
            .collect(),
    }
}

/// The percentiles that a histogram has enough values for: at least one value
/// must lie above.
fn curve(hist: &Hist) -> Curve {
    let mut curve = Curve::default();
    for percentile in CURVE {
        let above = hist.n() as f64 * (100.0 - percentile) / 100.0;
        // The tolerance admits 99.9 for exactly 1,000 values.
        if above < 1.0 - 1e-9 {
            break;
        }
        if let Some(ms) = hist.percentile_ms(percentile) {
            curve.percentile.push(percentile);
            curve.ms.push(round(ms));
        }
    }
    curve
}

/// A figure of a rep that gets a confidence interval: its path and how to get it.
type Main = (&'static str, fn(&Figures) -> Option<f64>);

const MAIN_FIGURES: [Main; 11] = [
    ("throughput_per_s", |f| f.throughput_per_s),
    ("attempts_per_s", |f| f.attempts_per_s),
    ("records_per_s", |f| f.records_per_s),
    ("first_try_pct", |f| f.first_try_pct),
    ("attempts_per_commit", |f| f.attempts_per_commit),
    ("raw_conflict_pct", |f| f.raw_conflict_pct),
    ("final_failure_pct", |f| f.final_failure_pct),
    ("retried_pct", |f| f.retried_pct),
    ("latency_ms.response.p50", |f| f.latency_ms.response.p50),
    ("latency_ms.response.p95", |f| f.latency_ms.response.p95),
    ("latency_ms.response.p99", |f| f.latency_ms.response.p99),
];

fn intervals(reps: &[&RepSummary]) -> BTreeMap<String, Interval> {
    let mut intervals = BTreeMap::new();
    for (path, figure) in MAIN_FIGURES {
        let of_rep = |rep: &&RepSummary| figure(&rep.measured.figures);
        let values: Vec<f64> = reps.iter().filter_map(of_rep).collect();
        if let Some(Mean95 { mean, low, high, n }) = Mean95::of(&values) {
            let interval = Interval {
                mean: round(mean),
                low: round(low),
                high: round(high),
                n,
            };
            intervals.insert(path.to_owned(), interval);
        }
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_stops_where_values_run_out() {
        let mut hist = Hist::default();
        assert_eq!(curve(&hist), Curve::default());
        for us in 1..=1_000 {
            hist.record(std::time::Duration::from_micros(us));
        }
        let curve = curve(&hist);
        assert_eq!(curve.percentile.last(), Some(&99.9));
        assert_eq!(curve.ms.last(), Some(&0.999));
    }
}
