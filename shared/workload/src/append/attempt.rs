//! One attempt to append a batch, in each of the three ways that its
//! statements can travel, and the look-up after an outcome that is unknown.
//!
//! One rule holds everywhere; `docs/append.md` has the argument that rests on
//! it. An operation is *in doubt* from the moment before a COMMIT leaves until
//! an answer says what became of it. The batch is kept as it was sent, and as
//! long as it is in doubt nothing else is sent for this operation. A future that
//! is dropped half-way therefore leaves the doubt behind, not a hole.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use plan::Isolation;
use target::{Class, Conn, SqlFailure};
use tokio_postgres::types::ToSql;

use super::chain::{Batch, Hash, Head};
use super::hex;
use super::outcome::Ended;
use super::session::Session;
use super::sql;
use crate::flight::{self, Answer, Broken, is_abort};
use crate::{AttemptEnd, Found};

/// Everything that one attempt needs to know.
pub(crate) struct Try<'a> {
    pub(crate) conn: &'a Conn,
    pub(crate) session: &'a Session,
    pub(crate) clock: Clock,
    pub(crate) isolation: Isolation,
    pub(crate) stream_id: i64,
    /// The batch whose fate is not known, if there is one.
    pub(crate) doubt: &'a mut Option<Arc<Batch>>,
    pub(crate) round_trips: u32,
    pub(crate) commit: Option<Duration>,
}

/// How the part before the COMMIT went.
type Ready = Result<Arc<Batch>, SqlFailure>;

impl Try<'_> {
    /// Awaits every statement: BEGIN, the head, INSERT, UPDATE, COMMIT.
    pub(crate) async fn stepwise(&mut self, build: impl FnOnce(Head) -> Batch) -> Ended {
        let batch = match self.steps(build).await {
            Ok(batch) => batch,
            Err(failure) => {
                // A block that waits for the next attempt would keep its locks
                // through the pause.
                if !failure.connection_is_gone() && !self.conn.is_lost() {
                    self.roll_back().await;
                }
                return Ended::failed(failure);
            }
        };
        let resent = self.in_doubt(&batch);
        let sent = self.clock.now();
        let answer = self.fly("COMMIT").await;
        self.commit = Some(self.clock.now().since(sent));
        // INSERT and UPDATE were counted before.
        self.verdict(batch, resent, answer, 1)
    }

    async fn steps(&mut self, build: impl FnOnce(Head) -> Batch) -> Ready {
        let (begin, _) = self.session.block.begin(self.isolation);
        self.fly(&begin).await.whole()?;
        let head = self.read_head().await?;
        let batch = self.batch_on(head, build)?;
        let stepwise = self.session.stepwise.as_ref();
        let Some((stepwise, insert)) =
            stepwise.and_then(|stepwise| Some((stepwise, stepwise.insert(batch.records.len())?)))
        else {
            return Err(SqlFailure::new(
                Class::Other,
                format!("no INSERT of {} records was prepared", batch.records.len()),
            ));
        };
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&self.stream_id];
        let columns: Vec<[&[u8]; 3]> = batch
            .records
            .iter()
            .map(|r| [&r.prev_hash[..], &r.hash[..], &r.payload[..]])
            .collect();
        for (record, columns) in batch.records.iter().zip(&columns) {
            values.push(&record.seq);
            values.extend(columns.iter().map(|bytes| bytes as &(dyn ToSql + Sync)));
        }
        self.round_trips += 1;
        let inserted = self.conn.client.execute(insert, &values).await;
        let inserted = inserted.map_err(|error| SqlFailure::from_driver(&error))?;
        if inserted != batch.records.len() as u64 {
            return Err(SqlFailure::new(
                Class::Other,
                format!("INSERT of {} records made {inserted}", batch.records.len()),
            ));
        }
        let after = batch.after();
        let hash = &after.hash[..];
        self.round_trips += 1;
        let moved = self
            .conn
            .client
            .execute(
                &stepwise.move_head,
                &[&self.stream_id, &after.seq, &hash, &batch.before.seq],
            )
            .await;
        match moved.map_err(|error| SqlFailure::from_driver(&error))? {
            1 => Ok(batch),
            0 => Err(self.head_moved(batch.before)),
            rows => Err(SqlFailure::new(
                Class::Other,
                format!("stream {} has {rows} head rows", self.stream_id),
            )),
        }
    }

    /// Two flights: BEGIN with the head, then the writes with COMMIT.
    pub(crate) async fn pipelined(&mut self, build: impl FnOnce(Head) -> Batch) -> Ended {
        let (mut flight, _) = self.session.block.begin(self.isolation);
        flight.push_str("; ");
        flight.push_str(&sql::read_head_text(self.stream_id));
        let answer = self.fly(&flight).await.whole();
        let head = answer.and_then(|answer| self.head_in(&answer));
        match head.and_then(|head| self.batch_on(head, build)) {
            Ok(batch) => {
                let flight = sql::writes(self.stream_id, &batch);
                let resent = self.in_doubt(&batch);
                let answer = self.fly(&flight).await;
                self.verdict(batch, resent, answer, 3)
            }
            Err(failure) => Ended::failed(failure),
        }
    }

    /// One flight from a head that is known, or is read first.
    pub(crate) async fn sticky(
        &mut self,
        known: Option<Head>,
        build: impl FnOnce(Head) -> Batch,
    ) -> Ended {
        let batch = match self.doubt.clone() {
            Some(batch) => Ok(batch),
            None => self
                .known_or_read(known)
                .await
                .map(|head| Arc::new(build(head))),
        };
        let batch = match batch {
            Ok(batch) => batch,
            Err(failure) => return Ended::failed(failure),
        };
        let (mut flight, statements) = self.session.block.begin(self.isolation);
        flight.push_str("; ");
        flight.push_str(&sql::writes(self.stream_id, &batch));
        let resent = self.in_doubt(&batch);
        let answer = self.fly(&flight).await;
        self.verdict(batch, resent, answer, statements + 3)
    }

    async fn known_or_read(&mut self, known: Option<Head>) -> Result<Head, SqlFailure> {
        if let Some(head) = known {
            return Ok(head);
        }
        if !self.session.block.is_open() {
            return self.read_head().await;
        }
        // The read must fall neither into a failed block nor into an old
        // snapshot.
        let flight = format!("ROLLBACK; {}", sql::read_head_text(self.stream_id));
        let answer = self.fly(&flight).await.whole()?;
        self.session.block.ended();
        self.head_in(&answer)
    }

    /// What became of the batch in doubt.
    pub(crate) async fn look_up(&mut self) -> Result<Found, SqlFailure> {
        let Some(batch) = self.doubt.clone() else {
            // No COMMIT of this operation ever left.
            return Ok(Found::Absent);
        };
        if self.session.block.is_open() {
            self.roll_back().await;
        }
        self.round_trips += 1;
        let row = self
            .conn
            .client
            .query_opt(
                &self.session.read_slot,
                &[&self.stream_id, &batch.first_seq()],
            )
            .await
            .map_err(|error| SqlFailure::from_driver(&error))?;
        let Some(row) = row else {
            return Ok(Found::Pending);
        };
        let there: &[u8] = row
            .try_get(0)
            .map_err(|error| SqlFailure::from_driver(&error))?;
        // The batch is one transaction: with its first record the rest is there.
        let ours = batch.records.first().is_some_and(|r| r.hash == there);
        *self.doubt = None;
        Ok(if ours {
            Found::Committed
        } else {
            Found::Absent
        })
    }

    /// The batch to send on this head: the one in doubt, or a new one.
    fn batch_on(&self, head: Head, build: impl FnOnce(Head) -> Batch) -> Ready {
        match self.doubt.as_ref() {
            None => Ok(Arc::new(build(head))),
            Some(batch) if batch.before == head => Ok(Arc::clone(batch)),
            // Its place is taken, by itself or by another; the look-up says.
            Some(batch) => Err(self.head_moved(batch.before)),
        }
    }

    /// Puts the batch in doubt before its COMMIT leaves. Returns whether it was
    /// there already, from an earlier attempt.
    fn in_doubt(&mut self, batch: &Arc<Batch>) -> bool {
        self.doubt.replace(Arc::clone(batch)).is_some()
    }

    /// Reads the answer to a flight of `statements` of which the last is
    /// COMMIT, and, if there are more, the two before it UPDATE and INSERT.
    fn verdict(
        &mut self,
        batch: Arc<Batch>,
        resent: bool,
        answer: Answer,
        statements: usize,
    ) -> Ended {
        let commit_answered = answer.counts.len() == statements;
        if commit_answered {
            // Whatever came after that, say a connection lost between the
            // answer and the end of the flight, changes nothing.
            self.session.block.ended();
            let wrote = (statements > 1)
                .then(|| (answer.counts[statements - 3], answer.counts[statements - 2]));
            return match wrote {
                Some((0, 0)) => self.certain(resent, self.head_moved(batch.before)),
                Some((moved, made)) if moved != 1 || made != batch.records.len() as u64 => {
                    // Cannot be, unless something else than appends writes
                    // here: say nothing that is not known.
                    Ended::of(AttemptEnd::Unknown(SqlFailure::new(
                        Class::Other,
                        format!("UPDATE moved {moved} heads and INSERT made {made} records"),
                    )))
                }
                Some(_) | None => {
                    *self.doubt = None;
                    Ended {
                        end: AttemptEnd::Committed,
                        batch: Some(batch),
                    }
                }
            };
        }
        let reached = answer.counts.len() + 1 == statements;
        match answer.broken {
            Some(Broken::Unsent(failure)) => self.certain(resent, failure),
            Some(Broken::Refused(failure)) if is_abort(&failure) => {
                if reached {
                    self.session.block.ended();
                }
                self.certain(resent, failure)
            }
            // An error stops the flight: COMMIT was not reached. The one that
            // says that the server itself does not know is not trusted to have
            // come in its place.
            Some(Broken::Refused(failure)) if !reached && !failure.outcome_unknown_at_commit() => {
                self.certain(resent, failure)
            }
            Some(Broken::Refused(failure) | Broken::Lost(failure)) => {
                Ended::of(AttemptEnd::Unknown(failure))
            }
            None => Ended::of(AttemptEnd::Unknown(SqlFailure::new(
                Class::ConnectionLost,
                "the flight ended before COMMIT was answered",
            ))),
        }
    }

    /// This attempt did not commit. That says nothing of an earlier one.
    fn certain(&mut self, resent: bool, failure: SqlFailure) -> Ended {
        if !resent {
            *self.doubt = None;
        }
        Ended::failed(failure)
    }

    async fn fly(&mut self, sql: &str) -> Answer {
        self.round_trips += 1;
        flight::send(self.conn, sql).await
    }

    async fn roll_back(&mut self) {
        let answer = self.fly("ROLLBACK").await;
        if answer.broken.is_none() {
            self.session.block.ended();
        }
    }

    async fn read_head(&mut self) -> Result<Head, SqlFailure> {
        self.round_trips += 1;
        let row = self
            .conn
            .client
            .query_opt(&self.session.read_head, &[&self.stream_id])
            .await
            .map_err(|error| SqlFailure::from_driver(&error))?
            .ok_or_else(|| self.no_head())?;
        let seq = row.try_get(0);
        let hash = row.try_get::<_, &[u8]>(1);
        match (seq, hash.map(Hash::try_from)) {
            (Ok(seq), Ok(Ok(hash))) => Ok(Head { seq, hash }),
            _ => Err(self.bad_head()),
        }
    }

    /// The head in the answer to a flight that reads it.
    fn head_in(&self, answer: &Answer) -> Result<Head, SqlFailure> {
        let row = answer.rows.first().ok_or_else(|| self.no_head())?;
        let seq = row.get(0).and_then(|seq| seq.parse().ok());
        let hash = row
            .get(1)
            .and_then(|hash| hash.strip_prefix("\\x"))
            .and_then(hex::decode)
            .and_then(|hash| Hash::try_from(hash).ok());
        match (seq, hash) {
            (Some(seq), Some(hash)) => Ok(Head { seq, hash }),
            _ => Err(self.bad_head()),
        }
    }

    fn head_moved(&self, from: Head) -> SqlFailure {
        SqlFailure::new(
            Class::Conflict,
            format!(
                "the head of stream {} is not at seq {}",
                self.stream_id, from.seq
            ),
        )
    }

    fn no_head(&self) -> SqlFailure {
        SqlFailure::new(
            Class::Other,
            format!("stream {} has no head row", self.stream_id),
        )
    }

    fn bad_head(&self) -> SqlFailure {
        SqlFailure::new(
            Class::Other,
            format!(
                "the head of stream {} is not a seq and a 32-byte hash (bytea_output must be hex)",
                self.stream_id
            ),
        )
    }
}
