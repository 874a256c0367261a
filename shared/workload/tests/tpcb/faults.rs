//! Many seeds of a small rep on a simulator where a great deal goes wrong.

use plan::{Isolation, TpcbParams};
use workload::tpcb::Tpcb;

use crate::backend::{VARIANTS, params};
use crate::common::faults::many_seeds;

#[test]
fn nothing_is_lost_or_doubled_whatever_fails() {
    for variant in VARIANTS {
        // Each of them fills 100,000 accounts first.
        let seeds = 12;
        let never = ["found_absent", "rejected"];
        many_seeds(&format!("{variant:?}"), seeds, &never, |seed, clock| {
            let params = TpcbParams {
                concurrency: 4,
                operations: Some(16),
                measure_s: None,
                ..params(Isolation::RepeatableRead, variant)
            };
            Tpcb::new(&params, 1, seed, clock)
        });
    }
}
