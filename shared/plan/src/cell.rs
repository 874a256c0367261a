//! What a sweep file comes to: cells with every parameter filled in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One point of a sweep's matrix, complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Unique within the sweep: the block's name and the axes that vary in it,
    /// such as `A/writers=8`.
    pub id: String,
    /// Name of the block that the cell comes from.
    pub block: String,
    /// Name of the target that it runs on.
    pub target: String,
    /// The workload and its parameters, defaults included.
    pub params: Params,
    /// Repetitions.
    pub reps: u32,
    /// Keep one row per operation.
    pub raw: bool,
    /// Limits that make the run fail.
    pub thresholds: Vec<Threshold>,
}

/// The parameters of a cell by workload; the tag is the workload's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "workload", rename_all = "snake_case")]
pub enum Params {
    /// Chained records, see the workload crate.
    Append(AppendParams),
    /// Orders and transfers.
    OrderTransfer(OrderTransferParams),
    /// pgbench's transaction.
    Tpcb(TpcbParams),
}

/// Parameters of an `append` cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppendParams {
    /// Concurrent writers per stream, each on a connection of its own.
    pub writers: u32,
    /// Independent chains.
    pub streams: u32,
    /// Records in one transaction, 1 to 100.
    pub batch: u32,
    /// Records per stream and rep, shared out over its writers. With
    /// `measure_s` set it is absent and time is the bound.
    pub records: Option<u64>,
    /// Bytes of one record's payload.
    pub payload_bytes: u32,
    /// How writers are placed on endpoints.
    pub placement: Placement,
    /// How a transaction's statements travel.
    pub trips: Trips,
    /// The retry policy.
    pub retry: Retry,
    /// Isolation level.
    pub isolation: Isolation,
    /// Seconds before the window opens.
    pub warmup_s: f64,
    /// Length of the window; `None` when `records` bounds the rep.
    pub measure_s: Option<f64>,
    /// Starved appends (over the whole wave) that abort the rep.
    pub abort_after_starved: u32,
}

/// Parameters of an `order_transfer` cell: orders and transfers that meet on
/// the same rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderTransferParams {
    /// Clients of the wave, each with a connection of its own.
    pub concurrency: u32,
    /// Share of operations that are transfers, in percent; the rest are orders.
    pub transfers_pct: f64,
    /// Which products and accounts are asked for.
    pub distribution: Distribution,
    /// Products.
    pub products: u32,
    /// Accounts.
    pub accounts: u32,
    /// Products of one order.
    pub items: u32,
    /// Rows that a product's stock is split over.
    pub inventory_shards: u32,
    /// Pieces in stock of each product, over all its rows; `None` for more than
    /// can be sold.
    pub stock: Option<u64>,
    /// Balance of each account; `None` for more than can be moved.
    pub balance: Option<u64>,
    /// Share of operations that send the business id of an earlier one again,
    /// in percent.
    pub duplicate_pct: f64,
    /// Operations of the whole rep, shared out over its clients; `None` when
    /// `measure_s` bounds the rep.
    pub operations: Option<u64>,
    /// How clients are placed on endpoints.
    pub placement: Placement,
    /// The retry policy.
    pub retry: Retry,
    /// Isolation level.
    pub isolation: Isolation,
    /// Seconds before the window opens.
    pub warmup_s: f64,
    /// Length of the window; `None` when `operations` bounds the rep.
    pub measure_s: Option<f64>,
    /// Starved operations (over the whole wave) that abort the rep; 0 never does.
    pub abort_after_starved: u32,
}

/// How requests fall on keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// All keys alike.
    Uniform,
    /// 80% of the requests on the first 1% of the keys (at least one), the rest
    /// on all the others alike.
    Hot,
}

/// Parameters of a `tpcb` cell: pgbench's built-in transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TpcbParams {
    /// Clients of the wave, each with a connection of its own.
    pub concurrency: u32,
    /// Scale factor: branches; ten tellers and 100,000 accounts each.
    pub scale: u32,
    /// What a transaction does.
    pub variant: TpcbVariant,
    /// Operations of the whole rep, shared out over its clients; `None` when
    /// `measure_s` bounds the rep.
    pub operations: Option<u64>,
    /// How clients are placed on endpoints.
    pub placement: Placement,
    /// The retry policy.
    pub retry: Retry,
    /// Isolation level.
    pub isolation: Isolation,
    /// Seconds before the window opens.
    pub warmup_s: f64,
    /// Length of the window; `None` when `operations` bounds the rep.
    pub measure_s: Option<f64>,
    /// Starved operations (over the whole wave) that abort the rep; 0 never does.
    pub abort_after_starved: u32,
}

/// pgbench's built-in scripts that write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TpcbVariant {
    /// `tpcb-like`: account, teller and branch.
    TpcbLike,
    /// `simple-update`: without the updates of teller and branch.
    SimpleUpdate,
}

/// Where writers connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", untagged)]
pub enum Placement {
    /// `"split"`: writer i on endpoint i mod n.
    Split(SplitTag),
    /// The name of one region or endpoint, or `"first"` for the first one.
    Region(String),
}

/// The word `split`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitTag {
    /// `split`
    Split,
}

/// How the statements of a transaction travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trips {
    /// Each statement is awaited.
    Stepwise,
    /// BEGIN with the read, then the writes with COMMIT.
    Pipelined,
    /// One flight, from the head of the last confirmed commit.
    Sticky,
}

/// When and how a failed attempt is tried again. Jitter is always full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub max_attempts: u32,
    /// Upper bound of the first pause; it doubles.
    pub base_ms: f64,
    /// Upper bound of any pause.
    pub cap_ms: f64,
    /// Time after which an operation is given up, from its planned start.
    pub deadline_ms: Option<f64>,
    /// SQLSTATEs that are tried again, beside those that the workload itself
    /// counts as a lost race.
    pub on: Vec<String>,
}

/// Isolation level of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// READ COMMITTED
    ReadCommitted,
    /// REPEATABLE READ, DSQL's only one.
    RepeatableRead,
    /// SERIALIZABLE
    Serializable,
}

impl Isolation {
    /// As it stands in BEGIN ISOLATION LEVEL.
    pub fn sql(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

/// A limit on a figure of a cell's `merged` results; breaking it makes the run
/// end with exit code 3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threshold {
    /// Path of the figure under `merged`, such as `throughput_per_s` or
    /// `latency_ms.response.p99`.
    pub figure: String,
    /// The figure must be at least this.
    pub min: Option<f64>,
    /// The figure must be at most this.
    pub max: Option<f64>,
}
