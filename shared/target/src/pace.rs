//! When each of many connections may be opened.

use std::time::Duration;

/// Connections that a DSQL cluster takes at once after a rest.
pub const DSQL_BURST: usize = 1_000;

/// Connections a second that a DSQL cluster takes after that.
pub const DSQL_PER_SECOND: u32 = 100;

/// Slots for `n` connections, counted from the start of opening: the first
/// `burst` at once, then `per_second` of them a second. A pure function, so a
/// fleet deals the slots of one list out to its shards. A rate of 0 counts as 1.
pub fn slots(n: usize, burst: usize, per_second: u32) -> Vec<Duration> {
    let per_second = u128::from(per_second.max(1));
    (0..n)
        .map(|i| {
            let waiting = i
                .saturating_sub(burst)
                .saturating_add(usize::from(i >= burst)) as u128;
            // Rounded up: a slot must not come before the server's own refill.
            let nanos = (waiting * 1_000_000_000).div_ceil(per_second);
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_burst_is_free_and_the_rest_is_paced() {
        assert!(slots(0, 10, 100).is_empty());
        assert_eq!(slots(3, 10, 100), [Duration::ZERO; 3]);
        let slots = slots(1_256, DSQL_BURST, DSQL_PER_SECOND);
        assert_eq!(slots[999], Duration::ZERO);
        assert_eq!(slots[1_000], Duration::from_millis(10));
        assert_eq!(slots[1_255], Duration::from_millis(2_560));
        assert!(slots.is_sorted());
    }

    #[test]
    fn odd_numbers_do_no_harm() {
        assert_eq!(
            slots(2, 0, 3),
            [
                Duration::from_nanos(333_333_334),
                Duration::from_nanos(666_666_667)
            ]
        );
        assert_eq!(slots(2, 1, 0)[1], Duration::from_secs(1));
    }

    #[test]
    fn no_second_holds_more_than_the_bucket() {
        let slots = slots(5_000, DSQL_BURST, DSQL_PER_SECOND);
        // A bucket of `burst` that refills with `per_second` never runs dry.
        for (i, at) in slots.iter().enumerate() {
            let refilled = at.as_secs_f64() * f64::from(DSQL_PER_SECOND);
            assert!((i + 1) as f64 <= DSQL_BURST as f64 + refilled + 1e-6);
        }
    }
}
