//! Every interleaving of two appends, flight by flight.
//!
//! Two writers each make one attempt on the same stream. A schedule says whose
//! flight is delivered next; all schedules are tried. Afterwards the chain must
//! verify against what the two were told, the loser must be able to commit, and
//! the chain must verify again.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::{AppendParams, Isolation, Trips};
use target::Conn;
use workload::append::{Append, Operation, verify_streams};
use workload::{Attempt, AttemptEnd, Claim, Said, Workload};

use crate::backend::{Backend, Client, assert_ok, on_every_backend, params};
use crate::whole::ALL_TRIPS;
use crate::wire::{Action, Event, Wire};

/// What a writer knows of the head before its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// Nothing.
    None,
    /// The present head.
    Fresh,
    /// A head that others have moved since.
    Behind,
    /// A head that the stream does not have: as if the database had been put
    /// back to an earlier state after the commit.
    Ahead,
}

/// One of the two.
#[derive(Clone, Copy, Debug)]
struct Side {
    trips: Trips,
    batch: u32,
    memory: Memory,
}

/// Flights of an attempt, at most and without a ROLLBACK.
fn flights(side: Side) -> usize {
    match (side.trips, side.memory) {
        (Trips::Stepwise, _) => 5,
        (Trips::Pipelined, _) => 2,
        (Trips::Sticky, Memory::None) => 2,
        (Trips::Sticky, _) => 1,
    }
}

/// All orders of `a` and `b` turns; `true` is the first one's.
fn schedules(a: usize, b: usize) -> Vec<Vec<bool>> {
    if a == 0 && b == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (turn, left) in [(true, a), (false, b)] {
        if left > 0 {
            let (a, b) = if turn { (a - 1, b) } else { (a, b - 1) };
            for mut rest in schedules(a, b) {
                rest.insert(0, turn);
                all.push(rest);
            }
        }
    }
    all
}

/// A writer whose flights are delivered one at a time.
struct Stepped<'a> {
    backend: &'a Backend,
    monitor: &'a Conn,
    wire: &'a mut Wire,
    /// A flight was delivered and not answered yet.
    outstanding: bool,
    done: bool,
}

impl Stepped<'_> {
    /// Delivers the next flight and waits until it is answered or blocked.
    async fn step(&mut self) {
        while !self.done {
            match self.event().await {
                None => return,
                Some(Event::Arrived(_)) => {
                    self.wire.act(Action::Pass);
                    self.outstanding = true;
                }
                Some(Event::Answered) => {
                    self.outstanding = false;
                    return;
                }
                Some(Event::Done) => self.done = true,
            }
        }
    }

    /// The next event; `None` when the flight under way is blocked.
    async fn event(&mut self) -> Option<Event> {
        let limit = Duration::from_millis(2);
        loop {
            let event = self.wire.events.recv();
            match self.backend.clock.timeout(limit, event).await {
                Some(event) => return Some(event.expect("the man is at work")),
                None if self.outstanding
                    && self.backend.locks
                    && self.backend.is_blocked(self.monitor, self.wire).await =>
                {
                    return None;
                }
                None => {}
            }
        }
    }
}

/// Delivers flights in the order of the schedule; then the rest by turns.
async fn deliver(a: &mut Stepped<'_>, b: &mut Stepped<'_>, schedule: &[bool]) {
    for &turn in schedule {
        if turn { a.step().await } else { b.step().await }
    }
    while !(a.done && b.done) {
        a.step().await;
        b.step().await;
    }
}

struct Scene<'a> {
    backend: &'a Backend,
    monitor: Conn,
    isolation: Isolation,
}

/// How attempts ended, by SQLSTATE where there was one. A test of races that
/// nobody lost would prove nothing.
type Tally = BTreeMap<String, u32>;

impl Scene<'_> {
    fn append(&self, side: Side, id_base: i64) -> Append {
        let params = AppendParams {
            writers: 4,
            batch: side.batch,
            ..params(side.trips, self.isolation)
        };
        Append::new(&params, id_base, 7, self.backend.clock)
    }

    /// Plays one schedule on a stream of its own.
    async fn play(
        &self,
        clients: &mut [Client; 3],
        sides: [Side; 2],
        schedule: &[bool],
        tally: &mut Tally,
    ) {
        let what = format!("{sides:?} at {:?}, {schedule:?}", self.isolation);
        let id_base = self.backend.id_base();
        let [a, b, helper] = clients;
        for (client, side, index) in [(&mut *a, sides[0], 0), (&mut *b, sides[1], 1)] {
            client.workload = self.append(side, id_base);
            client.writer = client.workload.writer(index);
        }
        helper.workload = self.append(sides[0], id_base);
        helper.writer = helper.workload.writer(2);
        helper.workload.prepare(&helper.conn).await.unwrap();

        // Whoever is to be ahead commits first, and the stream is put back.
        let mut n = [0, 0, 0];
        let mut claims = Vec::new();
        for (client, i) in [(&mut *a, 0), (&mut *b, 1)] {
            if sides[i].memory == Memory::Ahead {
                let mut operation = client.operation(n[i]);
                client.commit(&mut operation).await;
                n[i] += 1;
                self.put_back(helper).await;
            }
        }
        // Whoever is to be behind commits now, and the helper after him.
        for memory in [Memory::Behind, Memory::Fresh] {
            for (client, i) in [(&mut *a, 0), (&mut *b, 1)] {
                if sides[i].memory == memory {
                    let mut operation = client.operation(n[i]);
                    claims.push(client.commit(&mut operation).await);
                    n[i] += 1;
                }
            }
            if memory == Memory::Behind {
                let mut operation = helper.operation(n[2]);
                claims.push(helper.commit(&mut operation).await);
                n[2] += 1;
            }
        }

        let mut operations = [a.operation(n[0]), b.operation(n[1])];
        let [first, second] = &mut operations;
        let ends = self
            .race((&mut *a, first), (&mut *b, second), schedule)
            .await;
        let mut after = claims.clone();
        for ((client, operation), end) in [(&*a, &operations[0]), (&*b, &operations[1])]
            .into_iter()
            .zip(&ends)
        {
            after.push(match &end.end {
                AttemptEnd::Committed => {
                    *tally.entry("committed".to_owned()).or_default() += 1;
                    client.workload.claim(operation, Said::Committed)
                }
                AttemptEnd::Failed(failure) if failure.is_conflict() => {
                    let state = failure.sqlstate.as_deref().unwrap_or("no row touched");
                    *tally.entry(state.to_owned()).or_default() += 1;
                    client.workload.claim(operation, Said::Failed)
                }
                end => panic!("{what}: {end:?}"),
            });
        }
        self.check(&after, sides, id_base, &what).await;

        // Nobody is stuck: the loser commits at last.
        let [first, second] = &mut operations;
        for ((client, operation), end) in [(a, first), (b, second)].into_iter().zip(&ends) {
            claims.push(match end.end {
                AttemptEnd::Committed => client.workload.claim(operation, Said::Committed),
                _ => client.commit(operation).await,
            });
        }
        self.check(&claims, sides, id_base, &what).await;
        helper.workload.clean(&helper.conn).await.unwrap();
    }

    /// Empties the stream behind everybody's back.
    async fn put_back(&self, helper: &Client) {
        helper.workload.clean(&helper.conn).await.unwrap();
        helper.workload.prepare(&helper.conn).await.unwrap();
    }

    async fn race(
        &self,
        (a, first): (&mut Client, &mut Operation),
        (b, second): (&mut Client, &mut Operation),
        schedule: &[bool],
    ) -> [Attempt; 2] {
        let stepped = |wire| Stepped {
            backend: self.backend,
            monitor: &self.monitor,
            wire,
            outstanding: false,
            done: false,
        };
        a.wire.gate();
        b.wire.gate();
        let (done_a, done_b) = (a.wire.done.clone(), b.wire.done.clone());
        let mut step_a = stepped(&mut a.wire);
        let mut step_b = stepped(&mut b.wire);
        let attempt =
            async |append: &Append,
                   conn,
                   session,
                   writer,
                   operation,
                   done: tokio::sync::mpsc::UnboundedSender<Event>| {
                let attempt = append.attempt(conn, session, writer, operation).await;
                let _ = done.send(Event::Done);
                attempt
            };
        let (first, second, ()) = tokio::join!(
            attempt(
                &a.workload,
                &a.conn,
                &a.session,
                &mut a.writer,
                first,
                done_a
            ),
            attempt(
                &b.workload,
                &b.conn,
                &b.session,
                &mut b.writer,
                second,
                done_b
            ),
            deliver(&mut step_a, &mut step_b, schedule),
        );
        a.wire.open();
        b.wire.open();
        [first, second]
    }

    /// Verifies claims of two workloads that differ in their batches.
    async fn check(&self, claims: &[Claim], sides: [Side; 2], id_base: i64, what: &str) {
        if sides[0].batch == sides[1].batch {
            let append = self.append(sides[0], id_base);
            assert_ok(
                &append.verify(&self.monitor, claims, &[]).await.unwrap(),
                what,
            );
            return;
        }
        // One side's deal does not know the other's lengths: the chain is
        // checked without the claims, and the claims by themselves.
        let id = self.append(sides[0], id_base).stream_id(0);
        let verified = verify_streams(&self.monitor, &[id], self.backend.clock).await;
        assert_ok(&verified.unwrap(), what);
        let rows = self
            .monitor
            .client
            .query(
                "SELECT seq, payload FROM records WHERE stream_id = $1 ORDER BY seq",
                &[&id],
            )
            .await
            .unwrap();
        let there: Vec<(i64, u64)> = rows
            .iter()
            .map(|row| {
                let payload: &[u8] = row.get(1);
                (
                    row.get(0),
                    u64::from_be_bytes(payload[..8].try_into().unwrap()),
                )
            })
            .collect();
        let mut expected = 0;
        for claim in claims {
            let seqs: Vec<i64> = there
                .iter()
                .filter(|(_, op)| *op == claim.op)
                .map(|(seq, _)| *seq)
                .collect();
            // Writer 1 is the second side; the helper appends as the first does.
            let batch = sides[usize::from(claim.op >> 32 == 1)].batch as usize;
            match claim.said {
                Said::Committed => {
                    assert_eq!(
                        seqs.first(),
                        claim.at.map(|(_, seq)| seq).as_ref(),
                        "{what}"
                    );
                    assert_eq!(seqs.len(), batch, "{what}");
                    expected += batch;
                }
                Said::Failed | Said::Unknown => assert!(seqs.is_empty(), "{what}"),
            }
        }
        assert_eq!(there.len(), expected, "{what}");
    }
}

/// Plays all schedules of two sides at every level.
async fn play_all(backend: &Backend, pairs: &[[Side; 2]]) {
    // Sessions need the tables, whichever test comes first.
    backend
        .append(params(Trips::Sticky, Isolation::RepeatableRead))
        .await;
    for &isolation in &backend.levels {
        let (monitor, _wire) = backend.connect().await;
        let scene = Scene {
            backend,
            monitor,
            isolation,
        };
        for &sides in pairs {
            let id_base = backend.id_base();
            let mut clients = [
                Client::open(backend, &scene.append(sides[0], id_base), 0).await,
                Client::open(backend, &scene.append(sides[1], id_base), 1).await,
                Client::open(backend, &scene.append(sides[0], id_base), 2).await,
            ];
            let mut tally = Tally::new();
            let all = schedules(flights(sides[0]), flights(sides[1]));
            for schedule in &all {
                scene.play(&mut clients, sides, schedule, &mut tally).await;
            }
            let committed = tally.get("committed").copied().unwrap_or_default() as usize;
            println!("{isolation:?}: {} of {sides:?}: {tally:?}", all.len());
            let stale = |side: &Side| matches!(side.memory, Memory::Behind | Memory::Ahead);
            assert!(committed > 0 || sides.iter().all(stale), "nobody ever won");
            assert!(committed < 2 * all.len(), "nobody ever lost");
        }
    }
}

fn side(trips: Trips, batch: u32, memory: Memory) -> Side {
    Side {
        trips,
        batch,
        memory,
    }
}

#[test]
fn there_are_as_many_schedules_as_there_should_be() {
    assert_eq!(schedules(5, 5).len(), 252);
    assert_eq!(schedules(5, 2).len(), 21);
    assert_eq!(schedules(1, 1), [[true, false], [false, true]]);
}

#[test]
fn every_pair_of_trips() {
    on_every_backend(async |backend| {
        let mut pairs = Vec::new();
        for (i, first) in ALL_TRIPS.into_iter().enumerate() {
            for second in ALL_TRIPS.into_iter().skip(i) {
                for (one, other) in [(1, 1), (2, 2), (3, 3)] {
                    let long = first == Trips::Stepwise && second == Trips::Stepwise;
                    if long && one > 1 && backend.locks {
                        // 252 each, with waits: one length is enough there.
                        continue;
                    }
                    pairs.push([
                        side(first, one, Memory::None),
                        side(second, other, Memory::None),
                    ]);
                }
            }
        }
        play_all(backend, &pairs).await;
    });
}

#[test]
fn batches_of_different_lengths() {
    on_every_backend(async |backend| {
        let mut pairs = Vec::new();
        for first in [Trips::Pipelined, Trips::Sticky, Trips::Stepwise] {
            for second in ALL_TRIPS {
                if first == Trips::Stepwise && (second != first || backend.locks) {
                    // The other way round was played, and two of these take long
                    // where they wait for each other.
                    continue;
                }
                for (one, other) in [(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)] {
                    pairs.push([
                        side(first, one, Memory::None),
                        side(second, other, Memory::None),
                    ]);
                }
            }
        }
        play_all(backend, &pairs).await;
    });
}

#[test]
fn remembered_heads_behind_and_ahead() {
    on_every_backend(async |backend| {
        let mut pairs = Vec::new();
        for memory in [Memory::Fresh, Memory::Behind, Memory::Ahead] {
            for batch in 1..=3 {
                for second in ALL_TRIPS {
                    pairs.push([
                        side(Trips::Sticky, batch, memory),
                        side(second, batch, Memory::None),
                    ]);
                }
                for other in [Memory::Fresh, Memory::Behind, Memory::Ahead] {
                    pairs.push([
                        side(Trips::Sticky, batch, memory),
                        side(Trips::Sticky, batch, other),
                    ]);
                }
            }
        }
        play_all(backend, &pairs).await;
    });
}
