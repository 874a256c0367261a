//! Waits finer than a millisecond, without spinning: one thread per process
//! sleeps on a condition variable until the earliest deadline and wakes the
//! tasks whose time has come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

static TIMERS: LazyLock<&'static Timers> = LazyLock::new(Timers::start);

/// One pending wait; dropping it before its time leaves an entry behind that
/// wakes nobody.
#[derive(Debug)]
pub(crate) struct Wait {
    at: Instant,
    shared: Option<Arc<Mutex<Option<Waker>>>>,
}

impl Wait {
    pub(crate) fn until(at: Instant) -> Wait {
        Wait { at, shared: None }
    }

    #[allow(clippy::disallowed_methods)]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.at {
            return Poll::Ready(());
        }
        match &self.shared {
            Some(waker) => *lock(waker) = Some(cx.waker().clone()),
            None => {
                let waker = Arc::new(Mutex::new(Some(cx.waker().clone())));
                self.shared = Some(Arc::clone(&waker));
                TIMERS.add(self.at, waker);
            }
        }
        // The thread may have taken an older waker between the check above
        // and the store: look at the time once more rather than miss it.
        if Instant::now() >= self.at {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(waker) = &self.shared {
            lock(waker).take();
        }
    }
}

struct Entry {
    at: Instant,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.at == other.at
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

struct Timers {
    heap: Mutex<BinaryHeap<Reverse<Entry>>>,
    earlier: Condvar,
}

impl Timers {
    fn start() -> &'static Timers {
        let timers: &'static Timers = Box::leak(Box::new(Timers {
            heap: Mutex::new(BinaryHeap::new()),
            earlier: Condvar::new(),
        }));
        std::thread::Builder::new()
            .name("timers".into())
            .spawn(move || timers.run())
            .expect("the operating system refuses a thread for timers");
        timers
    }

    fn add(&self, at: Instant, waker: Arc<Mutex<Option<Waker>>>) {
        let mut heap = lock(&self.heap);
        let first = heap.peek().is_none_or(|Reverse(entry)| at < entry.at);
        heap.push(Reverse(Entry { at, waker }));
        drop(heap);
        if first {
            self.earlier.notify_one();
        }
    }

    #[allow(clippy::disallowed_methods)]
    fn run(&self) {
        let mut heap = lock(&self.heap);
        loop {
            let now = Instant::now();
            match heap.peek() {
                None => {
                    heap = self
                        .earlier
                        .wait(heap)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                Some(Reverse(entry)) if entry.at > now => {
                    let left = entry.at - now;
                    heap = self
                        .earlier
                        .wait_timeout(heap, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
                Some(_) => {
                    if let Some(Reverse(due)) = heap.pop() {
                        let waker = lock(&due.waker).take();
                        if let Some(waker) = waker {
                            waker.wake();
                        }
                    }
                }
            }
        }
    }
}

/// A panic while holding one of these locks leaves the data as valid as it
/// was, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
