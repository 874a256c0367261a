//! One attempt at an order or a transfer, and the look-up after an outcome that
//! is unknown. Every statement is awaited.
//!
//! An operation is *in doubt* from the moment before a COMMIT leaves until an
//! answer says what became of it, or until a receipt does. While it is in doubt
//! it may be sent again, for then its receipt collides with the one that landed;
//! but nobody may say that it was rejected or failed for good.

use std::time::Duration;

use clock::Clock;
use plan::Isolation;
use target::{Class, Conn, SqlFailure};
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::Operation;
use super::deal::{Item, Request, Transfer};
use super::session::Session;
use crate::flight::{self, Answer, Broken, is_abort};
use crate::{AttemptEnd, Found};

/// Everything that one attempt needs to know.
pub(crate) struct Try<'a> {
    pub(crate) conn: &'a Conn,
    pub(crate) session: &'a Session,
    pub(crate) clock: Clock,
    pub(crate) isolation: Isolation,
    pub(crate) rep: i64,
    /// Rows of a product's stock.
    pub(crate) shards: u32,
    pub(crate) operation: &'a mut Operation,
    pub(crate) round_trips: u32,
    pub(crate) commit: Option<Duration>,
}

/// Why an attempt did not come to its COMMIT.
enum Refused {
    /// A business rule.
    Rule(&'static str),
    Sql(SqlFailure),
}

impl From<SqlFailure> for Refused {
    fn from(failure: SqlFailure) -> Refused {
        Refused::Sql(failure)
    }
}

impl Try<'_> {
    pub(crate) async fn run(&mut self) -> AttemptEnd {
        match self.writes().await {
            Ok(()) => self.commit().await,
            Err(refused) => {
                let gone =
                    matches!(&refused, Refused::Sql(failure) if failure.connection_is_gone());
                // A block that waits for the next attempt would keep its locks
                // through the pause.
                if !gone && !self.conn.is_lost() {
                    self.roll_back().await;
                }
                self.refused(refused)
            }
        }
    }

    /// BEGIN, and everything before COMMIT.
    async fn writes(&mut self) -> Result<(), Refused> {
        let (begin, _) = self.session.block.begin(self.isolation);
        self.fly(&begin).await.whole()?;
        let request = self.operation.dealt.request.clone();
        match &request {
            Request::Order(items) => self.order(items).await?,
            Request::Transfer(transfer) => self.transfer(*transfer).await?,
        }
        self.receipt(&request).await
    }

    async fn order(&mut self, items: &[Item]) -> Result<(), Refused> {
        let mut shards = Vec::with_capacity(items.len());
        for item in items {
            shards.push(self.take(*item).await?);
        }
        let (rep, id, session) = (self.rep, self.operation.dealt.business_id, self.session);
        let lines = items.len() as i64;
        self.expect(&session.order, &[&rep, &id, &lines], 1).await?;
        let columns: Vec<[i64; 4]> = (0..)
            .zip(items.iter().zip(shards))
            .map(|(line, (item, shard))| {
                [
                    line,
                    i64::from(item.product),
                    i64::from(shard),
                    item.quantity,
                ]
            })
            .collect();
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&rep, &id];
        for columns in &columns {
            values.extend(columns.iter().map(|value| value as &(dyn ToSql + Sync)));
        }
        self.expect(&session.items, &values, items.len() as u64)
            .await
    }

    /// Takes an item from the first of its product's stock rows that has enough,
    /// beginning with the one that was drawn; says which.
    async fn take(&mut self, item: Item) -> Result<u32, Refused> {
        let session = self.session;
        for step in 0..self.shards {
            let shard = (item.first_shard + step) % self.shards;
            let (product, row) = (i64::from(item.product), i64::from(shard));
            let values: [&(dyn ToSql + Sync); 4] =
                [&self.rep.clone(), &product, &row, &item.quantity];
            if self.execute(&session.take, &values).await? == 1 {
                return Ok(shard);
            }
        }
        Err(Refused::Rule("out of stock"))
    }

    async fn transfer(&mut self, transfer: Transfer) -> Result<(), Refused> {
        const TOO_SMALL: Refused = Refused::Rule("balance too small");
        let (rep, session, amount) = (self.rep, self.session, transfer.amount);
        let debited = i64::from(transfer.debited);
        let credited = i64::from(transfer.credited);
        self.round_trips += 1;
        let row = self
            .conn
            .client
            .query_one(&session.balance, &[&rep, &debited])
            .await;
        let balance: i64 = row
            .and_then(|row| row.try_get(0))
            .map_err(|error| SqlFailure::from_driver(&error))?;
        if balance < amount {
            return Err(TOO_SMALL);
        }
        // In the order of the request: sorting by account would hide what
        // crossed transfers do to each other.
        if self
            .execute(&session.debit, &[&rep, &debited, &amount])
            .await?
            == 0
        {
            return Err(TOO_SMALL);
        }
        self.expect(&session.credit, &[&rep, &credited, &amount], 1)
            .await
    }

    async fn receipt(&mut self, request: &Request) -> Result<(), Refused> {
        let (rep, id, session) = (self.rep, self.operation.dealt.business_id, self.session);
        let operation = self.operation.number as i64;
        let (debited, credited) = match request {
            Request::Order(_) => (None, None),
            Request::Transfer(transfer) => (
                Some(i64::from(transfer.debited)),
                Some(i64::from(transfer.credited)),
            ),
        };
        let values: [&(dyn ToSql + Sync); 7] = [
            &rep,
            &id,
            &operation,
            &request.kind(),
            &debited,
            &credited,
            &request.amount(),
        ];
        self.expect(&session.receipt, &values, 1).await
    }

    async fn commit(&mut self) -> AttemptEnd {
        let resent = std::mem::replace(&mut self.operation.in_doubt, true);
        let sent = self.clock.now();
        let answer = self.fly("COMMIT").await;
        self.commit = Some(self.clock.now().since(sent));
        if !answer.counts.is_empty() {
            // Whatever came after that changes nothing. An earlier COMMIT can no
            // longer land: the receipt is taken.
            self.session.block.ended();
            self.operation.in_doubt = false;
            return AttemptEnd::Committed;
        }
        let (failure, answered) = match answer.broken {
            Some(Broken::Unsent(failure)) => (failure, false),
            Some(Broken::Refused(failure)) if is_abort(&failure) => (failure, true),
            Some(Broken::Refused(failure) | Broken::Lost(failure)) => {
                return AttemptEnd::Unknown(failure);
            }
            None => {
                return AttemptEnd::Unknown(SqlFailure::new(
                    Class::ConnectionLost,
                    "COMMIT was not answered",
                ));
            }
        };
        if answered {
            self.session.block.ended();
        }
        // This attempt did not commit. That says nothing of an earlier one.
        self.operation.in_doubt = resent;
        self.refused(Refused::Sql(failure))
    }

    /// How an attempt ends that certainly did not commit. While an earlier one
    /// may, no rule has refused the operation for good, and a key that is taken
    /// may be its own.
    fn refused(&self, refused: Refused) -> AttemptEnd {
        match (refused, self.operation.in_doubt) {
            (Refused::Rule(rule), false) => AttemptEnd::Rejected(rule),
            (Refused::Rule(rule), true) => AttemptEnd::Failed(SqlFailure::new(
                Class::Other,
                format!("{rule}, while an earlier COMMIT may still land"),
            )),
            // All keys that an operation inserts are those of its business id.
            (Refused::Sql(failure), false) if failure.sqlstate.as_deref() == Some("23505") => {
                AttemptEnd::Rejected("duplicate")
            }
            (Refused::Sql(failure), _) => AttemptEnd::Failed(failure),
        }
    }

    /// What the receipt says of the attempts in doubt.
    pub(crate) async fn look_up(&mut self) -> Result<Found, SqlFailure> {
        if !self.operation.in_doubt {
            // No COMMIT of this operation is under way.
            return Ok(Found::Absent);
        }
        if self.session.block.is_open() {
            self.roll_back().await;
        }
        self.round_trips += 1;
        let id = self.operation.dealt.business_id;
        let row = self
            .conn
            .client
            .query_opt(&self.session.look_up, &[&self.rep, &id])
            .await;
        let by: Option<i64> = row
            .and_then(|row| row.map(|row| row.try_get(0)).transpose())
            .map_err(|error| SqlFailure::from_driver(&error))?;
        let Some(by) = by else {
            return Ok(Found::Pending);
        };
        self.operation.in_doubt = false;
        Ok(if by == self.operation.number as i64 {
            Found::Committed
        } else {
            // Another one with the same business id was first.
            Found::Absent
        })
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

    /// Runs a statement and returns the rows it touched.
    async fn execute(
        &mut self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Refused> {
        self.round_trips += 1;
        let touched = self.conn.client.execute(statement, values).await;
        touched.map_err(|error| Refused::Sql(SqlFailure::from_driver(&error)))
    }

    /// Runs a statement that must touch so many rows.
    async fn expect(
        &mut self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
        rows: u64,
    ) -> Result<(), Refused> {
        let touched = self.execute(statement, values).await?;
        if touched == rows {
            return Ok(());
        }
        let id = self.operation.dealt.business_id;
        Err(Refused::Sql(SqlFailure::new(
            Class::Other,
            format!("a statement of {id} touched {touched} rows and not {rows}"),
        )))
    }
}
