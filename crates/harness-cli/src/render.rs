//! Standard output: data and nothing else, coloured only for a person.
//!
//! Every command writes through [`Out`], because `println!` would panic on a closed pipe.

use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, BufWriter, IsTerminal, Stdout, Write},
};

use clap::{ValueEnum, builder::styling::Style};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    environment::Environment,
    failure::{Failure, Kind, Result},
    paint::{Paint, one_line, visible_json},
};

/// `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl Paint {
    pub(crate) fn choose(when: ColorWhen, env: &Environment, stream: &impl IsTerminal) -> Self {
        let coloured = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                env.get("NO_COLOR").is_none()
                    && env.get("TERM").is_none_or(|term| term != "dumb")
                    && stream.is_terminal()
            }
        };
        if coloured { Self::Coloured } else { Self::Plain }
    }
}

/// Standard output, buffered until [`finish`](Out::finish).
pub(crate) struct Out {
    stdout: BufWriter<Stdout>,
    paint: Paint,
    /// Whether a person reads it. Documents are indented then.
    terminal: bool,
}

impl Out {
    pub(crate) fn new(when: ColorWhen, env: &Environment) -> Self {
        let stdout = io::stdout();
        let (paint, terminal) = (Paint::choose(when, env, &stdout), stdout.is_terminal());
        Self { stdout: BufWriter::new(stdout), paint, terminal }
    }

    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    pub(crate) fn line(&mut self, text: impl Display) -> Result<()> {
        writeln!(self.stdout, "{text}").map_err(closed)
    }

    /// Writes bytes unchanged, for text with a layout of its own (a schema, a man page, a script).
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.stdout.write_all(bytes).map_err(closed)
    }

    /// Writes one JSON document: the fields of `content` after `"version": 1`. It is indented on a
    /// terminal, and one line elsewhere.
    pub(crate) fn document(&mut self, content: &impl Serialize) -> Result<()> {
        let mut document = Map::new();
        document.insert("version".to_owned(), 1.into());
        match serde_json::to_value(content)? {
            Value::Object(fields) => document.extend(fields),
            other => return Err(Failure::error(format!("{other} is not a JSON document"))),
        }
        self.json(&document)
    }

    /// Writes a document that has its own `version`.
    pub(crate) fn json(&mut self, document: &impl Serialize) -> Result<()> {
        if self.terminal {
            let text = serde_json::to_string_pretty(document)?;
            self.line(visible_json(&text))
        } else {
            serde_json::to_writer(&mut self.stdout, document).map_err(|e| closed(e.into()))?;
            self.line("")
        }
    }

    /// Writes a document that writes itself, on one line, because it may be large.
    pub(crate) fn streamed_json(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        if !self.terminal {
            write(&mut self.stdout).map_err(closed)?;
            return self.line("");
        }
        let mut bytes = Vec::new();
        write(&mut bytes).map_err(closed)?;
        let text = harness_core::format::indented(&String::from_utf8_lossy(&bytes));
        self.line(visible_json(&text))
    }

    /// Writes such a document as one line of a stream of documents.
    pub(crate) fn streamed_line(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        write(&mut bytes).map_err(closed)?;
        let text = String::from_utf8_lossy(&bytes);
        self.line(if self.terminal { visible_json(&text) } else { text })
    }

    /// Writes one line of a stream of JSON objects.
    pub(crate) fn json_line(&mut self, object: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(object)?;
        self.line(if self.terminal { visible_json(&text) } else { Cow::Borrowed(&*text) })
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn table(&mut self, table: &Table) -> Result<()> {
        let paint = self.paint;
        table.lines(paint).try_for_each(|line| self.line(line))
    }

    /// Writes the buffer out: at the end, and before anything that takes time.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.stdout.flush().map_err(closed)
    }
}

fn closed(why: io::Error) -> Failure {
    match why.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(Kind::OutputClosed, "standard output is closed"),
        _ => Failure::error(format!("cannot write to standard output: {why}")),
    }
}

/// Columns as wide as their widest cell, two spaces apart, without trailing blanks.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

/// A text with its style.
#[derive(Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn styled(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(Style::new(), text)
    }
}

impl Table {
    pub(crate) fn row<T: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(Into::into);
        let visible = |cell: Cell| Cell { text: one_line(&cell.text).into_owned(), ..cell };
        self.rows.push(cells.map(visible).collect());
    }

    pub(crate) fn lines(&self, paint: Paint) -> impl Iterator<Item = String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|at| self.rows.iter().filter_map(|row| row.get(at)).map(|c| width(&c.text)).max())
            .map(Option::unwrap_or_default)
            .collect();
        self.rows.iter().map(move |row| {
            let mut line = String::new();
            let used = row.iter().rposition(|cell| !cell.text.is_empty()).map_or(0, |at| at + 1);
            for (at, (cell, column)) in row[..used].iter().zip(&widths).enumerate() {
                let text = if at + 1 == used { cell.text.trim_end() } else { &cell.text };
                line += &paint.style(cell.style, text).to_string();
                if at + 1 < used {
                    line.extend(std::iter::repeat_n(' ', column - width(text) + 2));
                }
            }
            line
        })
    }
}

/// Returns the number of characters, which is the width on a terminal except for East Asian text
/// and emoji.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// Returns a count such as `1 task` or `2 tasks`.
pub(crate) fn tasks(count: usize) -> String {
    if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_end_without_blanks() {
        let mut table = Table::default();
        table.row(["a", "one", "x"]);
        table.row(["bcd", "é", ""]);
        let lines: Vec<_> = table.lines(Paint::Plain).collect();
        assert_eq!(lines, ["a    one  x", "bcd  é"]);
        let mut table = Table::default();
        table.row([Cell::styled(Style::new().bold(), "a"), Cell::from("x\ny")]);
        table.row(["bc", ""]);
        let lines: Vec<_> = table.lines(Paint::Coloured).collect();
        assert_eq!(lines, ["\x1b[1ma\x1b[0m   x\\ny", "bc"]);
    }

    #[test]
    fn colour_is_for_those_who_want_it() {
        let env = |pairs: &[(&str, &str)]| Environment::of(pairs);
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Paint::choose(ColorWhen::Auto, &env(&[]), &file), Paint::Plain);
        let no_color = env(&[("NO_COLOR", "1")]);
        assert_eq!(Paint::choose(ColorWhen::Always, &no_color, &file), Paint::Coloured);
        assert_eq!(Paint::Plain.error("x").to_string(), "x");
        assert_eq!(Paint::Coloured.heading("x").to_string(), "\x1b[1mx\x1b[0m");
    }
}
