//! What a reader is shown, before it is known on what: the tables of the
//! terminal and of the HTML page have the same columns, words and digits.

use std::collections::BTreeMap;

use crate::blocks::leaves;
use crate::figures::Quantiles;
use crate::input::PartialShard;
use crate::summary::{BlockSummary, CellSummary, Measured, Summary, Verdict};
use crate::words::{figure, number, parameter, parameter_name, percent, plural};

/// A table whose cells are text already.
pub(crate) struct Table {
    pub(crate) title: String,
    /// What all rows have in common.
    pub(crate) common: String,
    pub(crate) columns: Vec<Column>,
    /// How many of the first columns name the row.
    pub(crate) keys: usize,
    pub(crate) rows: Vec<Row>,
}

/// A column: its name and, in a second line, its unit.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) unit: String,
    /// Words are aligned to the left, numbers to the right.
    pub(crate) words: bool,
}

pub(crate) struct Row {
    pub(crate) cells: Vec<String>,
    pub(crate) notes: Vec<Note>,
}

/// A remark on a row.
pub(crate) struct Note {
    pub(crate) text: String,
    /// It says that something is wrong, not only that something is so.
    pub(crate) bad: bool,
}

fn column(name: impl Into<String>, unit: &str) -> Column {
    Column {
        name: name.into(),
        unit: unit.to_owned(),
        words: false,
    }
}

/// What an operation of a workload is called in the plural.
pub(crate) fn operations(workload: &str) -> &'static str {
    match workload {
        "append" => "appends",
        _ => "operations",
    }
}

/// What verification checks.
fn checked(workload: &str) -> &'static str {
    match workload {
        "append" => "chain",
        _ => "data",
    }
}

/// A cell's value on an axis of its block.
pub(crate) fn axis_value(cell: &CellSummary, axis: &str) -> String {
    if axis == "target" {
        let mark = if cell.simulated { " (simulated)" } else { "" };
        return format!("{}{mark}", cell.target);
    }
    let leaves = leaves(&cell.params);
    leaves.get(axis).map_or_else(|| "-".to_owned(), parameter)
}

/// The sentence that no table of simulated figures goes without.
pub(crate) fn simulated_mark(summary: &Summary, cells: &[&CellSummary]) -> Option<String> {
    let simulated: Vec<&&CellSummary> = cells.iter().filter(|cell| cell.simulated).collect();
    if simulated.is_empty() {
        return None;
    }
    if simulated.len() < cells.len() {
        return Some("partly SIMULATED".to_owned());
    }
    let mut urls: Vec<&str> = Vec::new();
    for target in &summary.targets {
        let used = simulated.iter().any(|cell| cell.target == target.name);
        if used && !urls.contains(&target.url.as_str()) {
            urls.push(&target.url);
        }
    }
    Some(format!("SIMULATED ({})", urls.join(", ")))
}

/// The table of a block: a row per cell.
pub(crate) fn block(summary: &Summary, block: &BlockSummary) -> Table {
    let cells = summary.cells_of(&block.name);
    let workload = cells.first().map_or("", |cell| cell.workload.as_str());
    let mut columns: Vec<Column> = block
        .axes
        .iter()
        .map(|axis| {
            let (name, unit) = parameter_name(axis);
            Column {
                words: cells
                    .iter()
                    .any(|cell| axis_value(cell, axis).parse::<f64>().is_err()),
                ..column(name, unit)
            }
        })
        .collect();
    let keys = columns.len();
    let told = told(workload, &cells);
    columns.extend(
        told.iter()
            .map(|(name, unit, _)| column(name.to_owned(), unit)),
    );
    let rows = cells
        .iter()
        .map(|cell| block_row(cell, &block.axes, &told))
        .collect();
    Table {
        title: title(summary, &block.name, &cells),
        common: common(block, &cells),
        columns,
        keys,
        rows,
    }
}

fn title(summary: &Summary, name: &str, cells: &[&CellSummary]) -> String {
    let Some(first) = cells.first() else {
        return name.to_owned();
    };
    let mut title = format!("{name}: {}", first.workload);
    if cells.iter().all(|cell| cell.target == first.target) {
        title.push_str(&format!(" on {}", first.target));
    }
    let reps: Vec<u32> = cells.iter().map(|cell| cell.merged.reps).collect();
    let (least, most) = (
        reps.iter().min().unwrap_or(&0),
        reps.iter().max().unwrap_or(&0),
    );
    let most_reps = plural(*most as usize, "rep");
    title.push_str(&if least == most {
        format!(", {most_reps}")
    } else {
        format!(", {least} to {most_reps}")
    });
    if let Some(mark) = simulated_mark(summary, cells) {
        title.push_str(&format!(", {mark}"));
    }
    if cells.iter().any(|cell| cell.merged.measured.partial) {
        title.push_str(", PARTIAL");
    }
    title
}

/// The parameters that all cells of a block share and that tell blocks apart.
fn common(block: &BlockSummary, cells: &[&CellSummary]) -> String {
    const TELLING: [&str; 21] = [
        "writers",
        "streams",
        "batch",
        "records",
        "concurrency",
        "rate",
        "distribution",
        "products",
        "accounts",
        "items",
        "inventory_shards",
        "transfers_pct",
        "duplicate_pct",
        "variant",
        "scale",
        "measure_s",
        "warmup_s",
        "placement",
        "trips",
        "isolation",
        "payload_bytes",
    ];
    let Some(first) = cells.first() else {
        return String::new();
    };
    let leaves = leaves(&first.params);
    let told = TELLING.iter().filter_map(|path| {
        let value = leaves.get(*path)?;
        let varies = block.axes.iter().any(|axis| axis == path);
        let idle = value.is_null() || value.as_f64() == Some(0.0);
        let (name, unit) = parameter_name(path);
        let gap = if unit.is_empty() { "" } else { " " };
        (!varies && !idle).then(|| format!("{name} {}{gap}{unit}", parameter(value)))
    });
    told.collect::<Vec<_>>().join(", ")
}

/// A column of figures: its name, its unit, and the figure of a cell.
type Told = (&'static str, &'static str, fn(&CellSummary) -> String);

/// What is told of each cell of a block, in the order of the reports that the
/// workloads come from.
fn told(workload: &str, cells: &[&CellSummary]) -> Vec<Told> {
    let any = |has: fn(&Measured) -> bool| cells.iter().any(|cell| has(&cell.merged.measured));
    let mut told: Vec<Told> = vec![
        ("committed", "/planned", |cell| {
            let figures = &cell.merged.measured.figures;
            format!("{}/{}", figures.committed, figures.planned)
        }),
        (operations(workload), "/s", |cell| {
            figure(cell.merged.measured.figures.throughput_per_s)
        }),
        ("±95%", "/s", |cell| {
            let interval = cell.merged.ci95.get("throughput_per_s");
            figure(interval.map(|interval| (interval.high - interval.low) / 2.0))
        }),
    ];
    // Where every operation is one record, records per second say nothing new.
    if any(|measured| {
        let figures = &measured.figures;
        figures
            .records
            .is_some_and(|records| records != figures.committed)
    }) {
        told.push(("records", "/s", |cell| {
            figure(cell.merged.measured.figures.records_per_s)
        }));
    }
    let conflict: Told = ("conflict", "%", |cell| {
        percent(cell.merged.measured.figures.raw_conflict_pct)
    });
    let p50: Told = ("p50", "ms", |cell| figure(response(cell).p50));
    let p95: Told = ("p95", "ms", |cell| figure(response(cell).p95));
    let p99: Told = ("p99", "ms", |cell| figure(response(cell).p99));
    if workload == "append" {
        told.extend([
            p50,
            p95,
            p99,
            ("first try", "%", |cell| {
                percent(cell.merged.measured.figures.first_try_pct)
            }),
            ("attempts", "/commit", |cell| {
                figure(cell.merged.measured.figures.attempts_per_commit)
            }),
            conflict,
            ("starved", "", |cell| {
                cell.merged.measured.figures.starved.to_string()
            }),
            ("failed", "", |cell| {
                cell.merged.measured.figures.failed_total().to_string()
            }),
        ]);
    } else {
        told.extend([
            conflict,
            ("failed", "%", |cell| {
                percent(cell.merged.measured.figures.final_failure_pct)
            }),
        ]);
        if any(|measured| measured.figures.rejected > 0) {
            told.push(("rejected", "", |cell| {
                cell.merged.measured.figures.rejected.to_string()
            }));
        }
        told.extend([
            p50,
            p95,
            p99,
            ("p99 committed", "ms", |cell| {
                figure(cell.merged.measured.figures.latency_ms.committed.p99)
            }),
        ]);
        if any(|measured| measured.lock_waits.is_some()) {
            told.extend::<[Told; 2]>([
                ("deadlocks", "", |cell| {
                    cell.merged.measured.figures.deadlocks.to_string()
                }),
                ("lock waits", "at once", |cell| {
                    let waits = cell.merged.measured.lock_waits;
                    waits.map_or_else(|| "-".to_owned(), |waits| waits.peak.to_string())
                }),
            ]);
        }
    }
    told.push((checked(workload), "ok", |cell| {
        verified(cell.merged.measured.verify.ok).to_owned()
    }));
    told
}

fn response(cell: &CellSummary) -> &Quantiles {
    &cell.merged.measured.figures.latency_ms.response
}

fn block_row(cell: &CellSummary, axes: &[String], told: &[Told]) -> Row {
    let keys = axes.iter().map(|axis| axis_value(cell, axis));
    let figures = told.iter().map(|(_, _, figure)| figure(cell));
    Row {
        cells: keys.chain(figures).collect(),
        notes: notes(cell),
    }
}

pub(crate) fn verified(ok: Option<bool>) -> &'static str {
    match ok {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    }
}

/// What must be said of a cell beside its figures.
fn notes(cell: &CellSummary) -> Vec<Note> {
    let measured = &cell.merged.measured;
    let mut notes: Vec<Note> = Vec::new();
    let mut note = |bad, text| notes.push(Note { text, bad });
    for problem in &measured.verify.problems {
        note(true, format!("NOT AS IT MUST BE: {problem}"));
    }
    for reason in &measured.invalid_because {
        note(true, format!("INVALID: {reason}"));
    }
    for rep in &cell.reps {
        if let (Some(error), true) = (&rep.error, rep.measured.valid) {
            note(false, format!("rep {}: {error}", rep.rep));
        }
    }
    for rep in &cell.reps {
        for shard in &rep.partial_progress {
            note(true, partial(rep.rep, shard));
        }
    }
    let aborted = cell.reps.iter().filter(|rep| rep.measured.aborted).count();
    if aborted > 0 {
        let of = cell.reps.len();
        note(
            false,
            format!("aborted in {aborted} of {of} reps: too many starved"),
        );
    }
    if measured.generator_limited {
        let wait = figure(measured.figures.latency_ms.wait.p99);
        note(
            false,
            format!("generator-limited: wait for a connection p99 {wait} ms"),
        );
    }
    let failures = other_failures(measured);
    if !failures.is_empty() {
        note(false, format!("failed: {failures}"));
    }
    let unknown = &measured.figures.unknown;
    if unknown.total > 0 {
        note(
            false,
            format!(
                "{} unknown outcomes: {} had committed, {} had not, {} unresolved",
                unknown.total, unknown.committed, unknown.absent, unknown.unresolved
            ),
        );
    }
    notes
}

/// What is last known of a shard that never reported.
fn partial(rep: u32, shard: &PartialShard) -> String {
    let PartialShard {
        shard,
        at_s,
        ended,
        committed,
        failed,
        starved,
        conflicts,
    } = shard;
    let when = at_s.map_or_else(
        || "before its start".to_owned(),
        |s| format!("at {} s", number(s)),
    );
    format!(
        "PARTIAL, in no total: rep {rep}, {shard} was last heard of {when}: {ended} ended, \
         {committed} committed, {failed} failed ({starved} starved), {conflicts} lost races"
    )
}

/// Failures by class, where there are others than starved ones.
fn other_failures(measured: &Measured) -> String {
    let failed = &measured.figures.failed;
    if failed.keys().all(|class| class == stats::counts::STARVED) {
        return String::new();
    }
    let classes = failed
        .iter()
        .map(|(class, count)| format!("{count} {class}"));
    classes.collect::<Vec<_>>().join(", ")
}

/// First-try medians by endpoint for the blocks that have them.
pub(crate) fn endpoints(summary: &Summary) -> Option<Table> {
    let blocks: Vec<&BlockSummary> = summary
        .blocks
        .iter()
        .filter(|block| {
            block
                .low_contention_first_try_ms
                .values()
                .any(|first| first.n > 0)
        })
        .collect();
    let mut names: BTreeMap<&String, ()> = BTreeMap::new();
    for block in &blocks {
        names.extend(
            block
                .low_contention_first_try_ms
                .keys()
                .map(|name| (name, ())),
        );
    }
    if names.is_empty() {
        return None;
    }
    let mut columns = vec![Column {
        words: true,
        ..column("block", "")
    }];
    for name in names.keys() {
        columns.push(column(name.as_str(), "p50 ms"));
        columns.push(column("", "appends"));
    }
    let rows = blocks.iter().map(|block| {
        let mut cells = vec![block.name.clone()];
        for name in names.keys() {
            let first = block.low_contention_first_try_ms.get(*name);
            cells.push(figure(first.and_then(|first| first.p50)));
            cells.push(first.map_or_else(|| "-".to_owned(), |first| first.n.to_string()));
        }
        Row {
            cells,
            notes: Vec::new(),
        }
    });
    let cells: Vec<&CellSummary> = blocks
        .iter()
        .flat_map(|block| summary.cells_of(&block.name))
        .collect();
    let mark = simulated_mark(summary, &cells).map_or_else(String::new, |mark| format!(", {mark}"));
    Some(Table {
        title: format!("First-try appends by endpoint{mark}"),
        common:
            "response of appends that committed at attempt 1, cells of up to 8 writers per stream"
                .to_owned(),
        columns,
        keys: 1,
        rows: rows.collect(),
    })
}

/// The verdict in one line.
pub(crate) fn verdict_line(summary: &Summary) -> String {
    let cells = plural(summary.cells.len(), "cell");
    let Verdict {
        ok,
        invalid,
        thresholds,
        invariants,
    } = &summary.verdict;
    if *ok {
        return format!("OK: {cells}, all valid, no invariant and no threshold broken");
    }
    let mut parts = Vec::new();
    if !invariants.is_empty() {
        parts.push(format!(
            "{} with broken invariants",
            plural(invariants.len(), "rep")
        ));
    }
    if !thresholds.is_empty() {
        parts.push(format!("{} broken", plural(thresholds.len(), "threshold")));
    }
    if !invalid.is_empty() {
        parts.push(format!("{} invalid", invalid.len()));
    }
    format!("NOT OK: of {cells}, {}", parts.join(", "))
}

/// What the verdict consists of, a line each.
pub(crate) fn verdict_details(summary: &Summary) -> Vec<String> {
    let verdict = &summary.verdict;
    let mut lines = Vec::new();
    for broken in &verdict.invariants {
        let place = format!("{} rep {}", broken.cell, broken.rep);
        if broken.problems.is_empty() {
            lines.push(format!("INVARIANT {place}: verification failed"));
        }
        for problem in &broken.problems {
            lines.push(format!("INVARIANT {place}: {problem}"));
        }
    }
    for broken in &verdict.thresholds {
        let limit = |word: &str, limit: Option<f64>| limit.map(|limit| format!("{word} {limit}"));
        let limits = [limit("at least", broken.min), limit("at most", broken.max)];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        let value = broken
            .value
            .map_or_else(|| "nothing".to_owned(), |value| value.to_string());
        lines.push(format!(
            "THRESHOLD {}: {} is {value}, should be {}",
            broken.cell,
            broken.figure,
            limits.join(" and ")
        ));
    }
    for reasons in &verdict.invalid {
        for reason in &reasons.because {
            lines.push(format!("INVALID {}: {reason}", reasons.cell));
        }
    }
    lines
}

/// How the columns are meant.
pub(crate) const LEGEND: &str = "±95%: half the confidence interval over reps. p50, p95, p99: of \
the response, planned start to end with all attempts, pauses, reconnects and look-ups. first try: \
share of commits at attempt 1. conflict: share of attempts that lost a race. failed: all classes, \
starved ones included. chain ok: verified after every rep. -: nothing to divide.";
