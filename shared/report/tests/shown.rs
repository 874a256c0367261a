//! What is shown, as it is shown: on the terminal and as a page.

mod sample;

use fabric_report::{Style, Summary, terminal};

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
