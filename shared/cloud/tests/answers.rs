//! What becomes of AWS's answers: decisions and lines, with an HTTP server that
//! answers what the test says.
#![allow(clippy::unwrap_used)]

extern crate fabric_cloud as cloud;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use clock::Clock;
use cloud::{Clients, CloudQueue, CloudStore, Config, Targets};
use fleet::{Attr, Change, Changed, Key, Queue, Store, StoreError, To, When};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const TOKEN: &str = "MARKED-SESSION-TOKEN";
const KEY: &str = "MARKED-SECRET-KEY";

/// What the server answers, in order: status and body; the last one again and
/// again. And what it was asked.
#[derive(Clone, Default)]
struct Server {
    answers: Rc<RefCell<VecDeque<(u16, String)>>>,
    asked: Rc<RefCell<Vec<String>>>,
}

impl Server {
    fn answer(&self, status: u16, body: &str) {
        self.answers
            .borrow_mut()
            .push_back((status, body.to_owned()));
    }

    async fn serve(self, listener: TcpListener) {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let server = self.clone();
            tokio::task::spawn_local(async move {
                while let Some(request) = read(&mut socket).await {
                    server.asked.borrow_mut().push(request);
                    let (status, body) = {
                        let mut answers = server.answers.borrow_mut();
                        match answers.len() {
                            0 => (500, String::new()),
                            1 => answers[0].clone(),
                            _ => answers.pop_front().unwrap(),
                        }
                    };
                    let text = format!(
                        "HTTP/1.1 {status} x\r\ncontent-type: application/x-amz-json-1.0\r\n\
                         date: Mon, 30 Nov 2026 03:00:00 GMT\r\ncontent-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    if socket.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    }
}

/// Reads one request: its body.
async fn read(socket: &mut tokio::net::TcpStream) -> Option<String> {
    let mut all = Vec::new();
    let mut bytes = [0; 8_192];
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse().unwrap())
            });
            if body.len() >= length.unwrap_or(0usize) {
                return Some(body.to_owned());
            }
        }
        let n = socket.read(&mut bytes).await.ok()?;
        if n == 0 {
            return None;
        }
        all.extend_from_slice(&bytes[..n]);
    }
}

/// Runs a test against a server that answers as it says.
fn with_server(test: impl AsyncFnOnce(&Server, CloudStore, CloudQueue)) {
    with_clients(async |server, clients| {
        let (store, queue) = stack(clients);
        test(server, store, queue).await;
    });
}

fn with_clients(test: impl AsyncFnOnce(&Server, Rc<Clients>)) {
    let local = tokio::task::LocalSet::new();
    let runtime = clock::real_runtime().unwrap();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Server::default();
        let serving = tokio::task::spawn_local(server.clone().serve(listener));
        test(&server, clients(&url, credentials()).await).await;
        serving.abort();
    });
}

fn credentials() -> Credentials {
    Credentials::new("AKID", KEY, Some(TOKEN.to_owned()), None, "test")
}

async fn clients(url: &str, credentials: impl ProvideCredentials + 'static) -> Rc<Clients> {
    let base = aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(url)
        .credentials_provider(credentials)
        .retry_config(RetryConfig::disabled())
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(Duration::from_millis(500))
                .operation_timeout(Duration::from_millis(500))
                .build(),
        )
        .load()
        .await;
    Rc::new(Clients::of(base))
}

fn stack(clients: Rc<Clients>) -> (CloudStore, CloudQueue) {
    let config = Rc::new(Config {
        stack: "fabric".to_owned(),
        home: "us-east-1".to_owned(),
        regions: vec!["us-east-1".to_owned()],
        table: "fabric".to_owned(),
        bucket: "fabric-bucket".to_owned(),
        worker_timeout: Duration::from_secs(60),
    });
    let clock = Clock::real();
    let store = CloudStore::new(clients.clone(), config.clone(), clock);
    (store, CloudQueue::new(clients, config, clock))
}

fn key() -> Key {
    Key::new("run#a", "task#1")
}

fn claim() -> Change {
    Change::of(key())
        .when([When::Absent("owner")])
        .set("owner", "me")
}

fn error(code: &str, message: &str) -> String {
    format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"{message}"}}"#)
}

/// One line that shows where it happened and nothing that is secret.
fn check(error: &StoreError) -> String {
    let line = error.to_string();
    assert!(line.len() < 500 && !line.contains('\n'), "{line}");
    assert!(line.contains("fabric in us-east-1"), "{line}");
    for shown in [line.clone(), format!("{error:?}")] {
        assert!(!shown.contains("MARKED"), "{shown}");
    }
    line
}

#[test]
fn answers_carry_the_decision() {
    with_server(async |server, store, _| {
        for (status, code, message, busy) in [
            (400, "ThrottlingException", "Rate exceeded", true),
            (400, "ProvisionedThroughputExceededException", "hot", true),
            (
                400,
                "TransactionConflictException",
                "in a transaction",
                true,
            ),
            (500, "InternalServerError", "oops", true),
            (
                400,
                "AccessDeniedException",
                "User x is not authorized",
                false,
            ),
            (
                400,
                "ResourceNotFoundException",
                "Requested resource not found",
                false,
            ),
            (
                400,
                "ValidationException",
                "ExpressionAttributeNames",
                false,
            ),
            (
                400,
                "UnrecognizedClientException",
                "The token is invalid.",
                false,
            ),
            (400, "ExpiredTokenException", "expired", false),
        ] {
            server.answers.borrow_mut().clear();
            server.answer(status, &error(code, message));
            let failed = store.change(&claim()).await.unwrap_err();
            assert_eq!(failed.is_transient(), busy, "{code}: {failed}");
            let line = check(&failed);
            assert!(line.contains(code) && line.contains(message), "{line}");
            assert!(
                line.starts_with("dynamodb:UpdateItem on table fabric"),
                "{line}"
            );
        }
    });
}

#[test]
fn answers_that_are_none_are_worth_another_try() {
    with_server(async |server, store, _| {
        for (status, body) in [(503, ""), (502, "<html>bad gateway</html>"), (500, "{")] {
            server.answers.borrow_mut().clear();
            server.answer(status, body);
            let failed = store.get(&key()).await.unwrap_err();
            assert!(failed.is_transient(), "{status}: {failed:?}");
            check(&failed);
        }
    });
}

#[test]
fn a_bad_signature_does_not_repeat_what_was_signed() {
    with_server(async |server, store, _| {
        let message = format!(
            "The request signature we calculated does not match.\\n\\nThe Canonical String \
             should have been\\n'POST\\nx-amz-security-token:{TOKEN}\\n'"
        );
        server.answer(400, &error("InvalidSignatureException", &message));
        let failed = store.get(&key()).await.unwrap_err();
        assert!(matches!(failed, StoreError::Refused(_)));
        assert!(check(&failed).contains("this machine's clock"));
    });
}

#[test]
fn a_refused_condition_is_an_answer() {
    with_server(async |server, store, _| {
        // With the item, as DynamoDB answers.
        let there = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
            "message":"The conditional request failed",
            "Item":{"pk":{"S":"run#a"},"sk":{"S":"task#1"},"owner":{"S":"other"}}}"#;
        server.answer(400, there);
        let Changed::No(Some(item)) = store.change(&claim()).await.unwrap() else {
            panic!("it is there")
        };
        assert_eq!(item["owner"], Attr::S("other".to_owned()));
        assert_eq!(server.asked.borrow().len(), 1);

        // Without it one read tells.
        server.answers.borrow_mut().clear();
        server.answer(400, &error("ConditionalCheckFailedException", "failed"));
        server.answer(
            200,
            r#"{"Item":{"pk":{"S":"run#a"},"owner":{"S":"third"}}}"#,
        );
        let Changed::No(Some(item)) = store.change(&claim()).await.unwrap() else {
            panic!("it is there")
        };
        assert_eq!(item["owner"], Attr::S("third".to_owned()));
        let last = server.asked.borrow().last().unwrap().clone();
        assert!(last.contains(r#""ConsistentRead":true"#), "{last}");
    });
}

#[test]
fn batches_that_were_not_done_whole_go_on() {
    with_server(async |server, store, _| {
        let left = r#"{"UnprocessedItems":{"fabric":[{"DeleteRequest":{"Key":
            {"pk":{"S":"p"},"sk":{"S":"2"}}}}]}}"#;
        server.answer(200, left);
        server.answer(200, "{}");
        let keys: Vec<Key> = (0..3).map(|n| Key::new("p", n.to_string())).collect();
        store.delete(&keys).await.unwrap();
        let asked = server.asked.borrow();
        assert_eq!(asked.len(), 2);
        assert!(asked[0].contains(r#"{"S":"0"}"#) && !asked[1].contains(r#"{"S":"0"}"#));
    });
}

#[test]
fn of_a_batch_only_what_was_not_taken_is_sent_again() {
    with_server(async |server, _, queue| {
        let taken = |id: &str| format!(r#"{{"Id":"{id}","MessageId":"m","MD5OfMessageBody":"x"}}"#);
        server.answer(200, r#"{"QueueUrl":"http://sqs/fabric-control"}"#);
        server.answer(
            200,
            &format!(
                r#"{{"Successful":[{}],"Failed":[{{"Id":"1","Code":"InternalError","SenderFault":false}}]}}"#,
                taken("0")
            ),
        );
        server.answer(
            200,
            &format!(r#"{{"Successful":[{}],"Failed":[]}}"#, taken("1")),
        );
        let bodies = ["first".to_owned(), "second".to_owned()];
        let delay = Duration::from_millis(1_500);
        queue.send(&To::Control, &bodies, delay).await.unwrap();
        {
            let asked = server.asked.borrow();
            assert_eq!(asked.len(), 3);
            assert!(asked[1].contains("first") && asked[1].contains(r#""DelaySeconds":2"#));
            assert!(!asked[2].contains("first") && asked[2].contains("second"));
        }
        // The address is asked for once, and a sender's fault is final.
        server.answers.borrow_mut().clear();
        server.answer(
            200,
            r#"{"Successful":[],"Failed":[{"Id":"0","Code":"InvalidMessageContents","Message":"bad","SenderFault":true}]}"#,
        );
        let failed = queue.send(&To::Control, &bodies, delay).await.unwrap_err();
        assert!(matches!(failed, StoreError::Refused(_)), "{failed:?}");
        let line = failed.to_string();
        assert!(
            line.starts_with("sqs:SendMessage on queue fabric-control"),
            "{line}"
        );
        assert_eq!(server.asked.borrow().len(), 4);
    });
}

#[test]
fn the_offset_is_seen_in_every_answer() {
    with_server(async |server, store, _| {
        server.answer(200, "{}");
        assert_eq!(store.offset(), None);
        store.get(&key()).await.unwrap();
        // The server's date is a fixed one; that it is far off is what is seen.
        let offset = store.offset().unwrap();
        assert!(
            offset.error_ms >= 500.0 && offset.error_ms < 1_500.0,
            "{offset:?}"
        );
    });
}

#[test]
fn nobody_there_and_no_answer_are_worth_another_try() {
    clock::real_runtime().unwrap().block_on(async {
        // Nobody listens at a port that was just given back.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let (store, _) = stack(clients(&url, credentials()).await);
        let refused = store.get(&key()).await.unwrap_err();
        assert!(refused.is_transient(), "{refused:?}");
        check(&refused);

        // One that listens and never answers.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (store, _) = stack(clients(&url, credentials()).await);
        let silent = store.get(&key()).await.unwrap_err();
        assert!(silent.is_transient(), "{silent:?}");
        assert!(check(&silent).contains("no answer in time"));
    });
}

/// A target of a sweep whose URL is in Secrets Manager.
fn secret_target() -> plan::TargetSpec {
    let sweep = r#"{"name": "s", "targets": [{"name": "control", "secret": "fabric"}],
        "blocks": [{"name": "A", "workload": "append", "isolation": "read_committed"}]}"#;
    let plan = plan::parse(sweep)
        .unwrap()
        .plan(&plan::Overrides::default());
    plan.unwrap().targets.remove(0)
}

#[test]
fn a_secret_becomes_a_target_and_is_never_shown() {
    with_clients(async |server, clients| {
        let targets = Targets::new(clients, "us-east-1", Clock::real());
        let spec = secret_target();
        let url = "postgres://u:MARKED-PASSWORD@127.0.0.1:5/db";
        for (status, body, wanted) in [
            (
                400,
                error("ResourceNotFoundException", "can't find the secret"),
                "create it",
            ),
            (
                400,
                error("AccessDeniedException", "not allowed"),
                "must allow",
            ),
            (
                200,
                r#"{"SecretString":"MARKED"}"#.to_owned(),
                "under `url`",
            ),
            (
                200,
                r#"{"SecretBinary":"TUFSS0VE"}"#.to_owned(),
                "under `url`",
            ),
            (
                200,
                r#"{"SecretString":"postgres://u:MARKED@h:port/db"}"#.to_owned(),
                "port",
            ),
        ] {
            server.answers.borrow_mut().clear();
            server.answer(status, &body);
            let line = targets.resolve(&spec).await.unwrap_err();
            assert!(line.contains(wanted), "{line}");
            assert!(!line.contains("MARKED") && !line.contains('\n'), "{line}");
        }
        server.answers.borrow_mut().clear();
        server.answer(
            200,
            &format!(r#"{{"SecretString":"{{\"url\":\"{url}\"}}"}}"#),
        );
        let asked = server.asked.borrow().len();
        for _ in 0..3 {
            let target = targets.resolve(&spec).await.unwrap();
            let shown = format!("{target:?} {:?} {targets:?}", target.describe());
            assert!(!shown.contains("MARKED"), "{shown}");
        }
        // Once in an invocation.
        assert_eq!(server.asked.borrow().len(), asked + 1);
    });
}

#[test]
fn workers_do_not_hold_the_simulator() {
    with_clients(async |_, clients| {
        let sweep = r#"{"name": "s", "preset": "us-pair-in-region",
            "blocks": [{"name": "A", "workload": "append"}]}"#;
        let plan = plan::parse(sweep)
            .unwrap()
            .plan(&plan::Overrides::default());
        let targets = Targets::new(clients, "us-east-1", Clock::real());
        let line = targets
            .resolve(&plan.unwrap().targets[0])
            .await
            .unwrap_err();
        assert!(
            line.contains("fabric sim serve --preset us-pair-in-region"),
            "{line}"
        );
    });
}

/// Credentials that are not there.
#[derive(Debug)]
struct Nowhere;

impl ProvideCredentials for Nowhere {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err(CredentialsError::not_loaded("no provider")))
    }
}

#[test]
fn without_credentials_nothing_is_tried() {
    clock::real_runtime().unwrap().block_on(async {
        let (store, _) = stack(clients("http://127.0.0.1:9", Nowhere).await);
        let failed = store.get(&key()).await.unwrap_err();
        let line = check(&failed);
        assert!(matches!(failed, StoreError::Refused(_)), "{line}");
        assert!(line.contains("no AWS credentials"), "{line}");
    });
}
