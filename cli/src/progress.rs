//! Progress on stderr: one live line where that is a terminal, a plain line per
//! finished cell where it is not.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use drive::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plan::{Cell, Plan};

/// The screen of one run.
pub struct Screen {
    bar: ProgressBar,
    plain: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Reps that are left per cell.
    left: BTreeMap<String, u32>,
    cells_done: usize,
    cells: usize,
    running: Vec<Arc<Progress>>,
}

impl Screen {
    /// A screen for a plan.
    pub fn new(plan: &Plan) -> Screen {
        let plain = !std::io::stderr().is_terminal();
        let reps: u32 = plan.cells.iter().map(|cell| cell.reps).sum();
        let bar = ProgressBar::with_draw_target(
            Some(u64::from(reps)),
            if plain {
                ProgressDrawTarget::hidden()
            } else {
                ProgressDrawTarget::stderr()
            },
        );
        let style = "{spinner} {pos}/{len} reps [{bar:30}] {elapsed}, {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        Screen {
            bar,
            plain,
            state: Mutex::new(State {
                left: plan.cells.iter().map(|c| (c.id.clone(), c.reps)).collect(),
                cells: plan.cells.len(),
                ..State::default()
            }),
        }
    }

    /// A rep starts; what it returns is filled while it runs.
    pub fn start(&self, cell: &Cell, rep: u32) -> Arc<Progress> {
        let progress = Arc::new(Progress::default());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running.push(Arc::clone(&progress));
        self.bar
            .set_message(format!("{} rep {} of {}", cell.id, rep + 1, cell.reps));
        progress
    }

    /// A rep of the cell has ended.
    pub fn end(&self, cell: &Cell) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.inc(1);
        let sum = |figure: fn(&Progress) -> u64| state.running.iter().map(|p| figure(p)).sum();
        let committed: u64 = sum(|p| p.committed.load(Ordering::Relaxed));
        let conflicts: u64 = sum(|p| p.conflicts.load(Ordering::Relaxed));
        let failed: u64 = sum(|p| p.failed.load(Ordering::Relaxed));
        let figures = format!("{committed} committed, {conflicts} conflicts, {failed} failed");
        self.bar.set_message(figures.clone());
        let Some(left) = state.left.get_mut(&cell.id) else {
            return;
        };
        *left = left.saturating_sub(1);
        if *left == 0 {
            state.cells_done += 1;
            if self.plain {
                eprintln!(
                    "cell {} of {} done: {} ({figures} so far)",
                    state.cells_done, state.cells, cell.id
                );
            }
        }
    }

    /// Takes the live line away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
