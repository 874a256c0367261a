//! A man in the middle of one connection: he sees every flight that the client
//! sends, and does with it what the test says. The code under test is the real
//! one, and so is the database behind him.
//!
//! A flight is what the client sends before it has to wait: a simple Query
//! message, or extended-protocol messages up to and including Sync. Its answer
//! ends with ReadyForQuery.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

/// What is done with one flight.
#[derive(Debug)]
pub enum Action {
    /// It is delivered, and its answer too.
    Pass,
    /// The connection is cut, on both sides, before the flight arrives.
    CutBefore,
    /// The flight is delivered and answered; the connection is cut before the
    /// answer reaches the client.
    CutAfter,
    /// The client is cut off now; the server gets the flight once it may land,
    /// and the sender is told when it has been answered.
    Late {
        /// May it land?
        land: oneshot::Receiver<()>,
        /// It was answered.
        landed: oneshot::Sender<()>,
    },
    /// The server never sees it; the client gets an error with this SQLSTATE.
    RefuseBefore(&'static str),
    /// The server executes it; the client gets an error all the same.
    RefuseAfter(&'static str),
}

/// What happens on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client has sent a flight, which waits for an action.
    Arrived(String),
    /// The server has answered the flight that was passed.
    Answered,
    /// The client's task is done (sent by the test itself).
    Done,
}

/// Texts that are replaced in statements as they are prepared.
type Rewrites = Arc<Mutex<Vec<(String, String)>>>;

/// The test's end of the wire.
pub struct Wire {
    gated: Arc<AtomicBool>,
    rewrites: Rewrites,
    backend: Arc<AtomicI32>,
    actions: mpsc::UnboundedSender<Action>,
    pub events: mpsc::UnboundedReceiver<Event>,
    pub done: mpsc::UnboundedSender<Event>,
}

impl Wire {
    /// Puts a man in the middle of two streams.
    pub fn between<C, S>(client: C, server: S) -> Wire
    where
        C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let gated = Arc::new(AtomicBool::new(false));
        let backend = Arc::new(AtomicI32::new(0));
        let (actions, to_do) = mpsc::unbounded_channel();
        let (done, events) = mpsc::unbounded_channel();
        let rewrites = Rewrites::default();
        let man = Man {
            gated: Arc::clone(&gated),
            rewrites: Arc::clone(&rewrites),
            backend: Arc::clone(&backend),
            actions: to_do,
            events: done.clone(),
        };
        tokio::spawn(async move {
            // An error means that one side has gone; the other sees it at once.
            let _ = man.work(client, server).await;
        });
        Wire {
            gated,
            rewrites,
            backend,
            actions,
            events,
            done,
        }
    }

    /// From now on every flight waits for an action.
    pub fn gate(&self) {
        self.gated.store(true, Ordering::SeqCst);
    }

    /// From now on flights pass by themselves.
    pub fn open(&self) {
        self.gated.store(false, Ordering::SeqCst);
    }

    /// From now on `from` is `to` in every statement that is prepared: what the
    /// client would send if it were written otherwise.
    pub fn rewrite(&self, from: &str, to: &str) {
        let rewrite = (from.to_owned(), to.to_owned());
        self.rewrites.lock().unwrap().push(rewrite);
    }

    /// The server's process id.
    pub fn backend(&self) -> i32 {
        self.backend.load(Ordering::SeqCst)
    }

    /// Does something with the flight that waits, or with the next one.
    pub fn act(&self, action: Action) {
        let _ = self.actions.send(action);
    }

    /// Forgets what has happened so far.
    pub fn forget(&mut self) {
        while self.events.try_recv().is_ok() {}
    }

    /// The next flight that arrives.
    pub async fn arrival(&mut self) -> String {
        loop {
            match self.events.recv().await {
                Some(Event::Arrived(flight)) => return flight,
                Some(Event::Answered) => {}
                Some(Event::Done) | None => panic!("no more flights"),
            }
        }
    }

    /// Passes flights until one ends with COMMIT, and does `action` with that.
    pub async fn strike_commit(&mut self, action: Action) {
        while !self.arrival().await.ends_with("COMMIT\0") {
            self.act(Action::Pass);
        }
        self.act(action);
    }

    /// Passes all flights before the `n`th and does `action` with that.
    pub async fn strike_nth(&mut self, n: u32, action: Action) {
        for _ in 1..n {
            self.arrival().await;
            self.act(Action::Pass);
        }
        self.arrival().await;
        self.act(action);
    }
}

struct Man {
    gated: Arc<AtomicBool>,
    rewrites: Rewrites,
    backend: Arc<AtomicI32>,
    actions: mpsc::UnboundedReceiver<Action>,
    events: mpsc::UnboundedSender<Event>,
}

impl Man {
    async fn work<C, S>(mut self, mut client: C, mut server: S) -> io::Result<()>
    where
        C: AsyncRead + AsyncWrite + Unpin,
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.start_up(&mut client, &mut server).await?;
        while let Some(flight) = read_flight(&mut client, &self.rewrites).await? {
            if flight.first() == Some(&b'X') {
                return server.write_all(&flight).await;
            }
            let action = if self.gated.load(Ordering::SeqCst) {
                let text = String::from_utf8_lossy(&flight).into_owned();
                let _ = self.events.send(Event::Arrived(text));
                match self.actions.recv().await {
                    Some(action) => action,
                    None => return Ok(()),
                }
            } else {
                Action::Pass
            };
            match action {
                Action::Pass => {
                    server.write_all(&flight).await?;
                    let answer = read_answer(&mut server).await?;
                    // Said first, or the client's next flight could overtake it.
                    let _ = self.events.send(Event::Answered);
                    client.write_all(&answer).await?;
                }
                Action::CutBefore => return Ok(()),
                Action::CutAfter => {
                    server.write_all(&flight).await?;
                    read_answer(&mut server).await?;
                    return Ok(());
                }
                Action::Late { land, landed } => {
                    drop(client);
                    let _ = land.await;
                    server.write_all(&flight).await?;
                    read_answer(&mut server).await?;
                    let _ = landed.send(());
                    return Ok(());
                }
                Action::RefuseBefore(sqlstate) => {
                    client.write_all(&refusal(sqlstate)).await?;
                }
                Action::RefuseAfter(sqlstate) => {
                    server.write_all(&flight).await?;
                    read_answer(&mut server).await?;
                    client.write_all(&refusal(sqlstate)).await?;
                }
            }
        }
        Ok(())
    }

    /// Lets both sides talk until the server is ready for the first query.
    async fn start_up<C, S>(&self, client: &mut C, server: &mut S) -> io::Result<()>
    where
        C: AsyncRead + AsyncWrite + Unpin,
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // The only message without a type byte.
        let mut startup = vec![0; 4];
        client.read_exact(&mut startup).await?;
        let length = u32::from_be_bytes([startup[0], startup[1], startup[2], startup[3]]);
        startup.resize(length as usize, 0);
        client.read_exact(&mut startup[4..]).await?;
        server.write_all(&startup).await?;
        loop {
            let message = read_message(server).await?;
            client.write_all(&message).await?;
            match message.first() {
                Some(b'Z') => return Ok(()),
                Some(b'K') => {
                    let id = [message[5], message[6], message[7], message[8]];
                    self.backend.store(i32::from_be_bytes(id), Ordering::SeqCst);
                }
                // A request for a password, or the next step of one. All of
                // them but AuthenticationOk and the last step are answered.
                Some(b'R') if !matches!(message[8], 0 | 12) => {
                    let answer = read_message(client).await?;
                    server.write_all(&answer).await?;
                }
                _ => {}
            }
        }
    }
}

/// A message with its type byte.
async fn read_message(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut message = vec![0; 5];
    from.read_exact(&mut message).await?;
    let length = u32::from_be_bytes([message[1], message[2], message[3], message[4]]);
    message.resize(1 + length as usize, 0);
    from.read_exact(&mut message[5..]).await?;
    Ok(message)
}

/// A flight; `None` when the client has hung up.
async fn read_flight(
    client: &mut (impl AsyncRead + Unpin),
    rewrites: &Rewrites,
) -> io::Result<Option<Vec<u8>>> {
    let mut flight = Vec::new();
    loop {
        match read_message(client).await {
            Ok(message) => {
                let kind = message[0];
                flight.extend(match kind {
                    b'P' => rewritten(message, &rewrites.lock().unwrap()),
                    _ => message,
                });
                if matches!(kind, b'Q' | b'S' | b'X') {
                    return Ok(Some(flight));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// A Parse message with its texts replaced.
fn rewritten(message: Vec<u8>, rewrites: &[(String, String)]) -> Vec<u8> {
    let mut body = message[5..].to_vec();
    for (from, to) in rewrites {
        let at = body
            .windows(from.len())
            .position(|at| at == from.as_bytes());
        if let Some(at) = at {
            body.splice(at..at + from.len(), to.bytes());
        }
    }
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&message[..1], &length, &body].concat()
}

async fn read_answer(server: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    loop {
        let message = read_message(server).await?;
        let kind = message[0];
        answer.extend(message);
        if kind == b'Z' {
            return Ok(answer);
        }
    }
}

/// An ErrorResponse and ReadyForQuery.
fn refusal(sqlstate: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    for (kind, value) in [
        (b'S', "ERROR"),
        (b'V', "ERROR"),
        (b'C', sqlstate),
        (b'M', "server unavailable"),
    ] {
        fields.push(kind);
        fields.extend(value.as_bytes());
        fields.push(0);
    }
    fields.push(0);
    let mut bytes = vec![b'E'];
    bytes.extend((fields.len() as u32 + 4).to_be_bytes());
    bytes.extend(fields);
    bytes.extend([b'Z', 0, 0, 0, 5, b'I']);
    bytes
}
