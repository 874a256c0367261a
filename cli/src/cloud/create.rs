//! Makes a cluster, or a pair of them with its witness.
//!
//! A pair is made in four steps: the first cluster with the witness, which then
//! waits for its peer (`PENDING_SETUP`); the second with the witness and the
//! first one's ARN; the second's ARN told to the first; then both become
//! `ACTIVE`. Whatever of this is done already, by an earlier try that broke off,
//! is found by the name's tag and not done again, so the same command goes on
//! where it stopped. A create whose answer was lost is sent again with the
//! token that stands in the manifest, and the service makes no second cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dsql::types::MultiRegionProperties;
use clock::Time;
use drive::Stop;
use serde::Serialize;

use super::cluster::{self, Cluster};
use super::delete::settle;
use super::error::{CloudError, Kind};
use super::manifest::{Event, Intent, Line, Made, Manifest};
use super::{Cloud, Say, TAG_CREATED, TAG_NAME, TAG_STACK};
use crate::failure::Failure;

/// How often a cluster that is being made or deleted is looked at.
pub const POLL: Duration = Duration::from_secs(1);
/// How often waiting is told of.
const STILL: Duration = Duration::from_secs(30);

/// What is to be made.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its name, as a tag.
    pub name: String,
    /// One region, or the two of a pair.
    pub regions: Vec<String>,
    /// A pair's witness.
    pub witness: Option<String>,
    /// The fleet that it is for.
    pub stack: Option<String>,
    /// Further tags.
    pub tags: BTreeMap<String, String>,
    /// Whether it refuses to be deleted.
    pub deletion_protection: bool,
    /// How long all of it may take.
    pub limit: Duration,
}

/// A step and what it took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// What was done.
    pub step: String,
    /// Seconds.
    pub s: f64,
}

/// Why it is not done.
#[derive(Debug, thiserror::Error)]
pub enum Halt {
    /// A call failed.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// The manifest could not be read or written.
    #[error("{0}")]
    Manifest(Failure),
    /// The user wanted it to end.
    #[error("interrupted")]
    Stopped,
    /// It took too long.
    #[error("{what} was not done within {limit_s} s")]
    Late {
        /// What was waited for.
        what: String,
        /// The limit.
        limit_s: u64,
    },
    /// What is there is not what was asked for.
    #[error("{0}")]
    Other(String),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Halt {
        Halt::Manifest(failure)
    }
}

/// The work, and how far it has come.
pub struct Create<'a> {
    cloud: &'a Cloud,
    manifest: &'a Manifest,
    wanted: &'a Wanted,
    say: Say<'a>,
    stop: Stop,
    deadline: Time,
    /// What exists, in the order of the regions.
    pub clusters: Vec<Cluster>,
    /// Regions whose create was sent and never answered.
    pub unknown: Vec<String>,
    /// What was done, with times.
    pub steps: Vec<Step>,
}

impl<'a> Create<'a> {
    /// Prepares the work; nothing is asked yet.
    pub fn new(
        cloud: &'a Cloud,
        manifest: &'a Manifest,
        wanted: &'a Wanted,
        say: Say<'a>,
        stop: Stop,
    ) -> Create<'a> {
        Create {
            cloud,
            manifest,
            wanted,
            say,
            stop,
            deadline: cloud.clock().now() + wanted.limit,
            clusters: Vec::new(),
            unknown: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Does it. What exists afterwards is in `clusters`, done or not.
    ///
    /// # Errors
    /// Why it is not done.
    pub async fn run(&mut self) -> Result<(), Halt> {
        let (regions, name) = (self.wanted.regions.clone(), &self.wanted.name);
        settle(self.cloud, self.manifest, |entry| {
            entry.asked.name.as_ref() == Some(name) && regions.contains(&entry.asked.region)
        })
        .await?;
        let mut there = Vec::new();
        for region in &regions {
            there.push(self.existing(region).await?);
        }
        // Known before anything is made, so that a report of a failure has all.
        self.clusters = there.into_iter().flatten().collect();
        self.check_pair()?;
        for region in &regions[self.clusters.len()..] {
            self.go_on()?;
            let peer = self.clusters.first().cloned();
            let made = self.make(region, peer.as_ref()).await?;
            self.clusters.push(made);
        }
        if regions.len() == 2 {
            self.peer().await?;
        }
        self.wait_until_usable().await
    }

    /// What an earlier try has left, if it is what is wanted now.
    async fn existing(&self, region: &str) -> Result<Option<Cluster>, Halt> {
        let name = &self.wanted.name;
        let mut found = cluster::named(self.cloud, region, name).await?;
        let Some(cluster) = found.pop() else {
            return Ok(None);
        };
        let other = |what: String| {
            Err(Halt::Other(format!(
                "{what}; give another --name, or delete it with `fabric cluster delete --name \
                 {name} --regions {region}`"
            )))
        };
        if !found.is_empty() {
            let n = found.len() + 1;
            return other(format!("{n} clusters named {name} are in {region}"));
        }
        if cluster.witness != self.wanted.witness {
            let as_it_is = cluster.witness.as_deref().map_or_else(
                || "without a witness".to_owned(),
                |witness| format!("with its witness in {witness}"),
            );
            return other(format!(
                "a cluster named {name} is in {region} already, {as_it_is}"
            ));
        }
        let of_this_pair = |arn: &String| {
            cluster::region_of(arn).is_some_and(|at| self.wanted.regions.iter().any(|r| r == at))
        };
        if !cluster.peers.iter().all(of_this_pair) {
            let peers = cluster.peers.join(", ");
            return other(format!(
                "a cluster named {name} is in {region} already, paired with {peers}"
            ));
        }
        if matches!(
            cluster.status.as_str(),
            "DELETING" | "PENDING_DELETE" | "FAILED"
        ) {
            let status = &cluster.status;
            return other(format!(
                "a cluster named {name} is in {region} already, {status}"
            ));
        }
        (self.say)(&format!(
            "{region}: {} is there already, {}",
            cluster.id, cluster.status
        ));
        Ok(Some(cluster))
    }

    /// What exists is the beginning of what is wanted: the first cluster, or
    /// both, the second of which knows the first.
    fn check_pair(&self) -> Result<(), Halt> {
        let knows = |second: &Cluster, first: &Cluster| second.peers.contains(&first.arn);
        let (name, regions) = (&self.wanted.name, &self.wanted.regions);
        let begun = match self.clusters.as_slice() {
            [] => true,
            [one] => one.region == regions[0],
            [first, second, ..] => knows(second, first),
        };
        if begun {
            return Ok(());
        }
        Err(Halt::Other(format!(
            "what is named {name} in {} does not belong together; delete it with `fabric cluster \
             delete --name {name} --regions {}`",
            regions.join(" and "),
            regions.join(",")
        )))
    }

    /// Asks for one cluster: the intent first, then the call, then what came.
    async fn make(&mut self, region: &str, peer: Option<&Cluster>) -> Result<Cluster, Halt> {
        let wanted = self.wanted;
        let begun = self.cloud.clock().now();
        let line = self.intent(region)?;
        let mut tags = wanted.tags.clone();
        tags.insert(TAG_NAME.to_owned(), wanted.name.clone());
        // The instant of the intent, so that the same call has the same tags.
        tags.insert(TAG_CREATED.to_owned(), line.at.clone());
        if let Some(stack) = &wanted.stack {
            tags.insert(TAG_STACK.to_owned(), stack.clone());
        }
        let peering = wanted.witness.as_ref().map(|witness| {
            MultiRegionProperties::builder()
                .witness_region(witness)
                .set_clusters(peer.map(|peer| vec![peer.arn.clone()]))
                .build()
        });
        let sent = self
            .cloud
            .dsql(region)
            .create_cluster()
            .client_token(&line.key)
            .deletion_protection_enabled(wanted.deletion_protection)
            .set_tags(Some(tags.into_iter().collect()))
            .set_multi_region_properties(peering)
            .send()
            .await;
        let told = match sent {
            Ok(told) => told,
            Err(error) => {
                let error = CloudError::of("dsql CreateCluster", region, &error);
                if error.is_unknown() {
                    self.unknown.push(region.to_owned());
                } else {
                    self.manifest.refused(&line, &error.to_string())?;
                }
                return Err(error.into());
            }
        };
        self.manifest
            .note(&line, Event::Created, Some(told.arn()))?;
        self.took(format!("create in {region}"), begun);
        let id = told.identifier().to_owned();
        (self.say)(&format!("{region}: created {id}, {}", told.status()));
        match cluster::get(self.cloud, region, &id).await? {
            Some(cluster) => Ok(cluster),
            None => Err(Halt::Other(format!(
                "{region}: {id} was created and is not there"
            ))),
        }
    }

    /// The intent of an earlier try whose answer was lost, or a new one.
    fn intent(&self, region: &str) -> Result<Line, Failure> {
        let wanted = self.wanted;
        let lost = self.manifest.read()?.entries.into_iter().rev().find(|e| {
            e.is_open()
                && e.arn.is_none()
                && e.asked.made == Made::DsqlCluster
                && e.asked.region == region
                && e.asked.name.as_deref() == Some(&wanted.name)
        });
        if let Some(lost) = lost {
            (self.say)(&format!(
                "{region}: asked for at {} already, and the answer was lost; asking again",
                lost.asked.at
            ));
            return Ok(lost.asked);
        }
        self.manifest.intend(&Intent {
            made: Made::DsqlCluster,
            region,
            name: &wanted.name,
            stack: wanted.stack.as_deref(),
        })
    }

    /// Tells the first cluster of the second, which knows the first already.
    async fn peer(&mut self) -> Result<(), Halt> {
        let [first, second] = self.clusters.as_slice() else {
            return Ok(());
        };
        if first.peers.contains(&second.arn) {
            return Ok(());
        }
        let begun = self.cloud.clock().now();
        let (first, second) = (first.clone(), second.clone());
        let peering = MultiRegionProperties::builder()
            .set_witness_region(self.wanted.witness.clone())
            .clusters(&second.arn)
            .build();
        loop {
            self.go_on()?;
            let sent = self
                .cloud
                .dsql(&first.region)
                .update_cluster()
                .identifier(&first.id)
                .multi_region_properties(peering.clone())
                .send()
                .await;
            match sent.map_err(|e| CloudError::of("dsql UpdateCluster", &first.region, &e)) {
                Ok(_) => break,
                // Either of them may still be busy with its own beginning.
                Err(error) if error.kind == Kind::Conflict => {
                    self.pause("the peering").await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let step = format!("peer {} with {}", first.region, second.region);
        (self.say)(&format!("{}: peered with {}", first.region, second.region));
        self.took(step, begun);
        Ok(())
    }

    async fn wait_until_usable(&mut self) -> Result<(), Halt> {
        let begun = self.cloud.clock().now();
        let mut told = begun;
        let mut ready = vec![false; self.clusters.len()];
        loop {
            for (index, ready) in ready.iter_mut().enumerate() {
                if *ready {
                    continue;
                }
                let (region, id) = {
                    let cluster = &self.clusters[index];
                    (cluster.region.clone(), cluster.id.clone())
                };
                let Some(now) = cluster::get(self.cloud, &region, &id).await? else {
                    self.clusters.remove(index);
                    return Err(Halt::Other(format!("{region}: {id} is gone")));
                };
                *ready = now.is_usable();
                let status = now.status.clone();
                self.clusters[index] = now;
                if *ready {
                    (self.say)(&format!("{region}: {id} is {status}"));
                    self.took(format!("wait for {region}"), begun);
                } else if status == "FAILED" {
                    return Err(Halt::Other(format!("{region}: {id} has FAILED")));
                }
            }
            if ready.iter().all(|ready| *ready) {
                return Ok(());
            }
            let now = self.cloud.clock().now();
            if now.since(told) >= STILL {
                told = now;
                let states = self.clusters.iter().map(|c| {
                    let (region, status) = (&c.region, &c.status);
                    format!("{region} {status}")
                });
                let states: Vec<String> = states.collect();
                let s = now.since(begun).as_secs();
                (self.say)(&format!("waiting for {s} s: {}", states.join(", ")));
            }
            self.pause("becoming ACTIVE").await?;
        }
    }

    fn go_on(&self) -> Result<(), Halt> {
        if self.stop.is_set() {
            return Err(Halt::Stopped);
        }
        Ok(())
    }

    /// Waits for the next look; ends early when the user or the limit does.
    async fn pause(&mut self, what: &str) -> Result<(), Halt> {
        pause(self.cloud, &mut self.stop).await?;
        if self.cloud.clock().now() >= self.deadline {
            return Err(Halt::Late {
                what: what.to_owned(),
                limit_s: self.wanted.limit.as_secs(),
            });
        }
        Ok(())
    }

    fn took(&mut self, step: String, begun: Time) {
        let s = self.cloud.clock().now().since(begun).as_secs_f64();
        self.steps.push(Step { step, s });
    }
}

/// Waits for the next look at something.
///
/// # Errors
/// When the user wants it to end.
pub async fn pause(cloud: &Cloud, stop: &mut Stop) -> Result<(), Halt> {
    match cloud.clock().timeout(POLL, stop.wait()).await {
        Some(()) => Err(Halt::Stopped),
        None => Ok(()),
    }
}
