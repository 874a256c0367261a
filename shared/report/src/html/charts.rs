//! Which charts a report has, and what is on them.

use crate::figures::Figures;
use crate::summary::{BlockSummary, CellSummary, RepSummary, SeriesSummary, Summary};
use crate::view::{axis_value, operations};
use crate::words::parameter_name;

use super::chart::{Axis, Chart, Line, Point, Scale};

/// Most lines of a distribution chart; more can't be told apart.
const MOST_CURVES: usize = 8;

/// A figure against a parameter.
struct Figure {
    title: String,
    label: String,
    scale: Scale,
    /// Path of its confidence interval.
    path: &'static str,
    of: fn(&Figures) -> Option<f64>,
}

/// Charts against the number of writers, with all blocks that vary it.
pub(super) fn against_writers(summary: &Summary) -> Vec<Chart> {
    let blocks: Vec<&BlockSummary> = summary
        .blocks
        .iter()
        .filter(|block| block.axes.iter().any(|axis| axis == "writers"))
        .collect();
    let workload = blocks.iter().find_map(|block| {
        summary
            .cells_of(&block.name)
            .first()
            .map(|cell| cell.workload.clone())
    });
    let Some(workload) = workload else {
        return Vec::new();
    };
    let figures = [
        throughput(&workload),
        Figure {
            title: "Attempts per commit".into(),
            label: "attempts".into(),
            scale: Scale::Linear,
            path: "attempts_per_commit",
            of: |figures| figures.attempts_per_commit,
        },
        Figure {
            title: "Committed at the first try".into(),
            label: "% of commits".into(),
            scale: Scale::Share,
            path: "first_try_pct",
            of: |figures| figures.first_try_pct,
        },
    ];
    figures
        .iter()
        .map(|figure| {
            let lines = blocks
                .iter()
                .flat_map(|block| lines(summary, block, "writers", figure));
            chart(
                &format!("writers-{}", figure.path),
                "writers",
                figure,
                lines.collect(),
            )
        })
        .collect()
}

/// Throughput against the first numeric axis of a block, unless that is the
/// number of writers, which has charts of its own.
pub(super) fn against_axis(summary: &Summary, block: &BlockSummary, id: &str) -> Option<Chart> {
    let cells = summary.cells_of(&block.name);
    let workload = &cells.first()?.workload;
    if block.axes.iter().any(|axis| axis == "writers") {
        return None;
    }
    let axis = block.axes.iter().find(|axis| {
        let numeric = |cell: &&CellSummary| axis_value(cell, axis).parse::<f64>().is_ok();
        cells.iter().all(numeric)
    })?;
    let records = axis == "batch"
        && cells
            .iter()
            .all(|c| c.merged.measured.figures.records.is_some());
    let figure = if records {
        Figure {
            title: "Records per second".into(),
            label: "records/s".into(),
            scale: Scale::Linear,
            path: "records_per_s",
            of: |figures| figures.records_per_s,
        }
    } else {
        throughput(workload)
    };
    Some(chart(
        id,
        axis,
        &figure,
        lines(summary, block, axis, &figure),
    ))
}

fn throughput(workload: &str) -> Figure {
    let what = operations(workload);
    Figure {
        title: "Throughput".into(),
        label: format!("{what}/s"),
        scale: Scale::Linear,
        path: "throughput_per_s",
        of: |figures| figures.throughput_per_s,
    }
}

fn chart(id: &str, axis: &str, figure: &Figure, lines: Vec<Line>) -> Chart {
    let (name, unit) = parameter_name(axis);
    let label = match unit {
        "" => name,
        _ => format!("{name}, {unit}"),
    };
    let banded = lines
        .iter()
        .flat_map(|line| &line.points)
        .any(|point| point.band.is_some());
    let remark = if banded {
        "shaded: 95% confidence over reps"
    } else {
        ""
    };
    Chart {
        id: id.to_owned(),
        title: format!("{} against {label}", figure.title),
        remark: remark.to_owned(),
        x: Axis {
            label,
            scale: Scale::Log,
        },
        y: Axis {
            label: figure.label.clone(),
            scale: figure.scale,
        },
        lines,
    }
}

/// The lines of a block: one per combination of its other axes.
fn lines(summary: &Summary, block: &BlockSummary, axis: &str, figure: &Figure) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for cell in summary.cells_of(&block.name) {
        let others = block.axes.iter().filter(|other| *other != axis);
        let others: Vec<String> = others.map(|other| axis_value(cell, other)).collect();
        let name = match others.len() {
            0 => block.name.clone(),
            _ => format!("{}: {}", block.name, others.join(", ")),
        };
        let measured = &cell.merged.measured;
        let (Ok(x), Some(y)) = (
            axis_value(cell, axis).parse(),
            (figure.of)(&measured.figures),
        ) else {
            continue;
        };
        let interval = cell.merged.ci95.get(figure.path);
        let point = Point {
            x,
            y,
            band: interval.map(|interval| (interval.low, interval.high)),
            valid: measured.valid,
        };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name,
                points: vec![point],
                markers: true,
            }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    lines
}

/// The response's distribution for the cells of a block.
pub(super) fn distribution(summary: &Summary, block: &BlockSummary, id: &str) -> Chart {
    let cells = summary.cells_of(&block.name);
    let shown = cells.len().min(MOST_CURVES);
    let last = cells.len().saturating_sub(1);
    let chosen = (0..shown).map(|n| cells[if shown > 1 { n * last / (shown - 1) } else { 0 }]);
    let lines = chosen.map(|cell| {
        let curve = &cell.merged.response_curve;
        let values: Vec<String> = block
            .axes
            .iter()
            .map(|axis| axis_value(cell, axis))
            .collect();
        let name = match &block.axes[..] {
            [] => cell.id.clone(),
            [axis] => format!("{} {}", parameter_name(axis).0, values[0]),
            _ => values.join(", "),
        };
        let points = curve.percentile.iter().zip(&curve.ms);
        Line {
            name,
            points: points
                .map(|(x, y)| Point {
                    x: *x,
                    y: *y,
                    band: None,
                    valid: true,
                })
                .collect(),
            markers: true,
        }
    });
    let remark = if shown < cells.len() {
        format!("{shown} of {} cells", cells.len())
    } else {
        String::new()
    };
    Chart {
        id: id.to_owned(),
        title: "Response by percentile".to_owned(),
        remark,
        x: Axis {
            label: "percentile".into(),
            scale: Scale::Percentile,
        },
        y: Axis {
            label: "response, ms".into(),
            scale: Scale::Log,
        },
        lines: lines.collect(),
    }
}

/// The course of a cell over time: commits per second and mean response, with
/// a line per rep.
pub(super) fn over_time(cell: &CellSummary, id: &str) -> [Chart; 2] {
    let lines = |of: fn(&SeriesSummary, usize) -> Option<f64>| -> Vec<Line> {
        let line = |rep: &RepSummary| {
            let series = &rep.measured.series;
            let points = (0..series.ended.len()).filter_map(|index| {
                let x = index as f64 * series.bucket_s;
                of(series, index).map(|y| Point {
                    x,
                    y,
                    band: None,
                    valid: true,
                })
            });
            Line {
                name: match rep.measured.attempt {
                    0 | 1 => format!("rep {}", rep.rep),
                    attempt => format!("rep {}, attempt {attempt}", rep.rep),
                },
                points: points.collect(),
                markers: false,
            }
        };
        cell.reps.iter().map(line).collect()
    };
    let chart = |name: &str, title: &str, label: String, lines| Chart {
        id: format!("{id}-{name}"),
        title: title.to_owned(),
        remark: String::new(),
        x: Axis {
            label: "seconds since the start".into(),
            scale: Scale::Linear,
        },
        y: Axis {
            label,
            scale: Scale::Linear,
        },
        lines,
    };
    [
        chart(
            "rate",
            "Committed over time",
            format!("{}/s", operations(&cell.workload)),
            lines(|series, index| Some(series.committed[index] as f64 / series.bucket_s)),
        ),
        chart(
            "response",
            "Mean response over time",
            "ms".to_owned(),
            lines(|series, index| series.response_mean_ms[index]),
        ),
    ]
}
