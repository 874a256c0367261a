//! What is wrong with a sweep, in one line: the place, the problem, the remedy.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a sweep is refused. Its text is one line, names the place and says what
/// would be accepted; it never repeats a URL, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// The text is not JSON.
    #[error("line {line} column {column}: {problem}")]
    Malformed {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the reader met.
        problem: String,
    },
    /// A value that can't be used.
    #[error("{place}: {problem}")]
    Refused {
        /// Where: a path in the file such as `blocks[2].batch[1]`, or a flag
        /// such as `--on`.
        place: Place,
        /// What is wrong, and what would be accepted.
        problem: String,
    },
}

impl SweepError {
    pub(crate) fn at(place: impl Into<Place>, problem: impl Into<String>) -> SweepError {
        SweepError::Refused {
            place: place.into(),
            problem: problem.into(),
        }
    }
}

/// A path in the sweep file, such as `blocks[2].retry.base_ms`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place(String);

impl Place {
    /// The document itself.
    pub(crate) fn top() -> Place {
        Place::default()
    }

    /// The member `key` of the object here.
    pub(crate) fn key(&self, key: &str) -> Place {
        let plain = !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-$".contains(c));
        Place(match (plain, self.0.is_empty()) {
            (true, true) => key.to_owned(),
            (true, false) => format!("{}.{key}", self.0),
            (false, _) => format!("{}[{}]", self.0, quote(key)),
        })
    }

    /// The element `index` of the list here.
    pub(crate) fn index(&self, index: usize) -> Place {
        Place(format!("{}[{index}]", self.0))
    }

    /// The path as text; empty for the document itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "top level"
        } else {
            &self.0
        })
    }
}

impl From<&str> for Place {
    fn from(text: &str) -> Place {
        Place(text.to_owned())
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Place {
        place.clone()
    }
}

/// A text of the user's as it may stand in a message: escaped, so that the
/// message stays one line, shortened, and withheld where it looks like a URL,
/// because URLs hold passwords.
pub(crate) fn quote(text: &str) -> String {
    if text.contains("://") {
        return "a URL".to_owned();
    }
    const LONGEST: usize = 40;
    let mut shown: String = text.chars().take(LONGEST).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Of `known`, the word that `word` was probably meant to be: at most a third
/// of its letters differ.
pub(crate) fn nearest<'a, S: AsRef<str>>(word: &str, known: &'a [S]) -> Option<&'a str> {
    // Longer than any known word could be near to; keeps the distance cheap.
    if word.chars().count() > 60 {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    known
        .iter()
        .map(|candidate| {
            let candidate = candidate.as_ref();
            let distance = edit_distance(&word, &candidate.to_lowercase().replace('-', "_"));
            (distance, candidate)
        })
        .min_by_key(|&(distance, _)| distance)
        .filter(|&(distance, candidate)| distance * 3 <= candidate.chars().count().max(3))
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a`
/// into `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// `a`, `b` or `c`.
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}

/// 10000 as `10,000`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["writers", "streams", "batch", "payload_bytes", "measure_s"];
        assert_eq!(nearest("writer", &known), Some("writers"));
        assert_eq!(nearest("payload-bytes", &known), Some("payload_bytes"));
        assert_eq!(nearest("btach", &known), Some("batch"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest("", &known), None);
    }

    #[test]
    fn urls_are_withheld_and_lines_stay_one() {
        assert_eq!(quote("postgres://u:secret@h/db"), "a URL");
        assert_eq!(quote("a\nb"), "\"a\\nb\"");
        assert_eq!(quote(&"x".repeat(50)).chars().count(), 43);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_048_576), "1,048,576");
    }
}
