//! Sockets, TLS and tokens, against a server of our own on loopback.

// The lint knows test functions only, not their helpers.
#![allow(clippy::unwrap_used)]

mod fake;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use clock::{Clock, Time, real_runtime};
use fabric_target::{Class, Options, Target};
use fake::{Answer, Fake, Identity};

const HOST: &str = "abcdefghijklmnopqrstuvwxyz.dsql.us-east-1.on.aws";

fn soon(clock: Clock) -> Time {
    clock.now() + Duration::from_secs(20)
}

/// Credentials that fail as often as told at first, and count the askings.
#[derive(Clone, Debug, Default)]
struct Counting {
    asked: Arc<AtomicUsize>,
    failures: Arc<AtomicUsize>,
}

impl Counting {
    fn failing(times: usize) -> Counting {
        let counting = Counting::default();
        counting.failures.store(times, Ordering::SeqCst);
        counting
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl ProvideCredentials for Counting {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let left = self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        future::ProvideCredentials::ready(match left {
            Ok(_) => Err(CredentialsError::not_loaded("the metadata service is busy")),
            Err(_) => Ok(Credentials::new(
                "AKIDEXAMPLE",
                "marked-secret-key",
                Some("marked-session-token".to_owned()),
                None,
                "test",
            )),
        })
    }
}

/// A DSQL target whose one endpoint is the fake server.
fn dsql(port: u16, query: &str, options: Options) -> Target {
    let url = format!("dsql://{HOST}:{port}?hostaddr=127.0.0.1{query}");
    Target::from_url(&url, options.environment::<&str, &str>([])).unwrap()
}

fn on_loopback(test: impl AsyncFnOnce(Clock)) {
    real_runtime().unwrap().block_on(test(Clock::real()));
}

#[test]
fn dsql_begins_with_tls_sni_alpn_and_a_token() {
    on_loopback(async |clock| {
        let identity = Identity::new(&[HOST]);
        let fake = Fake::default().asking_password();
        let address = fake.clone().serve(&identity, true).await;
        let options = Options::new(clock).credentials(Counting::default());
        let target = dsql(
            address.port(),
            &format!("&ca={}", identity.ca_path()),
            options,
        );
        assert_eq!(target.endpoints()[0].name, "us-east-1");
        let conn = target.connect(0, soon(clock)).await.unwrap();
        target.round_trip(&conn).await.unwrap();
        assert!(conn.retire_at.is_some());

        let seen = &fake.seen()[0];
        assert!(seen.direct);
        assert_eq!(seen.sni.as_deref(), Some(HOST));
        assert_eq!(seen.alpn.as_deref(), Some("postgresql"));
        assert!(
            seen.startup
                .contains(&("user".to_owned(), "admin".to_owned()))
        );
        assert!(
            seen.startup
                .contains(&("database".to_owned(), "postgres".to_owned()))
        );

        let token = seen.password.clone().unwrap();
        let (host, query) = token.split_once("/?").unwrap();
        assert_eq!(host, HOST);
        let value = |key: &str| {
            query
                .split('&')
                .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
                .unwrap_or_else(|| panic!("{key} is missing"))
        };
        assert_eq!(value("Action"), "DbConnectAdmin");
        assert_eq!(value("X-Amz-Algorithm"), "AWS4-HMAC-SHA256");
        assert_eq!(value("X-Amz-Expires"), "900");
        assert_eq!(value("X-Amz-SignedHeaders"), "host");
        assert_eq!(value("X-Amz-Signature").len(), 64);
        assert_eq!(value("X-Amz-Security-Token"), "marked-session-token");
        let scope: Vec<&str> = value("X-Amz-Credential").split("%2F").collect();
        assert_eq!(scope[0], "AKIDEXAMPLE");
        assert_eq!(scope[2..], ["us-east-1", "dsql", "aws4_request"]);
    });
}

#[test]
fn a_role_gets_the_other_action() {
    on_loopback(async |clock| {
        let identity = Identity::new(&[HOST]);
        let fake = Fake::default().asking_password();
        let address = fake.clone().serve(&identity, true).await;
        let options = Options::new(clock).credentials(Counting::default());
        let query = format!("&user=loader&ca={}", identity.ca_path());
        let target = dsql(address.port(), &query, options);
        target.connect(0, soon(clock)).await.unwrap();
        let seen = &fake.seen()[0];
        assert!(
            seen.startup
                .contains(&("user".to_owned(), "loader".to_owned()))
        );
        assert!(
            seen.password
                .as_deref()
                .unwrap()
                .contains("?Action=DbConnect&")
        );
    });
}

#[test]
fn a_server_without_direct_tls_is_asked_the_old_way_once() {
    on_loopback(async |clock| {
        let identity = Identity::new(&[HOST]);
        let fake = Fake::default().asking_password();
        let address = fake.clone().serve(&identity, false).await;
        let options = Options::new(clock)
            .credentials(Counting::default())
            .environment([("FABRIC_CA_FILE", identity.ca_path())]);
        let url = format!("dsql://{HOST}:{}?hostaddr=127.0.0.1", address.port());
        let target = Target::from_url(&url, options).unwrap();
        let first = target.connect(0, soon(clock)).await.unwrap();
        let second = target.connect(0, soon(clock)).await.unwrap();
        assert_eq!((first.refusals, second.refusals), (0, 0));
        let seen = fake.seen();
        assert_eq!(seen.len(), 2);
        for one in seen {
            assert!(!one.direct);
            assert_eq!(one.sni.as_deref(), Some(HOST));
            assert_eq!(one.alpn.as_deref(), Some("postgresql"));
        }
    });
}

#[test]
fn a_certificate_that_is_not_trusted_or_not_its_own_is_refused() {
    on_loopback(async |clock| {
        let identity = Identity::new(&[HOST]);
        let other = Identity::new(&["other.dsql.us-east-1.on.aws"]);
        let fake = Fake::default().asking_password();
        let address = fake.clone().serve(&identity, true).await;
        let options = || Options::new(clock).credentials(Counting::default());

        let target = dsql(
            address.port(),
            &format!("&ca={}", other.ca_path()),
            options(),
        );
        let failure = target.connect(0, soon(clock)).await.unwrap_err();
        assert_eq!(failure.class, Class::ConnectRefused);
        assert!(
            failure
                .message
                .starts_with(&format!("{HOST}:{} (us-east-1): TLS: ", address.port())),
            "{failure}"
        );
        assert!(
            failure.message.contains("issuer is not trusted") && failure.message.contains("ca="),
            "{failure}"
        );

        // No root of this machine knows it either.
        if let Ok(target) = Target::from_url(
            &format!("dsql://{HOST}:{}?hostaddr=127.0.0.1", address.port()),
            options().environment::<&str, &str>([]),
        ) {
            let failure = target.connect(0, soon(clock)).await.unwrap_err();
            assert_eq!(failure.class, Class::ConnectRefused);
        }

        let address = fake.clone().serve(&other, true).await;
        let target = dsql(
            address.port(),
            &format!("&ca={}", other.ca_path()),
            options(),
        );
        let failure = target.connect(0, soon(clock)).await.unwrap_err();
        assert!(failure.message.contains("not valid for name"), "{failure}");
        // No password went to any of them.
        assert!(fake.seen().is_empty());
    });
}

#[test]
fn postgres_modes_mean_what_they_mean_to_libpq() {
    on_loopback(async |clock| {
        let identity = Identity::new(&["localhost"]);
        let fake = Fake::default().asking_password();
        let port = fake.clone().serve(&identity, false).await.port();
        let connect = async |host: &str, query: &str| {
            let url = format!("postgres://me:marked-secret@{host}:{port}/db?{query}");
            let options = Options::new(clock).environment::<&str, &str>([]);
            Target::from_url(&url, options)
                .unwrap()
                .connect(0, soon(clock))
                .await
        };
        connect("127.0.0.1", "sslmode=require").await.unwrap();
        connect("127.0.0.1", "").await.unwrap();
        let ca = identity.ca_path();
        connect(
            "localhost",
            &format!("hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={ca}"),
        )
        .await
        .unwrap();
        let seen = fake.seen();
        assert_eq!(seen.len(), 3);
        assert!(
            seen.iter()
                .all(|one| one.password.as_deref() == Some("marked-secret"))
        );
        assert!(seen.iter().all(|one| !one.direct));

        let named = format!("sslmode=verify-full&sslrootcert={ca}");
        let failure = connect("127.0.0.1", &named).await.unwrap_err();
        assert!(failure.message.contains("not valid for name"), "{failure}");
        assert!(!format!("{failure:?}").contains("marked"));
        assert_eq!(fake.seen().len(), 3);
    });
}

#[test]
fn two_hundred_and_fifty_six_opens_sign_once() {
    on_loopback(async |clock| {
        let identity = Identity::new(&[HOST]);
        let fake = Fake::default().asking_password();
        let address = fake.clone().serve(&identity, true).await;
        let counting = Counting::failing(1);
        let options = Options::new(clock).credentials(counting.clone());
        let target = dsql(
            address.port(),
            &format!("&ca={}", identity.ca_path()),
            options,
        );
        let opening: Vec<_> = (0..256)
            .map(|_| {
                let target = target.clone();
                tokio::spawn(async move { target.connect(0, soon(target.clock())).await })
            })
            .collect();
        for one in opening {
            one.await.unwrap().unwrap();
        }
        // Once in vain, once for all.
        assert_eq!(counting.asked(), 2);
        let tokens: std::collections::BTreeSet<_> =
            fake.seen().into_iter().map(|seen| seen.password).collect();
        assert_eq!((fake.seen().len(), tokens.len()), (256, 1));
    });
}

#[test]
fn without_credentials_it_says_so() {
    on_loopback(async |clock| {
        let identity = Identity::new(&[HOST]);
        let counting = Counting::failing(usize::MAX);
        let options = Options::new(clock).credentials(counting.clone());
        let target = dsql(1, &format!("&ca={}", identity.ca_path()), options);
        let failure = target.connect(0, soon(clock)).await.unwrap_err();
        assert_eq!(failure.class, Class::AccessDenied);
        assert!(failure.message.contains("AWS_PROFILE"), "{failure}");
        assert!(
            failure.message.contains("the metadata service is busy"),
            "{failure}"
        );
        assert_eq!(counting.asked(), 3);
        assert!(clock.now().since_origin() < Duration::from_secs(5));
    });
}

#[test]
fn nobody_there_and_nowhere_to_be_found() {
    on_loopback(async |clock| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let options = || Options::new(clock).environment::<&str, &str>([]);
        let url = format!("postgres://me:marked-secret@127.0.0.1:{port}/db");
        let target = Target::from_url(&url, options()).unwrap();
        let failure = target.connect(0, soon(clock)).await.unwrap_err();
        assert_eq!(failure.class, Class::ConnectRefused);
        assert_eq!(
            failure.message,
            format!("127.0.0.1:{port}: nobody listens there (connection refused)")
        );

        let target = Target::from_url("postgres://no-such-host.invalid/db", options()).unwrap();
        let failure = target.connect(0, soon(clock)).await.unwrap_err();
        assert_eq!(failure.class, Class::ConnectRefused);
        assert!(
            failure
                .message
                .starts_with("no-such-host.invalid:5432: the host name cannot be resolved"),
            "{failure}"
        );

        let failure = target.connect(7, soon(clock)).await.unwrap_err();
        assert_eq!(
            failure.message,
            "endpoint 7: there is none, the target has 1"
        );
    });
}

#[test]
fn refusals_over_sockets_are_waited_out_too() {
    on_loopback(async |clock| {
        let identity = Identity::new(&[HOST]);
        let fake = Fake::new([
            Answer::Refuse("53400", "Unable to accept connection, rate exceeded.", None),
            Answer::Refuse(
                "08006",
                "unable to accept connection, waking up cluster, please retry later",
                None,
            ),
        ])
        .asking_password();
        let address = fake.clone().serve(&identity, true).await;
        let options = Options::new(clock).credentials(Counting::default());
        let target = dsql(
            address.port(),
            &format!("&ca={}", identity.ca_path()),
            options,
        );
        let conn = target.connect(0, soon(clock)).await.unwrap();
        assert_eq!(conn.refusals, 2);
        assert!(conn.waking > Duration::ZERO);
        // Refused, but in direct TLS: no second kind of hello was tried.
        assert!(fake.seen().iter().all(|seen| seen.direct));
    });
}

/// Everything that is traced, at the finest level.
#[derive(Clone, Default)]
struct Traced(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Traced {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_secret_is_printed_or_traced() {
    let traced = Traced::default();
    let writer = traced.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let mut said = String::new();
    tracing::subscriber::with_default(subscriber, || {
        on_loopback(async |clock| {
            tracing::info!("the trace is on");
            let identity = Identity::new(&[HOST]);
            let fake = Fake::new([
                Answer::Refuse("53300", "too many", None),
                Answer::Welcome,
                Answer::Refuse("28000", "unable to accept connection, access denied", None),
            ])
            .asking_password();
            let address = fake.clone().serve(&identity, true).await;
            let options = Options::new(clock).credentials(Counting::failing(1));
            let target = dsql(
                address.port(),
                &format!("&ca={}", identity.ca_path()),
                options,
            );
            let conn = target.connect(0, soon(clock)).await.unwrap();
            let denied = target.connect(0, soon(clock)).await.unwrap_err();
            said += &format!(
                "{target:?} {conn:?} {denied:?} {denied} {:?}",
                target.describe()
            );

            let options = Options::new(clock)
                .environment([("PGPASSWORD", "marked-secret")])
                .password(fabric_target::Secret::new("marked-secret"));
            let url = format!(
                "postgres://me:marked-secret@localhost:{}/db?sslmode=require",
                address.port()
            );
            let target = Target::from_url(&url, options).unwrap();
            let conn = target.connect(0, soon(clock)).await.unwrap();
            said += &format!(
                "{target:?} {conn:?} {:?} {:?}",
                target.describe(),
                fabric_target::Secret::new("marked")
            );

            // The server did get it, so the marks would have shown.
            assert!(
                fake.seen()
                    .iter()
                    .any(|seen| seen.password.as_deref() == Some("marked-secret"))
            );
            let token = fake.seen()[0].password.clone().unwrap();
            let signature = token.split("X-Amz-Signature=").nth(1).unwrap();
            assert!(!said.contains(&signature[..64]));
            let text = String::from_utf8_lossy(&traced.0.lock().unwrap()).into_owned();
            assert!(
                text.contains("the trace is on") && text.contains("connecting again"),
                "{text}"
            );
            assert!(
                !text.contains(&signature[..64]),
                "the token is in the trace"
            );
            let told = text.lines().find(|line| line.contains("marked"));
            assert_eq!(told, None, "a secret is in the trace");
        });
    });
    assert!(!said.contains("marked"), "{said}");
}
