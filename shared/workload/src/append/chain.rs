//! The chain itself, pure: what is hashed, and how records follow each other.
//!
//! A record's hash is SHA-256 over these bytes, integers big-endian:
//!
//! | bytes   | what                                            |
//! |---------|-------------------------------------------------|
//! | 0       | version of this form, `01`                      |
//! | 1..9    | stream id, as stored, two's complement          |
//! | 9..17   | seq, as stored, two's complement                |
//! | 17..49  | hash of the record before, 32 zero bytes for 1  |
//! | 49..57  | length of the payload in bytes                  |
//! | 57..    | payload, as stored                              |
//!
//! Every field but the last has a fixed width and the last is preceded by its
//! length, so two different records never give the same bytes. What is hashed
//! is exactly what is stored: no text form, no time zone, no number format is
//! in between. `vectors.json` holds published test vectors.

use std::sync::Arc;

use sha2::{Digest, Sha256};

/// Version of the hashed form; the first byte that is hashed.
pub const VERSION: u8 = 1;

/// A SHA-256 value.
pub type Hash = [u8; 32];

/// What the first record of every stream follows.
pub const GENESIS: Hash = [0; 32];

/// The end of a chain, as a row of `streams` holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last record's seq; 0 when there is none.
    pub seq: i64,
    /// The last record's hash; [`GENESIS`] when there is none.
    pub hash: Hash,
}

impl Head {
    /// The head of an empty stream.
    pub const EMPTY: Head = Head {
        seq: 0,
        hash: GENESIS,
    };
}

/// One record, ready to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the stream, from 1.
    pub seq: i64,
    /// Hash of the record before.
    pub prev_hash: Hash,
    /// Its own hash.
    pub hash: Hash,
    /// What it says.
    pub payload: Vec<u8>,
}

/// Records that are appended together, and the head that they were chained to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The head that must be there when they are stored.
    pub before: Head,
    /// At least one.
    pub records: Arc<[Record]>,
}

/// The hash of one record.
pub fn hash(stream_id: i64, seq: i64, prev_hash: &Hash, payload: &[u8]) -> Hash {
    let mut sha = Sha256::new();
    sha.update([VERSION]);
    sha.update(stream_id.to_be_bytes());
    sha.update(seq.to_be_bytes());
    sha.update(prev_hash);
    sha.update((payload.len() as u64).to_be_bytes());
    sha.update(payload);
    sha.finalize().into()
}

/// Chains payloads to a head, the first one to the head itself.
pub fn chain(stream_id: i64, before: Head, payloads: impl Iterator<Item = Vec<u8>>) -> Batch {
    let mut head = before;
    let records = payloads
        .map(|payload| {
            let seq = head.seq + 1;
            let prev_hash = head.hash;
            let hash = hash(stream_id, seq, &prev_hash, &payload);
            head = Head { seq, hash };
            Record {
                seq,
                prev_hash,
                hash,
                payload,
            }
        })
        .collect();
    Batch { before, records }
}

impl Batch {
    /// Seq of its first record.
    pub fn first_seq(&self) -> i64 {
        self.before.seq + 1
    }

    /// The head once it is stored.
    pub fn after(&self) -> Head {
        self.records.last().map_or(self.before, |last| Head {
            seq: last.seq,
            hash: last.hash,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::append::hex;

    /// The published vectors were computed by another program.
    #[test]
    fn published_vectors() {
        let vectors: Value = serde_json::from_str(include_str!("../../vectors.json")).unwrap();
        assert_eq!(vectors["version"], VERSION);
        let mut seen = 0;
        for chain_of in vectors["chains"].as_array().unwrap() {
            let stream_id = chain_of["stream_id"].as_i64().unwrap();
            for record in chain_of["records"].as_array().unwrap() {
                let bytes = |name: &str| hex::decode(record[name].as_str().unwrap()).unwrap();
                let prev: Hash = bytes("prev_hash").try_into().unwrap();
                let seq = record["seq"].as_i64().unwrap();
                let computed = hash(stream_id, seq, &prev, &bytes("payload"));
                assert_eq!(computed.to_vec(), bytes("hash"), "{}", chain_of["what"]);
                seen += 1;
            }
        }
        assert_eq!(seen, 8);
    }

    #[test]
    fn records_follow_each_other() {
        let payloads = [vec![1], vec![2], vec![3]];
        let first = chain(9, Head::EMPTY, payloads.clone().into_iter());
        assert_eq!(first.first_seq(), 1);
        assert_eq!(first.records[0].prev_hash, GENESIS);
        assert_eq!(first.records[2].prev_hash, first.records[1].hash);
        let second = chain(9, first.after(), payloads.into_iter());
        assert_eq!(second.first_seq(), 4);
        assert_eq!(second.records[0].prev_hash, first.records[2].hash);
        assert_eq!(second.after().seq, 6);
        assert_eq!(
            chain(9, first.after(), [].into_iter()).after(),
            first.after()
        );
    }

    #[test]
    fn every_field_is_hashed() {
        let base = hash(1, 1, &GENESIS, b"ab");
        let others = [
            hash(2, 1, &GENESIS, b"ab"),
            hash(1, 2, &GENESIS, b"ab"),
            hash(1, 1, &[1; 32], b"ab"),
            hash(1, 1, &GENESIS, b"ac"),
            hash(1, 1, &GENESIS, b"a"),
        ];
        assert!(others.iter().all(|other| *other != base));
    }
}
