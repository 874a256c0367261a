//! Deletes clusters and sees them gone.
//!
//! Half of a pair that is deleted waits (`PENDING_DELETE`) until the other half
//! is deleted too, so all deletions are asked for before any is waited for. A
//! cluster is gone when the service answers that there is none.

use std::collections::BTreeMap;
use std::time::Duration;

use drive::Stop;
use serde::Serialize;

use super::cluster::{self, Cluster};
use super::create::{Halt, pause};
use super::error::{CloudError, Kind};
use super::manifest::{Entry, Event, Line, Made, Manifest};
use super::{Cloud, Say};
use crate::failure::Failure;

/// An answer that is younger than this may not have reached the listing yet.
const YOUNG: Duration = Duration::from_secs(60);

/// How to delete.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// Whether deletion protection is switched off first.
    pub force: bool,
    /// How long all of it may take.
    pub limit: Duration,
}

/// What became of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gone {
    /// 26 letters and digits.
    pub id: String,
    /// The account's name for it.
    pub arn: String,
    /// Where it was.
    pub region: String,
    /// When the service says it was created, UTC.
    pub created_utc: String,
    /// When the service took the deletion, UTC.
    pub requested_utc: Option<String>,
    /// When it was known to be gone, UTC.
    pub confirmed_utc: Option<String>,
    /// Seconds from the request to that.
    pub s: Option<f64>,
}

/// What a deletion came to.
#[derive(Debug, Default)]
pub struct Deletion {
    /// Every cluster that it was for.
    pub clusters: Vec<Gone>,
    /// What went wrong, a line each.
    pub problems: Vec<String>,
}

impl Deletion {
    /// Whether all of them are known to be gone.
    pub fn is_confirmed(&self) -> bool {
        self.problems.is_empty() && self.clusters.iter().all(|c| c.confirmed_utc.is_some())
    }
}

/// The clusters with the other halves of their pairs.
///
/// # Errors
/// When the service could not be asked.
pub async fn with_peers(cloud: &Cloud, clusters: Vec<Cluster>) -> Result<Vec<Cluster>, CloudError> {
    let mut all: BTreeMap<String, Cluster> = BTreeMap::new();
    let mut open: Vec<Cluster> = clusters;
    while let Some(one) = open.pop() {
        for arn in &one.peers {
            if all.contains_key(arn) || open.iter().any(|other| other.arn == *arn) {
                continue;
            }
            let Some(region) = cluster::region_of(arn) else {
                continue;
            };
            open.extend(cluster::get(cloud, region, cluster::id_of(arn)).await?);
        }
        all.insert(one.arn.clone(), one);
    }
    Ok(all.into_values().collect())
}

/// Deletes clusters and waits until they are gone.
///
/// # Errors
/// When the manifest cannot be written; what the service refuses is in the
/// result.
pub async fn delete(
    cloud: &Cloud,
    manifest: &Manifest,
    clusters: &[Cluster],
    how: How,
    say: Say<'_>,
    stop: &mut Stop,
) -> Result<Deletion, Failure> {
    let mut deletion = Deletion::default();
    let protected: Vec<&Cluster> = clusters.iter().filter(|c| c.deletion_protection).collect();
    if !how.force && !protected.is_empty() {
        for cluster in protected {
            let (region, id) = (&cluster.region, &cluster.id);
            deletion.problems.push(format!(
                "{region}: {id} has deletion protection; --force switches it off and deletes it"
            ));
        }
        deletion.clusters = clusters.iter().map(not_yet).collect();
        return Ok(deletion);
    }
    let entries = manifest.read()?.entries;
    let mut work: Vec<Work> = clusters
        .iter()
        .map(|cluster| Work {
            line: line_of(manifest, &entries, cluster),
            cluster: cluster.clone(),
            gone: not_yet(cluster),
            state: State::ToDelete,
            asked: None,
        })
        .collect();
    let deadline = cloud.clock().now() + how.limit;
    loop {
        for work in &mut work {
            if let Err(problem) = work.step(cloud, manifest, how, say).await {
                match problem {
                    Halt::Manifest(failure) => return Err(failure),
                    other => {
                        work.state = State::Failed;
                        deletion.problems.push(other.to_string());
                    }
                }
            }
        }
        if work.iter().all(Work::is_over) {
            break;
        }
        if pause(cloud, stop).await.is_err() {
            deletion.problems.push("interrupted".to_owned());
            break;
        }
        if cloud.clock().now() >= deadline {
            let late = work.iter().filter(|work| !work.is_over());
            deletion.problems.extend(late.map(|work| {
                let (region, id) = (&work.cluster.region, &work.cluster.id);
                let (status, s) = (&work.cluster.status, how.limit.as_secs());
                format!("{region}: {id} is still {status} after {s} s")
            }));
            break;
        }
    }
    deletion.clusters = work.into_iter().map(|work| work.gone).collect();
    Ok(deletion)
}

fn not_yet(cluster: &Cluster) -> Gone {
    Gone {
        id: cluster.id.clone(),
        arn: cluster.arn.clone(),
        region: cluster.region.clone(),
        created_utc: cluster.created_utc.clone(),
        requested_utc: None,
        confirmed_utc: None,
        s: None,
    }
}

/// The manifest's line for a cluster, or a new one under its ARN.
fn line_of(manifest: &Manifest, entries: &[Entry], cluster: &Cluster) -> Line {
    let known = entries
        .iter()
        .find(|entry| entry.arn.as_deref() == Some(&cluster.arn));
    // A create whose answer was lost is known by its name and region alone.
    let lost = || {
        entries.iter().rev().find(|entry| {
            entry.is_open()
                && entry.arn.is_none()
                && entry.asked.made == Made::DsqlCluster
                && entry.asked.region == cluster.region
                && entry.asked.name.as_deref() == cluster.name()
        })
    };
    known.or_else(lost).map_or_else(
        || manifest.foreign(Made::DsqlCluster, &cluster.region, &cluster.arn),
        |entry| entry.asked.clone(),
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    ToDelete,
    Asked,
    Gone,
    Failed,
}

/// One cluster on its way out.
struct Work {
    line: Line,
    cluster: Cluster,
    gone: Gone,
    state: State,
    asked: Option<clock::Time>,
}

impl Work {
    fn is_over(&self) -> bool {
        matches!(self.state, State::Gone | State::Failed)
    }

    async fn step(
        &mut self,
        cloud: &Cloud,
        manifest: &Manifest,
        how: How,
        say: Say<'_>,
    ) -> Result<(), Halt> {
        if self.state == State::ToDelete {
            self.ask(cloud, manifest, how, say).await?;
        }
        if self.state == State::Asked {
            self.look(cloud, manifest, say).await?;
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        cloud: &Cloud,
        manifest: &Manifest,
        how: How,
        say: Say<'_>,
    ) -> Result<(), Halt> {
        let (region, id) = (self.cluster.region.clone(), self.cluster.id.clone());
        let dsql = cloud.dsql(&region);
        if self.cluster.deletion_protection && how.force {
            let sent = dsql
                .update_cluster()
                .identifier(&id)
                .deletion_protection_enabled(false)
                .send()
                .await;
            let sent = sent.map_err(|e| CloudError::of("dsql UpdateCluster", &region, &e));
            if !later(sent)? {
                return Ok(());
            }
            self.cluster.deletion_protection = false;
            say(&format!("{region}: deletion protection of {id} is off"));
        }
        if self.gone.requested_utc.is_none() {
            manifest.note(&self.line, Event::DeleteRequested, Some(&self.cluster.arn))?;
            self.gone.requested_utc = Some(cloud.utc());
            self.asked = Some(cloud.clock().now());
        }
        if !matches!(self.cluster.status.as_str(), "DELETING" | "PENDING_DELETE") {
            let sent = dsql.delete_cluster().identifier(&id).send().await;
            match sent.map_err(|e| CloudError::of("dsql DeleteCluster", &region, &e)) {
                Err(error) if error.kind == Kind::NotFound => {}
                other => {
                    if !later(other)? {
                        return Ok(());
                    }
                }
            }
            say(&format!("{region}: deletion of {id} asked for"));
        }
        self.state = State::Asked;
        Ok(())
    }

    async fn look(&mut self, cloud: &Cloud, manifest: &Manifest, say: Say<'_>) -> Result<(), Halt> {
        let (region, id) = (&self.cluster.region, &self.cluster.id);
        match cluster::get(cloud, region, id).await? {
            Some(now) => self.cluster.status = now.status,
            None => {
                let s = self
                    .asked
                    .map(|asked| cloud.clock().now().since(asked).as_secs_f64());
                self.gone.confirmed_utc = Some(cloud.utc());
                self.gone.s = s;
                manifest.note(&self.line, Event::Deleted, Some(&self.cluster.arn))?;
                say(&format!("{region}: {id} is gone"));
                self.state = State::Gone;
            }
        }
        Ok(())
    }
}

/// Whether the call was taken; `false` when it may be taken later.
fn later<T>(sent: Result<T, CloudError>) -> Result<bool, CloudError> {
    match sent {
        Ok(_) => Ok(true),
        Err(error) if error.kind == Kind::Conflict => Ok(false),
        Err(error) => Err(error),
    }
}

/// Closes what the manifest holds open and the account does not have: entries
/// with an ARN that is gone, and creates whose answer was lost and of which the
/// listing shows nothing. Returns what is still open among those that `ours`
/// picks, with a cluster where there is one.
///
/// # Errors
/// When the service could not be asked or the manifest not be written.
pub async fn settle(
    cloud: &Cloud,
    manifest: &Manifest,
    ours: impl Fn(&Entry) -> bool,
) -> Result<Vec<(Entry, Option<Cluster>)>, Failure> {
    let young = report::utc(cloud.clock().wall() - YOUNG);
    let mut open = Vec::new();
    for entry in manifest.read()?.entries {
        if !entry.is_open() || entry.asked.made != Made::DsqlCluster || !ours(&entry) {
            continue;
        }
        let region = &entry.asked.region;
        if let Some(arn) = &entry.arn {
            match cluster::get(cloud, region, cluster::id_of(arn)).await? {
                Some(cluster) => open.push((entry, Some(cluster))),
                None => manifest.note(&entry.asked, Event::Deleted, None)?,
            }
            continue;
        }
        // The tag with the instant of the intent is this create's alone.
        let name = entry.asked.name.as_deref().unwrap_or_default();
        let of_this = |c: &Cluster| c.tags.get(super::TAG_CREATED) == Some(&entry.asked.at);
        let found = cluster::named(cloud, region, name).await?;
        match found.into_iter().find(of_this) {
            Some(cluster) => {
                manifest.note(&entry.asked, Event::Created, Some(&cluster.arn))?;
                open.push((entry, Some(cluster)));
            }
            // Both are written alike, so that text sorts as time does.
            None if entry.asked.at < young => {
                manifest.note(&entry.asked, Event::Absent, None)?;
            }
            None => open.push((entry, None)),
        }
    }
    Ok(open)
}
