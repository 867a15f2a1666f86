//! The word list: words and phrases of an old dialect that the texts of this repository do not use,
//! with what to write instead.

/// A word that is refused as a whole word, in either case.
struct Word {
    text: &'static str,
    instead: &'static str,
    /// The end of the names of files in which it is refused; empty for every kind of file.
    ending: &'static str,
}

const WORDS: &[Word] = &[
    Word { text: "can not", instead: "cannot", ending: "" },
    Word { text: "mend", instead: "fix", ending: "" },
    Word { text: "mended", instead: "fixed", ending: "" },
    Word { text: "whoever", instead: "a noun: the caller, the next writer", ending: "" },
    Word { text: "its words", instead: "its output, its message", ending: "" },
    Word { text: "is told", instead: "receives, gets", ending: "" },
    Word { text: "hears", instead: "receives, learns", ending: ".md" },
    Word { text: "not let in", instead: "not signed in", ending: "" },
];

/// Doc comments that are not sentences.
const ONE_WORD: [&str; 8] =
    ["Which.", "Whose.", "How.", "What.", "Why.", "Who.", "When.", "Where."];

/// First words of doc comments that ask for something instead of naming it.
const QUESTIONS: [&str; 4] = ["Which", "Whose", "Who", "Whoever"];

/// The list itself, which names all of them.
const OWN: &str = "xtask/src/words.rs";
/// Keys of published formats.
const PUBLISHED: [&str; 1] = ["\"mend\":"];

/// Complains about the words in `text`, the content of the file `name`.
pub(crate) fn complaints(name: &str, text: &str) -> Vec<String> {
    let is_prose = [".rs", ".md", ".toml"].iter().any(|ending| name.ends_with(ending));
    if !is_prose || name == OWN {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (n, line) in text.lines().enumerate() {
        if name == "CHANGELOG.md" && line.starts_with("## ") && !line.contains("[Unreleased]") {
            // Released versions are history.
            break;
        }
        let mut complain = |what: String| found.push(format!("{name}:{}: {what}", n + 1));
        let shown = PUBLISHED.iter().fold(line.to_lowercase(), |line, key| line.replace(key, ""));
        for Word { text, instead, .. } in WORDS.iter().filter(|word| word.applies_to(name)) {
            if has_word(&shown, text) {
                complain(format!("not {text:?}: {instead}"));
            }
        }
        let comment = line.trim_start();
        let doc = comment.strip_prefix("/// ").or_else(|| comment.strip_prefix("//! "));
        if doc.is_some_and(|doc| ONE_WORD.contains(&doc)) {
            complain("a comment is a sentence, or it is absent".to_owned());
        } else if let Some(word) = doc.and_then(question) {
            complain(format!("a comment does not begin with {word:?}: name the thing itself"));
        }
    }
    found
}

impl Word {
    fn applies_to(&self, name: &str) -> bool {
        name.ends_with(self.ending)
    }
}

/// Returns the first word of a comment if it is one of [`QUESTIONS`].
fn question(doc: &str) -> Option<&str> {
    let first = doc.split(|c: char| !c.is_alphanumeric()).next()?;
    QUESTIONS.contains(&first).then_some(first)
}

/// Returns whether `word` is in `line` and is not a part of a longer word or of an identifier.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, text: &str) -> Vec<String> {
        let number = |complaint: &String| {
            complaint[name.len() + 1..].split(':').next().unwrap_or_default().to_owned()
        };
        complaints(name, text).iter().map(number).collect()
    }

    #[test]
    fn a_listed_word_is_named_with_its_line_and_what_to_write() {
        let found = complaints("README.md", "One.\nIt Can not be read.\n");
        assert_eq!(found, ["README.md:2: not \"can not\": cannot"]);
    }

    #[test]
    fn only_whole_words_count() {
        let cases = [
            ("We recommend to amend it.", false),
            ("fn a_worker_whoever_started_it() {}", false),
            ("// Whoever asks.", true),
            ("    /// mend: the file", true),
            ("json!({ \"mend\": fix })", false),
        ];
        for (line, refused) in cases {
            assert_eq!(!lines("crates/harness/src/lib.rs", line).is_empty(), refused, "{line}");
        }
    }

    #[test]
    fn a_doc_comment_of_one_word_is_no_sentence() {
        let text =
            "/// How.\nname: String,\n/// How many there are.\nof: u8,\n/// Which.\nit: u8,\n";
        assert_eq!(lines("crates/harness/src/lib.rs", text), ["1", "5"]);
    }

    #[test]
    fn a_doc_comment_does_not_begin_with_a_question() {
        let cases = [
            ("/// Which of them it is.", true),
            ("    /// Who's at work.", true),
            ("//! Whose it is.", true),
            ("/// Whether it is at work.", false),
            ("/// which is a part of a sentence.", false),
            ("// Which of them it is.", false),
            ("/// The run, and who drives it.", false),
        ];
        for (line, refused) in cases {
            let expected: &[&str] = if refused { &["1"] } else { &[] };
            assert_eq!(lines("crates/harness/src/lib.rs", line), expected, "{line}");
        }
    }

    #[test]
    fn some_words_are_refused_in_pages_only() {
        assert_eq!(lines("docs/hooks.md", "The agent hears it.\n"), ["1"]);
        assert!(lines("crates/harness/src/lib.rs", "worker.hears(command);\n").is_empty());
        assert!(lines("crates/harness/tests/frames/run.frames", "can not\n").is_empty());
    }

    #[test]
    fn released_versions_are_history() {
        let text = "## [Unreleased]\n- It can not.\n## [0.1.0]\n- It can not.\n";
        assert_eq!(lines("CHANGELOG.md", text), ["2"]);
    }
}
