//! A task on one line, the same wherever tasks are listed: `[status] id: title (attempts/max)`.

use std::fmt::{self, Display};

use clap::builder::styling::{AnsiColor, Style};
use harness_core::{Task, Timestamp, task::Status};

use crate::render::{Paint, coloured, one_line};

/// Whether a pending task can still be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    Open,
    Blocked,
}

/// The colour of a status.
pub(crate) fn style(status: Status, outlook: Outlook) -> Style {
    match (status, outlook) {
        (Status::Completed, _) => coloured(AnsiColor::Green),
        (Status::InProgress, _) => coloured(AnsiColor::Cyan).bold(),
        (Status::Failed, _) => coloured(AnsiColor::Red),
        (Status::Pending, Outlook::Blocked) => coloured(AnsiColor::Yellow),
        (Status::Pending, Outlook::Open) => Style::new(),
    }
}

pub(crate) struct TaskLine<'a> {
    pub(crate) task: &'a Task,
    pub(crate) outlook: Outlook,
    pub(crate) now: Timestamp,
    pub(crate) paint: Paint,
}

impl Display for TaskLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, outlook, now, paint } = self;
        let style = style(task.status, *outlook);
        write!(f, "{} {}: ", paint.style(style, Tag(task.status)), task.id)?;
        f.write_str(&one_line(&task.title))?;
        write!(f, " ({}/{})", task.attempts, task.max_attempts)?;
        if *outlook == Outlook::Blocked {
            write!(f, " — {}", paint.style(style, "blocked"))?;
        }
        match task.status {
            Status::InProgress => write!(f, " — {}", Claim { task, now: *now }),
            Status::Pending | Status::Completed | Status::Failed => Ok(()),
        }
    }
}

pub(crate) struct Tag(pub(crate) Status);

impl Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.name())
    }
}

/// Who has a claimed task, and for how long.
pub(crate) struct Claim<'a> {
    pub(crate) task: &'a Task,
    pub(crate) now: Timestamp,
}

impl Display for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.task.claimed_by {
            Some(worker) => write!(f, "{}", one_line(worker.as_str()))?,
            None => f.write_str("nobody")?,
        }
        match self.task.lease_expires_at {
            None => f.write_str(", no lease"),
            Some(end) if end <= self.now => {
                write!(f, ", lease ran out {} ago", Span(self.now.since(end)))
            }
            Some(end) => write!(f, ", lease {}", Span(end.since(self.now))),
        }
    }
}

/// Seconds as a person says them: `42 s`, `29 min 5 s`, `3 h 20 min`, `2 d 4 h`.
pub(crate) struct Span(pub(crate) u64);

impl Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minute, hour, day) = (60, 3600, 86_400);
        let (large, large_name, small, small_name) = match self.0 {
            s if s < minute => return write!(f, "{s} s"),
            s if s < hour => (s / minute, "min", s % minute, "s"),
            s if s < day => (s / hour, "h", s % hour / minute, "min"),
            s => (s / day, "d", s % day / hour, "h"),
        };
        write!(f, "{large} {large_name}")?;
        if small > 0 { write!(f, " {small} {small_name}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_two_units() {
        let told = [0, 59, 60, 1745, 3600, 12_034, 86_400, 190_000].map(|s| Span(s).to_string());
        let expected =
            ["0 s", "59 s", "1 min", "29 min 5 s", "1 h", "3 h 20 min", "1 d", "2 d 4 h"];
        assert_eq!(told, expected);
    }
}
