//! The only place that knows what time it is.
//!
//! Everything else in the fabric takes a [`Clock`] by value and asks it. There
//! are two kinds:
//!
//! - **real**: the machine's monotonic clock. Waits end within about a tenth
//!   of a millisecond of their instant: tokio's own timers round up to the next
//!   millisecond, which would bend every latency of a few milliseconds, so
//!   waits are handed to one timer thread (`precise`) that sleeps on a
//!   condition variable. No core is spun.
//! - **simulated**: a paused tokio clock on a single thread. tokio jumps to the
//!   next timer whenever nothing can run, so a simulated hour costs what its
//!   work costs. Because tokio's timers have a resolution of one millisecond
//!   the clock is *scaled*: one simulated microsecond is one tokio millisecond.
//!   Simulated time has therefore a resolution of exactly 1 us, and a run can
//!   last 2^36 us (19 hours).
//!
//! What must not happen in simulated time: a sleep or time-out that does not
//! come from here (it would not know the scale), and anything on tokio's
//! blocking pool (the clock would not advance while it runs). A clippy
//! `disallowed-methods` list keeps the first out of this workspace.

mod precise;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

/// Simulated runs begin at this instant of wall-clock time, so that signed
/// tokens and reports are the same on every run: 2026-01-01T00:00:00Z.
const SIMULATED_EPOCH_S: u64 = 1_767_225_600;

/// Tokio milliseconds per simulated microsecond.
const SCALE: u32 = 1_000;

/// An instant: the time since the origin of the clock that gave it.
///
/// Instants of different clocks must not be mixed; within one process the CLI
/// and each Lambda make one clock per runtime and pass it down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Duration);

impl Time {
    /// The origin of the clock.
    pub const ZERO: Time = Time(Duration::ZERO);

    /// The instant that lies `since_origin` after the origin.
    pub const fn from_origin(since_origin: Duration) -> Time {
        Time(since_origin)
    }

    /// Time since the clock's origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// Time from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Whole microseconds since the clock's origin.
    pub fn as_us(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(span))
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Real {
        start: std::time::Instant,
        /// From the origin to `start`.
        past: Duration,
        wall: SystemTime,
    },
    Simulated {
        origin: tokio::time::Instant,
    },
}

/// A source of time; cheap to copy, passed by value.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Kind);

impl Clock {
    /// The machine's clock; its origin is now.
    #[allow(clippy::disallowed_methods)]
    pub fn real() -> Clock {
        Clock::real_since(Duration::ZERO)
    }

    /// The machine's clock with its origin in the past, for whoever has to name
    /// instants before it was made. Such as a worker that takes over a load: it
    /// counts from the instant at which others began.
    #[allow(clippy::disallowed_methods)]
    pub fn real_since(past: Duration) -> Clock {
        Clock(Kind::Real {
            start: std::time::Instant::now(),
            past,
            wall: SystemTime::now(),
        })
    }

    /// A simulated clock; its origin is now.
    ///
    /// # Panics
    /// Outside of a runtime made by [`simulated_runtime`].
    #[allow(clippy::disallowed_methods)]
    pub fn simulated() -> Clock {
        Clock(Kind::Simulated {
            origin: tokio::time::Instant::now(),
        })
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self.0, Kind::Simulated { .. })
    }

    /// The present instant.
    #[allow(clippy::disallowed_methods)]
    pub fn now(&self) -> Time {
        match self.0 {
            Kind::Real { start, past, .. } => Time(past + start.elapsed()),
            Kind::Simulated { origin } => {
                Time(tokio::time::Instant::now().saturating_duration_since(origin) / SCALE)
            }
        }
    }

    /// The present as wall-clock time. In a simulation this is a fixed date
    /// plus the simulated time that has passed.
    pub fn wall(&self) -> SystemTime {
        match self.0 {
            Kind::Real { start, wall, .. } => wall + start.elapsed(),
            Kind::Simulated { .. } => {
                SystemTime::UNIX_EPOCH
                    + Duration::from_secs(SIMULATED_EPOCH_S)
                    + self.now().since_origin()
            }
        }
    }

    /// Waits for `span`.
    pub async fn sleep(self, span: Duration) {
        if !span.is_zero() {
            self.sleep_until(self.now() + span).await;
        }
    }

    /// Waits until `at`; returns at once when that has passed.
    pub async fn sleep_until(self, at: Time) {
        let mut timer = Timer::new(self);
        timer.set(at);
        timer.wait().await;
    }

    /// Runs `work` for at most `limit`; `None` when the limit struck first.
    pub async fn timeout<F: Future>(self, limit: Duration, work: F) -> Option<F::Output> {
        let mut timer = Timer::new(self);
        timer.set(self.now() + limit);
        tokio::select! {
            biased;
            out = work => Some(out),
            () = timer.wait() => None,
        }
    }
}

/// A timer that can be set again and again without allocating, and polled from
/// hand-written futures.
#[derive(Debug)]
pub struct Timer {
    clock: Clock,
    at: Option<Time>,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Real(Option<precise::Wait>),
    Simulated(Pin<Box<tokio::time::Sleep>>),
}

impl Timer {
    /// A timer that is not set. Polling it is pending until it is.
    #[allow(clippy::disallowed_methods)]
    pub fn new(clock: Clock) -> Timer {
        let inner = match clock.0 {
            Kind::Real { .. } => Inner::Real(None),
            Kind::Simulated { origin } => {
                Inner::Simulated(Box::pin(tokio::time::sleep_until(origin)))
            }
        };
        Timer {
            clock,
            at: None,
            inner,
        }
    }

    /// Sets the timer to `at`, replacing what it was set to.
    pub fn set(&mut self, at: Time) {
        if self.at == Some(at) {
            return;
        }
        self.at = Some(at);
        match (&mut self.inner, self.clock.0) {
            (Inner::Simulated(sleep), Kind::Simulated { origin }) => {
                sleep.as_mut().reset(origin + at.since_origin() * SCALE);
            }
            (Inner::Real(wait), _) => *wait = None,
            (Inner::Simulated(_), Kind::Real { .. }) => {}
        }
    }

    /// Ready when the set instant has come. A timer that is not set never is.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else {
            return Poll::Pending;
        };
        match (&mut self.inner, self.clock.0) {
            (Inner::Simulated(sleep), _) => sleep.as_mut().poll(cx),
            (Inner::Real(wait), Kind::Real { start, past, .. }) => wait
                .get_or_insert_with(|| {
                    let after = at.since_origin().saturating_sub(past);
                    precise::Wait::until(start + after)
                })
                .poll(cx),
            (Inner::Real(_), Kind::Simulated { .. }) => Poll::Pending,
        }
    }

    /// Waits until the set instant has come.
    pub async fn wait(&mut self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }
}

/// A single-threaded runtime whose clock is simulated; make the [`Clock`] inside.
///
/// # Errors
/// When the operating system refuses the runtime's resources.
pub fn simulated_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
}

/// A single-threaded runtime on the machine's clock, with sockets.
///
/// # Errors
/// When the operating system refuses the runtime's resources.
pub fn real_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_time_is_exact_to_the_microsecond_and_costs_nothing() {
        let runtime = simulated_runtime().unwrap();
        runtime.block_on(async {
            let clock = Clock::simulated();
            clock.sleep(Duration::from_micros(30_550)).await;
            assert_eq!(clock.now().as_us(), 30_550);
            clock.sleep(Duration::from_secs(3_600)).await;
            assert_eq!(clock.now().as_us(), 3_600_030_550);
            let struck = clock
                .timeout(Duration::from_micros(7), std::future::pending::<()>())
                .await;
            assert_eq!(struck, None);
            assert_eq!(clock.now().as_us(), 3_600_030_557);
        });
    }

    #[test]
    fn a_simulated_run_starts_at_a_fixed_date() {
        let runtime = simulated_runtime().unwrap();
        let wall = runtime.block_on(async { Clock::simulated().wall() });
        let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since, Duration::from_secs(SIMULATED_EPOCH_S));
    }

    #[test]
    fn a_timer_can_be_set_again() {
        let runtime = simulated_runtime().unwrap();
        runtime.block_on(async {
            let clock = Clock::simulated();
            let mut timer = Timer::new(clock);
            for us in [5, 12, 1_000_000] {
                timer.set(Time::from_origin(Duration::from_micros(us)));
                timer.wait().await;
                assert_eq!(clock.now().as_us(), us);
            }
        });
    }

    #[test]
    fn real_waits_never_end_early() {
        let runtime = real_runtime().unwrap();
        runtime.block_on(async {
            let clock = Clock::real();
            for us in [50, 700, 1_300, 4_000] {
                let before = clock.now();
                clock.sleep(Duration::from_micros(us)).await;
                assert!(clock.now().since(before) >= Duration::from_micros(us));
            }
        });
    }
}
