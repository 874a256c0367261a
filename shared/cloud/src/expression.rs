//! From a [`Change`] to DynamoDB's expressions.
//!
//! Every attribute's name and every value goes through a placeholder, so that no
//! reserved word and no odd character is ever part of an expression. What
//! DynamoDB refuses and the trait allows is put right here: an attribute stands
//! in one clause only, and an empty set, which does not exist, is an attribute
//! that is not there.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::AttributeValue;
use fleet::{Attr, Change, When};

/// The expressions of one UpdateItem.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expressions {
    pub(crate) update: Option<String>,
    pub(crate) condition: Option<String>,
    pub(crate) names: BTreeMap<String, String>,
    pub(crate) values: BTreeMap<String, AttributeValue>,
}

/// What becomes of one attribute.
enum Fate {
    Set(Attr),
    Add(BTreeSet<String>),
    Remove,
}

impl Expressions {
    /// The expressions of a change; `Err` names an attribute that is set to
    /// something else than a set and added to.
    pub(crate) fn of(change: &Change) -> Result<Expressions, &'static str> {
        let mut made = Expressions::default();
        made.condition = made.condition_of(change);
        made.update = made.update_of(&fates(change)?);
        Ok(made)
    }

    fn update_of(&mut self, fates: &BTreeMap<&'static str, Fate>) -> Option<String> {
        let (mut set, mut add, mut remove) = (Vec::new(), Vec::new(), Vec::new());
        for (name, fate) in fates {
            let name = self.name(name);
            match fate {
                Fate::Set(value) => set.push(format!("{name} = {}", self.value(value))),
                Fate::Add(members) => {
                    let members = Attr::Set(members.clone());
                    add.push(format!("{name} {}", self.value(&members)));
                }
                Fate::Remove => remove.push(name),
            }
        }
        let clauses = [("SET", set), ("ADD", add), ("REMOVE", remove)];
        let clauses: Vec<String> = clauses
            .into_iter()
            .filter(|(_, parts)| !parts.is_empty())
            .map(|(word, parts)| format!("{word} {}", parts.join(", ")))
            .collect();
        (!clauses.is_empty()).then(|| clauses.join(" "))
    }

    fn condition_of(&mut self, change: &Change) -> Option<String> {
        // A list without conditions holds, and with it the whole.
        if change.when.iter().any(Vec::is_empty) {
            return None;
        }
        let any: Vec<String> = change
            .when
            .iter()
            .map(|all| {
                let all: Vec<String> = all.iter().map(|when| self.when(when)).collect();
                format!("({})", all.join(" AND "))
            })
            .collect();
        (!any.is_empty()).then(|| any.join(" OR "))
    }

    fn when(&mut self, when: &When) -> String {
        match when {
            When::Absent(name) => format!("attribute_not_exists({})", self.name(name)),
            When::Present(name) => format!("attribute_exists({})", self.name(name)),
            When::Is(name, Attr::Set(members)) if members.is_empty() => {
                format!("attribute_not_exists({})", self.name(name))
            }
            When::Is(name, value) => format!("{} = {}", self.name(name), self.value(value)),
            When::Below(name, bound) => {
                format!("{} < {}", self.name(name), self.value(&Attr::N(*bound)))
            }
        }
    }

    /// The placeholder of a name; one name has one.
    fn name(&mut self, name: &str) -> String {
        let known = self.names.iter().find(|(_, known)| *known == name);
        if let Some((placeholder, _)) = known {
            return placeholder.clone();
        }
        let placeholder = format!("#n{}", self.names.len());
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }

    /// The placeholder of a value; one value has one.
    fn value(&mut self, value: &Attr) -> String {
        let value = to_dynamodb(value);
        let known = self.values.iter().find(|(_, known)| **known == value);
        if let Some((placeholder, _)) = known {
            return placeholder.clone();
        }
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }
}

/// The fate of each attribute, as if its settings, additions and removals were
/// made one after the other.
fn fates(change: &Change) -> Result<BTreeMap<&'static str, Fate>, &'static str> {
    let mut fates = BTreeMap::new();
    for (name, value) in &change.set {
        fates.insert(*name, Fate::Set(value.clone()));
    }
    for (name, member) in &change.add {
        let fate = fates
            .entry(*name)
            .or_insert_with(|| Fate::Add(BTreeSet::new()));
        match fate {
            Fate::Set(Attr::Set(members)) | Fate::Add(members) => {
                members.insert(member.clone());
            }
            _ => return Err(name),
        }
    }
    for fate in fates.values_mut() {
        if matches!(fate, Fate::Set(Attr::Set(members)) if members.is_empty()) {
            *fate = Fate::Remove;
        }
    }
    for name in &change.remove {
        fates.insert(*name, Fate::Remove);
    }
    Ok(fates)
}

/// A value as DynamoDB has it.
pub(crate) fn to_dynamodb(value: &Attr) -> AttributeValue {
    match value {
        Attr::S(text) => AttributeValue::S(text.clone()),
        Attr::N(number) => AttributeValue::N(number.to_string()),
        Attr::Set(members) => AttributeValue::Ss(members.iter().cloned().collect()),
    }
}

/// A value of ours; `None` for what the fleet never writes.
pub(crate) fn from_dynamodb(value: &AttributeValue) -> Option<Attr> {
    match value {
        AttributeValue::S(text) => Some(Attr::S(text.clone())),
        AttributeValue::N(number) => number.parse().ok().map(Attr::N),
        AttributeValue::Ss(members) => Some(Attr::Set(members.iter().cloned().collect())),
        _ => None,
    }
}

#[cfg(test)]
#[path = "expression_tests.rs"]
mod tests;
