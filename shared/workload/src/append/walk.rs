//! Walking a chain from its first record to its head, pure: the one core of
//! every verification, whether the records come from a database or a file.

use std::collections::BTreeMap;

use super::chain::{self, Hash, Head};
use super::deal::parse_header;
use super::hex;
use crate::problems::Problems;

impl Problems {
    /// Adds one about a place in a stream.
    pub(crate) fn at(&mut self, stream_id: i64, seq: i64, what: impl std::fmt::Display) {
        self.add(format!("stream {stream_id}, seq {seq}: {what}"));
    }
}

/// A record as it was found: nothing about it is taken for granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) seq: i64,
    pub(crate) prev_hash: &'a [u8],
    pub(crate) hash: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// A walk along one stream.
///
/// It remembers the last record and where each operation began, nothing of the
/// records themselves. After a problem it goes on from what is stored, so that
/// one wrong byte is one problem or two and not one for every later record.
#[derive(Debug)]
pub(crate) struct Walk {
    stream_id: i64,
    last: Head,
    /// Where each operation's batch is, by the operation's number.
    runs: BTreeMap<u64, Run>,
    /// The operation that the last record belongs to, while the batch is whole.
    current: Option<u64>,
    records: u64,
}

/// Where an operation's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) seq: i64,
    pub(crate) len: u32,
}

impl Walk {
    pub(crate) fn new(stream_id: i64) -> Walk {
        Walk {
            stream_id,
            last: Head::EMPTY,
            runs: BTreeMap::new(),
            current: None,
            records: 0,
        }
    }

    /// Records seen.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Every operation that was seen.
    pub(crate) fn runs(&self) -> &BTreeMap<u64, Run> {
        &self.runs
    }

    /// Checks the next record.
    pub(crate) fn record(&mut self, found: Found<'_>, problems: &mut Problems) {
        self.records += 1;
        let Found {
            seq,
            prev_hash,
            hash,
            payload,
        } = found;
        let mut say = |what: String| problems.at(self.stream_id, seq, what);
        let next = self.last.seq + 1;
        if seq < 1 {
            return say("a chain begins at 1".to_owned());
        }
        if seq < next {
            return say(if seq < self.last.seq {
                format!("comes after seq {}", self.last.seq)
            } else if hash == self.last.hash {
                "is there twice".to_owned()
            } else {
                format!(
                    "the chain forks: hash {} and hash {} have the same seq",
                    hex::short(&self.last.hash),
                    hex::short(hash)
                )
            });
        }
        if seq > next {
            let missing = match seq - next {
                1 => format!("seq {next} is missing"),
                _ => format!("seq {next} to {} are missing", seq - 1),
            };
            say(format!("{missing} before it"));
        } else if prev_hash != self.last.hash {
            say(format!(
                "prev_hash is {}, the hash of seq {} is {}",
                hex::short(prev_hash),
                seq - 1,
                hex::short(&self.last.hash)
            ));
        }
        match Hash::try_from(prev_hash) {
            Ok(prev_hash) => {
                let computed = chain::hash(self.stream_id, seq, &prev_hash, payload);
                if hash != computed {
                    say(format!(
                        "hash is {}, computed from what is stored it is {}",
                        hex::short(hash),
                        hex::short(&computed)
                    ));
                }
            }
            Err(_) => say("prev_hash is not 32 bytes long".to_owned()),
        }
        self.last = Head {
            seq,
            // A hash of another length was reported above and matches nothing.
            hash: Hash::try_from(hash).unwrap_or([0xff; 32]),
        };
        self.belongs(seq, payload, problems);
    }

    /// Keeps account of operations: each begins once, and its records follow
    /// each other.
    fn belongs(&mut self, seq: i64, payload: &[u8], problems: &mut Problems) {
        let Some((number, index)) = parse_header(payload) else {
            self.current = None;
            return;
        };
        let before = self.runs.get_mut(&number);
        match (before, index) {
            (None, 0) => {
                self.runs.insert(number, Run { seq, len: 1 });
                self.current = Some(number);
            }
            (Some(run), _) if self.current == Some(number) && run.len == index => {
                run.len += 1;
            }
            (Some(run), _) => {
                let what = if index < run.len {
                    format!(
                        "record {index} of operation {number} is there twice, first at seq {}",
                        run.seq + i64::from(index)
                    )
                } else {
                    format!(
                        "record {index} of operation {number} stands apart from its record {} at \
                         seq {}",
                        run.len - 1,
                        run.seq + i64::from(run.len) - 1
                    )
                };
                problems.at(self.stream_id, seq, what);
                self.current = None;
            }
            (None, _) => {
                problems.at(
                    self.stream_id,
                    seq,
                    format!(
                        "record {index} of operation {number} stands without its record {}",
                        index - 1
                    ),
                );
                self.current = None;
            }
        }
    }

    /// Checks that the head is the last record.
    pub(crate) fn end(&self, head: Option<(i64, &[u8])>, problems: &mut Problems) {
        let Some((seq, hash)) = head else {
            return problems.at(self.stream_id, self.last.seq, "the stream has no head row");
        };
        if seq != self.last.seq {
            problems.at(
                self.stream_id,
                self.last.seq,
                format!("the last record; the head says that seq {seq} is"),
            );
        } else if hash != self.last.hash {
            problems.at(
                self.stream_id,
                seq,
                format!(
                    "the head's hash is {}, the last record's is {}",
                    hex::short(hash),
                    hex::short(&self.last.hash)
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::{Batch, Record, chain};
    use super::*;

    const STREAM: i64 = 7;

    /// Three operations with two records each.
    fn honest() -> Vec<Record> {
        let mut head = Head::EMPTY;
        let mut records = Vec::new();
        for operation in [10u64, 11, 12] {
            let batch = append(head, operation, 2);
            head = batch.after();
            records.extend_from_slice(&batch.records);
        }
        records
    }

    fn append(head: Head, operation: u64, len: u32) -> Batch {
        chain(
            STREAM,
            head,
            (0..len).map(|index| payload(operation, index)),
        )
    }

    fn payload(operation: u64, index: u32) -> Vec<u8> {
        [&operation.to_be_bytes()[..], &index.to_be_bytes(), b"rest"].concat()
    }

    fn walk(records: &[Record], head: Option<(i64, &[u8])>) -> Vec<String> {
        let mut problems = Problems::default();
        let mut walk = Walk::new(STREAM);
        for record in records {
            walk.record(
                Found {
                    seq: record.seq,
                    prev_hash: &record.prev_hash,
                    hash: &record.hash,
                    payload: &record.payload,
                },
                &mut problems,
            );
        }
        walk.end(head, &mut problems);
        problems.into_lines()
    }

    /// Walks to the head that the last record makes.
    fn problems(records: &[Record]) -> Vec<String> {
        let last = records.last().unwrap();
        walk(records, Some((last.seq, &last.hash)))
    }

    /// The chain as a careful forger would leave it: all hashes made anew.
    fn forge(payloads: Vec<Vec<u8>>) -> Vec<Record> {
        chain(STREAM, Head::EMPTY, payloads.into_iter())
            .records
            .to_vec()
    }

    #[test]
    fn an_honest_chain_has_no_problems() {
        assert_eq!(problems(&honest()), Vec::<String>::new());
        assert_eq!(walk(&[], Some((0, &[0; 32]))), Vec::<String>::new());
    }

    #[test]
    fn a_changed_payload_is_named() {
        let mut records = honest();
        records[2].payload[13] ^= 1;
        let problems = problems(&records);
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].starts_with("stream 7, seq 3: hash is "),
            "{problems:?}"
        );
    }

    #[test]
    fn a_changed_link_is_named() {
        let mut records = honest();
        records[2].prev_hash[0] ^= 1;
        let problems = problems(&records);
        assert!(
            problems[0].starts_with("stream 7, seq 3: prev_hash is "),
            "{problems:?}"
        );
        assert!(problems[1].starts_with("stream 7, seq 3: hash is "));
        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn a_changed_hash_breaks_the_next_link_too() {
        let mut records = honest();
        records[2].hash[0] ^= 1;
        let problems = problems(&records);
        assert!(problems[0].starts_with("stream 7, seq 3: hash is "));
        assert!(problems[1].starts_with("stream 7, seq 4: prev_hash is "));
        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn a_head_that_is_not_the_last_record_is_named() {
        let records = honest();
        let last = records[5].hash;
        assert_eq!(
            walk(&records, Some((5, &records[4].hash))),
            ["stream 7, seq 6: the last record; the head says that seq 5 is"]
        );
        assert_eq!(
            walk(&records, Some((7, &last))),
            ["stream 7, seq 6: the last record; the head says that seq 7 is"]
        );
        let wrong = walk(&records, Some((6, &[1; 32])));
        assert!(wrong[0].starts_with("stream 7, seq 6: the head's hash is 010101010101…"));
        assert_eq!(
            walk(&records, None),
            ["stream 7, seq 6: the stream has no head row"]
        );
    }

    #[test]
    fn removed_records_are_named() {
        let mut records = honest();
        records.remove(2);
        let one = problems(&records);
        assert_eq!(one[0], "stream 7, seq 4: seq 3 is missing before it");
        records.remove(2);
        let two = problems(&records);
        assert_eq!(two, ["stream 7, seq 5: seq 3 to 4 are missing before it"]);
        let mut records = honest();
        records.drain(..2);
        assert_eq!(
            problems(&records),
            ["stream 7, seq 3: seq 1 to 2 are missing before it"]
        );
        let records = &honest()[..5];
        let head = honest()[5].hash;
        assert_eq!(
            walk(records, Some((6, &head))),
            ["stream 7, seq 5: the last record; the head says that seq 6 is"]
        );
    }

    #[test]
    fn a_copied_record_is_named() {
        let mut records = honest();
        records.insert(2, records[1].clone());
        assert_eq!(problems(&records), ["stream 7, seq 2: is there twice"]);
    }

    #[test]
    fn an_operation_that_is_there_twice_is_named_however_well_it_is_chained() {
        let mut payloads: Vec<_> = honest().into_iter().map(|r| r.payload).collect();
        payloads.extend([payload(11, 0), payload(11, 1)]);
        assert_eq!(
            problems(&forge(payloads)),
            [
                "stream 7, seq 7: record 0 of operation 11 is there twice, first at seq 3",
                "stream 7, seq 8: record 1 of operation 11 is there twice, first at seq 4",
            ]
        );
    }

    #[test]
    fn a_torn_batch_is_named() {
        let torn = [payload(1, 0), payload(2, 0), payload(1, 1)];
        assert_eq!(
            problems(&forge(torn.to_vec())),
            ["stream 7, seq 3: record 1 of operation 1 stands apart from its record 0 at seq 1"]
        );
        let headless = [payload(1, 1)];
        assert_eq!(
            problems(&forge(headless.to_vec())),
            ["stream 7, seq 1: record 1 of operation 1 stands without its record 0"]
        );
    }

    #[test]
    fn a_fork_is_named() {
        let mut records = honest();
        let at_two = Head {
            seq: 2,
            hash: records[1].hash,
        };
        records.insert(3, append(at_two, 99, 1).records[0].clone());
        let problems = problems(&records);
        assert!(
            problems[0].starts_with("stream 7, seq 3: the chain forks: hash "),
            "{problems:?}"
        );
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn what_is_out_of_order_or_out_of_form_is_named() {
        let mut records = honest();
        records.swap(1, 3);
        let found = problems(&records);
        assert!(
            found.contains(&"stream 7, seq 3: comes after seq 4".to_owned()),
            "{found:?}"
        );
        let mut problems = Problems::default();
        let mut walk = Walk::new(STREAM);
        let odd = |seq| Found {
            seq,
            prev_hash: &[0; 3],
            hash: &[],
            payload: &[],
        };
        walk.record(odd(0), &mut problems);
        walk.record(odd(1), &mut problems);
        assert_eq!(
            problems.into_lines(),
            [
                "stream 7, seq 0: a chain begins at 1",
                "stream 7, seq 1: prev_hash is 000000 (3 bytes), the hash of seq 0 is 000000000000…",
                "stream 7, seq 1: prev_hash is not 32 bytes long",
            ]
        );
    }
}
