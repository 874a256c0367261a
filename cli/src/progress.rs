//! Progress on stderr: one live line where that is a terminal; where it is not,
//! a plain line per finished cell, and one every half minute while one runs.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use drive::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plan::{Cell, Plan};

/// How often the live line changes, and how often a plain one is added.
const LIVE: Duration = Duration::from_millis(500);
const PLAIN: Duration = Duration::from_secs(30);

/// The screen of one run.
pub struct Screen {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    bar: ProgressBar,
    plain: bool,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Reps that are left per cell.
    left: BTreeMap<String, u32>,
    cells_done: usize,
    cells: usize,
    /// The rep that started last.
    latest: String,
    /// Every rep that started.
    reps: Vec<Arc<Progress>>,
    /// The run has ended.
    over: bool,
}

impl State {
    fn figures(&self) -> String {
        let sum =
            |figure: fn(&Progress) -> u64| -> u64 { self.reps.iter().map(|p| figure(p)).sum() };
        let committed = sum(|p| p.committed.load(Ordering::Relaxed));
        let conflicts = sum(|p| p.conflicts.load(Ordering::Relaxed));
        let failed = sum(|p| p.failed.load(Ordering::Relaxed));
        format!("{committed} committed, {conflicts} conflicts, {failed} failed")
    }
}

impl Screen {
    /// A screen for a plan.
    pub fn new(plan: &Plan) -> Screen {
        let plain = !std::io::stderr().is_terminal();
        let reps: u32 = plan.cells.iter().map(|cell| cell.reps).sum();
        let target = if plain {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(u64::from(reps)), target);
        let style = "{pos}/{len} reps [{bar:24}] {elapsed}, {eta} left  {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        let shared = Arc::new(Shared {
            bar,
            plain,
            state: Mutex::new(State {
                left: plan.cells.iter().map(|c| (c.id.clone(), c.reps)).collect(),
                cells: plan.cells.len(),
                ..State::default()
            }),
            ended: Condvar::new(),
        });
        let ticking = Arc::clone(&shared);
        // Without a thread for it there is no live line; the run goes on.
        let ticker = std::thread::Builder::new()
            .name("progress".into())
            .spawn(move || ticking.tick())
            .ok();
        Screen { shared, ticker }
    }

    /// A rep starts; what it returns is filled while it runs.
    pub fn start(&self, cell: &Cell, rep: u32) -> Arc<Progress> {
        let progress = Arc::new(Progress::default());
        let mut state = self.shared.state();
        state.reps.push(Arc::clone(&progress));
        state.latest = format!("{} rep {} of {}", cell.id, rep + 1, cell.reps);
        progress
    }

    /// A rep of the cell has ended.
    pub fn end(&self, cell: &Cell) {
        self.shared.bar.inc(1);
        let mut state = self.shared.state();
        let Some(left) = state.left.get_mut(&cell.id) else {
            return;
        };
        *left = left.saturating_sub(1);
        if *left == 0 {
            state.cells_done += 1;
            if self.shared.plain {
                let (done, all, figures) = (state.cells_done, state.cells, state.figures());
                eprintln!("cell {done} of {all} done: {} ({figures} so far)", cell.id);
            }
        }
    }

    /// Takes the live line away.
    pub fn finish(mut self) {
        self.shared.state().over = true;
        self.shared.ended.notify_all();
        if let Some(ticker) = self.ticker.take() {
            // It only draws; whatever became of it, the run's result stands.
            let _ = ticker.join();
        }
        self.shared.bar.finish_and_clear();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws until the run is over.
    fn tick(&self) {
        let every = if self.plain { PLAIN } else { LIVE };
        let mut state = self.state();
        loop {
            let waited = self.ended.wait_timeout(state, every);
            let (locked, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            state = locked;
            if state.over {
                return;
            }
            if timed_out.timed_out() {
                let line = format!("{}: {}", state.latest, state.figures());
                if self.plain {
                    eprintln!("{line}");
                } else {
                    self.bar.set_message(line);
                    self.bar.tick();
                }
            }
        }
    }
}
