//! DSQL clusters as the control plane shows them, and how one is found: by its
//! id, by its name's tag, or by what the manifest says.

use std::collections::BTreeMap;
use std::time::SystemTime;

use aws_sdk_dsql::operation::get_cluster::GetClusterOutput;
use aws_sdk_dsql::types::ClusterStatus;
use serde::Serialize;

use super::error::{CloudError, found};
use super::{Cloud, TAG_NAME, TAG_STACK};

/// A cluster in one region; a pair is two of these that name each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cluster {
    /// 26 letters and digits.
    pub id: String,
    /// The account's name for it.
    pub arn: String,
    /// Where it is.
    pub region: String,
    /// As the service says, such as `ACTIVE`.
    pub status: String,
    /// The name that clients connect to.
    pub host: String,
    /// When the service says it was created, UTC.
    pub created_utc: String,
    /// Whether it refuses to be deleted.
    pub deletion_protection: bool,
    /// The region of a pair's witness.
    pub witness: Option<String>,
    /// ARNs of the other clusters of its pair.
    pub peers: Vec<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl Cluster {
    /// What `--name` said when it was made.
    pub fn name(&self) -> Option<&str> {
        self.tags.get(TAG_NAME).map(String::as_str)
    }

    /// The fleet that it is for.
    pub fn stack(&self) -> Option<&str> {
        self.tags.get(TAG_STACK).map(String::as_str)
    }

    /// Whether it takes connections. An idle or inactive cluster wakes when one
    /// comes.
    pub fn is_usable(&self) -> bool {
        matches!(self.status.as_str(), "ACTIVE" | "IDLE" | "INACTIVE")
    }

    fn of(region: &str, told: GetClusterOutput) -> Cluster {
        let peering = told.multi_region_properties();
        let peers = peering.map_or(&[][..], |p| p.clusters());
        let own = told.arn.clone();
        Cluster {
            host: host(told.endpoint(), told.identifier(), region),
            status: told.status.as_str().to_owned(),
            created_utc: SystemTime::try_from(told.creation_time)
                .map_or_else(|_| "-".to_owned(), report::utc),
            deletion_protection: told.deletion_protection_enabled,
            witness: peering.and_then(|p| p.witness_region()).map(str::to_owned),
            // A pair's list may name the cluster itself.
            peers: peers.iter().filter(|arn| **arn != own).cloned().collect(),
            tags: told.tags.clone().unwrap_or_default().into_iter().collect(),
            region: region.to_owned(),
            id: told.identifier,
            arn: told.arn,
        }
    }
}

/// The name that clients connect to; older answers do not hold it.
fn host(endpoint: Option<&str>, id: &str, region: &str) -> String {
    match endpoint {
        Some(endpoint) if !endpoint.is_empty() => endpoint.to_owned(),
        _ => format!("{id}.dsql.{region}.on.aws"),
    }
}

/// The id at the end of a cluster's ARN; anything else is an id already.
pub fn id_of(arn: &str) -> &str {
    arn.rsplit_once(":cluster/").map_or(arn, |(_, id)| id)
}

/// The region in an ARN.
pub fn region_of(arn: &str) -> Option<&str> {
    let mut parts = arn.split(':');
    let is_arn = parts.next() == Some("arn");
    parts.nth(2).filter(|region| is_arn && !region.is_empty())
}

/// A cluster's present state, if there is one.
///
/// # Errors
/// When the service could not be asked.
pub async fn get(cloud: &Cloud, region: &str, id: &str) -> Result<Option<Cluster>, CloudError> {
    let answer = cloud.dsql(region).get_cluster().identifier(id).send().await;
    let told = found(answer.map_err(|e| CloudError::of("dsql GetCluster", region, &e)))?;
    Ok(told
        .filter(|told| told.status != ClusterStatus::Deleted)
        .map(|told| Cluster::of(region, told)))
}

/// Every cluster of a region.
///
/// # Errors
/// When the service could not be asked.
pub async fn list(cloud: &Cloud, region: &str) -> Result<Vec<Cluster>, CloudError> {
    let mut pages = cloud.dsql(region).list_clusters().into_paginator().send();
    let mut clusters = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| CloudError::of("dsql ListClusters", region, &e))?;
        for summary in page.clusters() {
            // A stand-in may list those of every region.
            if region_of(summary.arn()).is_some_and(|at| at != region) {
                continue;
            }
            clusters.extend(get(cloud, region, summary.identifier()).await?);
        }
    }
    Ok(clusters)
}

/// The clusters of a region that were made under a name.
///
/// # Errors
/// When the service could not be asked.
pub async fn named(cloud: &Cloud, region: &str, name: &str) -> Result<Vec<Cluster>, CloudError> {
    let mut clusters = list(cloud, region).await?;
    clusters.retain(|cluster| cluster.name() == Some(name));
    Ok(clusters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arns_are_taken_apart() {
        let arn = "arn:aws:dsql:us-east-2:111122223333:cluster/abcdefghijklmnopqrstuvwxyz";
        assert_eq!(id_of(arn), "abcdefghijklmnopqrstuvwxyz");
        assert_eq!(region_of(arn), Some("us-east-2"));
        assert_eq!(id_of("abc"), "abc");
        assert_eq!(region_of("abc"), None);
        assert_eq!(region_of("arn:aws:s3:::bucket"), None);
    }

    #[test]
    fn a_host_is_known_where_the_service_does_not_say_it() {
        assert_eq!(host(None, "abc", "us-east-1"), "abc.dsql.us-east-1.on.aws");
        assert_eq!(host(Some("x:1"), "abc", "us-east-1"), "x:1");
    }
}
