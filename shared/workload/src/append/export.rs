//! Chains as a file: JSON lines, one for each record and one for each head, so
//! that anybody can check them without the database and without this crate.
//!
//! ```text
//! {"stream_id":7,"seq":1,"prev_hash":"00…","hash":"5f…","payload":"00…"}
//! {"stream_id":7,"head_seq":1,"head_hash":"5f…"}
//! ```
//!
//! Bytes are hexadecimal. The records of a stream stand in the order of their
//! seq; streams may be mixed, and a head may stand anywhere.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};
use target::{Conn, SqlFailure};

use super::hex;
use super::read::Reader;
use super::schema;
use super::walk::{Found, Walk};
use crate::problems::Problems;
use crate::{Step, Verified};

/// Why chains could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database, or the way to it.
    #[error("{0}")]
    Sql(#[from] SqlFailure),
    /// The file.
    #[error("cannot write: {0}")]
    Write(#[from] std::io::Error),
}

/// Why an exported file could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Read(#[from] std::io::Error),
    /// A line is neither a record nor a head.
    #[error(
        "line {line}: {what}; a line is {{stream_id, seq, prev_hash, hash, payload}} \
         or {{stream_id, head_seq, head_hash}}"
    )]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// There is no line in it.
    #[error("holds no chain")]
    Empty,
}

#[derive(Serialize)]
struct RecordLine {
    stream_id: i64,
    seq: i64,
    prev_hash: String,
    hash: String,
    payload: String,
}

#[derive(Serialize)]
struct HeadLine {
    stream_id: i64,
    head_seq: i64,
    head_hash: String,
}

/// Writes chains as JSON lines; returns the number of records.
///
/// # Errors
/// When the database cannot be read or the output not written.
pub async fn export(
    conn: &Conn,
    ids: &[i64],
    out: &mut (impl Write + Send),
) -> Result<u64, ExportError> {
    schema::require_tables(conn).await?;
    let reader = Reader::new(conn).await?;
    let mut records = 0;
    for &stream_id in ids {
        let mut written = Ok(());
        let head = reader
            .stream(stream_id, |found| {
                if written.is_ok() {
                    records += 1;
                    written = write_line(
                        out,
                        &RecordLine {
                            stream_id,
                            seq: found.seq,
                            prev_hash: hex::encode(found.prev_hash),
                            hash: hex::encode(found.hash),
                            payload: hex::encode(found.payload),
                        },
                    );
                }
            })
            .await?;
        written?;
        if let Some((head_seq, head_hash)) = head {
            let head_hash = hex::encode(&head_hash);
            write_line(
                out,
                &HeadLine {
                    stream_id,
                    head_seq,
                    head_hash,
                },
            )?;
        }
    }
    out.flush()?;
    Ok(records)
}

fn write_line(out: &mut impl Write, line: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Either kind of line, as it is read: the fields decide which it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    stream_id: i64,
    seq: Option<i64>,
    prev_hash: Option<String>,
    hash: Option<String>,
    payload: Option<String>,
    head_seq: Option<i64>,
    head_hash: Option<String>,
}

/// One stream of a file.
struct Stream {
    walk: Walk,
    head: Option<(i64, Vec<u8>)>,
}

/// Checks exported chains, without any database: every link, every hash, no
/// gap, and each head.
///
/// # Errors
/// When the file cannot be read or is not an export. What is wrong with the
/// chains themselves is in the result.
pub fn verify_exported(file: impl BufRead) -> Result<Verified, ImportError> {
    let mut problems = Problems::default();
    let mut streams: BTreeMap<i64, Stream> = BTreeMap::new();
    for (number, text) in (1..).zip(file.lines()) {
        let text = text?;
        if text.trim().is_empty() {
            continue;
        }
        let wrong = |what: String| ImportError::Line { line: number, what };
        let line: Line =
            serde_json::from_str(&text).map_err(|error| wrong(error_at_column(&error)))?;
        let id = line.stream_id;
        let stream = streams.entry(id).or_insert_with(|| Stream {
            walk: Walk::new(id),
            head: None,
        });
        let bytes = |name: &str, digits: &str| {
            hex::decode(digits).ok_or_else(|| wrong(format!("{name} is not hexadecimal")))
        };
        match line {
            Line {
                seq: Some(seq),
                prev_hash: Some(prev_hash),
                hash: Some(hash),
                payload: Some(payload),
                head_seq: None,
                head_hash: None,
                ..
            } => stream.walk.record(
                Found {
                    seq,
                    prev_hash: &bytes("prev_hash", &prev_hash)?,
                    hash: &bytes("hash", &hash)?,
                    payload: &bytes("payload", &payload)?,
                },
                &mut problems,
            ),
            Line {
                seq: None,
                prev_hash: None,
                hash: None,
                payload: None,
                head_seq: Some(head_seq),
                head_hash: Some(head_hash),
                ..
            } => {
                let head = (head_seq, bytes("head_hash", &head_hash)?);
                if stream.head.replace(head).is_some() {
                    return Err(wrong(format!("a second head of stream {id}")));
                }
            }
            _ => {
                return Err(wrong(
                    "some fields are missing, or of both kinds".to_owned(),
                ));
            }
        }
    }
    if streams.is_empty() {
        return Err(ImportError::Empty);
    }
    let mut rows = 0;
    for stream in streams.values() {
        let head = stream.head.as_ref().map(|(seq, hash)| (*seq, &hash[..]));
        stream.walk.end(head, &mut problems);
        rows += stream.walk.records();
    }
    let problems = problems.into_lines();
    Ok(Verified {
        ok: problems.is_empty(),
        problems,
        step: Step {
            rows,
            ..Step::default()
        },
        ..Verified::default()
    })
}

/// The parser's message, whose own line number is always 1.
fn error_at_column(error: &serde_json::Error) -> String {
    error
        .to_string()
        .replace(" at line 1 column ", " at column ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"stream_id":1,"seq":1,"prev_hash":"00","hash":"00","payload":"00"}"#;
    const HEAD: &str = r#"{"stream_id":1,"head_seq":0,"head_hash":"00"}"#;

    fn refused(file: &str) -> String {
        verify_exported(file.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_file_that_is_no_export_is_refused_with_its_line() {
        assert_eq!(refused(""), "holds no chain");
        assert_eq!(refused("\n \n"), "holds no chain");
        let bad = [
            ("{", "EOF while parsing an object at column 1"),
            (r#"{"stream_id":"x"}"#, "invalid type: string"),
            (r#"{"stream_id":1,"x":2}"#, "unknown field `x`"),
            (r#"{"stream_id":1,"seq":1}"#, "some fields are missing"),
            (r#"{"seq":1}"#, "missing field `stream_id`"),
            (
                &RECORD.replace("\"hash\":\"00\"", "\"hash\":\"0\""),
                "hash is not hexadecimal",
            ),
            (&RECORD.replace('}', ",\"head_seq\":1}"), "of both kinds"),
            (HEAD, "a second head of stream 1"),
        ];
        for (line, expected) in bad {
            let refused = refused(&format!("{HEAD}\n{line}\n"));
            assert!(refused.starts_with("line 2: "), "{refused}");
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn streams_may_be_mixed_and_each_is_checked() {
        let other = RECORD.replace("\"stream_id\":1", "\"stream_id\":2");
        let verified = verify_exported([RECORD, &other, HEAD].join("\n").as_bytes()).unwrap();
        assert_eq!(verified.step.rows, 2);
        for expected in [
            "stream 1, seq 1: prev_hash is not 32 bytes long",
            "stream 2, seq 1: prev_hash is not 32 bytes long",
            "stream 1, seq 1: the last record; the head says that seq 0 is",
            "stream 2, seq 1: the stream has no head row",
        ] {
            assert!(
                verified.problems.iter().any(|p| p == expected),
                "{verified:?}"
            );
        }
    }
}
