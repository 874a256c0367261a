//! Items on DynamoDB.
//!
//! Key `pk` and `sk`, both texts; `expires_s` is the time-to-live; the index
//! `by_sweep` has the runs of a sweep by date. `docs/results.md` documents every
//! item. Each change is one UpdateItem, whose answer holds the item as it is
//! then, or as it was where the condition did not hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, DeleteRequest, ReturnValue, ReturnValuesOnConditionCheckFailure, WriteRequest,
};
use clock::Clock;
use fleet::{Change, Changed, Item, Key, StoreError};

use crate::errors::Call;
use crate::expression::{Expressions, from_dynamodb};
use crate::offset::{Estimate, Watch};

/// The index of runs by their sweep.
const BY_SWEEP: &str = "by_sweep";

/// Items of one BatchWriteItem.
const BATCH: usize = 25;
/// Tries at what a batch left over, and the first pause before another, which
/// doubles: together about three seconds.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(100);

type Raw = HashMap<String, AttributeValue>;

/// A table as one call sees it.
pub(crate) struct Table<'a> {
    pub(crate) client: &'a Client,
    pub(crate) name: &'a str,
    pub(crate) region: &'a str,
    pub(crate) clock: Clock,
    pub(crate) estimate: &'a Arc<Mutex<Estimate>>,
}

impl Table<'_> {
    fn call(&self, action: &'static str) -> Call<'_> {
        Call {
            action,
            kind: "table",
            name: self.name,
            region: self.region,
        }
    }

    fn watch(&self) -> Watch {
        Watch::new(self.clock, Arc::clone(self.estimate))
    }

    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        let answer = self
            .client
            .get_item()
            .table_name(self.name)
            .set_key(Some(raw_key(key)))
            .consistent_read(true)
            .customize()
            .interceptor(self.watch())
            .send()
            .await
            .map_err(|error| self.call("dynamodb:GetItem").failed(&error))?;
        Ok(answer.item().map(item))
    }

    pub(crate) async fn change(&self, change: &Change) -> Result<Changed, StoreError> {
        let call = self.call("dynamodb:UpdateItem");
        let key = change.key.as_ref();
        let key = key.ok_or_else(|| call.refused("a change without a key"))?;
        let made = Expressions::of(change)
            .map_err(|name| call.refused(&format!("{name} is no set, and was to be added to")))?;
        let answer = self
            .client
            .update_item()
            .table_name(self.name)
            .set_key(Some(raw_key(key)))
            .set_update_expression(made.update)
            .set_condition_expression(made.condition)
            .set_expression_attribute_names(some(made.names))
            .set_expression_attribute_values(some(made.values))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .customize()
            .interceptor(self.watch())
            .send()
            .await;
        let error = match answer {
            Ok(answer) => {
                let now = answer.attributes().map(item);
                return Ok(Changed::Yes(now.unwrap_or_default()));
            }
            Err(error) => error,
        };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failed)) => {
                match failed.item().filter(|found| !found.is_empty()) {
                    Some(found) => Ok(Changed::No(Some(item(found)))),
                    // There is none, or the service does not say: one read tells.
                    None => Ok(Changed::No(self.get(key).await?)),
                }
            }
            _ => Err(call.failed(&error)),
        }
    }

    pub(crate) async fn list(&self, pk: &str, prefix: &str) -> Result<Vec<Item>, StoreError> {
        // DynamoDB refuses an empty prefix.
        let (condition, sk) = match prefix {
            "" => ("#pk = :pk", None),
            _ => ("#pk = :pk AND begins_with(#sk, :sk)", Some(prefix)),
        };
        let mut found = Vec::new();
        let mut from: Option<Raw> = None;
        loop {
            let mut query = self
                .client
                .query()
                .table_name(self.name)
                .consistent_read(true)
                .key_condition_expression(condition)
                .expression_attribute_names("#pk", "pk")
                .expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()))
                .set_exclusive_start_key(from);
            if let Some(sk) = sk {
                query = query
                    .expression_attribute_names("#sk", "sk")
                    .expression_attribute_values(":sk", AttributeValue::S(sk.to_owned()));
            }
            let page = query
                .customize()
                .interceptor(self.watch())
                .send()
                .await
                .map_err(|error| self.call("dynamodb:Query").failed(&error))?;
            found.extend(page.items().iter().map(item));
            match page.last_evaluated_key {
                Some(last) if !last.is_empty() => from = Some(last),
                _ => return Ok(found),
            }
        }
    }

    /// The index is read as it is: a run may be missing from it for a moment
    /// after its start.
    pub(crate) async fn runs_of(&self, sweep: &str, limit: usize) -> Result<Vec<Item>, StoreError> {
        let mut found: Vec<Item> = Vec::new();
        let mut from: Option<Raw> = None;
        while found.len() < limit {
            let left = i32::try_from(limit - found.len()).unwrap_or(i32::MAX);
            let page = self
                .client
                .query()
                .table_name(self.name)
                .index_name(BY_SWEEP)
                .key_condition_expression("#sweep = :sweep")
                .expression_attribute_names("#sweep", "sweep")
                .expression_attribute_values(":sweep", AttributeValue::S(sweep.to_owned()))
                .scan_index_forward(false)
                .limit(left)
                .set_exclusive_start_key(from)
                .send()
                .await
                .map_err(|error| self.call("dynamodb:Query").failed(&error))?;
            found.extend(page.items().iter().map(item));
            match page.last_evaluated_key {
                Some(last) if !last.is_empty() => from = Some(last),
                _ => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    pub(crate) async fn delete(&self, keys: &[Key]) -> Result<(), StoreError> {
        // The conductor deletes single items, and may do only that.
        if let [key] = keys {
            let call = self.call("dynamodb:DeleteItem");
            return self
                .client
                .delete_item()
                .table_name(self.name)
                .set_key(Some(raw_key(key)))
                .send()
                .await
                .map(drop)
                .map_err(|error| call.failed(&error));
        }
        // A batch that names an item twice is refused as a whole.
        let mut keys = keys.to_vec();
        keys.sort();
        keys.dedup();
        for batch in keys.chunks(BATCH) {
            self.delete_batch(batch).await?;
        }
        Ok(())
    }

    async fn delete_batch(&self, keys: &[Key]) -> Result<(), StoreError> {
        let call = self.call("dynamodb:BatchWriteItem");
        let mut left = Vec::new();
        for key in keys {
            let delete = DeleteRequest::builder().set_key(Some(raw_key(key))).build();
            let delete = delete.map_err(|error| call.refused(&error.to_string()))?;
            left.push(WriteRequest::builder().delete_request(delete).build());
        }
        for tried in 0..TRIES {
            if tried > 0 {
                self.clock.sleep(PAUSE * (1 << (tried - 1))).await;
            }
            let answer = self
                .client
                .batch_write_item()
                .request_items(self.name, left)
                .send()
                .await
                .map_err(|error| call.failed(&error))?;
            let unprocessed = answer.unprocessed_items.unwrap_or_default();
            left = unprocessed.into_values().flatten().collect();
            if left.is_empty() {
                return Ok(());
            }
        }
        Err(call.busy(&format!("{} items were left unprocessed", left.len())))
    }
}

fn raw_key(key: &Key) -> Raw {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    Raw::from([
        ("pk".to_owned(), text(&key.pk)),
        ("sk".to_owned(), text(&key.sk)),
    ])
}

/// An item of ours; what the fleet never writes is left out.
fn item(raw: &Raw) -> Item {
    raw.iter()
        .filter_map(|(name, value)| Some((name.clone(), from_dynamodb(value)?)))
        .collect()
}

/// DynamoDB refuses a map of placeholders that is empty.
fn some<V>(map: std::collections::BTreeMap<String, V>) -> Option<HashMap<String, V>> {
    (!map.is_empty()).then(|| map.into_iter().collect())
}
