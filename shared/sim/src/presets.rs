//! The presets, with the source of every figure.
//!
//! Sources, by their short names:
//!
//! - **paper**: the Aurora DSQL paper, July 2026, <https://arxiv.org/abs/2607.13276>:
//!   p99 of COMMIT, SELECT by primary key, UPDATE and read-only COMMIT, measured
//!   inside the region, so each contains one in-region round trip; and round
//!   trips between the regions.
//! - **Brooker**: <https://brooker.co.za/blog/2024/12/03/aurora-dsql.html>.
//! - **Bowes**: <https://marc-bowes.com/dsql-tpcb.html> (2 ms from client to
//!   DSQL, 0.5 ms from query processor to storage, about 5 ms a commit),
//!   <https://marc-bowes.com/dsql-avoid-hot-keys.html> (140 commits a second
//!   on one row: 7 ms each), <https://marc-bowes.com/dsql-how-to-spend-a-dollar.html>
//!   (12.5 million rows in about 13 minutes over 10 connections).
//! - **S1**: the hash chain report: medians of whole five-statement appends
//!   from a workstation.
//! - **E002**, **E004**: the Seoul experiments,
//!   <https://roboco.io/dsql-experiments/experiments/e002/> and `/e004/`.
//!
//! What no source gives is called an assumption where it stands.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::preset::{Figure, Preset, Region, Spread};

/// All presets.
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// The preset of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    presets().iter().find(|preset| preset.name == name)
}

static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    vec![
        us_pair_workstation(),
        us_pair_in_region(),
        single_region(),
        single_region_in_region(),
        seoul(
            "seoul-in-region",
            "single region, Seoul, as E004 found it (SELECT 1 takes 2.6 ms)",
            2_600,
            "E004: median RTT of D1, 2.6 ms",
        ),
        seoul(
            "seoul-in-region-2",
            "single region, Seoul, as E002's second run found it (SELECT 1 takes 1.7 ms)",
            1_700,
            "E002, second run: RTT 1.6 to 1.8 ms",
        ),
    ]
});

const WORKSTATION: &str = "a workstation, over the public internet";
const IN_REGION: &str = "in each endpoint's region";

fn us_pair_in_region() -> Preset {
    Preset {
        name: "us-pair-in-region",
        about: "multi-region pair us-east-1 and us-east-2, witness us-west-2",
        place: IN_REGION,
        regions: vec![us_east_1(), us_east_2()],
    }
}

/// The same database as [`us_pair_in_region`], from S1's workstation.
fn us_pair_workstation() -> Preset {
    Preset {
        name: "us-pair-workstation",
        about: "multi-region pair us-east-1 and us-east-2, witness us-west-2",
        place: WORKSTATION,
        regions: vec![
            from_workstation(us_east_1(), append_round_trip(181_000, &us_east_1())),
            from_workstation(us_east_2(), append_round_trip(126_000, &us_east_2())),
        ],
    }
}

fn single_region_in_region() -> Preset {
    Preset {
        name: "single-region-in-region",
        about: "single region, us-east-2",
        place: IN_REGION,
        regions: vec![us_east_2_alone()],
    }
}

/// The same database as [`single_region_in_region`], from S1's workstation: the
/// comparison that S1 names and did not make.
fn single_region() -> Preset {
    let mut round_trip = append_round_trip(126_000, &us_east_2());
    round_trip.source = format!(
        "that of us-pair-workstation to us-east-2: {}",
        round_trip.source
    )
    .into();
    Preset {
        name: "single-region",
        about: "single region, us-east-2",
        place: WORKSTATION,
        regions: vec![from_workstation(us_east_2_alone(), round_trip)],
    }
}

fn from_workstation(region: Region, round_trip: Figure) -> Region {
    Region {
        round_trip,
        ..region
    }
}

/// S1's appends await BEGIN, SELECT, INSERT, UPDATE and COMMIT one by one: five
/// round trips, and the service times of the four that have any.
fn append_round_trip(median_us: u64, region: &Region) -> Figure {
    let service = region.read.p50_us + 2 * region.write.p50_us + region.commit.p50_us;
    figure(
        (median_us - service) / 5,
        format!(
            "S1: median of a whole append {} ms, less the median service times of SELECT, \
             INSERT, UPDATE and COMMIT ({} ms), over 5 round trips",
            median_us / 1_000,
            service as f64 / 1_000.0,
        ),
    )
}

/// Read p50 as a client sees it, about 1.3 ms, less the 0.5 ms of Bowes's
/// figure for query processor to storage. It leaves room for the fastest
/// published p99, 1.1 ms for a read-only COMMIT.
const IN_REGION_ROUND_TRIP_US: u64 = 800;

/// A published in-region latency, less the round trip that it contains.
const fn served(seen_us: u64) -> u64 {
    seen_us - IN_REGION_ROUND_TRIP_US
}

fn us_east_1() -> Region {
    Region {
        name: "us-east-1",
        round_trip: figure(
            IN_REGION_ROUND_TRIP_US,
            "read p50 about 1.3 ms in region, less Bowes's 0.5 ms from query processor to storage",
        ),
        select1: select1(),
        read: spread(
            served(1_300),
            served(2_100),
            "p50 1.3 ms (Brooker: local reads as fast as 1.2 ms), p99 2.1 ms (paper), \
             less the in-region round trip",
        ),
        write: spread(
            1_000,
            served(3_400),
            "p99 3.4 ms (paper, UPDATE), less the in-region round trip; p50: assumption, \
             two ways to storage (Bowes, 0.5 ms each): the old row, then the check",
        ),
        write_row: write_row(),
        read_row: read_row(),
        commit_read_only: spread(
            200,
            served(1_400),
            "p99 1.4 ms (paper), less the in-region round trip; p50: assumption",
        ),
        commit: spread(
            served(24_000),
            served(29_200),
            "p50 about 24 ms: twice the 11.5 ms round trip of the nearest pair of regions, \
             and the way to the endpoint (paper's rule); p99 29.2 ms (paper); \
             both less the in-region round trip",
        ),
        ddl: ddl(),
    }
}

fn us_east_2() -> Region {
    Region {
        name: "us-east-2",
        read: spread(
            served(1_300),
            served(1_800),
            "p50 1.3 ms (Brooker: local reads as fast as 1.2 ms), p99 1.8 ms (paper), \
             less the in-region round trip",
        ),
        write: spread(
            1_000,
            served(2_900),
            "p99 2.9 ms (paper, UPDATE), less the in-region round trip; p50: assumption, \
             two ways to storage (Bowes, 0.5 ms each): the old row, then the check",
        ),
        commit_read_only: spread(
            200,
            served(1_100),
            "p99 1.1 ms (paper), less the in-region round trip; p50: assumption",
        ),
        commit: spread(
            served(24_000),
            served(30_100),
            "p50 about 24 ms: twice the 11.5 ms round trip of the nearest pair of regions, \
             and the way to the endpoint (paper's rule); p99 30.1 ms (paper); \
             both less the in-region round trip",
        ),
        ..us_east_1()
    }
}

fn us_east_2_alone() -> Region {
    Region {
        name: "us-east-2",
        read: spread(
            served(1_200),
            served(1_400),
            "p50 1.2 ms (Brooker: local reads as fast as), p99 1.4 ms (paper), \
             less the in-region round trip",
        ),
        write: spread(
            800,
            served(2_300),
            "p99 2.3 ms (paper, UPDATE), less the in-region round trip; p50: assumption, \
             twice the read's",
        ),
        commit_read_only: spread(
            200,
            served(1_100),
            "p99 1.1 ms (paper), less the in-region round trip; p50: assumption",
        ),
        commit: spread(
            5_000,
            served(7_400),
            "p50 about 5 ms a commit (Bowes, the client's way stated apart); \
             p99 7.4 ms (paper), less the in-region round trip",
        ),
        ..us_east_1()
    }
}

/// Seoul as the two experiments saw it. Only `SELECT 1` differs between them.
///
/// An order or a transfer is six awaited statements, of which four write: BEGIN,
/// four of them, COMMIT. E004's medians of it without retries were 19, 26, 27,
/// 18, 25 and 19 ms in its six cells, and followed neither concurrency nor
/// contention; their median is 22 ms. `SELECT 1` took 2.6 ms, of which 0.8 are
/// the endpoint's own part, so six ways there and back are 10.8 ms. That leaves
/// 11.2 ms for four writes and a COMMIT. Bowes's 5 ms and 0.8 ms make 8.2; the
/// rest is put on both by their shares. The own part of `SELECT 1` rests on
/// E002's second run: a product lookup (BEGIN, SELECT, COMMIT) is then
/// 3 x 0.9 + 1.0 + 0.3 = 4.0 ms at the median, with 4.9 ms measured at p95,
/// while a smaller part would put its median above that p95.
fn seoul(
    name: &'static str,
    about: &'static str,
    select1_seen_us: u64,
    source: &'static str,
) -> Preset {
    const SELECT1_OWN_US: u64 = 800;
    Preset {
        name,
        about,
        place: "EC2 in the region, through the public endpoint",
        regions: vec![Region {
            name: "ap-northeast-2",
            round_trip: figure(
                select1_seen_us - SELECT1_OWN_US,
                format!("{source}, less the endpoint's own part of SELECT 1"),
            ),
            select1: figure(
                SELECT1_OWN_US,
                "fitted to E002's second run: product lookup p95 4.9 ms at 64 connections",
            ),
            read: spread(
                1_000,
                1_700,
                "fitted to E002's second run: product lookup p95 4.9 and p99 5.5 ms \
                 at 64 connections, over three statements",
            ),
            write: spread(
                1_100,
                2_300,
                "p50 fitted to E004's 22 ms, median of its six cells; p99 2.3 ms (paper, UPDATE)",
            ),
            write_row: write_row(),
            read_row: read_row(),
            commit_read_only: spread(300, 600, "assumption, within E002's product lookup"),
            commit: spread(
                6_800,
                8_200,
                "p50 fitted to E004's 22 ms, median of its six cells; \
                 p99 7.4 ms (paper, single region), raised by as much as the median is over 6.0",
            ),
            ddl: ddl(),
        }],
    }
}

fn select1() -> Figure {
    figure(
        100,
        "assumption: a query processor answers without storage; a fifth of a read",
    )
}

fn write_row() -> Figure {
    figure(
        100,
        "assumption: rows of one statement share the way to storage, and each adds its \
         own work; Bowes's bulk load bounds it at 620 us with everything included \
         (12.5 million rows in 13 minutes over 10 connections)",
    )
}

fn read_row() -> Figure {
    figure(
        5,
        "assumption: small, so that a page costs little and a scan is not free",
    )
}

fn ddl() -> Spread {
    spread(
        30_000,
        60_000,
        "assumption: no source; schemas are made before anything is measured",
    )
}

fn figure(us: u64, source: impl Into<Cow<'static, str>>) -> Figure {
    Figure {
        us,
        source: source.into(),
    }
}

fn spread(p50_us: u64, p99_us: u64, source: impl Into<Cow<'static, str>>) -> Spread {
    Spread {
        p50_us,
        p99_us,
        source: source.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(preset_name: &str, index: usize) -> &'static Region {
        &preset(preset_name).unwrap().regions[index]
    }

    #[test]
    fn names_are_unique_and_every_figure_has_a_source() {
        let mut names: Vec<_> = presets().iter().map(|preset| preset.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), presets().len());
        for preset in presets() {
            for line in preset.sources() {
                assert!(!line.source.is_empty(), "{} {}", preset.name, line.what);
                assert!(line.p99_ms.is_none_or(|p99| p99 > line.p50_ms));
            }
        }
    }

    #[test]
    fn appends_from_the_workstation_add_up_to_their_medians() {
        for (index, median_us) in [(0, 181_000), (1, 126_000)] {
            let at = region("us-pair-workstation", index);
            let sum =
                5 * at.round_trip.us + at.read.p50_us + 2 * at.write.p50_us + at.commit.p50_us;
            // Integer microseconds: five round trips cannot lose five.
            assert!(median_us - sum < 5, "{} {sum}", at.name);
        }
    }

    #[test]
    fn in_region_figures_add_up_to_the_published_percentiles() {
        let cases = [
            ("us-pair-in-region", 0, [29_200, 2_100, 3_400, 1_400]),
            ("us-pair-in-region", 1, [30_100, 1_800, 2_900, 1_100]),
            ("single-region-in-region", 0, [7_400, 1_400, 2_300, 1_100]),
        ];
        for (name, index, published) in cases {
            let at = region(name, index);
            let seen = [&at.commit, &at.read, &at.write, &at.commit_read_only]
                .map(|spread| at.round_trip.us + spread.p99_us);
            assert_eq!(seen, published, "{name} {}", at.name);
        }
        for index in [0, 1] {
            let at = region("us-pair-in-region", index);
            assert_eq!(at.round_trip.us + at.commit.p50_us, 24_000);
            assert_eq!(at.round_trip.us + at.read.p50_us, 1_300);
        }
    }

    #[test]
    fn two_places_see_the_same_database() {
        for (far, near) in [
            ("us-pair-workstation", "us-pair-in-region"),
            ("single-region", "single-region-in-region"),
        ] {
            for (far, near) in preset(far)
                .unwrap()
                .regions
                .iter()
                .zip(&preset(near).unwrap().regions)
            {
                let moved = Region {
                    round_trip: near.round_trip.clone(),
                    ..far.clone()
                };
                assert_eq!(&moved, near);
            }
        }
        assert_eq!(
            region("single-region", 0).round_trip.us,
            region("us-pair-workstation", 1).round_trip.us
        );
    }

    #[test]
    fn seoul_adds_up_to_the_experiments() {
        for (name, select1_us) in [("seoul-in-region", 2_600), ("seoul-in-region-2", 1_700)] {
            let at = region(name, 0);
            assert_eq!(at.round_trip.us + at.select1.us, select1_us);
        }
        let at = region("seoul-in-region", 0);
        let order = 6 * at.round_trip.us + 4 * at.write.p50_us + at.commit.p50_us;
        assert_eq!(order, 22_000);
        let at = region("seoul-in-region-2", 0);
        let lookup = 3 * at.round_trip.us + at.read.p50_us + at.commit_read_only.p50_us;
        assert_eq!(lookup, 4_000);
        // Their p99s do not add up to the sum's p99, but bound it.
        let slow = 3 * at.round_trip.us + at.read.p99_us + at.commit_read_only.p99_us;
        assert!((4_900..=5_500).contains(&slow), "{slow}");
    }
}
