//! JSON text as a tree that keeps what a map would lose: the order of keys,
//! which is the order of a block's axes, and keys that are there twice.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::error::SweepError;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    /// A number written without fraction and exponent that fits 64 bits.
    Whole(i128),
    Real(f64),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Reads a document.
    pub(crate) fn parse(text: &str) -> Result<Node, SweepError> {
        // Some editors begin a file with a byte order mark; it says nothing.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Err(SweepError::Malformed {
                line: 1,
                column: 1,
                problem: "empty; a sweep is a JSON object with `name` and `blocks`".to_owned(),
            });
        }
        serde_json::from_str(text).map_err(|error| {
            let whole = error.to_string();
            // serde_json appends the position, which stands in front here.
            let problem = whole
                .rsplit_once(" at line ")
                .map_or(whole.as_str(), |(problem, _)| problem);
            SweepError::Malformed {
                line: error.line().max(1),
                column: error.column().max(1),
                problem: format!("not valid JSON: {problem}"),
            }
        })
    }

    /// The member `key` of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.members()
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, node)| node)
    }

    /// The elements of a list, none for other kinds.
    pub(crate) fn elements(&self) -> &[Node] {
        match self {
            Node::List(nodes) => nodes,
            _ => &[],
        }
    }

    /// The members of an object in the order of the text, none for other kinds.
    pub(crate) fn members(&self) -> &[(String, Node)] {
        match self {
            Node::Object(members) => members,
            _ => &[],
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        struct Build;
        impl<'de> Visitor<'de> for Build {
            type Value = Node;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Bool(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Whole(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Whole(value.into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Real(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<Node, E> {
                Ok(Node::Text(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
                let mut nodes = Vec::new();
                while let Some(node) = list.next_element()? {
                    nodes.push(node);
                }
                Ok(Node::List(nodes))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Node, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = object.next_entry()? {
                    members.push(member);
                }
                Ok(Node::Object(members))
            }
        }
        deserializer.deserialize_any(Build)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_repeated_keys_are_kept() {
        let node = Node::parse(r#"{"b": 1, "a": [true, null], "b": 2.5}"#).unwrap();
        let keys: Vec<&str> = node.members().iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["b", "a", "b"]);
    }

    #[test]
    fn malformed_text_names_line_and_column() {
        let error = Node::parse("{\n  \"a\": 1\n  \"b\": 2\n}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 3 column 3: not valid JSON: expected `,` or `}`"
        );
        assert!(
            Node::parse(" \n")
                .unwrap_err()
                .to_string()
                .contains("empty")
        );
        assert!(Node::parse(&"[".repeat(100_000)).is_err());
    }
}
