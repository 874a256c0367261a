//! pgbench's transaction on the databases that all tests share.

use plan::{Isolation, TpcbParams, TpcbVariant};
use workload::Workload;
use workload::tpcb::Tpcb;

use crate::common::backend::{self, retry, split};
pub use crate::common::backend::{Backend, assert_ok, on_every_backend, on_postgres};

/// One client with its connection.
pub type Client = backend::Client<Tpcb>;

pub const VARIANTS: [TpcbVariant; 2] = [TpcbVariant::TpcbLike, TpcbVariant::SimpleUpdate];

impl Backend {
    /// The workload with its tables, filled, and its baseline.
    pub async fn tpcb(&self, params: &TpcbParams) -> Tpcb {
        let workload = Tpcb::new(params, self.id_base(), 7, self.clock);
        self.prepared(workload).await
    }

    /// Makes pgbench's tables as `pgbench -i` does, with so many branches.
    pub async fn pgbench(&self, scale: u32) {
        for sql in [
            "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, \
             mtime timestamp, filler char(22))",
            "CREATE TABLE pgbench_tellers (tid int NOT NULL, bid int, tbalance int, \
             filler char(84), PRIMARY KEY (tid))",
            "CREATE TABLE pgbench_accounts (aid int NOT NULL, bid int, abalance int, \
             filler char(84), PRIMARY KEY (aid))",
            "CREATE TABLE pgbench_branches (bid int NOT NULL, bbalance int, filler char(88), \
             PRIMARY KEY (bid))",
        ] {
            self.sql(sql).await;
        }
        for (table, each, values) in [
            ("accounts", 100_000, "r, 1, 0, ''"),
            ("tellers", 10, "r, 1, 0, ''"),
            ("branches", 1, "r, 0, ''"),
        ] {
            let rows = scale * each;
            for from in (1..=rows).step_by(1_000) {
                let to = rows.min(from + 999);
                self.sql(&format!(
                    "INSERT INTO pgbench_{table} SELECT {values} \
                     FROM generate_series({from}, {to}) AS g (r)"
                ))
                .await;
            }
        }
    }
}

/// Parameters of a small wave; tests change what they are about.
pub fn params(isolation: Isolation, variant: TpcbVariant) -> TpcbParams {
    TpcbParams {
        concurrency: 2,
        scale: 1,
        variant,
        operations: None,
        placement: split(),
        retry: retry(),
        isolation,
        warmup_s: 0.0,
        measure_s: Some(1.0),
        abort_after_starved: 0,
    }
}

/// Runs a test at every level and with both variants. They share a database, one
/// after the other.
pub async fn everywhere(backend: &Backend, test: impl AsyncFn(TpcbParams, String)) {
    for &isolation in &backend.levels {
        for variant in VARIANTS {
            test(
                params(isolation, variant),
                format!("{isolation:?}, {variant:?}"),
            )
            .await;
        }
    }
}

/// Ends a rep: its rows go, so that the next one finds none of them.
pub async fn end(client: &Client) {
    client.workload.clean(&client.conn).await.unwrap();
}
