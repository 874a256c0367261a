//! One append cell given by flags instead of a file.

use crate::error::{Place, SweepError, grouped};
use crate::file::MAX_RECORDS;
use crate::scalar::{Raw, check};
use crate::sweep::{Overrides, Plan, from_tree};
use crate::tree::Node;
use crate::value::Whole;

/// The simulator preset that `fabric append` runs on where `--on` says nothing.
const PRESET: &str = "us-pair-workstation";

/// The flags of `fabric append`.
#[derive(Clone, Debug)]
pub struct AppendArgs {
    /// Writers per stream.
    pub writers: u32,
    /// Records that each writer appends.
    pub appends_per_writer: u64,
    /// Independent chains.
    pub streams: u32,
    /// Records in one transaction.
    pub batch: u32,
    /// Bytes of one record's payload.
    pub payload_bytes: u32,
    /// `stepwise`, `pipelined` or `sticky`.
    pub trips: String,
    /// `split`, `first` or the name of an endpoint.
    pub placement: String,
    /// Keep one row per operation.
    pub raw: bool,
    /// Seed, repetitions and target.
    pub overrides: Overrides,
}

impl Default for AppendArgs {
    fn default() -> AppendArgs {
        AppendArgs {
            writers: 1,
            appends_per_writer: 16,
            streams: 1,
            batch: 1,
            payload_bytes: 100,
            trips: "stepwise".to_owned(),
            placement: "split".to_owned(),
            raw: false,
            overrides: Overrides::default(),
        }
    }
}

/// The plan of one append cell. It passes through the same gate as a file;
/// errors name the flag.
///
/// # Errors
/// When a flag is refused.
pub fn append_cell(args: &AppendArgs) -> Result<Plan, SweepError> {
    let refuse = |problem| Err(SweepError::at("--appends-per-writer", problem));
    if let Err(problem) = check::<Whole<1, MAX_RECORDS>>(Raw::Whole(args.appends_per_writer.into()))
    {
        return refuse(problem);
    }
    let records = args.appends_per_writer * u64::from(args.writers);
    if records > MAX_RECORDS {
        return refuse(format!(
            "{} writers x {} appends are {} records in one stream; at most {}, so lower one of them",
            grouped(args.writers.into()),
            grouped(args.appends_per_writer),
            grouped(records),
            grouped(MAX_RECORDS)
        ));
    }
    let number = |value: u64| Node::Whole(value.into());
    let text = |value: &str| Node::Text(value.to_owned());
    let mut block = vec![
        ("name", text("append")),
        ("workload", text("append")),
        ("writers", number(args.writers.into())),
        ("streams", number(args.streams.into())),
        ("batch", number(args.batch.into())),
        ("payload_bytes", number(args.payload_bytes.into())),
        ("trips", text(&args.trips)),
        ("placement", text(&args.placement)),
        ("raw", Node::Bool(args.raw)),
    ];
    if args.writers > 0 {
        block.push(("records", number(records)));
    }
    let tree = object(vec![
        ("name", text("append")),
        ("preset", text(PRESET)),
        ("blocks", Node::List(vec![object(block)])),
    ]);
    from_tree(&tree).map_err(flag)?.plan(&args.overrides)
}

fn object(members: Vec<(&str, Node)>) -> Node {
    Node::Object(
        members
            .into_iter()
            .map(|(key, node)| (key.to_owned(), node))
            .collect(),
    )
}

/// Names the flag in place of the key.
fn flag(error: SweepError) -> SweepError {
    let SweepError::Refused { place, problem } = error else {
        return error;
    };
    let place = match place.as_str().strip_prefix("blocks[0].") {
        Some("records") => Place::from("--appends-per-writer"),
        Some(key) => Place::from(format!("--{}", key.replace('_', "-")).as_str()),
        None => place,
    };
    SweepError::Refused { place, problem }
}
