//! A run as a line of text, and where that is shown.

use std::io::IsTerminal;
use std::time::Duration;

use fleet::Stage;
use fleet::run::View;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plan::Plan;

/// One line: where the run is, what its workers do, how fast.
pub fn line(plan: &Plan, view: &View, now_ms: i64) -> String {
    let run = &view.run;
    let until_ms = run.ended_ms.unwrap_or(now_ms);
    let minutes = (until_ms - run.began_ms).max(0) as f64 / 60_000.0;
    if let Some(outcome) = &run.outcome {
        return format!("{outcome} after {minutes:.1} min");
    }
    let mut line = format!("wave {} of {}", (run.at + 1).min(run.waves), run.waves);
    if run.attempt > 1 {
        line.push_str(&format!(" (attempt {})", run.attempt));
    }
    let Some((id, wave)) = &view.wave else {
        line.push_str(", beginning");
        return line;
    };
    if let Some(cell) = plan.cells.get(id.cell as usize) {
        line.push_str(&format!(" {} rep {}", cell.id, id.rep));
    }
    line.push_str(&format!(": {}", wave.stage));
    let [waiting, ready, running, done, lost] = view.tasks;
    if wave.stage == Stage::Load {
        line.push_str(&format!(
            ", workers {waiting} connecting, {ready} ready, {running} running, {done} done"
        ));
        if lost > 0 {
            line.push_str(&format!(", {lost} lost"));
        }
        let counts = &view.counts;
        if let Some(start_ms) = view.start_ms
            && counts.at_ms > start_ms
        {
            let seconds = (counts.at_ms - start_ms) as f64 / 1e3;
            line.push_str(&format!(
                ", {:.0} committed/s, {} conflicts, {} failed",
                counts.committed as f64 / seconds,
                counts.conflicts,
                counts.failed
            ));
        }
    }
    if let Some(why) = &run.stop {
        line.push_str(&format!(", stopping ({why})"));
    }
    line.push_str(&format!(", {minutes:.1} min"));
    if view.spent_usd > 0.0 {
        line.push_str(&format!(", ${:.2} spent", view.spent_usd));
    }
    line
}

/// Where a run is: what a plain line is worth.
pub fn place(view: &View) -> String {
    let stage = view
        .wave
        .as_ref()
        .map(|(id, wave)| format!("{id}/{}", wave.stage));
    let running = view.start_ms.is_some();
    format!("{:?} {stage:?} {running}", view.run.outcome)
}

/// One live line on stderr where that is a terminal, a plain line for each piece
/// of news where it is not.
pub struct Screen(Option<ProgressBar>);

impl Screen {
    /// A screen.
    pub fn new() -> Screen {
        Screen(std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        }))
    }

    /// Shows a line; `news` says whether it is worth a plain one.
    pub fn show(&self, line: &str, news: bool) {
        match &self.0 {
            Some(bar) => bar.set_message(line.to_owned()),
            None if news => eprintln!("{line}"),
            None => {}
        }
    }

    /// Takes the live line away.
    pub fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
