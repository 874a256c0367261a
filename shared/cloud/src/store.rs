//! The fleet's store: items in the table, blobs in the bucket, DPU from
//! CloudWatch.

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use clock::Clock;
use fleet::{Change, Changed, Item, Key, Offset, Store, StoreError};

use crate::blobs::Bucket;
use crate::clients::{Clients, lock};
use crate::config::Config;
use crate::dpu;
use crate::offset::Estimate;
use crate::table::Table;

/// The store of one invocation.
#[derive(Clone, Debug)]
pub struct CloudStore {
    clients: Rc<Clients>,
    config: Rc<Config>,
    clock: Clock,
    estimate: Arc<Mutex<Estimate>>,
}

impl CloudStore {
    /// The store of a stack; `clock` is the one that offsets are reported of.
    pub fn new(clients: Rc<Clients>, config: Rc<Config>, clock: Clock) -> CloudStore {
        CloudStore {
            clients,
            config,
            clock,
            estimate: Arc::default(),
        }
    }

    async fn table(&self) -> Table<'_> {
        Table {
            client: self.clients.dynamodb(&self.config.home).await,
            name: &self.config.table,
            region: &self.config.home,
            clock: self.clock,
            estimate: &self.estimate,
        }
    }

    async fn bucket(&self) -> Bucket<'_> {
        Bucket {
            client: self.clients.s3(&self.config.home).await,
            name: &self.config.bucket,
            region: &self.config.home,
        }
    }
}

impl Store for CloudStore {
    async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        self.table().await.get(key).await
    }

    async fn change(&self, change: &Change) -> Result<Changed, StoreError> {
        self.table().await.change(change).await
    }

    async fn list(&self, pk: &str, prefix: &str) -> Result<Vec<Item>, StoreError> {
        self.table().await.list(pk, prefix).await
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.table().await.delete(keys).await
    }

    async fn runs_of(&self, sweep: &str, limit: usize) -> Result<Vec<Item>, StoreError> {
        self.table().await.runs_of(sweep, limit).await
    }

    async fn put_blob(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.bucket().await.put(name, bytes).await
    }

    async fn get_blob(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.bucket().await.get(name).await
    }

    async fn list_blobs(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.bucket().await.list(prefix).await
    }

    async fn delete_blobs(&self, names: &[String]) -> Result<(), StoreError> {
        self.bucket().await.delete(names).await
    }

    fn offset(&self) -> Option<Offset> {
        lock(&self.estimate).offset()
    }

    async fn dpu_since(&self, cluster: &str, since_ms: i64) -> Result<Option<f64>, StoreError> {
        dpu::since(&self.clients, cluster, since_ms, self.clock).await
    }
}
