//! How long an endpoint works on a statement.
//!
//! Every connection draws from a stream of its own, which follows from the seed
//! and the connection's number, so a service time does not depend on what other
//! connections do or in which order they run.

use engine::{Executed, WorkKind};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

use crate::preset::{Region, Spread};

/// What a generator of a connection is for; each purpose has its own stream, so
/// that drawing more for one does not move another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Service,
    Commits,
    Statements,
    Secrets,
}

/// The generator of one purpose of one connection.
pub(crate) fn generator(seed: u64, connection: u64, purpose: Purpose) -> ChaCha8Rng {
    use rand::SeedableRng;
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(connection * 4 + purpose as u64);
    generator
}

/// A [`Spread`], ready to be drawn from.
#[derive(Clone, Copy, Debug)]
struct LogNormal {
    /// Logarithm of the median, in microseconds.
    mu: f64,
    sigma: f64,
}

/// The standard normal's 99th percentile.
const Z99: f64 = 2.326_347_874_040_841;

impl LogNormal {
    fn new(spread: &Spread) -> LogNormal {
        #[allow(clippy::cast_precision_loss)]
        let [p50, p99] = [spread.p50_us, spread.p99_us].map(|us| us as f64);
        LogNormal {
            mu: p50.ln(),
            sigma: (p99 / p50).ln() / Z99,
        }
    }

    fn draw(&self, generator: &mut ChaCha8Rng) -> f64 {
        // Half a step in from both ends: never 0, never 1.
        #[allow(clippy::cast_precision_loss)]
        let uniform = ((generator.random::<u64>() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
        (self.mu + self.sigma * standard_normal(uniform)).exp()
    }
}

/// Quantile function of the standard normal distribution (Wichura, algorithm
/// AS 241, PPND7: seven digits, far more than a microsecond needs).
fn standard_normal(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q
            * (((59.109_374_720 * r + 159.291_132_02) * r + 50.434_271_938) * r + 3.387_132_717_9)
            / (((67.187_563_600 * r + 78.757_757_664) * r + 17.895_169_469) * r + 1.0);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = (-tail.ln()).sqrt();
    let z = if r <= 5.0 {
        let r = r - 1.6;
        (((0.170_238_21 * r + 1.306_728_484_8) * r + 2.756_815_390_0) * r + 1.423_437_277_7)
            / ((0.120_211_329_75 * r + 0.737_001_642_50) * r + 1.0)
    } else {
        let r = r - 5.0;
        (((0.017_337_203_997 * r + 0.428_682_943_37) * r + 3.081_226_386_0) * r + 6.657_905_115_0)
            / ((0.012_258_202_635 * r + 0.241_978_942_25) * r + 1.0)
    };
    if q < 0.0 { -z } else { z }
}

/// The service times of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    select1: f64,
    read: LogNormal,
    read_row: f64,
    write: LogNormal,
    write_row: f64,
    commit_read_only: LogNormal,
    commit: LogNormal,
    ddl: LogNormal,
}

impl Service {
    pub(crate) fn new(region: &Region) -> Service {
        #[allow(clippy::cast_precision_loss)]
        let us = |figure: &crate::preset::Figure| figure.us as f64;
        Service {
            select1: us(&region.select1),
            read: LogNormal::new(&region.read),
            read_row: us(&region.read_row),
            write: LogNormal::new(&region.write),
            write_row: us(&region.write_row),
            commit_read_only: LogNormal::new(&region.commit_read_only),
            commit: LogNormal::new(&region.commit),
            ddl: LogNormal::new(&region.ddl),
        }
    }

    /// Microseconds that a statement took, its COMMIT not included.
    pub(crate) fn statement(&self, executed: &Executed, generator: &mut ChaCha8Rng) -> f64 {
        let work = &executed.work;
        match work.kind {
            WorkKind::Trivial if executed.columns.is_some() => self.select1,
            WorkKind::Trivial => 0.0,
            WorkKind::Read => {
                self.read.draw(generator) + self.read_row * beyond_first(work.rows_read)
            }
            WorkKind::Write => {
                // What a write read to find its rows is part of their price.
                let found = work.rows_read.saturating_sub(work.rows_written);
                self.write.draw(generator)
                    + self.write_row * beyond_first(work.rows_written)
                    + self.read_row * beyond_first(found)
            }
            WorkKind::Ddl => self.ddl.draw(generator),
        }
    }

    /// Microseconds that a statement took which failed: it may have read to
    /// find out.
    pub(crate) fn failure(&self, generator: &mut ChaCha8Rng) -> f64 {
        self.read.draw(generator)
    }

    /// Microseconds that a COMMIT takes.
    pub(crate) fn commit(&self, read_only: bool, generator: &mut ChaCha8Rng) -> f64 {
        if read_only {
            self.commit_read_only.draw(generator)
        } else {
            self.commit.draw(generator)
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn beyond_first(rows: u64) -> f64 {
    rows.saturating_sub(1) as f64
}

/// Whole microseconds, so that simulated instants are exact.
pub(crate) fn micros(us: f64) -> Duration {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Duration::from_micros(us.round().max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_function_knows_the_tables() {
        for (p, z) in [
            (0.5, 0.0),
            (0.975, 1.959_964),
            (0.99, Z99),
            (0.01, -Z99),
            (0.999_999_999_9, 6.361_341),
            (1e-15, -7.941_345),
        ] {
            let got = standard_normal(p);
            assert!((got - z).abs() < 2e-5, "{p}: {got}");
        }
    }

    #[test]
    fn draws_have_the_stated_median_and_p99_and_follow_from_seed_and_number() {
        let spread = Spread {
            p50_us: 23_200,
            p99_us: 28_400,
            source: "test".into(),
        };
        let log_normal = LogNormal::new(&spread);
        let draw = |connection| {
            let mut generator = generator(7, connection, Purpose::Service);
            let mut drawn: Vec<f64> = (0..20_000)
                .map(|_| log_normal.draw(&mut generator))
                .collect();
            drawn.sort_by(f64::total_cmp);
            drawn
        };
        let drawn = draw(1);
        assert!(
            (drawn[10_000] / 23_200.0 - 1.0).abs() < 0.005,
            "{}",
            drawn[10_000]
        );
        assert!(
            (drawn[19_800] / 28_400.0 - 1.0).abs() < 0.01,
            "{}",
            drawn[19_800]
        );
        assert_eq!(drawn, draw(1));
        assert_ne!(drawn, draw(2));
    }
}
