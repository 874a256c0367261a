//! The protocol by itself, checked in every state that it can reach: two
//! clients, three appends, answers that are lost, and COMMITs that land late or
//! never.
//!
//! A transaction is one message here: it commits or not at the moment it lands.
//! (That its statements cannot come apart is what the interleavings on real
//! databases are for.) A batch is one record, since its records stand or fall
//! together. A hash is modelled by what it stands for: all records up to there.

use std::collections::{BTreeSet, HashSet};

/// The records of a chain up to a place, and so its hash: one octal digit each,
/// behind a leading 1. Small, because there will be a great many.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Prefix(u64);

impl Prefix {
    const EMPTY: Prefix = Prefix(1);

    fn with(self, append: u8) -> Prefix {
        assert!(self.len() < 20, "no run is this long");
        Prefix(self.0 << 3 | u64::from(append))
    }

    fn len(self) -> u32 {
        self.0.ilog2() / 3
    }

    /// The first so many records.
    fn first(self, len: u32) -> Prefix {
        Prefix(self.0 >> (3 * (self.len() - len)))
    }

    fn count(self, append: u8) -> usize {
        (0..self.len())
            .filter(|place| self.0 >> (3 * place) & 7 == u64::from(append))
            .count()
    }
}

/// Appends of each client, by number.
const APPENDS: [&[u8]; 2] = [&[1, 2], &[3]];

/// Attempts of one append.
const ATTEMPTS: u8 = 2;

/// What the protocol does; each false field is a mistake.
#[derive(Clone, Copy)]
struct Protocol {
    /// While the slot is empty, only the same record is sent again.
    same_while_empty: bool,
    /// The guard compares the head's hash, not its seq alone.
    guard_by_hash: bool,
    /// Only a confirmed head is remembered.
    confirmed_heads: bool,
    /// What ends in doubt is not called failed.
    honest: bool,
}

const RIGHT: Protocol = Protocol {
    same_while_empty: true,
    guard_by_hash: true,
    confirmed_heads: true,
    honest: true,
};

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Message {
    client: usize,
    append: u8,
    guard: Prefix,
    /// The client still waits for its answer.
    awaited: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// May send, or must read first.
    Ready,
    /// Has sent.
    Waiting,
    /// Must look up.
    InDoubt,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Client {
    phase: Phase,
    /// Index of the append at work.
    at: usize,
    attempts: u8,
    /// The head that the attempts in doubt were built on.
    doubt: Option<Prefix>,
    /// The head that is known: read, or remembered.
    known: Option<Prefix>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Told {
    Committed,
    Failed,
    Unknown,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    chain: Prefix,
    /// On their way, sorted: which was sent first makes no difference.
    messages: Vec<Message>,
    clients: [Client; 2],
    /// What was reported, by append; 0 is nobody's.
    told: [Option<Told>; 4],
    forked: bool,
}

impl State {
    fn start() -> State {
        let client = Client {
            phase: Phase::Ready,
            at: 0,
            attempts: 0,
            doubt: None,
            known: None,
        };
        State {
            chain: Prefix::EMPTY,
            messages: Vec::new(),
            clients: [client, client],
            told: [None; 4],
            forked: false,
        }
    }

    fn append_of(&self, who: usize) -> u8 {
        APPENDS[who][self.clients[who].at]
    }

    fn wrong(&self) -> Option<&'static str> {
        if self.forked {
            return Some(FORKED);
        }
        for append in 1..4u8 {
            match (self.chain.count(append), self.told[usize::from(append)]) {
                (2.., _) => return Some(TWICE),
                (0, Some(Told::Committed)) => return Some("a committed record is not there"),
                (1, Some(Told::Failed)) => return Some(NOT_FAILED),
                _ => {}
            }
        }
        None
    }

    /// Ends the append at work.
    fn end(&mut self, who: usize, told: Told, known: Option<Prefix>) {
        self.told[usize::from(self.append_of(who))] = Some(told);
        let client = &mut self.clients[who];
        client.at += 1;
        client.attempts = 0;
        client.doubt = None;
        client.known = known;
        client.phase = if client.at < APPENDS[who].len() {
            Phase::Ready
        } else {
            Phase::Done
        };
    }

    /// Every state that can follow.
    fn next(&self, protocol: Protocol) -> Vec<State> {
        let mut all = Vec::new();
        for who in 0..2 {
            self.client_moves(who, protocol, &mut all);
        }
        for index in 0..self.messages.len() {
            self.message_moves(index, protocol, &mut all);
        }
        all
    }

    fn client_moves(&self, who: usize, protocol: Protocol, all: &mut Vec<State>) {
        let client = &self.clients[who];
        let append = self.append_of_or_none(who);
        match (client.phase, append) {
            (Phase::Ready, Some(append)) => {
                if client.attempts == ATTEMPTS {
                    let mut next = self.clone();
                    let told = match client.doubt {
                        Some(_) if protocol.honest => Told::Unknown,
                        _ => Told::Failed,
                    };
                    next.end(who, told, None);
                    all.push(next);
                    return;
                }
                let mut next = self.clone();
                let me = &mut next.clients[who];
                match client.doubt.or(client.known) {
                    None => me.known = Some(self.chain),
                    Some(guard) => {
                        me.phase = Phase::Waiting;
                        me.attempts += 1;
                        me.known = None;
                        next.messages.push(Message {
                            client: who,
                            append,
                            guard,
                            awaited: true,
                        });
                        next.messages.sort();
                    }
                }
                all.push(next);
            }
            (Phase::InDoubt, Some(append)) => {
                let mut next = self.clone();
                let slot = client.doubt.map_or(0, Prefix::len);
                let known = client.doubt.map(|guard| guard.with(append));
                if self.chain.len() > slot {
                    // The hash at the slot tells whose record it is.
                    if known == Some(self.chain.first(slot + 1)) {
                        next.end(who, Told::Committed, known);
                    } else {
                        next.clients[who].doubt = None;
                        next.clients[who].phase = Phase::Ready;
                    }
                } else {
                    if !protocol.same_while_empty {
                        next.clients[who].doubt = None;
                    }
                    next.clients[who].phase = Phase::Ready;
                }
                all.push(next);
                // A driver may also be stopped here; what it goes on with is
                // the next append.
                let mut stopped = self.clone();
                let told = if protocol.honest {
                    Told::Unknown
                } else {
                    Told::Failed
                };
                let known = known.filter(|_| !protocol.confirmed_heads);
                stopped.end(who, told, known);
                all.push(stopped);
            }
            _ => {}
        }
    }

    fn append_of_or_none(&self, who: usize) -> Option<u8> {
        APPENDS[who].get(self.clients[who].at).copied()
    }

    fn message_moves(&self, index: usize, protocol: Protocol, all: &mut Vec<State>) {
        let message = self.messages[index];
        // It lands.
        let mut landed = self.clone();
        landed.messages.remove(index);
        let fits = match protocol.guard_by_hash {
            true => self.chain == message.guard,
            false => self.chain.len() == message.guard.len(),
        };
        if fits {
            landed.forked |= self.chain != message.guard;
            landed.chain = self.chain.with(message.append);
        }
        // It gets lost.
        let mut vanished = self.clone();
        vanished.messages.remove(index);
        if !message.awaited {
            all.extend([landed, vanished]);
            return;
        }
        let who = message.client;
        let doubt = |mut state: State| {
            state.clients[who].doubt = Some(message.guard);
            state.clients[who].phase = Phase::InDoubt;
            state
        };
        // The connection goes while it is still on its way.
        let mut cut = self.clone();
        cut.messages[index].awaited = false;
        cut.messages.sort();
        all.extend([doubt(landed.clone()), doubt(vanished), doubt(cut)]);
        // The answer arrives.
        if fits {
            let head = message.guard.with(message.append);
            landed.end(who, Told::Committed, Some(head));
        } else {
            let client = &mut landed.clients[who];
            client.phase = match client.doubt {
                // It says nothing of the attempts before.
                Some(_) => Phase::InDoubt,
                None => Phase::Ready,
            };
        }
        all.push(landed);
    }
}

/// Visits every state; returns how many there are, and all that goes wrong.
fn explore(protocol: Protocol) -> (usize, BTreeSet<&'static str>) {
    let mut seen = HashSet::from([State::start()]);
    let mut open = vec![State::start()];
    let mut wrong = BTreeSet::new();
    while let Some(state) = open.pop() {
        if let Some(what) = state.wrong() {
            wrong.insert(what);
            continue;
        }
        for next in state.next(protocol) {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    (seen.len(), wrong)
}

const FORKED: &str = "a link to another record than the one before";
const TWICE: &str = "a record is there twice";
const NOT_FAILED: &str = "a failed record is there";

#[test]
fn the_protocol_is_right_in_every_state() {
    let (states, wrong) = explore(RIGHT);
    assert_eq!(wrong, BTreeSet::new());
    println!("{states} states");
    assert!(states > 10_000, "{states} states are hardly all");
}

/// The seq alone is guard enough as long as nothing but confirmed heads is
/// built on: it only grows, and a chain has one record at one seq.
#[test]
fn confirmed_heads_need_no_hash_in_the_guard() {
    let protocol = Protocol {
        guard_by_hash: false,
        ..RIGHT
    };
    assert_eq!(explore(protocol).1, BTreeSet::new());
}

#[test]
fn the_hash_in_the_guard_makes_unconfirmed_heads_harmless() {
    let protocol = Protocol {
        confirmed_heads: false,
        ..RIGHT
    };
    assert_eq!(explore(protocol).1, BTreeSet::new());
}

#[test]
fn an_unconfirmed_head_and_a_guard_by_seq_fork_the_chain() {
    let protocol = Protocol {
        guard_by_hash: false,
        confirmed_heads: false,
        ..RIGHT
    };
    assert!(explore(protocol).1.contains(FORKED));
}

#[test]
fn looking_once_and_rebuilding_puts_a_record_in_twice() {
    let protocol = Protocol {
        same_while_empty: false,
        ..RIGHT
    };
    assert!(explore(protocol).1.contains(TWICE));
}

#[test]
fn calling_a_doubt_a_failure_is_a_lie_sooner_or_later() {
    let protocol = Protocol {
        honest: false,
        ..RIGHT
    };
    assert_eq!(explore(protocol).1, BTreeSet::from([NOT_FAILED]));
}
