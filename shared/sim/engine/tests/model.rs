//! Random small transactions against a naive model of snapshot isolation with
//! first committer wins: whole copies of the data, and a list of what every
//! commit did. Everything goes through SQL.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Answer, Client};
use fabric_engine::{Engine, Limits};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const SEEDS: u64 = 10_000;
/// Seeds that share a database, so that old versions have to be collected.
const SEEDS_PER_ENGINE: u64 = 100;
const KEYS: u64 = 4;

/// Value and unique code of a row.
type Row = (i64, Option<i64>);
type Data = BTreeMap<i64, Row>;

/// What a commit did, as later ones have to know.
#[derive(Default)]
struct Commit {
    written: BTreeSet<i64>,
    key_changed: BTreeSet<i64>,
    locked: BTreeSet<i64>,
    shared: BTreeSet<i64>,
    added: BTreeSet<i64>,
}

#[derive(Default)]
struct Model {
    data: Data,
    commits: Vec<Commit>,
}

struct Txn {
    base: Data,
    view: Data,
    began: usize,
    touched: BTreeSet<i64>,
    key_changed: BTreeSet<i64>,
    locked: BTreeSet<i64>,
    shared: BTreeSet<i64>,
    failed: bool,
}

impl Model {
    fn begin(&self) -> Txn {
        Txn {
            base: self.data.clone(),
            view: self.data.clone(),
            began: self.commits.len(),
            touched: BTreeSet::new(),
            key_changed: BTreeSet::new(),
            locked: BTreeSet::new(),
            shared: BTreeSet::new(),
            failed: false,
        }
    }

    /// Whether it commits.
    fn commit(&mut self, txn: Txn) -> bool {
        let added: BTreeSet<i64> = txn
            .touched
            .iter()
            .filter_map(|key| {
                let now = txn.view.get(key)?.1?;
                let before = txn.base.get(key).and_then(|row| row.1);
                (before != Some(now)).then_some(now)
            })
            .collect();
        let meet = |a: &BTreeSet<i64>, b: &BTreeSet<i64>| !a.is_disjoint(b);
        let loses = self.commits[txn.began..].iter().any(|other| {
            meet(&txn.touched, &other.written)
                || meet(&txn.touched, &other.locked)
                || meet(&txn.key_changed, &other.shared)
                || meet(&txn.locked, &other.written)
                || meet(&txn.locked, &other.locked)
                || meet(&txn.locked, &other.shared)
                || meet(&txn.shared, &other.key_changed)
                || meet(&txn.shared, &other.locked)
                || meet(&added, &other.added)
        });
        if loses {
            return false;
        }
        let mut commit = Commit {
            locked: txn.locked,
            shared: txn.shared,
            added,
            ..Commit::default()
        };
        for key in &txn.touched {
            let (before, now) = (txn.base.get(key), txn.view.get(key));
            if before.is_none() && now.is_none() {
                continue;
            }
            commit.written.insert(*key);
            if txn.key_changed.contains(key) {
                commit.key_changed.insert(*key);
            }
            match now {
                Some(row) => self.data.insert(*key, *row),
                None => self.data.remove(key),
            };
        }
        self.commits.push(commit);
        true
    }
}

impl Txn {
    fn code_taken(&self, code: Option<i64>, by_other_than: i64) -> bool {
        code.is_some()
            && self
                .view
                .iter()
                .any(|(key, row)| *key != by_other_than && row.1 == code)
    }

    /// Each is: how many rows, or the duplicate that it ends with.
    fn insert(&mut self, key: i64, row: Row) -> Result<usize, ()> {
        if self.view.contains_key(&key) || self.code_taken(row.1, key) {
            return Err(());
        }
        self.touched.insert(key);
        self.view.insert(key, row);
        Ok(1)
    }

    fn update(&mut self, key: i64, row: Row) -> Result<usize, ()> {
        let Some(old) = self.view.get(&key).copied() else {
            return Ok(0);
        };
        if self.code_taken(row.1, key) {
            return Err(());
        }
        self.touched.insert(key);
        if old.1 != row.1 {
            self.key_changed.insert(key);
        }
        self.view.insert(key, row);
        Ok(1)
    }

    fn delete(&mut self, key: i64) -> usize {
        if self.view.remove(&key).is_none() {
            return 0;
        }
        self.touched.insert(key);
        self.key_changed.insert(key);
        1
    }

    fn rename(&mut self, key: i64, to: i64) -> Result<usize, ()> {
        let Some(row) = self.view.get(&key).copied() else {
            return Ok(0);
        };
        if key == to {
            self.touched.insert(key);
            return Ok(1);
        }
        if self.view.contains_key(&to) {
            return Err(());
        }
        self.view.remove(&key);
        self.view.insert(to, row);
        self.touched.extend([key, to]);
        self.key_changed.extend([key, to]);
        Ok(1)
    }
}

struct World {
    rng: ChaCha8Rng,
    seed: u64,
    log: Vec<String>,
}

impl World {
    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    fn key(&mut self) -> i64 {
        self.below(KEYS) as i64 + 1
    }

    fn code(&mut self) -> Option<i64> {
        let n = self.below(6) as i64;
        (n > 0).then_some(n)
    }

    fn send(&mut self, client: &mut Client, at: usize, sql: &str) -> Answer {
        let answer = client.extended(sql);
        let end = match &answer.result {
            Ok(done) => format!("{} {:?}", done.tag, answer.text_rows()),
            Err(error) => format!("{} {}", error.sqlstate, error.message),
        };
        self.log.push(format!("{at}: {sql} -> {end}"));
        answer
    }

    #[track_caller]
    fn same<T: PartialEq + std::fmt::Debug>(&self, got: T, want: T) {
        assert_eq!(got, want, "seed {}:\n{}", self.seed, self.log.join("\n"));
    }
}

fn text(code: Option<i64>) -> String {
    code.map_or("NULL".to_owned(), |code| code.to_string())
}

fn shown<'d>(rows: impl Iterator<Item = (&'d i64, &'d Row)>) -> Vec<Vec<Option<String>>> {
    rows.map(|(key, (value, code))| {
        vec![
            Some(key.to_string()),
            Some(value.to_string()),
            code.map(|code| code.to_string()),
        ]
    })
    .collect()
}

/// One step of one session, in the database and in the model.
fn step(
    world: &mut World,
    model: &mut Model,
    client: &mut Client,
    txn: &mut Option<Txn>,
    at: usize,
) {
    if txn.is_none() && world.below(3) > 0 {
        world.send(client, at, "BEGIN").result.unwrap();
        *txn = Some(model.begin());
        return;
    }
    let ends = world.below(12);
    if ends < 3
        && let Some(open) = txn.take()
    {
        if ends < 2 && !open.failed {
            let answer = world.send(client, at, "COMMIT");
            let want = model.commit(open);
            world.same(answer.result.is_ok(), want);
        } else {
            world.send(client, at, "ROLLBACK").result.unwrap();
        }
        return;
    }
    // Outside of a block a statement is a transaction of its own.
    let implicit = txn.is_none();
    let mut open = txn.take().unwrap_or_else(|| model.begin());
    let (key, code) = (world.key(), world.code());
    let other = world.key();
    let value = world.below(4) as i64;
    let mut rows: Option<Vec<Vec<Option<String>>>> = None;
    let mut counted: Result<usize, ()> = Ok(0);
    // A failed block answers everything alike; nothing happens in the model.
    let dead = open.failed;
    let sql = match world.below(13) {
        0 => {
            rows = Some(shown(open.view.iter()));
            "SELECT k, v, u FROM t ORDER BY k".to_owned()
        }
        1 => {
            rows = Some(shown(open.view.get_key_value(&key).into_iter()));
            format!("SELECT k, v, u FROM t WHERE k = {key}")
        }
        2 => {
            rows = Some(shown(open.view.range(key..).rev()));
            format!("SELECT k, v, u FROM t WHERE k >= {key} ORDER BY k DESC")
        }
        3 => {
            let found = open
                .view
                .iter()
                .filter(|(_, row)| row.1 == code && code.is_some());
            rows = Some(shown(found));
            format!("SELECT k, v, u FROM t WHERE u = {} ORDER BY k", text(code))
        }
        4 => {
            rows = Some(shown(open.view.iter().filter(|(_, row)| row.0 == value)));
            format!("SELECT k, v, u FROM t WHERE v = {value} ORDER BY k")
        }
        5 | 6 => {
            if !dead {
                counted = open.insert(key, (value, code));
            }
            format!("INSERT INTO t VALUES ({key}, {value}, {})", text(code))
        }
        7 => {
            if !dead {
                let old = open.view.get(&key).copied();
                counted = open.update(key, (value, old.and_then(|row| row.1)));
            }
            format!("UPDATE t SET v = {value} WHERE k = {key}")
        }
        8 => {
            if !dead {
                let old = open.view.get(&key).copied();
                counted = open.update(key, (old.map_or(0, |row| row.0), code));
            }
            format!("UPDATE t SET u = {} WHERE k = {key}", text(code))
        }
        9 => {
            if !dead {
                let keys: Vec<i64> = open
                    .view
                    .iter()
                    .filter(|(_, row)| row.0 == value)
                    .map(|(key, _)| *key)
                    .collect();
                for key in &keys {
                    let old = open.view[key];
                    open.update(*key, (old.0 + 1, old.1)).unwrap();
                }
                counted = Ok(keys.len());
            }
            format!("UPDATE t SET v = v + 1 WHERE v = {value}")
        }
        10 => {
            if !dead {
                counted = Ok(open.delete(key));
            }
            format!("DELETE FROM t WHERE k = {key}")
        }
        11 => {
            if !dead {
                counted = open.rename(key, other);
            }
            format!("UPDATE t SET k = {other} WHERE k = {key}")
        }
        _ => {
            let share = value % 2 == 0;
            if open.view.contains_key(&key) && !dead {
                if share {
                    open.shared.insert(key);
                } else {
                    open.locked.insert(key);
                }
            }
            rows = Some(shown(open.view.get_key_value(&key).into_iter()));
            let lock = if share { "KEY SHARE" } else { "UPDATE" };
            format!("SELECT k, v, u FROM t WHERE k = {key} FOR {lock}")
        }
    };
    let answer = world.send(client, at, &sql);
    if dead {
        world.same(
            answer.result.as_ref().err().map(|e| e.sqlstate),
            Some("25P02"),
        );
    } else if let Some(rows) = rows {
        world.same(answer.text_rows(), rows);
    } else {
        match counted {
            Ok(count) => {
                let tag = answer.result.as_ref().map(|done| done.tag.clone());
                let got = tag
                    .ok()
                    .and_then(|tag| tag.rsplit(' ').next()?.parse().ok());
                world.same(got, Some(count));
            }
            Err(()) => {
                world.same(
                    answer.result.as_ref().err().map(|e| e.sqlstate),
                    Some("23505"),
                );
                open.failed = true;
            }
        }
    }
    if !implicit {
        *txn = Some(open);
    } else if !open.failed {
        // Nothing can have come in between.
        assert!(model.commit(open));
    }
}

#[test]
fn no_difference_from_the_model() {
    let mut conflicts = 0;
    let mut engine = None;
    for seed in 0..SEEDS {
        if seed % SEEDS_PER_ENGINE == 0 {
            let fresh = Engine::new(Limits::default());
            let mut client = Client::new(&fresh);
            client.ok("CREATE TABLE t (k int PRIMARY KEY, v int NOT NULL, u int UNIQUE)");
            client.ok("CREATE INDEX ASYNC t_v ON t (v)");
            engine = Some(fresh);
        }
        let Some(engine) = &engine else { continue };
        let mut world = World {
            rng: ChaCha8Rng::seed_from_u64(seed),
            seed,
            log: Vec::new(),
        };
        let mut model = Model::default();
        let sessions = 2 + world.below(3) as usize;
        let mut clients: Vec<Client> = (0..sessions).map(|_| Client::new(engine)).collect();
        for client in &mut clients {
            // The index is valid by then.
            client.now_us = 2_000_000;
        }
        clients[0].ok("DELETE FROM t");
        for key in 1..=3 {
            clients[0].ok(&format!("INSERT INTO t VALUES ({key}, {}, {key})", key % 2));
            model.data.insert(key, (key % 2, Some(key)));
        }
        let mut txns: Vec<Option<Txn>> = (0..sessions).map(|_| None).collect();
        let lost = engine.meter().conflicts;
        for _ in 0..40 {
            let at = world.below(sessions as u64) as usize;
            step(&mut world, &mut model, &mut clients[at], &mut txns[at], at);
        }
        conflicts += engine.meter().conflicts - lost;
        drop(clients);
        let mut last = Client::new(engine);
        last.now_us = 2_000_000;
        let answer = world.send(&mut last, 9, "SELECT k, v, u FROM t ORDER BY k");
        world.same(answer.text_rows(), shown(model.data.iter()));
    }
    // The check means nothing unless there was something to adjudicate.
    assert!(conflicts > SEEDS / 10, "only {conflicts} conflicts");
    println!("{conflicts} conflicts in {SEEDS} seeds");
}
