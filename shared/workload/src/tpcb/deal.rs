//! Which rows a transaction is about, and the mark that it leaves in history.

use plan::TpcbParams;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::number::{self, writer_of};

/// Rows for each unit of scale, as pgbench has them; branches are one each.
pub(crate) const TELLERS: u32 = 10;
pub(crate) const ACCOUNTS: u32 = 100_000;

/// Largest change of a balance, either way.
const LARGEST_DELTA: i32 = 5_000;

/// Digits of a mark: a rep's id, then an operation's number.
const REP_DIGITS: usize = 13;
const OPERATION_DIGITS: usize = 9;

/// Numbers that have so many digits of 36: 23,646 writers with 2^32 operations
/// each.
const OPERATIONS: u64 = 36u64.pow(OPERATION_DIGITS as u32);

/// How a wave's operations are dealt.
#[derive(Clone, Debug)]
pub(crate) struct Deal {
    pub(crate) clients: u32,
    pub(crate) scale: u32,
    operations: Option<u64>,
    seed: u64,
}

/// The inputs of one transaction, under pgbench's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) aid: i32,
    pub(crate) bid: i32,
    pub(crate) tid: i32,
    pub(crate) delta: i32,
}

impl Deal {
    pub(crate) fn new(params: &TpcbParams, seed: u64) -> Deal {
        Deal {
            clients: params.concurrency,
            scale: params.scale.max(1),
            operations: params.operations,
            seed,
        }
    }

    /// Clients whose operations all have a mark.
    pub(crate) fn most_clients() -> u32 {
        writer_of(OPERATIONS).0
    }

    /// The inputs of an operation; `None` when there is no such operation.
    pub(crate) fn inputs(&self, operation: u64) -> Option<Inputs> {
        let (writer, n) = writer_of(operation);
        let share = self
            .operations
            .map(|all| number::share(all, self.clients, writer));
        if writer >= self.clients || share.is_some_and(|share| u64::from(n) >= share) {
            return None;
        }
        // The generator's key is its inputs side by side: different inputs,
        // different key.
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_be_bytes());
        key[8..16].copy_from_slice(&operation.to_be_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        let mut one_of = |each: u32| {
            let last = i32::try_from(self.scale.saturating_mul(each)).unwrap_or(i32::MAX);
            rng.random_range(1..=last)
        };
        Some(Inputs {
            aid: one_of(ACCOUNTS),
            bid: one_of(1),
            tid: one_of(TELLERS),
            delta: rng.random_range(-LARGEST_DELTA..=LARGEST_DELTA),
        })
    }
}

/// What an operation of a rep writes into `filler`: 22 digits of 36, as many as
/// the column has characters. Digits and small letters of a fixed number sort
/// alike under every collation, so the marks of a rep are a range.
pub(crate) fn mark(rep: i64, operation: u64) -> String {
    let mut mark = digits(rep_bits(rep), REP_DIGITS);
    mark.push_str(&digits(operation, OPERATION_DIGITS));
    mark
}

/// First and last mark of a rep.
pub(crate) fn marks(rep: i64) -> (String, String) {
    (mark(rep, 0), mark(rep, OPERATIONS - 1))
}

/// The operation that left a mark; `None` when it is no mark of the rep.
pub(crate) fn operation_of(rep: i64, mark: &str) -> Option<u64> {
    let own = digits(rep_bits(rep), REP_DIGITS);
    let number = mark.strip_prefix(&own)?;
    let is_mark = number.len() == OPERATION_DIGITS
        && number
            .bytes()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'z'));
    is_mark
        .then(|| u64::from_str_radix(number, 36).ok())
        .flatten()
}

/// An id's bits, whatever its sign.
fn rep_bits(rep: i64) -> u64 {
    u64::from_be_bytes(rep.to_be_bytes())
}

fn digits(mut number: u64, places: usize) -> String {
    const DIGITS: [u8; 36] = *b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut text = vec![b'0'; places];
    for place in text.iter_mut().rev() {
        // Below 36.
        *place = DIGITS[(number % 36) as usize];
        number /= 36;
    }
    text.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::number::number;

    fn deal(scale: u32, operations: Option<u64>) -> Deal {
        Deal {
            clients: 4,
            scale,
            operations,
            seed: 1,
        }
    }

    proptest! {
        #[test]
        fn marks_go_both_ways(rep: i64, other: i64, operation in 0..OPERATIONS) {
            let text = mark(rep, operation);
            prop_assert_eq!(text.len(), 22);
            prop_assert_eq!(operation_of(rep, &text), Some(operation));
            let (first, last) = marks(rep);
            prop_assert!(first <= text && text <= last);
            prop_assume!(rep != other);
            prop_assert_eq!(operation_of(other, &text), None);
            let (first, last) = marks(other);
            prop_assert!(text < first || text > last);
        }

        #[test]
        fn any_text_is_a_mark_or_not(text: String) {
            if let Some(operation) = operation_of(7, &text) {
                prop_assert_eq!(mark(7, operation), text);
            }
        }

        #[test]
        fn inputs_are_within_the_scale(scale in 1u32..50, seed: u64, n: u32) {
            let deal = Deal { seed, ..deal(scale, None) };
            let inputs = deal.inputs(number(3, n)).unwrap();
            prop_assert_eq!(deal.inputs(number(3, n)), Some(inputs));
            let scale = scale as i32;
            prop_assert!((1..=scale * 100_000).contains(&inputs.aid));
            prop_assert!((1..=scale).contains(&inputs.bid));
            prop_assert!((1..=scale * 10).contains(&inputs.tid));
            prop_assert!((-5_000..=5_000).contains(&inputs.delta));
        }
    }

    #[test]
    fn rows_are_drawn_alike() {
        let deal = deal(10, None);
        let mut tellers = [0u32; 101];
        for n in 0..10_000 {
            let inputs = deal.inputs(number(0, n)).unwrap();
            tellers[inputs.tid as usize] += 1;
        }
        assert!(tellers[1..].iter().all(|n| (60..140).contains(n)));
    }

    #[test]
    fn operations_are_shared_out() {
        let deal = deal(1, Some(11));
        let all = (0..5).flat_map(|writer| (0..20).map(move |n| number(writer, n)));
        assert_eq!(all.filter(|op| deal.inputs(*op).is_some()).count(), 11);
        assert!(Deal::most_clients() > 10_000);
        assert!(number(Deal::most_clients() - 1, u32::MAX) < OPERATIONS);
    }
}
