//! Jobs: what DDL leaves to be done after its commit. An index is kept up to
//! date from the commit of its CREATE INDEX ASYNC on, and queries may use it
//! when its job has ended.

/// Microseconds that a job takes at least. DSQL documents none; a few seconds
/// is what small tables take.
const BASE_US: u64 = 1_000_000;

/// Microseconds per row: 11 million rows took 12 minutes on a real cluster.
const ROW_US: u64 = 65;

/// What a statement asks for; the job is made when it commits.
#[derive(Clone, Debug)]
pub(crate) struct JobRequest {
    /// The name that the statement answered.
    pub id: String,
    pub kind: JobKind,
    /// The table.
    pub table: u32,
    /// Index or constraint.
    pub object: u32,
    pub object_name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    IndexBuild,
    ValidateConstraint,
}

impl JobKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            JobKind::IndexBuild => "INDEX_BUILD",
            JobKind::ValidateConstraint => "VALIDATE_CONSTRAINT",
        }
    }
}

/// A job of `sys.jobs`.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub request: JobRequest,
    pub submitted_us: u64,
    pub done_us: u64,
    /// Why it will fail, if it will.
    pub error: Option<String>,
    /// Its end has been noticed, and the catalog changed.
    pub settled: bool,
}

impl Job {
    pub(crate) fn new(request: JobRequest, rows: usize, error: Option<String>, now_us: u64) -> Job {
        Job {
            request,
            submitted_us: now_us,
            done_us: now_us + BASE_US + rows as u64 * ROW_US,
            error,
            settled: false,
        }
    }

    /// As `sys.jobs.status` says it.
    pub(crate) fn status(&self, now_us: u64) -> &'static str {
        if now_us < self.submitted_us + BASE_US / 10 {
            "submitted"
        } else if now_us < self.done_us {
            "processing"
        } else if self.error.is_some() {
            "failed"
        } else {
            "completed"
        }
    }
}

/// Letters of a job's name: base 32 without padding, lower case.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The name of a job: 128 bits in base 32, 26 letters.
pub(crate) fn job_id(bits: u128) -> String {
    (0..26)
        .map(|i| {
            // 130 bits: the last letter carries three of them and two zeros.
            let shift = 123 - i * 5;
            let five = if shift >= 0 {
                bits >> shift
            } else {
                bits << -shift
            };
            ALPHABET[(five & 31) as usize] as char
        })
        .collect()
}

/// Whether a text can be a job's name.
pub(crate) fn is_job_id(text: &str) -> bool {
    text.len() == 26 && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_26_letters_of_base_32() {
        assert_eq!(job_id(0), "a".repeat(26));
        assert_eq!(job_id(u128::MAX), format!("{}4", "7".repeat(25)));
        assert!(is_job_id(&job_id(u128::MAX / 3)));
        assert!(!is_job_id("no-such-job"));
    }
}
