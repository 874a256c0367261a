//! The interval that a figure's true mean lies in, from a handful of reps.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean over reps with its 95% confidence interval.
///
/// By Student's t with n - 1 degrees of freedom. It assumes that
///
/// - the reps are independent: each has fresh rows and fresh connections, but
///   two reps in a row share the database's state and the hour of the day, so
///   the interval speaks for the day of the run and not for the service;
/// - a rep's figure is roughly normal: it sums up many operations, so this
///   holds better for throughput and shares than for a p99, and badly for a
///   rep that was aborted.
///
/// With 3 reps the factor is 4.30 / √3: an honest interval is wide, and no
/// interval comes from one rep. It is symmetric, so for a share close to 0 or
/// 100% it can reach beyond; it is reported as computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mean95 {
    /// Mean over the reps.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Reps that it comes from.
    pub n: u64,
}

impl Mean95 {
    /// From one value per rep; `None` for fewer than two, or where a value is
    /// not finite.
    pub fn of(values: &[f64]) -> Option<Mean95> {
        if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let t = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(0.975);
        let half = t * (variance / n).sqrt();
        Some(Mean95 {
            mean,
            low: mean - half,
            high: mean + half,
            n: values.len() as u64,
        })
    }

    /// Half the width of the interval.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn fewer_than_two_reps_have_no_interval() {
        assert_eq!(Mean95::of(&[]), None);
        assert_eq!(Mean95::of(&[5.5]), None);
        assert_eq!(Mean95::of(&[5.5, f64::NAN]), None);
    }

    #[test]
    fn it_agrees_with_tables_of_t() {
        // Two-sided 95% points of t: 12.706 (1), 4.303 (2), 2.776 (4), 2.262 (9).
        for (n, t) in [(2, 12.706), (3, 4.303), (5, 2.776), (10, 2.262)] {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            let mean = values.iter().sum::<f64>() / f64::from(n);
            let variance =
                values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n - 1);
            let expected = t * (variance / f64::from(n)).sqrt();
            let interval = Mean95::of(&values).unwrap();
            assert!(close(interval.mean, mean));
            assert!((interval.half_width() / expected - 1.0).abs() < 1e-3);
        }
    }

    #[test]
    fn equal_reps_have_an_interval_of_no_width() {
        let interval = Mean95::of(&[7.25, 7.25, 7.25]).unwrap();
        assert_eq!(
            (interval.low, interval.mean, interval.high),
            (7.25, 7.25, 7.25)
        );
    }
}
