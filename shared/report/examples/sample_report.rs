//! Writes a report of made-up figures, to look at while its style is changed:
//! `cargo run -p fabric-report --example sample_report -- sample.html`

#[path = "../tests/sample/mod.rs"]
mod sample;

use fabric_report::{Style, Summary, html, terminal};

fn main() -> std::io::Result<()> {
    let summary = Summary::build(&sample::sweep(), &sample::with_trouble());
    let path = std::env::args().nth(1).unwrap_or("sample.html".into());
    print!("{}", terminal(&summary, Style::default()));
    std::fs::write(path, html(&summary, None))
}
