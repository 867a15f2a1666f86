//! The state of a run for the lines below its log: the progress, the usage, and the current
//! activity of the agent.

use std::{collections::BTreeMap, time::Instant};

use clap::builder::styling::{AnsiColor, Style};
use harness::core::{Ledger, Run, Stats, Timestamp, task::Status};

use crate::{
    local_time,
    paint::{coloured, one_line},
    task_line::{RoughSpan, Span},
    tool_line::cut,
};

/// Characters of the bar.
const BAR: u64 = 24;
/// The limit of an agent's name, which may be a command line.
const NAME_CHARS: usize = 28;
/// The limit of the task or objective in the line of a worker.
const WHAT_CHARS: usize = 40;
/// Shorter silences are not shown.
const SILENT_SECONDS: u64 = 3;

/// Text in a style. A line is cut before it is painted.
pub(super) struct Piece {
    pub(super) style: Style,
    pub(super) text: String,
}

fn plain(text: impl Into<String>) -> Piece {
    Piece { style: Style::new(), text: text.into() }
}

fn faint(text: impl Into<String>) -> Piece {
    Piece { style: Style::new().dimmed(), text: text.into() }
}

/// The aim of a run.
enum Aim {
    /// The tasks are those in progress, by worker.
    Ledger {
        done: u64,
        failed: u64,
        total: u64,
        tasks: BTreeMap<String, String>,
    },
    Objective {
        text: String,
        context: u64,
        most: u64,
    },
}

/// A worker; one that is alone has no id.
pub(super) type WorkerKey = Option<String>;

/// The agent that is at work.
struct Worker {
    name: String,
    activity: Option<String>,
    /// The time of its last event.
    heard: Instant,
}

pub(super) struct Progress {
    started: Instant,
    aim: Aim,
    used: Option<String>,
    /// The end of the time limit.
    until: Option<Timestamp>,
    /// Whether a person paused claiming.
    paused: bool,
    workers: BTreeMap<WorkerKey, Worker>,
    waiting: BTreeMap<WorkerKey, Timestamp>,
    /// The ids of several workers of this process; empty for one that is alone.
    crew: Vec<String>,
    stopping: bool,
}

impl Progress {
    pub(super) fn of(row: &Run, started: Instant) -> Self {
        let aim = match &row.objective {
            None => Aim::Ledger { done: 0, failed: 0, total: 0, tasks: BTreeMap::new() },
            Some(text) => Aim::Objective {
                text: one_line(text).into_owned(),
                context: u64::from(row.iteration_count) + 1,
                most: u64::from(row.limits.max_iterations) + 1,
            },
        };
        Self {
            started,
            aim,
            used: None,
            until: row.deadline,
            paused: false,
            workers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            crew: Vec::new(),
            stopping: false,
        }
    }

    /// Gives each of several workers a line of its own.
    pub(super) fn crew(&mut self, workers: Vec<String>) {
        self.crew = workers;
    }

    /// Updates the state of the tasks. An objective shows none of them.
    pub(super) fn refresh(&mut self, ledger: &Ledger) {
        self.paused = ledger.head().paused_at.is_some();
        let Aim::Ledger { done, failed, total, tasks } = &mut self.aim else { return };
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let stats = Stats::of(ledger);
        (*done, *total) = (count(stats.completed), count(stats.total));
        let over = count(ledger.tasks().filter(|t| !t.unfinished()).count());
        *failed = over.saturating_sub(*done);
        let current = ledger.tasks().filter(|t| t.status() == Status::InProgress);
        let described = current.map(|task| {
            let attempt = match task.attempts + 1 {
                1 => String::new(),
                more => format!(", attempt {more}"),
            };
            let step = task
                .checkpoints
                .last()
                .map(|c| format!(", step {}/{} {}", c.step, c.total, one_line(&c.description)));
            let step = step.unwrap_or_default();
            let landing = ledger.head().landing.iter().any(|entry| entry.task == task.id);
            let landing = if landing { ", landing" } else { "" };
            let by = task.claimed_by().map(ToString::to_string).unwrap_or_default();
            let title = one_line(&task.title);
            (by, format!("{}: {title}{attempt}{step}{landing}", task.id))
        });
        *tasks = described.collect();
    }

    pub(super) fn used(&mut self, text: String) {
        self.used = Some(text);
    }

    pub(super) fn ends_at(&mut self, deadline: Option<Timestamp>) {
        self.until = deadline;
    }

    /// Starts the next context of an objective. The first one is 1.
    pub(super) fn context(&mut self, worker: &WorkerKey, number: u64, of: u64) {
        self.waiting.remove(worker);
        if let Aim::Objective { context, most, .. } = &mut self.aim {
            (*context, *most) = (number, of);
        }
    }

    pub(super) fn waits(&mut self, worker: WorkerKey, until: Timestamp) {
        self.waiting.insert(worker, until);
    }

    pub(super) fn stops(&mut self) {
        self.stopping = true;
    }

    pub(super) fn agent_started(&mut self, worker: WorkerKey, name: &str, at: Instant) {
        let name = name.strip_prefix("command: ").unwrap_or(name);
        let name = cut(&one_line(name), NAME_CHARS);
        self.waiting.remove(&worker);
        self.workers.insert(worker, Worker { name, activity: None, heard: at });
    }

    pub(super) fn agent_ended(&mut self, worker: &WorkerKey) {
        self.workers.remove(worker);
    }

    /// Records an event of the agent. `activity` describes the action, if the event shows one.
    pub(super) fn heard(&mut self, worker: &WorkerKey, activity: Option<String>, at: Instant) {
        if let Some(worker) = self.workers.get_mut(worker) {
            worker.heard = at;
            worker.activity = activity.or(worker.activity.take());
        }
    }

    /// Returns the lines to show, not yet cut to the width of the terminal.
    pub(super) fn lines(&self, at: Instant, now: Timestamp) -> Vec<Vec<Piece>> {
        let elapsed = at.saturating_duration_since(self.started).as_secs();
        let mut first = match &self.aim {
            Aim::Ledger { done, failed, total, .. } => bar(*done, *failed, *total),
            Aim::Objective { context, most, .. } => {
                vec![plain(format!("context {context} of at most {most}"))]
            }
        };
        let left = self.until.map(|end| format!(", {} left", RoughSpan(end.since(now))));
        first.push(plain(format!("  {}{}", RoughSpan(elapsed), left.unwrap_or_default())));
        first.extend(self.used.as_ref().map(|used| plain(format!("  {used}"))));
        if self.paused {
            let text = "  paused, `harness resume` goes on".to_owned();
            first.push(Piece { style: coloured(AnsiColor::Yellow), text });
        }
        if self.stopping {
            let style = coloured(AnsiColor::Yellow);
            first.push(Piece { style, text: "  stopping".to_owned() });
        }
        if self.crew.is_empty() {
            return vec![first, self.doing(&None, at, now)];
        }
        let short = shared_part(&self.crew);
        let of_worker = |id: &String| {
            let mut line = vec![faint(format!("{} ", &id[short..]))];
            line.extend(self.doing(&Some(id.clone()), at, now));
            line
        };
        [first].into_iter().chain(self.crew.iter().map(of_worker)).collect()
    }

    /// Returns the current activity of a worker.
    fn doing(&self, key: &WorkerKey, at: Instant, now: Timestamp) -> Vec<Piece> {
        let what = match (&self.aim, key) {
            (Aim::Ledger { tasks, .. }, None) => tasks.values().next().map(String::as_str),
            (Aim::Ledger { tasks, .. }, Some(id)) => tasks.get(id).map(String::as_str),
            (Aim::Objective { text, .. }, _) => Some(text.as_str()),
        };
        let idle = if key.is_some() { "waits for a task" } else { "between two tasks" };
        let what = what.unwrap_or(idle);
        if let Some(until) = self.waiting.get(key).copied() {
            let (at, left) = (local_time::moment(until, now), Span(until.since(now)));
            let text = format!("waits for a usage limit until {at} (in {left}), or `harness kick`");
            return vec![Piece { style: coloured(AnsiColor::Yellow), text }];
        }
        let Some(worker) = self.workers.get(key) else { return vec![plain(what)] };
        let silent = at.saturating_duration_since(worker.heard).as_secs();
        let (silence, activity) = match (&worker.activity, silent) {
            (Some(activity), ..SILENT_SECONDS) => (String::new(), activity.clone()),
            (Some(activity), long) => (format!(" · {} ago", Span(long)), activity.clone()),
            (None, ..SILENT_SECONDS) => (String::new(), "starts".to_owned()),
            (None, long) => (format!(" · {}", Span(long)), "no event yet".to_owned()),
        };
        // On a narrow terminal the end is cut, and the time since the last event must remain.
        vec![
            plain(format!("{} ", worker.name)),
            faint(cut(what, WHAT_CHARS)),
            faint(silence),
            plain(format!(" · {activity}")),
        ]
    }
}

/// Returns the bar: what is done, what failed, and what is left.
fn bar(done: u64, failed: u64, total: u64) -> Vec<Piece> {
    let part = |of: u64| (BAR * of).checked_div(total).unwrap_or(0).min(BAR);
    let (green, both) = (part(done), part(done + failed));
    let line = |of: &str, count: u64| of.repeat(usize::try_from(count).unwrap_or(0));
    let red = coloured(AnsiColor::Red);
    let mut pieces = vec![
        Piece { style: coloured(AnsiColor::Green), text: line("━", green) },
        Piece { style: red, text: line("━", both.saturating_sub(green)) },
        faint(line("─", BAR - both)),
        plain(format!(" {done}/{total} tasks")),
    ];
    if failed > 0 {
        pieces.push(Piece { style: red, text: format!(", {failed} failed") });
    }
    pieces
}

/// Returns the length of what the ids of one process have in common: everything before their numbers.
fn shared_part(ids: &[String]) -> usize {
    let before = |id: &String| id.rfind('.').map(|at| at + 1);
    let Some(at) = ids.first().and_then(before).filter(|_| ids.len() > 1) else { return 0 };
    let prefix = &ids[0][..at];
    if ids.iter().all(|id| id.len() > at && id.starts_with(prefix)) { at } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use harness::core::RunId;

    use super::*;

    fn shown(progress: &Progress, after: u64) -> Vec<String> {
        let at = progress.started + Duration::from_secs(after);
        let lines = progress.lines(at, Timestamp::from_seconds(0));
        lines.iter().map(|line| line.iter().map(|piece| &*piece.text).collect()).collect()
    }

    #[test]
    fn an_objective_shows_its_context_its_agent_and_its_silence() {
        let mut row = Run::queued(RunId::of_bits(1), Timestamp::default());
        row.objective = Some("Port it".to_owned());
        row.limits.max_iterations = 10;
        let mut progress = Progress::of(&row, Instant::now());
        assert_eq!(shown(&progress, 0), ["context 1 of at most 11  0 s", "Port it"]);
        let at = progress.started;
        progress.agent_started(None, "command: sh agent.sh", at);
        progress.used("5 tokens".to_owned());
        let line = "sh agent.sh Port it · 2 min · no event yet";
        assert_eq!(shown(&progress, 120)[1], line);
        progress.heard(&None, Some("Bash: make".to_owned()), at);
        assert_eq!(shown(&progress, 0)[1], "sh agent.sh Port it · Bash: make");
        progress.heard(&None, None, at);
        assert_eq!(shown(&progress, 65)[1], "sh agent.sh Port it · 1 min 5 s ago · Bash: make");
        progress.waits(None, Timestamp::from_seconds(3600));
        assert!(shown(&progress, 0)[1].contains("(in 1 h)"), "{:?}", shown(&progress, 0));
        progress.context(&None, 2, 11);
        progress.agent_ended(&None);
        assert_eq!(shown(&progress, 61), ["context 2 of at most 11  1 min  5 tokens", "Port it"]);
    }

    #[test]
    fn each_of_several_workers_has_a_line() {
        let row = Run::queued(RunId::of_bits(1), Timestamp::default());
        let mut progress = Progress::of(&row, Instant::now());
        progress.crew(vec!["w.1".to_owned(), "w.2".to_owned()]);
        let (first, at) = (Some("w.1".to_owned()), progress.started);
        progress.agent_started(first.clone(), "claude", at);
        progress.heard(&first, Some("Bash: make".to_owned()), at);
        let lines = shown(&progress, 0);
        assert_eq!(lines[1..], ["1 claude waits for a task · Bash: make", "2 waits for a task"]);
        progress.waits(Some("w.2".to_owned()), Timestamp::from_seconds(3600));
        assert!(shown(&progress, 0)[2].contains("(in 1 h)"));
        progress.agent_ended(&first);
        assert_eq!(shown(&progress, 0)[1], "1 waits for a task");
        progress.crew(vec!["w.1".to_owned(), "guest".to_owned()]);
        assert_eq!(shown(&progress, 0)[1], "w.1 waits for a task");
    }

    /// The time since the last event is what a narrow terminal must still show.
    #[test]
    fn a_long_title_leaves_room_for_the_silence() {
        let mut row = Run::queued(RunId::of_bits(1), Timestamp::default());
        row.objective = Some("a long title ".repeat(20));
        let mut progress = Progress::of(&row, Instant::now());
        let at = progress.started;
        progress.agent_started(None, "claude", at);
        progress.heard(&None, Some("Bash: make".to_owned()), at);
        let line: String = shown(&progress, 65)[1].chars().take(80).collect();
        assert!(line.contains("1 min 5 s ago"), "{line}");
    }

    #[test]
    fn failed_tasks_are_not_shown_as_done() {
        let text = |pieces: Vec<Piece>| pieces.iter().map(|p| &*p.text).collect::<String>();
        let half = "━".repeat(12);
        assert_eq!(text(bar(1, 2, 6)), format!("{half}{} 1/6 tasks, 2 failed", "─".repeat(12)));
        assert!(text(bar(0, 0, 0)).ends_with(" 0/0 tasks"));
        let colours: Vec<usize> = bar(1, 2, 6).iter().map(|p| p.text.chars().count()).collect();
        assert_eq!(colours[..3], [4, 8, 12]);
    }
}
