//! Keys: values as bytes whose order is the order of the values.
//!
//! A key of several columns is the concatenation of theirs, so that a prefix of
//! the columns is a prefix of the bytes and every lookup (point, prefix,
//! range) is one interval of byte strings. Every column begins with a tag, 1
//! or, for NULL, 2, which puts NULL last and leaves room for a successor.

use std::cmp::Ordering;
use std::fmt;

use super::{Numeric, Value};

const PRESENT: u8 = 1;
const NULL: u8 = 2;

/// Bytes that a key holds without allocating: three bigints and their tags.
const INLINE: usize = 27;

/// An encoded key. Short ones, which most are, need no allocation.
#[derive(Clone)]
pub(crate) struct Key(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE] },
    Heap(Box<[u8]>),
}

impl Key {
    pub(crate) fn new(bytes: &[u8]) -> Key {
        let mut inline = [0; INLINE];
        match inline.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Key(Repr::Inline {
                    // At most INLINE.
                    len: bytes.len() as u8,
                    bytes: inline,
                })
            }
            None => Key(Repr::Heap(bytes.into())),
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Heap(bytes) => bytes,
        }
    }
}

impl Key {
    /// The first bytes as a number, filled up with zeros. Its order is the
    /// order of the keys, as far as it can tell them apart: a key that is a
    /// prefix of another comes first, and so does its number or it is equal.
    #[inline]
    fn head(&self) -> u128 {
        match &self.0 {
            Repr::Inline { bytes, .. } => match bytes.first_chunk() {
                Some(head) => u128::from_be_bytes(*head),
                None => 0,
            },
            Repr::Heap(bytes) => match bytes.first_chunk() {
                Some(head) => u128::from_be_bytes(*head),
                None => 0,
            },
        }
    }
}

/// Ranges are looked up by bytes; their order is that of the keys.
impl std::borrow::Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        // Most comparisons are decided by one instruction.
        self.head()
            .cmp(&other.head())
            .then_with(|| self.bytes().cmp(other.bytes()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(")?;
        for byte in self.bytes() {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// Appends a value's encoding.
pub(crate) fn push(out: &mut Vec<u8>, value: &Value) {
    if value.is_null() {
        out.push(NULL);
        return;
    }
    out.push(PRESENT);
    match value {
        Value::Null => {}
        Value::Bool(b) => out.push(u8::from(*b)),
        Value::Int(n) | Value::Time(n) | Value::Timestamp(n) => push_i64(out, *n),
        Value::Date(days) => push_i64(out, i64::from(*days)),
        Value::Float(f) => push_f64(out, *f),
        Value::Text(text) => push_bytes(out, text.as_bytes()),
        Value::Bytea(bytes) => push_bytes(out, bytes),
        Value::Numeric(number) => push_numeric(out, **number),
        Value::Uuid(bytes) => out.extend_from_slice(bytes),
        Value::TimeTz(time) => {
            push_i64(out, time.0 + i64::from(time.1) * 1_000_000);
            push_i64(out, i64::from(time.1));
        }
        Value::Interval(span) => push_i128(out, span.comparable()),
        Value::Array(array) => {
            for item in &array.items {
                push(out, item);
            }
            out.push(0);
        }
        Value::Record(fields) => {
            for (_, field) in fields.iter() {
                push(out, field);
            }
            out.push(0);
        }
    }
}

fn push_i64(out: &mut Vec<u8>, n: i64) {
    out.extend_from_slice(&(n ^ i64::MIN).to_be_bytes());
}

fn push_i128(out: &mut Vec<u8>, n: i128) {
    out.extend_from_slice(&(n ^ i128::MIN).to_be_bytes());
}

fn push_f64(out: &mut Vec<u8>, f: f64) {
    // -0 equals 0, and every NaN is the same and last.
    let f = if f == 0.0 { 0.0 } else { f };
    let bits = if f.is_nan() {
        f64::NAN.to_bits() & (u64::MAX >> 1)
    } else {
        f.to_bits()
    };
    let ordered = if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    };
    out.extend_from_slice(&ordered.to_be_bytes());
}

/// A zero byte inside is followed by 0xff, so that the end (0, 0) sorts before
/// every continuation.
fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// Whole part, then the fraction as 38 digits: equal numbers have equal bytes
/// whatever zeros they were written with.
fn push_numeric(out: &mut Vec<u8>, number: Numeric) {
    let unit = 10i128.pow(number.scale());
    push_i128(out, number.digits().div_euclid(unit));
    let rest = number.digits().rem_euclid(unit);
    push_i128(out, rest * 10i128.pow(38 - number.scale()));
}

/// The smallest byte string that is larger than everything that begins with
/// `prefix`; empty when there is none (which encoded keys never are).
pub(crate) fn successor(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// The end of the non-NULL values behind `prefix`.
pub(crate) fn before_null(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    end.push(NULL);
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(values: &[Value]) -> Vec<u8> {
        let mut out = Vec::new();
        for value in values {
            push(&mut out, value);
        }
        out
    }

    fn value() -> impl Strategy<Value = (Value, Value)> {
        let numeric = |n: (i64, u32)| Value::numeric(Numeric::new(i128::from(n.0), n.1).unwrap());
        prop_oneof![
            any::<(i64, i64)>().prop_map(|(a, b)| (Value::Int(a), Value::Int(b))),
            any::<(f64, f64)>().prop_map(|(a, b)| (Value::Float(a), Value::Float(b))),
            (".{0,5}", ".{0,5}").prop_map(|(a, b)| (Value::text(a), Value::text(b))),
            any::<(Vec<u8>, Vec<u8>)>().prop_map(|(a, b)| (Value::bytes(a), Value::bytes(b))),
            any::<(bool, bool)>().prop_map(|(a, b)| (Value::Bool(a), Value::Bool(b))),
            ((-50i64..50, 0u32..3), (-50i64..50, 0u32..3))
                .prop_map(move |(a, b)| (numeric(a), numeric(b))),
            any::<i64>().prop_map(|a| (Value::Int(a), Value::Null)),
        ]
    }

    proptest! {
        #[test]
        fn bytes_are_ordered_as_values_are(
            (a, b) in value(),
            (c, d) in value(),
        ) {
            let order = a.compare(&b);
            let one = |value| encoded(std::slice::from_ref(value));
            prop_assert_eq!(one(&a).cmp(&one(&b)), order);
            let both = encoded(&[a.clone(), c.clone()]).cmp(&encoded(&[b, d.clone()]));
            prop_assert_eq!(both, order.then(c.compare(&d)));
            // A prefix of the columns is an interval of the keys.
            let prefix = encoded(&[a]);
            let longer = [prefix.clone(), encoded(&[c])].concat();
            prop_assert!(longer >= prefix && longer < successor(&prefix));
            prop_assert!(Key::new(&longer) >= Key::new(&prefix));
            let key = Key::new(&longer);
            prop_assert_eq!(key.bytes(), &longer[..]);
        }
    }
}
