//! Clients that each run one operation after the other and meet on rows: orders
//! and transfers, and TPC-B.
//!
//! ```text
//! meet      = the chance that two operations are for the same row
//! conflict  = 1 - e^(-m x rivals x meet x (1 - conflict)): of two that overlap
//!             the first one commits, and one that is lost conflicts with none
//! operation = attempts x attempt + pauses
//! window    = operations x operation / clients, or as long as it is
//! ```
//!
//! The one figure that is not the workload's own is m ([`MEETING`]): how many
//! of its rivals' transactions one transaction overlaps with.

use super::dpu::{Attempt, ROW_LEAST_BYTES, of_leaving, of_load, of_preparing};
use super::site::Site;
use super::{Load, Range, SERVICE_ROW_MS};
use crate::cell::{Distribution, OrderTransferParams, Params, Retry, TpcbParams, TpcbVariant};
use crate::share::LoadShape;

/// Of the transactions that its rivals have open, those that a transaction
/// overlaps with. All twelve conflict rates of the contention report lie
/// between what these two give.
pub(super) const MEETING: Range = Range::new(0.4, 1.2);
/// Attempts and pauses beside those of evenly spread conflicts: an operation on
/// cold rows needs one attempt, one on hot rows many, so fewer in all. The
/// report's are 0.71 to 0.84 of them.
const UNEVEN: Range = Range::new(0.7, 1.0);
/// Service times of one transaction, its statements and COMMIT added: the
/// report's medians, 18 to 28 ms, less six round trips.
const SERVICE_ONE_REGION_MS: Range = Range::new(7.0, 20.0);
/// The same, with the commits of a pair (about 24 ms, p99 29).
const SERVICE_TWO_REGIONS_MS: Range = Range::new(26.0, 45.0);
/// A server of PostgreSQL: at rest, what each client more adds at most, and
/// what each one adds that holds a row. The report's smallest controls did 922
/// operations a second at 64 clients, and 24 at 256 behind locks.
const SERVICE_POSTGRES_MS: Range = Range::new(0.5, 20.0);
const POSTGRES_CLIENT_MS: f64 = 1.2;
const POSTGRES_LOCK_MS: f64 = 40.0;
/// A row with what its indexes hold of it.
const ROW_BYTES: Range = Range::new(ROW_LEAST_BYTES, 320.0);

/// Verifying and deleting a row that the load has left; the upper bounds are
/// the report's: 53 minutes for 2.3 million, in batches of 1,000, and about half
/// a minute for 95,000 on a control.
const LEFT_ROW_MS: Range = Range::new(0.02, 1.4);
const LEFT_ROW_POSTGRES_MS: Range = Range::new(0.02, 0.4);

/// What the model asks of a workload.
struct Work<'a> {
    shape: LoadShape<'a>,
    /// Flights that one attempt awaits.
    flights: f64,
    /// The chance that two operations are for the same row.
    meet: f64,
    /// Statements that read, a transaction.
    reads: Range,
    /// Rows that a transaction writes.
    writes: Range,
    /// Of these, rows that are there no sooner and have to be deleted again.
    leaves: Range,
    /// Rows that are prepared.
    prepared: f64,
}

/// What one wave of orders and transfers takes.
pub(super) fn orders(params: &OrderTransferParams, site: &Site, round_trip: Range) -> Load {
    let all = Params::OrderTransfer(params.clone());
    let transfers = params.transfers_pct / 100.0;
    let orders = 1.0 - transfers;
    let items = f64::from(params.items);
    let rows_each = f64::from(params.inventory_shards);
    let twice = |keys| twice_the_same(params.distribution, keys);
    // Two orders meet on a row of stock, two transfers on any of two accounts.
    let on_stock = (items * items * twice(params.products) / rows_each).min(1.0);
    let on_accounts = (4.0 * twice(params.accounts)).min(1.0);
    // An order writes itself, its items, the receipt and stock; a transfer two
    // accounts, the receipt and possibly itself.
    let (of_order, of_transfer) = (2.0 + items, Range::new(1.0, 2.0));
    let leaves = Range::exactly(orders * of_order) + of_transfer.scaled(transfers);
    let work = Work {
        shape: all.shape(),
        flights: 6.0,
        meet: orders * orders * on_stock + transfers * transfers * on_accounts,
        reads: Range::new(1.0, 4.0),
        writes: leaves + Range::exactly(orders * items + transfers * 2.0),
        leaves,
        prepared: f64::from(params.products) * rows_each + f64::from(params.accounts),
    };
    load(&work, site, round_trip)
}

/// What one wave of TPC-B takes.
pub(super) fn tpcb(params: &TpcbParams, site: &Site, round_trip: Range) -> Load {
    let all = Params::Tpcb(params.clone());
    let scale = f64::from(params.scale);
    let accounts = 1.0 / (100_000.0 * scale);
    let (flights, meet, rows) = match params.variant {
        TpcbVariant::TpcbLike => (7.0, 1.0 / scale, 4.0),
        TpcbVariant::SimpleUpdate => (5.0, accounts, 2.0),
    };
    let work = Work {
        shape: all.shape(),
        flights,
        meet,
        reads: Range::new(1.0, rows),
        writes: Range::exactly(rows),
        leaves: Range::exactly(1.0),
        prepared: scale * 100_011.0,
    };
    load(&work, site, round_trip)
}

/// The chance that two requests are for the same of `keys` keys.
fn twice_the_same(distribution: Distribution, keys: u32) -> f64 {
    let keys = f64::from(keys);
    match distribution {
        Distribution::Uniform => 1.0 / keys,
        Distribution::Hot => {
            let hot = (keys / 100.0).floor().max(1.0);
            0.8 * 0.8 / hot + 0.2 * 0.2 / (keys - hot).max(1.0)
        }
    }
}

/// Of attempts, those that lose a race.
fn conflicts(meet: f64, clients: f64, meeting: f64) -> f64 {
    let rivals = meeting * (clients - 1.0) * meet;
    // The right side falls where the left one grows, so they cross once.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let rate = (low + high) / 2.0;
        match 1.0 - f64::exp(-rivals * (1.0 - rate)) > rate {
            true => low = rate,
            false => high = rate,
        }
    }
    low
}

/// An operation whose attempts lose so often: its attempts, and the seconds
/// that it pauses between them.
fn retried(rate: f64, retry: &Retry, uneven: f64) -> (f64, f64) {
    let (mut attempts, mut pauses_ms, mut reached) = (1.0, 0.0, 1.0);
    for attempt in 1..retry.max_attempts {
        reached *= rate;
        if reached < 1e-9 {
            break;
        }
        attempts += uneven * reached;
        pauses_ms += uneven * reached * retry.pause_bound_ms(attempt) / 2.0;
    }
    (attempts, pauses_ms / 1e3)
}

fn load(work: &Work<'_>, site: &Site, round_trip: Range) -> Load {
    let shape = &work.shape;
    let clients = f64::from(shape.writers);
    let rate = Range::new(
        conflicts(work.meet, clients, MEETING.low),
        conflicts(work.meet, clients, MEETING.high),
    );
    let service = match (site.dsql, site.regions()) {
        (false, _) => {
            let each = POSTGRES_CLIENT_MS + POSTGRES_LOCK_MS * rate.high;
            SERVICE_POSTGRES_MS + Range::new(0.0, clients * each)
        }
        (true, 1) => SERVICE_ONE_REGION_MS,
        (true, _) => SERVICE_TWO_REGIONS_MS,
    };
    let attempt_s = (round_trip.scaled(work.flights) + service).scaled(1e-3);
    let (fewest, shortest_s) = retried(rate.low, shape.retry, UNEVEN.low);
    let (most, longest_s) = retried(rate.high, shape.retry, UNEVEN.high);
    let operation_s = Range::new(
        fewest * attempt_s.low + shortest_s,
        most * attempt_s.high + longest_s,
    );
    // Operations and attempts a second of all clients. Attempts are many where
    // nothing pauses and few where all do.
    let rate_of = |one_s: Range| Range::new(clients / one_s.high, clients / one_s.low);
    let operations_per_s = rate_of(operation_s);
    let attempts_per_s = rate_of(Range::new(attempt_s.low, attempt_s.high + longest_s / most));

    let (operations, window_s, in_window) = match (shape.operations, shape.measure_s) {
        (Some(operations), _) => {
            let operations = operations as f64;
            (
                Range::exactly(operations),
                operation_s.scaled(operations / clients),
                Range::new(fewest, most).scaled(operations),
            )
        }
        (None, seconds) => {
            let seconds = seconds.unwrap_or(0.0);
            (
                operations_per_s.scaled(seconds),
                Range::exactly(seconds),
                attempts_per_s.scaled(seconds),
            )
        }
    };
    // What runs to warm up is not counted, but takes time and costs.
    let ended = operations + operations_per_s.scaled(shape.warmup_s);
    let attempts = in_window + attempts_per_s.scaled(shape.warmup_s);
    let given_up = rate.high.powf(f64::from(shape.retry.max_attempts));
    let commits = ended.times(Range::new(1.0 - given_up, 1.0));

    let prepared = Range::exactly(work.prepared);
    let left = commits.times(work.leaves);
    let regions = site.regions().min(2) as f64;
    let attempt = Attempt {
        open_s: attempt_s,
        reads: work.reads,
        bytes: work.writes.times(ROW_BYTES),
    };
    let dpu = of_load(&attempt, commits, attempts, regions)
        + of_preparing(prepared, ROW_BYTES.low, regions)
        + of_leaving(prepared + left, ROW_BYTES.high, regions);
    let left_row = match site.dsql {
        true => LEFT_ROW_MS,
        false => LEFT_ROW_POSTGRES_MS,
    };
    Load {
        operations,
        window_s,
        rows_ms: SERVICE_ROW_MS.times(prepared) + left_row.times(left),
        dpu,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::workloads::ORDER_TRANSFER;
    use crate::{Assumptions, Cell, CellEstimate, Overrides, Setting, estimate, parse};

    /// Cells of a sweep on a cluster as the contention report's: `SELECT 1`
    /// takes 2.6 ms, of which 0.8 are the server's own.
    fn seoul(block: &str) -> Vec<(Cell, CellEstimate)> {
        let text =
            format!(r#"{{"name": "t", "preset": "seoul", "blocks": [{{"name": "A", {block}}}]}}"#);
        let plan = parse(&text).unwrap().plan(&Overrides::default()).unwrap();
        let setting = Setting {
            endpoints: vec!["ap-northeast-2".into()],
            round_trip_ms: vec![1.8],
        };
        let assumptions = Assumptions {
            targets: BTreeMap::from([("sim:seoul".to_owned(), setting)]),
            fleet: None,
        };
        let estimates = estimate(&plan, &assumptions).cells;
        plan.cells.into_iter().zip(estimates).collect()
    }

    fn within(range: Range, value: f64) -> bool {
        range.low <= value && value <= range.high
    }

    /// Distribution, clients, then with no and with three retries: committed a
    /// second, raw conflicts and final failures in percent.
    type Row = (Distribution, u32, [(f64, f64, f64); 2]);
    const D1: [Row; 6] = [
        (
            Distribution::Uniform,
            16,
            [(841.0, 0.6, 0.6), (841.0, 0.6, 0.0)],
        ),
        (
            Distribution::Uniform,
            64,
            [(2363.0, 2.5, 2.5), (2268.0, 2.5, 0.0)],
        ),
        (
            Distribution::Uniform,
            256,
            [(8494.0, 8.6, 8.6), (8230.0, 9.8, 0.4)],
        ),
        (
            Distribution::Hot,
            16,
            [(711.0, 20.8, 20.8), (421.0, 27.2, 4.9)],
        ),
        (
            Distribution::Hot,
            64,
            [(1402.0, 43.7, 43.7), (1102.0, 50.4, 18.0)],
        ),
        (
            Distribution::Hot,
            256,
            [(4479.0, 66.5, 66.5), (3273.0, 71.0, 38.9)],
        ),
    ];

    #[test]
    fn the_contention_reports_cells_lie_within_the_estimate() {
        let cells = seoul(
            r#""workload": "order_transfer", "reps": 1, "distribution": ["uniform", "hot"],
               "concurrency": [16, 64, 256], "retry": {"max_retries": [0, 3]}"#,
        );
        let rows = D1.iter().flat_map(|(distribution, clients, rates)| {
            rates
                .iter()
                .map(move |rates| (*distribution, *clients, *rates))
        });
        assert_eq!(cells.len(), 12);
        for ((cell, estimate), row) in cells.iter().zip(rows) {
            let (distribution, clients, (per_s, conflict_pct, failed_pct)) = row;
            let Params::OrderTransfer(params) = &cell.params else {
                panic!("{}", cell.id);
            };
            assert_eq!(
                (params.distribution, params.concurrency),
                (distribution, clients)
            );
            let ended = per_s / (1.0 - failed_pct / 100.0) * 20.0;
            assert!(
                within(estimate.operations, ended),
                "{}: {ended} not in {:?}",
                cell.id,
                estimate.operations
            );
            let meet = 0.49 * twice_the_same(distribution, 4_000)
                + 0.09 * 4.0 * twice_the_same(distribution, 1_000);
            let rate = |meeting| 100.0 * conflicts(meet, clients.into(), meeting);
            let rates = Range::new(rate(MEETING.low), rate(MEETING.high));
            assert!(within(rates, conflict_pct), "{}: {rates:?}", cell.id);
        }
    }

    /// The report used 222,363 DPU for its cells of one repetition, clean-up
    /// and some thousands for pilot and scenarios included.
    #[test]
    fn the_reports_dpu_lie_within_the_estimate() {
        let cells = seoul(
            r#""workload": "order_transfer", "reps": 1, "distribution": ["uniform", "hot"],
               "concurrency": [16, 64, 256], "retry": {"max_retries": [0, 3]}"#,
        );
        let dpu = cells.iter().filter_map(|(_, estimate)| estimate.dpu);
        let dpu = dpu.reduce(std::ops::Add::add).unwrap();
        assert!(within(dpu, 222_363.0), "{dpu:?}");
        let minutes = cells.iter().map(|(_, estimate)| estimate.minutes);
        let minutes = minutes.reduce(std::ops::Add::add).unwrap();
        assert!(within(minutes, 58.0), "{minutes:?}");
    }

    /// The report's pilot used about 0.095 DPU an attempt.
    #[test]
    fn an_attempt_costs_what_the_report_saw() {
        let cells = seoul(
            r#""workload": "order_transfer", "reps": 1, "operations": 100000,
               "retry": {"max_retries": 0}"#,
        );
        let dpu = cells[0].1.dpu.unwrap();
        let each = dpu.scaled(1.0 / 100_000.0);
        assert!(within(each, 0.095), "{each:?}");
        assert!(each.high / each.low < 3.0, "{each:?}");
        // In dollars: about 0.95 for a million attempts.
        let dollars = cells[0].1.dollars.unwrap().scaled(10.0);
        assert!(within(dollars, 0.95), "{dollars:?}");
    }

    #[test]
    fn split_stock_meets_less_and_costs_more_to_prepare() {
        let cells = seoul(
            r#""workload": "order_transfer", "distribution": "hot", "concurrency": 256,
               "transfers_pct": 0, "inventory_shards": [1, 64]"#,
        );
        let [(_, one), (_, many)] = cells.as_slice() else {
            panic!("two cells");
        };
        assert!(many.operations.low > one.operations.low);
        let rows = f64::from(64 * ORDER_TRANSFER.products * 3);
        let written = rows * ROW_LEAST_BYTES * 0.000_048_83;
        assert!(many.dpu.unwrap().low > written, "{:?}", many.dpu);
    }

    #[test]
    fn the_branch_row_lets_few_through() {
        let cells = seoul(
            r#""workload": "tpcb", "concurrency": 64, "variant": ["tpcb_like", "simple_update"]"#,
        );
        let [(_, like), (_, simple)] = cells.as_slice() else {
            panic!("two cells");
        };
        assert!(like.operations.high < simple.operations.low);
        assert_eq!(like.connections, 64);
    }
}
