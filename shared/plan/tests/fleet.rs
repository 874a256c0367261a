//! How a wave is shared out over a fleet, and what no fleet can run.

// A test's helpers fail the test by panicking, as its body does.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use fabric_plan::{
    Cell, Fleet, Leg, Limits, Overrides, Params, Placement, Plan, Shard, SplitTag, legs,
    legs_allowed, parse, refill_time, shards, slot_delay, wave_connections,
};
use proptest::prelude::*;

fn plan_of(members: &str, block: &str, overrides: &Overrides) -> Result<Plan, String> {
    let text = format!(
        r#"{{"name": "s", {members}, "blocks": [{{"name": "A", "workload": "append", {block}}}]}}"#
    );
    parse(&text)
        .and_then(|sweep| sweep.plan(overrides))
        .map_err(|error| error.to_string())
}

fn plan(members: &str, block: &str) -> Plan {
    plan_of(members, block, &Overrides::default()).unwrap()
}

fn cell(block: &str) -> Cell {
    plan(r#""preset": "p""#, block).cells.remove(0)
}

fn fleet(workers: u32, connections_per_worker: u32) -> Fleet {
    Fleet {
        workers,
        connections_per_worker,
        limits: Limits::default(),
    }
}

fn names(endpoints: usize) -> Vec<String> {
    (0..endpoints).map(|n| format!("region-{n}")).collect()
}

const LOCAL: &str = r#""preset": "p""#;

#[test]
fn the_fleet_block_has_defaults_and_is_overridden() {
    let plain = plan(LOCAL, r#""writers": 1"#);
    assert_eq!(plain.fleet, Fleet::default());
    assert_eq!(plain.fleet, fleet(8, 250));
    let given = r#""preset": "p", "fleet": {"workers": 40, "connections_per_worker": 900,
        "limits": {"minutes": 30, "usd": 2.5, "dpu": 1e6}}"#;
    let limits = Limits {
        minutes: Some(30.0),
        usd: Some(2.5),
        dpu: Some(1e6),
    };
    let with = Fleet {
        limits,
        ..fleet(40, 900)
    };
    assert_eq!(plan(given, r#""writers": 1"#).fleet, with);
    let workers = |n| Overrides {
        workers: Some(n),
        ..Overrides::default()
    };
    let fewer = plan_of(given, r#""writers": 1"#, &workers(2)).unwrap();
    assert_eq!(fewer.fleet, Fleet { workers: 2, ..with });
    assert_eq!(
        plan_of(given, r#""writers": 1"#, &workers(0)).unwrap_err(),
        "--workers: must be a whole number from 1 to 1,000, not 0"
    );
}

#[test]
fn what_is_wrong_in_the_fleet_block_is_named() {
    for (block, message) in [
        (
            r#"{"workers": 0}"#,
            "fleet.workers: must be a whole number from 1 to 1,000, not 0",
        ),
        (
            r#"{"workers": [1, 2]}"#,
            "fleet.workers: must be a whole number from 1 to 1,000, not a list",
        ),
        (
            r#"{"connections_per_worker": 901}"#,
            "fleet.connections_per_worker: must be a whole number from 1 to 900, not 901",
        ),
        (
            r#"{"worker": 3}"#,
            "fleet.worker: unknown key; did you mean `workers`?",
        ),
        (
            r#"{"limits": {"usd": 0}}"#,
            "fleet.limits.usd: must be a number from 0.001 to 1,000,000, not 0",
        ),
        (
            r#"{"limits": {"minutes": -1}}"#,
            "fleet.limits.minutes: must be a number from 0.001 to 43,200, not -1",
        ),
        (
            r#"{"limits": 5}"#,
            "fleet.limits: must be an object such as {\"minutes\": 30, \"usd\": 5}, not a number",
        ),
        (
            "8",
            "fleet: must be an object such as {\"workers\": 8}, not a number",
        ),
    ] {
        let members = format!(r#""preset": "p", "fleet": {block}"#);
        let refused = plan_of(&members, r#""writers": 1"#, &Overrides::default());
        assert_eq!(refused.unwrap_err(), message);
    }
}

#[test]
fn regions_are_given_or_told_by_the_hosts() {
    let regions = |target: &str| {
        let members = format!(r#""targets": [{{"name": "x", {target}}}]"#);
        plan_of(&members, r#""writers": 1"#, &Overrides::default())
            .map(|plan| plan.targets[0].clone())
    };
    let told =
        regions(r#""endpoints": ["a.dsql.us-east-1.on.aws", "b.dsql.us-east-2.on.aws"]"#).unwrap();
    assert_eq!(told.region_of(1), Some("us-east-2"));
    assert_eq!(told.region_of(2), None);
    let given = regions(r#""endpoints": ["a:1", "b:2"], "regions": ["eu-1", "eu-2"]"#).unwrap();
    assert_eq!(
        (given.region_of(0), given.region_of(1)),
        (Some("eu-1"), Some("eu-2"))
    );
    let all = regions(r#""endpoints": ["a:1", "b:2"], "regions": "eu-1""#).unwrap();
    assert_eq!(
        (all.region_of(0), all.region_of(1)),
        (Some("eu-1"), Some("eu-1"))
    );
    let home = regions(r#""url": "postgres://h/db""#).unwrap();
    assert_eq!((home.region_of(0), home.regions.len()), (None, 0));
    assert_eq!(
        regions(r#""endpoints": ["a", "b", "c"], "regions": ["eu-1", "eu-2"]"#).unwrap_err(),
        "targets[0].regions: 2 regions for 3 endpoints; give one for each, or one for all"
    );
    assert_eq!(
        regions(r#""url": "postgres://h/db", "regions": "EU""#).unwrap_err(),
        "targets[0].regions: must be a region such as us-east-1: lower-case letters, digits and \
         `-`, not \"EU\""
    );
    // What the file says holds for its own address, not for one that replaces it.
    let members = r#""targets": [{"name": "x", "endpoints": ["a:1"], "regions": "eu-1"}]"#;
    let on = Overrides {
        on: vec!["x=dsql://c.dsql.us-west-2.on.aws".to_owned()],
        ..Overrides::default()
    };
    let replaced = plan_of(members, r#""writers": 1"#, &on).unwrap();
    assert_eq!(replaced.targets[0].regions, ["us-west-2"]);
}

#[test]
fn a_plan_comes_back_from_json() {
    let given = plan(
        r#""about": "x", "fleet": {"workers": 3, "limits": {"usd": 0.1}}, "targets": [
            {"name": "c", "endpoints": ["a.dsql.us-east-1.on.aws"], "network": "vpc"},
            {"name": "p", "url": "postgres://u@h/db?sslmode=require", "regions": "us-east-1"},
            {"name": "s", "secret": "prod/url"}, {"name": "m", "url": "sim:single-region"}]"#,
        r#""writers": [1, 2], "measure_s": 0.3, "raw": true,
           "thresholds": [{"figure": "throughput_per_s", "min": 0.1}]"#,
    );
    let text = serde_json::to_string(&given).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), given);
}

#[test]
fn what_no_fleet_can_run_is_refused() {
    let refused = |members: &str, block: &str| {
        let plan = plan(members, block);
        plan.check_fleet().unwrap_err().to_string()
    };
    let url = r#""targets": [{"name": "x", "url": "postgres://u:hunter2@h/db"}]"#;
    let message = refused(url, r#""writers": 1"#);
    assert!(
        message.starts_with("targets[0].url: the URL holds a password"),
        "{message}"
    );
    assert!(message.contains("write `secret`") && !message.contains("hunter2"));
    // Where it was replaced, that is the place.
    let on = Overrides {
        on: vec!["postgres://u:hunter2@h/db".to_owned()],
        ..Overrides::default()
    };
    let message = plan_of(url, r#""writers": 1"#, &on).unwrap();
    let message = message.check_fleet().unwrap_err().to_string();
    assert!(
        message.starts_with("--on: the URL holds a password"),
        "{message}"
    );

    let small = r#""preset": "p", "fleet": {"workers": 2, "connections_per_worker": 10}"#;
    assert_eq!(
        refused(small, r#""writers": [1, 21]"#),
        "fleet.workers: cell A/writers=21 needs 3 workers for its 21 writers (10 connections \
         each), the fleet has 2; raise `workers` or `connections_per_worker`, or lower the cell's \
         writers"
    );
    plan(small, r#""writers": 20"#).check_fleet().unwrap();
    // Two endpoints need a worker each.
    let pair = r#""targets": [{"name": "x", "endpoints": ["a", "b"]}], "fleet": {"workers": 1}"#;
    assert!(refused(pair, r#""writers": 2"#).contains("needs 2 workers"));
    plan(pair, r#""writers": 1"#).check_fleet().unwrap();
    plan(pair, r#""writers": 2, "placement": "first""#)
        .check_fleet()
        .unwrap();

    let mut stored = plan(
        r#""preset": "p", "fleet": {"workers": 1000}"#,
        r#""writers": 10000, "records": 10000"#,
    );
    stored.check_fleet().unwrap();
    let Params::Append(params) = &mut stored.cells[0].params else {
        panic!("no append cell");
    };
    params.writers = 10_001;
    assert_eq!(
        stored.check_fleet().unwrap_err().to_string(),
        "cell A: 10,001 connections in a wave; a cluster takes 10,000, so lower its writers"
    );
}

#[test]
fn a_deployed_fleet_has_no_simulator() {
    let local = plan(LOCAL, r#""writers": 1"#);
    local.check_fleet().unwrap();
    let message = local.check_deployed().unwrap_err().to_string();
    assert!(
        message.starts_with("preset: sim:p is a simulator in the process"),
        "{message}"
    );
    let pair = plan(
        r#""targets": [{"name": "x", "endpoints": ["a"]}]"#,
        r#""writers": 1"#,
    );
    pair.check_deployed().unwrap();
}

#[test]
fn where_the_endpoints_are_known_every_wave_is_dealt_before_it_runs() {
    let plan = plan(
        r#""preset": "p", "fleet": {"workers": 1}"#,
        r#""writers": [1, 2]"#,
    );
    plan.check_fleet().unwrap();
    plan.check_shards("sim:p", &names(1)).unwrap();
    assert_eq!(
        plan.check_shards("sim:p", &names(2))
            .unwrap_err()
            .to_string(),
        "cell A/writers=2: 2 writers need 2 workers of 250 connections each, the fleet has 1; \
         raise `fleet.workers` or `fleet.connections_per_worker`, or lower the writers"
    );
}

fn sizes(shards: &[Shard]) -> Vec<(u32, u32)> {
    shards.iter().map(|s| (s.endpoint, s.writers)).collect()
}

#[test]
fn workers_go_where_they_have_the_most_to_do() {
    let dealt = |writers: u32, endpoints: usize, workers: u32| {
        let cell = cell(&format!(r#""writers": {writers}"#));
        sizes(&shards(&cell, &names(endpoints), &fleet(workers, 250)).unwrap())
    };
    assert_eq!(dealt(64, 2, 2), [(0, 32), (1, 32)]);
    assert_eq!(dealt(64, 2, 8), [(0, 8), (1, 8)].repeat(4));
    assert_eq!(dealt(5, 2, 3), [(0, 2), (1, 2), (0, 1)]);
    assert_eq!(dealt(3, 2, 8), [(0, 1), (1, 1), (0, 1)]);
    assert_eq!(dealt(1, 2, 8), [(0, 1)]);
    assert_eq!(dealt(7, 1, 2), [(0, 4), (0, 3)]);
}

#[test]
fn forty_workers_open_ten_thousand_connections_in_time() {
    let cell = cell(r#""writers": 100, "streams": 100, "records": 100"#);
    let shards = shards(&cell, &names(2), &fleet(40, 250)).unwrap();
    assert_eq!(shards.len(), 40);
    assert!(shards.iter().all(|shard| shard.writers == 250));
    assert_eq!(wave_connections(&cell, 40), 10_040);
    let mut opened: Vec<Duration> = shards.iter().flat_map(Shard::delays).collect();
    opened.sort_unstable();
    assert_eq!(opened.len(), 10_040);
    // The limits force 9,000 connections to wait for their turn: 90 s.
    let last = opened[opened.len() - 1].as_secs_f64();
    assert!(last <= 1.1 * 90.0, "{last}");
    never_dry(&opened);
    assert_eq!(refill_time(10_040), Duration::from_secs(10));
    assert_eq!(refill_time(64), Duration::from_millis(640));
}

/// A bucket of 1,000 that gains 100 a second lets all of them in.
fn never_dry(opened: &[Duration]) {
    for (at, n) in opened.iter().zip(1..) {
        let gained = at.as_secs_f64() * 100.0;
        assert!(f64::from(n) <= 1_000.0 + gained, "{n} at {at:?}");
    }
}

#[test]
fn a_window_that_no_worker_lives_through_is_cut() {
    let leg = |index, of, from_ms, until_ms| Leg {
        index,
        of,
        from_ms,
        until_ms,
    };
    let hour = cell(r#""measure_s": 3600, "warmup_s": 60"#);
    assert_eq!(
        legs(&hour, 840_000),
        [
            leg(0, 5, 0, 780_000),
            leg(1, 5, 780_000, 1_485_000),
            leg(2, 5, 1_485_000, 2_190_000),
            leg(3, 5, 2_190_000, 2_895_000),
            leg(4, 5, 2_895_000, 3_600_000),
        ]
    );
    assert_eq!(legs(&hour, 3_660_000), [leg(0, 1, 0, 3_600_000)]);
    assert_eq!(legs(&cell(r#""records": 10"#), 1), [leg(0, 1, 0, u64::MAX)]);
    legs_allowed(&hour, 840_000).unwrap();
    let message = legs_allowed(&hour, 60_000).unwrap_err();
    assert!(
        message.starts_with("warmup_s 60 does not end within a worker's 60 s"),
        "{message}"
    );
    let wide = cell(r#""measure_s": 3600, "writers": 5001"#);
    let message = legs_allowed(&wide, 840_000).unwrap_err();
    assert!(
        message.contains("5,001 twice") && message.contains("at most 5,000"),
        "{message}"
    );
    legs_allowed(&wide, 3_600_000).unwrap();
}

proptest! {
    #[test]
    fn every_writer_and_every_slot_is_dealt_once(
        writers in 1u32..2_000, endpoints in 1usize..4, workers in 1u32..60, each in 1u32..=900,
        alone: bool,
    ) {
        let mut cell = cell(r#""writers": 1, "measure_s": 1"#);
        let Params::Append(params) = &mut cell.params else {
        panic!("no append cell");
    };
        params.writers = writers;
        params.placement = match alone {
            true => Placement::Region("region-0".to_owned()),
            false => Placement::Split(SplitTag::Split),
        };
        let placement = params.placement.clone();
        let names = names(endpoints);
        let fleet = fleet(workers, each);
        let dealt = match shards(&cell, &names, &fleet) {
            Ok(dealt) => dealt,
            Err(problem) => {
                // Only where even the fullest shards do not suffice.
                let busy = if alone { 1 } else { (endpoints as u32).min(writers) };
                prop_assert!(workers < busy || writers > (workers - busy) * each, "{problem}");
                return Ok(());
            }
        };
        prop_assert!(dealt.len() <= workers as usize);
        let mut seen = BTreeSet::new();
        let mut slots = BTreeSet::new();
        for (index, shard) in (0..).zip(&dealt) {
            prop_assert_eq!((shard.index, shard.of), (index, dealt.len() as u32));
            prop_assert!(shard.writers >= 1 && shard.writers <= each);
            prop_assert_eq!(shard.writer_indices().count(), shard.writers as usize);
            for writer in shard.writer_indices() {
                prop_assert!(seen.insert(writer), "writer {writer} twice");
                let at = placement.endpoint_of(writer, &names).unwrap();
                prop_assert_eq!(at, shard.endpoint as usize);
            }
            for place in 0..shard.connections() {
                prop_assert!(slots.insert(shard.slot_first + place * shard.slot_step));
            }
        }
        prop_assert_eq!(seen.len(), writers as usize);
        prop_assert_eq!(seen.last(), Some(&(writers - 1)));
        // No slot is left empty.
        let connections = wave_connections(&cell, dealt.len() as u32);
        prop_assert_eq!(slots.len(), connections as usize);
        prop_assert_eq!(slots.last(), Some(&(connections - 1)));
        // Nobody is idle while a worker could still be put beside somebody.
        let most = dealt.iter().map(|shard| shard.writers).max();
        prop_assert!(dealt.len() == workers as usize || most == Some(1));
    }

    #[test]
    fn slots_keep_to_the_limits(n in 1u32..11_000) {
        let opened: Vec<Duration> = (0..n).map(slot_delay).collect();
        prop_assert!(opened.is_sorted());
        never_dry(&opened);
    }

    #[test]
    fn legs_cover_the_window_without_a_gap(
        measure_ms in 100u64..50_000_000, warmup_ms in 0u64..600_000, leg_ms in 1_000u64..900_000,
    ) {
        let mut cell = cell(r#""measure_s": 1"#);
        let Params::Append(params) = &mut cell.params else {
        panic!("no append cell");
    };
        params.measure_s = Some(measure_ms as f64 / 1e3);
        params.warmup_s = warmup_ms as f64 / 1e3;
        let legs = legs(&cell, leg_ms);
        prop_assert_eq!(legs[0].from_ms, 0);
        prop_assert_eq!(legs[legs.len() - 1].until_ms, measure_ms);
        for (index, leg) in (0..).zip(&legs) {
            prop_assert_eq!((leg.index, leg.of), (index, legs.len() as u32));
            prop_assert!(leg.from_ms < leg.until_ms || measure_ms == 0);
            let warmup = if index == 0 { warmup_ms } else { 0 };
            if warmup_ms < leg_ms {
                prop_assert!(leg.until_ms - leg.from_ms + warmup <= leg_ms);
            }
        }
        for pair in legs.windows(2) {
            prop_assert_eq!(pair[0].until_ms, pair[1].from_ms);
        }
    }
}
