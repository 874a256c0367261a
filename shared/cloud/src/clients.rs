//! The SDK's clients, each made when it is first needed.
//!
//! One process makes one [`Clients`] and keeps it: a warm Lambda then has its
//! connections, its credentials and the addresses of its queues at hand. Nothing
//! in here depends on a [`clock::Clock`], because those are made anew for each
//! invocation (see `targets`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use tokio::sync::OnceCell;

/// A call of the protocol ends within about this, with all of its tries: a
/// worker that watches its stop flag cannot wait longer.
const CALL: Duration = Duration::from_secs(10);
/// One try of it.
const TRY: Duration = Duration::from_secs(4);
const CONNECT: Duration = Duration::from_secs(2);

/// A blob may hold tens of megabytes.
const BLOB_CALL: Duration = Duration::from_secs(60);
const BLOB_TRY: Duration = Duration::from_secs(30);

const TRIES: u32 = 3;

/// The way to AWS, or to whatever `AWS_ENDPOINT_URL` names.
#[derive(Debug, Default)]
pub struct Clients {
    base: OnceCell<SdkConfig>,
    dynamodb: OnceCell<aws_sdk_dynamodb::Client>,
    s3: OnceCell<aws_sdk_s3::Client>,
    sqs: Mutex<BTreeMap<String, aws_sdk_sqs::Client>>,
    /// Addresses of queues, by region and name.
    pub(crate) queues: Mutex<BTreeMap<(String, String), String>>,
}

impl Clients {
    /// None yet.
    pub fn new() -> Clients {
        Clients::default()
    }

    /// Clients on these settings instead of the process's own.
    pub fn of(config: SdkConfig) -> Clients {
        Clients {
            base: OnceCell::new_with(Some(config)),
            ..Clients::default()
        }
    }

    /// The settings of a region. Credentials are looked up by the first call.
    pub(crate) async fn region(&self, region: &str) -> SdkConfig {
        let region = Region::new(region.to_owned());
        let base = self.base.get_or_init(|| {
            // With a region given, none is looked for on a metadata service.
            aws_config::defaults(BehaviorVersion::latest())
                .region(region.clone())
                .retry_config(
                    RetryConfig::standard()
                        .with_max_attempts(TRIES)
                        .with_initial_backoff(Duration::from_millis(100)),
                )
                .timeout_config(timeouts(TRY, CALL))
                .load()
        });
        base.await.to_builder().region(region).build()
    }

    pub(crate) async fn dynamodb(&self, region: &str) -> &aws_sdk_dynamodb::Client {
        let client = || async { aws_sdk_dynamodb::Client::new(&self.region(region).await) };
        self.dynamodb.get_or_init(client).await
    }

    pub(crate) async fn s3(&self, region: &str) -> &aws_sdk_s3::Client {
        let client = || async {
            let config = self.region(region).await;
            // What stands in for AWS has no host name for each bucket.
            let stand_in = config.endpoint_url().is_some();
            let config = aws_sdk_s3::config::Builder::from(&config)
                .timeout_config(timeouts(BLOB_TRY, BLOB_CALL))
                .force_path_style(stand_in)
                .build();
            aws_sdk_s3::Client::from_conf(config)
        };
        self.s3.get_or_init(client).await
    }

    pub(crate) async fn sqs(&self, region: &str) -> aws_sdk_sqs::Client {
        if let Some(client) = lock(&self.sqs).get(region) {
            return client.clone();
        }
        let client = aws_sdk_sqs::Client::new(&self.region(region).await);
        lock(&self.sqs)
            .entry(region.to_owned())
            .or_insert(client)
            .clone()
    }

    pub(crate) async fn cloudwatch(&self, region: &str) -> aws_sdk_cloudwatch::Client {
        aws_sdk_cloudwatch::Client::new(&self.region(region).await)
    }

    pub(crate) async fn secrets(&self, region: &str) -> aws_sdk_secretsmanager::Client {
        aws_sdk_secretsmanager::Client::new(&self.region(region).await)
    }
}

fn timeouts(one: Duration, all: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .read_timeout(one)
        .operation_attempt_timeout(one)
        .operation_timeout(all)
        .build()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Every change under these locks is a single insertion or assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
