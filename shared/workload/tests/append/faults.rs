//! Many seeds of a small rep on a simulator where a great deal goes wrong.

use plan::{AppendParams, Isolation};
use workload::append::Append;

use crate::backend::params;
use crate::common::faults::many_seeds;
use crate::whole::ALL_TRIPS;

#[test]
fn nothing_is_lost_forked_or_doubled_whatever_fails() {
    for trips in ALL_TRIPS {
        many_seeds(&format!("{trips:?}"), 60, &["rejected"], |seed, clock| {
            let batch = 1 + (seed % 3) as u32;
            let params = AppendParams {
                writers: 4,
                batch,
                records: Some(u64::from(4 * 4 * batch)),
                measure_s: None,
                ..params(trips, Isolation::RepeatableRead)
            };
            Append::new(&params, 1, seed, clock)
        });
    }
}
