//! Orders and transfers on the databases that all tests share.

use plan::{Distribution, Isolation, OrderTransferParams};
use workload::Workload;
use workload::order_transfer::{Operation, OrderTransfer};

use crate::common::backend::{self, retry, split};
pub use crate::common::backend::{Backend, assert_ok, on_every_backend};

/// One client with its connection.
pub type Client = backend::Client<OrderTransfer>;

pub const KINDS: [&str; 2] = ["order", "transfer"];

impl Backend {
    /// The workload with its tables and first rows.
    pub async fn orders(&self, params: &OrderTransferParams) -> OrderTransfer {
        let workload = OrderTransfer::new(params, self.id_base(), 7, self.clock);
        self.prepared(workload).await
    }

    /// How many rows there are, or any other figure.
    pub async fn figure(&self, sql: &str) -> i64 {
        let (conn, _wire) = self.connect().await;
        conn.client.query_one(sql, &[]).await.unwrap().get(0)
    }
}

/// Parameters of a small wave; tests change what they are about.
pub fn params(isolation: Isolation) -> OrderTransferParams {
    OrderTransferParams {
        concurrency: 2,
        transfers_pct: 50.0,
        distribution: Distribution::Uniform,
        products: 3,
        accounts: 3,
        items: 2,
        inventory_shards: 1,
        stock: None,
        balance: None,
        duplicate_pct: 0.0,
        operations: None,
        placement: split(),
        retry: retry(),
        isolation,
        warmup_s: 0.0,
        measure_s: Some(1.0),
        abort_after_starved: 0,
    }
}

/// The client's first operation of a kind, from the `n`th on.
pub fn operation_of(client: &mut Client, kind: &str, from: u64) -> Operation {
    let is_kind = |operation: &Operation, client: &Client| client.workload.kind(operation) == kind;
    let found = (from..).find_map(|n| {
        let operation = client.operation(n);
        is_kind(&operation, client).then_some(operation)
    });
    found.unwrap()
}
