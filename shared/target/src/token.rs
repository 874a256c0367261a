//! DSQL's passwords: tokens that are signed, kept, and renewed in time.
//!
//! Signing is local arithmetic, but it needs credentials, and looking those up
//! can mean a request to a metadata service that falters when 256 connections
//! ask at once. So there is one [`Signer`] a process, it signs one token at a
//! time, and whoever waited meanwhile takes the token that is there by then.
//!
//! A token's life, from the instant of signing to its expiry:
//!
//! ```text
//! |------------- used as it is -------------|--- renewed ---|- unusable -|
//! 0                                        2/3            14/15          1
//! ```
//!
//! In the second part one look-up is made; should it fail, the token that is
//! still good serves on for a few seconds before the next one. In the third part
//! there must be a new token: look-ups are tried until the caller's deadline, and
//! then it is an error. An expired token is never handed out. A token also dies
//! with the credentials that signed it, so its life ends no later than theirs.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_dsql::auth_token::{AuthTokenGenerator, Config};
use aws_smithy_async::time::TimeSource;
use clock::{Clock, Time};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::OnceCell;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::open::pause_limit;
use crate::{Class, Secret, SqlFailure};

/// How long a token is valid: what the service's own tools ask for.
const LIFE: Duration = Duration::from_secs(900);

/// After a renewal that failed the old token, still good, serves this long
/// before the next try.
const RENEW_AGAIN: Duration = Duration::from_secs(10);

/// Look-ups that may answer "no credentials anywhere" before that is believed.
const BELIEVE_NONE: u32 = 3;

/// The user that needs an action of its own.
pub(crate) const ADMIN: &str = "admin";

/// What a token is good for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    pub(crate) host: String,
    pub(crate) region: String,
    pub(crate) user: String,
}

struct Held {
    token: Secret,
    renew_at: SystemTime,
    unusable_at: SystemTime,
}

/// Signs tokens, one at a time, and keeps them.
pub(crate) struct Signer {
    given: Option<SharedCredentialsProvider>,
    provider: OnceCell<SharedCredentialsProvider>,
    held: Mutex<BTreeMap<Scope, Held>>,
    /// Held while signing. The jitter of its pauses lives inside.
    signing: tokio::sync::Mutex<ChaCha8Rng>,
}

static PROCESS: LazyLock<Arc<Signer>> = LazyLock::new(|| Arc::new(Signer::new(None)));

impl Signer {
    /// The process's own, with the default chain of credentials, which is not
    /// touched before the first token is needed.
    pub(crate) fn of_process() -> Arc<Signer> {
        PROCESS.clone()
    }

    /// One with credentials of its own.
    pub(crate) fn with_credentials(provider: SharedCredentialsProvider) -> Arc<Signer> {
        Arc::new(Signer::new(Some(provider)))
    }

    fn new(given: Option<SharedCredentialsProvider>) -> Signer {
        Signer {
            given,
            provider: OnceCell::new(),
            held: Mutex::new(BTreeMap::new()),
            signing: tokio::sync::Mutex::new(ChaCha8Rng::seed_from_u64(0)),
        }
    }

    /// A token that is good for connecting now.
    pub(crate) async fn token(
        &self,
        scope: &Scope,
        clock: Clock,
        deadline: Time,
    ) -> Result<Secret, SqlFailure> {
        if let Some(token) = self.kept(scope, clock, Freshness::NotDueForRenewal) {
            return Ok(token);
        }
        let limit = deadline.since(clock.now());
        match clock
            .timeout(limit, self.renew(scope, clock, deadline))
            .await
        {
            Some(renewed) => renewed,
            None => Err(refused(
                scope,
                "no answer from the source of credentials in time",
            )),
        }
    }

    async fn renew(
        &self,
        scope: &Scope,
        clock: Clock,
        deadline: Time,
    ) -> Result<Secret, SqlFailure> {
        let mut jitter = self.signing.lock().await;
        if let Some(token) = self.kept(scope, clock, Freshness::NotDueForRenewal) {
            return Ok(token);
        }
        let mut failures = 0;
        loop {
            let problem = match self.sign(scope, clock).await {
                Ok(token) => return Ok(token),
                Err(problem) => problem,
            };
            failures += 1;
            if let Some(token) = self.kept(scope, clock, Freshness::StillGood) {
                tracing::warn!(
                    host = %scope.host,
                    problem = %problem.text,
                    "token not renewed; the one at hand is still good"
                );
                self.put_off_renewal(scope, clock.wall() + RENEW_AGAIN);
                return Ok(token);
            }
            let share: f64 = jitter.random();
            let pause = pause_limit(failures).mul_f64(share);
            if failures >= problem.believe_after || clock.now() + pause >= deadline {
                return Err(refused(scope, &problem.text));
            }
            tracing::debug!(host = %scope.host, problem = %problem.text, "signing again");
            clock.sleep(pause).await;
        }
    }

    async fn sign(&self, scope: &Scope, clock: Clock) -> Result<Secret, Problem> {
        let provider = self.provider.get_or_try_init(|| self.load(scope)).await?;
        let credentials = provider.provide_credentials().await?;
        let signed_at = clock.wall();
        let expires = credentials
            .expiry()
            .map_or(signed_at + LIFE, |end| end.min(signed_at + LIFE));
        let life = expires
            .duration_since(signed_at)
            .ok()
            .filter(|life| !life.is_zero())
            .ok_or_else(|| Problem::momentary("the credentials have expired"))?;
        let config = Config::builder()
            .hostname(&scope.host)
            .region(Region::new(scope.region.clone()))
            .credentials(credentials)
            .expires_in(LIFE.as_secs())
            .build()
            .map_err(|error| Problem::lasting(error.to_string()))?;
        let sdk = SdkConfig::builder().time_source(WallTime(clock)).build();
        let generator = AuthTokenGenerator::new(config);
        let token = if scope.user == ADMIN {
            // At the trace level the signer tells what it signs, and a session's
            // token is part of that.
            generator
                .db_connect_admin_auth_token(&sdk)
                .with_subscriber(NoSubscriber::new())
                .await
        } else {
            generator
                .db_connect_auth_token(&sdk)
                .with_subscriber(NoSubscriber::new())
                .await
        }
        .map_err(|error| Problem::lasting(error.to_string()))?;
        let token = Secret::new(token.as_str());
        self.lock_held().insert(
            scope.clone(),
            Held {
                token: token.clone(),
                renew_at: signed_at + life * 2 / 3,
                unusable_at: signed_at + life * 14 / 15,
            },
        );
        Ok(token)
    }

    async fn load(&self, scope: &Scope) -> Result<SharedCredentialsProvider, Problem> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        // With the region given, the chain need not ask for one.
        let config = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(scope.region.clone()))
            .load()
            .await;
        config
            .credentials_provider()
            .ok_or_else(|| Problem::lasting("the AWS configuration turns credentials off"))
    }

    fn kept(&self, scope: &Scope, clock: Clock, freshness: Freshness) -> Option<Secret> {
        let held = self.lock_held();
        let it = held.get(scope)?;
        let end = match freshness {
            Freshness::NotDueForRenewal => it.renew_at,
            Freshness::StillGood => it.unusable_at,
        };
        (clock.wall() < end).then(|| it.token.clone())
    }

    fn put_off_renewal(&self, scope: &Scope, until: SystemTime) {
        if let Some(it) = self.lock_held().get_mut(scope) {
            it.renew_at = until.min(it.unusable_at);
        }
    }

    fn lock_held(&self) -> std::sync::MutexGuard<'_, BTreeMap<Scope, Held>> {
        // Every change is a single insertion or assignment.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Freshness {
    NotDueForRenewal,
    StillGood,
}

/// Why a token could not be signed.
struct Problem {
    text: String,
    /// Failures in a row after which it is no accident.
    believe_after: u32,
}

impl Problem {
    fn momentary(text: impl Into<String>) -> Problem {
        Problem {
            text: text.into(),
            believe_after: u32::MAX,
        }
    }

    fn lasting(text: impl Into<String>) -> Problem {
        Problem {
            text: text.into(),
            believe_after: 1,
        }
    }
}

impl From<CredentialsError> for Problem {
    fn from(error: CredentialsError) -> Problem {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        let believe_after = match error {
            CredentialsError::InvalidConfiguration(_) => 1,
            // Mostly true and then for good; but a metadata service that is
            // asked too much at once is told by the same answer.
            CredentialsError::CredentialsNotLoaded(_) => BELIEVE_NONE,
            _ => u32::MAX,
        };
        Problem {
            text,
            believe_after,
        }
    }
}

fn refused(scope: &Scope, problem: &str) -> SqlFailure {
    SqlFailure::new(
        Class::AccessDenied,
        format!(
            "no AWS credentials to sign a token with for user {} in {}: {problem}; set AWS_PROFILE, \
             or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run under a role",
            scope.user, scope.region
        ),
    )
}

/// Our clock, as the SDK wants it.
#[derive(Debug)]
struct WallTime(Clock);

impl TimeSource for WallTime {
    fn now(&self) -> SystemTime {
        self.0.wall()
    }
}

#[cfg(test)]
mod tests;
