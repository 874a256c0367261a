//! Many seeds of small reps on a simulator where a great deal goes wrong.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use sim::{Cluster, FaultCounts, FaultPlan, Late};
use target::{BoxFuture, Conn, Dial, SqlFailure, Stream, Target};
use workload::{AttemptEnd, Claim, Found, Said, Workload};

use super::backend::assert_ok;

/// Attempts of one operation.
const ATTEMPTS: u32 = 25;

/// What became of everything, over all seeds.
#[derive(Debug, Default)]
struct Tally {
    committed: u32,
    rejected: u32,
    given_up: u32,
    unknown: u32,
    found_committed: u32,
    found_absent: u32,
    found_pending: u32,
    /// Attempts that failed while an earlier one was in doubt.
    resent_in_vain: u32,
}

/// Pipes straight to the simulator.
struct Pipes(Cluster);

impl Dial for Pipes {
    fn dial(&self, endpoint: usize) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(async move { Ok(Box::new(self.0.dial(endpoint)?) as Box<dyn Stream>) })
    }
}

/// A plain driver: one writer, its operations one after the other.
struct Driver<'a, W: Workload> {
    target: &'a Target,
    workload: &'a W,
    index: u32,
    tally: &'a RefCell<Tally>,
    open: Option<(Conn, W::Session)>,
}

impl<W: Workload> Driver<'_, W> {
    async fn run(mut self) -> Vec<Claim> {
        let mut writer = self.workload.writer(self.index);
        let mut claims = Vec::new();
        for n in 0.. {
            let Some(mut operation) = self.workload.operation(&mut writer, n) else {
                break;
            };
            let said = self.finish(&mut writer, &mut operation).await;
            claims.push(self.workload.claim(&operation, said));
        }
        claims
    }

    /// Takes the connection, or opens one.
    async fn connection(&mut self) -> (Conn, W::Session) {
        if let Some((conn, session)) = self.open.take()
            && !conn.is_lost()
        {
            return (conn, session);
        }
        loop {
            let endpoint = self.index as usize % self.target.endpoints().len();
            let deadline = self.target.clock().now() + Duration::from_secs(10);
            if let Ok(conn) = self.target.connect(endpoint, deadline).await
                && let Ok(session) = self.workload.session(&conn).await
            {
                return (conn, session);
            }
            self.pause(1).await;
        }
    }

    async fn pause(&self, attempt: u32) {
        // Some spread, so that writers do not march in step.
        let ms = (attempt * 7 + self.index * 3) % 20 + 1;
        let span = Duration::from_millis(ms.into());
        self.target.clock().sleep(span).await;
    }

    async fn finish(&mut self, writer: &mut W::Writer, operation: &mut W::Operation) -> Said {
        let mut in_doubt = false;
        for n in 1..=ATTEMPTS {
            let (conn, session) = self.connection().await;
            let attempt = self.workload.attempt(&conn, &session, writer, operation);
            let (failure, unknown) = match attempt.await.end {
                AttemptEnd::Committed => {
                    self.tally.borrow_mut().committed += 1;
                    self.open = Some((conn, session));
                    return Said::Committed;
                }
                AttemptEnd::Failed(failure) => (failure, false),
                AttemptEnd::Unknown(failure) => (failure, true),
                AttemptEnd::Rejected(why) => {
                    assert!(!in_doubt, "{why}, while in doubt");
                    self.tally.borrow_mut().rejected += 1;
                    self.open = Some((conn, session));
                    return Said::Failed;
                }
            };
            if !failure.connection_is_gone() {
                self.open = Some((conn, session));
            }
            self.tally.borrow_mut().unknown += u32::from(unknown);
            self.tally.borrow_mut().resent_in_vain += u32::from(in_doubt && !unknown);
            in_doubt |= unknown;
            if in_doubt {
                match self.look_up(writer, operation).await {
                    Found::Committed => return Said::Committed,
                    Found::Absent => in_doubt = false,
                    Found::Pending => {}
                }
            }
            self.pause(n).await;
        }
        self.tally.borrow_mut().given_up += 1;
        Said::Failed
    }

    async fn look_up(&mut self, writer: &mut W::Writer, operation: &mut W::Operation) -> Found {
        loop {
            let (conn, session) = self.connection().await;
            let found = self
                .workload
                .look_up(&conn, &session, writer, operation)
                .await;
            if let Ok(found) = found {
                self.open = Some((conn, session));
                let mut tally = self.tally.borrow_mut();
                match found {
                    Found::Committed => tally.found_committed += 1,
                    Found::Absent => tally.found_absent += 1,
                    Found::Pending => tally.found_pending += 1,
                }
                return found;
            }
            self.pause(1).await;
        }
    }
}

/// Repeats a step that is idempotent until it goes through.
async fn repeat<T>(target: &Target, step: impl AsyncFn(&Conn) -> Result<T, SqlFailure>) -> T {
    for _ in 0..50 {
        let deadline = target.clock().now() + Duration::from_secs(10);
        // The last endpoint: verification goes through the other one.
        let other = target.endpoints().len() - 1;
        if let Ok(conn) = target.connect(other, deadline).await {
            match step(&conn).await {
                Ok(done) => return done,
                Err(failure) => assert!(
                    failure.is_transient() || failure.connection_is_gone(),
                    "{failure:?}"
                ),
            }
        }
    }
    panic!("never went through");
}

/// One rep of a workload with one seed.
async fn rep<W: Workload>(
    what: &str,
    seed: u64,
    plan: &FaultPlan,
    tally: &RefCell<Tally>,
    workload: impl FnOnce(Clock) -> W,
) -> FaultCounts {
    let clock = Clock::simulated();
    let preset = sim::preset("us-pair-in-region").unwrap();
    let cluster = Cluster::new(preset, seed, plan.clone(), clock);
    let pipes = Arc::new(Pipes(cluster.clone()));
    let target = Target::simulator(cluster.endpoints(), pipes, clock);
    let workload = workload(clock);
    repeat(&target, async |conn| workload.prepare(conn).await).await;
    let drivers = (0..workload.writers()).map(|index| {
        let driver = Driver {
            target: &target,
            workload: &workload,
            index,
            tally,
            open: None,
        };
        driver.run()
    });
    let claims = futures_util::future::join_all(drivers).await.concat();
    assert_eq!(claims.len(), 16);
    // Whatever is still on its way lands before the books are closed.
    clock.sleep(Duration::from_secs(2)).await;
    let verified = repeat(&target, async |conn| {
        workload.verify(conn, &claims, &[]).await
    })
    .await;
    assert_ok(&verified, &format!("{what}, seed {seed}"));
    repeat(&target, async |conn| workload.clean(conn).await).await;
    let left = repeat(&target, async |conn| workload.clean(conn).await).await;
    assert_eq!(left.rows, 0);
    cluster.faults_struck()
}

/// Runs a workload of 16 operations with so many seeds, each with other faults, and
/// verifies each. What did not happen was not tested: every kind of fault must
/// have struck, and every answer of a look-up but those that `never` comes.
pub fn many_seeds<W: Workload>(
    what: &str,
    seeds: u64,
    never: &[&str],
    workload: impl Fn(u64, Clock) -> W,
) {
    let plan = FaultPlan {
        statement_unavailable: 0.01,
        commit_unavailable_not_applied: 0.05,
        commit_unavailable_applied: 0.05,
        drop_before_commit: 0.05,
        drop_after_commit: 0.05,
        drop_late_commit: 0.10,
        late_ms: Late {
            min: 0.0,
            max: 100.0,
        },
        ..FaultPlan::default()
    };
    let fast = std::env::var_os("FABRIC_TEST_FAST").is_some();
    let seeds = if fast { 5 } else { seeds };
    let tally = RefCell::new(Tally::default());
    let mut struck = FaultCounts::default();
    for seed in 0..seeds {
        let runtime = clock::simulated_runtime().unwrap();
        let rep = rep(what, seed, &plan, &tally, |clock| workload(seed, clock));
        let faults = runtime.block_on(rep);
        struck.statement_unavailable += faults.statement_unavailable;
        struck.commit_unavailable_not_applied += faults.commit_unavailable_not_applied;
        struck.commit_unavailable_applied += faults.commit_unavailable_applied;
        struck.drop_before_commit += faults.drop_before_commit;
        struck.drop_after_commit += faults.drop_after_commit;
        struck.drop_late_commit += faults.drop_late_commit;
        struck.late_commit_applied += faults.late_commit_applied;
        struck.late_commit_refused += faults.late_commit_refused;
    }
    let sum = tally.into_inner();
    println!("{what}: {struck:?}\n{sum:?}");
    let least = seeds / 6;
    for (kind, times) in [
        ("statement_unavailable", struck.statement_unavailable),
        (
            "commit_unavailable_not_applied",
            struck.commit_unavailable_not_applied,
        ),
        (
            "commit_unavailable_applied",
            struck.commit_unavailable_applied,
        ),
        ("drop_before_commit", struck.drop_before_commit),
        ("drop_after_commit", struck.drop_after_commit),
        ("drop_late_commit", struck.drop_late_commit),
        ("late_commit_applied", struck.late_commit_applied),
        ("late_commit_refused", struck.late_commit_refused),
        ("found_committed", sum.found_committed.into()),
        ("found_absent", sum.found_absent.into()),
        ("found_pending", sum.found_pending.into()),
        ("rejected", sum.rejected.into()),
    ] {
        if never.contains(&kind) {
            assert_eq!(times, 0, "{what}: {kind}");
        } else {
            assert!(
                times >= least,
                "{what}: {kind} only {times} times in {seeds} seeds"
            );
        }
    }
}
