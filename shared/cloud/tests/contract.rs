//! What the protocol relies on, of AWS: the same bodies as for the store and the
//! queues in memory, against the cloud at FABRIC_TEST_CLOUD, such as
//! `http://127.0.0.1:4566`. Without it they are skipped.
#![allow(clippy::unwrap_used)]

extern crate fabric_cloud as cloud;

#[path = "../../fleet/tests/contract/queue.rs"]
mod queue;
mod stand_in;
#[path = "../../fleet/tests/contract/store.rs"]
mod store;

use std::collections::BTreeMap;

use clock::Clock;
use cloud::{CloudQueue, CloudStore};
use fleet::{Change, Key, Store, StoreError, To};

use stand_in::StandIn;

#[test]
fn store_of_a_stack() {
    StandIn::with("store", async |cloud: StandIn| {
        let clock = Clock::real();
        let store = CloudStore::new(cloud.clients(), cloud.config(), clock);
        assert_eq!(store.offset(), None);
        store::contract(&store, "contract").await;
        let offset = store.offset().unwrap();
        assert!(
            offset.ms.abs() <= offset.error_ms + 1.0,
            "one clock: {offset:?}"
        );
        assert!(offset.error_ms < 505.0, "{offset:?}");
    });
}

#[test]
fn queues_of_a_stack() {
    StandIn::with("queue", async |cloud: StandIn| {
        let clock = Clock::real();
        let queue = CloudQueue::new(cloud.clients(), cloud.config(), clock);
        let receive =
            async |to: &To| -> BTreeMap<String, Option<String>> { cloud.receive(to).await };
        queue::contract(&queue, clock, receive).await;
    });
}

#[test]
fn what_is_not_there_is_said_in_one_line() {
    StandIn::with("missing", async |cloud: StandIn| {
        let clock = Clock::real();
        let mut config = (*cloud.config()).clone();
        config.table = "no-such-table".to_owned();
        config.bucket = "no-such-bucket-of-ours".to_owned();
        config.stack = "no-such-stack".to_owned();
        let config = std::rc::Rc::new(config);
        let store = CloudStore::new(cloud.clients(), config.clone(), clock);
        let queue = CloudQueue::new(cloud.clients(), config, clock);
        let key = Key::new("a", "b");
        let none = std::time::Duration::ZERO;
        let errors = [
            store.get(&key).await.unwrap_err(),
            store
                .change(&Change::of(key.clone()).set_n("n", 1))
                .await
                .unwrap_err(),
            store.list("a", "").await.unwrap_err(),
            store.put_blob("a", Vec::new()).await.unwrap_err(),
            store.get_blob("a").await.unwrap_err(),
            store.list_blobs("a").await.unwrap_err(),
            fleet::Queue::send(&queue, &To::Control, &["x".to_owned()], none)
                .await
                .unwrap_err(),
        ];
        for error in errors {
            let line = error.to_string();
            assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
            assert!(
                line.contains("no-such-") && line.contains("us-east-1"),
                "{line}"
            );
            assert!(
                line.contains("deploy the stack") && line.len() < 400,
                "{line}"
            );
            assert!(!line.contains('\n'), "{line}");
        }
    });
}
