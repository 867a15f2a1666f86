//! The view of a run for a person. A terminal shows the lines of the log in a readable form, and
//! the progress below them. Elsewhere the lines are printed as they are in the log.

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

/// Whether standard output receives the lines too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copying {
    No,
    ToFile,
}

impl Copying {
    /// Returns the copying for this process. A file on standard output gets the lines, unless
    /// standard error goes into the same one.
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
    /// Creates a view of plain lines, for programs, files and simple terminals.
    pub(super) fn of_lines(copying: Copying) -> Self {
        Self::new(Surface::Lines, Paint::Plain, copying)
    }

    /// Creates a view for a person at a terminal.
    pub(super) fn live(progress: Progress, paint: Paint, copying: Copying) -> Self {
        Self::new(Surface::Live(Footer::new(progress, paint)), paint, copying)
    }

    fn new(surface: Surface, paint: Paint, copying: Copying) -> Self {
        Self { surface, paint, copying, account: Mutex::default() }
    }

    /// Returns the results so far.
    pub(super) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows lines that were appended to the log.
    pub(super) fn log(&self, lines: &str) {
        self.copy(lines);
        match &self.surface {
            // If this fails, there is no place left to report it.
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
            Surface::Lines => crate::paint::warn(text),
            Surface::Live(footer) => {
                footer.print(&[self.paint.style(coloured(AnsiColor::Yellow), line).to_string()]);
            }
        }
    }

    /// Shows a line for people that is in no log.
    pub(super) fn say(&self, text: &str) {
        let line = one_line(text);
        self.copy(&format!("{line}\n"));
        self.print(&line);
    }

    /// Shows a line that a person has to react to.
    pub(super) fn call(&self, text: &str) {
        let line = one_line(text);
        self.copy(&format!("{line}\n"));
        let style = coloured(AnsiColor::Magenta).bold();
        match &self.surface {
            Surface::Lines => self.print(&line),
            Surface::Live(_) => self.print(&format!("\x07{}", self.paint.style(style, line))),
        }
    }

    /// Shows a line of the agent's text or actions.
    pub(super) fn speech(&self, text: &str) {
        let line = one_line(text);
        self.copy(&format!("  | {line}\n"));
        self.print(&format!("{} {line}", self.paint.faint("  |")));
    }

    /// Shows the summary at the end of a run.
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

    /// Returns whether it shows the progress of the work.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.surface, Surface::Live(_))
    }

    /// Returns whether a person can type an answer here. Nothing else reads the keyboard then.
    pub(super) fn can_be_typed_on(&self) -> bool {
        self.is_live() && std::io::stdin().is_terminal()
    }

    /// Shows a line to type on, or removes it.
    pub(super) fn type_on(&self, prompt: Option<&str>) {
        if let Surface::Live(footer) = &self.surface {
            footer.type_on(prompt);
        }
    }

    /// Records that the person has ended the line.
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

    /// Shows the state of the tasks.
    pub(super) fn refresh(&self, ledger: &Ledger) {
        self.change(|progress| progress.refresh(ledger));
    }

    /// Starts the live lines. Nothing else writes to standard error from now on.
    pub(super) fn begin(&self) {
        if let Surface::Live(footer) = &self.surface {
            footer.begin();
        }
    }

    /// Ends the live lines. Later output stands alone.
    pub(super) fn end(&self) {
        if let Surface::Live(footer) = &self.surface {
            footer.end();
        }
    }
}
