//! What a person sees of a session. On a terminal: the log lines, and beneath them a bar that says
//! how far the work is, what is being done and for how long. Elsewhere: the log lines.

use std::{io::Write, time::Duration};

use harness_core::{Ledger, Stats, task::Status};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::paint::one_line;

/// Often enough to show that it lives.
const TICK: Duration = Duration::from_millis(200);

pub(super) enum View {
    Lines,
    Live(ProgressBar),
}

impl View {
    pub(super) fn live() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let template = "{bar:24.green/dim} {pos}/{len}  {elapsed_precise}  {prefix}{wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.enable_steady_tick(TICK);
        Self::Live(bar)
    }

    /// Lines of the log that have come.
    pub(super) fn lines(&self, lines: &str) {
        match self {
            // Nobody is left to be told when this fails.
            Self::Lines => _ = std::io::stderr().write_all(lines.as_bytes()),
            Self::Live(bar) => lines.lines().for_each(|line| bar.println(line)),
        }
    }

    pub(super) fn warning(&self, text: &str) {
        match self {
            Self::Lines => crate::store::warn(text),
            Self::Live(bar) => bar.println(format!("WARN: {}", one_line(text))),
        }
    }

    /// What it used so far, against what it may.
    pub(super) fn used(&self, text: &str) {
        if let Self::Live(bar) = self {
            bar.set_prefix(format!("{text}  "));
        }
    }

    /// The next context of an objective begins.
    pub(super) fn context(&self, iteration: u64, most: u64) {
        let text = format!("iteration {iteration} of {most}");
        match self {
            Self::Lines => _ = writeln!(std::io::stderr(), "{text}"),
            Self::Live(bar) => {
                bar.set_length(most + 1);
                bar.set_position(iteration);
                bar.set_message(text);
            }
        }
    }

    /// Whether it shows how the ledger stands.
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// Shows how the ledger stands.
    pub(super) fn refresh(&self, ledger: &Ledger) {
        let Self::Live(bar) = self else { return };
        let stats = Stats::of(ledger);
        // Nothing to count: the bar is an objective's.
        if stats.total == 0 {
            return;
        }
        let over = ledger.tasks().filter(|t| !t.unfinished()).count();
        bar.set_length(u64::try_from(stats.total).unwrap_or(0));
        bar.set_position(u64::try_from(over).unwrap_or(0));
        let current = ledger.tasks().find(|t| t.status() == Status::InProgress);
        bar.set_message(match current {
            None => String::new(),
            Some(task) => {
                let attempt = task.attempts + 1;
                let step = task.checkpoints.last().map(|c| {
                    format!(" — step {}/{} {}", c.step, c.total, one_line(&c.description))
                });
                let step = step.unwrap_or_default();
                let again =
                    if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                format!("{}: {}{again}{step}", task.id, one_line(&task.title))
            }
        });
    }

    pub(super) fn end(&self) {
        if let Self::Live(bar) = self {
            bar.finish_and_clear();
        }
    }
}
