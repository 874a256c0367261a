//! The instrument is judged before the database, and both in one place.
//!
//! A rep is *valid* when its figures say something about the database: nothing
//! unaccounted for, every worker there, on time and not out of breath, run to
//! its end and verified. What the database did with that load, however bad, is
//! a result: a slow cell, an aborted one or a pool that did not fill are valid.
//!
//! Three questions follow one another, and so do the exit codes. Is the data as
//! it must be (invariants)? That is asked of every rep, valid or not. Can the
//! figures be trusted? Only then is it asked whether they are within their
//! thresholds: a limit broken by a generator at 95% CPU says nothing.

use std::time::Duration;

use plan::{Params, Threshold};
use serde_json::Value;
use stats::Part;

use crate::figures::round;
use crate::input::{RepError, RepReport};
use crate::summary::{
    BrokenInvariant, BrokenThreshold, CellSummary, Merged, Reasons, Summary, Verdict,
};

/// CPU of the generator at which it is no longer trusted, percent.
const CPU_LIMIT_PCT: f64 = 85.0;
/// An operation is sent on time when it starts within this of its plan.
const ON_TIME: Duration = Duration::from_millis(10);
/// Percent of the planned operations that must be sent on time.
const ON_TIME_PCT: f64 = 99.0;
/// Wait for a connection (p99) over which the generator's pool is a limit.
const WAIT_LIMIT_MS: f64 = 10.0;

/// What is thought of one rep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Why its figures can't be trusted; empty when they can.
    pub(crate) invalid_because: Vec<String>,
    /// Waiting for connections may be what limited it.
    pub(crate) generator_limited: bool,
}

/// Whether operations follow a schedule of their own (open loop) or one another.
pub(crate) fn is_open_loop(params: &Params) -> bool {
    match params {
        Params::Append(_) | Params::OrderTransfer(_) | Params::Tpcb(_) => false,
    }
}

/// Percent of the planned operations that were sent on time; `None` in a
/// closed loop and where nothing was planned.
///
/// Skipped operations were not sent. When the rep was aborted they were skipped
/// on purpose, and only the others are asked.
pub(crate) fn rate_reached_pct(part: &Part, open_loop: bool, aborted: bool) -> Option<f64> {
    let counts = &part.counts;
    let due = if aborted {
        counts.planned.saturating_sub(counts.skipped)
    } else {
        counts.planned
    };
    let on_time = part.latencies.lag.count_at_most(ON_TIME);
    (open_loop && due > 0).then(|| round(on_time as f64 / due as f64 * 100.0))
}

/// Judges one rep whose counts are complete.
pub(crate) fn judge(rep: &RepReport, open_loop: bool) -> Judgement {
    let result = &rep.result;
    let latencies = &result.total.latencies;
    let mut because = Vec::new();

    if let Some(RepError::Run(reason)) = &rep.error {
        because.push(match result.span_us() {
            None => format!("did not run: {reason}"),
            Some(_) => format!("did not end well: {reason}"),
        });
    }
    let unaccounted = result.total.counts.unaccounted();
    if unaccounted != 0 {
        let what = plural_signed(unaccounted, "operation");
        because.push(format!("{what} unaccounted for"));
    }
    let unknown = result.total.counts.unknown.unaccounted();
    if unknown != 0 {
        let what = plural_signed(unknown, "unknown outcome");
        because.push(format!("{what} unaccounted for"));
    }
    let missing = rep.workers_expected.saturating_sub(rep.workers_reported);
    if missing > 0 {
        let of = rep.workers_expected;
        let names = match rep.missing.is_empty() {
            true => String::new(),
            false => format!(": {}", some(&rep.missing)),
        };
        because.push(format!("{missing} of {of} workers never reported{names}"));
    }
    if rep.workers_late > 0 {
        let (late, of) = (rep.workers_late, rep.workers_expected);
        because.push(format!(
            "{late} of {of} workers came too late and did no load"
        ));
    }
    if rep.partial || result.stopped {
        because.push("stopped before its end".to_owned());
    }
    if let Some(cpu) = result.cpu_peak_pct
        && cpu >= CPU_LIMIT_PCT
    {
        because.push(format!(
            "the load generator's CPU reached {cpu:.1}% (limit {CPU_LIMIT_PCT:.0}%)"
        ));
    }
    if let Some(sent) = rate_reached_pct(&result.total, open_loop, result.aborted)
        && sent < ON_TIME_PCT
    {
        let lag = latencies.lag.percentile_ms(99.0).unwrap_or_default();
        because.push(format!(
            "{sent:.1}% of the planned operations were sent on time (limit {ON_TIME_PCT:.0}%; \
             lag p99 {lag:.1} ms)"
        ));
    }
    if rep.verify_ok.is_none() && rep.error.is_none() {
        because.push("its data was not verified".to_owned());
    }
    let wait = latencies.wait.percentile_ms(99.0);
    Judgement {
        invalid_because: because,
        generator_limited: wait.is_some_and(|ms| ms > WAIT_LIMIT_MS),
    }
}

/// Names in a line that stays one.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn plural_signed(n: i64, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{s}")
}

/// The verdict over all cells.
pub(crate) fn verdict(cells: &[CellSummary]) -> Verdict {
    let mut verdict = Verdict::default();
    for cell in cells {
        let merged = &cell.merged.measured;
        if merged.valid {
            let broken = cell
                .thresholds
                .iter()
                .filter_map(|limit| check(cell, limit));
            verdict.thresholds.extend(broken);
        } else {
            verdict.invalid.push(Reasons {
                cell: cell.id.clone(),
                because: merged.invalid_because.clone(),
            });
        }
        for rep in &cell.reps {
            if rep.measured.verify.ok == Some(false) {
                verdict.invariants.push(BrokenInvariant {
                    cell: cell.id.clone(),
                    rep: rep.rep,
                    attempt: rep.measured.attempt,
                    problems: rep.measured.verify.problems.clone(),
                });
            }
        }
    }
    verdict.ok = verdict.invalid.is_empty()
        && verdict.thresholds.is_empty()
        && verdict.invariants.is_empty();
    verdict
}

/// The exit code that a summary comes to: 3 when a threshold or an invariant is
/// broken, 2 when something is missing or can't be trusted, 0 otherwise.
pub fn exit_code(summary: &Summary) -> u8 {
    let Verdict {
        ok: _,
        invalid,
        thresholds,
        invariants,
    } = &summary.verdict;
    if !thresholds.is_empty() || !invariants.is_empty() {
        3
    } else if !invalid.is_empty() || summary.partial {
        2
    } else {
        0
    }
}

/// The limit, if the cell breaks it.
fn check(cell: &CellSummary, limit: &Threshold) -> Option<BrokenThreshold> {
    let value = figure(&cell.merged, &limit.figure).flatten();
    let holds = value.is_some_and(|value| {
        limit.min.is_none_or(|min| value >= min) && limit.max.is_none_or(|max| value <= max)
    });
    (!holds).then(|| BrokenThreshold {
        cell: cell.id.clone(),
        figure: limit.figure.clone(),
        value,
        min: limit.min,
        max: limit.max,
    })
}

/// The figure at a path under `merged`: outer `None` when there is no such
/// figure, inner `None` when it is null. A class of `failed` that did not occur
/// is 0.
///
/// Names in the path may hold dots themselves (`by_endpoint.db.example.com.…`).
pub fn figure(merged: &Merged, path: &str) -> Option<Option<f64>> {
    // What is looked into has string keys only, so this cannot fail.
    let value = serde_json::to_value(merged).ok()?;
    match walk(&value, path) {
        Some(Value::Null) => Some(None),
        Some(Value::Number(number)) => Some(number.as_f64()),
        Some(Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => None,
        None => {
            let (of, class) = path.rsplit_once('.')?;
            let by_class = of == "failed" || of.starts_with("by_") && of.ends_with(".failed");
            let known = by_class && !of.ends_with("latency_ms.failed") && !class.is_empty();
            (known && walk(&value, of).is_some()).then_some(Some(0.0))
        }
    }
}

fn walk<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let here = value.as_object()?;
    if let Some(found) = here.get(path) {
        return Some(found);
    }
    path.match_indices('.')
        .find_map(|(dot, _)| walk(here.get(&path[..dot])?, &path[dot + 1..]))
}
