//! `report.html`: one file that stands alone.
//!
//! No script, no font, no address outside: it can be mailed, archived and
//! opened in ten years. The verdict comes first, then charts and a table per
//! block, then every cell with all its parameters and figures. Everything that
//! comes from a sweep or a database passes through maud, which escapes it.
//!
//! The page is made from the summary alone (and `run.json` for its last
//! section), so that a report can be made again from its folder.

mod chart;
mod charts;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::blocks::leaves;
use crate::figures::{Figures, Quantiles};
use crate::run::RunInfo;
use crate::summary::{BlockSummary, CellSummary, Measured, Summary};
use crate::view::{self, LEGEND, Table};
use crate::words::{figure, number, parameter, percent, plural};

use chart::Chart;

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn html(summary: &Summary, run: Option<&RunInfo>) -> String {
    let all: Vec<&CellSummary> = summary.cells.iter().collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (summary.name) " · fabric report" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    header {
                        h1 { (summary.name) }
                        @if let Some(about) = &summary.about { p { (about) } }
                        ul.chips {
                            @if let Some(mark) = view::simulated_mark(summary, &all) {
                                li.mark { (mark) }
                            }
                            @if summary.partial { li.mark { "PARTIAL" } }
                            @for target in &summary.targets {
                                li { (target.name) ": " code { (target.url) } }
                            }
                            li { "seed " (summary.seed) }
                            li { (plural(summary.cells.len(), "cell")) }
                        }
                    }
                    (verdict(summary))
                    (grid(&charts::against_writers(summary)))
                    @for (index, block) in summary.blocks.iter().enumerate() {
                        (block_section(summary, block, index))
                    }
                    @if let Some(table) = view::endpoints(summary) {
                        h2 { (table.title) }
                        p.soft { (table.common) }
                        (self::table(&table, &[]))
                    }
                    h2 { "How to read the columns" }
                    p.soft { (LEGEND) }
                    h2 { "Every cell" }
                    @for (index, cell) in summary.cells.iter().enumerate() {
                        (cell_section(cell, index))
                    }
                    @if let Some(run) = run { (run_section(run)) }
                    footer {
                        p.soft {
                            "Made from " code { "summary.json" } ", version " (summary.version)
                            ", which holds every figure."
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

fn verdict(summary: &Summary) -> Markup {
    let details = view::verdict_details(summary);
    html! {
        section class=(if summary.verdict.ok { "verdict good" } else { "verdict bad" })
            aria-label="Verdict" {
            p { (view::verdict_line(summary)) }
            @if !details.is_empty() {
                ul { @for line in &details { li { (line) } } }
            }
        }
    }
}

fn grid(charts: &[Chart]) -> Markup {
    html! {
        @if !charts.is_empty() {
            div.charts { @for chart in charts { (chart.render()) } }
        }
    }
}

fn block_section(summary: &Summary, block: &BlockSummary, index: usize) -> Markup {
    let table = view::block(summary, block);
    let links: Vec<String> = summary
        .cells
        .iter()
        .enumerate()
        .filter(|(_, cell)| cell.block == block.name)
        .map(|(index, _)| format!("#cell-{index}"))
        .collect();
    let mut charts: Vec<Chart> = Vec::new();
    charts.extend(charts::against_axis(
        summary,
        block,
        &format!("block-{index}-axis"),
    ));
    charts.push(charts::distribution(
        summary,
        block,
        &format!("block-{index}-response"),
    ));
    html! {
        section {
            h2 { (table.title) }
            p.soft { (table.common) }
            (self::table(&table, &links))
            (grid(&charts))
        }
    }
}

/// A table in a container of its own that scrolls sideways. `links`: where the
/// first cell of each row leads.
fn table(table: &Table, links: &[String]) -> Markup {
    let class = |index: usize| table.columns[index].words.then_some("words");
    html! {
        div.scroll tabindex="0" role="region" aria-label=(table.title) {
            table {
                thead { tr {
                    @for (index, column) in table.columns.iter().enumerate() {
                        th scope="col" class=[class(index)] {
                            (column.name) small { (column.unit) }
                        }
                    }
                } }
                tbody {
                    @for (number, row) in table.rows.iter().enumerate() {
                        tr class=[row.notes.iter().any(|note| note.bad).then_some("bad")] {
                            @for (index, text) in row.cells.iter().enumerate() {
                                @if index < table.keys {
                                    th scope="row" class=[class(index)] {
                                        @match links.get(number) {
                                            Some(link) if index == 0 => { a href=(link) { (text) } }
                                            _ => (text),
                                        }
                                    }
                                } @else {
                                    td class=[if text == "NO" { Some("no") } else { class(index) }] {
                                        (text)
                                    }
                                }
                            }
                        }
                        @for note in &row.notes {
                            tr class=(if note.bad { "note bad" } else { "note" }) {
                                td colspan=(table.columns.len()) { span { (note.text) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A table of plain words: a header and rows, the first column naming them.
fn small_table(label: &str, header: &[(&str, &str)], rows: Vec<Vec<String>>) -> Markup {
    let words = |index: usize| (index == 0).then_some("words");
    html! {
        @if !rows.is_empty() {
            div.scroll.fit tabindex="0" role="region" aria-label=(label) {
                table {
                    thead { tr {
                        @for (index, (name, unit)) in header.iter().enumerate() {
                            th scope="col" class=[words(index)] { (name) small { (unit) } }
                        }
                    } }
                    tbody {
                        @for row in &rows {
                            tr {
                                @for (index, text) in row.iter().enumerate() {
                                    @if index == 0 { th.words scope="row" { (text) } }
                                    @else { td { (text) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn pairs(pairs: &[(String, String)]) -> Markup {
    html! {
        dl.pairs {
            @for (name, value) in pairs { div { dt { (name) } dd { (value) } } }
        }
    }
}

fn cell_section(cell: &CellSummary, index: usize) -> Markup {
    let measured = &cell.merged.measured;
    let figures = &measured.figures;
    let parameters: Vec<(String, String)> = leaves(&cell.params)
        .iter()
        .map(|(path, value)| (path.clone(), parameter(value)))
        .collect();
    html! {
        details {
            summary {
                strong { (cell.id) } " "
                span.soft {
                    (figure(figures.throughput_per_s)) " " (view::operations(&cell.workload))
                    "/s, response p50 " (figure(figures.latency_ms.response.p50)) " ms "
                }
                @if cell.simulated { span.badge.mark { "SIMULATED" } " " }
                @if measured.aborted { span.badge.mark { "aborted" } " " }
                @if !measured.valid { span.badge.bad { "INVALID" } " " }
                @if measured.verify.ok == Some(false) { span.badge.bad { "BROKEN" } }
            }
            // A link to what is inside opens it without a script.
            div id=(format!("cell-{index}")) {
                h3 { "Parameters on " (cell.target) }
                (pairs(&parameters))
                h3 { "Reps, and all of them merged" }
                (reps(cell))
                h3 { "Latency, merged" }
                (latencies(figures))
                @if !measured.by_endpoint.is_empty() {
                    h3 { "By endpoint" }
                    (by_endpoint(measured))
                }
                @if measured.by_operation.len() > 1 {
                    h3 { "By kind of operation" }
                    (by_operation(measured))
                }
                @if !cell.merged.ci95.is_empty() {
                    h3 { "95% confidence over reps" }
                    (intervals(cell))
                }
                h3 { "Around the window" }
                (pairs(&around(measured)))
                (grid(&charts::over_time(cell, &format!("cell-{index}"))))
            }
        }
    }
}

fn reps(cell: &CellSummary) -> Markup {
    let header = [
        ("rep", ""),
        ("planned", ""),
        ("committed", ""),
        ("rejected", ""),
        ("failed", ""),
        ("skipped", ""),
        ("unfinished", ""),
        ("lost", ""),
        ("unaccounted", ""),
        (view::operations(&cell.workload), "/s"),
        ("attempts", "/s"),
        ("attempts", "/commit"),
        ("first try", "%"),
        ("conflict", "%"),
        ("p50", "ms"),
        ("p99", "ms"),
        ("verified", ""),
        ("aborted", ""),
        ("valid", ""),
    ];
    let row = |name: String, measured: &Measured| -> Vec<String> {
        let figures = &measured.figures;
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        vec![
            name,
            figures.planned.to_string(),
            figures.committed.to_string(),
            figures.rejected.to_string(),
            figures.failed_total().to_string(),
            figures.skipped.to_string(),
            figures.unfinished.to_string(),
            figures.lost.to_string(),
            figures.unaccounted.to_string(),
            figure(figures.throughput_per_s),
            figure(figures.attempts_per_s),
            figure(figures.attempts_per_commit),
            percent(figures.first_try_pct),
            percent(figures.raw_conflict_pct),
            figure(figures.latency_ms.response.p50),
            figure(figures.latency_ms.response.p99),
            view::verified(measured.verify.ok).to_owned(),
            yes(measured.aborted),
            yes(measured.valid),
        ]
    };
    let rows = cell.reps.iter().map(|rep| {
        let name = match rep.measured.attempt {
            0 | 1 => rep.rep.to_string(),
            attempt => format!("{}, attempt {attempt}", rep.rep),
        };
        row(name, &rep.measured)
    });
    let merged = row("merged".to_owned(), &cell.merged.measured);
    small_table("Reps", &header, rows.chain([merged]).collect())
}

fn latencies(figures: &Figures) -> Markup {
    let header = [
        ("latency", ""),
        ("values", "n"),
        ("p50", "ms"),
        ("p95", "ms"),
        ("p99", "ms"),
        ("p99.9", "ms"),
        ("max", "ms"),
    ];
    let kinds = figures.latency_ms.kinds().into_iter();
    let rows = kinds
        .filter(|(_, quantiles)| quantiles.n > 0)
        .map(|(name, quantiles)| {
            let Quantiles {
                n,
                p50,
                p95,
                p99,
                p999,
                max,
                out_of_range: _,
            } = quantiles;
            let mut row = vec![name.replace('_', " "), n.to_string()];
            row.extend([p50, p95, p99, p999, max].map(|value| figure(*value)));
            row
        });
    small_table("Latency", &header, rows.collect())
}

fn by_endpoint(measured: &Measured) -> Markup {
    let header = [
        ("endpoint", ""),
        ("committed", ""),
        ("committed", "/s"),
        ("first try", "%"),
        ("response", "p50 ms"),
        ("first try", "p50 ms"),
        ("net", "p50 ms"),
        ("SELECT 1 before", "p50 ms"),
        ("SELECT 1 after", "p50 ms"),
        ("wire", "ms"),
    ];
    let rows = measured.by_endpoint.iter().map(|(name, figures)| {
        let rtt = measured.rtt_ms.get(name);
        vec![
            name.clone(),
            figures.committed.to_string(),
            figure(figures.throughput_per_s),
            percent(figures.first_try_pct),
            figure(figures.latency_ms.response.p50),
            figure(figures.latency_ms.first_try.p50),
            figure(figures.latency_ms.net.quantiles.p50),
            figure(rtt.and_then(|rtt| rtt.before_p50)),
            figure(rtt.and_then(|rtt| rtt.after_p50)),
            figure(rtt.and_then(|rtt| rtt.wire)),
        ]
    });
    small_table("By endpoint", &header, rows.collect())
}

fn by_operation(measured: &Measured) -> Markup {
    let header = [
        ("operation", ""),
        ("committed", ""),
        ("rejected", ""),
        ("failed", ""),
        ("committed", "/s"),
        ("conflict", "%"),
        ("p50", "ms"),
        ("p95", "ms"),
        ("p99", "ms"),
    ];
    let rows = measured.by_operation.iter().map(|(name, figures)| {
        let response = &figures.latency_ms.response;
        vec![
            name.clone(),
            figures.committed.to_string(),
            figures.rejected.to_string(),
            figures.failed_total().to_string(),
            figure(figures.throughput_per_s),
            percent(figures.raw_conflict_pct),
            figure(response.p50),
            figure(response.p95),
            figure(response.p99),
        ]
    });
    small_table("By kind of operation", &header, rows.collect())
}

fn intervals(cell: &CellSummary) -> Markup {
    let header = [
        ("figure", ""),
        ("mean", ""),
        ("low", ""),
        ("high", ""),
        ("reps", ""),
    ];
    let rows = cell.merged.ci95.iter().map(|(path, interval)| {
        vec![
            path.clone(),
            number(interval.mean),
            number(interval.low),
            number(interval.high),
            interval.n.to_string(),
        ]
    });
    small_table("Confidence intervals", &header, rows.collect())
}

/// Steps beside the window and the load generator, as far as there are any.
fn around(measured: &Measured) -> Vec<(String, String)> {
    let step = |name: &str, rows: Option<u64>, seconds: Option<f64>| {
        let value = rows.map(|rows| format!("{rows} rows in {} s", figure(seconds)));
        (name.to_owned(), value.unwrap_or_else(|| "-".to_owned()))
    };
    let instrument = &measured.instrument;
    let text = |name: &str, value: String| (name.to_owned(), value);
    let unknown = &measured.figures.unknown;
    vec![
        step("prepare", measured.prepare.rows, measured.prepare.seconds),
        step("verify", measured.verify.rows, measured.verify.seconds),
        step("clean", measured.clean.rows, measured.clean.seconds),
        text("measured, s", figure(measured.span_s)),
        text(
            "workers reported",
            format!("{}/{}", instrument.workers_reported, instrument.workers),
        ),
        text("CPU peak, %", percent(instrument.cpu_peak_pct)),
        text("sent on time, %", percent(instrument.rate_reached_pct)),
        text("clock offset, ms", figure(instrument.clock_offset_ms)),
        text("start late, ms", figure(instrument.start_late_ms)),
        text("start spread, ms", figure(instrument.start_spread_ms)),
        text("hand-over gap, ms", figure(instrument.handover_gap_ms)),
        text("unknown outcomes", unknown.total.to_string()),
        text("of these unresolved", unknown.unresolved.to_string()),
    ]
}

fn run_section(run: &RunInfo) -> Markup {
    let mut facts = vec![
        ("started".to_owned(), run.started_utc.clone()),
        ("ended".to_owned(), run.ended_utc.clone()),
        ("wall clock, s".to_owned(), figure(Some(run.wall_s))),
        ("fabric".to_owned(), run.fabric.clone()),
        (
            "commit".to_owned(),
            run.commit.clone().unwrap_or_else(|| "-".to_owned()),
        ),
        (
            "host".to_owned(),
            format!("{} {}, {} CPUs", run.host.os, run.host.arch, run.host.cpus),
        ),
    ];
    for target in &run.targets {
        let known = [&target.server_version, &target.network];
        let known: Vec<&str> = known.into_iter().flatten().map(String::as_str).collect();
        if !known.is_empty() {
            facts.push((target.name.clone(), known.join(", ")));
        }
    }
    html! {
        h2 { "This run" }
        (pairs(&facts))
    }
}
