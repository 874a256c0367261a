//! A writer: a closed loop over one connection.

use workload::{Said, Workload};

use crate::connection::Slot;
use crate::operation::{Outcome, Run};
use crate::seed::{Purpose, rng};
use crate::shard::Context;

/// Runs operations until the writer's share is done, the window has ended, the
/// rep is aborted or the shard is stopped.
pub(crate) async fn write<W: Workload>(context: &Context<'_, W>, index: u32, mut slot: Slot<W>) {
    let clock = context.clock;
    let mut writer = context.workload.writer(index);
    let mut pauses = rng(context.load.seed, Purpose::Pauses, u64::from(index));
    let mut planned = context.window.first_plan;
    for n in context.load.first_operation.. {
        if context.window.is_over(planned) {
            return;
        }
        let Some(mut operation) = context.workload.operation(&mut writer, n) else {
            return;
        };
        if context.stop.is_set() || context.is_aborted() {
            // A share bounded by time has no operations left to skip: in a
            // closed loop they are only planned when they start.
            if context.window.end.is_none() {
                let mut next = Some(operation);
                let mut n = n;
                while let Some(skipped) = next {
                    let kind = context.workload.kind(&skipped);
                    context.record(|recorder| recorder.skipped(slot.endpoint, kind));
                    n += 1;
                    next = context.workload.operation(&mut writer, n);
                }
            }
            return;
        }
        let ended = Run {
            context,
            slot: &mut slot,
            writer: &mut writer,
            operation: &mut operation,
            pauses: &mut pauses,
        }
        .end(planned)
        .await;
        planned = ended.ended;
        let stopped = ended.outcome == Outcome::Unfinished;
        let claim = context.workload.claim(&operation, ended.said);
        let kind = context.workload.kind(&operation);
        let records = context.workload.records(&operation);
        let number = context.workload.number(&operation);
        debug_assert!(ended.said != Said::Committed || ended.outcome == Outcome::Committed);
        context.record(|recorder| {
            recorder.ended(index, slot.endpoint, kind, number, records, claim, ended);
        });
        if stopped {
            continue;
        }
        debug_assert!(planned <= clock.now());
    }
}
