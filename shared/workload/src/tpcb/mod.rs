//! `tpcb`: the transaction that pgbench has built in, on pgbench's own tables.
//!
//! It moves an account, its teller and its branch by one amount and adds a row
//! to history; the variant `simple_update` leaves teller and branch alone. On
//! PostgreSQL it runs on tables that `pgbench -i` made, elsewhere it makes them.
//!
//! **The receipt.** History's `filler`, which pgbench leaves empty, holds a mark:
//! the rep's id and the operation's number. By it an unknown outcome is looked up
//! and every effect is attributed. pgbench's history has no index, and none is
//! added: each transaction would pay for it. A look-up there reads all of
//! history, which is only done after a COMMIT that nobody answered. (In tables of
//! our own making the mark is the primary key.)
//!
//! **Sending again.** Nothing stops a second row with the same mark. But every
//! attempt of an operation moves the same account, and while it is in doubt it
//! looks for its mark after that: had an earlier attempt committed by then, the
//! mark is seen; were it to commit later, two transactions would have moved one
//! row at once, and the database lets only one of them commit. At READ COMMITTED
//! the row's lock does the same, since the look comes after it is held.
//!
//! **Not done here.** The tables belong to nobody: two reps in one database at
//! the same time find each other's sums wrong. No business rule, so nothing is
//! ever rejected. No retries within an attempt and no pauses: the driver owns
//! both.

mod attempt;
mod clean;
mod deal;
mod schema;
mod session;
mod verify;

use clock::Clock;
use plan::{Isolation, TpcbParams, TpcbVariant};
use target::{Conn, SqlFailure};

pub use session::Session;

use crate::number::number;
use crate::stepwise::Stepwise;
use crate::{Attempt, Claim, Found, Said, Step, Verified, Workload};
use attempt::Try;
use deal::{Deal, Inputs};

/// The workload's name.
const NAME: &str = "tpcb";

/// The workload of one rep.
#[derive(Clone, Debug)]
pub struct Tpcb {
    deal: Deal,
    variant: TpcbVariant,
    isolation: Isolation,
    rep: i64,
    clock: Clock,
}

/// What a writer remembers: nothing but who he is.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    index: u32,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Operation {
    number: u64,
    inputs: Inputs,
    /// What it leaves in history.
    mark: String,
    /// A COMMIT of it has left, and nobody can say what became of it.
    in_doubt: bool,
}

/// Names the rows of one rep, for people.
pub fn rows_named(_params: &TpcbParams, id_base: i64) -> String {
    let (first, last) = deal::marks(id_base);
    format!(
        "rows of pgbench_history with a filler from {first} to {last}, and row {id_base} of \
         tpcb_baselines"
    )
}

impl Tpcb {
    /// The workload of one rep.
    ///
    /// `id_base` is the rep's id, which must be this attempt's own; it uses no
    /// other. All inputs follow from `seed`.
    pub fn new(params: &TpcbParams, id_base: i64, seed: u64, clock: Clock) -> Tpcb {
        Tpcb {
            deal: Deal::new(params, seed),
            variant: params.variant,
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
            variant: self.variant,
            operation,
        }
    }
}

impl Workload for Tpcb {
    type Session = Session;
    type Writer = Writer;
    type Operation = Operation;

    async fn prepare(&self, conn: &Conn) -> Result<Step, SqlFailure> {
        schema::prepare(self, conn).await
    }

    async fn session(&self, conn: &Conn) -> Result<Session, SqlFailure> {
        Session::prepare(conn).await
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
            inputs: self.deal.inputs(number)?,
            mark: deal::mark(self.rep, number),
            in_doubt: false,
        })
    }

    fn number(&self, operation: &Operation) -> u64 {
        operation.number
    }

    /// As the variant: `tpcb_like` or `simple_update`.
    fn kind(&self, _operation: &Operation) -> &'static str {
        match self.variant {
            TpcbVariant::TpcbLike => "tpcb_like",
            TpcbVariant::SimpleUpdate => "simple_update",
        }
    }

    /// Its row in history.
    fn records(&self, _operation: &Operation) -> u64 {
        1
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

    /// [`Claim::at`] is the branch and the account.
    fn claim(&self, operation: &Operation, said: Said) -> Claim {
        // Whoever gave up while a COMMIT was in doubt does not know.
        let said = match said {
            Said::Failed if operation.in_doubt => Said::Unknown,
            said => said,
        };
        let Inputs { bid, aid, .. } = operation.inputs;
        Claim {
            op: operation.number,
            said,
            at: (said != Said::Failed).then_some((bid.unsigned_abs(), aid.into())),
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
