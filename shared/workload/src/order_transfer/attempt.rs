//! One attempt at an order or a transfer, and the look-up after an outcome that
//! is unknown.
//!
//! An operation in doubt may be sent again, for then its receipt collides with
//! the one that landed; but nobody may say that it was rejected or failed for
//! good.

use plan::Isolation;
use target::{Class, SqlFailure};
use tokio_postgres::types::ToSql;

use super::Operation;
use super::deal::{Item, Request, Transfer};
use super::session::Session;
use crate::stepwise::{Commit, Stepwise};
use crate::{AttemptEnd, Found};

/// Everything that one attempt needs to know.
pub(crate) struct Try<'a> {
    pub(crate) steps: Stepwise<'a>,
    pub(crate) session: &'a Session,
    pub(crate) isolation: Isolation,
    pub(crate) rep: i64,
    /// Rows of a product's stock.
    pub(crate) shards: u32,
    pub(crate) operation: &'a mut Operation,
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
        let refused = match self.writes().await {
            Ok(()) => match self.steps.commit(&mut self.operation.in_doubt).await {
                // An earlier COMMIT can no longer land: the receipt is taken.
                Commit::Committed => return AttemptEnd::Committed,
                Commit::Unknown(failure) => return AttemptEnd::Unknown(failure),
                Commit::Refused(failure) => Refused::Sql(failure),
            },
            Err(refused) => {
                let failure = match &refused {
                    Refused::Sql(failure) => Some(failure),
                    Refused::Rule(_) => None,
                };
                self.steps.give_up(failure).await;
                refused
            }
        };
        self.refused(refused)
    }

    /// BEGIN, and everything before COMMIT.
    async fn writes(&mut self) -> Result<(), Refused> {
        self.steps.begin(self.isolation).await?;
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
        let order: [&(dyn ToSql + Sync); 3] = [&rep, &id, &lines];
        self.steps
            .expect("INSERT of an order", 1, &session.order, &order)
            .await?;
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
        let rows = items.len() as u64;
        self.steps
            .expect("INSERT of lines", rows, &session.items, &values)
            .await?;
        Ok(())
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
            if self.steps.execute(&session.take, &values).await? == 1 {
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
        let row = self.steps.row(&session.balance, &[&rep, &debited]).await?;
        let row = row.ok_or_else(|| {
            SqlFailure::new(Class::Other, format!("there is no account {debited}"))
        })?;
        let balance: i64 = row
            .try_get(0)
            .map_err(|error| SqlFailure::from_driver(&error))?;
        if balance < amount {
            return Err(TOO_SMALL);
        }
        // In the order of the request: sorting by account would hide what
        // crossed transfers do to each other.
        if self
            .steps
            .execute(&session.debit, &[&rep, &debited, &amount])
            .await?
            == 0
        {
            return Err(TOO_SMALL);
        }
        let credit: [&(dyn ToSql + Sync); 3] = [&rep, &credited, &amount];
        self.steps
            .expect(
                "UPDATE of the credited account",
                1,
                &session.credit,
                &credit,
            )
            .await?;
        Ok(())
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
        self.steps
            .expect("INSERT of a receipt", 1, &session.receipt, &values)
            .await?;
        Ok(())
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
        self.steps.leave_block().await;
        let id = self.operation.dealt.business_id;
        let row = self
            .steps
            .row(&self.session.look_up, &[&self.rep, &id])
            .await?;
        let by: Option<i64> = row
            .map(|row| row.try_get(0))
            .transpose()
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
}
