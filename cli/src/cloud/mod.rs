//! The account's side of the command: clusters are made and deleted here, and
//! what a fleet leaves in an account is found, deleted and counted.
//!
//! [`Cloud`] is the one place that sets up the AWS SDK; [`error`] turns what it
//! answers into one line and a decision. [`manifest`] remembers on this machine
//! what was asked for before it is asked for. [`create`] and [`delete`] are the
//! life of a cluster ([`cluster`]). [`cleanup`] removes a whole fleet with the
//! help of [`stack`], [`bucket`] and [`logs`], and [`inventory`] counts what is
//! left, by tag and by listing the services.
//!
//! Nothing here runs load and nothing here runs in virtual time. What is not
//! named by a tag, by a stack or by the manifest is never touched.

pub mod bucket;
pub mod cleanup;
pub mod cluster;
pub mod create;
pub mod delete;
pub mod error;
pub mod inventory;
pub mod logs;
pub mod manifest;
pub mod stack;
#[cfg(test)]
mod tests;

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use clock::Clock;

/// The tag that names a resource's maker: the value is what `--name` said.
pub const TAG_NAME: &str = "dsql-fabric:name";
/// The tag with the instant at which a resource was asked for, in UTC.
pub const TAG_CREATED: &str = "dsql-fabric:created";
/// The tag that says which fleet, by the name of its stack, a resource is for.
pub const TAG_STACK: &str = "dsql-fabric:stack";

/// How the manifest calls AWS itself, as against a stand-in's address.
const AWS: &str = "aws";

/// Where lines of progress go.
pub type Say<'a> = &'a dyn Fn(&str);

/// The way to an account: AWS, or whatever AWS_ENDPOINT_URL names.
#[derive(Debug, Clone)]
pub struct Cloud {
    clock: Clock,
    config: SdkConfig,
}

impl Cloud {
    /// Reads the SDK's settings: credentials, profile, endpoint. Asks nobody:
    /// credentials are looked up by the first call.
    pub async fn open(clock: Clock) -> Cloud {
        // A region is given here so that none is looked for on a metadata
        // service; every client names its own.
        let config = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(Duration::from_secs(5))
                    .operation_attempt_timeout(Duration::from_secs(30))
                    .operation_timeout(Duration::from_secs(90))
                    .build(),
            )
            .load()
            .await;
        Cloud { clock, config }
    }

    /// The clock that everything here waits by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The present, as text in UTC.
    pub fn utc(&self) -> String {
        report::utc(self.clock.wall())
    }

    /// `aws`, or the address of what stands in for it.
    pub fn name(&self) -> &str {
        self.config.endpoint_url().unwrap_or(AWS)
    }

    /// Whether something stands in for AWS.
    pub fn is_stand_in(&self) -> bool {
        self.config.endpoint_url().is_some()
    }

    /// The SDK's settings for one region.
    pub fn sdk(&self, region: &str) -> SdkConfig {
        let region = Region::new(region.to_owned());
        self.config.to_builder().region(region).build()
    }

    /// DSQL's control plane.
    pub fn dsql(&self, region: &str) -> aws_sdk_dsql::Client {
        aws_sdk_dsql::Client::new(&self.sdk(region))
    }

    /// CloudFormation.
    pub fn stacks(&self, region: &str) -> aws_sdk_cloudformation::Client {
        aws_sdk_cloudformation::Client::new(&self.sdk(region))
    }

    /// CloudWatch Logs.
    pub fn logs(&self, region: &str) -> aws_sdk_cloudwatchlogs::Client {
        aws_sdk_cloudwatchlogs::Client::new(&self.sdk(region))
    }

    /// Lambda.
    pub fn functions(&self, region: &str) -> aws_sdk_lambda::Client {
        aws_sdk_lambda::Client::new(&self.sdk(region))
    }

    /// SQS.
    pub fn queues(&self, region: &str) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&self.sdk(region))
    }

    /// DynamoDB.
    pub fn tables(&self, region: &str) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.sdk(region))
    }

    /// The Resource Groups Tagging API.
    pub fn tags(&self, region: &str) -> aws_sdk_resourcegroupstagging::Client {
        aws_sdk_resourcegroupstagging::Client::new(&self.sdk(region))
    }

    /// S3. A stand-in has no host name per bucket.
    pub fn buckets(&self, region: &str) -> aws_sdk_s3::Client {
        let config = aws_sdk_s3::config::Builder::from(&self.sdk(region))
            .force_path_style(self.is_stand_in())
            .build();
        aws_sdk_s3::Client::from_conf(config)
    }
}

/// A region's name as AWS writes them, such as `us-east-1` or `us-gov-west-1`.
///
/// # Errors
/// What is wrong with it.
pub fn check_region(region: &str) -> Result<(), String> {
    let parts: Vec<&str> = region.split('-').collect();
    let words = parts.len().saturating_sub(1);
    let good = parts.len() >= 3
        && parts[..words]
            .iter()
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase()))
        && parts[words].chars().all(|c| c.is_ascii_digit())
        && !parts[words].is_empty();
    if good {
        Ok(())
    } else {
        Err(format!(
            "region '{region}' is none; give one such as us-east-1"
        ))
    }
}
