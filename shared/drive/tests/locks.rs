//! The same load on a database with locks: what waits, for how long, and what
//! a deadlock is. PostgreSQL with 0.7 ms of network before every statement,
//! as the contention report's R1 had it, at 64 clients on hot keys.
//!
//! Budget: about 25 s. Skipped without `FABRIC_TEST_POSTGRES`.

#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_methods,
    reason = "the network in between has threads and a time of its own"
)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use fabric_drive::{self as drive, AtOnce, Ended, Progress, Purpose, Rep, Settings, rep_seed};
use plan::{Cell, Overrides};
use stats::ShardResult;
use target::Target;

const CLIENTS: u32 = 64;
const NETWORK: Duration = Duration::from_micros(700);

/// A port that leads to `server`, with the network in between on the way there.
///
/// Threads, because their sleep is exact to a few tens of microseconds where a
/// timer wheel's is to a millisecond.
fn behind_a_network(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(server).unwrap();
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || carry(client, server, NETWORK));
            std::thread::spawn(move || carry(back.0, back.1, Duration::ZERO));
        }
    });
    here
}

/// Carries bytes until one side closes, then closes the other.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn cell(isolation: &str) -> Cell {
    let text = format!(
        r#"{{"name": "s", "preset": "p", "blocks": [{{"name": "{isolation}",
            "workload": "order_transfer", "concurrency": {CLIENTS}, "distribution": "hot",
            "isolation": "{isolation}", "warmup_s": 1, "measure_s": 8, "reps": 1}}]}}"#
    );
    let plan = plan::parse(&text).unwrap().plan(&Overrides::default());
    plan.unwrap().cells.remove(0)
}

fn run(url: &str, isolation: &str, place: i64) -> ShardResult {
    let cell = cell(isolation);
    let runtime = clock::real_runtime().unwrap();
    runtime.block_on(async {
        let clock = Clock::real();
        let target = Target::from_url(url, clock).unwrap();
        let since = clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap();
        let rep = Rep {
            cell: &cell,
            id_base: ((since.as_secs() as i64) << 20) + (place << 16),
            seed: rep_seed(1, &cell.id, 0, Purpose::Inputs),
        };
        rep.prepare(&target).await.unwrap();
        let settings = Settings {
            writers: (0..CLIENTS).map(|client| (client, 0)).collect(),
            opening: None,
            probe_endpoints: vec![0],
            leg: None,
            first_operation: 0,
            stop_by: None,
            server_parts: Vec::new(),
            vcpus: 1.0,
            open_limit: Duration::from_secs(30),
        };
        let (_handle, stop) = drive::stop();
        let progress = Arc::new(Progress::default());
        let gate = AtOnce(clock);
        let ended = rep.load(settings, &target, stop, progress, &gate).await;
        let Ok(Ended::Ran(report)) = ended else {
            panic!("{ended:?}");
        };
        let verified = rep.verify(&target, 0, &report.claims, &[]).await.unwrap();
        assert!(verified.ok, "{:#?}", verified.problems);
        rep.clean(&target).await.unwrap();
        report.result
    })
}

fn show(name: &str, result: &ShardResult) {
    let (counts, latencies) = (&result.total.counts, &result.total.latencies);
    let waits = result.lock_waits.unwrap_or_default();
    println!(
        "{name}: {} committed, {:.1}% conflicts ({} of {} deadlocks), {:?} failed, response p50 \
         {:.1} ms, p99 {:.1} ms; waiting for locks: {:.1} on average, {} at the peak, the longest \
         {:.0} ms",
        counts.committed,
        counts.raw_conflict_pct().unwrap_or_default(),
        counts.deadlocks,
        counts.conflicts,
        counts.failed,
        latencies.response.percentile_ms(50.0).unwrap_or_default(),
        latencies.response.percentile_ms(99.0).unwrap_or_default(),
        waits.mean().unwrap_or_default(),
        waits.peak,
        waits.longest_us as f64 / 1e3,
    );
}

#[test]
fn a_queue_of_locks_shows_as_waits_deadlocks_and_a_long_tail() {
    let Ok(url) = std::env::var("FABRIC_TEST_POSTGRES") else {
        println!("skipped: no PostgreSQL (set FABRIC_TEST_POSTGRES)");
        return;
    };
    let (login, rest) = url.split_once('@').expect("postgres://USER@HOST:PORT/…");
    let (host, database) = rest.split_once('/').expect("postgres://USER@HOST:PORT/…");
    let here = behind_a_network(host.parse().unwrap());
    let url = format!("{login}@{here}/{database}?sslmode=disable");

    let committed = run(&url, "read_committed", 0);
    show("READ COMMITTED", &committed);
    let repeatable = run(&url, "repeatable_read", 1);
    show("REPEATABLE READ", &repeatable);

    let counts = &committed.total.counts;
    assert_eq!(
        counts.conflicts, counts.deadlocks,
        "at READ COMMITTED only a deadlock is a conflict"
    );
    assert!(counts.raw_conflict_pct().unwrap() <= 15.0);
    assert!(counts.deadlocks > 0, "transfers cross each other's way");
    let waits = committed.lock_waits.unwrap();
    assert!(waits.looks >= 40, "{waits:?}");
    assert!(waits.peak >= CLIENTS as u64 / 2, "{waits:?}");
    let response = &committed.total.latencies.response;
    let (p50, p99) = (response.percentile_ms(50.0), response.percentile_ms(99.0));
    assert!(p99.unwrap() >= 10.0 * p50.unwrap(), "{p50:?} {p99:?}");

    let counts = &repeatable.total.counts;
    assert!(counts.raw_conflict_pct().unwrap() >= 20.0);
    assert!(repeatable.lock_waits.unwrap().peak > 0);
}
