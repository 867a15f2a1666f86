//! A task on one line, the same in all lists of tasks: `[status] id: title (attempts/max)`.

use std::fmt::{self, Display};

use clap::builder::styling::{AnsiColor, Style};
use harness::view::RunSummary;
use harness_core::{
    Task, Timestamp,
    format::{ClaimGlance, TaskGlance},
    task::Status,
};

use crate::paint::{Paint, coloured, one_line};

/// Whether a pending task can still become ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    Open,
    Blocked,
}

/// Returns the colour of a status.
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
    pub(crate) task: &'a TaskGlance<'a>,
    pub(crate) now: Timestamp,
    pub(crate) paint: Paint,
    /// The run that its claim belongs to, if no process drives that run any more.
    pub(crate) abandoned: Option<&'a RunSummary>,
}

impl Display for TaskLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, now, paint, abandoned } = self;
        let outlook = if task.blocked { Outlook::Blocked } else { Outlook::Open };
        let style = style(task.status, outlook);
        paint.style(style, Tag(task.status)).fmt(f)?;
        // The line is written in pieces for speed, because there may be ten thousand of them.
        for piece in [" ", &task.id, ": ", &one_line(&task.title)] {
            f.write_str(piece)?;
        }
        write!(f, " ({}/{})", task.attempts, task.max_attempts)?;
        if outlook == Outlook::Blocked {
            write!(f, " — {}", paint.style(style, "blocked"))?;
        }
        match (&task.claim, abandoned) {
            (Some(claim), Some(run)) => {
                let worker = one_line(claim.claimed_by.as_deref().unwrap_or("nobody"));
                write!(f, " — {worker}, not at work: its run {}", run.ended())
            }
            (Some(claim), None) => write!(f, " — {}", Claim::glanced(claim, *now)),
            (None, _) => Ok(()),
        }
    }
}

pub(crate) struct Tag(pub(crate) Status);

impl Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ["[", self.0.name(), "]"].into_iter().try_for_each(|piece| f.write_str(piece))
    }
}

/// The holder of a claimed task, and the rest of the lease.
pub(crate) struct Claim<'a> {
    claimed_by: Option<&'a str>,
    lease_expires_at: Option<Timestamp>,
    now: Timestamp,
}

impl<'a> Claim<'a> {
    pub(crate) fn of(task: &'a Task, now: Timestamp) -> Self {
        let claimed_by = task.claimed_by().map(|by| by.as_str());
        Self { claimed_by, lease_expires_at: task.lease_expires_at(), now }
    }

    fn glanced(claim: &'a ClaimGlance<'_>, now: Timestamp) -> Self {
        let claimed_by = claim.claimed_by.as_deref();
        Self { claimed_by, lease_expires_at: claim.lease_expires_at, now }
    }
}

impl Display for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.claimed_by {
            Some(worker) => f.write_str(&one_line(worker))?,
            None => f.write_str("nobody")?,
        }
        match self.lease_expires_at {
            None => f.write_str(", no lease"),
            Some(end) if end <= self.now => {
                write!(f, ", lease ran out {} ago", Span(self.now.since(end)))
            }
            Some(end) => write!(f, ", lease {}", Span(end.since(self.now))),
        }
    }
}

/// Seconds in the form for people: `42 s`, `29 min 5 s`, `3 h 20 min`, `2 d 4 h`.
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

/// Seconds as a person says them, who does not count seconds after a minute: `42 s`, `12 min`, `3 h
/// 20 min`.
pub(crate) struct RoughSpan(pub(crate) u64);

impl Display for RoughSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0;
        Span(if seconds < 60 { seconds } else { seconds / 60 * 60 }).fmt(f)
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
        let told = [5, 61, 725, 12_034].map(|s| RoughSpan(s).to_string());
        assert_eq!(told, ["5 s", "1 min", "12 min", "3 h 20 min"]);
    }
}
