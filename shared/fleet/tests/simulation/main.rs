//! The whole protocol in virtual time, with everything going wrong that can:
//! calls that fail before or after they were done, messages that come twice,
//! late or never, functions that crash at any await, clocks that are wrong.
//!
//! Each seed is one run of a small sweep on a fleet whose work is a fake that
//! notes what is done to the database. What must hold, however bad the weather,
//! is in `check`; a seed that breaks it prints itself:
//!
//! ```text
//! FABRIC_SEED=1234 cargo test -p fabric-fleet --test simulation one -- --nocapture
//! ```
//!
//! Budget: 10,000 seeds in at most three minutes on two cores (release); 500
//! with `FABRIC_TEST_FAST`.

#![allow(clippy::unwrap_used)]

extern crate fabric_fleet as fleet;

mod check;
mod fake;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

use fleet::RunOutcome;
use fleet::embedded::Happened;
use world::{Weather, Went, run};

/// Runs seeds on all cores; returns what they came to, in order.
fn seeds(range: std::ops::Range<u64>, weather: fn(u64) -> Weather) -> Vec<Went> {
    let next = AtomicU64::new(range.start);
    let all = std::sync::Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= range.end {
                        return;
                    }
                    let went = run(seed, &weather(seed));
                    all.lock().unwrap().push(went);
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort_by_key(|went| went.seed);
    all
}

fn broken(went: &[Went]) -> Vec<String> {
    went.iter()
        .flat_map(|went| {
            let seed = went.seed;
            let lines = went.broken.iter();
            lines.map(move |line| format!("FABRIC_SEED={seed}: {line}"))
        })
        .collect()
}

fn budget() -> u64 {
    match std::env::var_os("FABRIC_TEST_FAST") {
        Some(_) => 500,
        None => 10_000,
    }
}

#[test]
fn one() {
    let Ok(seed) = std::env::var("FABRIC_SEED") else {
        return;
    };
    let went = run(seed.parse().unwrap(), &Weather::foul(seed.parse().unwrap()));
    println!("{went:#?}");
    assert_eq!(went.broken, Vec::<String>::new());
}

#[test]
fn in_fair_weather_every_run_is_complete() {
    for went in seeds(0..40, |_| Weather::fair()) {
        assert_eq!(went.broken, Vec::<String>::new(), "seed {}", went.seed);
        assert_eq!(went.outcome, Some(RunOutcome::Complete), "{went:?}");
        assert!(went.spread_ms <= 1, "{went:?}");
    }
}

#[test]
fn a_seed_replays() {
    for seed in 0..20 {
        let weather = Weather::foul(seed);
        assert_eq!(run(seed, &weather), run(seed, &weather));
    }
}

#[test]
fn whatever_goes_wrong_every_run_ends_and_nothing_is_done_or_counted_twice() {
    let went = seeds(0..budget(), Weather::foul);
    let broken = broken(&went);
    assert!(
        broken.is_empty(),
        "{} broken, the first: {:#?}",
        broken.len(),
        &broken[..broken.len().min(5)]
    );
    // Every kind of fault happened, and each way that a run can end.
    let sum = |of: fn(&Happened) -> u64| went.iter().map(|went| of(&went.happened)).sum::<u64>();
    let ends = |end: RunOutcome| went.iter().filter(|went| went.outcome == Some(end)).count();
    let seen = [
        ("busy before", sum(|h| h.busy_before)),
        ("busy after", sum(|h| h.busy_after)),
        ("duplicates", sum(|h| h.duplicates)),
        ("late", sum(|h| h.late)),
        ("lost", sum(|h| h.lost)),
        ("crashes", sum(|h| h.crashes)),
        ("cut off", sum(|h| h.cuts)),
        ("complete", ends(RunOutcome::Complete) as u64),
        ("incomplete", ends(RunOutcome::Incomplete) as u64),
        ("stopped", ends(RunOutcome::Stopped) as u64),
        ("late workers", went.iter().map(|w| w.late).sum()),
        (
            "lost after start",
            went.iter().map(|w| w.lost_running).sum(),
        ),
        ("refused barriers", went.iter().map(|w| w.refused).sum()),
        ("steps replaced", went.iter().map(|w| w.replaced).sum()),
        ("resumed", went.iter().map(|w| u64::from(w.resumed)).sum()),
        ("dead letters", went.iter().map(|w| w.dead).sum()),
    ];
    println!("{} seeds: {seen:?}", went.len());
    for (what, times) in seen {
        assert!(times > 0, "{what} never happened");
    }
}

/// A guard is taken away, and the simulation notices.
#[test]
fn without_its_guards_the_protocol_is_seen_to_fail() {
    for guard in ["claimed", "done"] {
        let went = seeds(
            0..400,
            match guard {
                "claimed" => |seed| Weather::foul(seed).without("claimed"),
                _ => |seed| Weather::foul(seed).without("done"),
            },
        );
        assert!(
            !broken(&went).is_empty(),
            "without the condition on `{guard}` nothing was broken in 400 seeds"
        );
    }
}
