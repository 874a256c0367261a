//! The keys of a block. One type holds those of all workloads, so that a key
//! which several of them have is declared once; which workload has which is
//! known from its parameters ([`Workload::has`]) and checked before the block
//! is read. `defaults` is of the same type.
//!
//! The JSON Schema of a block has one variant per workload, cut out of this
//! type in the same way.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cell::{Distribution, Isolation, TpcbVariant, Trips};
use crate::error::{Place, SweepError, nearest, one_of, quote};
use crate::file::{
    EITHER, MAX_BATCH, MAX_CONNECTIONS, MAX_ITEMS, MAX_PAYLOAD, MAX_PIECES, MAX_RECORDS, MAX_ROWS,
    MAX_SCALE, MAX_STOCK_ROWS, MIN_PAYLOAD, Reps, RetryFile, ThresholdFile,
};
use crate::read::TAG;
use crate::scalar::{AnyAxis, Axis, One, Raw, check};
use crate::tree::Node;
use crate::value::{Decimal, Flag, Name, OrNull, Where, Whole, Word, Words};
use crate::workloads::{DEFAULT_REPS, Workload};

/// The keys of a block, of whatever workload, and of `defaults`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct BlockFile {
    /// Name of the block; ids of cells begin with it.
    #[schemars(with = "One<Name>")]
    pub name: Option<One<Name>>,
    /// The workload.
    #[schemars(with = "One<Word<Workload>>")]
    pub workload: Option<One<Word<Workload>>>,
    /// Names of the targets to run on; `default` is the sweep's preset, or
    /// what `--on URL` puts in its place.
    pub target: Axis<Name>,

    /// Concurrent writers per stream, each on a connection of its own.
    pub writers: Axis<Whole<1, MAX_CONNECTIONS>>,
    /// Independent chains.
    pub streams: Axis<Whole<1, MAX_CONNECTIONS>>,
    /// Records in one transaction.
    pub batch: Axis<Whole<1, MAX_BATCH>>,
    /// Records per stream and rep, shared out over the stream's writers.
    /// Excludes `measure_s`.
    pub records: Axis<Whole<1, MAX_RECORDS>>,
    /// Bytes of one record's payload.
    pub payload_bytes: Axis<Whole<MIN_PAYLOAD, MAX_PAYLOAD>>,
    /// How the statements of a transaction travel.
    pub trips: Axis<Word<Trips>>,

    /// Clients of the whole wave, each on a connection of its own.
    pub concurrency: Axis<Whole<1, MAX_CONNECTIONS>>,
    /// Operations of the whole rep, shared out over its clients. Excludes
    /// `measure_s`.
    pub operations: Axis<Whole<1, MAX_RECORDS>>,

    /// Percent of the operations that are transfers; the rest are orders.
    pub transfers_pct: Axis<Decimal<0, 100_000>>,
    /// Which products and accounts are asked for.
    pub distribution: Axis<Word<Distribution>>,
    /// Products.
    pub products: Axis<Whole<1, MAX_ROWS>>,
    /// Accounts.
    pub accounts: Axis<Whole<2, MAX_ROWS>>,
    /// Products of one order.
    pub items: Axis<Whole<1, MAX_ITEMS>>,
    /// Rows that a product's stock is split over; the stock stays the same.
    pub inventory_shards: Axis<Whole<1, MAX_STOCK_ROWS>>,
    /// Pieces in stock of each product; null for more than can be sold.
    pub stock: Axis<OrNull<Whole<1, MAX_PIECES>>>,
    /// Balance of each account; null for more than can be moved.
    pub balance: Axis<OrNull<Whole<0, MAX_PIECES>>>,
    /// Percent of the operations that send the business id of an earlier one
    /// again.
    pub duplicate_pct: Axis<Decimal<0, 100_000>>,

    /// Scale factor: branches, of ten tellers and 100,000 accounts each.
    pub scale: Axis<Whole<1, MAX_SCALE>>,
    /// What a transaction does.
    pub variant: Axis<Word<TpcbVariant>>,

    /// Seconds of the measured window, instead of a number of records or
    /// operations.
    pub measure_s: Axis<Decimal<100, 43_200_000>>,
    /// Seconds of load before the window opens; 0 where a number of operations
    /// is given.
    pub warmup_s: Axis<Decimal<0, 3_600_000>>,
    /// Where connections go: `split` (number i on endpoint i mod n), `first`,
    /// or the name of one endpoint.
    pub placement: Axis<Where>,
    /// Isolation level of the transactions.
    pub isolation: Axis<Word<Isolation>>,
    /// When and how a failed attempt is tried again.
    pub retry: RetryFile,
    /// Starved operations, over the whole rep, that abort it; 0 never does.
    pub abort_after_starved: Axis<Whole<0, 1_000_000>>,
    /// Repetitions of every cell.
    #[schemars(with = "One<Reps>", extend("default" = DEFAULT_REPS))]
    pub reps: Option<One<Reps>>,
    /// Keep one row per operation in `ops.jsonl`.
    #[schemars(with = "One<Flag>", extend("default" = false))]
    pub raw: Option<One<Flag>>,
    /// Limits on figures of the merged results; a broken one fails the run.
    pub thresholds: Vec<ThresholdFile>,
}

impl BlockFile {
    /// Every axis by its path.
    pub(crate) fn axes(&self) -> Vec<(&'static str, &dyn AnyAxis)> {
        vec![
            ("target", &self.target),
            ("writers", &self.writers),
            ("streams", &self.streams),
            ("batch", &self.batch),
            ("records", &self.records),
            ("payload_bytes", &self.payload_bytes),
            ("trips", &self.trips),
            ("concurrency", &self.concurrency),
            ("operations", &self.operations),
            ("transfers_pct", &self.transfers_pct),
            ("distribution", &self.distribution),
            ("products", &self.products),
            ("accounts", &self.accounts),
            ("items", &self.items),
            ("inventory_shards", &self.inventory_shards),
            ("stock", &self.stock),
            ("balance", &self.balance),
            ("duplicate_pct", &self.duplicate_pct),
            ("scale", &self.scale),
            ("variant", &self.variant),
            ("measure_s", &self.measure_s),
            ("warmup_s", &self.warmup_s),
            ("placement", &self.placement),
            ("isolation", &self.isolation),
            ("retry.max_attempts", &self.retry.max_attempts),
            ("retry.max_retries", &self.retry.max_retries),
            ("retry.base_ms", &self.retry.base_ms),
            ("retry.cap_ms", &self.retry.cap_ms),
            ("retry.deadline_ms", &self.retry.deadline_ms),
            ("abort_after_starved", &self.abort_after_starved),
        ]
    }
}

/// The workload that a block names. `None` where it is no object at all, which
/// reading it says better.
pub(crate) fn workload_of(block: &Node, place: &Place) -> Result<Option<Workload>, SweepError> {
    let Node::Object(_) = block else {
        return Ok(None);
    };
    let place = place.key(TAG);
    let names: Vec<&str> = Workload::ALL.iter().map(|(name, ..)| *name).collect();
    match block.get(TAG) {
        None => {
            let problem = format!("missing; give {}", one_of(&names));
            Err(SweepError::at(place, problem))
        }
        Some(Node::Text(text)) => match check::<Word<Workload>>(Raw::Text(text)) {
            Ok(word) => Ok(Some(word.0)),
            Err(_) => {
                let near = nearest(text, &names)
                    .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                let problem = format!("{} is not known; use {}{near}", quote(text), one_of(&names));
                Err(SweepError::at(place, problem))
            }
        },
        Some(_) => Err(SweepError::at(place, format!("must be {}", one_of(&names)))),
    }
}

/// Refuses keys that blocks of `workloads` do not have: one for a block, those
/// of the sweep for `defaults`.
pub(crate) fn check_keys(
    node: &Node,
    place: &Place,
    workloads: &[Workload],
) -> Result<(), SweepError> {
    for (key, _) in node.members() {
        if !workloads.iter().any(|workload| workload.has(key)) {
            let problem = format!("unknown key; {}", remedy(key, workloads));
            return Err(SweepError::at(place.key(key), problem));
        }
    }
    Ok(())
}

/// What to write instead of a key that is not there.
fn remedy(key: &str, workloads: &[Workload]) -> String {
    let hint = workloads.iter().find_map(|workload| hint(key, *workload));
    let mut known: Vec<&str> = workloads.iter().flat_map(|w| w.keys()).collect();
    known.sort_unstable();
    known.dedup();
    let names = |workloads: &[Workload]| {
        let names: Vec<&str> = workloads.iter().map(|workload| workload.name()).collect();
        one_of(&names)
    };
    let owners: Vec<Workload> = Workload::all().into_iter().filter(|w| w.has(key)).collect();
    match (hint, owners.as_slice(), nearest(key, &known)) {
        (Some(hint), ..) => hint,
        (None, [_, ..], _) => format!(
            "a block of {} has it, one of {} does not",
            names(&owners),
            names(workloads)
        ),
        (None, [], Some(near)) => format!("did you mean `{near}`?"),
        (None, [], None) => format!("known here: {}", known.join(", ")),
    }
}

/// Keys that people look for in vain in a block of a workload, and what to
/// write instead.
fn hint(key: &str, workload: Workload) -> Option<String> {
    let (name, count) = (workload.name(), workload.count_key());
    let says = |what: &str| Some(format!("a block of {name} says {what}"));
    match (key, workload) {
        ("concurrency" | "clients", Workload::Append) => {
            says("`writers` (per stream) and `streams`")
        }
        ("writers" | "streams" | "clients", _) => says("`concurrency`, of the whole wave"),
        ("operations", Workload::Append) => says("`records`, per stream"),
        ("records", _) => says("`operations`, of the whole wave"),
        ("appends_per_writer", Workload::Append) => {
            Some("give `records`, which is per stream and shared by its writers".to_owned())
        }
        ("rate" | "arrivals", _) => Some(format!(
            "a block of {name} is a closed loop; its bound is `{count}` or `measure_s`"
        )),
        ("max_attempts" | "max_retries" | "base_ms" | "cap_ms" | "deadline_ms", _) => Some(
            format!("it is a field of `retry`, such as \"retry\": {{\"{key}\": 10}}"),
        ),
        _ => None,
    }
}

/// A block as the schema has it: one variant for each workload.
pub(crate) struct BlockSchema;

impl JsonSchema for BlockSchema {
    fn schema_name() -> Cow<'static, str> {
        "Block".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let all = properties(generator);
        let variants: Vec<Value> = Workload::ALL
            .iter()
            .map(|(name, workload, about)| variant(&all, name, *workload, about))
            .collect();
        schemars::json_schema!({
            "description": "A block of the matrix; `workload` says of which workload.",
            "oneOf": variants
        })
    }
}

/// The block of one workload: the keys that it has, with its defaults.
fn variant(all: &Map<String, Value>, name: &str, workload: Workload, about: &str) -> Value {
    let mut keys: Map<String, Value> = all
        .iter()
        .filter(|(key, _)| workload.has(key))
        .map(|(key, property)| (key.clone(), property.clone()))
        .collect();
    for (key, default) in workload.defaults() {
        // What bounds the rep is null where the other key does, which is not
        // to be written.
        let bound = [workload.count_key(), "measure_s"].contains(&key.as_str());
        if let Some(property) = keys.get_mut(key).filter(|_| !(bound && default.is_null())) {
            property["default"] = default.clone();
        }
    }
    keys.insert(TAG.to_owned(), json!({"type": "string", "const": name}));
    json!({
        "type": "object",
        "description": about,
        "properties": keys,
        "required": ["name", TAG],
        "additionalProperties": false,
        "not": {"required": [workload.count_key(), "measure_s"]}
    })
}

/// The keys that can be inherited, of all workloads.
pub(crate) fn defaults_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut keys = properties(generator);
    keys.retain(|key, _| key != "name" && key != TAG);
    for property in keys.values_mut().filter_map(Value::as_object_mut) {
        // What is not given here is given by the block's own default.
        property.remove("default");
    }
    let both: Vec<Value> = EITHER
        .iter()
        .filter(|pair| pair.iter().all(|key| keys.contains_key(*key)))
        .map(|pair| json!({"required": pair}))
        .collect();
    schemars::json_schema!({
        "type": "object",
        "properties": keys,
        "additionalProperties": false,
        "not": {"anyOf": both}
    })
}

/// The schemas of all keys.
fn properties(generator: &mut SchemaGenerator) -> Map<String, Value> {
    let mut schema = BlockFile::json_schema(generator);
    match schema.ensure_object().remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}
