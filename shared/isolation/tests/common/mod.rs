//! The databases that scenarios are played on in tests.

#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Clock;
use fabric_isolation::{Report, Script, Settings, Suite, Tested, run};
use plan::Isolation;
use sim::{Cluster, FaultPlan};
use target::{BoxFuture, Dial, Stream, Target};

pub const LEVELS: [Isolation; 3] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Serializable,
];

struct Pipes(Cluster);

impl Dial for Pipes {
    fn dial(&self, endpoint: usize) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        let pipe = self.0.dial(endpoint);
        Box::pin(async move { Ok(Box::new(pipe?) as Box<dyn Stream>) })
    }
}

/// Runs work on a simulated cluster.
pub fn on_simulator<T>(preset: &str, faults: FaultPlan, work: impl AsyncFnOnce(Target) -> T) -> T {
    clock::simulated_runtime().unwrap().block_on(async {
        let clock = Clock::simulated();
        let cluster = Cluster::new(sim::preset(preset).unwrap(), 1, faults, clock);
        let names = cluster.endpoints();
        work(Target::simulator(names, Arc::new(Pipes(cluster)), clock)).await
    })
}

/// Runs work on PostgreSQL; `None` where there is none.
pub fn on_postgres<T>(work: impl AsyncFnOnce(Target) -> T) -> Option<T> {
    let Ok(url) = std::env::var("FABRIC_TEST_POSTGRES") else {
        println!("skipped: no PostgreSQL (set FABRIC_TEST_POSTGRES)");
        return None;
    };
    clock::real_runtime().unwrap().block_on(async {
        let target = Target::from_url(&url, Clock::real()).unwrap();
        Some(work(target).await)
    })
}

/// Settings with table names of their own.
pub fn settings(levels: &[Isolation], limit: Duration) -> Settings {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::SeqCst);
    Settings {
        levels: levels.to_vec(),
        run_id: format!("t{}x{next}", std::process::id()),
        limit,
    }
}

/// What a target says of itself is not what these tests are about.
pub fn tested() -> Tested {
    Tested {
        kind: "test".to_owned(),
        url: "test".to_owned(),
        simulated: false,
        server_version: None,
    }
}

/// Plays scripts at levels, with nobody to stop it.
pub async fn played(target: &Target, scripts: &[Script], levels: &[Isolation]) -> Report {
    let settings = settings(levels, Duration::from_secs(15));
    played_with(target, scripts, &settings, std::future::pending()).await
}

pub async fn played_with(
    target: &Target,
    scripts: &[Script],
    settings: &Settings,
    stop: impl Future<Output = ()>,
) -> Report {
    let report = run(target, tested(), scripts, settings, &mut |_| {}, stop).await;
    assert_eq!(left(target, &settings.run_id).await, 0, "tables are left");
    report
}

/// How many tables of a run are there.
async fn left(target: &Target, run_id: &str) -> usize {
    let deadline = target.clock().now() + Duration::from_secs(10);
    let conn = target.connect(0, deadline).await.unwrap();
    let sql = "SELECT relname FROM pg_class WHERE relkind = 'r'";
    let rows = conn.client.simple_query(sql).await.unwrap();
    let names = rows.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let prefix = format!("fabric_iso_{run_id}_");
    names.filter(|name| name.starts_with(&prefix)).count()
}

/// A script over one table `t` with the rows (1, 10) and (2, 20).
pub fn script(body: &str) -> Script {
    let text = format!(
        "name: test\ntable t: id int PRIMARY KEY, value int NOT NULL\nrows t: (1, 10), (2, 20)\n{body}\nfinal: SELECT id, value FROM {{t}}\n"
    );
    Script::parse(Suite::E004, "test", &text).unwrap()
}

/// Text of the result at each level.
pub fn texts(report: &Report, scenario: usize) -> Vec<&str> {
    let results = report.scenarios[scenario].results.iter();
    results.map(|played| played.text.as_str()).collect()
}
