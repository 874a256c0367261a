//! What holds for every sweep: nothing makes the reader panic, a block is the
//! product of its lists, and what is accepted is within bounds and within the
//! schema.

// A test's helpers fail the test by panicking, as its body does.
#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use fabric_plan::{Distribution, Overrides, Params, Plan, parse, schema};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

static SCHEMA: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&schema()).unwrap());

/// A block: its workload, and axes by key.
type Block = (&'static str, Vec<(&'static str, Vec<Value>)>);

/// A block of any workload, of axes with values that go well together, in any
/// order and length.
fn block() -> impl Strategy<Value = Block> {
    let of = |workload: &'static str, own: Vec<(&'static str, Vec<Value>)>| {
        axes(own).prop_map(move |axes| (workload, axes))
    };
    prop_oneof![
        of(
            "append",
            vec![
                ("writers", vec![json!(1), json!(2), json!(8), json!(64)]),
                ("streams", vec![json!(1), json!(4), json!(100)]),
                ("batch", vec![json!(1), json!(10), json!(100)]),
                ("records", vec![json!(64), json!(400)]),
                ("payload_bytes", vec![json!(16), json!(1e3)]),
                (
                    "trips",
                    vec![json!("stepwise"), json!("pipelined"), json!("sticky")],
                ),
            ]
        ),
        of(
            "order_transfer",
            vec![
                ("concurrency", vec![json!(1), json!(16), json!(256)]),
                ("operations", vec![json!(256), json!(1e6)]),
                ("transfers_pct", vec![json!(0), json!(30), json!(100)]),
                ("distribution", vec![json!("uniform"), json!("hot")]),
                ("products", vec![json!(50), json!(4_000)]),
                ("accounts", vec![json!(2), json!(1_000)]),
                ("items", vec![json!(1), json!(50)]),
                ("inventory_shards", vec![json!(1), json!(64)]),
                ("stock", vec![json!(null), json!(64), json!(1_000_000)]),
                ("balance", vec![json!(null), json!(0), json!(100)]),
                ("duplicate_pct", vec![json!(0), json!(12.5)]),
            ]
        ),
        of(
            "tpcb",
            vec![
                ("concurrency", vec![json!(1), json!(64)]),
                ("measure_s", vec![json!(0.5), json!(20)]),
                ("scale", vec![json!(1), json!(100)]),
                ("variant", vec![json!("tpcb_like"), json!("simple_update")]),
            ]
        ),
    ]
}

fn axes(
    own: Vec<(&'static str, Vec<Value>)>,
) -> impl Strategy<Value = Vec<(&'static str, Vec<Value>)>> {
    let shared = vec![
        ("warmup_s", vec![json!(0), json!(0.5), json!(10)]),
        (
            "placement",
            vec![json!("split"), json!("first"), json!("us-east-1")],
        ),
        (
            "isolation",
            vec![json!("serializable"), json!("repeatable_read")],
        ),
        ("abort_after_starved", vec![json!(0), json!(1), json!(3)]),
        ("target", vec![json!("default"), json!("x")]),
        ("max_attempts", vec![json!(1), json!(25)]),
        ("base_ms", vec![json!(0), json!(25)]),
        ("cap_ms", vec![json!(25), json!(1000)]),
        ("deadline_ms", vec![json!(null), json!(2000)]),
    ];
    let values: Vec<(&str, Vec<Value>)> = own.into_iter().chain(shared).collect();
    let all = values.len();
    subsequence(values, 0..=all.min(6))
        .prop_shuffle()
        .prop_flat_map(|axes| {
            axes.into_iter()
                .map(|(key, values)| {
                    let most = values.len();
                    (Just(key), subsequence(values, 1..=most).prop_shuffle())
                })
                .collect::<Vec<_>>()
        })
}

/// The text of a sweep with one block; written by hand, because the order of
/// keys matters.
fn text((workload, axes): &Block) -> String {
    const RETRY: [&str; 4] = ["max_attempts", "base_ms", "cap_ms", "deadline_ms"];
    let member = |(key, values): &(&str, Vec<Value>)| match values.as_slice() {
        [one] => format!("\"{key}\": {one}"),
        many => format!("\"{key}\": {}", Value::from(many.to_vec())),
    };
    let (retry, flat): (Vec<_>, Vec<_>) = axes.iter().partition(|(key, _)| RETRY.contains(key));
    let mut members: Vec<String> = flat.into_iter().map(member).collect();
    members.push(format!(
        "\"retry\": {{{}}}",
        retry.into_iter().map(member).collect::<Vec<_>>().join(", ")
    ));
    format!(
        r#"{{"name": "s", "preset": "p", "targets": [{{"name": "x", "url": "sim:q"}}],
            "blocks": [{{"name": "A", "workload": "{workload}", {}}},
                       {{"name": "B", "workload": "append", "target": "x"}}]}}"#,
        members.join(", ")
    )
}

fn plan(text: &str) -> Plan {
    parse(text).unwrap().plan(&Overrides::default()).unwrap()
}

fn within_bounds(plan: &Plan) {
    for cell in &plan.cells {
        match &cell.params {
            Params::Append(params) => {
                assert!(params.writers >= 1 && params.streams >= 1);
                assert!(u64::from(params.writers) * u64::from(params.streams) <= 10_000);
                assert!((1..=100).contains(&params.batch));
                assert!((16..=1 << 20).contains(&params.payload_bytes));
                assert!(u64::from(params.batch) * u64::from(params.payload_bytes) <= 10 << 20);
                if let Some(records) = params.records {
                    assert!(records >= u64::from(params.writers));
                    assert!(records * u64::from(params.streams) <= 10_000_000);
                }
            }
            Params::OrderTransfer(params) => {
                assert!((0.0..=100.0).contains(&params.transfers_pct));
                assert!((0.0..=100.0).contains(&params.duplicate_pct));
                assert!(params.accounts >= 2 && (1..=50).contains(&params.items));
                assert!(params.items <= params.products);
                assert!(params.products > 1 || params.distribution == Distribution::Uniform);
                assert!((1..=1_024).contains(&params.inventory_shards));
                let rows_each = u64::from(params.inventory_shards);
                assert!(params.stock.is_none_or(|stock| stock >= rows_each));
                let stock = u64::from(params.products) * rows_each;
                assert!(stock + u64::from(params.accounts) <= 1_000_000);
            }
            Params::Tpcb(params) => assert!((1..=100).contains(&params.scale)),
        }
        let shape = cell.params.shape();
        assert!((1..=10_000).contains(&shape.writers));
        assert!(shape.operations.is_some() != shape.measure_s.is_some());
        if let Params::OrderTransfer(_) | Params::Tpcb(_) = &cell.params {
            assert!(
                shape
                    .operations
                    .is_none_or(|all| all >= u64::from(shape.writers))
            );
        }
        if let Some(seconds) = shape.measure_s {
            assert!((0.1..=43_200.0).contains(&seconds));
        }
        assert!((0.0..=3_600.0).contains(&shape.warmup_s));
        let retry = shape.retry;
        assert!((1..=1_000).contains(&retry.max_attempts));
        assert!(retry.base_ms >= 0.0 && retry.base_ms <= retry.cap_ms);
        assert!(retry.cap_ms <= 60_000.0);
        assert!(
            retry
                .deadline_ms
                .is_none_or(|ms| (1.0..=3_600_000.0).contains(&ms))
        );
        assert!((1..=1_000).contains(&cell.reps));
        assert!(plan.target_of(cell).is_some());
    }
    let mut ids: Vec<&str> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), plan.cells.len(), "ids are unique");
}

/// JSON made of the format's own words, so that it gets past the first check.
fn nearly() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        select(vec![
            json!(null),
            json!(true),
            json!(0),
            json!(1),
            json!(8),
            json!(100),
            json!(101),
            json!(-1),
            json!(1.5),
            json!(1e300),
            json!(u64::MAX),
            json!("split"),
            json!("sticky"),
            json!("append"),
            json!("order_transfer"),
            json!("tpcb"),
            json!("hot"),
            json!("A"),
            json!("sim:p"),
            json!("40001"),
            json!("default"),
            json!("throughput_per_s"),
            json!("repeatable_read"),
            json!(""),
        ]),
        ".{0,8}".prop_map(Value::from),
        any::<f64>().prop_map(|x| json!(x)),
    ];
    let key = select(vec![
        "name",
        "workload",
        "writers",
        "streams",
        "batch",
        "records",
        "measure_s",
        "warmup_s",
        "payload_bytes",
        "concurrency",
        "operations",
        "distribution",
        "products",
        "accounts",
        "items",
        "inventory_shards",
        "stock",
        "transfers_pct",
        "scale",
        "variant",
        "placement",
        "trips",
        "isolation",
        "retry",
        "max_attempts",
        "max_retries",
        "base_ms",
        "cap_ms",
        "deadline_ms",
        "on",
        "reps",
        "raw",
        "thresholds",
        "figure",
        "min",
        "max",
        "target",
        "targets",
        "url",
        "secret",
        "endpoints",
        "defaults",
        "blocks",
        "preset",
        "seed",
        "about",
        "$schema",
        "odd key",
    ]);
    leaf.prop_recursive(4, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|members| {
                let members = members
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value));
                Value::Object(members.collect::<Map<_, _>>())
            }),
        ]
    })
}

/// A good sweep with one of its values replaced.
fn replaced() -> impl Strategy<Value = Value> {
    (block(), nearly(), any::<prop::sample::Index>()).prop_map(|(block, value, at)| {
        let mut sweep: Value = serde_json::from_str(&text(&block)).unwrap();
        let mut pointers = Vec::new();
        collect_pointers(&sweep, String::new(), &mut pointers);
        let pointer = at.get(&pointers).clone();
        *sweep.pointer_mut(&pointer).unwrap() = value;
        sweep
    })
}

fn collect_pointers(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Array(list) => {
            for (i, value) in list.iter().enumerate() {
                collect_pointers(value, format!("{at}/{i}"), all);
            }
        }
        Value::Object(members) => {
            for (key, value) in members {
                collect_pointers(value, format!("{at}/{key}"), all);
            }
        }
        _ => {}
    }
    all.push(at);
}

/// Nothing panics; a refusal is one line; what is accepted is within bounds
/// and within the schema.
fn judge(text: &str) {
    match parse(text) {
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(['\n', '\r', '\u{1b}']), "{line}");
        }
        Ok(sweep) => {
            let json: Value = serde_json::from_str(text).unwrap();
            assert!(
                SCHEMA.is_valid(&json),
                "accepted against the schema: {text}"
            );
            if let Ok(plan) = sweep.plan(&Overrides::default()) {
                within_bounds(&plan);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        // The same cases on every run; a failure is found again by running again.
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_block_is_the_product_of_its_lists(block in block()) {
        let text = text(&block);
        judge(&text);
        let plan = plan(&text);
        let (_, axes) = &block;
        let product: usize = axes.iter().map(|(_, values)| values.len()).product();
        prop_assert_eq!(plan.cells.len(), product + 1);
        // The last written axis changes from one cell to the next.
        if let [(key @ ("trips" | "batch" | "variant"), values)] = axes.as_slice() {
            let ids: Vec<&str> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
            for (id, value) in ids.iter().zip(values) {
                if values.len() > 1 {
                    let label = value.as_str().map_or(value.to_string(), str::to_owned);
                    prop_assert_eq!(*id, format!("A/{key}={label}"));
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        judge(&text);
    }

    #[test]
    fn text_that_looks_like_json_is_read_or_refused(text in "[{}\\[\\]\",:0-9a-z\\\\e+. \n-]{0,80}") {
        judge(&text);
    }

    #[test]
    fn json_of_the_formats_words_is_read_or_refused(value in nearly()) {
        judge(&value.to_string());
    }

    #[test]
    fn a_sweep_with_a_value_replaced_is_read_or_refused(value in replaced()) {
        judge(&value.to_string());
    }

    #[test]
    fn a_sweep_cut_short_is_refused(block in block(), at in any::<prop::sample::Index>()) {
        let text = text(&block);
        let cut = &text[..at.index(text.len())];
        prop_assert!(parse(cut).is_err());
    }
}

/// The schema and the expansion know the same axes.
#[test]
fn every_key_that_may_be_a_list_is_an_axis() {
    let schema = schema();
    let retry = &schema["definitions"]["Retry"]["properties"];
    let blocks = schema["definitions"]["Block"]["oneOf"].as_array().unwrap();
    let mut tried = Vec::new();
    for block in blocks {
        let workload = &block["properties"]["workload"]["const"];
        let before = tried.len();
        for (properties, nested) in [(&block["properties"], false), (retry, true)] {
            for (key, property) in properties.as_object().unwrap() {
                let is_axis = property["anyOf"][1]["type"] == "array";
                if !is_axis {
                    continue;
                }
                let values = match key.as_str() {
                    "target" => r#"["default", "x"]"#,
                    "placement" => r#"["split", "first"]"#,
                    "trips" => r#"["stepwise", "sticky"]"#,
                    "isolation" => r#"["serializable", "repeatable_read"]"#,
                    "distribution" => r#"["uniform", "hot"]"#,
                    "variant" => r#"["tpcb_like", "simple_update"]"#,
                    "records" | "operations" | "cap_ms" => "[128, 129]",
                    "payload_bytes" => "[16, 17]",
                    "accounts" => "[2, 3]",
                    _ => "[1, 2]",
                };
                let member = match nested {
                    true => format!(r#""retry": {{"{key}": {values}}}"#),
                    false => format!(r#""{key}": {values}"#),
                };
                let text = format!(
                    r#"{{"name": "s", "preset": "p", "targets": [{{"name": "x", "url": "sim:q"}}],
                        "blocks": [{{"name": "A", "workload": {workload}, {member}}},
                                   {{"name": "B", "workload": "append", "target": "x"}}]}}"#
                );
                let plan = plan(&text);
                assert_eq!(plan.cells.len(), 3, "{key}");
                assert!(
                    plan.cells[0].params != plan.cells[1].params || key == "target",
                    "{key}"
                );
                tried.push(key.clone());
            }
        }
        assert_eq!(tried.len() - before, block_axes(workload.as_str().unwrap()));
    }
    assert_eq!(blocks.len(), 3);
}

/// How many axes a workload's block has: its own, and 11 that all have.
fn block_axes(workload: &str) -> usize {
    11 + match workload {
        "append" => 6,
        "order_transfer" => 11,
        "tpcb" => 4,
        other => panic!("{other}"),
    }
}
