//! One operation from its planned start to its end: the only retry loop.

use std::time::Duration;

use clock::Time;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stats::Unknown;
use target::{Class, SqlFailure};
use workload::{AttemptEnd, Found, Said, Workload};

use crate::connection::{REOPEN_LIMIT, Slot};
use crate::shard::Context;

/// Tries to look up an unknown outcome before it is left unresolved. Each try
/// may open a new connection; with the pauses between them they span seconds.
const LOOK_UPS: u32 = 25;

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    Rejected,
    /// The class it is counted under.
    Failed(&'static str),
    /// It was running when the shard was stopped.
    Unfinished,
}

/// An operation that has ended, with everything that is recorded about it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// What verification is told about it.
    pub(crate) said: Said,
    pub(crate) planned: Time,
    pub(crate) started: Time,
    pub(crate) ended: Time,
    pub(crate) attempts: u32,
    pub(crate) conflicts: u32,
    /// Conflicts among them that were deadlocks.
    pub(crate) deadlocks: u32,
    pub(crate) unknown: Unknown,
    pub(crate) round_trips: u32,
    /// The last attempt alone.
    pub(crate) service: Duration,
    /// The last attempt's COMMIT, where it was awaited by itself.
    pub(crate) commit: Option<Duration>,
    /// Time spent waiting for a connection of a pool. A closed loop has its
    /// own and never waits; replacing it is in `reconnects`.
    pub(crate) wait: Duration,
    /// Connections that were opened on the way.
    pub(crate) reconnects: Vec<Duration>,
    /// The last error.
    pub(crate) failure: Option<SqlFailure>,
}

/// What the loop does after an attempt or a look-up.
enum Next {
    End(Outcome, Said),
    Retry,
    LookUp,
}

/// What ended an await: its own result, the stop flag or the deadline.
enum Raced<T> {
    Done(T),
    Stopped,
    Deadline,
}

/// Runs one operation over a writer's slot.
pub(crate) struct Run<'a, W: Workload> {
    pub(crate) context: &'a Context<'a, W>,
    pub(crate) slot: &'a mut Slot<W>,
    pub(crate) writer: &'a mut W::Writer,
    pub(crate) operation: &'a mut W::Operation,
    pub(crate) pauses: &'a mut ChaCha8Rng,
}

impl<W: Workload> Run<'_, W> {
    /// Runs it to its end, however that comes.
    pub(crate) async fn end(mut self, planned: Time) -> Ended {
        let clock = self.context.clock;
        let mut ended = Ended {
            outcome: Outcome::Unfinished,
            said: Said::Unknown,
            planned,
            started: clock.now(),
            ended: planned,
            attempts: 0,
            conflicts: 0,
            deadlocks: 0,
            unknown: Unknown::default(),
            round_trips: 0,
            service: Duration::ZERO,
            commit: None,
            wait: Duration::ZERO,
            reconnects: Vec::new(),
            failure: None,
        };
        let deadline = self
            .context
            .load
            .retry
            .deadline_ms
            .map(|ms| planned + Duration::from_secs_f64(ms / 1e3));
        let (outcome, said) = self.attempts(&mut ended, deadline).await;
        ended.ended = clock.now();
        if outcome == Outcome::Unfinished {
            // Neither its attempts nor its unknowns belong to any sum.
            ended.unknown = Unknown::default();
        }
        ended.outcome = outcome;
        ended.said = said;
        ended
    }

    async fn attempts(&mut self, ended: &mut Ended, deadline: Option<Time>) -> (Outcome, Said) {
        // Attempts of this operation whose outcome is not known yet.
        let mut in_doubt = 0;
        loop {
            let mut next = self.attempt(ended, deadline, &mut in_doubt).await;
            if matches!(next, Next::LookUp) {
                next = self.look_up(ended, &mut in_doubt).await;
            }
            match next {
                Next::End(outcome, said) => return (outcome, said),
                Next::Retry | Next::LookUp => {}
            }
            if ended.attempts >= self.context.load.retry.max_attempts {
                return give_up(ended, in_doubt, "starved");
            }
            let pause = self.pause(ended.attempts);
            let clock = self.context.clock;
            match self.race(deadline, clock.sleep(pause)).await {
                Raced::Done(()) => {}
                Raced::Stopped => return (Outcome::Unfinished, Said::Unknown),
                Raced::Deadline => return give_up(ended, in_doubt, "deadline"),
            }
        }
    }

    /// One attempt, on a connection that is opened first where there is none.
    async fn attempt(
        &mut self,
        ended: &mut Ended,
        deadline: Option<Time>,
        in_doubt: &mut u64,
    ) -> Next {
        let context = self.context;
        let clock = context.clock;
        match self.connection(ended, deadline).await {
            Raced::Done(Ok(())) => {}
            Raced::Done(Err(failure)) => {
                let class = match failure.class {
                    Class::ConnectRefused => "connect_timeout",
                    class => class.name(),
                };
                ended.failure = Some(failure);
                let (outcome, said) = give_up(ended, *in_doubt, class);
                return Next::End(outcome, said);
            }
            Raced::Stopped => return Next::End(Outcome::Unfinished, Said::Unknown),
            Raced::Deadline => {
                let (outcome, said) = give_up(ended, *in_doubt, "deadline");
                return Next::End(outcome, said);
            }
        }
        let Some((conn, session)) = self.slot.get() else {
            return Next::Retry;
        };
        let began = clock.now();
        ended.attempts += 1;
        let attempt = context
            .workload
            .attempt(conn, session, self.writer, self.operation);
        let raced = race(context, deadline, attempt).await;
        ended.service = clock.now().since(began);
        let attempt = match raced {
            Raced::Done(attempt) => attempt,
            Raced::Stopped => {
                self.slot.abandon().await;
                return Next::End(Outcome::Unfinished, Said::Unknown);
            }
            Raced::Deadline => return self.past_deadline(ended, in_doubt).await,
        };
        ended.round_trips += attempt.round_trips;
        ended.commit = attempt.commit;
        let (failure, unknown) = match attempt.end {
            AttemptEnd::Committed => {
                // The slot that the doubtful attempts aimed at is now taken by
                // this one, so none of them committed.
                ended.unknown.absent += std::mem::take(in_doubt);
                return Next::End(Outcome::Committed, Said::Committed);
            }
            // An earlier attempt may still have done what this one was refused,
            // or be the reason why.
            AttemptEnd::Rejected(_) if *in_doubt > 0 => return Next::LookUp,
            AttemptEnd::Rejected(_) => return Next::End(Outcome::Rejected, Said::Failed),
            AttemptEnd::Failed(failure) => (failure, false),
            AttemptEnd::Unknown(failure) => (failure, true),
        };
        if failure.connection_is_gone() {
            self.slot.forget();
        }
        let conflict = !unknown && failure.is_conflict();
        let listed = failure
            .sqlstate
            .as_ref()
            .is_some_and(|state| context.load.retry.on.contains(state));
        let class = failure.class.name();
        let deadlock = failure.class == Class::Deadlock;
        ended.failure = Some(failure);
        if unknown {
            *in_doubt += 1;
            ended.unknown.total += 1;
        }
        ended.conflicts += u32::from(conflict);
        ended.deadlocks += u32::from(conflict && deadlock);
        if *in_doubt > 0 {
            Next::LookUp
        } else if conflict || listed {
            Next::Retry
        } else {
            Next::End(Outcome::Failed(class), Said::Failed)
        }
    }

    /// An attempt was cut off by the deadline: the connection is dropped, and
    /// if its COMMIT may be under way, its outcome is looked up.
    async fn past_deadline(&mut self, ended: &mut Ended, in_doubt: &mut u64) -> Next {
        self.slot.abandon().await;
        ended.failure = None;
        let workload = self.context.workload;
        if workload.claim(self.operation, Said::Failed).said == Said::Unknown {
            *in_doubt += 1;
            ended.unknown.total += 1;
            if let Next::End(outcome, said) = self.look_up(ended, in_doubt).await {
                return Next::End(outcome, said);
            }
        }
        let (outcome, said) = give_up(ended, *in_doubt, "deadline");
        Next::End(outcome, said)
    }

    /// Settles the attempts in doubt, as far as the database can say now.
    async fn look_up(&mut self, ended: &mut Ended, in_doubt: &mut u64) -> Next {
        for tried in 1..=LOOK_UPS {
            match self.connection(ended, None).await {
                Raced::Done(Ok(())) => {}
                Raced::Done(Err(_)) => break,
                Raced::Stopped | Raced::Deadline => {
                    return Next::End(Outcome::Unfinished, Said::Unknown);
                }
            }
            let Some((conn, session)) = self.slot.get() else {
                continue;
            };
            let look_up = self
                .context
                .workload
                .look_up(conn, session, self.writer, self.operation);
            let found = match race(self.context, None, look_up).await {
                Raced::Done(found) => found,
                Raced::Stopped | Raced::Deadline => {
                    self.slot.abandon().await;
                    return Next::End(Outcome::Unfinished, Said::Unknown);
                }
            };
            ended.round_trips += 1;
            match found {
                Ok(Found::Committed) => {
                    // Doubtful attempts of one operation are identical, and
                    // one slot holds one of them.
                    ended.unknown.committed += 1;
                    ended.unknown.absent += std::mem::take(in_doubt).saturating_sub(1);
                    return Next::End(Outcome::Committed, Said::Committed);
                }
                Ok(Found::Absent) => {
                    ended.unknown.absent += std::mem::take(in_doubt);
                    return Next::Retry;
                }
                Ok(Found::Pending) => return Next::Retry,
                Err(failure) => {
                    if failure.connection_is_gone() {
                        self.slot.forget();
                    }
                    let pause = self.pause(tried);
                    self.context.clock.sleep(pause).await;
                }
            }
        }
        let (outcome, said) = give_up(ended, *in_doubt, "unresolved");
        Next::End(outcome, said)
    }

    /// Sees to it that the slot holds a connection.
    async fn connection(
        &mut self,
        ended: &mut Ended,
        deadline: Option<Time>,
    ) -> Raced<Result<(), SqlFailure>> {
        let context = self.context;
        let clock = context.clock;
        let asked = clock.now();
        let opening = self
            .slot
            .ensure(context.target, context.workload, asked + REOPEN_LIMIT);
        let raced = race(context, deadline, opening).await;
        match raced {
            Raced::Done(Ok(opened)) => {
                ended.reconnects.extend(opened.map(|how| how.took));
                Raced::Done(Ok(()))
            }
            Raced::Done(Err(failure)) => Raced::Done(Err(failure)),
            Raced::Stopped => Raced::Stopped,
            Raced::Deadline => Raced::Deadline,
        }
    }

    /// Full jitter: anything from nothing to the bound.
    fn pause(&mut self, attempts: u32) -> Duration {
        let bound_ms = self.context.load.retry.pause_bound_ms(attempts);
        let us = (bound_ms * 1e3).max(0.0) as u64;
        Duration::from_micros(self.pauses.random_range(0..=us))
    }

    async fn race<T>(&self, deadline: Option<Time>, work: impl Future<Output = T>) -> Raced<T> {
        race(self.context, deadline, work).await
    }
}

/// An operation that ends without success: for good, or with a doubt that only
/// verification can settle.
fn give_up(ended: &mut Ended, in_doubt: u64, class: &'static str) -> (Outcome, Said) {
    if in_doubt == 0 {
        return (Outcome::Failed(class), Said::Failed);
    }
    ended.unknown.unresolved += in_doubt;
    (Outcome::Failed("unresolved"), Said::Unknown)
}

/// Runs `work` until it is done, the shard is stopped or the deadline strikes.
async fn race<W: Workload, T>(
    context: &Context<'_, W>,
    deadline: Option<Time>,
    work: impl Future<Output = T>,
) -> Raced<T> {
    let mut stop = context.stop.clone();
    let stopped = async {
        tokio::select! {
            biased;
            () = stop.wait() => Raced::Stopped,
            () = until(context, deadline) => Raced::Deadline,
        }
    };
    tokio::select! {
        biased;
        done = work => Raced::Done(done),
        ended = stopped => ended,
    }
}

async fn until<W: Workload>(context: &Context<'_, W>, deadline: Option<Time>) {
    match deadline {
        Some(at) => context.clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}
