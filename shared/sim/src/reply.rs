//! What the server sends, appended to the connection's write buffer.

use bytes::{BufMut, BytesMut};
use engine::{Column, SqlError, TransactionStatus, Type, Value};

/// How bad an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Fatal,
    Error,
    Warning,
    Notice,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Fatal => "FATAL",
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
        }
    }
}

/// Replies that have not left yet.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    pub(crate) bytes: BytesMut,
}

impl Replies {
    /// Writes one message: its type, its length, and what `body` adds.
    fn message(&mut self, tag: u8, body: impl FnOnce(&mut BytesMut)) {
        self.bytes.put_u8(tag);
        let start = self.bytes.len();
        self.bytes.put_u32(0);
        body(&mut self.bytes);
        self.set_length(start, 0);
    }

    /// Writes the distance from `start` to the end into the four bytes there;
    /// `less` is what does not count.
    fn set_length(&mut self, start: usize, less: usize) {
        // Messages stay far below 4 GiB: rows are bounded by the database's
        // own limits, everything else by the client's message.
        let length = u32::try_from(self.bytes.len() - start - less).unwrap_or(u32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    pub(crate) fn authentication_ok(&mut self) {
        self.message(b'R', |body| body.put_u32(0));
    }

    pub(crate) fn authentication_cleartext_password(&mut self) {
        self.message(b'R', |body| body.put_u32(3));
    }

    pub(crate) fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            put_text(body, name);
            put_text(body, value);
        });
    }

    pub(crate) fn backend_key_data(&mut self, process: i32, secret: u32) {
        self.message(b'K', |body| {
            body.put_i32(process);
            body.put_u32(secret);
        });
    }

    /// Protocol 3.0 is the newest here, and these options are unknown.
    pub(crate) fn negotiate_protocol_version<'a>(
        &mut self,
        unknown: impl ExactSizeIterator<Item = &'a str>,
    ) {
        self.message(b'v', |body| {
            body.put_u32(3 << 16);
            body.put_u32(u32::try_from(unknown.len()).unwrap_or(u32::MAX));
            unknown.for_each(|name| put_text(body, name));
        });
    }

    pub(crate) fn ready_for_query(&mut self, status: TransactionStatus) {
        let status = match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InBlock => b'T',
            TransactionStatus::Failed => b'E',
        };
        self.bytes.put_slice(&[b'Z', 0, 0, 0, 5, status]);
    }

    pub(crate) fn parse_complete(&mut self) {
        self.bytes.put_slice(b"1\0\0\0\x04");
    }

    pub(crate) fn bind_complete(&mut self) {
        self.bytes.put_slice(b"2\0\0\0\x04");
    }

    pub(crate) fn close_complete(&mut self) {
        self.bytes.put_slice(b"3\0\0\0\x04");
    }

    pub(crate) fn no_data(&mut self) {
        self.bytes.put_slice(b"n\0\0\0\x04");
    }

    pub(crate) fn empty_query(&mut self) {
        self.bytes.put_slice(b"I\0\0\0\x04");
    }

    pub(crate) fn portal_suspended(&mut self) {
        self.bytes.put_slice(b"s\0\0\0\x04");
    }

    pub(crate) fn command_complete(&mut self, tag: &str) {
        self.message(b'C', |body| put_text(body, tag));
    }

    pub(crate) fn parameter_description(&mut self, params: &[Type]) {
        self.message(b't', |body| {
            put_count(body, params.len());
            params.iter().for_each(|ty| body.put_u32(ty.oid));
        });
    }

    /// `binary` says which columns are; a statement that was not bound yet
    /// describes all of them as text, as PostgreSQL does.
    pub(crate) fn row_description(&mut self, columns: &[Column], binary: impl Fn(usize) -> bool) {
        self.message(b'T', |body| {
            put_count(body, columns.len());
            for (index, column) in columns.iter().enumerate() {
                put_text(body, &column.name);
                // No table and no attribute number: a computed column.
                body.put_u32(0);
                body.put_u16(0);
                body.put_u32(column.ty.oid);
                body.put_i16(column.ty.size);
                body.put_i32(column.ty.modifier);
                body.put_u16(u16::from(binary(index)));
            }
        });
    }

    /// Writes a row, or nothing when a value has no such format.
    pub(crate) fn data_row(
        &mut self,
        columns: &[Column],
        row: &[Value],
        binary: impl Fn(usize) -> bool,
    ) -> Result<(), SqlError> {
        let message = self.bytes.len();
        self.bytes.put_u8(b'D');
        self.bytes.put_u32(0);
        put_count(&mut self.bytes, row.len());
        for (index, (value, column)) in row.iter().zip(columns).enumerate() {
            if *value == Value::Null {
                self.bytes.put_i32(-1);
                continue;
            }
            let start = self.bytes.len();
            self.bytes.put_u32(0);
            if let Err(error) = value.encode(column.ty, binary(index), &mut self.bytes) {
                self.bytes.truncate(message);
                return Err(error);
            }
            self.set_length(start, 4);
        }
        self.set_length(message + 1, 0);
        Ok(())
    }

    pub(crate) fn error(&mut self, severity: Severity, error: &SqlError) {
        self.fields(b'E', severity, error);
    }

    pub(crate) fn notice(&mut self, severity: Severity, notice: &SqlError) {
        self.fields(b'N', severity, notice);
    }

    fn fields(&mut self, tag: u8, severity: Severity, error: &SqlError) {
        self.message(tag, |body| {
            let mut field = |code: u8, value: &str| {
                body.put_u8(code);
                put_text(body, value);
            };
            field(b'S', severity.name());
            field(b'V', severity.name());
            field(b'C', error.sqlstate);
            field(b'M', &error.message);
            if let Some(detail) = &error.detail {
                field(b'D', detail);
            }
            if let Some(hint) = &error.hint {
                field(b'H', hint);
            }
            if let Some(position) = error.position {
                field(b'P', &position.to_string());
            }
            body.put_u8(0);
        });
    }
}

/// A zero-terminated string. A zero within it, which a message that quotes its
/// input may hold, would end it early and shift all that follows: left out.
fn put_text(body: &mut BytesMut, text: &str) {
    if text.as_bytes().contains(&0) {
        body.extend(text.bytes().filter(|byte| *byte != 0));
    } else {
        body.put_slice(text.as_bytes());
    }
    body.put_u8(0);
}

/// Counts of columns and parameters; the engine allows at most 1,600.
fn put_count(body: &mut BytesMut, count: usize) {
    body.put_u16(u16::try_from(count).unwrap_or(u16::MAX));
}
