//! A byte stream whose two ends are a stated time apart.
//!
//! Each direction is a [`Line`]: bytes in the order in which they were sent,
//! and for every stretch of them the instant at which it arrives. Distance is a
//! property of the bytes, never a sleep per statement, so a client that sends
//! five statements in one flight pays for one flight.
//!
//! Distance is all that a line models: bandwidth, packets and loss are not. A
//! peer that has gone is noticed by *reading* the end of the stream half a round
//! trip later, as on a network, never by a write, which would know the future.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clock::{Clock, Time, Timer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that may be under way in one direction before the sender has to wait.
/// A guard of memory against a peer that never reads; larger than any message
/// that either side may send (10 MiB), so it does not shape latency.
const IN_FLIGHT_LIMIT: usize = 16 << 20;

/// One end of an in-memory connection.
#[derive(Debug)]
pub struct Pipe {
    clock: Clock,
    timer: Timer,
    incoming: Arc<Line>,
    outgoing: Arc<Line>,
    /// What this end sends needs this long to arrive.
    delay: Duration,
    /// Nothing leaves this end before this instant.
    opens: Time,
}

/// Two ends with `delay` between them each way. What the first end writes
/// before `opens` leaves at that instant: the connection is being set up.
pub(crate) fn pair(clock: Clock, delay: Duration, opens: Time) -> (Pipe, Pipe) {
    let (there, back) = (Arc::new(Line::default()), Arc::new(Line::default()));
    let near = Pipe {
        clock,
        timer: Timer::new(clock),
        incoming: Arc::clone(&back),
        outgoing: Arc::clone(&there),
        delay,
        opens,
    };
    let far = Pipe {
        clock,
        timer: Timer::new(clock),
        incoming: there,
        outgoing: back,
        delay,
        opens: Time::ZERO,
    };
    (near, far)
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Line(Mutex<Bytes>);

#[derive(Debug, Default)]
struct Bytes {
    /// Everything that is under way or has arrived and was not read yet;
    /// the first `read` of them were.
    bytes: Vec<u8>,
    read: usize,
    /// When each stretch of `bytes` arrives, in order, never decreasing.
    due: VecDeque<(Time, usize)>,
    /// The sender has ended the stream; this is when its end arrives.
    closed: Option<Time>,
    /// The receiver has gone: what is sent vanishes.
    abandoned: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Bytes> {
        // Every change below leaves the state whole, so a panic of the other
        // side's task does not make it unusable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds as much of `data` as there is room for, to arrive at `at`.
    fn send(&self, data: &[u8], at: Time, cx: &mut Context<'_>) -> Poll<usize> {
        let mut line = self.lock();
        if line.abandoned {
            return Poll::Ready(data.len());
        }
        let room = IN_FLIGHT_LIMIT.saturating_sub(line.bytes.len() - line.read);
        if room == 0 {
            line.sender = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let sent = data.len().min(room);
        if sent == 0 {
            return Poll::Ready(0);
        }
        line.bytes.extend_from_slice(&data[..sent]);
        match line.due.back_mut() {
            Some((last, length)) if *last >= at => *length += sent,
            _ => line.due.push_back((at, sent)),
        }
        let waiting = line.receiver.take();
        drop(line);
        if let Some(waker) = waiting {
            waker.wake();
        }
        Poll::Ready(sent)
    }

    /// Hands what has arrived by now to `take`, at most `most` bytes. The time
    /// is asked for only when there is something to compare it with.
    fn receive(
        &self,
        now: impl FnOnce() -> Time,
        most: usize,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]),
    ) -> Arrival {
        let mut line = self.lock();
        if line.due.is_empty() && line.closed.is_none() {
            line.receiver = Some(cx.waker().clone());
            return Arrival::Unknown;
        }
        let now = now();
        let mut ready = 0;
        while let Some((at, length)) = line.due.front_mut() {
            if *at > now || ready == most {
                break;
            }
            let part = (*length).min(most - ready);
            *length -= part;
            ready += part;
            if *length == 0 {
                line.due.pop_front();
            }
        }
        if ready > 0 {
            let from = line.read;
            take(&line.bytes[from..from + ready]);
            line.read += ready;
            // Moving what is left costs as much as it has bytes: done only
            // when at least as much has been read.
            if line.read == line.bytes.len() {
                line.bytes.clear();
                line.read = 0;
            } else if line.read * 2 > line.bytes.len() {
                let read = line.read;
                line.bytes.drain(..read);
                line.read = 0;
            }
            let waiting = line.sender.take();
            drop(line);
            if let Some(waker) = waiting {
                waker.wake();
            }
            return Arrival::Bytes(ready);
        }
        match line.due.front().map(|(at, _)| *at).or(line.closed) {
            Some(at) if at > now => Arrival::At(at),
            _ => Arrival::End,
        }
    }

    fn close(&self, at: Time) {
        let mut line = self.lock();
        if line.closed.is_none() {
            let last = line.due.back().map_or(Time::ZERO, |(last, _)| *last);
            line.closed = Some(at.max(last));
        }
        if let Some(waker) = line.receiver.take() {
            drop(line);
            waker.wake();
        }
    }

    fn abandon(&self) {
        let mut line = self.lock();
        line.abandoned = true;
        line.bytes = Vec::new();
        line.read = 0;
        line.due.clear();
        if let Some(waker) = line.sender.take() {
            drop(line);
            waker.wake();
        }
    }
}

enum Arrival {
    Bytes(usize),
    /// Something arrives at this instant.
    At(Time),
    /// Nothing is under way; the waker is kept.
    Unknown,
    End,
}

impl Pipe {
    /// Half a round trip: what this end sends arrives so much later.
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        mut take: impl FnMut(&[u8]),
    ) -> Poll<usize> {
        let mut awaited = None;
        loop {
            let now = || awaited.unwrap_or_else(|| self.clock.now());
            match self.incoming.receive(now, most, cx, &mut take) {
                Arrival::Bytes(read) => return Poll::Ready(read),
                Arrival::End => return Poll::Ready(0),
                Arrival::Unknown => return Poll::Pending,
                Arrival::At(at) => {
                    self.timer.set(at);
                    std::task::ready!(self.timer.poll(cx));
                    // The timer has said so: it is `at`, or later.
                    awaited = Some(at);
                }
            }
        }
    }

    /// Appends what has arrived to `into`; `Ready(0)` at the end of the stream.
    pub(crate) fn poll_read_into(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
    ) -> Poll<usize> {
        self.poll_receive(cx, usize::MAX, |bytes| into.extend_from_slice(bytes))
    }

    /// Sends `data` so that it leaves at `at`, which may lie ahead: the sender
    /// is busy until then and this saves it a timer of its own.
    pub(crate) async fn send_at(&mut self, mut data: &[u8], at: Time) {
        let arrives = at + self.delay;
        while !data.is_empty() {
            let sent = std::future::poll_fn(|cx| self.outgoing.send(data, arrives, cx)).await;
            data = &data[sent..];
        }
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = buf.remaining();
        if most == 0 {
            return Poll::Ready(Ok(()));
        }
        let read = self
            .get_mut()
            .poll_receive(cx, most, |bytes| buf.put_slice(bytes));
        read.map(|_| Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let leaves = self.clock.now().max(self.opens);
        let sent = self.outgoing.send(buf, leaves + self.delay, cx);
        sent.map(Ok)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let leaves = self.clock.now().max(self.opens);
        self.outgoing.close(leaves + self.delay);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let leaves = self.clock.now().max(self.opens);
        self.outgoing.close(leaves + self.delay);
        self.incoming.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn simulated(test: impl AsyncFnOnce(Clock)) {
        let runtime = clock::simulated_runtime().unwrap();
        runtime.block_on(async { test(Clock::simulated()).await });
    }

    const HALF: Duration = Duration::from_micros(10_275);

    #[test]
    fn bytes_arrive_half_a_round_trip_later_and_in_order() {
        simulated(async |clock| {
            let (mut near, mut far) = pair(clock, HALF, Time::ZERO);
            near.write_all(b"first").await.unwrap();
            clock.sleep(Duration::from_micros(1)).await;
            near.write_all(b"second").await.unwrap();
            let mut got = [0; 5];
            far.read_exact(&mut got).await.unwrap();
            assert_eq!((&got, clock.now().as_us()), (b"first", 10_275));
            let mut got = [0; 6];
            far.read_exact(&mut got).await.unwrap();
            assert_eq!((&got, clock.now().as_us()), (b"second", 10_276));
        });
    }

    #[test]
    fn what_is_sent_while_the_connection_opens_leaves_when_it_is_open() {
        simulated(async |clock| {
            let opens = Time::from_origin(Duration::from_micros(50));
            let (mut near, mut far) = pair(clock, HALF, opens);
            near.write_all(b"x").await.unwrap();
            far.read_u8().await.unwrap();
            assert_eq!(clock.now().as_us(), 50 + 10_275);
        });
    }

    #[test]
    fn an_answer_can_be_sent_ahead_of_its_time() {
        simulated(async |clock| {
            let (mut near, mut far) = pair(clock, HALF, Time::ZERO);
            let at = Time::from_origin(Duration::from_micros(700));
            far.send_at(b"answer", at).await;
            drop(far);
            let mut got = Vec::new();
            near.read_to_end(&mut got).await.unwrap();
            assert_eq!(
                (&got[..], clock.now().as_us()),
                (&b"answer"[..], 700 + 10_275)
            );
        });
    }

    #[test]
    fn a_dropped_end_is_read_as_the_end_after_all_that_was_sent() {
        simulated(async |clock| {
            let (mut near, mut far) = pair(clock, HALF, Time::ZERO);
            near.write_all(b"last words").await.unwrap();
            drop(near);
            // A write to an end that has gone vanishes.
            far.write_all(b"hello?").await.unwrap();
            let mut got = Vec::new();
            far.read_to_end(&mut got).await.unwrap();
            assert_eq!(
                (&got[..], clock.now().as_us()),
                (&b"last words"[..], 10_275)
            );
        });
    }

    #[test]
    fn a_sender_waits_when_too_much_is_under_way() {
        simulated(async |clock| {
            let (mut near, mut far) = pair(clock, HALF, Time::ZERO);
            let sending = async {
                near.write_all(&vec![7; IN_FLIGHT_LIMIT + 1]).await.unwrap();
                clock.now().as_us()
            };
            let receiving = async {
                let mut got = vec![0; IN_FLIGHT_LIMIT + 1];
                far.read_exact(&mut got).await.unwrap();
                clock.now().as_us()
            };
            let (sent, received) = tokio::join!(sending, receiving);
            assert_eq!((sent, received), (10_275, 20_550));
        });
    }
}
