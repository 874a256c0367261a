//! The player: barriers, waits, errors, and what it leaves behind.

#![allow(clippy::unwrap_used)]

mod common;

use std::slice::from_ref;
use std::time::Duration;

use common::{on_postgres, on_simulator, played, played_with, script, settings, texts};
use fabric_isolation::{Outcome, Report, StepReport, StepResult, Wait};
use plan::Isolation;
use sim::{FaultPlan, Outage};

const RC: &[Isolation] = &[Isolation::ReadCommitted];
const RR: &[Isolation] = &[Isolation::RepeatableRead];
const NEVER: &str = "anomaly: final is nothing";

fn outcome(report: &Report) -> &Outcome {
    &report.scenarios[0].results[0].outcome
}

fn step(report: &Report, n: usize) -> &StepReport {
    &report.scenarios[0].results[0].steps[n - 1]
}

#[test]
fn a_step_that_waits_lets_the_others_go_on() {
    let script = script(&format!(
        "1 T1 BEGIN\n2 T2 BEGIN\n3 T1 UPDATE {{t}} SET value = 11 WHERE id = 1\n\
         4 T2 UPDATE {{t}} SET value = value + 1 WHERE id = 1\n\
         5 T1 SELECT value FROM {{t}}\n6 T1 COMMIT\n7 T2 COMMIT\n{NEVER}\n"
    ));
    on_postgres(async |target| {
        let report = played(&target, &[script], RC).await;
        let wait = Wait {
            step: 4,
            until_step: Some(6),
        };
        assert_eq!(*outcome(&report), Outcome::Waited { wait });
        assert!(!step(&report, 5).waited);
        let final_rows = report.scenarios[0].results[0].final_rows.as_ref();
        assert_eq!(final_rows.unwrap()[0][1].as_deref(), Some("12"));
    });
}

/// Each behind a lock of its own: which of two that wait for one row gets it is not
/// decided by who came first (the second one won here in one run of ten).
#[test]
fn two_may_wait_at_once() {
    let script = script(&format!(
        "1 T1 BEGIN\n2 T2 BEGIN\n3 T3 BEGIN\n4 T1 UPDATE {{t}} SET value = value + 1 WHERE id = 1\n\
         5 T2 UPDATE {{t}} SET value = value + 1 WHERE id = 2\n\
         6 T2 UPDATE {{t}} SET value = value + 1 WHERE id = 1\n\
         7 T3 UPDATE {{t}} SET value = value + 1 WHERE id = 2\n\
         8 T1 COMMIT\n9 T2 COMMIT\n10 T3 COMMIT\n{NEVER}\n"
    ));
    on_postgres(async |target| {
        let report = played(&target, &[script], RC).await;
        assert_eq!(step(&report, 6).until_step, Some(8), "{report:#?}");
        assert_eq!(step(&report, 7).until_step, Some(9), "{report:#?}");
    });
}

/// T1 holds the lock until after a step that T2 cannot send.
fn stuck() -> fabric_isolation::Script {
    script(&format!(
        "1 T1 BEGIN\n2 T2 BEGIN\n3 T1 UPDATE {{t}} SET value = 11 WHERE id = 1\n\
         4 T2 UPDATE {{t}} SET value = 12 WHERE id = 1\n5 T2 COMMIT\n6 T1 COMMIT\n{NEVER}\n"
    ))
}

#[test]
fn a_wait_without_an_end_is_a_result() {
    on_postgres(async |target| {
        let settings = settings(RC, Duration::from_millis(300));
        let after = script(&format!("1 T1 BEGIN\n2 T1 COMMIT\n{NEVER}\n"));
        let scripts = [stuck(), after];
        let report = played_with(&target, &scripts, &settings, std::future::pending()).await;
        let wait = Wait {
            step: 4,
            until_step: None,
        };
        assert_eq!(*outcome(&report), Outcome::Waited { wait });
        assert_eq!(step(&report, 4).result, StepResult::Unanswered);
        assert_eq!(step(&report, 6).result, StepResult::Skipped);
        assert_eq!(texts(&report, 1), ["prevented"]);
        assert!(report.complete);
    });
}

#[test]
fn stopping_leaves_nothing_behind() {
    on_postgres(async |target| {
        let settings = settings(RC, Duration::from_secs(60));
        // T2 waits then, and T1 has its transaction open.
        let soon = target.clock().sleep(Duration::from_millis(500));
        let report = played_with(&target, &[stuck(), stuck()], &settings, soon).await;
        assert_eq!(texts(&report, 0), ["NOT PLAYED"]);
        assert_eq!(texts(&report, 1), ["NOT PLAYED"]);
        assert!(!report.complete);
    });
}

#[test]
fn an_error_ends_the_transaction_and_not_the_play() {
    // The second INSERT of T1 fails; T1 is rolled back at once, so T2 need not wait.
    let script = script(&format!(
        "1 T1 BEGIN\n2 T2 BEGIN\n3 T1 INSERT INTO {{t}} VALUES (3, 30)\n\
         4 T1 INSERT INTO {{t}} VALUES (1, 30)\n5 T1 UPDATE {{t}} SET value = 0\n\
         6 T2 INSERT INTO {{t}} VALUES (3, 31)\n7 T1 COMMIT\n8 T1 SELECT id FROM {{t}}\n\
         9 T2 COMMIT\n{NEVER}\n"
    ));
    let check = |report: &Report| {
        assert_eq!(texts(report, 0), ["blocked: 23505, step 4"]);
        let message = step(report, 4).message.as_deref().unwrap();
        assert!(message.contains("\"t_pkey\""), "{message}");
        assert_eq!(step(report, 5).result, StepResult::Skipped);
        assert_eq!(step(report, 7).result, StepResult::Skipped);
        // After its transaction a connection goes on by itself.
        assert_eq!(step(report, 8).count, Some(2));
        assert_eq!(step(report, 9).result, StepResult::Done);
        let rows = report.scenarios[0].results[0].final_rows.as_ref().unwrap();
        assert_eq!(rows[2][1].as_deref(), Some("31"));
    };
    on_postgres(async |target| check(&played(&target, from_ref(&script), RR).await));
    on_simulator("single-region", FaultPlan::default(), async |target| {
        check(&played(&target, from_ref(&script), RR).await);
    });
}

#[test]
fn a_statement_that_says_nothing_about_isolation_is_no_result() {
    let script = script(&format!(
        "1 T1 BEGIN\n2 T1 SELECT nothing FROM {{t}}\n3 T1 COMMIT\n{NEVER}\n"
    ));
    on_postgres(async |target| {
        let report = played(&target, from_ref(&script), RR).await;
        let Outcome::Failed { reason } = outcome(&report) else {
            panic!("{report:#?}");
        };
        assert!(reason.starts_with("step 2: 42703"), "{reason}");
        assert!(!report.complete);
    });
}

#[test]
fn an_unsupported_statement_makes_it_not_applicable() {
    let script = script(&format!(
        "1 T1 BEGIN\n2 T1 SELECT sum(value) OVER () FROM {{t}} FOR UPDATE\n3 T1 COMMIT\n{NEVER}\n"
    ));
    let check = |report: &Report| {
        let Outcome::NotApplicable { reason } = outcome(report) else {
            panic!("{report:#?}");
        };
        assert!(reason.starts_with("step 2: 0A000"), "{reason}");
        assert!(report.complete);
    };
    on_postgres(async |target| check(&played(&target, from_ref(&script), RR).await));
    on_simulator("single-region", FaultPlan::default(), async |target| {
        check(&played(&target, from_ref(&script), RR).await);
    });
}

/// One transaction that writes.
fn simple() -> fabric_isolation::Script {
    script(&format!(
        "1 T1 BEGIN\n2 T1 UPDATE {{t}} SET value = 0\n3 T1 COMMIT\n{NEVER}\n"
    ))
}

#[test]
fn what_gets_in_the_way_is_played_again_and_then_told() {
    let sometimes = FaultPlan {
        drop_before_commit: 0.3,
        ..FaultPlan::default()
    };
    on_simulator("single-region", sometimes, async |target| {
        let scripts = vec![simple(); 30];
        let report = played(&target, &scripts, RR).await;
        let results: Vec<_> = report.scenarios.iter().map(|s| &s.results[0]).collect();
        let again = results.iter().filter(|played| played.tries > 1);
        assert!(again.count() > 0, "no connection was lost");
        let ended = results.iter().filter(|played| played.text == "prevented");
        assert!(ended.count() > 20, "{results:#?}");
        assert!(fabric_isolation::matrix(&report).contains("was played 2 times"));
    });
    let always = FaultPlan {
        drop_before_commit: 1.0,
        ..FaultPlan::default()
    };
    on_simulator("single-region", always, async |target| {
        let report = played(&target, &[simple()], RR).await;
        assert_eq!(texts(&report, 0), ["NOT PLAYED"]);
    });
}

#[test]
fn where_nobody_can_tell_a_long_silence_is_a_wait() {
    // The second region freezes while its connection is asked, for longer than the
    // limit; the first goes on.
    let script = script(&format!(
        "1 T1 BEGIN\n2 T2 BEGIN\n3 T2 SELECT id FROM {{t}}\n4 T1 SELECT id FROM {{t}}\n\
         5 T1 COMMIT\n6 T2 COMMIT\n{NEVER}\n"
    ));
    let mut waited = 0;
    for from_ms in (0..400).step_by(20) {
        let frozen = FaultPlan {
            frozen: vec![Outage {
                endpoint: 1,
                from_ms: f64::from(from_ms),
                to_ms: f64::from(from_ms) + 3_000.0,
            }],
            ..FaultPlan::default()
        };
        on_simulator("us-pair-in-region", frozen, async |target| {
            let settings = settings(RR, Duration::from_secs(2));
            let report = played_with(
                &target,
                from_ref(&script),
                &settings,
                std::future::pending(),
            )
            .await;
            if let Outcome::Waited { wait } = outcome(&report) {
                waited += 1;
                assert_eq!(step(&report, wait.step).session, "T2");
                assert!(wait.until_step >= Some(wait.step), "{wait:?}");
            }
        });
    }
    assert!(waited > 0, "no step was frozen");
}
