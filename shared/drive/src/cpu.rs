//! CPU of this process, to judge the instrument before the database.

use std::time::Duration;

/// Clock ticks per second of `/proc/self/stat`; fixed at 100 on Linux for user
/// space whatever the kernel's own tick.
const TICKS_PER_S: u64 = 100;

/// CPU time that this process has used, user and system; `None` where the
/// system has no `/proc`.
pub(crate) fn process_cpu() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command name may hold spaces and brackets: fields are counted from
    // the last bracket; utime and stime are the 14th and 15th of the line.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1_000 / TICKS_PER_S))
}

/// Percent of `vcpus` that `used` is over `window`; `None` for an empty window.
pub(crate) fn percent(used: Duration, window: Duration, vcpus: f64) -> Option<f64> {
    let available = window.as_secs_f64() * vcpus;
    (available > 0.0).then(|| 100.0 * used.as_secs_f64() / available)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_is_of_all_vcpus() {
        let half = percent(Duration::from_secs(10), Duration::from_secs(10), 2.0);
        assert_eq!(half, Some(50.0));
        assert_eq!(percent(Duration::ZERO, Duration::ZERO, 2.0), None);
    }

    #[test]
    fn this_process_has_a_figure() {
        assert!(process_cpu().is_some());
    }
}
