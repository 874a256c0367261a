//! Opening over pipes in virtual time: what is retried, for how long, and what
//! it leaves behind.

// The lint knows test functions only, not their helpers.
#![allow(clippy::unwrap_used)]

mod fake;

use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, simulated_runtime};
use fabric_target::{Class, Kind, Target};
use fake::{Answer, Fake};

fn target(fake: &Fake, clock: Clock) -> Target {
    Target::simulator(vec!["us-east-1".to_owned()], Arc::new(fake.clone()), clock)
}

const WAKING: Answer = Answer::Refuse(
    "08006",
    "unable to accept connection, waking up cluster, please retry later",
    None,
);
const RATE: Answer = Answer::Refuse("53400", "Unable to accept connection, rate exceeded.", None);
const FULL: Answer = Answer::Refuse(
    "53300",
    "Unable to accept connection, too many open connections.",
    None,
);
const DENIED: Answer = Answer::Refuse(
    "08006",
    "unable to accept connection, access denied",
    Some("Signature expired: 20260101T000000Z is now earlier than 20260101T001501Z"),
);

#[test]
fn a_session_opens_and_says_who_it_is() {
    simulated_runtime().unwrap().block_on(async {
        let (fake, clock) = (Fake::default(), Clock::simulated());
        let target = target(&fake, clock);
        assert_eq!(target.kind(), Kind::Simulator);
        assert_eq!(target.endpoints()[0].name, "us-east-1");
        assert_eq!(target.describe().url, "sim:us-east-1");
        let conn = target
            .connect(0, clock.now() + Duration::from_secs(5))
            .await
            .unwrap();
        assert_eq!(
            (conn.refusals, conn.waking, conn.took),
            (0, Duration::ZERO, Duration::ZERO)
        );
        let life = conn.retire_at.unwrap().since(conn.opened);
        assert!(
            (45.0..=50.0).contains(&(life.as_secs_f64() / 60.0)),
            "{life:?}"
        );
        assert_eq!(target.round_trip(&conn).await.unwrap(), Duration::ZERO);
        let startup = &fake.seen()[0].startup;
        for pair in [
            ("user", "admin"),
            ("database", "postgres"),
            ("application_name", "dsql-fabric"),
        ] {
            assert!(
                startup.contains(&(pair.0.to_owned(), pair.1.to_owned())),
                "{startup:?}"
            );
        }
    });
}

#[test]
fn refusals_that_pass_are_waited_out() {
    simulated_runtime().unwrap().block_on(async {
        let fake = Fake::new([RATE, WAKING, WAKING, Answer::HangUp, FULL, Answer::Silence]);
        let clock = Clock::simulated();
        let conn = target(&fake, clock)
            .connect(0, clock.now() + Duration::from_secs(60))
            .await
            .unwrap();
        assert_eq!(conn.refusals, 6);
        assert_eq!(fake.seen().len(), 7);
        // The silent one alone took 10 s.
        assert!(conn.took > Duration::from_secs(10) && conn.took < Duration::from_secs(30));
        assert!(conn.waking > Duration::from_secs(10) && conn.waking < conn.took);
    });
}

#[test]
fn the_deadline_ends_it_with_the_last_refusal() {
    simulated_runtime().unwrap().block_on(async {
        let fake = Fake::new([FULL; 1_000]);
        let clock = Clock::simulated();
        let limit = Duration::from_secs(30);
        let failure = target(&fake, clock)
            .connect(0, clock.now() + limit)
            .await
            .unwrap_err();
        assert_eq!(failure.class, Class::ConnectRefused);
        assert_eq!(failure.sqlstate.as_deref(), Some("53300"));
        assert!(clock.now().since_origin() <= limit);
        assert!(
            failure
                .message
                .starts_with("us-east-1: 53300: Unable to accept"),
            "{failure}"
        );
        assert!(failure.message.contains(" tries in "), "{failure}");
        // Pauses grow: it did not hammer.
        assert!(
            (5..40).contains(&fake.seen().len()),
            "{}",
            fake.seen().len()
        );
    });
}

#[test]
fn a_frozen_endpoint_ends_at_the_deadline() {
    simulated_runtime().unwrap().block_on(async {
        let fake = Fake::new([Answer::Silence; 10]);
        let clock = Clock::simulated();
        let limit = Duration::from_secs(3);
        let failure = target(&fake, clock)
            .connect(0, clock.now() + limit)
            .await
            .unwrap_err();
        assert_eq!(failure.class, Class::ConnectRefused);
        assert_eq!(clock.now().since_origin(), limit);
        let late = target(&fake, clock)
            .connect(0, clock.now())
            .await
            .unwrap_err();
        assert!(late.message.contains("no time was left"), "{late}");
    });
}

#[test]
fn what_will_not_change_is_not_retried() {
    simulated_runtime().unwrap().block_on(async {
        let clock = Clock::simulated();
        let soon = || clock.now() + Duration::from_secs(60);

        let fake = Fake::new([DENIED; 9]);
        let failure = target(&fake, clock).connect(0, soon()).await.unwrap_err();
        assert_eq!(failure.class, Class::AccessDenied);
        assert!(
            failure.message.contains("hint: Signature expired"),
            "{failure}"
        );
        assert_eq!(fake.seen().len(), 1);

        let fake = Fake::new([Answer::HangUp; 9]);
        let failure = target(&fake, clock).connect(0, soon()).await.unwrap_err();
        assert_eq!(failure.class, Class::ConnectRefused);
        assert_eq!(fake.seen().len(), 3);
        assert!(clock.now().since_origin() < Duration::from_secs(1));

        let fake = Fake::new([Answer::Refuse(
            "3D000",
            "database \"x\" does not exist",
            None,
        )]);
        let failure = target(&fake, clock).connect(0, soon()).await.unwrap_err();
        assert_eq!(failure.class, Class::Other);
    });
}

#[test]
fn pauses_follow_the_seed() {
    let took = |seed: u64| {
        simulated_runtime().unwrap().block_on(async {
            let fake = Fake::new([RATE; 6]);
            let clock = Clock::simulated();
            let target = target(&fake, clock).with_seed(seed);
            let conn = target
                .connect(0, clock.now() + Duration::from_secs(60))
                .await
                .unwrap();
            (conn.took, conn.retire_at)
        })
    };
    assert_eq!(took(7), took(7));
    assert_ne!(took(7), took(8));
}

#[test]
fn dropping_an_idle_session_says_goodbye_and_a_busy_one_hangs_up() {
    simulated_runtime().unwrap().block_on(async {
        let clock = Clock::simulated();
        let soon = clock.now() + Duration::from_secs(60);
        let fake = Fake::default().frozen();
        let target = target(&fake, clock);

        let idle = target.connect(0, soon).await.unwrap();
        drop(idle);
        clock.sleep(Duration::from_micros(1)).await;
        let seen = &fake.seen()[0];
        assert!(seen.ended && seen.terminated);

        let busy = target.connect(0, soon).await.unwrap();
        let waited = clock
            .timeout(Duration::from_secs(2), target.round_trip(&busy))
            .await;
        assert!(waited.is_none());
        assert!(!busy.is_lost());
        busy.abandon().await;
        clock.sleep(Duration::from_micros(1)).await;
        let seen = &fake.seen()[1];
        assert!(seen.ended && !seen.terminated && seen.queries == 1);
        // No cancel request: DSQL ignores them.
        assert_eq!(fake.seen().len(), 2);
    });
}

#[test]
fn a_server_that_goes_away_is_a_lost_connection() {
    simulated_runtime().unwrap().block_on(async {
        let clock = Clock::simulated();
        let fake = Fake::default();
        let target = target(&fake, clock);
        let conn = target
            .connect(0, clock.now() + Duration::from_secs(5))
            .await
            .unwrap();
        // The fake hangs up on what it does not know, such as Parse.
        let error = conn.client.prepare("SELECT 1").await.unwrap_err();
        let failure = fabric_target::SqlFailure::from_driver(&error);
        assert_eq!(failure.class, Class::ConnectionLost);
        assert!(failure.connection_is_gone() && failure.outcome_unknown_at_commit());
        assert!(conn.is_lost());
        let again = target.round_trip(&conn).await.unwrap_err();
        assert_eq!(again.class, Class::ConnectionLost);
    });
}

#[test]
fn isolation_levels_are_those_of_the_database() {
    simulated_runtime().unwrap().block_on(async {
        let target = target(&Fake::default(), Clock::simulated());
        assert!(target.supports_isolation("repeatable_read"));
        assert!(target.supports_isolation("REPEATABLE READ"));
        assert!(!target.supports_isolation("SERIALIZABLE"));
    });
}
