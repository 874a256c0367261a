//! What a store must do.

use std::collections::BTreeSet;

use fleet::{Attr, Change, Changed, Item, Key, Read, Store, StoreError, When};
use futures_util::future::join_all;

/// Checks a store; `name` keeps this call's items apart from all others.
pub async fn contract<S: Store>(store: &S, name: &str) {
    let pk = format!("run#{name}");
    absent_items(store, &pk).await;
    conditions(store, &pk).await;
    values(store, &pk).await;
    sets(store, &pk).await;
    one_of_many_wins(store, &pk).await;
    lists(store, &pk).await;
    many_pages(store, &pk).await;
    runs(store, name).await;
    blobs(store, name).await;
}

fn text(value: &str) -> Attr {
    Attr::S(value.to_owned())
}

fn yes(changed: Result<Changed, StoreError>) -> Item {
    match changed {
        Ok(Changed::Yes(item)) => item,
        other => panic!("the change should be made: {other:?}"),
    }
}

fn no(changed: Result<Changed, StoreError>) -> Option<Item> {
    match changed {
        Ok(Changed::No(item)) => item,
        other => panic!("the change should not be made: {other:?}"),
    }
}

async fn absent_items(store: &impl Store, pk: &str) {
    let key = Key::new(pk, "absent");
    assert_eq!(store.get(&key).await.unwrap(), None);
    let needs = Change::of(key.clone())
        .when([When::Present("state")])
        .set("state", "made");
    assert_eq!(no(store.change(&needs).await), None);
    assert_eq!(
        store.get(&key).await.unwrap(),
        None,
        "a refused change makes nothing"
    );
    store.delete(std::slice::from_ref(&key)).await.unwrap();

    // One under no condition is made whole.
    let item = yes(store
        .change(&Change::of(key.clone()).set("a", "").set_n("n", -7))
        .await);
    assert_eq!(item.text("pk"), Some(pk));
    assert_eq!(item.text("sk"), Some("absent"));
    assert_eq!(item.text("a"), Some(""));
    assert_eq!(item.number("n"), Some(-7));
    assert_eq!(store.get(&key).await.unwrap(), Some(item));
}

async fn conditions(store: &impl Store, pk: &str) {
    let key = Key::new(pk, "conditions");
    // No number is below a bound if there is none.
    let below = Change::of(key.clone())
        .when([When::Below("n", 10)])
        .set_n("n", 1);
    assert_eq!(no(store.change(&below).await), None);
    let first = Change::of(key.clone())
        .when([When::Absent("state")])
        .set("state", "claimed")
        .set("owner", "one")
        .set_n("n", 5);
    let made = yes(store.change(&first).await);
    // Whoever is refused sees what is there.
    assert_eq!(no(store.change(&first).await), Some(made.clone()));

    let holds = |all: &[Vec<When>], wanted: bool| {
        let mut change = Change::of(key.clone()).set_n("n", 5);
        change.when = all.to_vec();
        async move {
            match store.change(&change).await.unwrap() {
                Changed::Yes(_) => assert!(wanted, "made: {change:?}"),
                Changed::No(_) => assert!(!wanted, "not made: {change:?}"),
            }
        }
    };
    let state = When::Is("state", text("claimed"));
    let other = When::Is("state", text("done"));
    let owner = When::Is("owner", text("one"));
    holds(&[], true).await;
    holds(&[vec![state.clone(), owner.clone()]], true).await;
    holds(&[vec![state.clone(), other.clone()]], false).await;
    holds(
        &[vec![other.clone(), owner.clone()], vec![state.clone()]],
        true,
    )
    .await;
    holds(
        &[vec![other.clone()], vec![other.clone(), owner.clone()]],
        false,
    )
    .await;
    holds(&[vec![other.clone()], vec![]], true).await;
    holds(&[vec![When::Is("state", Attr::N(5))]], false).await;
    holds(&[vec![When::Is("nothing", text(""))]], false).await;
    holds(
        &[vec![When::Present("owner"), When::Absent("nothing")]],
        true,
    )
    .await;
    holds(&[vec![When::Below("n", 6)]], true).await;
    holds(&[vec![When::Below("n", 5)]], false).await;
    holds(&[vec![When::Below("state", 9)]], false).await;

    let remove = Change::of(key.clone()).remove("owner").remove("nothing");
    let left = yes(store.change(&remove).await);
    assert_eq!(left.text("owner"), None);
    assert_eq!(left.text("state"), Some("claimed"));
}

async fn values(store: &impl Store, pk: &str) {
    // Names that a language might reserve, and values with its signs in them.
    let key = Key::new(pk, "values/#:v0 'ä' \u{1f41a}");
    let quoted = "'; DROP :v0 #n0 \u{1f41a}\n\"";
    let change = Change::of(key.clone())
        .set("name", quoted)
        .set("size", "s")
        .set("comment", "c")
        .set_n("ttl", i64::MAX)
        .set_n("count", i64::MIN);
    let item = yes(store.change(&change).await);
    assert_eq!(item.text("name"), Some(quoted));
    assert_eq!(item.number("ttl"), Some(i64::MAX));
    assert_eq!(item.number("count"), Some(i64::MIN));
    assert_eq!(store.get(&key).await.unwrap(), Some(item));
}

async fn sets(store: &impl Store, pk: &str) {
    let key = Key::new(pk, "sets");
    let add = |member: &str| {
        Change::of(key.clone())
            .add("members", member)
            .set_n("at", 1)
    };
    assert_eq!(yes(store.change(&add("1")).await).members("members"), 1);
    assert_eq!(
        yes(store.change(&add("1")).await).members("members"),
        1,
        "twice is once"
    );
    let two = add("2").add("members", "3");
    assert_eq!(yes(store.change(&two).await).members("members"), 3);
    let all: BTreeSet<String> = ["1", "2", "3"].map(str::to_owned).into();
    let is = Change::of(key.clone()).when([When::Is("members", Attr::Set(all))]);
    yes(store.change(&is.set_n("at", 2)).await);

    // Everybody is counted in, whatever the order, and somebody sees all.
    let key = Key::new(pk, "sets/all");
    let changes: Vec<Change> = (0..32)
        .map(|member| Change::of(key.clone()).add("members", format!("{member}")))
        .collect();
    let seen = join_all(changes.iter().map(|change| store.change(change))).await;
    let most = seen
        .into_iter()
        .map(|seen| yes(seen).members("members"))
        .max();
    assert_eq!(most, Some(32));

    let text = Change::of(key.clone()).set("text", "t");
    yes(store.change(&text).await);
    let wrong = store.change(&Change::of(key).add("text", "member")).await;
    assert!(matches!(wrong, Err(StoreError::Refused(_))), "{wrong:?}");
}

async fn one_of_many_wins(store: &impl Store, pk: &str) {
    let key = Key::new(pk, "race");
    let changes: Vec<Change> = (0..16)
        .map(|owner| {
            Change::of(key.clone())
                .when([When::Absent("owner")])
                .set_n("owner", owner)
        })
        .collect();
    let ended = join_all(changes.iter().map(|change| store.change(change))).await;
    let (mut won, mut lost) = (Vec::new(), Vec::new());
    for ended in ended {
        match ended.unwrap() {
            Changed::Yes(item) => won.push(item),
            Changed::No(item) => lost.push(item.expect("a loser sees the winner")),
        }
    }
    assert_eq!(won.len(), 1, "{won:?}");
    assert!(lost.iter().all(|item| *item == won[0]), "{lost:?}");
}

fn names(items: &[Item]) -> Vec<&str> {
    items.iter().filter_map(|item| item.text("sk")).collect()
}

async fn lists(store: &impl Store, pk: &str) {
    let pk = format!("{pk}/list");
    assert_eq!(store.list(&pk, "").await.unwrap(), Vec::new());
    let all = ["run", "task#1", "task#10", "task#2", "wave#1", "ä"];
    for name in all.iter().rev() {
        yes(store
            .change(&Change::of(Key::new(&pk, *name)).set_n("n", 1))
            .await);
    }
    assert_eq!(names(&store.list(&pk, "").await.unwrap()), all);
    let tasks = store.list(&pk, "task#").await.unwrap();
    assert_eq!(names(&tasks), ["task#1", "task#10", "task#2"]);
    assert_eq!(
        names(&store.list(&pk, "task#1").await.unwrap()),
        ["task#1", "task#10"]
    );
    assert_eq!(names(&store.list(&pk, "x").await.unwrap()), [""; 0]);

    let gone = [
        Key::new(&pk, "task#1"),
        Key::new(&pk, "run"),
        Key::new(&pk, "never"),
    ];
    store.delete(&gone).await.unwrap();
    let left = store.list(&pk, "").await.unwrap();
    assert_eq!(names(&left), ["task#10", "task#2", "wave#1", "ä"]);
    store.delete(&[]).await.unwrap();
}

async fn many_pages(store: &impl Store, pk: &str) {
    // DynamoDB's page ends at 1 MB.
    let pk = format!("{pk}/pages");
    let large = "x".repeat(90_000);
    let keys: Vec<Key> = (0..30)
        .map(|n| Key::new(&pk, format!("result#{n:04}")))
        .collect();
    let changes: Vec<Change> = keys
        .iter()
        .map(|key| Change::of(key.clone()).set("result", &large))
        .collect();
    for ended in join_all(changes.iter().map(|change| store.change(change))).await {
        yes(ended);
    }
    let found = store.list(&pk, "result#").await.unwrap();
    assert_eq!(found.len(), 30);
    assert!(names(&found).is_sorted());
    assert!(found.iter().all(|item| item.text("result") == Some(&large)));
    // More than one batch, and one of them twice.
    let twice: Vec<Key> = keys.iter().chain(&keys[..1]).cloned().collect();
    store.delete(&twice).await.unwrap();
    assert_eq!(store.list(&pk, "").await.unwrap(), Vec::new());
}

async fn runs(store: &impl Store, name: &str) {
    let sweep = format!("{name}-sweep");
    assert_eq!(store.runs_of(&sweep, 5).await.unwrap(), Vec::new());
    for day in [3, 1, 2, 5, 4] {
        let run = Change::of(Key::new(format!("run#{name}-{day}"), "run"))
            .set("sweep", &sweep)
            .set("created", format!("2026-11-0{day}T03:00:00Z"));
        yes(store.change(&run).await);
        let wave = Change::of(Key::new(format!("run#{name}-{day}"), "wave#1")).set_n("n", 1);
        yes(store.change(&wave).await);
    }
    let newest = store.runs_of(&sweep, 3).await.unwrap();
    let days: Vec<&str> = newest
        .iter()
        .filter_map(|run| run.text("created"))
        .collect();
    assert_eq!(
        days,
        [
            "2026-11-05T03:00:00Z",
            "2026-11-04T03:00:00Z",
            "2026-11-03T03:00:00Z"
        ]
    );
    assert_eq!(store.runs_of(&sweep, 50).await.unwrap().len(), 5);
    assert_eq!(
        store.runs_of(&format!("{sweep}-other"), 5).await.unwrap(),
        Vec::new()
    );
}

async fn blobs(store: &impl Store, name: &str) {
    let at = |file: &str| format!("runs/{name}/{file}");
    assert_eq!(store.get_blob(&at("plan.json")).await.unwrap(), None);
    assert_eq!(store.list_blobs(&at("")).await.unwrap(), [""; 0]);
    let large: Vec<u8> = (0u32..6 << 20).map(|n| (n % 251) as u8).collect();
    let all: [(&str, Vec<u8>); 4] = [
        ("a", Vec::new()),
        ("plan.json", b"{}".to_vec()),
        ("waves/1 ä+&.json", b"[1]".to_vec()),
        ("waves/2.json", large),
    ];
    for (file, bytes) in all.iter().rev() {
        store.put_blob(&at(file), b"before".to_vec()).await.unwrap();
        store.put_blob(&at(file), bytes.clone()).await.unwrap();
    }
    for (file, bytes) in &all {
        let found = store.get_blob(&at(file)).await.unwrap();
        assert!(found.as_ref() == Some(bytes), "{file}");
    }
    let files: Vec<String> = all.iter().map(|(file, _)| at(file)).collect();
    assert_eq!(store.list_blobs(&at("")).await.unwrap(), files);
    assert_eq!(store.list_blobs(&at("waves/")).await.unwrap(), files[2..]);
    let mut gone = files.clone();
    gone.push(at("never"));
    store.delete_blobs(&gone[1..]).await.unwrap();
    assert_eq!(store.list_blobs(&at("")).await.unwrap(), files[..1]);
    store.delete_blobs(&files).await.unwrap();
    store.delete_blobs(&[]).await.unwrap();
    assert_eq!(store.list_blobs(&at("")).await.unwrap(), [""; 0]);
}
