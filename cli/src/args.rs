//! The command line. Comments here are its help texts, so what looks like a link
//! in them is meant as it stands.

#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Finds out what Aurora DSQL does under load.
///
/// Runs sweeps of append workloads against the embedded DSQL simulator (the
/// default: nothing else is needed and it costs nothing), a real DSQL cluster
/// or PostgreSQL, verifies what they left in the database, and reports.
#[derive(Debug, Parser)]
#[command(name = "fabric", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what a sweep would run: cells, connections, time, DPU, dollars
    #[command(after_help = "Example:\n  fabric plan events/sweeps/hash-chain.json")]
    Plan(PlanArgs),
    /// Run a sweep from here and report
    #[command(
        after_help = "Examples:\n  fabric run events/sweeps/quickstart.json\n  fabric run events/sweeps/hash-chain.json --out results --seed 7\n  fabric run events/sweeps/quickstart.json --on postgres://user@localhost/db\n\nExit codes: 0 pass, 1 bad usage, 2 incomplete or invalid, 3 a threshold or an invariant broken."
    )]
    Run(RunArgs),
    /// Run one append cell given by flags, on sim:us-pair-workstation unless --on
    /// says otherwise
    #[command(
        after_help = "Examples:\n  fabric append --writers 8 --appends-per-writer 16 --dry-run\n  fabric append --writers 8 --appends-per-writer 50 --batch 50\n  fabric append --writers 8 --appends-per-writer 16 --streams 4"
    )]
    Append(AppendCommand),
    /// Show the report of a finished run again
    #[command(after_help = "Example:\n  fabric show out/quickstart")]
    Show(ShowArgs),
    /// Verify hash chains: an exported file's, or those left in a target
    #[command(
        after_help = "Examples:\n  fabric verify chain.jsonl\n  fabric verify --on postgres://user@localhost/db"
    )]
    Verify(VerifyArgs),
    /// Play isolation scenarios, and show which anomalies a database lets happen
    #[command(
        after_help = "Examples:\n  fabric isolation\n  fabric isolation --on postgres://user@localhost/db --suite e004 --steps\n  fabric isolation --on dsql://ID.dsql.us-east-1.on.aws --level repeatable_read --out out/isolation\n\nTables have names of their own and are dropped afterwards. Exit codes: 0 played to the end, 1 bad usage, 2 not played to the end."
    )]
    Isolation(IsolationArgs),
    /// The deployed fleet: start a sweep on it, watch it, stop it, fetch reports,
    /// remove what it left
    Fleet {
        /// What to do with it.
        #[command(subcommand)]
        command: FleetCommand,
    },
    /// A DSQL cluster or a peered pair: create it, show it, delete it
    Cluster {
        /// What to do with it.
        #[command(subcommand)]
        command: ClusterCommand,
    },
    /// The DSQL simulator as a server, and its presets
    Sim {
        /// What to do with it.
        #[command(subcommand)]
        command: SimCommand,
    },
}

/// Where a sweep runs and with which overrides.
#[derive(Debug, Args)]
pub struct Overrides {
    /// Run on this database: sim:PRESET, postgres://… or dsql://HOST[,HOST];
    /// NAME=URL replaces one of the sweep's targets
    #[arg(long, value_name = "TARGET")]
    pub on: Vec<String>,
    /// Seed of everything that is drawn; the same seed gives the same results
    /// on the simulator
    #[arg(long)]
    pub seed: Option<u64>,
    /// Repetitions of every cell
    #[arg(long, value_name = "N")]
    pub reps: Option<u32>,
}

/// `fabric plan`
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The sweep file
    pub sweep: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Plan it for a fleet of so many workers [default: what the sweep says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub workers: Option<u32>,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
}

/// Where results go and how a run behaves.
#[derive(Debug, Args)]
pub struct Output {
    /// Folder for summary.json, run.json, report.html and ops.jsonl
    /// [default: out/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Faults for simulated clusters to strike with: a file with a fault plan,
    /// or the plan itself as JSON
    #[arg(long, value_name = "FILE|JSON")]
    pub faults: Option<String>,
    /// Cells that run side by side on simulated clusters; results do not
    /// depend on it [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// `fabric run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The sweep file
    pub sweep: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Run it on a fleet of so many workers in this process: planner, workers
    /// and conductor as they are deployed, in virtual time on the simulator
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub workers: Option<u32>,
    #[command(flatten)]
    pub output: Output,
}

/// `fabric append`
#[derive(Debug, Args)]
pub struct AppendCommand {
    /// Writers per stream
    #[arg(long, default_value_t = 1)]
    pub writers: u32,
    /// Records that each writer appends
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub appends_per_writer: u64,
    /// Independent chains
    #[arg(long, default_value_t = 1)]
    pub streams: u32,
    /// Records in one transaction, 1 to 100
    #[arg(long, default_value_t = 1)]
    pub batch: u32,
    /// Bytes of one record's payload
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub payload_bytes: u32,
    /// How the statements travel: stepwise, pipelined or sticky
    #[arg(long, default_value = "stepwise")]
    pub trips: String,
    /// `split` over the endpoints, or one region's name
    #[arg(long, default_value = "split")]
    pub placement: String,
    /// Print the plan and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Keep one row per operation in ops.jsonl
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub output: Output,
}

/// `fabric show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Folder of a run
    pub dir: PathBuf,
    /// Print its summary.json instead of tables
    #[arg(long)]
    pub json: bool,
}

/// `fabric verify`
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// An exported chain: JSON lines of records and heads
    #[arg(required_unless_present = "on", conflicts_with = "on")]
    pub file: Option<PathBuf>,
    /// Verify the chains in this database instead
    #[arg(long, value_name = "TARGET")]
    pub on: Option<String>,
    /// Only these streams [default: all]
    #[arg(long, value_name = "ID", requires = "on")]
    pub stream: Vec<i64>,
    /// Write the chains to this file as well, to be verified offline
    #[arg(long, value_name = "FILE", requires = "on")]
    pub export: Option<PathBuf>,
}

/// `fabric isolation`
#[derive(Debug, Args)]
pub struct IsolationArgs {
    /// The database: sim:PRESET, postgres://… or dsql://HOST[,HOST]; with two
    /// endpoints the transactions of a scenario meet across them
    #[arg(long, value_name = "TARGET", default_value = "sim:single-region")]
    pub on: String,
    /// Which scenarios: E004's five, Hermitage's, or both
    #[arg(long, value_name = "SUITE", default_value = "all", value_parser = ["e004", "hermitage", "all"])]
    pub suite: String,
    /// Only at this level; may be given several times [default: all three]
    #[arg(long, value_name = "LEVEL", value_parser = ["read_committed", "repeatable_read", "serializable"])]
    pub level: Vec<String>,
    /// Show every step and its answer as well
    #[arg(long, conflicts_with = "json")]
    pub steps: bool,
    /// Folder for isolation.json and isolation.html
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print isolation.json instead of tables
    #[arg(long)]
    pub json: bool,
}

/// `fabric sim …`
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Serve a simulated cluster over TCP, one port per region
    #[command(
        after_help = "Example:\n  fabric sim serve --preset us-pair-in-region --port 5433\n  psql -h localhost -p 5433 -U admin postgres"
    )]
    Serve(ServeArgs),
    /// List the presets, with every figure and its source
    Presets {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
}

/// `fabric sim serve`
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Which cluster, seen from where
    #[arg(long, default_value = "us-pair-in-region")]
    pub preset: String,
    /// First port; the regions take this one and those after it, 0 any free one
    #[arg(long, default_value_t = 5433)]
    pub port: u16,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// Require DSQL's way in: TLS, SNI and a signed token. The access key and
    /// secret that tokens are checked against are read from AWS_ACCESS_KEY_ID
    /// and AWS_SECRET_ACCESS_KEY
    #[arg(long)]
    pub auth: bool,
    /// Write the certificate of the authority that signed the server's here
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Answer without the preset's round trip (the loopback's own stays)
    #[arg(long)]
    pub no_wire_delay: bool,
    /// Seed of service times and faults
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Faults to strike with: a file with a fault plan, or the plan as JSON
    #[arg(long, value_name = "FILE|JSON")]
    pub faults: Option<String>,
}

/// `fabric cluster …`
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Create a cluster, or a pair with its witness, and wait until it is ACTIVE
    #[command(
        after_help = "Examples:\n  fabric cluster create --regions us-east-1 --name bench\n  fabric cluster create --regions us-east-1,us-east-2 --witness us-west-2 --name pair --tag team=storage\n\nThe same command again goes on where an earlier one broke off. Exit codes: 0 ACTIVE, 1 bad usage or nothing made, 2 unfinished."
    )]
    Create(ClusterCreate),
    /// Show clusters: those of a name, of an id, or all that the manifest knows of
    #[command(
        after_help = "Examples:\n  fabric cluster status\n  fabric cluster status --name pair --json\n  fabric cluster status --id abcdefghijklmnopqrstuvwxyz --regions us-east-1\n\nExit codes: 0 all take connections, 1 not found, 2 some do not take connections yet."
    )]
    Status(ClusterStatus),
    /// Delete clusters, both of a pair, and wait until they are gone
    #[command(
        after_help = "Examples:\n  fabric cluster delete --name pair\n  fabric cluster delete --id abcdefghijklmnopqrstuvwxyz --regions us-east-1 --force\n\nExit codes: 0 gone, 1 bad usage or not found, 2 not confirmed."
    )]
    Delete(ClusterDelete),
}

/// `fabric cluster create`
#[derive(Debug, Args)]
pub struct ClusterCreate {
    /// Where: one region, or the two of a pair
    #[arg(
        long,
        required = true,
        value_delimiter = ',',
        value_name = "REGION[,REGION]"
    )]
    pub regions: Vec<String>,
    /// The region that keeps a pair's log as a third party; it has no endpoint
    #[arg(long, value_name = "REGION")]
    pub witness: Option<String>,
    /// Name to find it by, kept as the tag dsql-fabric:name
    /// [default: fabric- and the time]
    #[arg(long)]
    pub name: Option<String>,
    /// The fleet that it is for, by its stack's name: it is deleted with it
    #[arg(long, value_name = "STACK")]
    pub stack: Option<String>,
    /// A further tag; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub tag: Vec<String>,
    /// Refuse deletion until it is forced
    #[arg(long)]
    pub deletion_protection: bool,
    /// Seconds to wait for it to become ACTIVE
    #[arg(long, default_value_t = 900, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout_s: u64,
    /// File that remembers what was made
    /// [default: FABRIC_MANIFEST, else fabric/manifest.jsonl in the user's state
    /// directory]
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Which clusters.
#[derive(Debug, Args)]
pub struct Which {
    /// Those that were created under this name
    #[arg(long, conflicts_with = "id")]
    pub name: Option<String>,
    /// This one: an id, or an ARN; may be given several times
    #[arg(long, value_name = "ID|ARN")]
    pub id: Vec<String>,
    /// Where to look [default: where the manifest says, else AWS_REGION]
    #[arg(long, value_delimiter = ',', value_name = "REGION[,REGION]")]
    pub regions: Vec<String>,
    /// File that remembers what was made
    /// [default: FABRIC_MANIFEST, else fabric/manifest.jsonl in the user's state
    /// directory]
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// `fabric cluster status`
#[derive(Debug, Args)]
pub struct ClusterStatus {
    #[command(flatten)]
    pub which: Which,
}

/// `fabric cluster delete`
#[derive(Debug, Args)]
pub struct ClusterDelete {
    #[command(flatten)]
    pub which: Which,
    /// Switch deletion protection off first, and delete clusters that were not
    /// made by this command
    #[arg(long)]
    pub force: bool,
    /// Seconds to wait until they are gone
    #[arg(long, default_value_t = 900, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout_s: u64,
}

/// Which fleet.
#[derive(Debug, Args)]
pub struct FleetWhere {
    /// Name of the fleet's stack
    #[arg(long, default_value = "dsql-fabric", value_name = "NAME")]
    pub stack: String,
    /// A region that it is deployed in [default: AWS_REGION, else us-east-1]
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
}

/// Verbs of `fabric fleet`.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Start a sweep through the planner, and watch it
    #[command(
        after_help = "Examples:\n  fabric fleet start events/sweeps/nightly.json\n  fabric fleet start sweep.json --on dsql://ID.dsql.us-east-1.on.aws,ID.dsql.us-east-2.on.aws --workers 16\n\nExit codes: those of the run; 2 when the watching ends before it."
    )]
    Start(FleetStart),
    /// Show a run until it ends
    #[command(
        after_help = "Example:\n  fabric fleet watch nightly-2026-11-30\n\nExit codes: those of the run; 2 when it could not be followed to its end."
    )]
    Watch {
        #[command(flatten)]
        at: FleetWhere,
        /// The run [default: the only one under way]
        run: Option<String>,
    },
    /// Stop a run: workers within 2 seconds; what was measured is kept
    #[command(
        after_help = "Example:\n  fabric fleet stop nightly-2026-11-30\n\nExit codes: 2 when it has stopped, since such a run is incomplete; that of the run when it had ended before."
    )]
    Stop {
        #[command(flatten)]
        at: FleetWhere,
        /// The run [default: the only one under way]
        run: Option<String>,
        /// Why, for the report
        #[arg(long, default_value = "stopped by hand")]
        why: String,
    },
    /// Run what is missing, failed or invalid of a run again, as a new attempt
    #[command(
        after_help = "Example:\n  fabric fleet resume nightly-2026-11-30\n\nExit codes: those of the run; 2 when the watching ends before it."
    )]
    Resume {
        #[command(flatten)]
        at: FleetWhere,
        /// The run
        run: String,
    },
    /// Fetch a run's report, and print it
    #[command(
        after_help = "Example:\n  fabric fleet report nightly-2026-11-30 --out out/nightly\n\nExit codes: those of the run: 0 pass, 1 bad usage, 2 incomplete or invalid, 3 a threshold or an invariant broken."
    )]
    Report(FleetReport),
    /// List runs: of a sweep, newest first, or those under way
    #[command(after_help = "Examples:\n  fabric fleet runs\n  fabric fleet runs nightly")]
    Runs {
        #[command(flatten)]
        at: FleetWhere,
        /// The sweep's name
        sweep: Option<String>,
    },
    /// Remove a run's data, or with --all the whole fleet, until nothing remains
    #[command(
        after_help = "Examples:\n  fabric fleet clean nightly-2026-11-30\n  fabric fleet clean --all --yes\n\nExit codes: 0 nothing remains, 1 bad usage, 2 something does."
    )]
    Clean(FleetClean),
}

/// `fabric fleet start`
#[derive(Debug, Args)]
pub struct FleetStart {
    #[command(flatten)]
    pub at: FleetWhere,
    /// The sweep file
    pub sweep: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Workers of a wave
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub workers: Option<u32>,
    /// Id of the run; one that was started before is not started again
    /// [default: the sweep's name and the time]
    #[arg(long, value_name = "RUN")]
    pub run_id: Option<String>,
    /// Print the run's id and do not watch it
    #[arg(long)]
    pub no_watch: bool,
}

/// `fabric fleet report`
#[derive(Debug, Args)]
pub struct FleetReport {
    #[command(flatten)]
    pub at: FleetWhere,
    /// The run
    pub run: String,
    /// Folder for its files [default: out/RUN]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// `fabric fleet clean`
#[derive(Debug, Args)]
pub struct FleetClean {
    #[command(flatten)]
    pub at: FleetWhere,
    /// The run
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub run: Option<String>,
    /// Everything: stacks, buckets, log groups, and the clusters made for it
    #[arg(long)]
    pub all: bool,
    /// Yes, delete it
    #[arg(long, requires = "all")]
    pub yes: bool,
    /// Delete clusters that are protected from it, too
    #[arg(long, requires = "all")]
    pub force: bool,
    /// Regions to look in, the home first, where the stack cannot say
    #[arg(
        long,
        value_delimiter = ',',
        requires = "all",
        value_name = "REGION[,REGION]"
    )]
    pub regions: Vec<String>,
    /// Seconds that it may take
    #[arg(long, default_value_t = 1_800, value_name = "S")]
    pub timeout_s: u64,
    /// File that remembers what was made
    /// [default: FABRIC_MANIFEST, else fabric/manifest.jsonl in the user's state
    /// directory]
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
}
