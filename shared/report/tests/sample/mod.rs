//! A small sweep with made-up figures: enough of everything to see a report.
//! Not a simulation; operations take what a fixed generator deals them.

// Every test file uses a part of it.
#![allow(dead_code)]

use std::time::Duration;

use fabric_report::{CellReport, PartialShard, RepReport, Step, SweepInfo, TargetInfo};
use plan::{AppendParams, Cell, Isolation, Params, Placement, Retry, SplitTag, Trips};
use stats::counts::STARVED;
use stats::{Event, Part, ShardResult};

/// A generator of its own (splitmix64), so that the figures never change.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

pub fn sweep() -> SweepInfo {
    SweepInfo {
        name: "hash-chain".into(),
        about: Some("The ceiling of a hash chain, and <what> moves it".into()),
        seed: 42,
        targets: vec![TargetInfo {
            name: "us-pair".into(),
            url: "sim:us-pair-workstation".into(),
            kind: "simulator".into(),
            simulated: true,
        }],
    }
}

pub fn params(writers: u32, batch: u32, trips: Trips) -> AppendParams {
    AppendParams {
        writers,
        streams: 1,
        batch,
        records: Some(128),
        payload_bytes: 100,
        placement: Placement::Split(SplitTag::Split),
        trips,
        retry: Retry {
            max_attempts: 25,
            base_ms: 25.0,
            cap_ms: 1_000.0,
            deadline_ms: None,
            on: Vec::new(),
        },
        isolation: Isolation::RepeatableRead,
        warmup_s: 0.0,
        measure_s: None,
        abort_after_starved: 3,
    }
}

pub fn cell(block: &str, id: &str, params: AppendParams) -> Cell {
    Cell {
        id: format!("{block}/{id}"),
        block: block.into(),
        target: "us-pair".into(),
        params: Params::Append(params),
        reps: 3,
        raw: false,
        thresholds: Vec::new(),
    }
}

/// A rep of a cell in which every operation is dealt attempts and latencies.
pub fn rep(params: &AppendParams, rep: u32) -> RepReport {
    let mut dice = Dice(u64::from(params.writers * 1_000 + params.batch * 10 + rep));
    let operations = 128 / u64::from(params.batch).max(1);
    let mut result = ShardResult::default();
    let mut clock_us = vec![0_u64; params.writers as usize];
    let mut starved = 0;
    let mut planned = 0;
    for n in 0..operations {
        let writer = (n % u64::from(params.writers)) as usize;
        planned += 1;
        if starved >= 3 {
            for part in parts(&mut result, writer) {
                part.counts.planned += 1;
                part.counts.skipped += 1;
            }
            continue;
        }
        let trip_us = if writer.is_multiple_of(2) {
            181_000
        } else {
            126_000
        };
        let mut attempts = 1;
        while attempts < 25 && dice.below(64 + 8) < u64::from(params.writers) {
            attempts += 1;
        }
        let failed = attempts == 25;
        starved += u64::from(failed);
        let attempt = Duration::from_micros(trip_us - 1_000 + dice.below(2_000 + 200 * attempts));
        let response = attempt * attempts as u32 * (1 + params.batch / 20);
        let start_us = clock_us[writer];
        let end_us = start_us + response.as_micros() as u64;
        clock_us[writer] = end_us + u64::from(params.writers - 1) * 170_000;
        for part in parts(&mut result, writer) {
            end(
                part,
                attempts,
                attempt,
                response,
                failed,
                u64::from(params.batch),
            );
        }
        result.series.record(
            end_us,
            Event {
                committed: !failed,
                failed,
                attempts,
                conflicts: attempts - u64::from(!failed),
                response,
            },
        );
        result.first_start_us = Some(
            result
                .first_start_us
                .map_or(start_us, |at| at.min(start_us)),
        );
        result.last_end_us = Some(result.last_end_us.map_or(end_us, |at| at.max(end_us)));
    }
    result.aborted = starved >= 3;
    for (name, wire_us) in [("us-east-1", 32_000), ("us-east-2", 21_000)] {
        let trips = result.round_trips.entry(name.into()).or_default();
        for _ in 0..10 {
            trips
                .before
                .record(Duration::from_micros(wire_us + dice.below(900)));
            trips
                .after
                .record(Duration::from_micros(wire_us + dice.below(900)));
        }
        trips.wire_us = Some(wire_us);
    }
    let step = |rows, seconds| Some(Step { rows, seconds });
    RepReport {
        rep,
        attempt: 1,
        result,
        planned: Some(planned),
        workers_expected: 1,
        workers_reported: 1,
        workers_late: 0,
        prepare: step(1, 0.25),
        verify: step(128, 1.5),
        clean: step(129, 0.75),
        verify_ok: Some(true),
        verify_problems: Vec::new(),
        error: None,
        partial: false,
        ..RepReport::default()
    }
}

fn parts(result: &mut ShardResult, writer: usize) -> [&mut Part; 3] {
    let endpoint = ["us-east-1", "us-east-2"][writer % 2];
    [
        &mut result.total,
        result.by_endpoint.entry(endpoint.into()).or_default(),
        result.by_operation.entry("append".into()).or_default(),
    ]
}

fn end(
    part: &mut Part,
    attempts: u64,
    attempt: Duration,
    response: Duration,
    failed: bool,
    records: u64,
) {
    let Part {
        counts, latencies, ..
    } = part;
    counts.planned += 1;
    counts.attempts += attempts;
    counts.conflicts += attempts - u64::from(!failed);
    counts.retried += u64::from(attempts > 1);
    latencies.response.record(response);
    latencies.service.record(attempt);
    latencies.lag.record(Duration::ZERO);
    latencies.net.record(attempt / 2);
    if failed {
        counts.fail(STARVED);
        latencies.failed.record(response);
        return;
    }
    counts.committed += 1;
    counts.attempts_of_committed += attempts;
    counts.records += records;
    latencies.committed.record(response);
    latencies.commit.record(attempt / 3);
    if attempts == 1 {
        counts.first_try += 1;
        latencies.first_try.record(response);
    }
}

/// All three reps of a cell.
pub fn report(cell: Cell) -> CellReport {
    let Params::Append(params) = &cell.params else {
        panic!("the sample holds appends alone");
    };
    let reps = (1..=cell.reps).map(|number| rep(params, number)).collect();
    CellReport { cell, reps }
}

/// Three blocks: writers, batches, and trips by writers.
pub fn cells() -> Vec<CellReport> {
    let mut cells = Vec::new();
    for writers in [1, 2, 4, 8, 16, 32, 64] {
        let params = params(writers, 1, Trips::Stepwise);
        cells.push(report(cell("A", &format!("writers={writers}"), params)));
    }
    for batch in [1, 10, 50] {
        let params = params(8, batch, Trips::Stepwise);
        cells.push(report(cell("D", &format!("batch={batch}"), params)));
    }
    for (name, trips) in [
        ("stepwise", Trips::Stepwise),
        ("pipelined", Trips::Pipelined),
        ("sticky", Trips::Sticky),
    ] {
        for writers in [1, 8] {
            let params = params(writers, 1, trips);
            cells.push(report(cell(
                "E",
                &format!("trips={name},writers={writers}"),
                params,
            )));
        }
    }
    cells
}

/// A rep of a fleet of which one shard never reported.
pub fn with_a_lost_shard(rep: &mut RepReport) {
    rep.planned = Some(256);
    (rep.workers_expected, rep.workers_reported) = (4, 3);
    rep.missing = vec!["shard 2 of 4".into()];
    rep.partial_progress = vec![PartialShard {
        shard: "shard 2 of 4".into(),
        at_s: Some(12.25),
        ended: 40,
        committed: 37,
        failed: 3,
        starved: 2,
        conflicts: 61,
    }];
    rep.start_spread_ms = Some(3.5);
    rep.handover_gap_ms = Some(0.25);
    rep.result.start_late_us = Some(4_250);
}

/// The same, with something of everything that can go wrong.
pub fn with_trouble() -> Vec<CellReport> {
    let mut cells = cells();
    cells[2].reps[1].result.cpu_peak_pct = Some(91.25);
    let counts = &mut cells[3].reps[2].result.total.counts;
    counts.committed -= 2;
    counts.records -= 2;
    cells[8].reps[0].verify_ok = Some(false);
    cells[8].reps[0].verify_problems = vec!["stream 7: seq 3 does not link to seq 2".into()];
    let unknown = &mut cells[4].reps[0].result.total.counts.unknown;
    (unknown.total, unknown.committed, unknown.absent) = (5, 2, 3);
    cells
}
