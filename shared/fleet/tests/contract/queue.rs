//! What queues must do.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Clock;
use fleet::{Queue, To};

/// Checks queues. `receive` takes what a queue holds just now: texts, and of
/// dead letters the reason.
pub async fn contract<Q: Queue>(
    queue: &Q,
    clock: Clock,
    receive: impl AsyncFn(&To) -> BTreeMap<String, Option<String>>,
) {
    let wave = |region: &str| To::Wave {
        region: region.to_owned(),
    };
    let (here, there) = (wave("us-east-1"), wave("us-east-2"));
    let now = Duration::ZERO;
    queue.send(&here, &[], now).await.unwrap();

    // More than a batch holds by number, and by size.
    let many: Vec<String> = (0..23).map(|n| format!("here {n}")).collect();
    let large: Vec<String> = (0..7)
        .map(|n| format!("{n}{}", "x".repeat(200_000)))
        .collect();
    queue.send(&here, &many, now).await.unwrap();
    queue.send(&there, &large, now).await.unwrap();
    queue
        .send(&To::Control, &["look".to_owned()], now)
        .await
        .unwrap();
    let texts =
        |found: BTreeMap<String, Option<String>>| -> Vec<String> { found.into_keys().collect() };
    let mut wanted = many.clone();
    wanted.sort();
    assert_eq!(texts(receive(&here).await), wanted);
    assert_eq!(texts(receive(&there).await), large);
    assert_eq!(texts(receive(&To::Control).await), ["look"]);
    assert_eq!(texts(receive(&To::Control).await), [""; 0]);

    // Not before its delay has passed.
    let late = ["late".to_owned()];
    queue
        .send(&To::Control, &late, Duration::from_millis(1_200))
        .await
        .unwrap();
    assert_eq!(texts(receive(&To::Control).await), [""; 0]);
    clock.sleep(Duration::from_millis(2_500)).await;
    assert_eq!(texts(receive(&To::Control).await), ["late"]);

    // Dead letters keep the reason, and wave and control apart.
    for region in [Some("us-east-2".to_owned()), None] {
        let reason = "not JSON: expected value at line 1 column 1";
        let dead = To::Dead {
            region: region.clone(),
            reason: reason.to_owned(),
        };
        let body = format!("poison of {region:?}");
        queue
            .send(&dead, std::slice::from_ref(&body), now)
            .await
            .unwrap();
        let found = receive(&dead).await;
        assert_eq!(found, BTreeMap::from([(body, Some(reason.to_owned()))]));
    }
}
