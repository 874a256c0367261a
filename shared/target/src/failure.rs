//! What an error means: a closed set, and the decisions that follow from it.

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity};

/// What an error means for the one who gets it: a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Lost a race: 40001 with OC000, or PostgreSQL's own.
    Conflict,
    /// 40001 with OC001: the schema changed underneath.
    SchemaConflict,
    /// 40P01
    Deadlock,
    /// XX000 `server unavailable`
    Unavailable,
    /// 53300, 53400, 57P03, or no connection at all
    ConnectRefused,
    /// 54xxx, and 53xxx but for those above
    Limit,
    /// 0A000
    Unsupported,
    /// 23505 and its kind
    Constraint,
    /// The connection is gone.
    ConnectionLost,
    /// 28xxx: credentials or token refused, or no credentials to sign with
    AccessDenied,
    /// Anything else.
    Other,
}

impl Class {
    /// All of them, in the order of reports.
    pub const ALL: [Class; 11] = [
        Class::Conflict,
        Class::SchemaConflict,
        Class::Deadlock,
        Class::Unavailable,
        Class::ConnectRefused,
        Class::Limit,
        Class::Unsupported,
        Class::Constraint,
        Class::ConnectionLost,
        Class::AccessDenied,
        Class::Other,
    ];

    /// Its name in reports, such as `conflict`.
    pub fn name(self) -> &'static str {
        match self {
            Class::Conflict => "conflict",
            Class::SchemaConflict => "schema_conflict",
            Class::Deadlock => "deadlock",
            Class::Unavailable => "unavailable",
            Class::ConnectRefused => "connect_refused",
            Class::Limit => "limit",
            Class::Unsupported => "unsupported",
            Class::Constraint => "constraint",
            Class::ConnectionLost => "connection_lost",
            Class::AccessDenied => "access_denied",
            Class::Other => "other",
        }
    }

    /// What a server's error means. `fatal` is its severity (FATAL or PANIC),
    /// `text` its message, and its hint where there is one.
    ///
    /// DSQL's refusals of a connection have no documented SQLSTATE, so there
    /// its words decide; everywhere else the SQLSTATE does.
    pub fn of_server(sqlstate: &str, fatal: bool, text: &str) -> Class {
        if fatal {
            let text = text.to_ascii_lowercase();
            if text.contains("access denied") || text.contains("wrong user to action mapping") {
                return Class::AccessDenied;
            }
            if text.contains("unable to accept connection") {
                return Class::ConnectRefused;
            }
        }
        match sqlstate {
            "40001" if text.contains("OC001") => Class::SchemaConflict,
            "40001" => Class::Conflict,
            "40P01" => Class::Deadlock,
            "XX000" => Class::Unavailable,
            // 57P03: PostgreSQL starts up or shuts down.
            "53300" | "53400" | "57P03" => Class::ConnectRefused,
            "0A000" => Class::Unsupported,
            // Ended by an administrator, a crash, or a time-out of the server.
            "57P01" | "57P02" | "57P05" | "25P03" | "25P04" => Class::ConnectionLost,
            _ => match sqlstate.get(..2) {
                Some("08") => Class::ConnectionLost,
                Some("23") => Class::Constraint,
                Some("28") => Class::AccessDenied,
                Some("53" | "54") => Class::Limit,
                _ => Class::Other,
            },
        }
    }
}

/// Longest DETAIL or HINT that goes into a message, in characters: a DETAIL
/// can hold a whole row.
const REMARK_LIMIT: usize = 200;

/// An error of the database or of the way to it, classified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlFailure {
    /// What it means.
    pub class: Class,
    /// SQLSTATE, where the server gave one.
    pub sqlstate: Option<String>,
    /// One line for people; never holds a secret.
    pub message: String,
}

impl SqlFailure {
    /// A failure that no server reported.
    pub fn new(class: Class, message: impl AsRef<str>) -> SqlFailure {
        SqlFailure {
            class,
            sqlstate: None,
            message: one_line(message.as_ref(), usize::MAX),
        }
    }

    /// Classifies a driver's error on an open session.
    pub fn from_driver(error: &tokio_postgres::Error) -> SqlFailure {
        match error.as_db_error() {
            Some(server) => {
                let mut failure = SqlFailure::from_server(server);
                // The server closes the session after a FATAL.
                if failure.class == Class::Other && is_fatal(server) {
                    failure.class = Class::ConnectionLost;
                }
                failure
            }
            None => SqlFailure::new(class_of_wire(error), with_causes(error)),
        }
    }

    /// Classifies a driver's error while a session is being opened: what would
    /// be a lost connection is then one that never was.
    pub(crate) fn from_opening(error: &tokio_postgres::Error) -> SqlFailure {
        let mut failure = match error.as_db_error() {
            Some(server) => SqlFailure::from_server(server),
            None => SqlFailure::new(class_of_wire(error), with_causes(error)),
        };
        if failure.class == Class::ConnectionLost {
            failure.class = Class::ConnectRefused;
        }
        failure
    }

    fn from_server(server: &DbError) -> SqlFailure {
        let mut text = server.message().to_owned();
        if let Some(hint) = server.hint() {
            text.push(' ');
            text.push_str(hint);
        }
        let sqlstate = server.code().code();
        let mut message = format!("{sqlstate}: {}", one_line(server.message(), usize::MAX));
        for (name, remark) in [("detail", server.detail()), ("hint", server.hint())] {
            if let Some(remark) = remark {
                message.push_str(&format!("; {name}: {}", one_line(remark, REMARK_LIMIT)));
            }
        }
        SqlFailure {
            class: Class::of_server(sqlstate, is_fatal(server), &text),
            sqlstate: Some(sqlstate.to_owned()),
            message,
        }
    }

    /// The attempt lost a race (40001, 40P01) and changed nothing.
    pub fn is_conflict(&self) -> bool {
        match self.class {
            Class::Conflict | Class::SchemaConflict | Class::Deadlock => true,
            Class::Unavailable
            | Class::ConnectRefused
            | Class::Limit
            | Class::Unsupported
            | Class::Constraint
            | Class::ConnectionLost
            | Class::AccessDenied
            | Class::Other => false,
        }
    }

    /// The same work, tried again on a session that lives, may well succeed: a
    /// lost race, a server that was unavailable, a connection that broke. A
    /// refused connection is not among them: [`crate::Target::connect`] has
    /// already retried it for as long as it made sense.
    pub fn is_transient(&self) -> bool {
        self.is_conflict() || matches!(self.class, Class::Unavailable | Class::ConnectionLost)
    }

    /// There is no connection to go on with; a new one is needed.
    pub fn connection_is_gone(&self) -> bool {
        matches!(self.class, Class::ConnectionLost | Class::ConnectRefused)
    }

    /// Had this been the answer to COMMIT, nobody could say whether the
    /// transaction committed: the connection went before an answer came, or the
    /// server says that it does not know (XX000 on DSQL, 40003 by the standard).
    pub fn outcome_unknown_at_commit(&self) -> bool {
        matches!(self.class, Class::ConnectionLost | Class::Unavailable)
            || self.sqlstate.as_deref() == Some("40003")
    }
}

fn is_fatal(server: &DbError) -> bool {
    match server.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => matches!(server.severity(), "FATAL" | "PANIC"),
    }
}

/// The class of an error that the server did not report. The driver keeps its
/// kinds private, but names each of them in one fixed phrase.
fn class_of_wire(error: &tokio_postgres::Error) -> Class {
    if error.is_closed() {
        return Class::ConnectionLost;
    }
    match error.to_string().as_str() {
        // After any of these the two sides no longer understand each other.
        "error communicating with the server"
        | "unexpected message from server"
        | "error parsing response from server"
        | "timeout waiting for server" => Class::ConnectionLost,
        "error connecting to server" | "error performing TLS handshake" => Class::ConnectRefused,
        "authentication error" => Class::AccessDenied,
        _ => Class::Other,
    }
}

/// The error and what caused it, outermost first.
fn with_causes(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// White space and control characters become single spaces; what is beyond
/// `limit` characters becomes an ellipsis.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit));
    let words = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty());
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if let Some((end, _)) = line.char_indices().nth(limit) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sqlstate_has_its_class() {
        #[rustfmt::skip]
        let table: &[(&str, bool, &str, Class)] = &[
            ("40001", false, "change conflicts with another transaction (OC000)", Class::Conflict),
            ("40001", false, "change conflicts with another transaction, please retry: (OC000)", Class::Conflict),
            ("40001", false, "could not serialize access due to concurrent update", Class::Conflict),
            ("40001", false, "schema has been updated by another transaction (OC001)", Class::SchemaConflict),
            ("40P01", false, "deadlock detected", Class::Deadlock),
            ("XX000", false, "server unavailable", Class::Unavailable),
            ("53300", true, "Unable to accept connection, too many open connections.", Class::ConnectRefused),
            ("53300", true, "sorry, too many clients already", Class::ConnectRefused),
            ("53400", true, "Unable to accept connection, rate exceeded.", Class::ConnectRefused),
            ("57P03", true, "the database system is starting up", Class::ConnectRefused),
            ("08006", true, "unable to accept connection, waking up cluster, please retry later", Class::ConnectRefused),
            ("28000", true, "unable to accept connection, sni was not received", Class::ConnectRefused),
            ("54000", false, "transaction row limit exceeded", Class::Limit),
            ("54011", false, "tables can have at most 255 columns", Class::Limit),
            ("53200", false, "query requires too much temp space, out of memory.", Class::Limit),
            ("53100", false, "Current cluster size exceeds cluster size limit.", Class::Limit),
            ("0A000", false, "unsupported statement: Truncate", Class::Unsupported),
            ("23505", false, "duplicate key value violates unique constraint \"records_pkey\"", Class::Constraint),
            ("23514", false, "value violates check constraint", Class::Constraint),
            ("28P01", true, "password authentication failed for user \"u\"", Class::AccessDenied),
            ("28000", true, "role \"u\" is not permitted to log in", Class::AccessDenied),
            ("08006", true, "unable to accept connection, access denied", Class::AccessDenied),
            ("XX000", true, "unable to accept connection, access denied Signature expired: 2026", Class::AccessDenied),
            ("08006", true, "Wrong user to action mapping. user: admin, action: DbConnect", Class::AccessDenied),
            ("57P01", true, "terminating connection due to administrator command", Class::ConnectionLost),
            ("57P02", true, "terminating connection because of crash of another server process", Class::ConnectionLost),
            ("57P05", true, "terminating connection due to idle-session timeout", Class::ConnectionLost),
            ("25P03", true, "terminating connection due to idle-in-transaction timeout", Class::ConnectionLost),
            ("08P01", true, "invalid message length", Class::ConnectionLost),
            ("08003", false, "connection does not exist", Class::ConnectionLost),
            ("57014", false, "canceling statement due to user request", Class::Other),
            ("25P02", false, "current transaction is aborted", Class::Other),
            ("42P01", false, "relation \"x\" does not exist", Class::Other),
            ("3D000", true, "database \"x\" does not exist", Class::Other),
            // A user's own words must not decide on an open session.
            ("P0001", false, "access denied", Class::Other),
            ("", false, "", Class::Other),
            ("é", false, "not an SQLSTATE", Class::Other),
        ];
        for (sqlstate, fatal, text, class) in table {
            assert_eq!(
                Class::of_server(sqlstate, *fatal, text),
                *class,
                "{sqlstate} {text}"
            );
        }
    }

    #[test]
    fn decisions_follow_from_the_class() {
        for class in Class::ALL {
            let failure = SqlFailure::new(class, "m");
            assert_eq!(
                failure.is_conflict(),
                ["conflict", "schema_conflict", "deadlock"].contains(&class.name()),
            );
            assert_eq!(
                failure.is_transient(),
                failure.is_conflict() || ["unavailable", "connection_lost"].contains(&class.name()),
            );
            assert_eq!(
                failure.connection_is_gone(),
                ["connection_lost", "connect_refused"].contains(&class.name()),
            );
            assert_eq!(
                failure.outcome_unknown_at_commit(),
                ["connection_lost", "unavailable"].contains(&class.name()),
            );
        }
        let mut unknown = SqlFailure::new(Class::Other, "statement completion unknown");
        unknown.sqlstate = Some("40003".to_owned());
        assert!(unknown.outcome_unknown_at_commit());
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> = Class::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), Class::ALL.len());
    }

    #[test]
    fn messages_are_one_line() {
        assert_eq!(one_line("a\n  b\t\u{7}c\r\n", 10), "a b c");
        assert_eq!(one_line("äöü", 2), "äö…");
        assert_eq!(SqlFailure::new(Class::Other, "x\ny").to_string(), "x y");
    }
}
