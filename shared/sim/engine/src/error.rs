//! Errors as the protocol reports them, and the few places that word them.

/// An error as the protocol reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// Five characters, such as `40001`.
    pub sqlstate: &'static str,
    /// The primary message.
    pub message: String,
    /// DETAIL, if any.
    pub detail: Option<String>,
    /// HINT, if any.
    pub hint: Option<String>,
    /// Character position in the statement, from 1, if known.
    pub position: Option<u32>,
}

pub(crate) type Result<T> = std::result::Result<T, SqlError>;

impl SqlError {
    /// An error with nothing but its code and message.
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> SqlError {
        SqlError {
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
        }
    }

    /// Something that this simulator does not know: never to be taken for an
    /// answer of DSQL, hence the prefix.
    pub(crate) fn simulator(what: impl std::fmt::Display) -> SqlError {
        SqlError::new("0A000", format!("simulator: {what} is not supported"))
    }

    /// Something that DSQL itself refuses, in its words.
    pub(crate) fn unsupported(message: impl Into<String>) -> SqlError {
        SqlError::new("0A000", message)
    }

    /// A statement that DSQL refuses by the name of its parse node.
    pub(crate) fn statement(node: &str) -> SqlError {
        SqlError::new("0A000", format!("unsupported statement: {node}"))
    }

    pub(crate) fn syntax(near: &str) -> SqlError {
        SqlError::new("42601", format!("syntax error at or near \"{near}\""))
    }

    pub(crate) fn undefined_column(name: &str) -> SqlError {
        SqlError::new("42703", format!("column \"{name}\" does not exist"))
    }

    pub(crate) fn undefined_table(name: &str) -> SqlError {
        SqlError::new("42P01", format!("relation \"{name}\" does not exist"))
    }

    pub(crate) fn invalid_text(ty: &str, text: &str) -> SqlError {
        SqlError::new(
            "22P02",
            format!("invalid input syntax for type {ty}: \"{text}\""),
        )
    }

    pub(crate) fn out_of_range(what: &str) -> SqlError {
        SqlError::new("22003", format!("{what} out of range"))
    }

    pub(crate) fn datatype_mismatch(message: impl Into<String>) -> SqlError {
        SqlError::new("42804", message)
    }

    /// The loser of a race on data.
    pub(crate) fn conflict() -> SqlError {
        SqlError::new("40001", "change conflicts with another transaction (OC000)")
    }

    /// The loser of a race with a schema change.
    pub(crate) fn schema_conflict() -> SqlError {
        SqlError::new(
            "40001",
            "schema has been updated by another transaction (OC001)",
        )
    }

    pub(crate) fn in_failed_block() -> SqlError {
        SqlError::new(
            "25P02",
            "current transaction is aborted, commands ignored until end of transaction block",
        )
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the position unless a more precise one is there already.
    pub(crate) fn at(mut self, position: Option<u32>) -> SqlError {
        if self.position.is_none() {
            self.position = position;
        }
        self
    }
}
