//! A line of the log for a person: the text of the file, coloured by its type.

use std::{
    borrow::Cow,
    fmt::{self, Display},
};

use clap::builder::styling::{AnsiColor, Style};
use harness_core::log::{Kind, LogLine};

use crate::{
    local_time,
    paint::{Paint, coloured, one_line},
    render::Out,
};

pub(crate) struct Painted<'a> {
    pub(crate) line: &'a str,
    pub(crate) paint: Paint,
    pub(crate) zone: Zone,
}

/// The zone in which the time of a line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// As in the file.
    Utc,
    /// That of the user.
    Local,
}

impl Zone {
    /// Returns the zone for output that a person may read, or a program.
    pub(crate) fn of(out: &Out) -> Self {
        if out.is_terminal() { Self::Local } else { Self::Utc }
    }
}

impl Display for Painted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, paint, zone } = self;
        let parts = match (paint, zone) {
            (Paint::Plain, Zone::Utc) => None,
            (Paint::Coloured, _) | (_, Zone::Local) => Parts::of(line),
        };
        let Some(parts) = parts else { return f.write_str(&one_line(line)) };
        let head = match zone {
            Zone::Utc => one_line(parts.head),
            Zone::Local => {
                let LogLine { time, session, .. } = &parts.parsed;
                format!("[{}] [SESSION-{session}] ", local_time::date_and_clock(*time)).into()
            }
        };
        write!(f, "{}", paint.faint(head))?;
        parts.write(f, *paint)
    }
}

/// A line for a person who watches a run: the local time of day, and no session.
pub(crate) struct Watched<'a> {
    pub(crate) line: &'a str,
    pub(crate) paint: Paint,
}

impl Display for Watched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, paint } = self;
        let Some(parts) = Parts::of(line) else { return f.write_str(&one_line(line)) };
        write!(f, "{} ", paint.faint(local_time::clock(parts.parsed.time)))?;
        parts.write(f, *paint)
    }
}

impl Watched<'_> {
    /// Returns whether the line is about the session itself. The end of a run reports the same to a
    /// person.
    pub(crate) fn is_bookkeeping(&self) -> bool {
        let kind = LogLine::parse(self.line).map(|parsed| parsed.kind);
        matches!(kind, Some(Kind::Lock | Kind::Stats))
    }
}

/// The parts of a line: time and session, then the type, then the rest.
struct Parts<'a> {
    parsed: LogLine,
    head: &'a str,
    tail: &'a str,
}

impl<'a> Parts<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let parsed = LogLine::parse(line)?;
        let at = line.find("] [SESSION-")? + 3;
        let end = at + line.get(at..)?.find("] ")? + 2;
        let tail = line.get(end..)?.strip_prefix(parsed.kind.name())?;
        Some(Self { head: line.get(..end)?, tail, parsed })
    }

    /// Returns the rest in words for people. The line of a rollback is published as a git command, but
    /// a rollback saves the work first and keeps the user's files.
    fn readable_tail(&self) -> Cow<'a, str> {
        let reset = self.parsed.message.strip_prefix("git reset --hard ");
        match (self.parsed.kind, &self.parsed.task, reset) {
            (Kind::Rollback, Some(task), Some(commit)) => {
                let text = format!(" [{task}] to {commit}; the work of the attempt is saved");
                Cow::Owned(format!("{}: harness rescue list {task}", one_line(&text)))
            }
            _ => one_line(self.tail),
        }
    }

    /// Writes the type and the rest.
    fn write(&self, f: &mut fmt::Formatter<'_>, paint: Paint) -> fmt::Result {
        let (kind, tail) = (self.parsed.kind, self.readable_tail());
        let style = style(kind);
        write!(f, "{}", paint.style(style, kind.name()))?;
        match kind {
            Kind::Error | Kind::Warn => write!(f, "{}", paint.style(style, tail)),
            Kind::Lock | Kind::Stats => write!(f, "{}", paint.faint(tail)),
            _ => f.write_str(&tail),
        }
    }
}

fn style(kind: Kind) -> Style {
    match kind {
        Kind::Error => coloured(AnsiColor::Red),
        Kind::Warn | Kind::Rollback => coloured(AnsiColor::Yellow),
        Kind::Completed => coloured(AnsiColor::Green),
        Kind::Starting | Kind::Checkpoint => coloured(AnsiColor::Cyan),
        Kind::Recovery => coloured(AnsiColor::Magenta),
        Kind::Init => Style::new().bold(),
        Kind::Stats | Kind::Lock => Style::new().dimmed(),
    }
}
