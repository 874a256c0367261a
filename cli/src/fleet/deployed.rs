//! A deployed fleet: found by its stack's name, spoken to through its table,
//! its queues and its planner.

use std::rc::Rc;
use std::time::Duration;

use aws_sdk_lambda::primitives::Blob;
use clock::Clock;
use cloud::{Clients, CloudQueue, CloudStore, Config};
use fleet::{Env, Settings};
use serde_json::Value;

use crate::cloud::{Cloud, error::CloudError, stack};
use crate::failure::Failure;

/// A fleet that is there.
pub struct Fleet {
    /// Its stack.
    pub config: Rc<Config>,
    /// The protocol's store and queues.
    pub env: Env<CloudStore, CloudQueue>,
    cloud: Cloud,
    planner: String,
}

impl Fleet {
    /// Finds a fleet by its stack's name, in the region given or the one that
    /// the environment names; a satellite leads to its home.
    ///
    /// # Errors
    /// When there is no such stack, or it is not a fleet's.
    pub async fn find(name: &str, region: Option<&str>) -> Result<Fleet, Failure> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let region = region
            .map(str::to_owned)
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .unwrap_or_else(|| "us-east-1".to_owned());
        let clock = Clock::real();
        let cloud = Cloud::open(clock).await;
        let mut home = region.clone();
        // A satellite leads to its home, once.
        for _ in 0..2 {
            let outputs = stack::outputs(&cloud, &home, name).await.map_err(line)?;
            let Some(outputs) = outputs else {
                return Err(Failure::Other(format!(
                    "there is no stack {name} in {home}; deploy it with scripts/deploy, or name \
                     another with --stack NAME --region REGION"
                )));
            };
            let get = |key: &str| {
                outputs.get(key).cloned().ok_or_else(|| {
                    Failure::Other(format!(
                        "stack {name} in {home} has no output {key}; it is not a fleet's, or of \
                         another version: deploy it again"
                    ))
                })
            };
            if get("Role")? != "home" {
                home = get("HomeRegion")?;
                continue;
            }
            let config = Rc::new(Config {
                stack: name.to_owned(),
                regions: get("Regions")?.split(',').map(str::to_owned).collect(),
                table: get("TableName")?,
                bucket: get("BucketName")?,
                worker_timeout: Duration::from_secs(900),
                home: home.clone(),
            });
            let clients = Rc::new(Clients::new());
            let store = CloudStore::new(Rc::clone(&clients), Rc::clone(&config), clock);
            let queue = CloudQueue::new(clients, Rc::clone(&config), clock);
            let regions = config.regions.clone();
            let seed = u64::from(std::process::id());
            let env = Env::new(store, queue, clock, regions, Settings::default(), seed);
            return Ok(Fleet {
                planner: get("PlannerFunction")?,
                config,
                env,
                cloud,
            });
        }
        Err(Failure::Other(format!(
            "stack {name} is a satellite in {region}, and so is the one that it names as its home"
        )))
    }

    /// Has the planner start a run.
    ///
    /// # Errors
    /// What the planner refused, or that it could not be called.
    pub async fn plan(&self, event: &Value) -> Result<Value, Failure> {
        let call = self
            .cloud
            .functions(&self.config.home)
            .invoke()
            .function_name(&self.planner)
            .payload(Blob::new(event.to_string()))
            .send()
            .await;
        let answer = call
            .map_err(|e| CloudError::of("lambda Invoke", &self.config.home, &e))
            .map_err(line)?;
        let payload = answer.payload().map(|blob| blob.as_ref().to_vec());
        let value: Value = serde_json::from_slice(&payload.unwrap_or_default())
            .map_err(|error| Failure::Other(format!("the planner's answer is no JSON: {error}")))?;
        if answer.function_error().is_some() {
            let said = value.get("errorMessage").and_then(Value::as_str);
            let said = said.map_or_else(|| value.to_string(), str::to_owned);
            return Err(Failure::Other(said));
        }
        Ok(value)
    }
}

fn line(error: CloudError) -> Failure {
    Failure::Other(error.to_string())
}
