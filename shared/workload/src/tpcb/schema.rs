//! pgbench's four tables, the table of baselines, and what a rep starts from.

use clock::Clock;
use target::{Class, Conn, SqlFailure};
use tokio_postgres::types::ToSql;

use super::Tpcb;
use super::deal::{ACCOUNTS, Deal, TELLERS, marks};
use crate::Step;
use crate::table::{self, Table};
use crate::tries::{self, Tries};

/// Rows that one transaction inserts; DSQL takes up to 3,000.
const ROWS_PER_STEP: u32 = 1_000;

const INT: &str = "int";
const KEY: &str = "int NOT NULL";

/// As pgbench makes them, but for the key of history, which says that they are
/// of our making: every table on DSQL has a key, so one that is of use costs
/// nothing there. Tables that are there may be without it.
const HISTORY: Table = Table {
    name: "pgbench_history",
    columns: &[
        ("tid", "int4", INT),
        ("bid", "int4", INT),
        ("aid", "int4", INT),
        ("delta", "int4", INT),
        ("mtime", "timestamp", "timestamp"),
        ("filler", "bpchar", "char(22) NOT NULL"),
    ],
    primary_key: "filler",
};

const TABLES: [Table; 4] = [
    Table {
        name: "pgbench_tellers",
        columns: &[
            ("tid", "int4", KEY),
            ("bid", "int4", INT),
            ("tbalance", "int4", INT),
            ("filler", "bpchar", "char(84)"),
        ],
        primary_key: "tid",
    },
    Table {
        name: "pgbench_accounts",
        columns: &[
            ("aid", "int4", KEY),
            ("bid", "int4", INT),
            ("abalance", "int4", INT),
            ("filler", "bpchar", "char(84)"),
        ],
        primary_key: "aid",
    },
    Table {
        name: "pgbench_branches",
        columns: &[
            ("bid", "int4", KEY),
            ("bbalance", "int4", INT),
            ("filler", "bpchar", "char(88)"),
        ],
        primary_key: "bid",
    },
    Table {
        name: "tpcb_baselines",
        columns: &[
            ("rep", "int8", "bigint NOT NULL"),
            ("accounts", "int8", "bigint NOT NULL"),
            ("tellers", "int8", "bigint NOT NULL"),
            ("branches", "int8", "bigint NOT NULL"),
        ],
        primary_key: "rep",
    },
];

/// The sums of all balances: accounts, tellers, branches.
pub(crate) const SUMS: &str = "SELECT \
    (SELECT CAST(COALESCE(sum(abalance), 0) AS bigint) FROM pgbench_accounts), \
    (SELECT CAST(COALESCE(sum(tbalance), 0) AS bigint) FROM pgbench_tellers), \
    (SELECT CAST(COALESCE(sum(bbalance), 0) AS bigint) FROM pgbench_branches)";

/// A table that is filled: its key, rows for each unit of scale, and the columns
/// and values of a row `r`, counted from 0.
const FILLED: [(&str, &str, u32, &str); 3] = [
    (
        "pgbench_accounts",
        "aid",
        ACCOUNTS,
        "r + 1, r / 100000 + 1, 0, ''",
    ),
    (
        "pgbench_tellers",
        "tid",
        TELLERS,
        "r + 1, r / 10 + 1, 0, ''",
    ),
    ("pgbench_branches", "bid", 1, "r + 1, 0, ''"),
];

/// Sees to tables with rows enough, and puts down what the balances are.
///
/// Tables that pgbench made are used as they are; the others are made and
/// filled, also beyond what an earlier rep of a smaller scale needed.
///
/// # Errors
/// Also when pgbench's tables are too small, and when the rep has history
/// already: then its id is not its own, or the load has begun.
pub(crate) async fn prepare(workload: &Tpcb, conn: &Conn) -> Result<Step, SqlFailure> {
    let (clock, rep, scale) = (workload.clock, workload.rep, workload.deal.scale);
    let started = clock.now();
    if workload.deal.clients > Deal::most_clients() {
        return Err(refusal(format!(
            "tpcb marks the operations of up to {} clients, not of {}",
            Deal::most_clients(),
            workload.deal.clients
        )));
    }
    let ours = HISTORY.create_or_take(super::NAME, conn, clock).await?;
    table::create_tables(&TABLES, super::NAME, conn, clock).await?;
    let mut rows = 0;
    for (table, key, each, values) in FILLED {
        let needed = scale.saturating_mul(each);
        let there = count(clock, conn, table, key, needed).await?;
        if there == i64::from(needed) {
            continue;
        }
        if !ours {
            return Err(refusal(format!(
                "{table} has {there} of the {needed} rows that scale {scale} needs; \
                 run pgbench -i -s {scale}, or ask for a smaller scale"
            )));
        }
        rows += fill(clock, conn, table, values, needed).await?;
    }
    let (first, last) = marks(rep);
    let sql = "SELECT filler FROM pgbench_history WHERE filler >= $1 AND filler <= $2 LIMIT 1";
    if !tries::rows(clock, conn, sql, &[&first, &last])
        .await?
        .is_empty()
    {
        return Err(refusal(format!(
            "pgbench_history has rows of rep {rep} already: the id is not this attempt's own"
        )));
    }
    let sql = format!(
        "INSERT INTO tpcb_baselines SELECT {rep}, s.* FROM ({SUMS}) AS s ON CONFLICT DO NOTHING"
    );
    tries::statement(clock, conn, &sql).await?;
    Ok(Step {
        rows: rows + 1,
        took: clock.now().since(started),
    })
}

fn refusal(what: String) -> SqlFailure {
    SqlFailure::new(Class::Other, what)
}

/// How many of the first so many rows are there.
async fn count(
    clock: Clock,
    conn: &Conn,
    table: &str,
    key: &str,
    rows: u32,
) -> Result<i64, SqlFailure> {
    let sql = format!("SELECT count(*) FROM {table} WHERE {key} >= 1 AND {key} <= {rows}");
    let none: [&(dyn ToSql + Sync); 0] = [];
    let answer = tries::rows(clock, conn, &sql, &none).await?;
    match answer.first().map(|row| row.try_get(0)) {
        Some(Ok(count)) => Ok(count),
        Some(Err(error)) => Err(SqlFailure::from_driver(&error)),
        None => Ok(0),
    }
}

/// Inserts the rows that are not there yet; returns how many those were.
async fn fill(
    clock: Clock,
    conn: &Conn,
    table: &str,
    values: &str,
    rows: u32,
) -> Result<u64, SqlFailure> {
    let mut made = 0;
    for from in (0..rows).step_by(ROWS_PER_STEP as usize) {
        let to = from.saturating_add(ROWS_PER_STEP).min(rows) - 1;
        let sql = format!(
            "INSERT INTO {table} SELECT {values} FROM generate_series({from}, {to}) AS g (r) \
             ON CONFLICT DO NOTHING"
        );
        made += tries::statement(clock, conn, &sql).await?;
    }
    Ok(made)
}

impl Table {
    /// Makes the table, or takes it as it is; says whether it has its key.
    async fn create_or_take(
        &self,
        workload: &str,
        conn: &Conn,
        clock: Clock,
    ) -> Result<bool, SqlFailure> {
        let keyless = Table {
            primary_key: "",
            ..*self
        };
        let mut tries = Tries::new(clock);
        loop {
            let step = match keyless.exists(workload, conn).await {
                Ok(true) => table::has_key(conn, self.name, self.primary_key)
                    .await
                    .map(Some),
                Ok(false) => self.make(conn).await.map(|()| None),
                Err(failure) => Err(failure),
            };
            match step {
                Ok(Some(has_key)) => return Ok(has_key),
                Ok(None) => {}
                Err(failure) => tries.again(failure).await?,
            }
        }
    }
}
