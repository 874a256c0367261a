//! What of a fleet is in the account, counted in two ways that can't both be
//! wrong in the same way: by tag, with the Resource Groups Tagging API, and by
//! listing each service. The tagging API lags behind and still shows what has
//! been deleted for some minutes; listing sees what was never tagged.

use std::collections::BTreeSet;
use std::fmt;

use aws_sdk_resourcegroupstagging::types::TagFilter;
use serde::Serialize;

use super::cluster::{self, Cluster};
use super::delete::{settle, with_peers};
use super::error::{CloudError, Kind};
use super::manifest::{Entry, Manifest};
use super::{Cloud, TAG_NAME, TAG_STACK, bucket, logs, stack};
use crate::failure::Failure;

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The fleet, by its stack's name.
    pub stack: String,
    /// Where it is, the home first.
    pub regions: Vec<String>,
    /// Whether clusters that the manifest names and that are for no fleet are
    /// meant too.
    pub unbound_clusters: bool,
}

/// One thing that is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Item {
    /// Where.
    pub region: String,
    /// Such as `stack` or `log group`; `tagged` where only the tag is known.
    pub kind: &'static str,
    /// Its name, or its ARN.
    pub id: String,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {}", self.kind, self.id, self.region)
    }
}

/// Both counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// What bears the fleet's tag, or the name's tag of one of its clusters.
    pub by_tag: Vec<Item>,
    /// What the services list.
    pub by_listing: Vec<Item>,
    /// What could not be asked, a line each: then zero proves nothing.
    pub unasked: Vec<String>,
    /// What the stand-in does not have, a line each.
    pub notes: Vec<String>,
}

impl Inventory {
    /// Whether nothing is there, by both counts, and everything was asked.
    pub fn is_empty(&self) -> bool {
        self.by_tag.is_empty() && self.by_listing.is_empty() && self.unasked.is_empty()
    }

    /// A stand-in keeps the tags of a table that went with its stack. What is
    /// tagged as a table and not listed as one is put into the notes. On AWS
    /// such a thing is waited for.
    fn drop_ghosts(&mut self) {
        let listed = &self.by_listing;
        let is_ghost = |item: &Item| {
            item.id.split_once(":table/").is_some_and(|(_, name)| {
                !listed.iter().any(|one| {
                    (one.kind, one.id.as_str(), &one.region) == ("table", name, &item.region)
                })
            })
        };
        let (ghosts, there) = self.by_tag.drain(..).partition(is_ghost);
        self.by_tag = there;
        let ghosts: Vec<Item> = ghosts;
        self.notes.extend(ghosts.iter().map(|ghost| {
            let (id, region) = (&ghost.id, &ghost.region);
            format!("the stand-in still has the tags of {id} in {region}, which is gone")
        }));
    }

    /// The answer of one service, or why there is none.
    fn take(&mut self, cloud: &Cloud, answer: Result<Vec<Item>, CloudError>, by_tag: bool) {
        match answer {
            Ok(items) if by_tag => self.by_tag.extend(items),
            Ok(items) => self.by_listing.extend(items),
            Err(error) if error.kind == Kind::Unsupported && cloud.is_stand_in() => {
                self.notes.push(format!("the stand-in has no {error}"));
            }
            Err(error) => self.unasked.push(error.to_string()),
        }
    }
}

/// Counts what of a fleet is there.
///
/// # Errors
/// When the manifest cannot be read or written.
pub async fn count(
    cloud: &Cloud,
    manifest: &Manifest,
    scope: &Scope,
) -> Result<Inventory, Failure> {
    let mut inventory = Inventory::default();
    for region in &scope.regions {
        let stacks = match stack::names(cloud, region).await {
            Ok(stacks) => stacks,
            Err(error) => {
                inventory.take(cloud, Err(error), false);
                Vec::new()
            }
        };
        let name = &scope.stack;
        let place = Place {
            cloud,
            region,
            name,
            stacks: &stacks,
        };
        let own = stacks.iter().filter(|stack| *stack == name);
        let own = own.map(|stack| place.item("stack", stack)).collect();
        inventory.take(cloud, Ok(own), false);
        inventory.take(cloud, place.functions().await, false);
        inventory.take(cloud, place.queues().await, false);
        inventory.take(cloud, place.tables().await, false);
        inventory.take(cloud, place.log_groups().await, false);
        inventory.take(cloud, place.buckets().await, false);
    }
    match clusters(cloud, manifest, scope).await {
        Ok(clusters) => {
            let items = clusters.into_iter().map(|cluster| Item {
                region: cluster.region,
                kind: "cluster",
                id: cluster.id,
            });
            inventory.by_listing.extend(items);
        }
        Err(ClusterError::Cloud(error)) => inventory.take(cloud, Err(error), false),
        Err(ClusterError::Manifest(failure)) => return Err(failure),
    }
    let names = cluster_names(manifest, scope)?;
    for region in &scope.regions {
        let tagged = by_tag(cloud, region, TAG_STACK, vec![scope.stack.clone()]).await;
        inventory.take(cloud, tagged, true);
        // The API takes at most 20 values of a tag at once.
        for names in names.chunks(20) {
            let tagged = by_tag(cloud, region, TAG_NAME, names.to_vec()).await;
            inventory.take(cloud, tagged, true);
        }
    }
    if cloud.is_stand_in() {
        inventory.drop_ghosts();
        let note = "counted on a stand-in, whose tagging API does not know every service";
        inventory.notes.push(note.to_owned());
    }
    for list in [&mut inventory.by_tag, &mut inventory.by_listing] {
        list.sort();
        list.dedup();
    }
    inventory.unasked.dedup();
    inventory.notes.dedup();
    Ok(inventory)
}

/// Why the clusters of a fleet could not be found.
#[derive(Debug)]
pub enum ClusterError {
    /// The service could not be asked.
    Cloud(CloudError),
    /// The manifest could not be read or written.
    Manifest(Failure),
}

/// The clusters of a fleet: those with its tag, in its regions, and those that
/// the manifest names, wherever they are; with their peers.
///
/// # Errors
/// When they could not be asked for.
pub async fn clusters(
    cloud: &Cloud,
    manifest: &Manifest,
    scope: &Scope,
) -> Result<Vec<Cluster>, ClusterError> {
    let mut all: Vec<Cluster> = Vec::new();
    for region in &scope.regions {
        let listed = cluster::list(cloud, region)
            .await
            .map_err(ClusterError::Cloud)?;
        let ours = listed
            .into_iter()
            .filter(|cluster| cluster.stack() == Some(&scope.stack));
        all.extend(ours);
    }
    let settled = settle(cloud, manifest, |entry| is_meant(entry, scope))
        .await
        .map_err(ClusterError::Manifest)?;
    let noted = settled.into_iter().filter_map(|(_, cluster)| cluster);
    // A tag says what a cluster is for now; the manifest what it was made for.
    all.extend(noted.filter(|c| c.stack().is_none_or(|stack| stack == scope.stack)));
    with_peers(cloud, all).await.map_err(ClusterError::Cloud)
}

fn is_meant(entry: &Entry, scope: &Scope) -> bool {
    match entry.asked.stack.as_deref() {
        Some(stack) => stack == scope.stack,
        None => scope.unbound_clusters,
    }
}

/// The names under which the fleet's clusters were made, gone or not.
fn cluster_names(manifest: &Manifest, scope: &Scope) -> Result<Vec<String>, Failure> {
    let entries = manifest.read()?.entries;
    let meant = entries.into_iter().filter(|entry| is_meant(entry, scope));
    let names: BTreeSet<String> = meant.filter_map(|entry| entry.asked.name).collect();
    Ok(names.into_iter().collect())
}

/// What bears a tag in a region.
async fn by_tag(
    cloud: &Cloud,
    region: &str,
    key: &str,
    values: Vec<String>,
) -> Result<Vec<Item>, CloudError> {
    let filter = TagFilter::builder()
        .key(key)
        .set_values(Some(values))
        .build();
    let mut pages = cloud
        .tags(region)
        .get_resources()
        .tag_filters(filter)
        .into_paginator()
        .send();
    let mut items = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| CloudError::of("tagging GetResources", region, &e))?;
        let mappings = page.resource_tag_mapping_list().iter();
        items.extend(mappings.filter_map(|m| m.resource_arn()).map(|arn| Item {
            region: region.to_owned(),
            kind: "tagged",
            id: arn.to_owned(),
        }));
    }
    Ok(items)
}

/// One region, and the stack whose things are listed in it.
struct Place<'a> {
    cloud: &'a Cloud,
    region: &'a str,
    name: &'a str,
    stacks: &'a [String],
}

impl Place<'_> {
    fn item(&self, kind: &'static str, id: &str) -> Item {
        Item {
            region: self.region.to_owned(),
            kind,
            id: id.to_owned(),
        }
    }

    fn owns(&self, resource: &str) -> bool {
        stack::owns(self.name, resource, self.stacks)
    }

    async fn functions(&self) -> Result<Vec<Item>, CloudError> {
        let lambda = self.cloud.functions(self.region);
        let mut pages = lambda.list_functions().into_paginator().send();
        let mut items = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|e| CloudError::of("lambda ListFunctions", self.region, &e))?;
            let names = page.functions().iter().filter_map(|f| f.function_name());
            items.extend(
                names
                    .filter(|name| self.owns(name))
                    .map(|name| self.item("function", name)),
            );
        }
        Ok(items)
    }

    async fn queues(&self) -> Result<Vec<Item>, CloudError> {
        let mut pages = self
            .cloud
            .queues(self.region)
            .list_queues()
            .queue_name_prefix(format!("{}-", self.name))
            .into_paginator()
            .send();
        let mut items = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|e| CloudError::of("sqs ListQueues", self.region, &e))?;
            let names = page
                .queue_urls()
                .iter()
                .filter_map(|url| url.rsplit('/').next());
            items.extend(
                names
                    .filter(|name| self.owns(name))
                    .map(|name| self.item("queue", name)),
            );
        }
        Ok(items)
    }

    async fn tables(&self) -> Result<Vec<Item>, CloudError> {
        let tables = self.cloud.tables(self.region);
        let mut pages = tables.list_tables().into_paginator().send();
        let mut items = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|e| CloudError::of("dynamodb ListTables", self.region, &e))?;
            let names = page.table_names().iter();
            items.extend(
                names
                    .filter(|name| self.owns(name))
                    .map(|name| self.item("table", name)),
            );
        }
        Ok(items)
    }

    async fn log_groups(&self) -> Result<Vec<Item>, CloudError> {
        let groups = logs::of_stack(self.cloud, self.region, self.name, self.stacks).await?;
        Ok(groups
            .iter()
            .map(|group| self.item("log group", group))
            .collect())
    }

    async fn buckets(&self) -> Result<Vec<Item>, CloudError> {
        let buckets = bucket::of_stack(self.cloud, self.region, self.name, self.stacks).await?;
        Ok(buckets
            .iter()
            .map(|bucket| self.item("bucket", bucket))
            .collect())
    }
}
