//! Text for a terminal: coloured or plain, without characters that the terminal would act on.

use std::{
    borrow::Cow,
    fmt::{self, Display},
    io::Write,
};

use clap::builder::styling::{AnsiColor, Color, Style};

/// Whether one stream gets colours. The value is small and copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Coloured,
    Plain,
}

impl Paint {
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

    pub(crate) fn heading<T: Display>(self, text: T) -> Painted<T> {
        self.style(Style::new().bold(), text)
    }

    pub(crate) fn faint<T: Display>(self, text: T) -> Painted<T> {
        self.style(Style::new().dimmed(), text)
    }
}

pub(crate) const fn coloured(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(color)))
}

/// Text with a style. Width and alignment apply to the text alone.
pub(crate) struct Painted<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A style takes longer to find that there is nothing to write than most texts take to
        // write.
        if self.style.is_plain() {
            return self.text.fmt(f);
        }
        self.style.fmt(f)?;
        self.text.fmt(f)?;
        self.style.render_reset().fmt(f)
    }
}

/// Returns the text as one line without characters that move the cursor.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| (b' '..0x7f).contains(&b)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(visible(&harness_core::log::escape(text)))
}

/// Escapes characters in JSON that a terminal would act on. They occur only in strings, where the
/// escape means the same.
pub(crate) fn visible_json(json: &str) -> Cow<'_, str> {
    let shown = |c: char| !hidden(c) || c == ' ' || c == '\n';
    if json.chars().all(shown) {
        return Cow::Borrowed(json);
    }
    let escaped = json.chars().fold(String::new(), |mut seen, c| {
        if shown(c) {
            seen.push(c);
        } else {
            seen += &format!("\\u{:04x}", u32::from(c));
        }
        seen
    });
    Cow::Owned(escaped)
}

/// Returns whether a character is invisible but acted on by the terminal, except newlines.
fn hidden(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Prints a warning. The command goes on.
pub(crate) fn warn(text: &str) {
    // If standard error is closed, there is no other place for it.
    _ = writeln!(std::io::stderr(), "WARN: {}", visible(text));
}

/// Makes control characters visible, except newlines. Text from a repository must not be able to
/// move the cursor, clear its line or reorder what a person reads.
pub(crate) fn visible(text: &str) -> String {
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
    fn nothing_that_moves_the_cursor_is_shown_as_it_is() {
        assert_eq!(visible("rm\x1b[2K\rls\u{202e}"), "rm\\u{1b}[2K\\rls\\u{202e}");
        assert_eq!(visible("two\nlines é"), "two\nlines é");
        assert_eq!(one_line("two\nlines é\u{feff}"), "two\\nlines é\\u{feff}");
        let json = "{\n  \"a\": \"\u{9b}2K\u{202e}\"\n}";
        assert_eq!(visible_json(json), "{\n  \"a\": \"\\u009b2K\\u202e\"\n}");
    }
}
