//! One attempt at the transaction, and the look-up after an outcome that is
//! unknown.

use plan::{Isolation, TpcbVariant};
use target::{Class, SqlFailure};

use super::Operation;
use super::deal::Inputs;
use super::session::Session;
use crate::stepwise::{Commit, Stepwise};
use crate::{AttemptEnd, Found};

/// Everything that one attempt needs to know.
pub(crate) struct Try<'a> {
    pub(crate) steps: Stepwise<'a>,
    pub(crate) session: &'a Session,
    pub(crate) isolation: Isolation,
    pub(crate) variant: TpcbVariant,
    pub(crate) operation: &'a mut Operation,
}

impl Try<'_> {
    pub(crate) async fn run(&mut self) -> AttemptEnd {
        match self.writes().await {
            Ok(()) => match self.steps.commit(&mut self.operation.in_doubt).await {
                // An earlier COMMIT can no longer land: it moved the same account.
                Commit::Committed => AttemptEnd::Committed,
                Commit::Unknown(failure) => AttemptEnd::Unknown(failure),
                Commit::Refused(failure) => AttemptEnd::Failed(failure),
            },
            Err(failure) => {
                self.steps.give_up(Some(&failure)).await;
                AttemptEnd::Failed(failure)
            }
        }
    }

    /// BEGIN, and everything before COMMIT, in pgbench's order.
    async fn writes(&mut self) -> Result<(), SqlFailure> {
        let Inputs {
            aid,
            bid,
            tid,
            delta,
        } = self.operation.inputs;
        let session = self.session;
        self.steps.begin(self.isolation).await?;
        self.steps
            .expect("UPDATE of an account", 1, &session.account, &[&aid, &delta])
            .await?;
        if self.operation.in_doubt && self.is_there().await? {
            return Err(SqlFailure::new(
                Class::Other,
                "an earlier attempt has committed",
            ));
        }
        self.steps.row(&session.balance, &[&aid]).await?;
        if self.variant == TpcbVariant::TpcbLike {
            self.steps
                .expect("UPDATE of a teller", 1, &session.teller, &[&tid, &delta])
                .await?;
            self.steps
                .expect("UPDATE of a branch", 1, &session.branch, &[&bid, &delta])
                .await?;
        }
        let mark = &self.operation.mark;
        self.steps
            .expect(
                "INSERT of history",
                1,
                &session.history,
                &[&tid, &bid, &aid, &delta, mark],
            )
            .await
    }

    /// Whether history has the operation's mark.
    async fn is_there(&mut self) -> Result<bool, SqlFailure> {
        let mark = &self.operation.mark;
        let row = self.steps.row(&self.session.look_up, &[mark]).await?;
        Ok(row.is_some())
    }

    /// What history says of the attempts in doubt.
    pub(crate) async fn look_up(&mut self) -> Result<Found, SqlFailure> {
        if !self.operation.in_doubt {
            // No COMMIT of this operation is under way.
            return Ok(Found::Absent);
        }
        self.steps.leave_block().await;
        if !self.is_there().await? {
            return Ok(Found::Pending);
        }
        self.operation.in_doubt = false;
        Ok(Found::Committed)
    }
}
