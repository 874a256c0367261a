//! Numbers of operations: a writer's index and his count, side by side, so that
//! anybody can say whose an operation is and what it was to do.

/// The number of a writer's `n`th operation, unique within the wave.
pub(crate) fn number(writer: u32, n: u32) -> u64 {
    u64::from(writer) << 32 | u64::from(n)
}

/// Writer and `n` of an operation's number.
pub(crate) fn writer_of(number: u64) -> (u32, u32) {
    // The shift leaves 32 bits and the cast takes the lower 32.
    ((number >> 32) as u32, number as u32)
}

/// What one of `members` has of a total. What does not divide evenly goes to
/// the first ones, one each.
pub(crate) fn share(total: u64, members: u32, place: u32) -> u64 {
    let members = u64::from(members.max(1));
    total / members + u64::from(u64::from(place) < total % members)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_go_both_ways(writer: u32, n: u32) {
            prop_assert_eq!(writer_of(number(writer, n)), (writer, n));
        }

        #[test]
        fn all_is_shared_out(total in 0u64..100_000, members in 1u32..300) {
            let shares: Vec<u64> = (0..members).map(|m| share(total, members, m)).collect();
            prop_assert_eq!(shares.iter().sum::<u64>(), total);
            prop_assert!(shares.is_sorted_by(|a, b| a >= b && a - b <= 1));
        }
    }
}
