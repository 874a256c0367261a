//! What is shown, as it is shown: on the terminal and as a page.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod sample;

use fabric_report::{CellReport, RunInfo, Style, Summary, html, terminal};

fn summary() -> Summary {
    Summary::build(&sample::sweep(), &sample::with_trouble())
}

#[test]
fn the_terminal_shows_tables_and_the_verdict() {
    insta::assert_snapshot!("terminal", terminal(&summary(), Style::default()));
}

#[test]
fn a_narrow_terminal_shows_all_of_it_in_its_width() {
    let style = Style {
        color: false,
        width: 60,
    };
    let text = terminal(&summary(), style);
    insta::assert_snapshot!("terminal_60", text);
}

#[test]
fn colour_is_an_addition() {
    let plain = terminal(&summary(), Style::default());
    let style = Style {
        color: true,
        ..Style::default()
    };
    let mut painted = terminal(&summary(), style);
    assert!(painted.contains("\x1b[1;31m"));
    while let Some(start) = painted.find("\x1b[") {
        let end = start + painted[start..].find('m').unwrap();
        painted.replace_range(start..=end, "");
    }
    assert_eq!(painted, plain);
    assert!(!plain.contains('\x1b'));
}

/// Every element of the page that has something to say, a line each.
fn outline(page: &str) -> String {
    const SAID: [&str; 9] = [
        "title",
        "h1",
        "h2",
        "h3",
        "figcaption",
        "th",
        "summary",
        "desc",
        "li",
    ];
    let mut out = String::new();
    for piece in page.split('<').skip(1) {
        let Some((tag, text)) = piece.split_once('>') else {
            continue;
        };
        let name = tag.split(' ').next().unwrap_or_default();
        let text = text.trim();
        if SAID.contains(&name) && !text.is_empty() {
            out.push_str(&format!("{name}: {text}\n"));
        }
    }
    out
}

fn page() -> String {
    html(&summary(), None)
}

#[test]
fn the_page_says_what_it_should() {
    let mut cells = sample::with_trouble();
    cells.retain(|report| report.cell.block == "D");
    let page = html(&Summary::build(&sample::sweep(), &cells), None);
    insta::assert_snapshot!("page", outline(&page));
}

#[test]
fn the_page_stands_alone() {
    let page = page();
    for outside in [
        "http:", "https:", "<script", "<link", "src=", "@import", "url(//",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("name=\"viewport\""));
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("@media print"));
    // The verdict comes before any figure.
    assert!(page.find("NOT OK").unwrap() < page.find("<svg").unwrap());
    assert!(page.find("NOT OK").unwrap() < page.find("<table").unwrap());
}

#[test]
fn its_elements_are_closed_in_order_and_its_ids_are_unique() {
    const VOID: [&str; 3] = ["meta", "br", "!DOCTYPE"];
    let page = page();
    let style = page.find("<style>").unwrap()..page.find("</style>").unwrap();
    let page = format!("{}{}", &page[..style.start], &page[style.end + 8..]);
    let mut open = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    for piece in page.split('<').skip(1) {
        let tag = piece.split('>').next().unwrap();
        let name = tag.split(' ').next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if VOID.contains(&name) => {}
            None => open.push(name),
        }
        if let Some((_, id)) = tag.split_once(" id=\"") {
            assert!(
                ids.insert(id.split('"').next().unwrap()),
                "{id} is there twice"
            );
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for link in page.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap();
        assert!(ids.contains(id), "#{id} leads nowhere");
    }
}

#[test]
fn what_others_wrote_is_escaped() {
    const HOSTILE: &str = "<script>alert('x')</script>\"&<img src=x>";
    let mut sweep = sample::sweep();
    sweep.name = HOSTILE.into();
    sweep.about = Some(HOSTILE.into());
    sweep.targets[0].name = HOSTILE.into();
    let mut cells = sample::with_trouble();
    for report in &mut cells {
        report.cell.target = HOSTILE.into();
        report.cell.block.push_str(HOSTILE);
        report.cell.id.push_str(HOSTILE);
        for rep in &mut report.reps {
            rep.verify_ok = Some(false);
            rep.verify_problems = vec![HOSTILE.into()];
            let parts = std::mem::take(&mut rep.result.by_endpoint);
            let renamed = parts
                .into_iter()
                .map(|(name, part)| (format!("{HOSTILE}{name}"), part));
            rep.result.by_endpoint = renamed.collect();
        }
    }
    let run = RunInfo {
        commit: Some(HOSTILE.into()),
        ..RunInfo::default()
    };
    let page = html(&Summary::build(&sweep, &cells), Some(&run));
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert!(page.matches("&lt;script&gt;").count() > 50);
}

#[test]
fn what_is_last_known_of_a_lost_shard_is_shown_as_partial() {
    let mut cells = sample::cells();
    sample::with_a_lost_shard(&mut cells[0].reps[1]);
    let summary = Summary::build(&sample::sweep(), &cells);
    let rep = &summary.cells[0].reps[1];
    assert_eq!(rep.missing, ["shard 2 of 4"]);
    assert_eq!(rep.measured.figures.lost, 128);
    let instrument = summary.cells[0].merged.measured.instrument;
    assert_eq!(instrument.start_late_ms, Some(4.25));
    assert_eq!(instrument.start_spread_ms, Some(3.5));
    assert_eq!(instrument.handover_gap_ms, Some(0.25));
    let style = Style {
        color: false,
        width: 400,
    };
    for text in [terminal(&summary, style), html(&summary, None)] {
        for said in [
            "1 of 4 workers never reported: shard 2 of 4",
            "PARTIAL, in no total: rep 2, shard 2 of 4 was last heard of at 12.2 s: 40 ended, 37 \
             committed, 3 failed (2 starved), 61 lost races",
        ] {
            assert!(text.contains(said), "{said}");
        }
    }
    let page = html(&summary, None);
    assert!(page.contains("start spread, ms") && page.contains("hand-over gap, ms"));
}

#[test]
fn a_report_of_nothing_is_still_a_report() {
    let empty = Summary::build(&sample::sweep(), &[]);
    assert!(terminal(&empty, Style::default()).contains("0 cells"));
    assert!(html(&empty, None).contains("0 cells"));
    let cell = sample::cells().remove(0).cell;
    let unrun = Summary::build(&sample::sweep(), &[CellReport { cell, reps: vec![] }]);
    let text = terminal(&unrun, Style::default());
    assert!(
        text.contains("0/0") && text.contains("3 of 3 reps did not run"),
        "{text}"
    );
    assert!(html(&unrun, None).contains("PARTIAL"));
}
