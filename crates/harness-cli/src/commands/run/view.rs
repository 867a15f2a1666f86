//! What a person sees of a run. On a terminal: the lines of the log as people read them, and beneath them
//! how far the work is. Elsewhere: the lines as they are in the log.

use std::{
    io::{IsTerminal, Write},
    sync::{Mutex, MutexGuard, PoisonError},
};

use clap::builder::styling::AnsiColor;
use harness_core::Ledger;

use super::{account::Account, footer::Footer, progress::Progress};
use crate::{
    log_line::Watched,
    paint::{Paint, coloured, one_line},
};

pub(super) struct View {
    surface: Surface,
    paint: Paint,
    copying: Copying,
    account: Mutex<Account>,
}

enum Surface {
    Lines,
    Live(Footer),
}

/// Whether standard output gets the lines too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copying {
    No,
    ToFile,
}

impl Copying {
    /// A file on standard output gets them, unless standard error goes into the same one.
    pub(super) fn of_this_process() -> Self {
        let [output, errors] =
            [rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr())];
        let Ok(output) = output else { return Self::No };
        let is_file = rustix::fs::FileType::from_raw_mode(output.st_mode).is_file();
        let same = errors.is_ok_and(|e| (e.st_dev, e.st_ino) == (output.st_dev, output.st_ino));
        if is_file && !same { Self::ToFile } else { Self::No }
    }
}

impl View {
    /// The lines of the log, for programs, files and simple terminals.
    pub(super) fn of_lines(copying: Copying) -> Self {
        Self::new(Surface::Lines, Paint::Plain, copying)
    }

    /// For a person at a terminal.
    pub(super) fn live(progress: Progress, paint: Paint, copying: Copying) -> Self {
        Self::new(Surface::Live(Footer::new(progress, paint)), paint, copying)
    }

    fn new(surface: Surface, paint: Paint, copying: Copying) -> Self {
        Self { surface, paint, copying, account: Mutex::default() }
    }

    /// What was seen so far.
    pub(super) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines that were appended to the log.
    pub(super) fn log(&self, lines: &str) {
        self.copy(lines);
        match &self.surface {
            // Nobody is left to report it to when this fails.
            Surface::Lines => _ = std::io::stderr().write_all(lines.as_bytes()),
            Surface::Live(footer) => {
                let watched = lines.lines().map(|line| Watched { line, paint: self.paint });
                let shown = watched.filter(|line| !line.is_bookkeeping());
                footer.print(&shown.map(|line| line.to_string()).collect::<Vec<_>>());
            }
        }
    }

    pub(super) fn warning(&self, text: &str) {
        let line = format!("WARN: {}", one_line(text));
        self.copy(&format!("{line}\n"));
        match &self.surface {
            Surface::Lines => crate::store::warn(text),
            Surface::Live(footer) => {
                footer.print(&[self.paint.style(coloured(AnsiColor::Yellow), line).to_string()]);
            }
        }
    }

    /// A line for people that is in no log.
    pub(super) fn say(&self, text: &str) {
        let line = one_line(text);
        self.copy(&format!("{line}\n"));
        self.print(&line);
    }

    /// The same for something that a person has to react to.
    pub(super) fn call(&self, text: &str) {
        let line = one_line(text);
        self.copy(&format!("{line}\n"));
        let style = coloured(AnsiColor::Magenta).bold();
        match &self.surface {
            Surface::Lines => self.print(&line),
            Surface::Live(_) => self.print(&format!("\x07{}", self.paint.style(style, line))),
        }
    }

    /// A line of what the agent says or does.
    pub(super) fn speech(&self, text: &str) {
        let line = one_line(text);
        self.copy(&format!("  | {line}\n"));
        self.print(&format!("{} {line}", self.paint.faint("  |")));
    }

    /// The last words of a run.
    pub(super) fn summary(&self, lines: &[String]) {
        for (n, line) in lines.iter().enumerate() {
            self.copy(&format!("{line}\n"));
            match n {
                0 => self.print(&self.paint.heading(line).to_string()),
                _ => self.print(line),
            }
        }
    }

    fn print(&self, line: &str) {
        match &self.surface {
            Surface::Lines => _ = writeln!(std::io::stderr(), "{line}"),
            Surface::Live(footer) => footer.print(&[line]),
        }
    }

    fn copy(&self, text: &str) {
        if self.copying == Copying::ToFile {
            let mut output = std::io::stdout().lock();
            _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
        }
    }

    /// Whether it shows how the work stands.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.surface, Surface::Live(_))
    }

    /// Whether a person can type an answer here: what they type is not read by anything else.
    pub(super) fn can_be_typed_on(&self) -> bool {
        self.is_live() && std::io::stdin().is_terminal()
    }

    /// Shows a line to type on, or none any more.
    pub(super) fn type_on(&self, prompt: Option<&str>) {
        if let Surface::Live(footer) = &self.surface {
            footer.type_on(prompt);
        }
    }

    /// The person has ended the line.
    pub(super) fn typed(&self) {
        if let Surface::Live(footer) = &self.surface {
            footer.typed();
        }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) {
        if let Surface::Live(footer) = &self.surface {
            footer.change(change);
        }
    }

    /// Shows how the tasks stand.
    pub(super) fn refresh(&self, ledger: &Ledger) {
        self.change(|progress| progress.refresh(ledger));
    }

    /// From now on nothing else writes to standard error.
    pub(super) fn begin(&self) {
        if let Surface::Live(footer) = &self.surface {
            footer.begin();
        }
    }

    /// What is printed from now on stands alone.
    pub(super) fn end(&self) {
        if let Surface::Live(footer) = &self.surface {
            footer.end();
        }
    }
}
