//! What a client sends, read in place.
//!
//! Messages borrow from the connection's read buffer: no byte is copied and
//! nothing is allocated to decode one, which is why this is not a message
//! library with owned strings. Every read is bounded by the body of its own
//! message, whatever its length fields claim, so garbage ends as
//! [`Malformed`] and never as a panic.

/// Longest message after start-up. DSQL documents 08P01 `invalid message
/// length` beyond it (and was seen to close the connection without a word).
pub(crate) const LONGEST_MESSAGE: usize = 10 << 20;

/// Longest packet before the session starts, as PostgreSQL has it.
pub(crate) const LONGEST_STARTUP: usize = 10_000;

/// A frame whose length cannot be: nothing behind it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidLength;

/// The body of a message is not what its type promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) tag: u8,
    pub(crate) body: &'a [u8],
    /// Bytes of it, type and length included.
    pub(crate) length: usize,
}

/// The message at the beginning of `input`; `None` while it has not arrived
/// entirely.
pub(crate) fn frame(input: &[u8]) -> Result<Option<Frame<'_>>, InvalidLength> {
    let [tag, a, b, c, d, ..] = *input else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| InvalidLength)?;
    if !(4..=LONGEST_MESSAGE).contains(&length) {
        return Err(InvalidLength);
    }
    let length = length + 1;
    Ok(input.get(5..length).map(|body| Frame { tag, body, length }))
}

/// What arrives before a session exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening<'a> {
    SslRequest,
    GssEncRequest,
    Cancel,
    Startup {
        minor: u16,
        parameters: Vec<(&'a str, &'a str)>,
    },
    /// A protocol other than 3.
    Unsupported {
        major: u16,
        minor: u16,
    },
}

/// A whole packet from before the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub(crate) opening: Result<Opening<'a>, Malformed>,
    pub(crate) length: usize,
}

/// The packet at the beginning of `input`; `None` while it has not arrived
/// entirely.
pub(crate) fn packet(input: &[u8]) -> Result<Option<Packet<'_>>, InvalidLength> {
    let [a, b, c, d, ..] = *input else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| InvalidLength)?;
    if !(8..=LONGEST_STARTUP).contains(&length) {
        return Err(InvalidLength);
    }
    Ok(input.get(4..length).map(|body| Packet {
        opening: read_opening(body),
        length,
    }))
}

fn read_opening(body: &[u8]) -> Result<Opening<'_>, Malformed> {
    let mut body = Body(body);
    let major = body.u16()?;
    let minor = body.u16()?;
    match (major, minor) {
        (1234, 5678) => Ok(Opening::Cancel),
        (1234, 5679) => Ok(Opening::SslRequest),
        (1234, 5680) => Ok(Opening::GssEncRequest),
        (3, minor) => {
            let mut parameters = Vec::new();
            loop {
                let name = body.text()?;
                if name.is_empty() {
                    break;
                }
                parameters.push((name, body.text()?));
            }
            body.end()?;
            Ok(Opening::Startup { minor, parameters })
        }
        (major, minor) => Ok(Opening::Unsupported { major, minor }),
    }
}

/// The body of a message, read from its beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a>(pub(crate) &'a [u8]);

impl<'a> Body<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    /// Bytes up to the next zero, which is skipped.
    pub(crate) fn bytes_to_zero(&mut self) -> Result<&'a [u8], Malformed> {
        let zero = self.0.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
        let taken = &self.0[..zero];
        self.0 = &self.0[zero + 1..];
        Ok(taken)
    }

    fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes_to_zero()?).map_err(|_| Malformed)
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// Format codes of a Bind message: none (all text), one for all, or one each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Formats<'a>(&'a [u8]);

impl<'a> Formats<'a> {
    pub(crate) fn read(body: &mut Body<'a>) -> Result<Formats<'a>, Malformed> {
        let count = usize::from(body.u16()?);
        let codes = body.take(count * 2)?;
        if codes
            .chunks_exact(2)
            .any(|code| !matches!(code, [0, 0 | 1]))
        {
            return Err(Malformed);
        }
        Ok(Formats(codes))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len() / 2
    }

    /// Whether these codes fit a number of fields.
    pub(crate) fn fit(&self, fields: usize) -> bool {
        matches!(self.count(), 0 | 1) || self.count() == fields
    }

    /// Whether field `index` is binary.
    pub(crate) fn binary(&self, index: usize) -> bool {
        let index = if self.count() == 1 { 0 } else { index };
        self.0.get(index * 2 + 1) == Some(&1)
    }

    /// Whether every field has the same format, and which.
    pub(crate) fn uniform(&self) -> Option<bool> {
        let first = self.binary(0);
        let same = (1..self.count()).all(|index| self.binary(index) == first);
        same.then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_whole_or_awaited_or_impossible() {
        assert_eq!(frame(b""), Ok(None));
        assert_eq!(frame(b"S\0\0\0"), Ok(None));
        let whole = |tag, body, length| Ok(Some(Frame { tag, body, length }));
        assert_eq!(frame(b"S\0\0\0\x04"), whole(b'S', &b""[..], 5));
        assert_eq!(frame(b"Q\0\0\0\x06x\0S"), whole(b'Q', &b"x\0"[..], 7));
        assert_eq!(frame(b"Q\0\0\0\x06x"), Ok(None));
        assert_eq!(frame(b"Q\0\0\0\x03"), Err(InvalidLength));
        assert_eq!(frame(b"Q\xff\xff\xff\xff"), Err(InvalidLength));
    }

    #[test]
    fn openings_are_told_apart() {
        let read = |bytes| match packet(bytes) {
            Ok(Some(packet)) => packet.opening,
            other => panic!("{other:?}"),
        };
        assert_eq!(read(b"\0\0\0\x08\x04\xd2\x16\x2f"), Ok(Opening::SslRequest));
        assert_eq!(
            read(b"\0\0\0\x08\x04\xd2\x16\x30"),
            Ok(Opening::GssEncRequest)
        );
        assert_eq!(
            read(b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02"),
            Ok(Opening::Cancel)
        );
        assert_eq!(
            read(b"\0\0\0\x14\0\x03\0\0user\0admin\0\0"),
            Ok(Opening::Startup {
                minor: 0,
                parameters: vec![("user", "admin")]
            })
        );
        assert_eq!(read(b"\0\0\0\x09\0\x03\0\0x"), Err(Malformed));
        assert_eq!(
            read(b"\0\0\0\x08\0\x02\0\0"),
            Ok(Opening::Unsupported { major: 2, minor: 0 })
        );
        assert_eq!(packet(b"\0\0\0\x07"), Err(InvalidLength));
        assert_eq!(packet(b"GET / HTTP/1.1"), Err(InvalidLength));
    }

    #[test]
    fn formats_are_none_one_or_one_each() {
        let read = |bytes| Formats::read(&mut Body(bytes));
        let none = read(b"\0\0").unwrap();
        assert!(none.fit(3) && !none.binary(2) && none.uniform() == Some(false));
        let one = read(b"\0\x01\0\x01").unwrap();
        assert!(one.fit(3) && one.binary(2) && one.uniform() == Some(true));
        let each = read(b"\0\x02\0\x01\0\0").unwrap();
        assert!(each.fit(2) && !each.fit(3) && each.uniform().is_none());
        assert!(each.binary(0) && !each.binary(1));
        assert!(read(b"\0\x01\0\x02").is_err());
        assert!(read(b"\xff\xff\0\0").is_err());
    }
}
