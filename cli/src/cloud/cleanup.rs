//! Removes a whole fleet: `fabric fleet clean --all`.
//!
//! The order is what depends on what. Buckets are emptied first, since a stack
//! cannot delete one that holds something. Satellites go before the home, whose
//! queue and table they use. Then come buckets and log groups that a stack has
//! left, and the clusters. At the end everything is counted until nothing is
//! there, by tag and by listing; whatever comes up again meanwhile, such as the
//! log group of a function that was still running, is deleted again.
//!
//! A step that fails does not stop the others. The end counts.

use std::time::Duration;

use clock::Time;
use drive::Stop;
use serde::Serialize;

use super::cluster::Cluster;
use super::create::{Halt, pause};
use super::delete::{self, How};
use super::error::{CloudError, Kind};
use super::inventory::{self, ClusterError, Inventory, Scope};
use super::manifest::{Event, Made, Manifest};
use super::{Cloud, Say, bucket, logs, stack};
use crate::failure::Failure;

/// A stack whose bucket was written to while it was being deleted fails to
/// delete; it is emptied and tried again as often as this.
const TRIES: u32 = 3;

/// What is removed, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The fleet, and which clusters are meant.
    pub scope: Scope,
    /// Whether deletion protection of clusters is switched off.
    pub force: bool,
    /// How long all of it may take.
    pub limit: Duration,
}

/// One thing that was removed, or should have been.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Removed {
    /// Where.
    pub region: String,
    /// Such as `stack`, `objects`, `log group` or `cluster`.
    pub kind: &'static str,
    /// Its name or id.
    pub id: String,
    /// When it was created, UTC, where the service says so.
    pub created_utc: Option<String>,
    /// When its deletion was asked for, UTC.
    pub requested_utc: Option<String>,
    /// When it was known to be gone, UTC.
    pub confirmed_utc: Option<String>,
    /// Seconds between the two.
    pub s: Option<f64>,
    /// How many object versions a bucket held.
    pub objects: Option<u64>,
}

/// What it came to.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Everything that was removed, in that order.
    pub removed: Vec<Removed>,
    /// What went wrong on the way, a line each.
    pub problems: Vec<String>,
    /// What is still there.
    pub remaining: Inventory,
    /// Whether nothing is, by both counts.
    pub complete: bool,
}

/// Removes a fleet and counts until nothing of it is there.
///
/// # Errors
/// When the manifest cannot be read or written. What a service refuses is in
/// the report.
pub async fn all(
    cloud: &Cloud,
    manifest: &Manifest,
    options: &Options,
    say: Say<'_>,
    stop: &mut Stop,
) -> Result<Report, Failure> {
    let deadline = cloud.clock().now() + options.limit;
    let mut work = Work {
        cloud,
        manifest,
        options,
        say,
        stop,
        deadline,
        report: Report::default(),
    };
    match work.run().await {
        Ok(()) => {}
        Err(Halt::Manifest(failure)) => return Err(failure),
        Err(halt) => work.report.problems.push(halt.to_string()),
    }
    let mut report = work.report;
    report.remaining = inventory::count(cloud, manifest, &options.scope).await?;
    report.complete = report.remaining.is_empty();
    Ok(report)
}

struct Work<'a> {
    cloud: &'a Cloud,
    manifest: &'a Manifest,
    options: &'a Options,
    say: Say<'a>,
    stop: &'a mut Stop,
    deadline: Time,
    report: Report,
}

impl Work<'_> {
    async fn run(&mut self) -> Result<(), Halt> {
        let regions = self.options.scope.regions.clone();
        for region in regions.iter().rev() {
            self.stack(region).await?;
        }
        for region in regions.iter().rev() {
            let left = self.left(region).await;
            self.note(left)?;
        }
        self.clusters().await?;
        self.until_nothing_is_left(&regions).await
    }

    /// Keeps a service's refusal as a problem and goes on.
    fn note(&mut self, done: Result<(), CloudError>) -> Result<(), Halt> {
        if let Err(error) = done {
            let line = match error.kind {
                Kind::Unsupported if self.cloud.is_stand_in() => {
                    format!("the stand-in has no {error}")
                }
                _ => error.to_string(),
            };
            (self.say)(&line);
            if !self.report.problems.contains(&line) {
                self.report.problems.push(line);
            }
        }
        if self.stop.is_set() {
            return Err(Halt::Stopped);
        }
        Ok(())
    }

    async fn pause(&mut self) -> Result<bool, Halt> {
        pause(self.cloud, self.stop).await?;
        Ok(self.cloud.clock().now() < self.deadline)
    }

    async fn stack(&mut self, region: &str) -> Result<(), Halt> {
        let name = &self.options.scope.stack;
        let found = match stack::get(self.cloud, region, name).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                (self.say)(&format!("{region}: no stack {name}"));
                return self.close_stack(region);
            }
            Err(error) => return self.note(Err(error)),
        };
        let entry = self.stack_line(region, &found.arn)?;
        let begun = self.cloud.clock().now();
        let mut removed = self.removed(region, "stack", &found.name);
        removed.created_utc = Some(found.created_utc.clone());
        // Before its bucket is emptied: what stays keeps what it holds.
        if found.protected {
            let line = format!(
                "{region}: stack {name} has termination protection; switch it off with: aws \
                 cloudformation update-termination-protection --no-enable-termination-protection \
                 --stack-name {name} --region {region}"
            );
            (self.say)(&line);
            self.report.problems.push(line);
            self.report.removed.push(removed);
            return Ok(());
        }
        for attempt in 1..=TRIES {
            let emptied = self.empty_buckets(region).await;
            self.note(emptied)?;
            if attempt == 1 {
                self.manifest
                    .note(&entry, Event::DeleteRequested, Some(&found.arn))?;
                removed.requested_utc = Some(self.cloud.utc());
            }
            if let Err(error) = stack::delete(self.cloud, region, &found).await {
                self.report.removed.push(removed);
                return self.note(Err(error));
            }
            (self.say)(&format!("{region}: deletion of stack {name} asked for"));
            match self.stack_gone(region, &found).await? {
                Ended::Gone => {
                    removed.confirmed_utc = Some(self.cloud.utc());
                    removed.s = Some(self.cloud.clock().now().since(begun).as_secs_f64());
                    self.manifest
                        .note(&entry, Event::Deleted, Some(&found.arn))?;
                    self.close_stack(region)?;
                    (self.say)(&format!("{region}: stack {name} is gone"));
                    break;
                }
                Ended::Failed(why) if attempt == TRIES => {
                    let line = format!("{region}: stack {name} could not be deleted: {why}");
                    self.report.problems.push(line);
                }
                Ended::Failed(why) => {
                    (self.say)(&format!("{region}: stack {name}: {why}; trying again"));
                }
                Ended::Late(status) => {
                    let line = format!("{region}: stack {name} is still {status}");
                    self.report.problems.push(line);
                    break;
                }
            }
        }
        self.report.removed.push(removed);
        Ok(())
    }

    /// What the manifest still holds open of a stack that is gone.
    fn close_stack(&self, region: &str) -> Result<(), Halt> {
        for entry in self.manifest.read()?.entries {
            let asked = &entry.asked;
            let this = asked.made == Made::Stack
                && asked.region == region
                && asked.name.as_deref() == Some(&self.options.scope.stack);
            if this && entry.is_open() {
                self.manifest.note(asked, Event::Deleted, None)?;
            }
        }
        Ok(())
    }

    fn stack_line(&self, region: &str, arn: &str) -> Result<super::manifest::Line, Failure> {
        let name = Some(self.options.scope.stack.as_str());
        let known = self.manifest.read()?.entries.into_iter().rev().find(|e| {
            e.is_open()
                && e.asked.made == Made::Stack
                && e.asked.region == region
                && e.asked.name.as_deref() == name
        });
        Ok(known.map_or_else(
            || self.manifest.foreign(Made::Stack, region, arn),
            |entry| entry.asked,
        ))
    }

    async fn stack_gone(&mut self, region: &str, found: &stack::Stack) -> Result<Ended, Halt> {
        loop {
            match stack::get(self.cloud, region, &found.arn).await {
                Ok(None) => return Ok(Ended::Gone),
                Ok(Some(now)) if now.delete_failed() => {
                    let why = now.reason.unwrap_or(now.status);
                    return Ok(Ended::Failed(why));
                }
                Ok(Some(now)) => {
                    if !self.pause().await? {
                        return Ok(Ended::Late(now.status));
                    }
                }
                Err(error) => {
                    self.note(Err(error))?;
                    if !self.pause().await? {
                        return Ok(Ended::Late("unknown".to_owned()));
                    }
                }
            }
        }
    }

    async fn empty_buckets(&mut self, region: &str) -> Result<(), CloudError> {
        let name = &self.options.scope.stack;
        let stacks = stack::names(self.cloud, region).await?;
        for bucket in bucket::of_stack(self.cloud, region, name, &stacks).await? {
            let begun = self.cloud.clock().now();
            let mut removed = self.removed(region, "objects", &bucket);
            removed.requested_utc = Some(self.cloud.utc());
            let objects = bucket::empty(self.cloud, region, &bucket).await?;
            if objects == 0 {
                continue;
            }
            (self.say)(&format!(
                "{region}: bucket {bucket} emptied of {objects} objects"
            ));
            removed.objects = Some(objects);
            self.confirm(removed, begun);
        }
        Ok(())
    }

    /// Buckets and log groups that are there without the stack.
    async fn left(&mut self, region: &str) -> Result<(), CloudError> {
        let name = self.options.scope.stack.clone();
        let stacks = stack::names(self.cloud, region).await?;
        if stacks.contains(&name) {
            // Its deletion failed or was refused; what it holds is its own.
            return Ok(());
        }
        self.empty_buckets(region).await?;
        for bucket in bucket::of_stack(self.cloud, region, &name, &stacks).await? {
            let begun = self.cloud.clock().now();
            let mut removed = self.removed(region, "bucket", &bucket);
            removed.requested_utc = Some(self.cloud.utc());
            bucket::delete(self.cloud, region, &bucket).await?;
            (self.say)(&format!("{region}: bucket {bucket} deleted"));
            self.confirm(removed, begun);
        }
        for group in logs::of_stack(self.cloud, region, &name, &stacks).await? {
            let begun = self.cloud.clock().now();
            let mut removed = self.removed(region, "log group", &group);
            removed.requested_utc = Some(self.cloud.utc());
            logs::delete(self.cloud, region, &group).await?;
            (self.say)(&format!("{region}: log group {group} deleted"));
            self.confirm(removed, begun);
        }
        Ok(())
    }

    async fn clusters(&mut self) -> Result<(), Halt> {
        let scope = &self.options.scope;
        let clusters = match inventory::clusters(self.cloud, self.manifest, scope).await {
            Ok(clusters) => clusters,
            Err(ClusterError::Cloud(error)) => return self.note(Err(error)),
            Err(ClusterError::Manifest(failure)) => return Err(failure.into()),
        };
        // One that stays must not keep the others, but half a pair alone would
        // wait for ever.
        let force = self.options.force;
        let stays = |one: &Cluster| !force && one.deletion_protection;
        let (kept, going): (Vec<Cluster>, Vec<Cluster>) =
            clusters.iter().cloned().partition(|one| {
                let peer_stays = |other: &Cluster| one.peers.contains(&other.arn) && stays(other);
                stays(one) || clusters.iter().any(peer_stays)
            });
        for cluster in kept {
            self.keep(&cluster);
        }
        let how = How {
            force,
            limit: self.deadline.since(self.cloud.clock().now()),
        };
        let deletion =
            delete::delete(self.cloud, self.manifest, &going, how, self.say, self.stop).await?;
        self.report.problems.extend(deletion.problems);
        let gone = deletion.clusters.into_iter().map(|gone| Removed {
            region: gone.region,
            kind: "cluster",
            id: gone.id,
            created_utc: Some(gone.created_utc),
            requested_utc: gone.requested_utc,
            confirmed_utc: gone.confirmed_utc,
            s: gone.s,
            objects: None,
        });
        self.report.removed.extend(gone);
        Ok(())
    }

    fn keep(&mut self, cluster: &Cluster) {
        let (region, id) = (&cluster.region, &cluster.id);
        let line = format!("{region}: cluster {id} or its peer has deletion protection and stays");
        (self.say)(&line);
        self.report.problems.push(line);
        let mut removed = self.removed(region, "cluster", id);
        removed.created_utc = Some(cluster.created_utc.clone());
        self.report.removed.push(removed);
    }

    async fn until_nothing_is_left(&mut self, regions: &[String]) -> Result<(), Halt> {
        let mut told = String::new();
        loop {
            let scope = &self.options.scope;
            let now = inventory::count(self.cloud, self.manifest, scope).await?;
            let line = format!(
                "remaining: {} by tag, {} by listing{}",
                now.by_tag.len(),
                now.by_listing.len(),
                if now.unasked.is_empty() {
                    String::new()
                } else {
                    format!(", {} not asked", now.unasked.len())
                }
            );
            if line != told {
                (self.say)(&line);
                told = line;
            }
            // What is kept on purpose, or was refused, will not go by waiting.
            if now.is_empty() || self.is_hopeless(&now) || !self.pause().await? {
                return Ok(());
            }
            for region in regions.iter().rev() {
                let left = self.left(region).await;
                self.note(left)?;
            }
        }
    }

    /// Whether all that is listed are things whose deletion was given up.
    fn is_hopeless(&self, now: &Inventory) -> bool {
        let given_up = |item: &inventory::Item| {
            self.report.removed.iter().any(|removed| {
                removed.confirmed_utc.is_none()
                    && removed.kind == item.kind
                    && removed.id == item.id
                    && removed.region == item.region
            })
        };
        let stack_stays = |region: &str| {
            let here = |item: &&inventory::Item| item.kind == "stack" && item.region == region;
            now.by_listing.iter().find(here).is_some_and(given_up)
        };
        let listed = &now.by_listing;
        !listed.is_empty()
            && now.unasked.is_empty()
            && listed
                .iter()
                .all(|item| given_up(item) || stack_stays(&item.region))
    }

    fn removed(&self, region: &str, kind: &'static str, id: &str) -> Removed {
        Removed {
            region: region.to_owned(),
            kind,
            id: id.to_owned(),
            created_utc: None,
            requested_utc: None,
            confirmed_utc: None,
            s: None,
            objects: None,
        }
    }

    fn confirm(&mut self, mut removed: Removed, begun: Time) {
        removed.confirmed_utc = Some(self.cloud.utc());
        removed.s = Some(self.cloud.clock().now().since(begun).as_secs_f64());
        self.report.removed.push(removed);
    }
}

/// How a stack's deletion ended.
enum Ended {
    Gone,
    Failed(String),
    Late(String),
}
