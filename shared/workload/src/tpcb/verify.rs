//! Checking a rep's history against the deal, the claims and the balances.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::TryStreamExt;
use plan::{Isolation, TpcbVariant};
use target::{Conn, SqlFailure};
use tokio_postgres::Row;

use super::Tpcb;
use super::deal::{Inputs, marks, operation_of};
use super::schema::SUMS;
use crate::flight::statement;
use crate::number::writer_of;
use crate::problems::Problems;
use crate::{Claim, Said, Step, Verified};

/// A row of history as it was found.
struct Found {
    mark: String,
    tid: Option<i32>,
    bid: Option<i32>,
    aid: Option<i32>,
    delta: Option<i32>,
}

/// Sums of balances: accounts, tellers, branches.
type Sums = [i64; 3];

/// Checks a rep. Reads only; can be repeated.
///
/// All of it is one snapshot, so that a COMMIT that lands meanwhile is in
/// nothing or in everything; history goes by row by row and is not kept. That a
/// table without an index is read once and not page by page is also why.
pub(crate) async fn verify(
    workload: &Tpcb,
    conn: &Conn,
    claims: &[Claim],
    missing: &[u32],
) -> Result<Verified, SqlFailure> {
    let started = workload.clock.now();
    let mut books = Books::new(workload, claims, missing);
    let begin = format!("BEGIN ISOLATION LEVEL {}", Isolation::RepeatableRead.sql());
    statement(conn, &begin).await?;
    let sums = read(workload, conn, &mut books).await;
    // Nothing was written, so either end will do; one of them is needed before
    // the connection can be used again.
    let ended = statement(conn, if sums.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
    let (before, now) = sums?;
    ended?;
    books.balances(before, now);
    Ok(books.end(workload.clock.now().since(started)))
}

/// Reads history into the books; returns the sums before the load, if they were
/// put down, and now.
async fn read(
    workload: &Tpcb,
    conn: &Conn,
    books: &mut Books<'_>,
) -> Result<(Option<Sums>, Sums), SqlFailure> {
    let failed = |error: tokio_postgres::Error| SqlFailure::from_driver(&error);
    let baseline = "SELECT accounts, tellers, branches FROM tpcb_baselines WHERE rep = $1";
    let before = conn.client.query_opt(baseline, &[&workload.rep]).await;
    let before = before.map_err(failed)?;
    let before = before.as_ref().map(sums).transpose().map_err(failed)?;
    let now = conn.client.query_one(SUMS, &[]).await;
    let now = sums(&now.map_err(failed)?).map_err(failed)?;
    let (first, last) = marks(workload.rep);
    let history = "SELECT filler, tid, bid, aid, delta FROM pgbench_history \
                   WHERE filler >= $1 AND filler <= $2";
    let rows = conn.client.query_raw(history, [&first, &last]).await;
    let mut rows = pin!(rows.map_err(failed)?);
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        books.row(&found(&row).map_err(failed)?);
    }
    Ok((before, now))
}

fn sums(row: &Row) -> Result<Sums, tokio_postgres::Error> {
    Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?])
}

fn found(row: &Row) -> Result<Found, tokio_postgres::Error> {
    Ok(Found {
        mark: row.try_get(0)?,
        tid: row.try_get(1)?,
        bid: row.try_get(2)?,
        aid: row.try_get(3)?,
        delta: row.try_get(4)?,
    })
}

/// What was found, held against what should be.
struct Books<'a> {
    workload: &'a Tpcb,
    /// By operation.
    claims: Vec<&'a Claim>,
    missing: BTreeSet<u32>,
    /// Operations whose row was seen.
    seen: BTreeSet<u64>,
    /// The sum of all deltas.
    moved: i64,
    rows: u64,
    problems: Problems,
}

impl<'a> Books<'a> {
    fn new(workload: &'a Tpcb, claims: &'a [Claim], missing: &[u32]) -> Books<'a> {
        let mut claims: Vec<&Claim> = claims.iter().collect();
        claims.sort_by_key(|claim| claim.op);
        Books {
            workload,
            claims,
            missing: missing.iter().copied().collect(),
            seen: BTreeSet::new(),
            moved: 0,
            rows: 0,
            problems: Problems::default(),
        }
    }

    /// Puts in one row of history.
    fn row(&mut self, found: &Found) {
        self.rows += 1;
        self.moved += i64::from(found.delta.unwrap_or(0));
        let mark = &found.mark;
        let op = operation_of(self.workload.rep, mark);
        let Some((op, dealt)) = op.and_then(|op| Some((op, self.workload.deal.inputs(op)?))) else {
            return self.say(format!("history {mark}: this rep has no such operation"));
        };
        let Inputs {
            aid,
            bid,
            tid,
            delta,
        } = dealt;
        let there = (found.aid, found.bid, found.tid, found.delta);
        if there != (Some(aid), Some(bid), Some(tid), Some(delta)) {
            self.say(format!(
                "history {mark}: operation {op} was to move account {aid}, teller {tid} and \
                 branch {bid} by {delta}, and the row says otherwise"
            ));
        }
        if !self.seen.insert(op) {
            return self.say(format!("history {mark}: operation {op} is here twice"));
        }
        match self.claims.binary_search_by_key(&op, |claim| claim.op) {
            Ok(at) if self.claims[at].said == Said::Failed => self.say(format!(
                "history {mark}: operation {op} is here, but was reported failed"
            )),
            Ok(_) => {}
            Err(_) if self.missing.contains(&writer_of(op).0) => {}
            Err(_) => self.say(format!(
                "history {mark}: operation {op} is here, and nobody reported it"
            )),
        }
    }

    /// All balances must have moved by what history says.
    fn balances(&mut self, before: Option<Sums>, now: Sums) {
        self.rows += 1;
        let Some(before) = before else {
            let rep = self.workload.rep;
            return self.say(format!(
                "tpcb_baselines {rep}: there is no row, so nobody knows what the balances were"
            ));
        };
        let others = match self.workload.variant {
            TpcbVariant::TpcbLike => self.moved,
            TpcbVariant::SimpleUpdate => 0,
        };
        let tables = ["pgbench_accounts", "pgbench_tellers", "pgbench_branches"];
        let by = [self.moved, others, others];
        for (((table, before), now), by) in tables.iter().zip(before).zip(now).zip(by) {
            if now - before != by {
                self.say(format!(
                    "{table}: the balances went from {before} to {now}, but history says {by:+}"
                ));
            }
        }
    }

    fn end(mut self, took: std::time::Duration) -> Verified {
        let (mut settled_committed, mut settled_absent) = (Vec::new(), Vec::new());
        for claim in std::mem::take(&mut self.claims) {
            let op = claim.op;
            if self.workload.deal.inputs(op).is_none() {
                self.say(format!(
                    "a claim names operation {op}, which this rep does not have"
                ));
                continue;
            }
            match (claim.said, self.seen.contains(&op)) {
                (Said::Committed, false) => self.say(format!(
                    "history {}: operation {op} was reported committed and is not here",
                    super::deal::mark(self.workload.rep, op)
                )),
                (Said::Unknown, true) => settled_committed.push(op),
                (Said::Unknown, false) => settled_absent.push(op),
                (Said::Committed, true) | (Said::Failed, _) => {}
            }
        }
        let problems = self.problems.into_lines();
        Verified {
            ok: problems.is_empty(),
            problems,
            step: Step {
                rows: self.rows,
                took,
            },
            settled_committed,
            settled_absent,
        }
    }

    fn say(&mut self, line: String) {
        self.problems.add(line);
    }
}
