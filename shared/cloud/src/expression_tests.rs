//! Expressions against golden texts, and against an interpreter of DynamoDB's
//! grammar as far as we use it: what it makes of the expressions of any change
//! must be what the store in memory makes of the change itself.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use fleet::embedded::MemoryStore;
use fleet::{Attr, Change, Changed, Item, Key, Store, When};
use proptest::prelude::*;

use super::*;

type Raw = BTreeMap<String, AttributeValue>;

fn key() -> Key {
    Key::new("run#a", "task#1")
}

#[test]
fn the_golden_ones() {
    let claim = Change::of(key())
        .when([When::Absent("state")])
        .when([
            When::Is("state", Attr::S("claimed".into())),
            When::Below("lease_ms", 1_700_000_000_000),
        ])
        .set("state", "claimed")
        .set("owner", "me")
        .set_n("lease_ms", 1_700_000_030_000)
        .add("members", "3")
        .add("members", "4")
        .remove("ready");
    let made = Expressions::of(&claim).unwrap();
    assert_eq!(
        made.condition.as_deref(),
        Some("(attribute_not_exists(#n0)) OR (#n0 = :v0 AND #n1 < :v1)")
    );
    assert_eq!(
        made.update.as_deref(),
        Some("SET #n1 = :v2, #n3 = :v4, #n0 = :v0 ADD #n2 :v3 REMOVE #n4")
    );
    assert_eq!(made.names["#n0"], "state");
    assert_eq!(made.names["#n4"], "ready");
    assert_eq!(
        made.values[":v1"],
        AttributeValue::N("1700000000000".into())
    );
    assert_eq!(
        made.values[":v3"],
        AttributeValue::Ss(vec!["3".into(), "4".into()])
    );
}

#[test]
fn a_change_that_says_nothing_has_no_expression() {
    let made = Expressions::of(&Change::of(key())).unwrap();
    assert_eq!(made, Expressions::default());
    // One list that always holds makes the others idle.
    let idle = Change::of(key()).when([When::Absent("a")]).when([]);
    assert_eq!(Expressions::of(&idle).unwrap(), Expressions::default());
}

#[test]
fn an_empty_set_does_not_exist() {
    let mut change = Change::of(key()).when([When::Is("a", Attr::Set([].into()))]);
    change.set.push(("b", Attr::Set([].into())));
    let made = Expressions::of(&change).unwrap();
    assert_eq!(
        made.condition.as_deref(),
        Some("(attribute_not_exists(#n0))")
    );
    assert_eq!(made.update.as_deref(), Some("REMOVE #n1"));
}

#[test]
fn a_text_takes_no_members() {
    let change = Change::of(key()).set("a", "text").add("a", "member");
    assert_eq!(Expressions::of(&change), Err("a"));
}

/// Reads expressions as DynamoDB does, and fails the test where it would refuse.
struct Interpreter<'a> {
    made: &'a Expressions,
}

impl Interpreter<'_> {
    fn name(&self, placeholder: &str) -> &str {
        &self.made.names[placeholder]
    }

    fn value(&self, placeholder: &str) -> &AttributeValue {
        &self.made.values[placeholder]
    }

    fn term(&self, term: &str, item: &Raw) -> bool {
        let within = |prefix: &str| {
            let inner = term.strip_prefix(prefix)?.strip_suffix(')')?;
            Some(item.get(self.name(inner)))
        };
        if let Some(found) = within("attribute_not_exists(") {
            return found.is_none();
        }
        if let Some(found) = within("attribute_exists(") {
            return found.is_some();
        }
        let parts: Vec<&str> = term.split(' ').collect();
        let [name, operator, value] = parts[..] else {
            panic!("no term: {term}")
        };
        let (found, value) = (item.get(self.name(name)), self.value(value));
        match (operator, found, value) {
            ("=", Some(AttributeValue::Ss(a)), AttributeValue::Ss(b)) => {
                let (mut a, mut b) = (a.clone(), b.clone());
                a.sort();
                b.sort();
                a == b
            }
            ("=", found, value) => found == Some(value),
            ("<", Some(AttributeValue::N(a)), AttributeValue::N(b)) => {
                a.parse::<i64>().unwrap() < b.parse().unwrap()
            }
            ("<", ..) => false,
            _ => panic!("no operator: {term}"),
        }
    }

    fn holds(&self, item: &Raw) -> bool {
        let Some(condition) = &self.made.condition else {
            return true;
        };
        condition.split(" OR ").any(|all| {
            let all = all.strip_prefix('(').unwrap().strip_suffix(')').unwrap();
            all.split(" AND ").all(|term| self.term(term, item))
        })
    }

    /// Makes the update; an ADD to what is no set is refused.
    fn update(&self, item: &mut Raw) -> Result<(), ()> {
        let Some(update) = &self.made.update else {
            return Ok(());
        };
        let mut seen: Vec<String> = Vec::new();
        let mut clause = "";
        let mut rest = update.as_str();
        while !rest.is_empty() {
            for word in ["SET ", "ADD ", "REMOVE "] {
                if let Some(tail) = rest.strip_prefix(word) {
                    (clause, rest) = (word, tail);
                }
            }
            let end = [", ", " SET ", " ADD ", " REMOVE "]
                .iter()
                .filter_map(|stop| rest.find(stop))
                .min()
                .unwrap_or(rest.len());
            let (part, tail) = rest.split_at(end);
            rest = tail
                .strip_prefix(", ")
                .or(tail.strip_prefix(' '))
                .unwrap_or("");
            let words: Vec<&str> = part.split(' ').collect();
            let name = self.name(words[0]).to_owned();
            assert!(!seen.contains(&name), "two paths overlap: {update}");
            seen.push(name.clone());
            match (clause, &words[1..]) {
                ("SET ", ["=", value]) => {
                    let value = self.value(value).clone();
                    let empty = matches!(&value, AttributeValue::Ss(set) if set.is_empty());
                    assert!(!empty, "an empty set is refused");
                    item.insert(name, value);
                }
                ("ADD ", [value]) => {
                    let AttributeValue::Ss(more) = self.value(value) else {
                        panic!("ADD of something else than a set")
                    };
                    let set = item.entry(name).or_insert(AttributeValue::Ss(Vec::new()));
                    let AttributeValue::Ss(set) = set else {
                        return Err(());
                    };
                    set.extend(more.iter().cloned());
                    set.sort();
                    set.dedup();
                }
                ("REMOVE ", []) => drop(item.remove(&name)),
                _ => panic!("no part: {part:?} of {update}"),
            }
        }
        Ok(())
    }
}

/// Names that collide, and that DynamoDB reserves.
const NAMES: [&str; 4] = ["state", "name", "#n0", "a b"];

fn attr() -> impl Strategy<Value = Attr> {
    prop_oneof![
        "[ab]{0,2}".prop_map(Attr::S),
        (-2i64..3).prop_map(Attr::N),
        prop::collection::btree_set("[ab]", 1..3).prop_map(Attr::Set),
    ]
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        name().prop_map(When::Absent),
        name().prop_map(When::Present),
        (name(), attr()).prop_map(|(name, value)| When::Is(name, value)),
        (name(), -2i64..3).prop_map(|(name, bound)| When::Below(name, bound)),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    (
        prop::collection::vec(prop::collection::vec(when(), 0..3), 0..3),
        prop::collection::vec((name(), attr()), 0..3),
        prop::collection::vec((name(), "[abc]"), 0..3),
        prop::collection::vec(name(), 0..2),
    )
        .prop_map(|(when, set, add, mut remove)| {
            // The one in memory looks at what it then removes.
            remove.retain(|name| add.iter().all(|(added, _)| added != name));
            Change {
                key: Some(key()),
                when,
                set,
                add,
                remove,
            }
        })
}

fn raw(item: &Item) -> Raw {
    item.iter()
        .map(|(name, value)| (name.clone(), to_dynamodb(value)))
        .collect()
}

/// A future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

proptest! {
    #[test]
    fn expressions_do_what_the_change_says(changes in prop::collection::vec(change(), 1..6)) {
        let store = MemoryStore::default();
        let mut item: Option<Raw> = None;
        for change in &changes {
            let before = now(store.get(&key())).unwrap();
            let wanted = now(store.change(change));
            let made = match Expressions::of(change) {
                Ok(made) => made,
                Err(_) => {
                    // The condition may not hold; if it does, it is refused.
                    prop_assert!(!matches!(wanted, Ok(Changed::Yes(_))));
                    return Ok(());
                }
            };
            let all: Vec<&String> = made.names.values().collect();
            prop_assert!(all.iter().all(|name| NAMES.contains(&name.as_str())));
            let interpreter = Interpreter { made: &made };
            let found = item.clone().unwrap_or_default();
            if !interpreter.holds(&found) {
                prop_assert_eq!(wanted, Ok(Changed::No(before)));
                continue;
            }
            let mut found = item.clone().unwrap_or_else(|| raw(&BTreeMap::from([
                ("pk".to_owned(), Attr::S(key().pk)),
                ("sk".to_owned(), Attr::S(key().sk)),
            ])));
            if interpreter.update(&mut found).is_err() {
                // The one in memory may have done a part: it is not looked at
                // any more.
                prop_assert!(wanted.is_err());
                return Ok(());
            }
            let Ok(Changed::Yes(now_there)) = wanted else {
                return Err(TestCaseError::fail(format!("{wanted:?} of {change:?}")));
            };
            prop_assert_eq!(raw(&now_there), found.clone());
            item = Some(found);
        }
    }

    #[test]
    fn values_come_back_as_they_went(value in attr()) {
        prop_assert_eq!(from_dynamodb(&to_dynamodb(&value)), Some(value));
    }
}
