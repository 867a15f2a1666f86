//! Text that fits into a line of the terminal.

use ratatui::text::{Line, Span};

use crate::paint::one_line;

/// Returns text of agents and of ledgers on one line, with control characters visible.
pub(super) fn safe(text: &str) -> String {
    one_line(text).into_owned()
}

/// Returns the name of an agent for people. One that is a command is named by it.
pub(super) fn agent_name(name: &str) -> &str {
    name.strip_prefix("command: ").unwrap_or(name)
}

/// Returns the width of a text in cells.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Returns at most `cells` cells of a text. The last one is an ellipsis if something is missing.
pub(super) fn cut(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        let of_char = width(c.encode_utf8(&mut [0; 4]));
        if used + of_char + 1 > cells {
            break;
        }
        kept.push(c);
        used += of_char;
    }
    if cells > 0 {
        kept.push('…');
    }
    kept
}

/// Returns a line with `left` at its beginning and `right` at its end. The last part of `left` is cut
/// if both do not fit.
pub(super) fn apart<'a>(mut left: Vec<Span<'a>>, right: Vec<Span<'a>>, cells: usize) -> Line<'a> {
    let taken: usize = right.iter().map(Span::width).sum();
    let room = cells.saturating_sub(taken + usize::from(taken > 0));
    shorten(&mut left, room);
    let used: usize = left.iter().map(Span::width).sum();
    left.push(Span::raw(" ".repeat(cells.saturating_sub(used + taken))));
    left.extend(right);
    Line::from(left)
}

/// Cuts the spans to `cells` cells.
pub(super) fn shorten(spans: &mut Vec<Span<'_>>, cells: usize) {
    let mut room = cells;
    let mut kept = 0;
    for span in spans.iter_mut() {
        if room == 0 {
            break;
        }
        if span.width() > room {
            span.content = cut(&span.content, room).into();
        }
        room -= span.width().min(room);
        kept += 1;
    }
    spans.truncate(kept);
}

/// Breaks a text into lines of at most `cells` cells, at spaces where possible.
pub(super) fn wrapped(text: &str, cells: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut begun = String::new();
        for word in line.split(' ') {
            let gap = usize::from(!begun.is_empty());
            if !begun.is_empty() && width(&begun) + gap + width(word) > cells {
                lines.push(std::mem::take(&mut begun));
            }
            if !begun.is_empty() {
                begun.push(' ');
            }
            begun.push_str(word);
            while width(&begun) > cells.max(1) {
                let head = hard_cut(&begun, cells.max(1));
                begun = begun[head.len()..].to_owned();
                lines.push(head);
            }
        }
        lines.push(begun);
    }
    lines
}

fn hard_cut(text: &str, cells: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += width(c.encode_utf8(&mut [0; 4]));
        used <= cells
    };
    let head: String = text.chars().take_while(fits).collect();
    // One character that is wider than the line must not stay for ever.
    if head.is_empty() { text.chars().take(1).collect() } else { head }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_and_broken_by_their_width() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("ab", 4), "ab");
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrapped("", 3), Vec::<String>::new());
        let line = apart(vec!["a long text".into()], vec!["end".into()], 10);
        assert_eq!(line.to_string(), "a lon… end");
    }
}
