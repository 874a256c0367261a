//! The sweep file as it is written. The JSON Schema is generated from these
//! types, and what they say about keys and bounds is what the reader enforces.
//!
//! A key that is not given is an empty [`Axis`] or `None`; what it then means
//! is in `workloads`. The keys of blocks are in `keys`.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{SweepError, grouped};
use crate::fleet::Fleet;
use crate::keys::{BlockFile, BlockSchema, defaults_schema};
use crate::scalar::{Axis, One};
use crate::target::Address;
use crate::value::{Decimal, Figure, Host, Limit, Name, OrNull, Prose, Region, SqlState, Whole};

/// Connections that a DSQL cluster takes.
pub(crate) const MAX_CONNECTIONS: u64 = 10_000;
/// Records in one transaction: far under DSQL's 3,000 rows.
pub(crate) const MAX_BATCH: u64 = 100;
/// Bytes that a DSQL transaction may modify.
pub(crate) const MAX_TRANSACTION_BYTES: u64 = 10 * 1024 * 1024;
/// The payload begins with the operation's id, which takes this much.
pub(crate) const MIN_PAYLOAD: u64 = 16;
/// A column of DSQL holds 1 MiB, its own header included.
pub(crate) const MAX_PAYLOAD: u64 = 1_000_000;
/// Records of one rep: what verification can still hold in memory.
pub(crate) const MAX_RECORDS: u64 = 10_000_000;
/// Products of one order.
pub(crate) const MAX_ITEMS: u64 = 50;
/// Rows that one product's stock may be split over.
pub(crate) const MAX_STOCK_ROWS: u64 = 1_024;
/// Rows that are made before each rep of orders and transfers: stock and
/// accounts. One process makes them, and they are of no use to the next rep.
pub(crate) const MAX_ROWS: u64 = 1_000_000;
/// Pieces of a product, or units of a balance: a million times that many still
/// fit 64 bits.
pub(crate) const MAX_PIECES: u64 = 1_000_000_000_000;
/// Scale of TPC-B: 10 million accounts, as many rows as an append's records.
pub(crate) const MAX_SCALE: u64 = 100;
/// Repetitions of a cell.
pub(crate) const MAX_REPS: u64 = 1_000;
/// The largest whole number that every JSON tool keeps exact.
pub(crate) const MAX_SEED: u64 = (1 << 53) - 1;
/// Attempts of one operation.
pub(crate) const MAX_ATTEMPTS: u64 = 1_000;
/// Blocks of a sweep.
pub(crate) const MAX_BLOCKS: usize = 1_000;
/// Named targets of a sweep.
pub(crate) const MAX_TARGETS: usize = 100;
const MAX_RETRIES: u64 = MAX_ATTEMPTS - 1;
/// Thousandths of a millisecond in an hour.
const HOUR_US: u64 = 3_600_000_000;
/// Thousandths of a millisecond in a minute.
const MINUTE_US: u64 = 60_000_000;

pub(crate) type Seed = Whole<0, MAX_SEED>;
pub(crate) type Reps = Whole<1, MAX_REPS>;
/// Workers of a wave: Lambda runs 1,000 at once in an account by default.
pub(crate) type Workers = Whole<1, 1_000>;
/// A Lambda has 1,024 file descriptors, and needs some for itself.
pub(crate) type ConnectionsPerWorker = Whole<1, 900>;

/// A sweep: what to run, on which targets, with which parameters.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with `name` and `blocks`")]
#[schemars(title = "Sweep")]
pub(crate) struct SweepFile {
    /// Where the JSON Schema of sweep files is, for editors.
    #[serde(rename = "$schema", default)]
    #[schemars(with = "String")]
    _schema: Option<One<Prose>>,
    /// Name of the sweep.
    pub name: One<Name>,
    /// What it is for, in a sentence.
    #[serde(default)]
    #[schemars(with = "One<Prose>")]
    pub about: Option<One<Prose>>,
    /// Latency preset of the simulator: the default target, on which every
    /// block runs that names no `target`. `--on URL` replaces it.
    #[serde(default)]
    #[schemars(with = "One<Name>")]
    pub preset: Option<One<Name>>,
    /// Seed of everything random.
    #[serde(default)]
    #[schemars(with = "One<Seed>", extend("default" = 1))]
    pub seed: Option<One<Seed>>,
    /// Named targets. A block picks some by its `target`; where the sweep has
    /// no `preset`, a block that picks none runs on all of them.
    #[serde(default)]
    #[schemars(
        with = "Vec<TargetFile>",
        extend("minItems" = 1, "maxItems" = MAX_TARGETS)
    )]
    pub targets: Option<Vec<TargetFile>>,
    /// How a fleet runs the sweep. A run from one machine does without.
    #[serde(default)]
    pub fleet: FleetFile,
    /// Values that every block inherits which does not give its own.
    /// A block takes those that its workload has.
    #[schemars(schema_with = "defaults_schema")]
    // Read for its bounds alone: blocks are read again with what they inherit.
    #[serde(rename = "defaults", default)]
    _defaults: BlockFile,
    /// The matrix, block by block. Any scalar of a block may be a list: the
    /// block is the product of its lists, the last one fastest.
    #[schemars(
        with = "Vec<BlockSchema>",
        extend("minItems" = 1, "maxItems" = MAX_BLOCKS)
    )]
    pub blocks: Vec<BlockFile>,
}

/// A database that blocks can run on. It has a `url`, a `secret` or `endpoints`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    rename = "Target",
    expecting = "a target: an object with `name` and `url`"
)]
#[schemars(extend("oneOf" = [
    {"required": ["url"]}, {"required": ["secret"]}, {"required": ["endpoints"]}
]))]
pub(crate) struct TargetFile {
    /// What blocks, `--on NAME=URL` and reports call it.
    pub name: One<Name>,
    /// `sim:PRESET`, `dsql://HOST[,HOST]`, `postgres://…` or `postgresql://…`;
    /// null for a target that runs only where `--on NAME=URL` gives it one.
    #[serde(default)]
    #[schemars(with = "One<OrNull<Address>>")]
    pub url: Option<One<OrNull<Address>>>,
    /// Name or ARN of a secret in AWS Secrets Manager that holds the URL.
    #[serde(default)]
    #[schemars(with = "One<Prose>")]
    pub secret: Option<One<Prose>>,
    /// Hosts of a DSQL cluster's regional endpoints.
    #[serde(default)]
    pub endpoints: Axis<Host>,
    /// Regions that the workers of each endpoint run in, one for each endpoint
    /// or one for all. Where it is left out, the hosts' names tell; where they
    /// do not, workers run in the fleet's home region.
    #[serde(default)]
    pub regions: Axis<Region>,
    /// How the load gets there, for the report.
    #[serde(default)]
    #[schemars(with = "One<Prose>")]
    pub network: Option<One<Prose>>,
}

/// How a fleet runs a sweep: its workers, and when it has to stop.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    rename = "Fleet",
    expecting = "an object such as {\"workers\": 8}"
)]
pub(crate) struct FleetFile {
    /// Workers of one wave, over all regions.
    #[schemars(with = "One<Workers>", extend("default" = Fleet::DEFAULT.workers))]
    pub workers: Option<One<Workers>>,
    /// Writers, each with a connection of its own, that one worker runs at
    /// most.
    #[schemars(
        with = "One<ConnectionsPerWorker>",
        extend("default" = Fleet::DEFAULT.connections_per_worker)
    )]
    pub connections_per_worker: Option<One<ConnectionsPerWorker>>,
    /// What the run may take before it is stopped.
    pub limits: LimitsFile,
}

/// What a fleet's run may take before it is stopped; without a limit it may
/// take what its plan takes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    rename = "Limits",
    expecting = "an object such as {\"minutes\": 30, \"usd\": 5}"
)]
pub(crate) struct LimitsFile {
    /// Minutes from the start of the run, up to 30 days.
    #[schemars(with = "One<Decimal<1, 43_200_000>>")]
    pub minutes: Option<One<Decimal<1, 43_200_000>>>,
    /// US dollars.
    #[schemars(with = "One<Decimal<1, 1_000_000_000>>")]
    pub usd: Option<One<Decimal<1, 1_000_000_000>>>,
    /// DPU of the clusters.
    #[schemars(with = "One<Decimal<1, 1_000_000_000_000>>")]
    pub dpu: Option<One<Decimal<1, 1_000_000_000_000>>>,
}

/// When and how a failed attempt is tried again. Pauses have full jitter: each
/// is drawn between nothing and its bound, which doubles from `base_ms` up to
/// `cap_ms`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    rename = "Retry",
    expecting = "an object such as {\"max_attempts\": 25}"
)]
#[schemars(extend("not" = {"required": ["max_attempts", "max_retries"]}))]
pub(crate) struct RetryFile {
    /// Attempts of one operation, the first included. Excludes `max_retries`.
    pub max_attempts: Axis<Whole<1, MAX_ATTEMPTS>>,
    /// Attempts after the first. Excludes `max_attempts`.
    pub max_retries: Axis<Whole<0, MAX_RETRIES>>,
    /// Bound of the first pause in milliseconds.
    pub base_ms: Axis<Decimal<0, MINUTE_US>>,
    /// Bound of every pause in milliseconds; not under `base_ms`.
    pub cap_ms: Axis<Decimal<0, MINUTE_US>>,
    /// Milliseconds from an operation's planned start after which it is given
    /// up; null for none.
    pub deadline_ms: Axis<OrNull<Decimal<1_000, HOUR_US>>>,
    /// SQLSTATEs to try again, beside those that the workload itself counts as
    /// a lost race. A list, not an axis.
    pub on: Vec<One<SqlState>>,
}

/// A limit on a figure of every cell's merged results. It has a `min`, a `max`
/// or both.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    rename = "Threshold",
    expecting = "an object such as {\"figure\": \"throughput_per_s\", \"min\": 5}"
)]
#[schemars(extend("anyOf" = [{"required": ["min"]}, {"required": ["max"]}]))]
pub(crate) struct ThresholdFile {
    /// The figure, such as `latency_ms.response.p99`.
    pub figure: One<Figure>,
    /// It must be at least this.
    #[serde(default)]
    #[schemars(with = "One<Limit>")]
    pub min: Option<One<Limit>>,
    /// It must be at most this.
    #[serde(default)]
    #[schemars(with = "One<Limit>")]
    pub max: Option<One<Limit>>,
}

/// Refuses a list of the file that is too long.
pub(crate) fn too_many(what: &str, count: usize, most: usize) -> SweepError {
    let (count, most) = (grouped(count as u64), grouped(most as u64));
    SweepError::at(what, format!("{count} of them; at most {most}"))
}

/// Keys that mean the same thing: a block's own displaces the inherited other.
pub(crate) const EITHER: &[[&str; 2]] = &[
    ["records", "measure_s"],
    ["operations", "measure_s"],
    ["max_attempts", "max_retries"],
];
