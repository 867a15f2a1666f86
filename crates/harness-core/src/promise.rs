//! The promise: the text by which an agent reports that it is done.
//!
//! It is searched only in the final text of a turn. The caller decides which text that is, and
//! whether the promise is enough.

use std::{borrow::Cow, str::FromStr};

const OPENING: &str = "<promise>";
const CLOSING: &str = "</promise>";

/// The form in which a promise must appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Match {
    /// Alone on a line, at the very end, or in its tag: where a mention is no promise.
    #[default]
    Line,
    /// Anywhere, as a word of its own.
    Token,
    /// Only as `<promise>…</promise>`.
    Tag,
}

impl Match {
    /// Returns the name that the configuration uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Token => "token",
            Self::Tag => "tag",
        }
    }

    /// Returns the text that an agent must write so that `promise` is found.
    pub fn spelled(self, promise: &str) -> String {
        match self {
            Self::Line | Self::Token => promise.to_owned(),
            Self::Tag => format!("{OPENING}{promise}{CLOSING}"),
        }
    }
}

/// The error for a text that is not a form of promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a way to match a promise: use `line`, `token` or `tag`")]
pub struct BadMatch(String);

impl FromStr for Match {
    type Err = BadMatch;

    fn from_str(text: &str) -> Result<Self, BadMatch> {
        match text {
            "line" => Ok(Self::Line),
            "token" => Ok(Self::Token),
            "tag" => Ok(Self::Tag),
            other => Err(BadMatch(other.chars().take(80).collect())),
        }
    }
}

/// Returns whether `text` contains `promise`. The match is literal and case-sensitive, and the
/// promise must be a whole token: no letter, digit or `_` directly before or after it. A blank
/// promise is never kept, because every text would keep it.
pub fn is_kept(text: &str, promise: &str, how: Match) -> bool {
    if promise.trim().is_empty() {
        return false;
    }
    match how {
        Match::Line => has_line(text, promise) || has_tag(text, promise),
        Match::Token => has_token(text, promise),
        Match::Tag => has_tag(text, promise),
    }
}

/// Whether `text` holds the promise as a token, but not in a way that keeps it.
pub fn is_only_mentioned(text: &str, promise: &str, how: Match) -> bool {
    !promise.trim().is_empty() && has_token(text, promise) && !is_kept(text, promise, how)
}

/// Alone on a line, or at the end of the text. Punctuation, quotes and marks of emphasis beside it
/// make no difference.
fn has_line(text: &str, promise: &str) -> bool {
    let blank = |text: &str| !text.contains(is_word);
    tokens(text, promise).any(|start| {
        let (before, after) = (&text[..start], &text[start + promise.len()..]);
        let line_before = before.rsplit(['\n', '\r']).next().unwrap_or_default();
        let line_after = after.split(['\n', '\r']).next().unwrap_or_default();
        blank(after) || (blank(line_before) && blank(line_after))
    })
}

fn has_token(text: &str, promise: &str) -> bool {
    tokens(text, promise).next().is_some()
}

/// Returns the places where the promise begins as a token, in order.
fn tokens<'a>(text: &'a str, promise: &'a str) -> impl Iterator<Item = usize> + 'a {
    let mut from = 0;
    let copies = std::iter::from_fn(move || {
        let start = from + text[from..].find(promise)?;
        // Copies may overlap, and one that begins inside this copy may be a whole token.
        from = start + text[start..].chars().next().map_or(1, char::len_utf8);
        Some(start)
    });
    copies.filter(move |start| {
        let before = text[..*start].chars().next_back();
        let after = text[start + promise.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Looks at the innermost tag, so that a tag that is only mentioned does not hide the one after it.
fn has_tag(text: &str, promise: &str) -> bool {
    let ends = text.match_indices(CLOSING).map(|(at, _)| at);
    let mut from = 0;
    for end in ends {
        let within = text[from..end].rfind(OPENING).map(|at| from + at + OPENING.len());
        if within.is_some_and(|start| text[start..end].trim() == promise.trim()) {
            return true;
        }
        from = end + CLOSING.len();
    }
    false
}

/// Removes every verbatim copy of the prompt from the output of a program. Some programs print
/// their input, and a prompt always contains the promise.
///
/// Carriage returns, and blanks around the prompt, make no difference: a terminal adds the former,
/// and a program may drop the latter. A newline replaces each copy, so that the two texts around it
/// do not become one word.
pub fn without_echo<'a>(output: &'a str, prompt: &str) -> Cow<'a, str> {
    let prompt = prompt.replace('\r', "");
    let prompt = prompt.trim();
    if prompt.is_empty() {
        return Cow::Borrowed(output);
    }
    let (plain, places) = without_returns(output);
    let mut kept = String::new();
    let mut from = 0;
    for (at, _) in plain.match_indices(prompt) {
        let end = at + prompt.len();
        kept += &output[from..place(&places, at)];
        kept.push('\n');
        // Continue directly after the last byte of the copy. Carriage returns that follow it are
        // not part of the prompt, and keeping them does no harm.
        from = place(&places, end - 1) + 1;
    }
    if kept.is_empty() {
        return Cow::Borrowed(output);
    }
    Cow::Owned(kept + &output[from..])
}

/// Returns the text without its carriage returns, and the position in `text` of each remaining
/// byte. The list of positions is empty if nothing was removed.
fn without_returns(text: &str) -> (Cow<'_, str>, Vec<usize>) {
    if !text.contains('\r') {
        return (Cow::Borrowed(text), Vec::new());
    }
    let bytes = text.bytes().enumerate().filter(|(_, byte)| *byte != b'\r');
    (Cow::Owned(text.replace('\r', "")), bytes.map(|(at, _)| at).collect())
}

fn place(places: &[usize], at: usize) -> usize {
    places.get(at).copied().unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROMISE: &str = "TASK_COMPLETE";

    #[test]
    fn a_promise_is_a_token_of_its_own() {
        for (text, kept) in [
            ("TASK_COMPLETE", true),
            ("Done. TASK_COMPLETE", true),
            ("Done.\nTASK_COMPLETE.\n", true),
            ("<promise>TASK_COMPLETE</promise>", true),
            ("**TASK_COMPLETE**", true),
            ("`TASK_COMPLETE`", true),
            ("\"TASK_COMPLETE\"", true),
            ("TASK_COMPLETED, but TASK_COMPLETE", true),
            ("…TASK_COMPLETE…", true),
            ("", false),
            ("TASK_COMPLETED", false),
            ("NOT_TASK_COMPLETE", false),
            ("MYTASK_COMPLETE", false),
            ("TASK_COMPLETE_", false),
            ("TASK_COMPLETE2", false),
            ("éTASK_COMPLETE", false),
            ("TASK_COMPLETEß", false),
            ("TASK_COMPLETE完", false),
            ("task_complete", false),
            ("TASK COMPLETE", false),
            ("TASK_\nCOMPLETE", false),
        ] {
            assert_eq!(is_kept(text, PROMISE, Match::Token), kept, "{text:?}");
        }
    }

    #[test]
    fn a_mention_is_no_promise() {
        for (text, kept, mentioned) in [
            ("TASK_COMPLETE", true, false),
            ("All of it is done.\n\nTASK_COMPLETE\n", true, false),
            ("Done. TASK_COMPLETE.", true, false),
            ("**TASK_COMPLETE**\nThe tests pass.", true, false),
            ("> `TASK_COMPLETE`!\r\nThe tests pass.", true, false),
            ("- \"TASK_COMPLETE\"\nas asked", true, false),
            ("It is <promise>TASK_COMPLETE</promise> by now", true, false),
            ("not TASK_COMPLETE yet", false, true),
            ("I will say TASK_COMPLETE when\nall of it is done", false, true),
            ("TASK_COMPLETE: no, two tests fail\nso there is work left", false, true),
            ("TASK_COMPLETE\u{301}x TASK_COMPLETE no", false, true),
            ("TASK_COMPLETED\nnot yet", false, false),
            ("", false, false),
        ] {
            assert_eq!(is_kept(text, PROMISE, Match::Line), kept, "{text:?}");
            assert_eq!(is_only_mentioned(text, PROMISE, Match::Line), mentioned, "{text:?}");
            assert!(!is_only_mentioned(text, PROMISE, Match::Token), "{text:?}");
        }
        assert!(is_only_mentioned("TASK_COMPLETE", PROMISE, Match::Tag));
        assert!(is_kept("Ja, fertig!", "Ja, fertig", Match::Line));
        assert!(is_kept("so:\n...\nend", "...", Match::Line));
        assert!(!is_only_mentioned("any thing", " ", Match::Line));
    }

    #[test]
    fn the_stricter_way_takes_only_the_tag() {
        for (text, kept) in [
            ("<promise>TASK_COMPLETE</promise>", true),
            ("so: <promise> TASK_COMPLETE\n</promise>.", true),
            ("a <promise> is due: <promise>TASK_COMPLETE</promise>", true),
            ("<promise>no</promise><promise>TASK_COMPLETE</promise>", true),
            ("</promise><promise>TASK_COMPLETE</promise>", true),
            ("TASK_COMPLETE", false),
            ("<promise>TASK_COMPLETED</promise>", false),
            ("<promise>not TASK_COMPLETE</promise>", false),
            ("<promise>TASK_COMPLETE", false),
            ("<PROMISE>TASK_COMPLETE</PROMISE>", false),
            ("<promise></promise>TASK_COMPLETE</promise>", false),
        ] {
            assert_eq!(is_kept(text, PROMISE, Match::Tag), kept, "{text:?}");
        }
    }

    #[test]
    fn odd_promises_are_taken_literally() {
        for (text, promise, kept) in [
            ("xA A A", "A A", true),
            ("aaaa", "aa", false),
            ("é é é!", "é é", true),
            ("it is .* done", ".*", true),
            ("fertig: Ja, wörtlich", "wörtlich", true),
            ("anything", "", false),
            ("any thing", " ", false),
        ] {
            assert_eq!(is_kept(text, promise, Match::Token), kept, "{text:?} {promise:?}");
        }
        assert!(!is_kept("<promise></promise>", "", Match::Tag));
    }

    #[test]
    fn the_way_to_look_is_read_from_its_name() {
        for how in [Match::Line, Match::Token, Match::Tag] {
            assert_eq!(how.as_str().parse(), Ok(how));
            assert!(is_kept(&how.spelled(PROMISE), PROMISE, how));
        }
        assert!("Tag".parse::<Match>().is_err());
    }

    #[test]
    fn an_echoed_prompt_keeps_nothing() {
        let prompt = "Build it.\nThen say TASK_COMPLETE\n";
        for (output, left) in [
            ("Build it.\nThen say TASK_COMPLETE\n", "\n\n"),
            ("Build it.\r\nThen say TASK_COMPLETE\r\n", "\n\r\n"),
            ("Build it.\nThen say TASK_COMPLETE", "\n"),
            ("> Build it.\nThen say TASK_COMPLETE\nworking", "> \n\nworking"),
            ("TASK_Build it.\nThen say TASK_COMPLETECOMPLETE", "TASK_\nCOMPLETE"),
            ("nothing of it\r\n", "nothing of it\r\n"),
        ] {
            let without = without_echo(output, prompt);
            assert_eq!(without, left, "{output:?}");
            assert!(!is_kept(&without, PROMISE, Match::Token), "{output:?}");
        }
        let both = format!("{prompt}{prompt}Done: TASK_COMPLETE");
        assert!(is_kept(&without_echo(&both, prompt), PROMISE, Match::Token));
        assert!(matches!(without_echo("text", ""), Cow::Borrowed("text")));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in any::<String>(), promise in any::<String>(), prompt in any::<String>()) {
            for how in [Match::Line, Match::Token, Match::Tag] {
                is_kept(&text, &promise, how);
                is_only_mentioned(&text, &promise, how);
            }
            without_echo(&text, &prompt);
        }

        /// States the rule in another way: cut the text at each place where the promise begins.
        #[test]
        fn a_token_stands_alone(text in "[aA _.é]{0,12}", promise in "[aA _.é]{1,3}") {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let alone = text.char_indices().any(|(at, _)| {
                text[at..].strip_prefix(promise.as_str()).is_some_and(|after| {
                    !after.starts_with(word) && !text[..at].ends_with(word)
                })
            });
            let kept = is_kept(&text, &promise, Match::Token);
            prop_assert_eq!(kept, alone && !promise.trim().is_empty());
        }

        #[test]
        fn a_prompt_that_is_only_echoed_keeps_no_promise(
            before in "[a-z<>/ \r\n]{0,20}",
            promise in "[A-Z_ ]{1,6}",
            after in "[a-z<>/ \r\n]{0,20}",
            line_end in proptest::sample::select(vec!["\n", "\r\n", "\r\r\n"]),
            end in "[\r\n ]{0,3}",
        ) {
            let prompt = format!("{before}{promise}{after}");
            let echo = prompt.trim_end().replace('\n', line_end) + &end;
            let without = without_echo(&echo, &prompt);
            for how in [Match::Line, Match::Token, Match::Tag] {
                prop_assert!(!is_kept(&without, &promise, how), "{without:?}");
            }
        }

        #[test]
        fn what_is_no_echo_stays(text in "[a-c\r\n]{0,20}", prompt in "[d-f]{1,5}") {
            prop_assert!(matches!(without_echo(&text, &prompt), Cow::Borrowed(same) if same == text));
        }
    }
}
