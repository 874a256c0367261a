//! Bytes as lower-case hexadecimal digits and back.

use std::fmt::Write;

/// Appends two digits for each byte.
pub(crate) fn push(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)].into());
        out.push(DIGITS[usize::from(byte & 15)].into());
    }
}

/// Two digits for each byte.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    push(bytes, &mut out);
    out
}

/// The bytes; `None` when a character is no digit or one is left over.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}

/// The first bytes of a hash, for messages, with an ellipsis; all of anything
/// shorter.
pub(crate) fn short(bytes: &[u8]) -> String {
    let shown = bytes.len().min(6);
    let mut out = encode(&bytes[..shown]);
    if shown < bytes.len() {
        out.push('…');
    }
    if bytes.len() != 32 {
        let _ = write!(out, " ({} bytes)", bytes.len());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&bytes)), Some(bytes));
        assert_eq!(encode(&[0, 0xff, 0x1a]), "00ff1a");
        assert_eq!(decode("0F"), Some(vec![15]));
        assert_eq!(decode(""), Some(vec![]));
        assert_eq!(decode("0"), None);
        assert_eq!(decode("0g"), None);
        assert_eq!(decode("é"), None);
    }

    #[test]
    fn hashes_are_shortened_in_messages() {
        assert_eq!(short(&[7; 32]), "070707070707…");
        assert_eq!(short(&[7; 2]), "0707 (2 bytes)");
    }
}
