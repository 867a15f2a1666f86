//! Makes text from an agent or a file fit to stand in a document of ours.
//!
//! The text is data. It may be long, contain invisible characters, or imitate the text around it.
//! This module does not interpret it.

/// Removes characters that are not meant to be read: controls (except newlines and tabs),
/// characters that reorder or hide text, and characters that only a model sees. Every line ending
/// becomes a newline.
pub fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|c| !is_hidden(*c)).collect()
}

/// Does the same as [`plain`] and joins the words on one line with single blanks.
pub fn one_line(text: &str) -> String {
    let text = plain(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Returns the start of a text, at most so many bytes, with `…` if something is left out.
pub fn head(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes.saturating_sub('…'.len_utf8()));
    format!("{}…", text[..end].trim_end())
}

/// Returns the end of a text, at most so many bytes. It starts at the beginning of a line if that
/// costs less than half of it.
pub fn tail(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let start = text.ceil_char_boundary(text.len() - bytes);
    let tail = &text[start..];
    // A partial first line would read like a whole line, but dropping it must not cost most of the
    // text.
    let whole_lines = tail.split_once('\n').map(|(_, rest)| rest);
    whole_lines.filter(|rest| rest.len() >= tail.len() / 2).unwrap_or(tail)
}

/// Puts the text in a fence of backticks that is longer than any run of them inside, so that
/// nothing in the text can close it. `label` is a word of ours.
pub fn fenced(label: &str, text: &str) -> String {
    let text = plain(text);
    let text = text.trim_matches('\n').trim_end();
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{label}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invisible_characters_are_removed() {
        assert_eq!(plain("a\u{1b}[2Kb\r\nc\td\u{202e}\u{e0041}\0\n"), "a[2Kb\nc\td\n");
        assert_eq!(one_line(" a\n\n b\tc\u{200b} "), "a b c");
        assert_eq!(plain("naïve 完 🦀"), "naïve 完 🦀");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(head("short", 5), "short");
        assert_eq!(head("éééé", 6), "é…");
        assert_eq!(head("abc", 0), "…");
        assert_eq!(tail("one\ntwo\nthree", 11), "two\nthree");
        assert_eq!(tail("éé", 3), "é");
        assert_eq!(tail("a\nlong line that is the only one", 12), "the only one");
    }

    #[test]
    fn a_fence_is_longer_than_what_is_inside() {
        assert_eq!(fenced("text", "a\n"), "```text\na\n```");
        assert_eq!(fenced("text", "```\nrm\n````"), "`````text\n```\nrm\n````\n`````");
    }

    proptest! {
        #[test]
        fn nothing_inside_closes_a_fence(text in "[`a \n\r\u{200b}]{0,40}") {
            let fenced = fenced("x", &text);
            let lines: Vec<_> = fenced.lines().collect();
            let fence = lines.last().unwrap();
            prop_assert_eq!(lines[0], format!("{fence}x"));
            let inside = &lines[1..lines.len() - 1];
            prop_assert!(inside.iter().all(|line| !line.contains(fence)), "{fenced}");
        }

        #[test]
        fn a_cut_keeps_to_its_limit(text in any::<String>(), bytes in 3..40_usize) {
            prop_assert!(head(&text, bytes).len() <= bytes);
            prop_assert!(tail(&text, bytes).len() <= bytes);
            prop_assert!(text.ends_with(tail(&text, bytes)));
        }
    }
}
