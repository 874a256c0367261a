//! Who appends what: operations are numbered and their payloads generated from
//! the seed and these numbers alone, so that any process can tell what any
//! writer was to write, without asking it.

use plan::AppendParams;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::number::{self, writer_of};

/// Bytes at the start of a payload that say whose it is: the operation's
/// number (8) and the record's index in its batch (4), big-endian.
///
/// No two records of a wave are alike for this reason, even where seeded bytes
/// would be: they never hash alike, and a record that is there twice is seen.
pub const PAYLOAD_HEADER: usize = 12;

/// How a wave's records are shared out.
#[derive(Clone, Debug)]
pub(crate) struct Deal {
    pub(crate) streams: u32,
    /// Writers of one stream.
    pub(crate) writers: u32,
    pub(crate) batch: u32,
    /// Records of one stream; `None` when time is the bound.
    records: Option<u64>,
    payload_bytes: usize,
    seed: u64,
}

/// One operation's place in the deal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Index of its stream.
    pub(crate) stream: u32,
    /// Records in its batch.
    pub(crate) len: u32,
}

impl Deal {
    pub(crate) fn new(params: &AppendParams, seed: u64) -> Deal {
        Deal {
            streams: params.streams,
            writers: params.writers,
            batch: params.batch,
            records: params.records,
            payload_bytes: params.payload_bytes as usize,
            seed,
        }
    }

    /// Records of a writer; `None` when time is the bound. What does not
    /// divide evenly goes to the stream's first writers, one each.
    pub(crate) fn records_of(&self, writer: u32) -> Option<u64> {
        let records = self.records?;
        Some(number::share(records, self.writers, writer % self.writers))
    }

    /// Where an operation belongs and how long its batch is; `None` when there
    /// is no such operation.
    pub(crate) fn share(&self, number: u64) -> Option<Share> {
        let (writer, n) = writer_of(number);
        let stream = writer / self.writers;
        if stream >= self.streams {
            return None;
        }
        let batch = u64::from(self.batch);
        let len = match self.records_of(writer) {
            Some(records) => records.saturating_sub(u64::from(n) * batch).min(batch),
            None => batch,
        };
        // At most `batch`, which is a u32.
        (len > 0).then_some(Share {
            stream,
            len: len as u32,
        })
    }

    /// The lengths that batches can have, ascending.
    pub(crate) fn lengths(&self) -> Vec<u32> {
        let batch = u64::from(self.batch);
        // Only a writer's last batch is short, and the first and the last
        // writer of a stream between them hold the two shares there are.
        let mut lengths: Vec<u32> = [0, self.writers - 1]
            .into_iter()
            .flat_map(|writer| match self.records_of(writer) {
                Some(records) if records < batch => [records % batch, 0],
                Some(records) => [records % batch, batch],
                None => [0, batch],
            })
            .filter(|len| *len > 0)
            .map(|len| len as u32)
            .collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }

    /// Bytes of every payload.
    pub(crate) fn payload_len(&self) -> usize {
        self.payload_bytes.max(PAYLOAD_HEADER)
    }

    /// The payload of one record of an operation.
    pub(crate) fn payload(&self, number: u64, index: u32) -> Vec<u8> {
        let mut payload = vec![0; self.payload_len()];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        payload[8..PAYLOAD_HEADER].copy_from_slice(&index.to_be_bytes());
        // The generator's key is the inputs side by side: different inputs,
        // different key. A writer's number says which stream is his.
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_be_bytes());
        key[8..16].copy_from_slice(&number.to_be_bytes());
        key[16..20].copy_from_slice(&index.to_be_bytes());
        ChaCha8Rng::from_seed(key).fill_bytes(&mut payload[PAYLOAD_HEADER..]);
        payload
    }
}

/// The operation's number and the record's index that a payload begins with;
/// `None` when it is too short.
pub(crate) fn parse_header(payload: &[u8]) -> Option<(u64, u32)> {
    let (number, rest) = payload.split_first_chunk::<8>()?;
    let (index, _) = rest.split_first_chunk::<4>()?;
    Some((u64::from_be_bytes(*number), u32::from_be_bytes(*index)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::number::number;

    fn deal(streams: u32, writers: u32, batch: u32, records: Option<u64>) -> Deal {
        Deal {
            streams,
            writers,
            batch,
            records,
            payload_bytes: 40,
            seed: 1,
        }
    }

    fn operations(deal: &Deal, writer: u32) -> Vec<Share> {
        (0..).map_while(|n| deal.share(number(writer, n))).collect()
    }

    proptest! {
        #[test]
        fn every_record_is_dealt_once(
            streams in 1u32..5, writers in 1u32..20, batch in 1u32..=100, records in 0u64..3_000,
        ) {
            let deal = deal(streams, writers, batch, Some(records));
            let lengths = deal.lengths();
            for stream in 0..streams {
                let mut dealt = 0;
                let mut shares = BTreeSet::new();
                for writer in stream * writers..(stream + 1) * writers {
                    let operations = operations(&deal, writer);
                    let share: u64 = operations.iter().map(|o| u64::from(o.len)).sum();
                    prop_assert_eq!(Some(share), deal.records_of(writer));
                    prop_assert!(operations.iter().all(|o| o.stream == stream));
                    prop_assert!(operations.iter().all(|o| lengths.contains(&o.len)));
                    // Only the last one may be short.
                    let whole = operations.len().saturating_sub(1);
                    prop_assert!(operations[..whole].iter().all(|o| o.len == batch));
                    shares.insert(share);
                    dealt += share;
                }
                prop_assert_eq!(dealt, records);
                prop_assert!(shares.last().unwrap() - shares.first().unwrap() <= 1);
            }
            prop_assert_eq!(deal.share(number(streams * writers, 0)), None);
        }

        #[test]
        fn every_length_occurs(writers in 1u32..20, batch in 1u32..=100, records in 0u64..3_000) {
            let deal = deal(1, writers, batch, Some(records));
            let occurring: BTreeSet<u32> = (0..writers)
                .flat_map(|writer| operations(&deal, writer))
                .map(|o| o.len)
                .collect();
            prop_assert_eq!(deal.lengths(), Vec::from_iter(occurring));
        }

        #[test]
        fn payloads_say_whose_they_are(number: u64, index: u32, other: u64) {
            let deal = deal(1, 1, 1, None);
            let payload = deal.payload(number, index);
            prop_assert_eq!(payload.len(), 40);
            prop_assert_eq!(parse_header(&payload), Some((number, index)));
            prop_assert_eq!(&payload, &deal.payload(number, index));
            prop_assume!(number != other);
            // Not the header alone: the rest is drawn anew as well.
            prop_assert_ne!(&payload[12..], &deal.payload(other, index)[12..]);
        }
    }

    #[test]
    fn a_writer_bounded_by_time_never_runs_dry() {
        let deal = deal(2, 3, 7, None);
        assert_eq!(deal.lengths(), [7]);
        let last = deal.share(number(5, u32::MAX));
        assert_eq!(last, Some(Share { stream: 1, len: 7 }));
    }

    #[test]
    fn what_does_not_divide_goes_to_the_first() {
        let deal = deal(1, 3, 4, Some(31));
        assert_eq!(deal.records_of(0), Some(11));
        assert_eq!(deal.records_of(2), Some(10));
        assert_eq!(deal.lengths(), [2, 3, 4]);
    }

    #[test]
    fn the_seed_and_the_index_matter() {
        let one = deal(1, 1, 1, None);
        let two = Deal {
            seed: 2,
            ..one.clone()
        };
        assert_ne!(one.payload(5, 0)[12..], two.payload(5, 0)[12..]);
        assert_ne!(one.payload(5, 0)[12..], one.payload(5, 1)[12..]);
        let short = Deal {
            payload_bytes: 3,
            ..one
        };
        assert_eq!(short.payload(5, 0).len(), PAYLOAD_HEADER);
        assert_eq!(parse_header(&[0; 11]), None);
    }
}
