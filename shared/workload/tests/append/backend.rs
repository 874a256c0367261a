//! The append workload on the databases that all tests share.

use plan::{AppendParams, Isolation, Trips};
use workload::append::Append;

use crate::common::backend::{self, retry, split};
pub use crate::common::backend::{Backend, assert_ok, on_every_backend, on_postgres};

/// One writer with its connection.
pub type Client = backend::Client<Append>;

impl Backend {
    /// An append workload with its tables and heads.
    pub async fn append(&self, params: AppendParams) -> Append {
        let append = Append::new(&params, self.id_base(), 7, self.clock);
        self.prepared(append).await
    }
}

/// Parameters of a small wave; tests change what they are about.
pub fn params(trips: Trips, isolation: Isolation) -> AppendParams {
    AppendParams {
        writers: 2,
        streams: 1,
        batch: 1,
        records: None,
        payload_bytes: 40,
        placement: split(),
        trips,
        retry: retry(),
        isolation,
        warmup_s: 0.0,
        measure_s: Some(1.0),
        abort_after_starved: 3,
    }
}
