//! Exact decimal numbers of up to 38 digits, which is what DSQL stores.
//!
//! A number is an integer and how many of its digits stand behind the point;
//! the second is kept as written (`1.50` stays `1.50`), as PostgreSQL does.
//! What does not fit into 38 digits is refused with 22003, never rounded.

use std::cmp::Ordering;
use std::fmt;

use crate::error::{Result, SqlError};

/// Digits behind the point at most.
const MAX_SCALE: u32 = 38;

/// Significant digits that a division gives at least.
const DIVISION_DIGITS: i32 = 16;

/// An exact decimal number.
#[derive(Clone, Copy, Debug)]
pub struct Numeric {
    digits: i128,
    scale: u32,
}

fn overflow() -> SqlError {
    SqlError::new("22003", "value overflows numeric format")
}

fn pow10(exponent: u32) -> Result<i128> {
    10i128.checked_pow(exponent).ok_or_else(overflow)
}

impl Numeric {
    /// Zero.
    pub const ZERO: Numeric = Numeric {
        digits: 0,
        scale: 0,
    };

    /// `digits` / 10^`scale`.
    pub fn new(digits: i128, scale: u32) -> Result<Numeric> {
        if scale > MAX_SCALE || digits.unsigned_abs() >= 10u128.pow(38) {
            return Err(overflow());
        }
        Ok(Numeric { digits, scale })
    }

    /// The digits, without the point.
    pub fn digits(&self) -> i128 {
        self.digits
    }

    /// Digits behind the point.
    pub fn scale(&self) -> u32 {
        self.scale
    }

    pub(crate) fn from_int(value: i64) -> Numeric {
        Numeric {
            digits: i128::from(value),
            scale: 0,
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Numeric> {
        let bad = || SqlError::invalid_text("numeric", text);
        let trimmed = text.trim();
        let (negative, rest) = match trimmed.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
        };
        if rest.eq_ignore_ascii_case("nan") || rest.to_ascii_lowercase().starts_with("inf") {
            return Err(SqlError::simulator(format!("numeric {rest}")));
        }
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| bad())?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(bad());
        }
        let mut digits: i128 = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return Err(bad());
            }
            digits = digits
                .checked_mul(10)
                .and_then(|digits| digits.checked_add(i128::from(byte - b'0')))
                .ok_or_else(overflow)?;
        }
        if negative {
            digits = -digits;
        }
        let written = i32::try_from(fraction.len()).map_err(|_| overflow())?;
        let scale = written.checked_sub(exponent).ok_or_else(overflow)?;
        if scale < 0 {
            if digits == 0 {
                return Ok(Numeric::ZERO);
            }
            let up = pow10(scale.unsigned_abs())?;
            return Numeric::new(digits.checked_mul(up).ok_or_else(overflow)?, 0);
        }
        Numeric::new(digits, scale.unsigned_abs())
    }

    pub(crate) fn from_f64(value: f64) -> Result<Numeric> {
        if !value.is_finite() {
            return Err(SqlError::simulator("numeric NaN or infinity"));
        }
        // PostgreSQL prints with 15 significant digits first.
        let text = format!("{value:.14e}");
        let parsed = Numeric::parse(&text)?;
        Ok(parsed.trimmed())
    }

    /// Without zeros at the end of the fraction.
    pub(crate) fn trimmed(mut self) -> Numeric {
        while self.scale > 0 && self.digits % 10 == 0 {
            self.digits /= 10;
            self.scale -= 1;
        }
        self
    }

    pub(crate) fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The nearest integer, halves away from zero.
    pub(crate) fn to_int(self) -> Option<i64> {
        let whole = self.rescale(0).ok()?;
        i64::try_from(whole.digits).ok()
    }

    /// With exactly `scale` digits behind the point, halves away from zero.
    pub(crate) fn rescale(self, scale: u32) -> Result<Numeric> {
        match scale.cmp(&self.scale) {
            Ordering::Equal => Ok(self),
            Ordering::Greater => {
                let up = pow10(scale - self.scale)?;
                Numeric::new(self.digits.checked_mul(up).ok_or_else(overflow)?, scale)
            }
            Ordering::Less => {
                let down = pow10(self.scale - scale)?;
                let whole = self.digits / down;
                let rest = (self.digits % down).unsigned_abs();
                let up = rest >= down.unsigned_abs() - rest;
                let digits = if up {
                    whole + self.digits.signum()
                } else {
                    whole
                };
                Numeric::new(digits, scale)
            }
        }
    }

    /// Cut off behind `scale` digits.
    pub(crate) fn truncate(self, scale: u32) -> Result<Numeric> {
        if scale >= self.scale {
            return self.rescale(scale);
        }
        Numeric::new(self.digits / pow10(self.scale - scale)?, scale)
    }

    /// The largest integer that is not larger.
    pub(crate) fn floor(self) -> Result<Numeric> {
        let whole = self.digits.div_euclid(pow10(self.scale)?);
        Numeric::new(whole, 0)
    }

    pub(crate) fn negate(self) -> Numeric {
        Numeric {
            digits: -self.digits,
            scale: self.scale,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.digits == 0
    }

    fn aligned(self, other: Numeric) -> Result<(i128, i128, u32)> {
        let scale = self.scale.max(other.scale);
        Ok((
            self.rescale(scale)?.digits,
            other.rescale(scale)?.digits,
            scale,
        ))
    }

    pub(crate) fn add(self, other: Numeric) -> Result<Numeric> {
        let (a, b, scale) = self.aligned(other)?;
        Numeric::new(a.checked_add(b).ok_or_else(overflow)?, scale)
    }

    pub(crate) fn sub(self, other: Numeric) -> Result<Numeric> {
        self.add(other.negate())
    }

    pub(crate) fn mul(self, other: Numeric) -> Result<Numeric> {
        let digits = self.digits.checked_mul(other.digits).ok_or_else(overflow)?;
        let scale = self.scale + other.scale;
        if scale > MAX_SCALE {
            return Numeric { digits, scale }.rescale(MAX_SCALE);
        }
        Numeric::new(digits, scale)
    }

    /// Weight and value of the first base-10,000 digit, by which PostgreSQL
    /// chooses how many digits a quotient gets.
    fn leading(self) -> (i32, u128) {
        let digits = self.digits.unsigned_abs();
        if digits == 0 {
            return (0, 0);
        }
        let count = digits.ilog10() + 1;
        let exponent =
            i32::try_from(count).unwrap_or(0) - 1 - i32::try_from(self.scale).unwrap_or(0);
        let taken = exponent.rem_euclid(4).unsigned_abs() + 1;
        let first = if count >= taken {
            digits / 10u128.pow(count - taken)
        } else {
            digits * 10u128.pow(taken - count)
        };
        (exponent.div_euclid(4), first)
    }

    pub(crate) fn div(self, other: Numeric) -> Result<Numeric> {
        if other.digits == 0 {
            return Err(SqlError::new("22012", "division by zero"));
        }
        let (weight_a, first_a) = self.leading();
        let (weight_b, first_b) = other.leading();
        let mut weight = weight_a - weight_b;
        if first_a <= first_b {
            weight -= 1;
        }
        let wanted = (DIVISION_DIGITS - weight * 4).max(0).unsigned_abs();
        let scale = wanted.max(self.scale).max(other.scale).min(MAX_SCALE);
        self.div_to(other, scale)
    }

    fn div_to(self, other: Numeric, scale: u32) -> Result<Numeric> {
        let negative = (self.digits < 0) != (other.digits < 0);
        let mut divisor = other.digits.unsigned_abs();
        let shift = i64::from(other.scale) + i64::from(scale) - i64::from(self.scale);
        if shift < 0 {
            let up = u32::try_from(-shift).map_err(|_| overflow())?;
            divisor = divisor
                .checked_mul(10u128.checked_pow(up).ok_or_else(overflow)?)
                .ok_or_else(overflow)?;
        }
        let dividend = self.digits.unsigned_abs();
        let mut quotient = dividend / divisor;
        let mut rest = dividend % divisor;
        for _ in 0..shift.max(0) {
            rest = rest.checked_mul(10).ok_or_else(overflow)?;
            quotient = quotient
                .checked_mul(10)
                .and_then(|quotient| quotient.checked_add(rest / divisor))
                .ok_or_else(overflow)?;
            rest %= divisor;
        }
        if rest >= divisor - rest {
            quotient += 1;
        }
        let digits = i128::try_from(quotient).map_err(|_| overflow())?;
        Numeric::new(if negative { -digits } else { digits }, scale)
    }

    pub(crate) fn rem(self, other: Numeric) -> Result<Numeric> {
        if other.digits == 0 {
            return Err(SqlError::new("22012", "division by zero"));
        }
        let (a, b, scale) = self.aligned(other)?;
        Numeric::new(a % b, scale)
    }

    /// The square root with as many digits as PostgreSQL gives it, or with
    /// `scale` digits behind the point.
    pub(crate) fn sqrt(self, scale: Option<u32>) -> Result<Numeric> {
        if self.digits < 0 {
            return Err(SqlError::new(
                "2201F",
                "cannot take square root of a negative number",
            ));
        }
        let scale = scale.unwrap_or_else(|| {
            let (weight, _) = self.leading();
            let whole = (weight * 4).div_euclid(2) + 1;
            let wanted = (DIVISION_DIGITS - whole).max(0).unsigned_abs();
            wanted.max(self.scale).min(MAX_SCALE)
        });
        // root * 10^scale = sqrt(digits * 10^(2 scale - own scale))
        let shift = i64::from(scale) * 2 - i64::from(self.scale);
        let digits = self.digits.unsigned_abs();
        let power = |exponent: i64| {
            u32::try_from(exponent)
                .ok()
                .and_then(|exponent| 10u128.checked_pow(exponent))
                .ok_or_else(overflow)
        };
        let square = if shift >= 0 {
            digits.checked_mul(power(shift)?).ok_or_else(overflow)?
        } else {
            digits / power(-shift)?
        };
        let floor = square.isqrt();
        // Rounded up when the rest is more than half of the step to the next.
        let root = floor + u128::from(square - floor * floor > floor);
        Numeric::new(i128::try_from(root).map_err(|_| overflow())?, scale)
    }

    /// Refused when it does not fit into `precision` digits, `scale` of them
    /// behind the point.
    pub(crate) fn constrain(self, precision: i32, scale: i32) -> Result<Numeric> {
        let rounded = self.rescale(scale.unsigned_abs())?;
        let limit = pow10(precision.unsigned_abs())?;
        if rounded.digits.abs() >= limit {
            let bound = match precision - scale {
                0 => "1".to_owned(),
                whole => format!("10^{whole}"),
            };
            return Err(SqlError::new("22003", "numeric field overflow").detail(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
            )));
        }
        Ok(rounded)
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        let split = |n: &Numeric| {
            let unit = 10i128.pow(n.scale);
            (n.digits.div_euclid(unit), n.digits.rem_euclid(unit))
        };
        let (whole_a, part_a) = split(self);
        let (whole_b, part_b) = split(other);
        whole_a.cmp(&whole_b).then_with(|| {
            // Below 10^38 after padding, hence no overflow.
            let scale = self.scale.max(other.scale);
            let a = part_a * 10i128.pow(scale - self.scale);
            let b = part_b * 10i128.pow(scale - other.scale);
            a.cmp(&b)
        })
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scale == 0 {
            return write!(f, "{}", self.digits);
        }
        let unit = 10u128.pow(self.scale);
        let digits = self.digits.unsigned_abs();
        let sign = if self.digits < 0 { "-" } else { "" };
        write!(
            f,
            "{sign}{}.{:0width$}",
            digits / unit,
            digits % unit,
            width = self.scale as usize
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(text: &str) -> Numeric {
        Numeric::parse(text).unwrap()
    }

    // Right-hand sides are what PostgreSQL 15 prints.
    #[test]
    fn quotients_have_as_many_digits_as_in_postgresql() {
        for (a, b, quotient) in [
            ("1", "3", "0.33333333333333333333"),
            ("10", "4", "2.5000000000000000"),
            ("7", "2", "3.5000000000000000"),
            ("100000", "3", "33333.333333333333"),
            ("1.5", "0.5", "3.0000000000000000"),
            ("2", "30000", "0.000066666666666666666667"),
        ] {
            assert_eq!(n(a).div(n(b)).unwrap().to_string(), quotient, "{a}/{b}");
        }
    }

    #[test]
    fn halves_round_away_from_zero() {
        assert_eq!(n("2.5").rescale(0).unwrap().to_string(), "3");
        assert_eq!(n("-2.5").rescale(0).unwrap().to_string(), "-3");
        assert_eq!(n("2.45").rescale(1).unwrap().to_string(), "2.5");
        assert_eq!(n("-7.2").floor().unwrap().to_string(), "-8");
    }

    #[test]
    fn equal_numbers_compare_equal_whatever_their_zeros() {
        assert_eq!(n("1.50"), n("1.5"));
        assert!(n("-0.1") < n("0.05"));
        assert!(n("99999999999999999999999999999999999999") > n("1e-30"));
        assert_eq!(n("1.2e3").to_string(), "1200");
        assert_eq!(n("-0.05").to_string(), "-0.05");
    }

    #[test]
    fn roots_are_rounded_and_as_long_as_in_postgresql() {
        assert_eq!(n("2").sqrt(None).unwrap().to_string(), "1.414213562373095");
        assert_eq!(n("16").sqrt(None).unwrap().to_string(), "4.000000000000000");
        assert_eq!(n("0.25").sqrt(Some(1)).unwrap().to_string(), "0.5");
    }

    #[test]
    fn more_than_38_digits_are_refused() {
        assert_eq!(Numeric::parse("1e38").unwrap_err().sqlstate, "22003");
        assert!(n("1e37").mul(n("10")).is_err());
    }
}
