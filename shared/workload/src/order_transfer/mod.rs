//! `order_transfer`: orders that take from stock and transfers between accounts,
//! by many clients that meet on the same rows.
//!
//! An order takes each of its items from a row of the product's stock that has
//! enough, and stores itself, its lines and a receipt. A transfer looks at a
//! balance, debits one account, credits the other, in the order of the request,
//! and stores a receipt. Either is one transaction whose every statement is
//! awaited. The receipt's key is the business id: what has one receipt cannot get
//! another, so an operation whose outcome nobody knows may be sent again, and a
//! request that comes in twice, by whatever connection, has one effect. The
//! receipt also names the operation that wrote it, so that of two operations with
//! one business id each can tell whether it was the one.
//!
//! Who asks for what is in `deal`, one attempt and the look-up in `attempt`, the
//! check of the result in `audit` (pure) and `verify` (reading).
//! `docs/workloads.md` has schema, transactions and invariants.
//!
//! **Rows.** All keys begin with the rep's id, so a rep needs one id for itself
//! and no range of them.
//!
//! **Not done here.** No retries within an attempt and no pauses: the driver owns
//! both. No void receipts: an operation that is in doubt and refused by a rule
//! is tried again until it is known, or ends unresolved and is settled by
//! verification.

mod attempt;
mod audit;
mod clean;
mod deal;
mod schema;
mod session;
mod verify;

use clock::Clock;
use plan::{Isolation, OrderTransferParams};
use target::{Conn, SqlFailure};

pub use session::Session;

use crate::number::number;
use crate::stepwise::Stepwise;
use crate::{Attempt, Claim, Found, Said, Step, Verified, Workload};
use attempt::Try;
use deal::{Deal, Dealt, Request};

/// The workload of one rep.
#[derive(Clone, Debug)]
pub struct OrderTransfer {
    deal: Deal,
    isolation: Isolation,
    rep: i64,
    clock: Clock,
}

/// What a writer remembers: nothing but who he is.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    index: u32,
}

/// One order or transfer.
#[derive(Clone, Debug)]
pub struct Operation {
    number: u64,
    dealt: Dealt,
    /// A COMMIT of it has left, and nobody can say what became of it.
    in_doubt: bool,
}

/// Names the rows of one rep, for people.
pub fn rows_named(_params: &OrderTransferParams, id_base: i64) -> String {
    format!("rows of rep {id_base} in inventory, accounts, orders, order_items and receipts")
}

impl OrderTransfer {
    /// The workload of one rep.
    ///
    /// `id_base` is the rep's id, which must be this attempt's own; it uses no
    /// other. All requests follow from `seed`.
    pub fn new(
        params: &OrderTransferParams,
        id_base: i64,
        seed: u64,
        clock: Clock,
    ) -> OrderTransfer {
        OrderTransfer {
            deal: Deal::new(params, seed),
            isolation: params.isolation,
            rep: id_base,
            clock,
        }
    }

    fn try_of<'a>(
        &self,
        conn: &'a Conn,
        session: &'a Session,
        operation: &'a mut Operation,
    ) -> Try<'a> {
        Try {
            steps: Stepwise::new(conn, &session.block, self.clock),
            session,
            isolation: self.isolation,
            rep: self.rep,
            shards: self.deal.shards,
            operation,
        }
    }
}

impl Workload for OrderTransfer {
    type Session = Session;
    type Writer = Writer;
    type Operation = Operation;

    async fn prepare(&self, conn: &Conn) -> Result<Step, SqlFailure> {
        schema::prepare(self, conn).await
    }

    async fn session(&self, conn: &Conn) -> Result<Session, SqlFailure> {
        Session::prepare(conn, self.deal.items).await
    }

    fn writers(&self) -> u32 {
        self.deal.clients
    }

    fn writer(&self, index: u32) -> Writer {
        Writer { index }
    }

    fn operation(&self, writer: &mut Writer, n: u64) -> Option<Operation> {
        let number = number(writer.index, u32::try_from(n).ok()?);
        Some(Operation {
            number,
            dealt: self.deal.dealt(number)?,
            in_doubt: false,
        })
    }

    fn number(&self, operation: &Operation) -> u64 {
        operation.number
    }

    /// `order` or `transfer`.
    fn kind(&self, operation: &Operation) -> &'static str {
        operation.dealt.request.kind()
    }

    /// The lines of an order; a transfer has none.
    fn records(&self, operation: &Operation) -> u64 {
        match &operation.dealt.request {
            Request::Order(items) => items.len() as u64,
            Request::Transfer(_) => 0,
        }
    }

    async fn attempt(
        &self,
        conn: &Conn,
        session: &Session,
        _writer: &mut Writer,
        operation: &mut Operation,
    ) -> Attempt {
        let mut attempt = self.try_of(conn, session, operation);
        let end = attempt.run().await;
        Attempt {
            end,
            round_trips: attempt.steps.round_trips,
            commit: attempt.steps.commit,
        }
    }

    async fn look_up(
        &self,
        conn: &Conn,
        session: &Session,
        _writer: &mut Writer,
        operation: &mut Operation,
    ) -> Result<Found, SqlFailure> {
        self.try_of(conn, session, operation).look_up().await
    }

    /// [`Claim::at`] is 0 for an order and 1 for a transfer, with the business
    /// id.
    fn claim(&self, operation: &Operation, said: Said) -> Claim {
        // Whoever gave up while a COMMIT was in doubt does not know.
        let said = match said {
            Said::Failed if operation.in_doubt => Said::Unknown,
            said => said,
        };
        let table = match operation.dealt.request {
            Request::Order(_) => 0,
            Request::Transfer(_) => 1,
        };
        Claim {
            op: operation.number,
            said,
            at: (said != Said::Failed).then_some((table, operation.dealt.business_id)),
        }
    }

    async fn verify(
        &self,
        conn: &Conn,
        claims: &[Claim],
        missing: &[u32],
    ) -> Result<Verified, SqlFailure> {
        verify::verify(self, conn, claims, missing).await
    }

    async fn clean(&self, conn: &Conn) -> Result<Step, SqlFailure> {
        clean::clean(self, conn).await
    }
}
