//! How many statements a second the simulator answers on one core, in
//! simulated time, with everything on the way included: driver, protocol,
//! delay line, engine.
//!
//! ```text
//! cargo run --release -p fabric-sim --example bench_sim
//! ```
//!
//! Each client runs transactions of four statements, each awaited: BEGIN, a
//! prepared point read, a prepared update of the same row, COMMIT. Beside it
//! stands the same driver sending the same kinds of messages with nothing in
//! them, which the protocol loop answers without the engine: what is left to
//! gain.
//!
//! Both are given per second of wall time and, where the system tells it, per
//! second of processor time: the same on an idle machine, and what counts on a
//! busy one.

use std::time::Duration;

use clock::Clock;
use fabric_sim::{Cluster, FaultPlan, preset};
use tokio_postgres::{Client, NoTls, Statement};

/// Statements of one measurement, over all clients.
const STATEMENTS: usize = 400_000;

/// Statements of one transaction.
const EACH: usize = 4;

/// Rows of each client: nobody races, so that every statement succeeds.
const ROWS: usize = 16;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!("one core, simulated time, {STATEMENTS} statements each (BEGIN and COMMIT counted)");
    println!("           statements/s of            without engine");
    println!("clients    wall time   processor      wall time   processor   simulated s");
    for clients in [64, 128, 256] {
        let full = measure(clients, true)?;
        let bare = measure(clients, false)?;
        println!(
            "{clients:>7} {:>12.0} {:>11} {:>14.0} {:>11} {:>13.1}",
            full.per_wall_s,
            shown(full.per_cpu_s),
            bare.per_wall_s,
            shown(bare.per_cpu_s),
            full.simulated.as_secs_f64()
        );
    }
    Ok(())
}

fn shown(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"))
}

/// Statements a second, and how much simulated time they took.
struct Measured {
    per_wall_s: f64,
    per_cpu_s: Option<f64>,
    simulated: Duration,
}

/// Processor time that this process has used, where the system tells it.
fn cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let ns = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

fn measure(clients: usize, with_engine: bool) -> Result<Measured, Failure> {
    let runtime = clock::simulated_runtime()?;
    runtime.block_on(async {
        let simulated = Clock::simulated();
        let preset = preset("us-pair-in-region").ok_or("no such preset")?;
        let cluster = Cluster::new(preset, 1, FaultPlan::default(), simulated);
        let mut sessions = Vec::new();
        for number in 0..clients {
            let client = connect(&cluster, number % 2).await?;
            if number == 0 {
                fill(&client, clients * ROWS).await?;
            }
            let (read, write) = if with_engine {
                (
                    "SELECT v FROM bench WHERE id = $1",
                    "UPDATE bench SET v = v + 1 WHERE id = $1",
                )
            } else {
                ("", "")
            };
            sessions.push(Session {
                read: client.prepare(read).await?,
                write: client.prepare(write).await?,
                client,
                number,
            });
        }
        let rounds = STATEMENTS / EACH / clients;
        let (wall, begun, cpu_before) = (Clock::real(), simulated.now(), cpu());
        let tasks: Vec<_> = sessions
            .into_iter()
            .map(|session| tokio::spawn(session.run(rounds, with_engine)))
            .collect();
        for task in tasks {
            task.await??;
        }
        let wall = wall.now().since_origin();
        let used = cpu()
            .zip(cpu_before)
            .map(|(after, before)| after.saturating_sub(before));
        #[allow(clippy::cast_precision_loss)]
        let sent = (rounds * EACH * clients) as f64;
        Ok(Measured {
            per_wall_s: sent / wall.as_secs_f64(),
            per_cpu_s: used.map(|used| sent / used.as_secs_f64()),
            simulated: simulated.now().since(begun),
        })
    })
}

async fn connect(cluster: &Cluster, endpoint: usize) -> Result<Client, Failure> {
    let mut config = tokio_postgres::Config::new();
    config.user("admin").dbname("postgres");
    let (client, connection) = config.connect_raw(cluster.dial(endpoint)?, NoTls).await?;
    tokio::spawn(async move {
        // Its end is the client's to see.
        let _ = connection.await;
    });
    Ok(client)
}

async fn fill(client: &Client, rows: usize) -> Result<(), Failure> {
    client
        .batch_execute("CREATE TABLE bench (id int PRIMARY KEY, v int)")
        .await?;
    let ids: Vec<_> = (0..rows).map(|id| format!("({id}, 0)")).collect();
    for ids in ids.chunks(1_000) {
        let insert = format!("INSERT INTO bench VALUES {}", ids.join(", "));
        client.batch_execute(&insert).await?;
    }
    Ok(())
}

struct Session {
    client: Client,
    read: Statement,
    write: Statement,
    number: usize,
}

impl Session {
    async fn run(self, rounds: usize, with_engine: bool) -> Result<(), tokio_postgres::Error> {
        let Session {
            client,
            read,
            write,
            ..
        } = &self;
        for round in 0..rounds {
            if !with_engine {
                client.batch_execute("").await?;
                client.execute(read, &[]).await?;
                client.execute(write, &[]).await?;
                client.batch_execute("").await?;
                continue;
            }
            let id = i32::try_from(self.number * ROWS + round % ROWS).unwrap_or_default();
            client.batch_execute("BEGIN").await?;
            client.query_one(read, &[&id]).await?;
            client.execute(write, &[&id]).await?;
            client.batch_execute("COMMIT").await?;
        }
        Ok(())
    }
}
