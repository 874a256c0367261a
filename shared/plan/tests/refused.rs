//! What is refused, and with which words: every line of the snapshot is an
//! input and the message that a user gets for it.

// A test's helpers fail the test by panicking, as its body does.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use fabric_plan::{Overrides, parse, schema};

/// A sweep with one block of a workload and these members.
fn block_of(workload: &str, members: &str) -> String {
    sweep(&format!(
        r#""blocks": [{{"name": "A", "workload": "{workload}", {members}}}]"#
    ))
}

/// A sweep with one append block of these members.
fn block(members: &str) -> String {
    block_of("append", members)
}

fn sweep(members: &str) -> String {
    format!(r#"{{"name": "s", "preset": "p", {members}}}"#)
}

const ONE_BLOCK: &str = r#""blocks": [{"name": "A", "workload": "append"}]"#;

fn message(text: &str) -> String {
    let error = parse(text)
        .and_then(|sweep| sweep.plan(&Overrides::default()))
        .expect_err(text);
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

/// Values of a block's keys that are refused. Where the schema can know it
/// refuses them too.
const VALUES: &[&str] = &[
    r#""writers": 0"#,
    r#""writers": -1"#,
    r#""writers": 1.5"#,
    r#""writers": "8""#,
    r#""writers": true"#,
    r#""writers": null"#,
    r#""writers": {"from": 1}"#,
    r#""writers": []"#,
    r#""writers": [1, 0]"#,
    r#""writers": [1, [2]]"#,
    r#""writers": [1, 2, 1.0]"#,
    r#""writers": 10001"#,
    r#""writers": 1e300"#,
    r#""writers": 99999999999999999999999999"#,
    r#""streams": 0"#,
    r#""batch": 0"#,
    r#""batch": 101"#,
    r#""batch": [1, 101]"#,
    r#""records": 0"#,
    r#""records": 10000001"#,
    r#""payload_bytes": 15"#,
    r#""payload_bytes": 1048577"#,
    r#""reps": 0"#,
    r#""reps": 1001"#,
    r#""reps": [1, 2]"#,
    r#""reps": 2.5"#,
    r#""measure_s": 0"#,
    r#""measure_s": -1"#,
    r#""measure_s": 100000"#,
    r#""measure_s": 10, "records": 100"#,
    r#""warmup_s": -0.5"#,
    r#""warmup_s": "5s""#,
    r#""abort_after_starved": -1"#,
    r#""trips": "sticki""#,
    r#""trips": 1"#,
    r#""trips": ["stepwise", "Sticky"]"#,
    r#""placement": """#,
    r#""placement": "us east 1""#,
    r#""isolation": "snapshot""#,
    r#""raw": "yes""#,
    r#""retry": 3"#,
    r#""retry": []"#,
    r#""retry": {"max_attempts": 0}"#,
    r#""retry": {"max_attempts": 1001}"#,
    r#""retry": {"max_retries": -1}"#,
    r#""retry": {"max_attempts": 5, "max_retries": 4}"#,
    r#""retry": {"base_ms": -1}"#,
    r#""retry": {"base_ms": [10, null]}"#,
    r#""retry": {"cap_ms": 60001}"#,
    r#""retry": {"deadline_ms": 0}"#,
    r#""retry": {"deadline_ms": "none"}"#,
    r#""retry": {"on": "40001"}"#,
    r#""retry": {"on": [40001]}"#,
    r#""retry": {"on": ["4000"]}"#,
    r#""retry": {"jitter": "none"}"#,
    r#""thresholds": {"figure": "throughput_per_s", "min": 1}"#,
    r#""thresholds": [{"figure": "throughput_per_s"}]"#,
    r#""thresholds": [{"figure": "throughput", "min": 1}]"#,
    r#""thresholds": [{"figure": "latency_ms.response.p98", "max": 1}]"#,
    r#""thresholds": [{"figure": "throughput_per_s", "min": "5"}]"#,
    r#""thresholds": [{"min": 5}]"#,
    r#""writer": 8"#,
    r#""Writers": 8"#,
    r#""payload-bytes": 8"#,
    r#""colour": "red""#,
    r#""concurrency": 8"#,
    r#""operations": 8"#,
    r#""products": 8"#,
    r#""rate": 0"#,
    r#""arrivals": "poisson""#,
    r#""max_attempts": 5"#,
    r#""": 1"#,
    r#""a b\n": 1"#,
    r#""target": """#,
    r#""target": ["x", "x"]"#,
];

/// Blocks whose values do not fit each other; the schema can't know.
const TOGETHER: &[&str] = &[
    r#""writers": [8, 200], "streams": 100"#,
    r#""streams": [1, 10000], "writers": 2"#,
    r#""batch": [1, 100], "payload_bytes": 104858"#,
    r#""payload_bytes": [100, 1000000], "batch": 100"#,
    r#""records": 4, "writers": 8"#,
    r#""writers": [1, 129]"#,
    r#""records": 10000000, "streams": 2"#,
    r#""retry": {"base_ms": 2000}"#,
    r#""retry": {"cap_ms": [10, 1000]}"#,
    r#""thresholds": [{"figure": "throughput_per_s", "min": 6, "max": 5}]"#,
    r#""writers": 1, "writers": 2"#,
    r#""retry": {"base_ms": 1, "base_ms": 2}"#,
    r#""target": "elsewhere""#,
    r#""target": "defalt""#,
];

/// The same of order_transfer blocks.
const ORDERS: &[&str] = &[
    r#""concurrency": 0"#,
    r#""concurrency": 10001"#,
    r#""concurrency": [16, 20000]"#,
    r#""operations": 0"#,
    r#""operations": 100, "measure_s": 10"#,
    r#""transfers_pct": -1"#,
    r#""transfers_pct": 100.5"#,
    r#""transfers_pct": "30%""#,
    r#""duplicate_pct": 101"#,
    r#""distribution": "zipf""#,
    r#""distribution": ["uniform", "Hot"]"#,
    r#""products": 0"#,
    r#""products": 1000001"#,
    r#""accounts": 0"#,
    r#""accounts": 1"#,
    r#""items": 0"#,
    r#""items": 51"#,
    r#""inventory_shards": 0"#,
    r#""inventory_shards": 1025"#,
    r#""stock": 0"#,
    r#""stock": "enough""#,
    r#""balance": -1"#,
    r#""retry": {"deadline_ms": 0}"#,
    r#""retry": {"max_retries": 1000}"#,
    r#""retry": {"max_retries": null}"#,
    r#""retry": {"max_attempts": 1e9}"#,
    r#""isolation": "read committed""#,
    r#""writers": 8"#,
    r#""streams": 8"#,
    r#""records": 8"#,
    r#""batch": 8"#,
    r#""rate": 100"#,
    r#""clients": 8"#,
    r#""distributon": "hot""#,
    r#""product": 8"#,
    r#""inventory_shard": 8"#,
    r#""max_retries": 3"#,
    r#""scale": 8"#,
    r#""colour": "red""#,
];

/// The same of tpcb blocks.
const TPCB: &[&str] = &[
    r#""scale": 0"#,
    r#""scale": 101"#,
    r#""variant": "select_only""#,
    r#""variant": "tpcb-like""#,
    r#""concurrency": 0"#,
    r#""products": 8"#,
    r#""varaint": "tpcb_like""#,
];

/// Values of order_transfer blocks that do not fit each other.
const ORDERS_TOGETHER: &[&str] = &[
    r#""items": 5, "products": 4"#,
    r#""products": [4, 40], "items": [1, 10]"#,
    r#""products": 1, "distribution": ["uniform", "hot"]"#,
    r#""inventory_shards": [1, 64], "stock": 10"#,
    r#""products": 4000, "inventory_shards": [64, 1024]"#,
    r#""accounts": 1000000"#,
    r#""operations": 10"#,
    r#""operations": 100, "concurrency": [16, 256]"#,
    r#""retry": {"cap_ms": 5}"#,
];

/// Whole documents.
fn documents() -> Vec<String> {
    [
        "",
        " \n\t",
        "nonsense",
        "[]",
        "7",
        "null",
        "\"postgres://u:hunter2@h\"",
        "{}",
        "{\"name\": \"s\",}",
        "{\n  \"name\": \"s\"\n  \"blocks\": []\n}",
        "{\"name\": \"s\"} trailing",
        "{\"name\": \"s",
        "{\"name\": 1e999}",
        r#"{"name": "s"}"#,
        r#"{"blocks": [{"name": "A", "workload": "append"}]}"#,
        r#"{"name": "s", "blocks": [{"name": "A", "workload": "append"}]}"#,
        r#"{"name": "s", "blocks": [{"name": "A", "workload": "append", "target": "default"}]}"#,
        r#"{"name": "s", "targets": [{"name": "x", "url": null}], "blocks": [{"name": "A", "workload": "append"}]}"#,
    ]
    .into_iter()
    .map(str::to_owned)
    .chain(
        [
            r#""blocks": []"#,
            r#""blocks": {}"#,
            r#""blocks": null"#,
            r#""blocks": [7]"#,
            r#""blocks": [[]]"#,
            r#""blocks": [{}]"#,
            r#""blocks": [{"name": "A"}]"#,
            r#""blocks": [{"workload": "append"}]"#,
            r#""blocks": [{"name": "A", "workload": "appends"}]"#,
            r#""blocks": [{"name": "A", "workload": 1}]"#,
            r#""blocks": [{"name": "A", "workload": "order-transfer"}]"#,
            r#""blocks": [{"name": "A", "workload": "append", "workload": "append"}]"#,
            r#""blocks": [{"name": "", "workload": "append"}]"#,
            r#""blocks": [{"name": "a/b", "workload": "append"}]"#,
            r#""blocks": [{"name": "ä", "workload": "append"}]"#,
            r#""blocks": [{"name": ["A", "B"], "workload": "append"}]"#,
            r#""blocks": [{"name": "A", "workload": "append"}, {"name": "A", "workload": "append"}]"#,
            r#""block": []"#,
            r#""seed": -1, "blocks": []"#,
            r#""seed": 1.5, "blocks": []"#,
            r#""seed": 18446744073709551615, "blocks": []"#,
            r#""about": 7, "blocks": []"#,
            r#""about": "two\nlines", "blocks": []"#,
            r#""defaults": {"name": "A"}, "blocks": [{"name": "A", "workload": "append"}]"#,
            r#""defaults": {"workload": "append"}, "blocks": []"#,
            r#""defaults": [], "blocks": []"#,
            r#""defaults": {"scale": 2}, "blocks": [{"name": "A", "workload": "append"}]"#,
            r#""defaults": {"concurrency": 8}, "blocks": [{"name": "A", "workload": "append"}]"#,
            r#""defaults": {"writer": 8}, "blocks": [{"name": "A", "workload": "append"}, {"name": "B", "workload": "tpcb"}]"#,
            r#""defaults": {"writers": 8, "rate": 2}, "blocks": [{"name": "A", "workload": "append"}, {"name": "B", "workload": "tpcb"}]"#,
            r#""defaults": {"operations": 100, "measure_s": 2}, "blocks": [{"name": "A", "workload": "append"}, {"name": "B", "workload": "tpcb"}]"#,
            r#""defaults": {"operations": 4}, "blocks": [{"name": "A", "workload": "append"}, {"name": "B", "workload": "tpcb"}]"#,
            r#""defaults": {"writers": 0}, "blocks": []"#,
            r#""defaults": {"retry": {"max_attempts": 1, "max_retries": 1}}, "blocks": [{"name": "A", "workload": "append"}]"#,
            r#""defaults": {"batch": 100}, "blocks": [{"name": "A", "workload": "append", "payload_bytes": [100, 200000]}]"#,
            r#""defaults": {"batch": 100, "payload_bytes": 200000}, "blocks": [{"name": "A", "workload": "append"}]"#,
            r#""name": "again", "blocks": []"#,
        ]
        .map(sweep),
    )
    .chain(
        [
            r#""targets": []"#,
            r#""targets": {}"#,
            r#""targets": ["sim:p"]"#,
            r#""targets": [{"url": "sim:p"}]"#,
            r#""targets": [{"name": "x"}]"#,
            r#""targets": [{"name": "x", "url": "sim:p", "secret": "s"}]"#,
            r#""targets": [{"name": "x", "url": 7}]"#,
            r#""targets": [{"name": "x", "url": null}]"#,
            r#""targets": [{"name": "x", "url": null, "secret": "s"}]"#,
            r#""targets": [{"name": "x", "url": "mysql://u:hunter2@h"}]"#,
            r#""targets": [{"name": "x", "url": "postgres://u:hunter2@h:port/db"}]"#,
            r#""targets": [{"name": "x", "url": "dsql://u:hunter2@h"}]"#,
            r#""targets": [{"name": "x", "url": "dsql://"}]"#,
            r#""targets": [{"name": "x", "url": "sim:"}]"#,
            r#""targets": [{"name": "x", "url": "sim: p"}]"#,
            r#""targets": [{"name": "x", "endpoints": []}]"#,
            r#""targets": [{"name": "x", "endpoints": ["a b"]}]"#,
            r#""targets": [{"name": "x", "uri": "sim:p"}]"#,
            r#""targets": [{"name": "default", "url": "sim:p"}]"#,
            r#""targets": [{"name": "x", "url": "sim:p"}, {"name": "x", "url": "sim:q"}]"#,
            r#""targets": [{"name": "x", "url": "sim:p"}]"#,
        ]
        .map(|targets| sweep(&format!("{targets}, {ONE_BLOCK}"))),
    )
    .collect()
}

#[test]
fn messages() {
    let mut lines = String::new();
    let mut line = |input: &str, text: &str| {
        writeln!(lines, "{input:?}\n    {}", message(text)).unwrap();
    };
    for members in VALUES.iter().chain(TOGETHER) {
        line(members, &block(members));
    }
    for members in ORDERS.iter().chain(ORDERS_TOGETHER) {
        line(members, &block_of("order_transfer", members));
    }
    for members in TPCB {
        line(members, &block_of("tpcb", members));
    }
    for document in documents() {
        line(&document, &document);
    }
    let deep = "[".repeat(200);
    line("[ 200 times", &deep);
    line(
        "15 x 15 x 15 x 15",
        &block(&{
            let list = (1..=15)
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join(",");
            format!(
                r#""writers": [{list}], "streams": [{list}], "batch": [{list}], "abort_after_starved": [{list}]"#
            )
        }),
    );
    line(
        "a list of 1,001",
        &block(&format!(
            r#""records": [{}]"#,
            (1000..2001)
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join(",")
        )),
    );
    insta::assert_snapshot!(lines);
}

#[test]
fn what_the_schema_can_know_it_refuses_too() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let valid = |text: &str| validator.is_valid(&serde_json::from_str(text).unwrap());
    assert!(valid(&block(
        r#""writers": [1, 8], "retry": {"deadline_ms": [null, 10]}"#
    )));
    for (workload, all) in [
        ("append", VALUES),
        ("order_transfer", ORDERS),
        ("tpcb", TPCB),
    ] {
        for members in all {
            let text = block_of(workload, members);
            assert!(!valid(&text), "the schema accepts {text}");
        }
    }
    for document in documents() {
        let Ok(json) = serde_json::from_str::<serde_json::Value>(&document) else {
            continue;
        };
        // What depends on several places, or on keys that are there twice.
        let beyond = [
            "as well",
            "twice",
            "is not inherited",
            "excludes",
            "into a transaction",
            "no block runs on",
            "to run on",
            "has a target with an address",
            "more than one address",
            "one of `append` does not",
            "a block of append says",
            "without a share",
            "means the sweep's preset",
            "takes no password",
            "must be postgres",
            "must be dsql",
            "takes the name",
            "no spaces",
            "on one line",
            "a host name",
        ];
        let message = message(&document);
        if !beyond.iter().any(|part| message.contains(part)) {
            assert!(!validator.is_valid(&json), "the schema accepts {document}");
        }
    }
}

#[test]
fn no_message_holds_a_password() {
    for document in documents() {
        assert!(!message(&document).contains("hunter2"), "{document}");
    }
    for on in [
        "postgres://u:hunter2@h:port/db",
        "mysql://u:hunter2@h",
        "x=postgres://u:hunter2@h",
        "dsql://u:hunter2@h",
        "u:hunter2@h",
    ] {
        let sweep = parse(&sweep(ONE_BLOCK)).unwrap();
        let overrides = Overrides {
            on: vec![on.to_owned()],
            ..Overrides::default()
        };
        let message = sweep.plan(&overrides).unwrap_err().to_string();
        assert!(!message.contains("hunter2"), "{on}: {message}");
    }
}

#[test]
fn presets_and_placements_are_checked_by_what_there_is() {
    let text = block(r#""placement": ["first", "us-east-1", "us-est-2"]"#);
    let plan = parse(&text).unwrap().plan(&Overrides::default()).unwrap();
    assert_eq!(plan.check_presets(&["p", "q"]), Ok(()));
    assert_eq!(
        plan.check_presets(&["us-pair-workstation", "pp"])
            .unwrap_err()
            .to_string(),
        "preset: the simulator has no preset \"p\"; it has `us-pair-workstation` or `pp`; did you mean `pp`?"
    );
    let names = ["us-east-1".to_owned(), "us-east-2".to_owned()];
    assert_eq!(
        plan.check_placements("sim:p", &names)
            .unwrap_err()
            .to_string(),
        "cell A/placement=us-est-2: no endpoint is named \"us-est-2\"; placement may be `split`, `first`, `us-east-1` or `us-east-2`"
    );
}
