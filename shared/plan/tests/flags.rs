//! What `fabric append` refuses, and with which words: every flag of the
//! snapshot and the message that a user gets for it.

// A test's helpers fail the test by panicking, as its body does.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use fabric_plan::{AppendArgs, Overrides, append_cell};

#[test]
fn flags() {
    let mut lines = String::new();
    let mut line = |what: &str, args: AppendArgs| {
        let message = append_cell(&args).expect_err(what).to_string();
        writeln!(lines, "{what}\n    {message}").unwrap();
    };
    let args = AppendArgs::default;
    line(
        "--writers 0",
        AppendArgs {
            writers: 0,
            ..args()
        },
    );
    line(
        "--writers 20000",
        AppendArgs {
            writers: 20_000,
            ..args()
        },
    );
    line(
        "--streams 0",
        AppendArgs {
            streams: 0,
            ..args()
        },
    );
    line("--batch 0", AppendArgs { batch: 0, ..args() });
    line(
        "--batch 101",
        AppendArgs {
            batch: 101,
            ..args()
        },
    );
    line(
        "--appends-per-writer 0",
        AppendArgs {
            appends_per_writer: 0,
            ..args()
        },
    );
    line(
        "--writers 5000 --appends-per-writer 5000",
        AppendArgs {
            writers: 5000,
            appends_per_writer: 5000,
            ..args()
        },
    );
    line(
        "--payload-bytes 1",
        AppendArgs {
            payload_bytes: 1,
            ..args()
        },
    );
    line(
        "--payload-bytes 1000000 --batch 100",
        AppendArgs {
            payload_bytes: 1_000_000,
            batch: 100,
            ..args()
        },
    );
    line(
        "--writers 1000 --streams 1000",
        AppendArgs {
            writers: 1000,
            streams: 1000,
            ..args()
        },
    );
    line(
        "--trips sticki",
        AppendArgs {
            trips: "sticki".into(),
            ..args()
        },
    );
    line(
        "--placement 'a b'",
        AppendArgs {
            placement: "a b".into(),
            ..args()
        },
    );
    let with = |overrides: Overrides| AppendArgs {
        overrides,
        ..args()
    };
    line(
        "--reps 0",
        with(Overrides {
            reps: Some(0),
            ..Overrides::default()
        }),
    );
    line(
        "--seed 18446744073709551615",
        with(Overrides {
            seed: Some(u64::MAX),
            ..Overrides::default()
        }),
    );
    for on in ["", "here", "x=sim:p", "sim:", "mysql://h"] {
        line(
            &format!("--on {on:?}"),
            with(Overrides {
                on: vec![on.to_owned()],
                ..Overrides::default()
            }),
        );
    }
    line(
        "--on sim:a --on sim:b",
        with(Overrides {
            on: vec!["sim:a".into(), "sim:b".into()],
            ..Overrides::default()
        }),
    );
    insta::assert_snapshot!(lines);
}
