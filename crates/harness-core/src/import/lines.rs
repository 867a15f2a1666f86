//! The lines of a Markdown text, with their places.

use std::ops::Range;

/// A tab counts as this many columns.
const TAB: usize = 4;

/// One line, without its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// The place of its first byte in the text.
    pub(super) start: usize,
    pub(super) text: &'a str,
}

/// Returns the lines of `text`. The mark at the beginning of a file is no part of the first one.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |whole| {
        let at = start;
        start += whole.len();
        let line = whole.strip_suffix('\n').unwrap_or(whole);
        let line = line.strip_suffix('\r').unwrap_or(line);
        match line.strip_prefix('\u{feff}') {
            Some(rest) if at == 0 => Line { start: '\u{feff}'.len_utf8(), text: rest },
            _ => Line { start: at, text: line },
        }
    })
}

impl Line<'_> {
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Returns the number of columns before the first letter.
    pub(super) fn indent(&self) -> usize {
        let blanks = self.text.chars().take_while(|c| c.is_whitespace());
        blanks.map(|c| if c == '\t' { TAB } else { 1 }).sum()
    }
}

/// The heading that a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heading<'a> {
    pub(super) level: usize,
    pub(super) text: &'a str,
}

pub(super) fn heading<'a>(line: &Line<'a>) -> Option<Heading<'a>> {
    let rest = line.text.trim_start_matches('#');
    let level = line.text.len() - rest.len();
    ((1..=6).contains(&level) && rest.starts_with([' ', '\t']))
        .then(|| Heading { level, text: rest.trim().trim_end_matches('#').trim_end() })
}

/// The bullets that can have a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bullets {
    /// `-` and `*`
    Dashes,
    /// Those, `+`, and numbers.
    All,
}

/// An item with a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checkbox<'a> {
    pub(super) indent: usize,
    /// The place of the character in the box.
    pub(super) place: Range<usize>,
    pub(super) done: bool,
    pub(super) text: &'a str,
}

/// Reads an item with a box. The white space before, after and in the box may be of any kind.
pub(super) fn checkbox<'a>(line: &Line<'a>, bullets: Bullets) -> Option<Checkbox<'a>> {
    let body = line.text.trim_start();
    let rest = match bullets {
        Bullets::Dashes => body.strip_prefix(['-', '*'])?,
        Bullets::All => body.strip_prefix(['-', '*', '+']).or_else(|| numbered(body))?,
    };
    let boxed = rest.trim_start().strip_prefix('[')?;
    let inner = boxed.chars().next()?;
    let after = boxed[inner.len_utf8()..].strip_prefix(']')?;
    let done = matches!(inner, 'x' | 'X');
    if !done && !inner.is_whitespace() {
        return None;
    }
    let begin = line.start + (line.text.len() - boxed.len());
    let place = begin..begin + inner.len_utf8();
    Some(Checkbox { indent: line.indent(), place, done, text: after.trim() })
}

fn numbered(body: &str) -> Option<&str> {
    let rest = body.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == body.len() { None } else { rest.strip_prefix(['.', ')']) }
}

/// Whether the lines so far have opened a fenced block.
#[derive(Debug, Default)]
pub(super) struct Fence(Option<(char, usize)>);

impl Fence {
    /// Returns whether a block is open after the last line.
    pub(super) const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the next line. Returns whether it belongs to a fenced block, including its ends.
    pub(super) fn takes(&mut self, line: &Line<'_>) -> bool {
        let body = line.text.trim_start();
        let mark = body.chars().next().filter(|c| matches!(c, '`' | '~'));
        let rest = mark.map_or(body, |mark| body.trim_start_matches(mark));
        let length = body.len() - rest.len();
        match (self.0, mark) {
            (Some((open, size)), Some(mark)) if open == mark && length >= size => {
                if rest.trim().is_empty() {
                    self.0 = None;
                }
                true
            }
            (Some(_), _) => true,
            (None, Some(mark)) if length >= 3 && !(mark == '`' && rest.contains('`')) => {
                self.0 = Some((mark, length));
                true
            }
            (None, _) => false,
        }
    }
}

/// Returns the first text between single backticks that is no part of a longer run of them.
pub(super) fn backticked(text: &str) -> impl Iterator<Item = &str> {
    let parts: Vec<&str> = text.split('`').collect();
    let closed = if parts.len().is_multiple_of(2) { parts.len() - 1 } else { parts.len() };
    let inner: Vec<&str> = parts[..closed].iter().copied().skip(1).step_by(2).collect();
    inner.into_iter().map(str::trim).filter(|part| !part.is_empty())
}

/// Returns the command of a line ``Validate: `cmd` `` in `text`: the last one counts.
pub(super) fn validate_line(text: &str) -> Option<String> {
    let command = |line: &str| {
        let body = line.trim_start().trim_start_matches(['-', '*', '>', ' ', '\t']);
        let rest = labelled(body, "validate")?;
        backticked(rest).next().map(str::to_owned)
    };
    text.lines().filter_map(command).next_back()
}

/// Returns what follows `label:` at the beginning of `text`, which may be bold.
pub(super) fn labelled<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let body = text.trim_start_matches('*');
    let head = body.get(..label.len())?;
    if !head.eq_ignore_ascii_case(label) {
        return None;
    }
    let rest = body[label.len()..].trim_start_matches('*');
    Some(rest.strip_prefix(':')?.trim_start_matches('*').trim())
}

/// Returns `text` without the marks of bold text.
pub(super) fn plain(text: &str) -> String {
    text.replace("**", "").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Line<'_> {
        lines(text).next().unwrap()
    }

    #[test]
    fn a_box_is_found_with_its_place() {
        for (text, bullets, expected) in [
            ("- [ ] 1.1 Do it", Bullets::Dashes, Some((3..4, false, "1.1 Do it"))),
            ("\t* [X]done\r\n", Bullets::Dashes, Some((4..5, true, "done"))),
            ("-[x] a", Bullets::Dashes, Some((2..3, true, "a"))),
            ("- [\u{a0}] a", Bullets::Dashes, Some((3..5, false, "a"))),
            ("- [\t] a", Bullets::Dashes, Some((3..4, false, "a"))),
            ("\u{feff}- [ ] a", Bullets::Dashes, Some((6..7, false, "a"))),
            ("+ [ ] a", Bullets::Dashes, None),
            ("+ [ ] a", Bullets::All, Some((3..4, false, "a"))),
            ("12) [ ] a", Bullets::All, Some((5..6, false, "a"))),
            ("- [link](x)", Bullets::All, None),
            ("- []", Bullets::All, None),
            ("[ ] a", Bullets::All, None),
        ] {
            let found = checkbox(&only(text), bullets);
            let found = found.map(|found| (found.place, found.done, found.text));
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn fences_end_with_a_fence_that_is_as_long() {
        let text = "a\n````md\n```\nb\n````\nc\n~~~\nd";
        let mut fence = Fence::default();
        let outside: Vec<_> = lines(text).filter(|line| !fence.takes(line)).collect();
        let outside: Vec<_> = outside.iter().map(|line| line.text).collect();
        assert_eq!(outside, ["a", "c"]);
    }

    #[test]
    fn a_line_can_name_the_check() {
        let text = "Some text\n- **Validate:** `make a`\nvalidate: `make b` and so on\n";
        assert_eq!(validate_line(text).as_deref(), Some("make b"));
        assert_eq!(validate_line("Validate: nothing"), None);
        assert_eq!(backticked("a `b` c `d` `e").collect::<Vec<_>>(), ["b", "d"]);
    }
}
