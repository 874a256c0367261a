//! Work on a real database (or the simulator behind a pipe): what [`Work`] says,
//! done by `drive`.

use std::collections::BTreeMap;
use std::time::Duration;

use drive::{Ended, Gate, Rep, Settings};
use plan::TargetSpec;
use target::Target;
use workload::{Claim, Step, Verified};

use crate::message::Job;
use crate::work::{Found, Live, Work};

/// How long a pool may take to fill, or each connection from its slot.
const OPEN_LIMIT: Duration = Duration::from_secs(120);

/// How long the database may take to say what it is.
const ASK_LIMIT: Duration = Duration::from_secs(30);

/// Does work through targets that `resolve` finds.
pub struct Driver<R> {
    resolve: R,
}

impl<R: AsyncFn(&TargetSpec) -> Result<Target, String>> Driver<R> {
    /// A driver; `resolve` turns a target of the plan into one that can be
    /// connected to. It is called for each task, so it should keep what it finds.
    pub fn new(resolve: R) -> Driver<R> {
        Driver { resolve }
    }
}

fn rep(job: &Job) -> Rep<'_> {
    Rep {
        cell: &job.cell,
        id_base: job.id_base,
        seed: job.seed,
    }
}

impl<R: AsyncFn(&TargetSpec) -> Result<Target, String>> Work for Driver<R> {
    async fn prepare(&self, job: &Job) -> Result<(Step, Found), String> {
        let target = (self.resolve)(&job.target).await?;
        let step = rep(job).prepare(&target).await;
        let step = step.map_err(|failure| failure.to_string())?;
        let deadline = target.clock().now() + ASK_LIMIT;
        let mut found = Found::default();
        if let Ok(conn) = target.connect(0, deadline).await {
            found.simulated = target.is_simulated(&conn).await;
            found.server_version = target.server_version(&conn).await.ok();
        }
        Ok((step, found))
    }

    async fn load(&self, job: &Job, live: Live, gate: &impl Gate) -> Result<Ended, String> {
        let target = (self.resolve)(&job.target).await?;
        let (Some(shard), Some(leg)) = (&job.shard, &job.leg) else {
            return Err("a load needs a shard and a leg".to_owned());
        };
        let endpoint = shard.endpoint as usize;
        let settings = Settings {
            writers: shard
                .writer_indices()
                .map(|writer| (writer, endpoint))
                .collect(),
            probe_endpoints: vec![endpoint],
            opening: live.opening,
            leg: (leg.of > 1).then_some(*leg),
            // Numbers of their own for the operations of each leg.
            first_operation: u64::from(leg.index) << 24,
            stop_by: Some(live.stop_by),
            vcpus: live.vcpus,
            server_parts: Vec::new(),
            open_limit: OPEN_LIMIT,
        };
        let rep = rep(job);
        let load = rep.load(settings, &target, live.stop, live.progress, gate);
        Box::pin(load).await.map_err(|failure| failure.to_string())
    }

    async fn verify(
        &self,
        job: &Job,
        claims: &[Claim],
        missing: &[u32],
    ) -> Result<Verified, String> {
        let target = (self.resolve)(&job.target).await?;
        let rep = rep(job);
        let done = rep.verify(&target, job.endpoint as usize, claims, missing);
        Box::pin(done).await.map_err(|failure| failure.to_string())
    }

    async fn clean(&self, job: &Job) -> Result<Step, String> {
        let target = (self.resolve)(&job.target).await?;
        let done = rep(job).clean(&target).await;
        done.map_err(|failure| failure.to_string())
    }
}

/// Targets by URL, kept for the life of a process.
#[derive(Debug, Default)]
pub struct Kept(std::cell::RefCell<BTreeMap<String, Target>>);

impl Kept {
    /// The target at a URL, made at the first call.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get<E>(
        &self,
        url: &str,
        make: impl FnOnce(&str) -> Result<Target, E>,
    ) -> Result<Target, E> {
        if let Some(target) = self.0.borrow().get(url) {
            return Ok(target.clone());
        }
        let target = make(url)?;
        self.0.borrow_mut().insert(url.to_owned(), target.clone());
        Ok(target)
    }
}
