//! A line of the log as a person sees it: the text of the file, coloured by its type.

use std::fmt::{self, Display};

use clap::builder::styling::{AnsiColor, Style};
use harness_core::log::{Kind, LogLine};

use crate::paint::{Paint, coloured, one_line};

pub(crate) struct Painted<'a> {
    pub(crate) line: &'a str,
    pub(crate) paint: Paint,
}

impl Display for Painted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, paint } = self;
        let parsed = match paint {
            Paint::Plain => None,
            Paint::Coloured => LogLine::parse(line),
        };
        // Time and session, then the type, then the rest.
        let parts = parsed.and_then(|parsed| {
            let name = parsed.kind.name();
            let at = line.find("] [SESSION-")? + 3;
            let head = at + line.get(at..)?.find("] ")? + 2;
            let tail = line.get(head..)?.strip_prefix(name)?;
            Some((parsed.kind, line.get(..head)?, name, tail))
        });
        let Some((kind, head, name, tail)) = parts else { return f.write_str(&one_line(line)) };
        let style = style(kind);
        write!(f, "{}{}", paint.faint(one_line(head)), paint.style(style, name))?;
        match kind {
            Kind::Error | Kind::Warn => write!(f, "{}", paint.style(style, one_line(tail))),
            Kind::Lock | Kind::Stats => write!(f, "{}", paint.faint(one_line(tail))),
            _ => f.write_str(&one_line(tail)),
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
