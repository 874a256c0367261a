//! What a preset says: how far the client is, and how long the database works.
//!
//! A statement's latency, as a client sees it, is
//!
//! ```text
//! round trip (half each way, in the pipe) + service time (at the endpoint)
//! ```
//!
//! Published figures are mostly sums of the two, taken somewhere. A preset
//! states the two apart, each with its source, and the unit tests add them up
//! again to the published sum.

use std::borrow::Cow;

use serde::Serialize;

/// A duration in whole microseconds, with where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// Microseconds.
    pub us: u64,
    /// Where it comes from, and how it was derived.
    pub source: Cow<'static, str>,
}

/// A service time that varies: log-normal through its median and its 99th
/// percentile.
///
/// Log-normal because service times are positive, lean to the right, and their
/// published form is a pair of percentiles, which fixes it; nothing published
/// says more about the shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Median, in microseconds.
    pub p50_us: u64,
    /// 99th percentile, in microseconds.
    pub p99_us: u64,
    /// Where both come from, and how they were derived.
    pub source: Cow<'static, str>,
}

/// One regional endpoint, as seen from the preset's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Region {
    /// The region, such as `us-east-1`.
    pub name: &'static str,
    /// From the client to the endpoint and back.
    pub round_trip: Figure,
    /// The endpoint's own part of `SELECT 1`, and of everything else that
    /// returns rows without touching storage. Statements that return none
    /// (BEGIN, ROLLBACK, SET) take no time at the endpoint.
    pub select1: Figure,
    /// A read by key.
    pub read: Spread,
    /// A write of one row by key, before COMMIT.
    pub write: Spread,
    /// What every further row adds that one statement writes.
    pub write_row: Figure,
    /// What every further row adds that one statement reads.
    pub read_row: Figure,
    /// COMMIT of a transaction that wrote nothing.
    pub commit_read_only: Spread,
    /// COMMIT of a transaction that wrote.
    pub commit: Spread,
    /// A DDL statement, before its COMMIT.
    pub ddl: Spread,
}

/// A database and a place to see it from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preset {
    /// Its name, as in `sim:NAME`.
    pub name: &'static str,
    /// One line: what it is.
    pub about: &'static str,
    /// Where the client is.
    pub place: &'static str,
    /// The cluster's endpoints, at least one.
    pub regions: Vec<Region>,
}

/// One figure of a preset, for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Source {
    /// The endpoint that it belongs to.
    pub region: &'static str,
    /// What it is, such as `commit, read-write`.
    pub what: &'static str,
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile, in milliseconds; none where the figure does not vary.
    pub p99_ms: Option<f64>,
    /// Where it comes from.
    pub source: String,
}

impl Preset {
    /// Every figure with its source, endpoint by endpoint.
    pub fn sources(&self) -> Vec<Source> {
        self.regions.iter().flat_map(Region::sources).collect()
    }
}

impl Region {
    fn sources(&self) -> Vec<Source> {
        let fixed = |what, figure: &Figure| Source {
            region: self.name,
            what,
            p50_ms: ms(figure.us),
            p99_ms: None,
            source: figure.source.to_string(),
        };
        let varied = |what, spread: &Spread| Source {
            region: self.name,
            what,
            p50_ms: ms(spread.p50_us),
            p99_ms: Some(ms(spread.p99_us)),
            source: spread.source.to_string(),
        };
        vec![
            fixed("round trip", &self.round_trip),
            fixed("SELECT 1, the endpoint's part", &self.select1),
            varied("read", &self.read),
            fixed("read, each further row", &self.read_row),
            varied("write", &self.write),
            fixed("write, each further row", &self.write_row),
            varied("commit, read-only", &self.commit_read_only),
            varied("commit, read-write", &self.commit),
            varied("DDL", &self.ddl),
        ]
    }
}

fn ms(us: u64) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let us = us as f64;
    us / 1_000.0
}
