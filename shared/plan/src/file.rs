//! The sweep file as it is written. The JSON Schema is generated from these
//! types, and what they say about keys and bounds is what the reader enforces.
//!
//! A key that is not given is an empty [`Axis`] or `None`; what it then means
//! is in [`DEFAULTS`].

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use crate::cell::{AppendParams, Isolation, Placement, Retry, SplitTag, Trips};
use crate::fleet::Fleet;
use crate::scalar::{Axis, One};
use crate::target::Address;
use crate::value::{
    Decimal, Figure, Flag, Host, Limit, Name, OrNull, Prose, Region, SqlState, Where, Whole, Word,
};

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

/// Repetitions where a block does not say.
pub(crate) const DEFAULT_REPS: u32 = 3;

/// What an append block means where it says nothing: the values of the
/// hash-chain report.
pub(crate) const DEFAULTS: AppendParams = AppendParams {
    writers: 1,
    streams: 1,
    batch: 1,
    records: Some(128),
    payload_bytes: 100,
    placement: Placement::Split(SplitTag::Split),
    trips: Trips::Stepwise,
    retry: Retry {
        max_attempts: 25,
        base_ms: 25.0,
        cap_ms: 1000.0,
        deadline_ms: None,
        on: Vec::new(),
    },
    isolation: Isolation::RepeatableRead,
    warmup_s: 0.0,
    measure_s: None,
    abort_after_starved: 3,
};

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
    #[schemars(schema_with = "defaults_schema")]
    #[serde(default)]
    pub defaults: AppendBlock,
    /// The matrix, block by block. Any scalar of a block may be a list: the
    /// block is the product of its lists, the last one fastest.
    #[schemars(extend("minItems" = 1, "maxItems" = MAX_BLOCKS))]
    pub blocks: Vec<Block>,
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
    /// `sim:PRESET`, `dsql://HOST[,HOST]`, `postgres://…` or `postgresql://…`.
    #[serde(default)]
    #[schemars(with = "One<Address>")]
    pub url: Option<One<Address>>,
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

/// A block of the matrix; `workload` says of which workload.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(tag = "workload")]
pub(crate) enum Block {
    /// Chained records: one transaction reads a stream's head, inserts `batch`
    /// records that link to it, and moves it.
    Append(Box<AppendBlock>),
}

/// The keys of an append block.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "an object")]
#[schemars(extend(
    // The container's default makes every key optional; a block needs a name.
    "required" = ["name"],
    "not" = {"required": ["records", "measure_s"]}
))]
pub(crate) struct AppendBlock {
    /// Name of the block; ids of cells begin with it.
    #[schemars(with = "One<Name>")]
    pub name: Option<One<Name>>,
    /// Names of the targets to run on; `default` is the sweep's preset, or
    /// what `--on URL` puts in its place.
    pub target: Axis<Name>,
    /// Concurrent writers per stream, each on a connection of its own.
    #[schemars(extend("default" = DEFAULTS.writers))]
    pub writers: Axis<Whole<1, MAX_CONNECTIONS>>,
    /// Independent chains.
    #[schemars(extend("default" = DEFAULTS.streams))]
    pub streams: Axis<Whole<1, MAX_CONNECTIONS>>,
    /// Records in one transaction.
    #[schemars(extend("default" = DEFAULTS.batch))]
    pub batch: Axis<Whole<1, MAX_BATCH>>,
    /// Records per stream and rep, shared out over the stream's writers.
    /// Excludes `measure_s`.
    #[schemars(extend("default" = DEFAULTS.records))]
    pub records: Axis<Whole<1, MAX_RECORDS>>,
    /// Seconds of the measured window, instead of a number of records.
    pub measure_s: Axis<Decimal<100, 43_200_000>>,
    /// Seconds of load before the window opens.
    #[schemars(extend("default" = 0))]
    pub warmup_s: Axis<Decimal<0, 3_600_000>>,
    /// Bytes of one record's payload.
    #[schemars(extend("default" = DEFAULTS.payload_bytes))]
    pub payload_bytes: Axis<Whole<MIN_PAYLOAD, MAX_PAYLOAD>>,
    /// Where writers connect: `split` (writer i on endpoint i mod n), `first`,
    /// or the name of one endpoint.
    #[schemars(extend("default" = "split"))]
    pub placement: Axis<Where>,
    /// How the statements of a transaction travel.
    #[schemars(extend("default" = "stepwise"))]
    pub trips: Axis<Word<Trips>>,
    /// Isolation level of the transactions.
    #[schemars(extend("default" = "repeatable_read"))]
    pub isolation: Axis<Word<Isolation>>,
    /// When and how a failed attempt is tried again.
    pub retry: RetryFile,
    /// Starved appends, over the whole rep, that abort it.
    #[schemars(extend("default" = DEFAULTS.abort_after_starved))]
    pub abort_after_starved: Axis<Whole<1, 1_000_000>>,
    /// Repetitions of every cell.
    #[schemars(with = "One<Reps>", extend("default" = DEFAULT_REPS))]
    pub reps: Option<One<Reps>>,
    /// Keep one row per operation in `ops.jsonl`.
    #[schemars(with = "One<Flag>", extend("default" = false))]
    pub raw: Option<One<Flag>>,
    /// Limits on figures of the merged results; a broken one fails the run.
    pub thresholds: Vec<ThresholdFile>,
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
    #[schemars(extend("default" = DEFAULTS.retry.max_attempts))]
    pub max_attempts: Axis<Whole<1, MAX_ATTEMPTS>>,
    /// Attempts after the first. Excludes `max_attempts`.
    pub max_retries: Axis<Whole<0, MAX_RETRIES>>,
    /// Bound of the first pause in milliseconds.
    #[schemars(extend("default" = 25))]
    pub base_ms: Axis<Decimal<0, MINUTE_US>>,
    /// Bound of every pause in milliseconds; not under `base_ms`.
    #[schemars(extend("default" = 1000))]
    pub cap_ms: Axis<Decimal<0, MINUTE_US>>,
    /// Milliseconds from an operation's planned start after which it is given
    /// up; null for none.
    #[schemars(extend("default" = null))]
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

/// Keys that mean the same thing: a block's own displaces the inherited other.
pub(crate) const EITHER: &[[&str; 2]] =
    &[["records", "measure_s"], ["max_attempts", "max_retries"]];

/// A block's keys without those that cannot be inherited.
fn defaults_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = AppendBlock::json_schema(generator);
    let object = schema.ensure_object();
    object.remove("required");
    object.remove("title");
    if let Some(properties) = object.get_mut("properties").and_then(|p| p.as_object_mut()) {
        properties.remove("name");
        for property in properties.values_mut() {
            // What is not given here is given by the block's own default.
            if let Some(property) = property.as_object_mut() {
                property.remove("default");
            }
        }
    }
    schema
}
