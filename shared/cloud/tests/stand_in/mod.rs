//! A table, a bucket and the queues of a stack in two regions of the cloud at
//! FABRIC_TEST_CLOUD; removed again after the test.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};
use cloud::{Clients, Config};
use fleet::To;

pub const REGIONS: [&str; 2] = ["us-east-1", "us-east-2"];

pub struct StandIn {
    base: SdkConfig,
    stack: String,
}

impl StandIn {
    /// Runs a test on a stack of its own, or says that it is skipped.
    pub fn with(name: &str, test: impl AsyncFnOnce(StandIn)) {
        let Ok(url) = std::env::var("FABRIC_TEST_CLOUD") else {
            println!("skipped: no cloud (FABRIC_TEST_CLOUD is not set)");
            return;
        };
        clock::real_runtime().unwrap().block_on(async {
            let base = aws_config::defaults(BehaviorVersion::latest())
                .region(Region::new(REGIONS[0]))
                .endpoint_url(url)
                .credentials_provider(aws_credential_types::Credentials::new(
                    "AKID", "none", None, None, "test",
                ))
                .load()
                .await;
            let cloud = StandIn {
                base,
                stack: format!("contract-{name}-{}", std::process::id()),
            };
            cloud.make().await;
            let (base, stack) = (cloud.base.clone(), cloud.stack.clone());
            test(cloud).await;
            StandIn { base, stack }.remove().await;
        });
    }

    pub fn config(&self) -> Rc<Config> {
        Rc::new(Config {
            stack: self.stack.clone(),
            home: REGIONS[0].to_owned(),
            regions: REGIONS.map(str::to_owned).to_vec(),
            table: self.stack.clone(),
            bucket: self.stack.clone(),
            worker_timeout: Duration::from_secs(60),
        })
    }

    pub fn clients(&self) -> Rc<Clients> {
        Rc::new(Clients::of(self.base.clone()))
    }

    fn region(&self, region: &str) -> SdkConfig {
        let region = Region::new(region.to_owned());
        self.base.to_builder().region(region).build()
    }

    fn sqs(&self, region: &str) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&self.region(region))
    }

    fn s3(&self) -> aws_sdk_s3::Client {
        let config = aws_sdk_s3::config::Builder::from(&self.base).force_path_style(true);
        aws_sdk_s3::Client::from_conf(config.build())
    }

    fn queues(&self) -> Vec<(&'static str, String)> {
        let stack = &self.stack;
        let mut queues = vec![
            (REGIONS[0], format!("{stack}-control")),
            (REGIONS[0], format!("{stack}-control-dead")),
        ];
        for region in REGIONS {
            queues.push((region, format!("{stack}-wave")));
            queues.push((region, format!("{stack}-wave-dead")));
        }
        queues
    }

    async fn make(&self) {
        for (region, name) in self.queues() {
            let made = self.sqs(region).create_queue().queue_name(name);
            made.send().await.unwrap();
        }
        self.s3()
            .create_bucket()
            .bucket(&self.stack)
            .send()
            .await
            .unwrap();
        let key = |name: &str, kind: KeyType| {
            let key = KeySchemaElement::builder()
                .attribute_name(name)
                .key_type(kind);
            key.build().unwrap()
        };
        let names = ["pk", "sk", "sweep", "created"].map(|name| {
            AttributeDefinition::builder()
                .attribute_name(name)
                .attribute_type(ScalarAttributeType::S)
                .build()
                .unwrap()
        });
        let all = Projection::builder().projection_type(ProjectionType::All);
        let by_sweep = GlobalSecondaryIndex::builder()
            .index_name("by_sweep")
            .key_schema(key("sweep", KeyType::Hash))
            .key_schema(key("created", KeyType::Range))
            .projection(all.build())
            .build()
            .unwrap();
        aws_sdk_dynamodb::Client::new(&self.base)
            .create_table()
            .table_name(&self.stack)
            .billing_mode(BillingMode::PayPerRequest)
            .set_attribute_definitions(Some(names.to_vec()))
            .key_schema(key("pk", KeyType::Hash))
            .key_schema(key("sk", KeyType::Range))
            .global_secondary_indexes(by_sweep)
            .send()
            .await
            .unwrap();
    }

    async fn remove(&self) {
        for (region, name) in self.queues() {
            let sqs = self.sqs(region);
            let url = sqs.get_queue_url().queue_name(name).send().await.unwrap();
            sqs.delete_queue()
                .set_queue_url(url.queue_url)
                .send()
                .await
                .unwrap();
        }
        let tables = aws_sdk_dynamodb::Client::new(&self.base);
        tables
            .delete_table()
            .table_name(&self.stack)
            .send()
            .await
            .unwrap();
        self.s3()
            .delete_bucket()
            .bucket(&self.stack)
            .send()
            .await
            .unwrap();
    }

    /// Takes all messages that a queue shows now, with their reasons.
    pub async fn receive(&self, to: &To) -> BTreeMap<String, Option<String>> {
        let stack = &self.stack;
        let (region, name) = match to {
            To::Wave { region } => (region.as_str(), format!("{stack}-wave")),
            To::Control => (REGIONS[0], format!("{stack}-control")),
            To::Dead {
                region: Some(region),
                ..
            } => (region.as_str(), format!("{stack}-wave-dead")),
            To::Dead { region: None, .. } => (REGIONS[0], format!("{stack}-control-dead")),
        };
        let sqs = self.sqs(region);
        let url = sqs.get_queue_url().queue_name(name).send().await.unwrap();
        let url = url.queue_url.unwrap();
        let mut found = BTreeMap::new();
        loop {
            let got = sqs
                .receive_message()
                .queue_url(&url)
                .max_number_of_messages(10)
                .message_attribute_names("All")
                .send()
                .await
                .unwrap();
            if got.messages().is_empty() {
                return found;
            }
            for message in got.messages() {
                let reason = message
                    .message_attributes()
                    .and_then(|all| all.get("reason"))
                    .and_then(|reason| reason.string_value())
                    .map(str::to_owned);
                found.insert(message.body().unwrap().to_owned(), reason);
                let receipt = message.receipt_handle().unwrap();
                let deleted = sqs.delete_message().queue_url(&url).receipt_handle(receipt);
                deleted.send().await.unwrap();
            }
        }
    }
}
