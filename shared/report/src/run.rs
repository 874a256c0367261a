//! The types of `run.json` and `ops.jsonl`: what differs from run to run, and
//! one row per operation.

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What differs from one run of a sweep to the next: `run.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunInfo {
    /// Version of this form: 1.
    pub version: u32,
    /// The sweep's name.
    pub name: String,
    /// Version of the `fabric` command.
    pub fabric: String,
    /// Commit that it was built from, where that is known.
    pub commit: Option<String>,
    /// When the run began, UTC, RFC 3339.
    pub started_utc: String,
    /// When it ended.
    pub ended_utc: String,
    /// How long it took on the wall clock.
    pub wall_s: f64,
    /// The machine that ran it.
    pub host: Host,
    /// The databases, as they were found.
    pub targets: Vec<TargetFound>,
    /// Every attempt at every rep.
    pub reps: Vec<RepRun>,
    /// The fleet's run, where a fleet ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetRun>,
}

/// A run of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FleetRun {
    /// Its id.
    pub run: String,
    /// Attempts at it: the first, and each resumption.
    pub attempt: u32,
    /// `complete`, `incomplete` or `stopped`.
    pub outcome: String,
    /// Why, in one line.
    pub why: String,
    /// Regions with workers, home first.
    pub regions: Vec<String>,
    /// DPU spent, by estimate; null where none are counted.
    pub spent_dpu: Option<f64>,
    /// DPU that CloudWatch had counted when the run ended; null where it had
    /// none, and less than the whole where it was late.
    #[serde(default)]
    pub counted_dpu: Option<f64>,
    /// US dollars spent, by estimate: database and workers.
    pub spent_usd: f64,
}

/// The machine that ran a sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Host {
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// Processors that the process may use.
    pub cpus: u32,
}

/// A database, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TargetFound {
    /// Its name in the sweep.
    pub name: String,
    /// What it says of its version.
    pub server_version: Option<String>,
    /// How the load reached it, such as `in process`, `public internet`.
    pub network: Option<String>,
}

/// When one attempt at one rep ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RepRun {
    /// The cell's id.
    pub cell: String,
    /// The rep, from 1.
    pub rep: u32,
    /// The attempt at it, from 1.
    pub attempt: u32,
    /// When it began, UTC, RFC 3339.
    pub started_utc: String,
    /// How long it took on the wall clock.
    pub wall_s: f64,
}

/// One operation: a line of `ops.jsonl`. Times are us since the start of the
/// rep (the instant at which all of its workers began).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct OpRow {
    /// The cell's id.
    pub cell: String,
    /// The rep, from 1.
    pub rep: u32,
    /// The attempt at the rep, from 1.
    pub attempt: u32,
    /// The shard that ran it.
    pub shard: u32,
    /// The writer.
    pub writer: u32,
    /// Name of the endpoint that its connection led to.
    pub endpoint: String,
    /// Kind of operation.
    pub operation: String,
    /// Number of the operation within the rep.
    pub id: u64,
    /// Planned start.
    pub planned_us: u64,
    /// Actual start.
    pub start_us: u64,
    /// End.
    pub end_us: u64,
    /// Attempts that it made.
    pub attempts: u32,
    /// `committed`, `rejected`, `unfinished`, or the class of its failure.
    pub outcome: String,
    /// SQLSTATE of its last error; null when there was none.
    pub sqlstate: Option<String>,
    /// Whether it committed.
    pub ok: bool,
    /// Whether its planned start is in the measured window (only such rows are
    /// counted in `summary.json`).
    pub measured: bool,
}

/// An instant as `2026-01-01T00:00:00.000Z`.
pub fn utc(at: SystemTime) -> String {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    )
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_868_799_000, "2000-02-29T23:59:59.000Z"),
            (1_767_225_600_000, "2026-01-01T00:00:00.000Z"),
            (1_785_412_799_001, "2026-07-30T11:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(
                utc(SystemTime::UNIX_EPOCH + Duration::from_millis(ms)),
                text
            );
        }
    }
}
