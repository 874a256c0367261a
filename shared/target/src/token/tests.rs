//! The life of a token, in virtual time.

use std::collections::VecDeque;

use aws_credential_types::Credentials;
use aws_credential_types::provider::future;
use clock::simulated_runtime;

use super::*;

/// What the source of credentials answers, one entry a look-up; the last
/// one for ever.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// Credentials that live for so many seconds from now.
    Lives(u64),
    /// Credentials without an end.
    Lasts,
    /// A failure that may pass.
    Busy,
    /// None anywhere.
    Nothing,
    /// A configuration that cannot work.
    Broken,
    /// No answer.
    Hangs,
}

#[derive(Clone, Debug)]
struct Scripted {
    clock: Clock,
    script: Arc<Mutex<VecDeque<Source>>>,
    asked: Arc<Mutex<usize>>,
}

impl ProvideCredentials for Scripted {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        *self.asked.lock().unwrap() += 1;
        let mut script = self.script.lock().unwrap();
        let next = match script.len() {
            0 | 1 => script.front().copied(),
            _ => script.pop_front(),
        };
        let end = match next.unwrap_or(Source::Nothing) {
            Source::Lives(seconds) => Some(self.clock.wall() + Duration::from_secs(seconds)),
            Source::Lasts => None,
            Source::Busy => {
                return future::ProvideCredentials::ready(Err(CredentialsError::provider_error(
                    "503",
                )));
            }
            Source::Nothing => {
                return future::ProvideCredentials::ready(Err(CredentialsError::not_loaded(
                    "nothing found",
                )));
            }
            Source::Broken => {
                return future::ProvideCredentials::ready(Err(
                    CredentialsError::invalid_configuration("a loop of roles"),
                ));
            }
            Source::Hangs => return future::ProvideCredentials::new(std::future::pending()),
        };
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, end, "test");
        future::ProvideCredentials::ready(Ok(credentials))
    }
}

struct Bench {
    clock: Clock,
    signer: Arc<Signer>,
    source: Scripted,
}

impl Bench {
    fn set(&self, script: &[Source]) {
        *self.source.script.lock().unwrap() = script.iter().copied().collect();
    }

    fn asked(&self) -> usize {
        std::mem::take(&mut *self.source.asked.lock().unwrap())
    }

    async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// A token for `user`, with 30 s to get it.
    async fn token(&self, user: &str) -> Result<String, SqlFailure> {
        let scope = Scope {
            host: "h.dsql.us-east-1.on.aws".to_owned(),
            region: "us-east-1".to_owned(),
            user: user.to_owned(),
        };
        let deadline = self.clock.now() + Duration::from_secs(30);
        let token = self.signer.token(&scope, self.clock, deadline).await?;
        Ok(token.expose().to_owned())
    }
}

fn bench(script: &[Source], test: impl AsyncFnOnce(Bench)) {
    simulated_runtime().unwrap().block_on(async {
        let clock = Clock::simulated();
        let source = Scripted {
            clock,
            script: Arc::default(),
            asked: Arc::default(),
        };
        let bench = Bench {
            clock,
            signer: Signer::with_credentials(SharedCredentialsProvider::new(source.clone())),
            source,
        };
        bench.set(script);
        test(bench).await;
    });
}

#[test]
fn the_date_is_our_clocks() {
    bench(&[Source::Lasts], async |bench| {
        bench.pass(3_600).await;
        let token = bench.token(ADMIN).await.unwrap();
        let begin = "h.dsql.us-east-1.on.aws/?Action=DbConnectAdmin&\
                     X-Amz-Algorithm=AWS4-HMAC-SHA256&\
                     X-Amz-Credential=AKIDEXAMPLE%2F20260101%2Fus-east-1%2Fdsql%2Faws4_request&\
                     X-Amz-Date=20260101T010000Z&X-Amz-Expires=900&\
                     X-Amz-SignedHeaders=host&X-Amz-Signature=";
        assert!(token.starts_with(begin), "{token}");
    });
}

#[test]
fn a_token_is_kept_for_two_thirds_of_its_life() {
    bench(&[Source::Lasts], async |bench| {
        let first = bench.token(ADMIN).await.unwrap();
        bench.pass(599).await;
        assert_eq!(bench.token(ADMIN).await.unwrap(), first);
        assert_eq!(bench.asked(), 1);
        bench.pass(2).await;
        assert_ne!(bench.token(ADMIN).await.unwrap(), first);
        assert_eq!(bench.asked(), 1);
        let role = bench.token("loader").await.unwrap();
        assert!(role.contains("?Action=DbConnect&"));
        assert_eq!(bench.asked(), 1);
    });
}

#[test]
fn a_token_does_not_outlive_its_credentials() {
    bench(&[Source::Lives(90)], async |bench| {
        let first = bench.token(ADMIN).await.unwrap();
        bench.pass(59).await;
        assert_eq!(bench.token(ADMIN).await.unwrap(), first);
        bench.pass(2).await;
        assert_ne!(bench.token(ADMIN).await.unwrap(), first);
        assert_eq!(bench.asked(), 2);
    });
    bench(
        &[Source::Lives(0), Source::Lives(0), Source::Lasts],
        async |bench| {
            bench.token(ADMIN).await.unwrap();
            assert_eq!(bench.asked(), 3);
        },
    );
}

#[test]
fn a_renewal_that_fails_leaves_the_token_that_is_good() {
    bench(&[Source::Lasts, Source::Busy], async |bench| {
        let first = bench.token(ADMIN).await.unwrap();
        bench.pass(700).await;
        bench.asked();
        // One look-up in ten seconds, however many ask.
        for _ in 0..100 {
            assert_eq!(bench.token(ADMIN).await.unwrap(), first);
        }
        assert_eq!(bench.asked(), 1);
        bench.pass(11).await;
        assert_eq!(bench.token(ADMIN).await.unwrap(), first);
        assert_eq!(bench.asked(), 1);

        // In the last minute of its life it is no longer handed out.
        bench.pass(840 - 711).await;
        let begin = bench.clock.now();
        let failure = bench.token(ADMIN).await.unwrap_err();
        assert_eq!(failure.class, Class::AccessDenied);
        assert!(failure.message.contains("503"), "{failure}");
        let tried = bench.clock.now().since(begin);
        assert!(tried > Duration::from_secs(20) && tried <= Duration::from_secs(30));
        assert!((5..40).contains(&bench.asked()));

        bench.set(&[Source::Busy, Source::Lasts]);
        assert_ne!(bench.token(ADMIN).await.unwrap(), first);
    });
}

#[test]
fn what_will_not_pass_is_believed() {
    for (source, times) in [(Source::Nothing, 3), (Source::Broken, 1)] {
        bench(&[source], async |bench| {
            let failure = bench.token(ADMIN).await.unwrap_err();
            assert_eq!(failure.class, Class::AccessDenied);
            assert_eq!(bench.asked(), times);
            assert!(bench.clock.now().since_origin() < Duration::from_secs(1));
        });
    }
}

#[test]
fn a_source_that_hangs_ends_at_the_deadline_and_lets_the_next_one_in() {
    bench(&[Source::Hangs, Source::Lasts], async |bench| {
        let (first, second) = tokio::join!(bench.token(ADMIN), async {
            bench.pass(10).await;
            bench.token(ADMIN).await
        });
        assert!(first.unwrap_err().message.contains("in time"));
        second.unwrap();
    });
}
