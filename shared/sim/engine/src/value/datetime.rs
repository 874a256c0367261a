//! Dates, times and intervals: calendar arithmetic, reading and printing.
//! Instants are microseconds since 2000-01-01, as on PostgreSQL's wire; the
//! only time zone is UTC.

use std::fmt::Write as _;

use crate::error::{Result, SqlError};

/// Microseconds in a day.
pub(crate) const DAY_US: i64 = 86_400_000_000;
/// Days from 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_DAYS: i64 = 10_957;

/// Instants lie within plus and minus this: some 290,000 years, which leaves
/// room for arithmetic with other epochs.
const MAX_INSTANT: i64 = 9_200_000_000_000_000_000;

/// Whether a number of microseconds can be an instant.
pub(crate) fn is_instant(us: i64) -> bool {
    (-MAX_INSTANT..=MAX_INSTANT).contains(&us)
}

/// A span of time as PostgreSQL keeps it: months and days are not a fixed
/// number of microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub us: i64,
}

impl Interval {
    /// The other way round.
    pub(crate) fn negated(self) -> Interval {
        Interval {
            months: self.months.saturating_neg(),
            days: self.days.saturating_neg(),
            us: self.us.saturating_neg(),
        }
    }

    /// What intervals are compared by: a month has 30 days, a day 24 hours.
    pub(crate) fn comparable(self) -> i128 {
        (i128::from(self.months) * 30 + i128::from(self.days)) * i128::from(DAY_US)
            + i128::from(self.us)
    }
}

/// Days since 2000-01-01 of a date of the proleptic Gregorian calendar.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468 - EPOCH_DAYS
}

/// Year, month and day of a number of days since 2000-01-01.
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

pub(crate) fn add_months(days: i64, months: i64) -> i64 {
    let (year, month, day) = civil_from_days(days);
    let total = year * 12 + month - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
    days_from_civil(year, month, day.min(month_days(year, month)))
}

/// An instant plus an interval.
pub(crate) fn add_interval(instant: i64, span: Interval) -> Result<i64> {
    let days = instant.div_euclid(DAY_US);
    let within = instant.rem_euclid(DAY_US);
    let moved = add_months(days, i64::from(span.months)) + i64::from(span.days);
    moved
        .checked_mul(DAY_US)
        .filter(|us| us.unsigned_abs() < MAX_INSTANT.unsigned_abs())
        .and_then(|us| us.checked_add(within))
        .and_then(|us| us.checked_add(span.us))
        .filter(|us| is_instant(*us))
        .ok_or_else(|| SqlError::new("22008", "timestamp out of range"))
}

fn invalid(ty: &str, text: &str) -> SqlError {
    SqlError::new(
        "22007",
        format!("invalid input syntax for type {ty}: \"{text}\""),
    )
}

fn out_of_range(text: &str) -> SqlError {
    SqlError::new(
        "22008",
        format!("date/time field value out of range: \"{text}\""),
    )
}

fn parse_civil(text: &str, ty: &str, whole: &str) -> Result<i64> {
    let bad = || invalid(ty, whole);
    let mut parts = text.split('-');
    let mut next = || -> Result<i64> {
        let part = parts.next().ok_or_else(bad)?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) || part.len() > 6 {
            return Err(bad());
        }
        part.parse().map_err(|_| bad())
    };
    let (year, month, day) = (next()?, next()?, next()?);
    if parts.next().is_some() {
        return Err(bad());
    }
    // The last year whose instants fit into 64 bits.
    if year > 294_276 {
        return Err(out_of_range(whole));
    }
    if !(1..=12).contains(&month) || day < 1 || day > month_days(year, month) || year == 0 {
        return Err(out_of_range(whole));
    }
    Ok(days_from_civil(year, month, day))
}

/// Microseconds since midnight, and the offset from UTC in seconds if one was
/// written.
fn parse_clock(text: &str, ty: &str, whole: &str) -> Result<(i64, Option<i64>)> {
    let bad = || invalid(ty, whole);
    let text = text.trim();
    let (clock, zone) = if let Some(rest) = text
        .strip_suffix('Z')
        .or_else(|| text.strip_suffix('z'))
        .or_else(|| text.strip_suffix("UTC"))
    {
        (rest.trim_end(), Some(0))
    } else if let Some(at) = text.rfind(['+', '-']) {
        let (clock, zone) = text.split_at(at);
        let sign = if zone.starts_with('-') { -1 } else { 1 };
        let zone = &zone[1..];
        let (hours, minutes) = match zone.split_once(':') {
            Some((hours, minutes)) => (hours, minutes),
            None if zone.len() == 4 && zone.is_ascii() => zone.split_at(2),
            None => (zone, "0"),
        };
        let hours: i64 = hours.parse().map_err(|_| bad())?;
        let minutes: i64 = minutes.parse().map_err(|_| bad())?;
        if hours > 15 || minutes > 59 {
            return Err(bad());
        }
        (
            clock.trim_end(),
            Some(sign * (hours * 3_600 + minutes * 60)),
        )
    } else {
        (text, None)
    };
    let mut parts = clock.split(':');
    let number = |part: Option<&str>| -> Result<i64> {
        let part = part.ok_or_else(bad)?;
        if part.is_empty() || part.len() > 2 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        part.parse().map_err(|_| bad())
    };
    let hours = number(parts.next())?;
    let minutes = number(parts.next())?;
    let mut us = 0;
    if let Some(seconds) = parts.next() {
        let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        us = number(Some(seconds))? * 1_000_000;
        if us > 60_000_000 {
            return Err(out_of_range(whole));
        }
        if !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let mut unit = 100_000;
        for byte in fraction.bytes().take(6) {
            us += i64::from(byte - b'0') * unit;
            unit /= 10;
        }
        if fraction.as_bytes().get(6).is_some_and(|byte| *byte >= b'5') {
            us += 1;
        }
    }
    if parts.next().is_some() {
        return Err(bad());
    }
    if hours > 24 || minutes > 59 {
        return Err(out_of_range(whole));
    }
    Ok((hours * 3_600_000_000 + minutes * 60_000_000 + us, zone))
}

pub(crate) fn parse_date(text: &str) -> Result<i32> {
    let trimmed = text.trim();
    let date = trimmed.split([' ', 'T']).next().unwrap_or(trimmed);
    let days = parse_civil(date, "date", text)?;
    i32::try_from(days).map_err(|_| out_of_range(text))
}

pub(crate) fn parse_time(text: &str) -> Result<i64> {
    Ok(parse_clock(text, "time", text)?.0)
}

/// Microseconds since midnight, and seconds west of UTC as PostgreSQL keeps it.
pub(crate) fn parse_timetz(text: &str) -> Result<(i64, i32)> {
    let (us, zone) = parse_clock(text, "time with time zone", text)?;
    let west = i32::try_from(-zone.unwrap_or(0)).unwrap_or(0);
    Ok((us, west))
}

pub(crate) fn parse_timestamp(text: &str, with_zone: bool) -> Result<i64> {
    let ty = if with_zone {
        "timestamp with time zone"
    } else {
        "timestamp"
    };
    let trimmed = text.trim();
    if trimmed.eq_ignore_ascii_case("epoch") {
        return Ok(-EPOCH_DAYS * DAY_US);
    }
    if trimmed.eq_ignore_ascii_case("infinity") || trimmed.eq_ignore_ascii_case("-infinity") {
        return Err(SqlError::simulator("an infinite timestamp"));
    }
    let (date, clock) = match trimmed.find([' ', 'T', 't']) {
        Some(at) => (&trimmed[..at], trimmed[at + 1..].trim()),
        None => (trimmed, ""),
    };
    let days = parse_civil(date, ty, text)?;
    let (us, zone) = if clock.is_empty() {
        (0, None)
    } else {
        parse_clock(clock, ty, text)?
    };
    let instant = days * DAY_US + us;
    Ok(match zone {
        Some(east) if with_zone => instant - east * 1_000_000,
        _ => instant,
    })
}

pub(crate) fn write_date(out: &mut String, days: i64) {
    let (year, month, day) = civil_from_days(days);
    // Writing to a String cannot fail.
    let _ = write!(out, "{year:04}-{month:02}-{day:02}");
}

pub(crate) fn write_time(out: &mut String, us: i64) {
    let seconds = us / 1_000_000;
    let _ = write!(
        out,
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    write_fraction(out, us % 1_000_000);
}

fn write_fraction(out: &mut String, us: i64) {
    if us != 0 {
        let digits = format!("{us:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

pub(crate) fn write_timestamp(out: &mut String, instant: i64) {
    write_date(out, instant.div_euclid(DAY_US));
    out.push(' ');
    write_time(out, instant.rem_euclid(DAY_US));
}

pub(crate) fn write_zone(out: &mut String, west: i32) {
    let sign = if west > 0 { '-' } else { '+' };
    let seconds = west.unsigned_abs();
    let _ = write!(out, "{sign}{:02}", seconds / 3_600);
    if !seconds.is_multiple_of(3_600) {
        let _ = write!(out, ":{:02}", seconds / 60 % 60);
    }
}

pub(crate) fn write_interval(out: &mut String, span: Interval) {
    let mut any = false;
    let mut unit = |out: &mut String, n: i32, name: &str| {
        if n != 0 {
            if any {
                out.push(' ');
            }
            let plural = if n == 1 { "" } else { "s" };
            let _ = write!(out, "{n} {name}{plural}");
            any = true;
        }
    };
    unit(out, span.months / 12, "year");
    unit(out, span.months % 12, "mon");
    unit(out, span.days, "day");
    if span.us != 0 || !any {
        if any {
            out.push(' ');
        }
        if span.us < 0 {
            out.push('-');
        } else if any && (span.days < 0 || span.months < 0) {
            out.push('+');
        }
        let us = i64::try_from(span.us.unsigned_abs()).unwrap_or(i64::MAX);
        write_time(out, us);
    }
}

/// Reads `1 day 02:03:04`, `5 minutes`, `-1.5 hours`, `1 year 2 mons`.
pub(crate) fn parse_interval(text: &str) -> Result<Interval> {
    let bad = || invalid("interval", text);
    let mut span = Interval::default();
    let mut words = text.split_whitespace().peekable();
    let mut any = false;
    let mut ago = false;
    while let Some(word) = words.next() {
        any = true;
        if word == "ago" && words.peek().is_none() {
            ago = true;
            continue;
        }
        if word.contains(':') {
            let negative = word.starts_with('-');
            let clock = word.trim_start_matches(['-', '+']);
            let (us, _) = parse_clock(clock, "interval", text)?;
            span.us = span.us.saturating_add(if negative { -us } else { us });
            continue;
        }
        let split = word
            .find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(word.len());
        let (number, mut unit) = word.split_at(split);
        let value: f64 = number.parse().map_err(|_| bad())?;
        if unit.is_empty() {
            unit = words.next().unwrap_or("s");
        }
        add_unit(&mut span, value, unit).ok_or_else(bad)?;
    }
    if !any {
        return Err(bad());
    }
    if ago {
        span = span.negated();
    }
    Ok(span)
}

/// Adds `value` of a unit; fractions spill into the next smaller one.
pub(crate) fn add_unit(span: &mut Interval, value: f64, unit: &str) -> Option<()> {
    if !value.is_finite() || value.abs() > 1e9 {
        return None;
    }
    let name = unit.trim_end_matches('s').to_ascii_lowercase();
    // Casts from floats saturate.
    let us = |span: &mut Interval, us: f64| span.us = span.us.saturating_add(us.round() as i64);
    let days = |span: &mut Interval, days: f64| {
        span.days = span.days.saturating_add(days.trunc() as i32);
        us(span, days.fract() * DAY_US as f64);
    };
    let months = |span: &mut Interval, months: f64| {
        span.months = span.months.saturating_add(months.trunc() as i32);
        days(span, months.fract() * 30.0);
    };
    match name.as_str() {
        "year" | "yr" | "y" => months(span, value * 12.0),
        "month" | "mon" => months(span, value),
        "week" | "w" => days(span, value * 7.0),
        "day" | "d" => days(span, value),
        "hour" | "hr" | "h" => us(span, value * 3.6e9),
        "minute" | "min" | "m" => us(span, value * 6e7),
        "second" | "sec" | "" => us(span, value * 1e6),
        "millisecond" | "msec" => us(span, value * 1e3),
        "microsecond" | "usec" => us(span, value),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_there_and_back() {
        assert_eq!(days_from_civil(2000, 1, 1), 0);
        assert_eq!(days_from_civil(1970, 1, 1), -EPOCH_DAYS);
        for days in (-800_000..800_000).step_by(977) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn instants_read_as_they_are_printed() {
        for text in ["2026-02-28 13:14:15.5", "1999-12-31 23:59:59.999999"] {
            let mut out = String::new();
            write_timestamp(&mut out, parse_timestamp(text, false).unwrap());
            assert_eq!(out, text);
        }
        let shifted = parse_timestamp("2026-01-01T02:00:00+02:00", true).unwrap();
        assert_eq!(shifted, parse_timestamp("2026-01-01", true).unwrap());
        assert_eq!(parse_date("2026-02-30").unwrap_err().sqlstate, "22008");
        assert_eq!(parse_date("soon").unwrap_err().sqlstate, "22007");
    }

    #[test]
    fn intervals_read_as_they_are_printed() {
        for (text, printed) in [
            ("1 day 02:03:04", "1 day 02:03:04"),
            ("90 minutes", "01:30:00"),
            ("1 year 2 months", "1 year 2 mons"),
            ("-5 seconds", "-00:00:05"),
            ("1.5 days", "1 day 12:00:00"),
        ] {
            let mut out = String::new();
            write_interval(&mut out, parse_interval(text).unwrap());
            assert_eq!(out, printed);
        }
    }
}
