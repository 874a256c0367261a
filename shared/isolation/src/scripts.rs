//! The scripts that come with the program.

use crate::script::{Script, ScriptError, Suite};

/// In the order of reports.
#[rustfmt::skip]
const FILES: &[(Suite, &str, &str)] = &[
    (Suite::E004, "lost-update", include_str!("../scripts/e004/lost-update.txt")),
    (Suite::E004, "write-skew", include_str!("../scripts/e004/write-skew.txt")),
    (Suite::E004, "duplicate-business-id", include_str!("../scripts/e004/duplicate-business-id.txt")),
    (Suite::E004, "crossed-updates", include_str!("../scripts/e004/crossed-updates.txt")),
    (Suite::E004, "for-update-decrement", include_str!("../scripts/e004/for-update-decrement.txt")),
    (Suite::Hermitage, "g0", include_str!("../scripts/hermitage/g0.txt")),
    (Suite::Hermitage, "g1a", include_str!("../scripts/hermitage/g1a.txt")),
    (Suite::Hermitage, "g1b", include_str!("../scripts/hermitage/g1b.txt")),
    (Suite::Hermitage, "g1c", include_str!("../scripts/hermitage/g1c.txt")),
    (Suite::Hermitage, "otv", include_str!("../scripts/hermitage/otv.txt")),
    (Suite::Hermitage, "pmp", include_str!("../scripts/hermitage/pmp.txt")),
    (Suite::Hermitage, "pmp-write", include_str!("../scripts/hermitage/pmp-write.txt")),
    (Suite::Hermitage, "p4", include_str!("../scripts/hermitage/p4.txt")),
    (Suite::Hermitage, "g-single", include_str!("../scripts/hermitage/g-single.txt")),
    (Suite::Hermitage, "g-single-predicate", include_str!("../scripts/hermitage/g-single-predicate.txt")),
    (Suite::Hermitage, "g-single-write", include_str!("../scripts/hermitage/g-single-write.txt")),
    (Suite::Hermitage, "g2-item", include_str!("../scripts/hermitage/g2-item.txt")),
    (Suite::Hermitage, "g2-item-for-update", include_str!("../scripts/hermitage/g2-item-for-update.txt")),
    (Suite::Hermitage, "g2", include_str!("../scripts/hermitage/g2.txt")),
    (Suite::Hermitage, "g2-two-edges", include_str!("../scripts/hermitage/g2-two-edges.txt")),
];

/// Every script that comes with the program.
///
/// # Errors
/// When one of them does not fit together, which a test rules out.
pub fn scripts() -> Result<Vec<Script>, ScriptError> {
    let files = FILES.iter();
    files
        .map(|(suite, id, text)| Script::parse(*suite, id, text))
        .collect()
}

/// Those of one suite.
///
/// # Errors
/// As [`scripts`].
pub fn scripts_of(suite: Suite) -> Result<Vec<Script>, ScriptError> {
    Ok(scripts()?
        .into_iter()
        .filter(|script| script.suite == suite)
        .collect())
}
