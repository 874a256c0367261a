//! The tables that a terminal shows.
//!
//! Columns are aligned by hand and two spaces apart: without borders a table
//! of fourteen columns fits a common terminal, and can be pasted anywhere. What
//! does not fit the width is continued below with the naming columns repeated;
//! nothing is cut off. Colour repeats what words say and can be left out.

use crate::summary::Summary;
use crate::view::{self, Column, LEGEND, Note, Row, Table};

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Use colour. The caller knows of terminals and `NO_COLOR`.
    pub color: bool,
    /// Characters in a line.
    pub width: usize,
}

impl Default for Style {
    /// Plain, 120 wide: for files and pipes.
    fn default() -> Style {
        Style {
            color: false,
            width: 120,
        }
    }
}

const GAP: usize = 2;
const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "1;31";
const GREEN: &str = "1;32";
const YELLOW: &str = "33";

/// The whole report as text: a table per block, what endpoints cost, the verdict.
pub fn terminal(summary: &Summary, style: Style) -> String {
    let mut out = Text {
        style,
        text: String::new(),
    };
    for block in &summary.blocks {
        out.table(&view::block(summary, block));
    }
    if let Some(table) = view::endpoints(summary) {
        out.table(&table);
    }
    out.paragraph(LEGEND, "", Some(DIM));
    out.text.push('\n');
    out.verdict(summary);
    out.text
}

struct Text {
    style: Style,
    text: String,
}

impl Text {
    fn line(&mut self, line: &str, paint: Option<&str>) {
        let line = line.trim_end();
        match paint.filter(|_| self.style.color && !line.is_empty()) {
            Some(code) => self.text.push_str(&format!("\x1b[{code}m{line}\x1b[0m\n")),
            None => self.text.push_str(&format!("{line}\n")),
        }
    }

    /// Words wrapped to the width; lines after the first are indented further.
    fn paragraph(&mut self, text: &str, indent: &str, paint: Option<&str>) {
        let mut line = indent.to_owned();
        let mut empty = true;
        for word in text.split_whitespace() {
            if !empty && width(&line) + 1 + width(word) > self.style.width {
                self.line(&line, paint);
                line = format!("{indent}  ");
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        self.line(&line, paint);
    }

    fn table(&mut self, table: &Table) {
        self.paragraph(&table.title, "", Some(BOLD));
        if !table.common.is_empty() {
            self.paragraph(&table.common, "", Some(DIM));
        }
        let widths: Vec<usize> = (0..table.columns.len())
            .map(|index| column_width(table, index))
            .collect();
        for panel in panels(&widths, table.keys, self.style.width) {
            self.panel(table, &widths, &panel);
        }
        self.text.push('\n');
    }

    fn panel(&mut self, table: &Table, widths: &[usize], panel: &Panel) {
        let columns: Vec<usize> = (0..table.keys).chain(panel.columns.clone()).collect();
        let aligned = |text: &dyn Fn(usize) -> String| {
            let cells = columns
                .iter()
                .map(|index| pad(&text(*index), widths[*index], &table.columns[*index]));
            cells.collect::<Vec<_>>().join(&" ".repeat(GAP))
        };
        self.line(
            &aligned(&|index| table.columns[index].name.clone()),
            Some(BOLD),
        );
        if columns
            .iter()
            .any(|index| !table.columns[*index].unit.is_empty())
        {
            self.line(
                &aligned(&|index| table.columns[index].unit.clone()),
                Some(DIM),
            );
        }
        for row in &table.rows {
            let Row { cells, notes } = row;
            let bad = notes.iter().any(|note| note.bad);
            self.line(&aligned(&|index| cells[index].clone()), bad.then_some(RED));
            if panel.last {
                for Note { text, bad } in notes {
                    self.paragraph(text, "    ", Some(if *bad { RED } else { YELLOW }));
                }
            }
        }
        if !panel.last {
            self.text.push('\n');
        }
    }

    fn verdict(&mut self, summary: &Summary) {
        let paint = if summary.verdict.ok { GREEN } else { RED };
        self.paragraph(&view::verdict_line(summary), "", Some(paint));
        for line in view::verdict_details(summary) {
            self.paragraph(&line, "  ", Some(RED));
        }
        if summary.partial {
            self.line(
                "PARTIAL: not everything that was planned has run",
                Some(RED),
            );
        }
    }
}

/// Columns that are shown side by side.
struct Panel {
    columns: std::ops::Range<usize>,
    last: bool,
}

/// Deals the columns behind the keys onto as few panels as the width allows.
fn panels(widths: &[usize], keys: usize, limit: usize) -> Vec<Panel> {
    let taken = |width: &usize| width + GAP;
    let key_width: usize = widths[..keys].iter().map(taken).sum();
    let mut panels = Vec::new();
    let mut first = keys;
    let mut used = key_width;
    for (index, column) in widths.iter().enumerate().skip(keys) {
        // The last column of a line needs no gap behind it.
        if index > first && used + column > limit {
            panels.push(first..index);
            first = index;
            used = key_width;
        }
        used += column + GAP;
    }
    panels.push(first..widths.len());
    let count = panels.len();
    (1..)
        .zip(panels)
        .map(|(number, columns)| Panel {
            columns,
            last: number == count,
        })
        .collect()
}

fn column_width(table: &Table, index: usize) -> usize {
    let column = &table.columns[index];
    let cells = table.rows.iter().map(|row| width(&row.cells[index]));
    cells
        .chain([width(&column.name), width(&column.unit)])
        .max()
        .unwrap_or(0)
}

fn pad(text: &str, to: usize, column: &Column) -> String {
    let gap = " ".repeat(to.saturating_sub(width(text)));
    if column.words {
        format!("{text}{gap}")
    } else {
        format!("{gap}{text}")
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_continued_below_when_they_do_not_fit() {
        let dealt = |limit| -> Vec<_> {
            let panels = panels(&[5, 10, 10, 10], 1, limit);
            let ends = |panel: Panel| (panel.columns.start, panel.columns.end);
            panels.into_iter().map(ends).collect()
        };
        assert_eq!(dealt(41), [(1, 4)]);
        assert_eq!(dealt(40), [(1, 3), (3, 4)]);
        assert_eq!(dealt(20), [(1, 2), (2, 3), (3, 4)]);
        // Narrower than one column: one at a time, never none.
        assert_eq!(dealt(1), [(1, 2), (2, 3), (3, 4)]);
    }
}
