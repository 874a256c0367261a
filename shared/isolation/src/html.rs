//! `isolation.html`: one file that stands alone, made of the report.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::judge::Outcome;
use crate::matrix::{LEGEND, database, heading, notes, of_suite};
use crate::report::{Played, Report};
use crate::script::Suite;

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 0 auto; padding: 1.25rem 1rem 4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; }
th, td { padding: .35rem .8rem; text-align: left; white-space: nowrap; border-bottom: 1px solid #8886; }
td.anomaly, td.failed { color: #c22; font-weight: 700; }
td.none { opacity: .6; }
p.soft { opacity: .8; font-size: .9rem; margin: .25rem 0; }
";

/// The whole page.
pub fn html(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Isolation · fabric report" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Isolation" }
                p { (database(report)) }
                @for suite in Suite::ALL {
                    @if of_suite(report, suite).next().is_some() { (table(report, suite)) }
                }
                @for line in LEGEND { p.soft { (line) } }
                @for note in notes(report) { p.soft { (note) } }
            }
        }
    };
    page.into_string()
}

fn table(report: &Report, suite: Suite) -> Markup {
    html! {
        h2 { (heading(suite)) }
        div.scroll {
            table {
                thead { tr {
                    th { "Scenario" }
                    @for level in &report.levels { th { (level.sql()) } }
                } }
                tbody {
                    @for scenario in of_suite(report, suite) {
                        tr {
                            th scope="row" title=(scenario.about) { (scenario.title) }
                            @for played in &scenario.results { (cell(played)) }
                        }
                    }
                }
            }
        }
    }
}

fn cell(played: &Played) -> Markup {
    let class = match played.outcome {
        Outcome::Anomaly { .. } => "anomaly",
        Outcome::Failed { .. } => "failed",
        Outcome::NotApplicable { .. } => "none",
        _ => "held",
    };
    html! { td class=(class) { (played.text) } }
}
