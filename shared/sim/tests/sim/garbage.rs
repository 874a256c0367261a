//! Whatever a client sends, its connection ends or answers.

use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use proptest::prelude::*;
use sim::FaultPlan;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::{Raw, cluster, simulated};

/// A valid conversation, to be damaged.
fn conversation() -> Vec<u8> {
    let mut out = BytesMut::new();
    frontend::query("CREATE TABLE t (id int PRIMARY KEY)", &mut out).unwrap();
    frontend::parse("s", "SELECT id FROM t WHERE id = $1", [23], &mut out).unwrap();
    let param = |_: &(), out: &mut BytesMut| {
        out.extend_from_slice(&7_i32.to_be_bytes());
        Ok(postgres_protocol::IsNull::No)
    };
    let bound = frontend::bind(
        "p",
        "s",
        [1],
        [()].iter(),
        |p, out| param(p, out),
        [1],
        &mut out,
    );
    assert!(bound.is_ok());
    frontend::describe(b'P', "p", &mut out).unwrap();
    frontend::execute("p", 1, &mut out).unwrap();
    frontend::close(b'S', "s", &mut out).unwrap();
    frontend::sync(&mut out);
    frontend::query("BEGIN; INSERT INTO t VALUES (1); COMMIT", &mut out).unwrap();
    out.to_vec()
}

/// Sends bytes to a session (or to one that has not logged in), then nothing
/// more; the server must end within a simulated minute.
fn survives(logged_in: bool, bytes: &[u8]) {
    simulated(async |clock| {
        let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
        let mut pipe = if logged_in {
            Raw::login(&cluster, 0).await.stream
        } else {
            cluster.dial(0).unwrap()
        };
        pipe.write_all(bytes).await.unwrap();
        pipe.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let ended = clock.timeout(Duration::from_secs(60), pipe.read_to_end(&mut answer));
        assert!(ended.await.is_some(), "the connection hangs");
        // The cluster serves the next one.
        let mut next = Raw::login(&cluster, 0).await;
        assert_eq!(next.query("").answers().await, ["empty", "ready I"]);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(logged_in: bool, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survives(logged_in, &bytes);
    }

    /// Random bodies under valid types and lengths reach the decoder of each.
    #[test]
    fn random_bodies(
        tag in prop::sample::select(b"QPBDECHSXFdcfp".to_vec()),
        body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut message = vec![tag];
        message.extend((body.len() as u32 + 4).to_be_bytes());
        message.extend(body);
        message.extend(b"S\0\0\0\x04");
        survives(true, &message);
    }

    #[test]
    fn damaged_conversations(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = conversation();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        survives(true, &bytes);
    }
}

#[test]
fn an_undamaged_conversation_is_answered() {
    simulated(async |clock| {
        let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
        let mut raw = Raw::login(&cluster, 0).await;
        raw.out.extend_from_slice(&conversation());
        assert_eq!(raw.answers().await, ["CREATE TABLE", "ready I"]);
        assert_eq!(
            raw.receive().await,
            [
                "parsed",
                "bound",
                "columns [id:23 binary]",
                "SELECT 0",
                "closed",
                "ready I"
            ]
        );
        assert_eq!(
            raw.receive().await,
            ["BEGIN", "INSERT 0 1", "COMMIT", "ready I"]
        );
    });
}

#[test]
fn a_message_over_10_mib_ends_the_connection() {
    simulated(async |clock| {
        let cluster = cluster("us-pair-in-region", FaultPlan::default(), clock);
        let mut raw = Raw::login(&cluster, 0).await;
        raw.out.extend_from_slice(b"Q\x00\xa0\x00\x01");
        assert_eq!(
            raw.answers().await,
            ["error FATAL 08P01 invalid message length", "end"]
        );
        // One of 10 MiB is read whole.
        let mut raw = Raw::login(&cluster, 0).await;
        let padded = format!("SELECT 1 --{}", "x".repeat((10 << 20) - 4 - 11 - 1));
        let answers = raw.query(&padded).answers().await;
        assert_eq!(answers[1..], ["row [1]", "SELECT 1", "ready I"]);
    });
}
