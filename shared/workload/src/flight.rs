//! One simple Query message: several statements that travel together and stop
//! together at the first error.

use std::pin::pin;

use futures_util::StreamExt;
use target::{Conn, SqlFailure};
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Rows that each completed statement touched or returned, in order. A
    /// statement that is not in here did not complete, or its answer was lost.
    pub(crate) counts: Vec<u64>,
    /// Rows of whatever statements return rows.
    pub(crate) rows: Vec<SimpleQueryRow>,
    /// How the flight ended, when it did not end well.
    pub(crate) broken: Option<Broken>,
}

impl Answer {
    /// The answer, when the flight went well.
    pub(crate) fn whole(self) -> Result<Answer, SqlFailure> {
        match self.broken {
            None => Ok(self),
            Some(Broken::Unsent(failure) | Broken::Refused(failure) | Broken::Lost(failure)) => {
                Err(failure)
            }
        }
    }
}

/// Why a flight ended early.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It never left: the connection had ended before.
    Unsent(SqlFailure),
    /// The server answered the statement after the completed ones with an error
    /// and ran none of the others.
    Refused(SqlFailure),
    /// The connection ended. Whatever was not answered may still run.
    Lost(SqlFailure),
}

/// Sends statements as one simple Query message and awaits all answers.
///
/// The answers are read one by one because the driver's own collecting call
/// throws away what had succeeded when an error follows, and with it the
/// knowledge whether COMMIT was reached.
pub(crate) async fn send(conn: &Conn, sql: &str) -> Answer {
    let mut answer = Answer::default();
    let stream = match conn.client.simple_query_raw(sql).await {
        Ok(stream) => stream,
        Err(error) => {
            answer.broken = Some(Broken::Unsent(SqlFailure::from_driver(&error)));
            return answer;
        }
    };
    let mut stream = pin!(stream);
    while let Some(message) = stream.next().await {
        match message {
            Ok(SimpleQueryMessage::CommandComplete(count)) => answer.counts.push(count),
            Ok(SimpleQueryMessage::Row(row)) => answer.rows.push(row),
            Ok(_) => {}
            Err(error) => {
                let failure = SqlFailure::from_driver(&error);
                answer.broken = Some(match error.as_db_error() {
                    Some(_) => Broken::Refused(failure),
                    None => Broken::Lost(failure),
                });
                break;
            }
        }
    }
    answer
}

/// Runs one statement as a transaction of its own; returns the rows it touched.
pub(crate) async fn statement(conn: &Conn, sql: &str) -> Result<u64, SqlFailure> {
    let answer = send(conn, sql).await.whole()?;
    Ok(answer.counts.iter().sum())
}

/// Whether an error says that the transaction is rolled back even when it is
/// the answer to COMMIT. Only classes that mean nothing else are listed; of all others the
/// outcome is unknown, which costs a look-up and can do no harm.
pub(crate) fn is_abort(failure: &SqlFailure) -> bool {
    let state = failure.sqlstate.as_deref().unwrap_or_default();
    let class = state.get(..2).unwrap_or_default();
    !failure.outcome_unknown_at_commit()
        && matches!(
            class,
            "0A" | "22" | "23" | "25" | "2D" | "40" | "42" | "44" | "54"
        )
}
