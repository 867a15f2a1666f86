//! What goes to standard output: data and nothing else, coloured only for a person.
//!
//! Every command writes through [`Out`]; `println!` would panic on a closed pipe.

use std::{
    fmt::{self, Display},
    io::{self, BufWriter, IsTerminal, Stdout, Write},
};

use clap::{
    ValueEnum,
    builder::styling::{AnsiColor, Color, Style},
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    environment::Environment,
    failure::{Failure, Kind, Result},
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

/// Whether one stream gets colours. Small and copied around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Coloured,
    Plain,
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

    pub(crate) fn style<T: Display>(self, style: Style, text: T) -> Painted<T> {
        match self {
            Self::Coloured => Painted { style, text },
            Self::Plain => Painted { style: Style::new(), text },
        }
    }

    pub(crate) fn error<T: Display>(self, text: T) -> Painted<T> {
        self.style(coloured(AnsiColor::Red).bold(), text)
    }

    pub(crate) fn hint<T: Display>(self, text: T) -> Painted<T> {
        self.style(coloured(AnsiColor::Cyan).bold(), text)
    }

    #[allow(dead_code, reason = "for the commands that show more than tables")]
    pub(crate) fn heading<T: Display>(self, text: T) -> Painted<T> {
        self.style(Style::new().bold(), text)
    }

    #[allow(dead_code, reason = "for the commands that show more than tables")]
    pub(crate) fn faint<T: Display>(self, text: T) -> Painted<T> {
        self.style(Style::new().dimmed(), text)
    }
}

const fn coloured(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(color)))
}

/// Text that carries its style; width and alignment apply to the text alone.
pub(crate) struct Painted<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.style.fmt(f)?;
        self.text.fmt(f)?;
        self.style.render_reset().fmt(f)
    }
}

/// Standard output, buffered until [`finish`](Out::finish).
pub(crate) struct Out {
    stdout: BufWriter<Stdout>,
    paint: Paint,
    /// A person looks at it: documents are indented.
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

    /// Bytes as they are, for what is already laid out (a schema, a man page, a script).
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.stdout.write_all(bytes).map_err(closed)
    }

    /// One JSON document: the fields of `content` after `"version": 1`. Indented on a terminal, one
    /// line elsewhere.
    pub(crate) fn document(&mut self, content: &impl Serialize) -> Result<()> {
        let mut document = Map::new();
        document.insert("version".to_owned(), 1.into());
        match serde_json::to_value(content)? {
            Value::Object(fields) => document.extend(fields),
            other => return Err(Failure::error(format!("{other} is no JSON document"))),
        }
        self.json(&Value::Object(document))
    }

    /// A JSON value as the wire has it, for what is not a document of ours.
    pub(crate) fn json(&mut self, value: &Value) -> Result<()> {
        let text = if self.terminal {
            serde_json::to_string_pretty(value)?
        } else {
            serde_json::to_string(value)?
        };
        self.line(text)
    }

    pub(crate) fn table(&mut self, table: &Table) -> Result<()> {
        table.lines().try_for_each(|line| self.line(line))
    }

    /// Hands on what is buffered: at the end, and before anything that takes time.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.stdout.flush().map_err(closed)
    }
}

fn closed(why: io::Error) -> Failure {
    match why.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(Kind::OutputClosed, "standard output is closed"),
        _ => Failure::error(format!("can not write to standard output: {why}")),
    }
}

/// Columns as wide as their widest cell, two spaces apart, no trailing blanks.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| visible(&cell.into())).collect());
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|at| self.rows.iter().filter_map(|row| row.get(at)).map(|c| width(c)).max())
            .map(Option::unwrap_or_default)
            .collect();
        self.rows.iter().map(move |row| {
            let mut line = String::new();
            for (cell, column) in row.iter().zip(&widths) {
                let padding = column - width(cell);
                line += cell;
                line.extend(std::iter::repeat_n(' ', padding + 2));
            }
            line.truncate(line.trim_end().len());
            line
        })
    }
}

/// Characters, which is the width on a terminal for all but East Asian text and emoji.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// The text with its control characters made visible, newlines aside: what a repository wrote must
/// not be able to move the cursor, clear the line it stands on or reorder what a person reads.
pub(crate) fn visible(text: &str) -> String {
    let invisible = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}');
    let reordering = |c: char| matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}');
    let hidden = |c: char| (c.is_control() && c != '\n') || invisible(c) || reordering(c);
    if !text.contains(hidden) {
        return text.to_owned();
    }
    text.chars().fold(String::new(), |mut seen, c| {
        if hidden(c) {
            seen.extend(c.escape_default())
        } else {
            seen.push(c)
        }
        seen
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_end_without_blanks() {
        let mut table = Table::default();
        table.row(["a", "one", "x"]);
        table.row(["bcd", "é", ""]);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines, ["a    one  x", "bcd  é"]);
    }

    #[test]
    fn nothing_that_moves_the_cursor_is_shown_as_it_is() {
        assert_eq!(visible("rm\x1b[2K\rls\u{202e}"), "rm\\u{1b}[2K\\rls\\u{202e}");
        assert_eq!(visible("two\nlines é"), "two\nlines é");
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
