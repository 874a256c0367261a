//! Checking chains against themselves, and against what the driver was told.

use std::collections::BTreeSet;

use clock::Clock;
use target::{Conn, SqlFailure};

use super::Append;
use super::deal::{Deal, parse_header};
use super::read::Reader;
use super::schema;
use super::walk::{Found, Run, Walk};
use crate::number::writer_of;
use crate::problems::Problems;
use crate::{Claim, Said, Step, Verified};

/// Checks all streams of a rep. Reads only; can be repeated.
///
/// What is there must be claimed, or else somebody appended behind the driver's
/// back: only `missing` writers may have done what nobody can tell.
pub(crate) async fn verify(
    append: &Append,
    conn: &Conn,
    claims: &[Claim],
    missing: &[u32],
) -> Result<Verified, SqlFailure> {
    let missing: BTreeSet<u32> = missing.iter().copied().collect();
    let started = append.clock.now();
    let mut claims: Vec<&Claim> = claims.iter().collect();
    claims.sort_by_key(|claim| claim.op);
    let mut found = Findings::default();
    let reader = Reader::new(conn).await?;
    let deal = &append.deal;
    for stream in 0..deal.streams {
        let id = append.stream_id(stream);
        let mut walk = Walk::new(id);
        let problems = &mut found.problems;
        let head = reader
            .stream(id, |record| {
                walk.record(record, problems);
                if let Some(what) = not_as_dealt(deal, stream, record) {
                    problems.at(id, record.seq, what);
                }
            })
            .await?;
        walk.end(head.as_ref().map(|(seq, hash)| (*seq, &hash[..])), problems);
        found.rows += walk.records();
        whole_batches(deal, id, &walk, problems);
        // A stream's writers are next to each other, so are their operations.
        let from = claims.partition_point(|claim| writer(claim) / deal.writers < stream);
        let to = claims.partition_point(|claim| writer(claim) / deal.writers <= stream);
        let of_stream = &claims[from..to];
        for claim in of_stream {
            found.check(deal, id, stream, claim, walk.runs().get(&claim.op));
        }
        for (op, run) in walk.runs() {
            let claimed = of_stream.binary_search_by_key(op, |claim| claim.op).is_ok();
            if !claimed && !missing.contains(&writer_of(*op).0) {
                let what = format!("operation {op} is here, and nobody reported it");
                found.problems.at(id, run.seq, what);
            }
        }
    }
    for claim in &claims {
        if deal.share(claim.op).is_none() {
            found.problems.add(format!(
                "a claim names operation {}, which this wave does not have",
                claim.op
            ));
        }
    }
    Ok(found.into_verified(append.clock.now().since(started)))
}

/// Checks chains of which nothing is known but their ids.
///
/// # Errors
/// When the tables are not there or have other columns, and as the connection
/// fails.
pub async fn verify_streams(
    conn: &Conn,
    ids: &[i64],
    clock: Clock,
) -> Result<Verified, SqlFailure> {
    let started = clock.now();
    schema::require_tables(conn).await?;
    let reader = Reader::new(conn).await?;
    let mut found = Findings::default();
    for &id in ids {
        let mut walk = Walk::new(id);
        let problems = &mut found.problems;
        let head = reader
            .stream(id, |record| walk.record(record, problems))
            .await?;
        walk.end(head.as_ref().map(|(seq, hash)| (*seq, &hash[..])), problems);
        found.rows += walk.records();
    }
    Ok(found.into_verified(clock.now().since(started)))
}

/// Ids of all streams that a target has, ascending.
///
/// # Errors
/// As [`verify_streams`].
pub async fn stream_ids(conn: &Conn) -> Result<Vec<i64>, SqlFailure> {
    schema::require_tables(conn).await?;
    let rows = conn
        .client
        .query("SELECT id FROM streams ORDER BY id", &[])
        .await;
    rows.and_then(|rows| rows.iter().map(|row| row.try_get(0)).collect())
        .map_err(|error| SqlFailure::from_driver(&error))
}

#[derive(Default)]
struct Findings {
    problems: Problems,
    rows: u64,
    settled_committed: Vec<u64>,
    settled_absent: Vec<u64>,
}

impl Findings {
    /// Holds one claim against where the operation was found.
    fn check(
        &mut self,
        deal: &Deal,
        stream_id: i64,
        stream: u32,
        claim: &Claim,
        found: Option<&Run>,
    ) {
        let op = claim.op;
        match (claim.said, found) {
            (Said::Committed, None) => {
                let seq = claim.at.map_or(0, |(_, seq)| seq);
                let len = deal.share(op).map_or(0, |share| share.len);
                self.problems.at(
                    stream_id,
                    seq,
                    format!("operation {op} was reported committed here with {len} records and is nowhere"),
                );
            }
            (Said::Committed, Some(run)) => {
                if let Some(at) = claim.at
                    && at != (stream, run.seq)
                {
                    self.problems.at(
                        stream_id,
                        run.seq,
                        format!("operation {op} is here, but was reported at seq {}", at.1),
                    );
                }
            }
            (Said::Failed, Some(run)) => self.problems.at(
                stream_id,
                run.seq,
                format!("operation {op} is here, but was reported failed"),
            ),
            (Said::Failed, None) => {}
            (Said::Unknown, Some(_)) => self.settled_committed.push(op),
            (Said::Unknown, None) => self.settled_absent.push(op),
        }
    }

    fn into_verified(self, took: std::time::Duration) -> Verified {
        let problems = self.problems.into_lines();
        Verified {
            ok: problems.is_empty(),
            problems,
            step: Step {
                rows: self.rows,
                took,
            },
            settled_committed: self.settled_committed,
            settled_absent: self.settled_absent,
        }
    }
}

fn writer(claim: &Claim) -> u32 {
    writer_of(claim.op).0
}

/// Why a record is not what the deal gave to its operation, if it is not.
fn not_as_dealt(deal: &Deal, stream: u32, record: Found<'_>) -> Option<String> {
    let Some((op, index)) = parse_header(record.payload) else {
        return Some("the payload is too short to name its operation".to_owned());
    };
    match deal.share(op) {
        Some(share) if share.stream == stream && index < share.len => {}
        _ => {
            return Some(format!(
                "record {index} of operation {op} does not belong into this stream"
            ));
        }
    }
    (record.payload != deal.payload(op, index))
        .then(|| format!("the payload is not that of record {index} of operation {op}"))
}

/// Batches are transactions: what is there is there with all its records.
fn whole_batches(deal: &Deal, stream_id: i64, walk: &Walk, problems: &mut Problems) {
    for (op, run) in walk.runs() {
        let Some(share) = deal.share(*op) else {
            continue;
        };
        if run.len < share.len {
            problems.at(
                stream_id,
                run.seq,
                format!(
                    "operation {op} has {} of its {} records here",
                    run.len, share.len
                ),
            );
        }
    }
}
