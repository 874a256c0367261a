//! Small sweeps under every kind of fault, a thousand seeds long: whatever is
//! dropped, refused, late or lost, each chain, stock and balance verifies, each
//! operation that was reported committed is there once and none that was
//! reported failed is.
//!
//! Budget: about two minutes on two cores (release). FABRIC_TEST_FAST cuts it to a
//! tenth; FABRIC_TEST_SEED runs one seed alone and prints what it saw.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Clock;
use fabric_drive::{
    self as drive, AtOnce, Ended, Load, Progress, ShardReport, run_shard, verifying_endpoint,
};
use plan::{
    AppendParams, Distribution, Isolation, OrderTransferParams, Placement, Retry, SplitTag, Trips,
};
use sim::{Cluster, FaultCounts, FaultPlan};
use stats::Counts;
use target::{BoxFuture, Dial, Stream, Target};
use workload::Workload;
use workload::append::Append;
use workload::order_transfer::OrderTransfer;

struct Pipes(Cluster);

impl Dial for Pipes {
    fn dial(&self, endpoint: usize) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        let pipe = self.0.dial(endpoint);
        Box::pin(async move { Ok(Box::new(pipe?) as Box<dyn Stream>) })
    }
}

/// What one seed came to.
struct Seen {
    faults: FaultCounts,
    counts: Counts,
    problems: Vec<String>,
}

/// Faults often enough that a small rep meets several of them.
fn faults(seed: u64) -> FaultPlan {
    let plan = serde_json::json!({
        "statement_unavailable": 0.01,
        "commit_unavailable_not_applied": 0.03,
        "commit_unavailable_applied": 0.03,
        "drop_before_commit": 0.04,
        "drop_after_commit": 0.04,
        "drop_late_commit": 0.06,
        "late_ms": { "min": 1.0, "max": 400.0 },
        "refuse_too_many": 0.03,
        "refuse_rate": 0.03,
        "slow": [{ "endpoint": 0, "from_ms": 300.0, "to_ms": 700.0, "factor": 4.0 }],
        "frozen": [{ "endpoint": 1, "from_ms": 900.0, "to_ms": 1100.0 }],
        "lost": [{ "endpoint": (seed % 2), "from_ms": 1300.0, "to_ms": 1500.0 }],
    });
    serde_json::from_value(plan).unwrap()
}

fn params(seed: u64) -> AppendParams {
    AppendParams {
        writers: 4,
        streams: 1 + (seed % 2) as u32,
        batch: [1, 2, 3][(seed / 2 % 3) as usize],
        records: Some(12),
        payload_bytes: 40,
        placement: Placement::Split(SplitTag::Split),
        trips: [Trips::Stepwise, Trips::Pipelined, Trips::Sticky][(seed % 3) as usize],
        retry: Retry {
            max_attempts: 25,
            base_ms: 5.0,
            cap_ms: 100.0,
            deadline_ms: (seed.is_multiple_of(5)).then_some(600.0),
            on: vec!["XX000".to_owned()],
        },
        isolation: Isolation::RepeatableRead,
        warmup_s: 0.0,
        measure_s: None,
        abort_after_starved: 3,
    }
}

/// What a seed's cell is about, beside its workload.
struct Case {
    writers: u32,
    retry: Retry,
    abort_after_starved: u32,
}

/// Few rows and many that want them, with an id in ten sent twice.
fn order_params(seed: u64) -> OrderTransferParams {
    OrderTransferParams {
        concurrency: 6,
        transfers_pct: 40.0,
        distribution: [Distribution::Uniform, Distribution::Hot][(seed % 2) as usize],
        products: 3,
        accounts: 4,
        items: 1 + (seed / 2 % 2) as u32,
        inventory_shards: [1, 2][(seed / 3 % 2) as usize],
        // Some run out of stock.
        stock: (seed.is_multiple_of(7)).then_some(20),
        balance: None,
        duplicate_pct: 10.0,
        operations: Some(48),
        placement: Placement::Split(SplitTag::Split),
        retry: Retry {
            max_attempts: 25,
            base_ms: 5.0,
            cap_ms: 100.0,
            deadline_ms: (seed.is_multiple_of(5)).then_some(600.0),
            on: vec!["XX000".to_owned()],
        },
        isolation: Isolation::RepeatableRead,
        warmup_s: 0.0,
        measure_s: None,
        abort_after_starved: 0,
    }
}

fn append(seed: u64) -> Seen {
    let params = params(seed);
    let case = Case {
        writers: params.total_writers(),
        retry: params.retry.clone(),
        abort_after_starved: params.abort_after_starved,
    };
    run(seed, &case, |clock| {
        Append::new(&params, 1_000, seed, clock)
    })
}

fn orders(seed: u64) -> Seen {
    let params = order_params(seed);
    let case = Case {
        writers: params.concurrency,
        retry: params.retry.clone(),
        abort_after_starved: params.abort_after_starved,
    };
    run(seed, &case, |clock| {
        OrderTransfer::new(&params, 1 << 32, seed, clock)
    })
}

/// One rep, from its preparation to its clean-up.
fn run<W: Workload>(seed: u64, case: &Case, workload: impl FnOnce(Clock) -> W) -> Seen {
    let runtime = clock::simulated_runtime().unwrap();
    runtime.block_on(async {
        let clock = Clock::simulated();
        let preset = sim::preset("us-pair-in-region").unwrap();
        let cluster = Cluster::new(preset, seed, faults(seed), clock);
        let target =
            Target::simulator(cluster.endpoints(), Arc::new(Pipes(cluster.clone())), clock);
        let workload = &workload(clock);
        drive::prepare(workload, &target).await.unwrap();
        let (_, stop) = drive::stop();
        let load = Load {
            writers: (0..case.writers).map(|w| (w, w as usize % 2)).collect(),
            opening: None,
            probe_endpoints: vec![0, 1],
            warmup: Duration::ZERO,
            measure: None,
            leg: None,
            first_operation: 0,
            stop_by: None,
            retry: case.retry.clone(),
            abort_after_starved: case.abort_after_starved,
            keep_rows: false,
            seed,
            server_parts: Vec::new(),
            vcpus: 1.0,
            open_limit: Duration::from_secs(60),
        };
        let other = verifying_endpoint(&load.writers, 2);
        let progress = Arc::new(Progress::default());
        let gate = AtOnce(clock);
        let ended = run_shard(load, workload, &target, stop, progress, &gate).await;
        let Ok(Ended::Ran(mut report)) = ended else {
            panic!("seed {seed}: {ended:?}");
        };
        let verified = drive::verify(workload, &target, other, &report.claims, &[])
            .await
            .unwrap();
        report.settle(&verified);
        let mut problems = verified.problems;
        problems.extend(sums(&report));
        drive::clean(workload, &target).await.unwrap();
        Seen {
            faults: cluster.faults_struck(),
            counts: report.result.total.counts,
            problems,
        }
    })
}

/// The outcome sums, of the whole and over its parts.
fn sums(report: &ShardReport) -> Vec<String> {
    let mut wrong = Vec::new();
    let total = &report.result.total.counts;
    if total.unaccounted() != 0 {
        wrong.push(format!("unaccounted: {total:?}"));
    }
    let unknown = total.unknown;
    if unknown.total != unknown.committed + unknown.absent + unknown.unresolved {
        wrong.push(format!("unknown outcomes do not add up: {unknown:?}"));
    }
    if unknown.unresolved != 0 {
        wrong.push(format!(
            "verification left outcomes unresolved: {unknown:?}"
        ));
    }
    for parts in [&report.result.by_endpoint, &report.result.by_operation] {
        let planned: u64 = parts.values().map(|part| part.counts.planned).sum();
        let committed: u64 = parts.values().map(|part| part.counts.committed).sum();
        if committed != total.committed || planned != total.planned {
            wrong.push(format!("parts do not add up to {total:?}"));
        }
    }
    wrong
}

#[test]
fn no_fault_breaks_a_chain_or_a_promise() {
    all_seeds(append);
}

#[test]
fn no_fault_breaks_an_order_a_transfer_or_a_promise() {
    let all = all_seeds(orders);
    let sum = |of: fn(&Counts) -> u64| all.iter().map(|seen| of(&seen.counts)).sum::<u64>();
    // Ids that were sent twice, and orders that found no stock.
    assert!(sum(|counts| counts.rejected) > all.len() as u64);
}

/// Runs every seed and checks that all held, and that everything happened.
fn all_seeds(run: fn(u64) -> Seen) -> Vec<Seen> {
    if let Ok(seed) = std::env::var("FABRIC_TEST_SEED") {
        let seen = run(seed.parse().unwrap());
        println!("{:#?}\n{:#?}", seen.faults, seen.counts);
        assert_eq!(seen.problems, Vec::<String>::new());
        std::process::exit(0);
    }
    let seeds = if std::env::var_os("FABRIC_TEST_FAST").is_some() {
        100
    } else {
        1_000
    };
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().unwrap().get();
    let all: Vec<(u64, Seen)> = std::thread::scope(|scope| {
        let work = || {
            let mut seen = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds {
                    return seen;
                }
                seen.push((seed, run(seed)));
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });

    for (seed, seen) in &all {
        assert_eq!(
            seen.problems,
            Vec::<String>::new(),
            "seed {seed} (run it alone with FABRIC_TEST_SEED={seed} and this test's name)"
        );
    }

    // A run in which nothing happened proves nothing: every kind of fault must
    // have struck, and look-ups must have found both answers.
    let struck =
        |of: fn(&FaultCounts) -> u64| all.iter().map(|(_, seen)| of(&seen.faults)).sum::<u64>();
    let counted =
        |of: fn(&Counts) -> u64| all.iter().map(|(_, seen)| of(&seen.counts)).sum::<u64>();
    let at_least = seeds / 2;
    let figures = [
        (
            "XX000 at a statement",
            struck(|f| f.statement_unavailable),
            at_least,
        ),
        (
            "XX000 at COMMIT, not applied",
            struck(|f| f.commit_unavailable_not_applied),
            at_least / 2,
        ),
        (
            "XX000 at COMMIT, applied",
            struck(|f| f.commit_unavailable_applied),
            at_least / 2,
        ),
        (
            "dropped before COMMIT",
            struck(|f| f.drop_before_commit),
            at_least / 2,
        ),
        (
            "dropped after COMMIT",
            struck(|f| f.drop_after_commit),
            at_least / 2,
        ),
        (
            "late COMMIT applied",
            struck(|f| f.late_commit_applied),
            at_least / 5,
        ),
        (
            "late COMMIT refused",
            struck(|f| f.late_commit_refused),
            at_least / 5,
        ),
        (
            "refused, too many",
            struck(|f| f.refuse_too_many),
            at_least / 5,
        ),
        ("refused, rate", struck(|f| f.refuse_rate), at_least / 5),
        ("slow endpoint", struck(|f| f.slow), at_least),
        ("frozen endpoint", struck(|f| f.frozen), at_least / 5),
        ("lost endpoint", struck(|f| f.lost), at_least / 5),
        (
            "unknown outcomes found committed",
            counted(|c| c.unknown.committed),
            at_least,
        ),
        (
            "unknown outcomes found absent",
            counted(|c| c.unknown.absent),
            at_least,
        ),
        ("committed operations", counted(|c| c.committed), seeds * 4),
        ("lost races", counted(|c| c.conflicts), seeds),
    ];
    for (what, n, least) in figures {
        println!("{n:>8} {what} (at least {least})");
    }
    for (what, n, least) in figures {
        assert!(n >= least, "{what}: {n}, of at least {least}");
    }
    all.into_iter().map(|(_, seen)| seen).collect()
}
