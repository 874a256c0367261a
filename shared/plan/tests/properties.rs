//! What holds for every sweep: nothing makes the reader panic, a block is the
//! product of its lists, and what is accepted is within bounds and within the
//! schema.

// A test's helpers fail the test by panicking, as its body does.
#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use fabric_plan::{Overrides, Params, Plan, parse, schema};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

static SCHEMA: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&schema()).unwrap());

/// Axes with values that go well together, in any order and length.
fn axes() -> impl Strategy<Value = Vec<(&'static str, Vec<Value>)>> {
    let values: Vec<(&str, Vec<Value>)> = vec![
        ("writers", vec![json!(1), json!(2), json!(8), json!(64)]),
        ("streams", vec![json!(1), json!(4), json!(100)]),
        ("batch", vec![json!(1), json!(10), json!(100)]),
        ("records", vec![json!(64), json!(400)]),
        ("warmup_s", vec![json!(0), json!(0.5), json!(10)]),
        ("payload_bytes", vec![json!(16), json!(1e3)]),
        (
            "placement",
            vec![json!("split"), json!("first"), json!("us-east-1")],
        ),
        (
            "trips",
            vec![json!("stepwise"), json!("pipelined"), json!("sticky")],
        ),
        (
            "isolation",
            vec![json!("serializable"), json!("repeatable_read")],
        ),
        ("abort_after_starved", vec![json!(1), json!(3)]),
        ("target", vec![json!("default"), json!("x")]),
        ("max_attempts", vec![json!(1), json!(25)]),
        ("base_ms", vec![json!(0), json!(25)]),
        ("cap_ms", vec![json!(25), json!(1000)]),
        ("deadline_ms", vec![json!(null), json!(2000)]),
    ];
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
fn text(axes: &[(&str, Vec<Value>)]) -> String {
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
            "blocks": [{{"name": "A", "workload": "append", {}}},
                       {{"name": "B", "workload": "append", "target": "x"}}]}}"#,
        members.join(", ")
    )
}

fn plan(text: &str) -> Plan {
    parse(text).unwrap().plan(&Overrides::default()).unwrap()
}

fn within_bounds(plan: &Plan) {
    for cell in &plan.cells {
        let Params::Append(params) = &cell.params else {
            panic!("no append cell");
        };
        assert!(params.writers >= 1 && params.streams >= 1);
        assert!(u64::from(params.writers) * u64::from(params.streams) <= 10_000);
        assert!((1..=100).contains(&params.batch));
        assert!((16..=1 << 20).contains(&params.payload_bytes));
        assert!(u64::from(params.batch) * u64::from(params.payload_bytes) <= 10 << 20);
        assert!(params.records.is_some() != params.measure_s.is_some());
        if let Some(records) = params.records {
            assert!(records >= u64::from(params.writers));
            assert!(records * u64::from(params.streams) <= 10_000_000);
        }
        if let Some(seconds) = params.measure_s {
            assert!((0.1..=43_200.0).contains(&seconds));
        }
        assert!((0.0..=3_600.0).contains(&params.warmup_s));
        assert!((1..=1_000).contains(&params.retry.max_attempts));
        assert!(params.retry.base_ms >= 0.0 && params.retry.base_ms <= params.retry.cap_ms);
        assert!(params.retry.cap_ms <= 60_000.0);
        assert!(params.abort_after_starved >= 1);
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
    (axes(), nearly(), any::<prop::sample::Index>()).prop_map(|(axes, value, at)| {
        let mut sweep: Value = serde_json::from_str(&text(&axes)).unwrap();
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
    fn a_block_is_the_product_of_its_lists(axes in axes()) {
        let text = text(&axes);
        judge(&text);
        let plan = plan(&text);
        let product: usize = axes.iter().map(|(_, values)| values.len()).product();
        prop_assert_eq!(plan.cells.len(), product + 1);
        // The last written axis changes from one cell to the next.
        let flat = axes.iter().rfind(|(key, _)| *key == "trips" || *key == "batch");
        if let (Some((key, values)), true) = (flat, axes.len() == 1) {
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
    fn a_sweep_cut_short_is_refused(axes in axes(), at in any::<prop::sample::Index>()) {
        let text = text(&axes);
        let cut = &text[..at.index(text.len())];
        prop_assert!(parse(cut).is_err());
    }
}

/// The schema and the expansion know the same axes.
#[test]
fn every_key_that_may_be_a_list_is_an_axis() {
    let schema = schema();
    let block = &schema["definitions"]["Block"]["oneOf"][0]["properties"];
    let retry = &schema["definitions"]["Retry"]["properties"];
    let mut tried = 0;
    for (properties, nested) in [(block, false), (retry, true)] {
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
                "records" | "cap_ms" => "[128, 129]",
                "payload_bytes" => "[16, 17]",
                _ => "[1, 2]",
            };
            let member = match nested {
                true => format!(r#""retry": {{"{key}": {values}}}"#),
                false => format!(r#""{key}": {values}"#),
            };
            let text = format!(
                r#"{{"name": "s", "preset": "p", "targets": [{{"name": "x", "url": "sim:q"}}],
                    "blocks": [{{"name": "A", "workload": "append", {member}}},
                               {{"name": "B", "workload": "append", "target": "x"}}]}}"#
            );
            let plan = plan(&text);
            assert_eq!(plan.cells.len(), 3, "{key}");
            assert!(
                plan.cells[0].params != plan.cells[1].params || key == "target",
                "{key}"
            );
            tried += 1;
        }
    }
    assert_eq!(tried, 17);
}
