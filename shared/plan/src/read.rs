//! From the tree to the file's types: a serde deserializer whose errors carry
//! the place and are worded for the one who wrote the file.
//!
//! Keys, bounds and words are declared once, on the types in [`crate::file`],
//! [`crate::keys`] and [`crate::value`]; this reader knows nothing of the
//! format. Null is a value like any other here, not an absent key.

use std::fmt::{self, Display};

use serde::de::{
    DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};

use crate::error::{Place, SweepError, nearest};
use crate::tree::Node;

/// The key that says which workload a block is of.
pub(crate) const TAG: &str = "workload";

/// Reads `node`, which is at `place`, as a `T`.
pub(crate) fn read<'a, T: serde::Deserialize<'a>>(
    node: &'a Node,
    place: &Place,
) -> Result<T, SweepError> {
    T::deserialize(Reader {
        node,
        place: place.clone(),
    })
    .map_err(|fault| SweepError::at(fault.place.unwrap_or_default(), fault.problem))
}

/// An error on its way up: the innermost reader that sees it gives the place.
#[derive(Debug)]
pub(crate) struct Fault {
    place: Option<Place>,
    /// The key below the place that the problem is about.
    key: Option<String>,
    problem: String,
}

impl Fault {
    fn at(mut self, place: &Place) -> Fault {
        if self.place.is_none() {
            self.place = Some(match self.key.take() {
                Some(key) => place.key(&key),
                None => place.clone(),
            });
        }
        self
    }

    fn about(key: &str, problem: String) -> Fault {
        Fault {
            place: None,
            key: Some(key.to_owned()),
            problem,
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    fn custom<T: Display>(problem: T) -> Fault {
        Fault {
            place: None,
            key: None,
            problem: problem.to_string(),
        }
    }

    fn invalid_type(found: Unexpected<'_>, accepted: &dyn Expected) -> Fault {
        let kind = match found {
            Unexpected::Unit | Unexpected::Option => "null",
            Unexpected::Bool(_) => "true or false",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
            Unexpected::Seq => "a list",
            Unexpected::Map | Unexpected::StructVariant => "an object",
            _ => "a string",
        };
        let accepted = match accepted.to_string().as_str() {
            "a sequence" => "a list".to_owned(),
            "a boolean" => "true or false".to_owned(),
            other => other.to_owned(),
        };
        Fault::custom(format_args!("must be {accepted}, not {kind}"))
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Fault {
        let remedy = match nearest(key, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", known.join(", ")),
        };
        Fault::about(key, format!("unknown key; {remedy}"))
    }

    fn missing_field(key: &'static str) -> Fault {
        Fault::about(key, "missing; it must be given".to_owned())
    }
}

/// Deserializes one node.
struct Reader<'a> {
    node: &'a Node,
    place: Place,
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let place = self.place.clone();
        match self.node {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(*value),
            Node::Whole(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => visitor.visit_u64(value),
                (_, Ok(value)) => visitor.visit_i64(value),
                _ => visitor.visit_f64(*value as f64),
            },
            Node::Real(value) => visitor.visit_f64(*value),
            Node::Text(text) => visitor.visit_borrowed_str(text),
            Node::List(nodes) => visitor.visit_seq(Elements {
                nodes: nodes.iter().enumerate(),
                place: &place,
            }),
            Node::Object(members) => visitor.visit_map(Members {
                members,
                next: 0,
                place: &place,
            }),
        }
        .map_err(|fault| fault.at(&place))
    }

    /// Null is no way to leave a key out: it reaches the type, which says what
    /// it accepts.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    /// serde would also fill a struct from a list, field by field.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.node {
            Node::List(_) => Err(Fault::invalid_type(Unexpected::Seq, &visitor).at(&self.place)),
            _ => self.deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Elements<'a, 'p> {
    nodes: std::iter::Enumerate<std::slice::Iter<'a, Node>>,
    place: &'p Place,
}

impl<'de> SeqAccess<'de> for Elements<'de, '_> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let Some((index, node)) = self.nodes.next() else {
            return Ok(None);
        };
        let place = self.place.index(index);
        seed.deserialize(Reader {
            node,
            place: place.clone(),
        })
        .map(Some)
        .map_err(|fault| fault.at(&place))
    }
}

struct Members<'a, 'p> {
    members: &'a [(String, Node)],
    next: usize,
    place: &'p Place,
}

impl<'de> MapAccess<'de> for Members<'de, '_> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let Some((key, _)) = self.members.get(self.next) else {
            return Ok(None);
        };
        if self.members[..self.next].iter().any(|(k, _)| k == key) {
            let twice = "the key is there twice; keep one".to_owned();
            return Err(Fault::about(key, twice));
        }
        seed.deserialize(key.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let (key, node) = &self.members[self.next];
        self.next += 1;
        let place = self.place.key(key);
        seed.deserialize(Reader {
            node,
            place: place.clone(),
        })
        .map_err(|fault| fault.at(&place))
    }
}
