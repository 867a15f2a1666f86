//! A view as text.

use std::fmt::{Display, Write as _};

use harness::view::{AlertCard, NeedKind, TargetCard, TaskCounts, View};
use harness_core::task::Status;

use super::{runs, workers};
use crate::{
    log_line::{Painted, Zone},
    paint::{Paint, one_line},
    task_line::{Outlook, TaskLine, style},
};

/// Returns the text of `view`, in at most `rows` lines if possible. Lines of the log are left out
/// first, then the tasks that nobody works on. The times of the log are shown in `zone`.
pub(crate) fn text(view: &View<'_>, paint: Paint, zone: Zone, rows: Option<usize>) -> String {
    let mut text = String::with_capacity(128 * view.tasks.len() + 1024);
    let mut line = |line: &dyn Display| {
        // Writing into a string does not fail.
        _ = writeln!(text, "{line}");
    };
    let head = head(view, paint);
    head.iter().for_each(|text| line(text));
    let (rows, log) = fitting(view, rows.map(|rows| rows.saturating_sub(head.len() + 1)));
    let page = view.page(rows);
    if !view.tasks.is_empty() {
        line(&"");
    }
    for task in page.tasks {
        line(&TaskLine { task, now: view.time, paint, abandoned: view.abandoned(task) });
    }
    if page.left_out > 0 {
        line(&paint.faint(format_args!("… {} more tasks", page.left_out)));
    }
    if !log.is_empty() {
        line(&"");
    }
    for entry in log {
        line(&Painted { line: entry, paint, zone });
    }
    text
}

/// Returns how many of `rows` lines are for tasks, and the lines of the log that follow them.
fn fitting<'a>(view: &View<'a>, rows: Option<usize>) -> (Option<usize>, &'a [String]) {
    let Some(rows) = rows else { return (None, view.log) };
    // One line is for the note about left out tasks, one separates the tasks from the log.
    let at_work = view.counts.in_progress + 1;
    let room = rows.saturating_sub(at_work + 1);
    let log = &view.log[view.log.len().saturating_sub(room)..];
    let around = if log.is_empty() { 0 } else { 1 + log.len() };
    (Some(rows.saturating_sub(around)), log)
}

/// Returns everything above the tasks.
fn head(view: &View<'_>, paint: Paint) -> Vec<String> {
    let root = paint.heading(one_line(&view.root.display().to_string())).to_string();
    let mut lines = vec![match view.goal {
        Some(goal) => format!("{root} — {}", one_line(goal)),
        None => root,
    }];
    lines.push(CountsLine { counts: view.counts, paint }.to_string());
    let sessions = format!("session {} of {}", view.session_count, view.max_sessions);
    lines.push(match view.last_session {
        Some(last) => format!("{sessions}, last {last}"),
        None => sessions,
    });
    if let Some(since) = view.paused_at {
        let text = format!("PAUSED since {since}: nothing is claimed until `harness resume`");
        lines.push(paint.style(yellow(), text).to_string());
    }
    lines.extend(view.questions.iter().flat_map(|card| question_lines(card, paint)));
    let shown = view.runs.iter().chain(&view.last_run);
    lines.extend(shown.filter_map(|run| runs::line(run, view.time, paint)));
    lines.extend(workers::lines(view, paint));
    lines.extend(target_lines(view, paint));
    lines.extend(gate_lines(view, paint));
    lines.extend(alert_lines(&view.alerts, paint));
    lines
}

/// Returns what is known about results that are on a branch of their own.
fn target_lines(view: &View<'_>, paint: Paint) -> Vec<String> {
    let hint = view.target.as_ref().and_then(|target| Some((target, target.hint()?)));
    let Some((target, hint)) = hint else { return Vec::new() };
    let ahead = match target.ahead {
        Some(1) => format!(" (1 commit ahead of {})", taker(target)),
        Some(many) => format!(" ({many} commits ahead of {})", taker(target)),
        None => String::new(),
    };
    vec![paint.style(yellow(), one_line(&format!("{hint}{ahead}"))).to_string()]
}

/// Returns what lacks the results.
fn taker(target: &TargetCard) -> &str {
    let is_here = target.landed_branch.is_some() && target.remote.is_none();
    if is_here { &target.branch } else { "HEAD" }
}

/// Returns a question, and the command that answers it.
pub(crate) fn question_lines(card: &harness::view::QuestionCard, paint: Paint) -> [String; 2] {
    let asked = format!("QUESTION {}", one_line(&card.question.shown()));
    [
        paint.style(yellow(), asked).to_string(),
        format!("  answer: {}", one_line(&card.next.to_string())),
    ]
}

fn gate_lines(view: &View<'_>, paint: Paint) -> Vec<String> {
    let closed = view.needs.iter().filter(|need| need.kind == NeedKind::Gate);
    let mut lines: Vec<String> =
        closed.map(|need| paint.style(yellow(), one_line(&need.text)).to_string()).collect();
    let output = view.gate.iter().flat_map(|gate| gate.last_lines());
    lines.extend(output.map(|line| format!("  | {}", one_line(line))));
    lines
}

/// Returns the alerts that need a person's attention, and the command that acknowledges them.
pub(crate) fn alert_lines(alerts: &[AlertCard<'_>], paint: Paint) -> Vec<String> {
    let mut lines: Vec<String> = alerts
        .iter()
        .map(|AlertCard { time, task, message, .. }| {
            let task = task.map(|task| format!("[{task}] ")).unwrap_or_default();
            let alert = format!("ALERT {time} {task}{}", one_line(message));
            paint.style(yellow(), alert).to_string()
        })
        .collect();
    if !lines.is_empty() {
        lines.push("after you have reviewed it: harness status --ack".to_owned());
    }
    lines
}

fn yellow() -> clap::builder::styling::Style {
    style(Status::Pending, Outlook::Blocked)
}

struct CountsLine {
    counts: TaskCounts,
    paint: Paint,
}

impl Display for CountsLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { counts, paint } = self;
        let tasks = if counts.total == 1 { "task" } else { "tasks" };
        write!(f, "{} {tasks}: ", counts.total)?;
        let shown = [
            (counts.completed, Status::Completed, "completed"),
            (counts.in_progress, Status::InProgress, "in progress"),
            (counts.pending, Status::Pending, "pending"),
            (counts.failed, Status::Failed, "failed"),
        ];
        for (n, (count, status, name)) in shown.into_iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            let counted = format_args!("{count} {name}");
            match count {
                0 => write!(f, "{comma}{counted}")?,
                _ => write!(f, "{comma}{}", paint.style(style(status, Outlook::Open), counted))?,
            }
            if status == Status::Pending && counts.blocked > 0 {
                let blocked = format_args!("{} blocked", counts.blocked);
                write!(f, " ({})", paint.style(yellow(), blocked))?;
            }
        }
        Ok(())
    }
}
