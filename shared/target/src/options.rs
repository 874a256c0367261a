//! What [`crate::Target::from_url`] needs beside the URL.

use std::collections::BTreeMap;

use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use clock::Clock;

use crate::Secret;

/// What [`crate::Target::from_url`] needs beside the URL. A [`Clock`] alone
/// will do where nothing else is wished for.
#[derive(Clone)]
pub struct Options {
    pub(crate) clock: Clock,
    pub(crate) seed: u64,
    pub(crate) password: Option<Secret>,
    pub(crate) credentials: Option<SharedCredentialsProvider>,
    environment: Option<BTreeMap<String, String>>,
}

impl Options {
    /// The defaults: the process's environment, AWS's default chain of
    /// credentials.
    pub fn new(clock: Clock) -> Options {
        Options {
            clock,
            seed: 0,
            password: None,
            credentials: None,
            environment: None,
        }
    }

    /// Seed of the jitter in pauses and connection ages.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Options {
        self.seed = seed;
        self
    }

    /// A PostgreSQL password from elsewhere, such as a secrets store. It goes
    /// before `PGPASSWORD`; one in the URL goes before it.
    #[must_use]
    pub fn password(mut self, password: Secret) -> Options {
        self.password = Some(password);
        self
    }

    /// Where credentials for DSQL's tokens come from, instead of the default
    /// chain. The target then keeps its tokens to itself.
    #[must_use]
    pub fn credentials(mut self, provider: impl ProvideCredentials + 'static) -> Options {
        self.credentials = Some(SharedCredentialsProvider::new(provider));
        self
    }

    /// These variables instead of the process's environment.
    #[must_use]
    pub fn environment<K: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Options {
        let variables = variables.into_iter();
        self.environment = Some(variables.map(|(k, v)| (k.into(), v.into())).collect());
        self
    }

    /// A variable; one that is empty counts as not set.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        match &self.environment {
            Some(given) => given.get(name).cloned(),
            None => std::env::var(name).ok(),
        }
        .filter(|value| !value.is_empty())
    }
}

impl From<Clock> for Options {
    fn from(clock: Clock) -> Options {
        Options::new(clock)
    }
}
