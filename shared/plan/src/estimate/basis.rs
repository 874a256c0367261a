//! What the ranges of an estimate rest on, in words.

use super::append::CONTENDED;
use super::clients::MEETING;
use super::site::{ANY_ROUND_TRIP_MS, Site};
use super::{Assumptions, CellEstimate};
use crate::error::grouped;
use crate::prices::PRICES;
use crate::sweep::Plan;
use crate::target::{AddressKind, TargetSpec};

/// What the ranges rest on.
pub(super) fn basis(plan: &Plan, assumptions: &Assumptions, cells: &[CellEstimate]) -> Vec<String> {
    let sites: Vec<(&TargetSpec, Site)> = plan
        .targets
        .iter()
        .map(|target| (target, Site::of(target, assumptions)))
        .collect();
    let mut basis = Vec::new();
    for (target, site) in &sites {
        if let AddressKind::Secret { .. } = target.address.kind() {
            basis.push(format!(
                "{}: its URL is a secret, taken to be PostgreSQL's: no DPU and no dollars",
                target.name
            ));
        }
        basis.push(match site.round_trip_ms.as_slice() {
            [] => format!(
                "{}: round trip not known, taken as {} to {} ms",
                target.name, ANY_ROUND_TRIP_MS.low, ANY_ROUND_TRIP_MS.high
            ),
            given => {
                let each: Vec<String> = given.iter().map(|ms| format!("{ms:.1}")).collect();
                format!("{}: round trips of {} ms", target.name, each.join(" and "))
            }
        });
    }
    basis.push(
        "minutes: flights x round trip, and published service times (medians to 99th percentiles)"
            .to_owned(),
    );
    let has = |workload: &str| {
        plan.cells
            .iter()
            .any(|cell| cell.params.workload() == workload)
    };
    let (appends, clients) = (has("append"), has("order_transfer") || has("tpcb"));
    if appends {
        basis.push(format!(
            "several writers on one stream commit {} to {} times as often as one; the hash-chain report measured 1.2 times at 64",
            CONTENDED.low, CONTENDED.high
        ));
    }
    if clients {
        basis.push(format!(
            "clients: first committer wins, each conflict against {} to {} of the transactions that are open meanwhile; the contention report's twelve rates lie within",
            MEETING.low, MEETING.high
        ));
    }
    if cells.iter().any(|cell| cell.simulated) {
        basis.push(
            "simulated cells take seconds and cost nothing; their minutes, DPU and dollars are those of the cluster that is simulated".to_owned(),
        );
    }
    if cells.iter().any(|cell| cell.dpu.is_some()) {
        basis.push(
            "DPU: AWS's formulas for bytes read and written; compute from AWS's example (0.008 an insert) to 1 for each second that a transaction is open (measured by others)".to_owned(),
        );
    }
    if appends && cells.iter().any(|cell| cell.dpu.is_some()) {
        basis.push(
            "attempts of appends: one more for every 32 to every 4 rivals on a stream (every 2 where each writer has 2 operations or fewer)".to_owned(),
        );
    }
    for (target, site) in sites.iter().filter(|(_, site)| site.dsql) {
        basis.push(price_line(&target.name, site));
    }
    basis
}

fn price_line(target: &str, site: &Site) -> String {
    let known: Vec<String> = site
        .endpoints
        .iter()
        .filter_map(|region| PRICES.of(region))
        .map(|price| {
            format!(
                "${:.2} per million DPU in {} ({}, {})",
                price.usd_per_million_dpu, price.region, price.as_of, price.source
            )
        })
        .collect();
    if known.is_empty() {
        return format!("{target}: no price is known here for its region, so no dollars");
    }
    let unknown: Vec<&str> = site
        .endpoints
        .iter()
        .filter(|region| PRICES.of(region).is_none())
        .map(String::as_str)
        .collect();
    let missing = match unknown.is_empty() {
        true => String::new(),
        false => format!(", taken for {} too", unknown.join(" and ")),
    };
    format!(
        "{target}: {}{missing}; without storage and the {} DPU a month that are free",
        known.join(" and "),
        grouped(PRICES.free_dpu_a_month)
    )
}
