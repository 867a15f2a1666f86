//! One line of the progress log: how it is written and how it is read back.
//!
//! This module owns the shape `[time] [SESSION-n] TYPE [task]? [CATEGORY]? message`. It guarantees
//! that a line stays one line, whatever texts it contains. The facts own the messages.

use std::{borrow::Cow, fmt};

use crate::{Category, TaskId, Timestamp};

/// The type of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The ledger was created, or the environment was checked.
    Init,
    /// A task was claimed.
    Starting,
    /// A task was completed. Each completion has exactly one such line.
    Completed,
    /// An attempt failed, or a session stopped with an error.
    Error,
    /// An attempt reported its progress.
    Checkpoint,
    /// The work tree was reset.
    Rollback,
    /// The leftovers of an earlier process were cleaned up.
    Recovery,
    /// The numbers of the ledger at the end of a session.
    Stats,
    /// A session took or gave back the lock.
    Lock,
    /// Nothing failed, but a person should know about it.
    Warn,
}

/// The bracketed words that may stand between a type and its message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Nothing,
    Task,
    TaskOrCategory,
}

impl Kind {
    /// All types, each once.
    pub const ALL: [Self; 10] = [
        Self::Init,
        Self::Starting,
        Self::Completed,
        Self::Error,
        Self::Checkpoint,
        Self::Rollback,
        Self::Recovery,
        Self::Stats,
        Self::Lock,
        Self::Warn,
    ];

    /// Returns the name that the log uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "INIT",
            Self::Starting => "Starting",
            Self::Completed => "Completed",
            Self::Error => "ERROR",
            Self::Checkpoint => "CHECKPOINT",
            Self::Rollback => "ROLLBACK",
            Self::Recovery => "RECOVERY",
            Self::Stats => "STATS",
            Self::Lock => "LOCK",
            Self::Warn => "WARN",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }

    /// Returns which brackets may follow the type. The message of `Starting` is a title that its
    /// author chose, and a title `[CONFIG] read it` must not be read as a category. The types that
    /// only name a task are therefore kept apart.
    const fn subject(self) -> Subject {
        match self {
            Self::Init | Self::Stats | Self::Lock => Subject::Nothing,
            Self::Starting | Self::Completed | Self::Checkpoint => Subject::Task,
            Self::Error | Self::Rollback | Self::Recovery | Self::Warn => Subject::TaskOrCategory,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The time at which it became true.
    pub time: Timestamp,
    /// The N of `SESSION-N`.
    pub session: u64,
    /// The type of the line.
    pub kind: Kind,
    /// The task that the line is about.
    pub task: Option<TaskId>,
    /// The category of the failure.
    pub category: Option<Category>,
    /// The message, unescaped. It is escaped when the line is written.
    pub message: String,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] [SESSION-{}] {}", self.time, self.session, self.kind)?;
        if let Some(task) = &self.task {
            write!(f, " [{task}]")?;
        }
        if let Some(category) = self.category {
            write!(f, " [{category}]")?;
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, " {}", escape(&self.message)) }
    }
}

impl LogLine {
    /// Parses a line. Returns `None` for a line of another shape, because people and scripts append
    /// to the log too.
    ///
    /// The shape is ambiguous in two cases. After `ERROR`, `WARN`, `ROLLBACK` and `RECOVERY`, a
    /// bracket that is a category is read as one, so a task named `CONFIG` is not found there. If
    /// such a line has no task, a message that begins with a bracketed id is read as the task.
    /// Escapes in the message stay as they are written.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.contains(['\n', '\r']) {
            return None;
        }
        let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let (session, rest) = rest.strip_prefix("[SESSION-")?.split_once("] ")?;
        let (kind, rest) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        let kind = Kind::parse(kind)?;
        let (task, category, rest) = subject(kind, rest);
        Some(Self {
            time: Timestamp::parse(time).ok()?,
            session: number(session)?,
            kind,
            task,
            category,
            message: rest.strip_prefix(' ').unwrap_or(rest).to_owned(),
        })
    }
}

/// Splits the task and the category off the front of the text after the type.
fn subject(kind: Kind, rest: &str) -> (Option<TaskId>, Option<Category>, &str) {
    let task_first = |rest| match bracket(rest) {
        Some((word, after)) => match TaskId::parse(word) {
            Ok(task) => (Some(task), after),
            Err(_) => (None, rest),
        },
        None => (None, rest),
    };
    let category_first = |rest| match bracket(rest) {
        Some((word, after)) => match word.parse::<Category>() {
            Ok(category) => (Some(category), after),
            Err(_) => (None, rest),
        },
        None => (None, rest),
    };
    match kind.subject() {
        Subject::Nothing => (None, None, rest),
        Subject::Task => {
            let (task, rest) = task_first(rest);
            (task, None, rest)
        }
        Subject::TaskOrCategory => match category_first(rest) {
            (Some(category), after) => (None, Some(category), after),
            (None, rest) => match task_first(rest) {
                (Some(task), after) => {
                    let (category, after) = category_first(after);
                    (Some(task), category, after)
                }
                (None, rest) => (None, None, rest),
            },
        },
    }
}

/// Splits ` [word] rest` into `word` and ` rest`.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let (word, after) = text.strip_prefix(" [")?.split_once(']')?;
    (after.is_empty() || after.starts_with(' ')).then_some((word, after))
}

/// Accepts digits only. Rust would also parse `+1`, which is not a number of our log.
fn number<N: std::str::FromStr>(digits: &str) -> Option<N> {
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Returns the step, the total and the description of a checkpoint message, `step=2/4
/// "<description>"`.
///
/// The description ends at the last quote of the message, so it may contain quotes itself.
pub fn parse_checkpoint(message: &str) -> Option<(u32, u32, &str)> {
    let (step, rest) = message.strip_prefix("step=")?.split_once('/')?;
    let (total, rest) = rest.split_once(' ')?;
    let description = rest.strip_prefix('"')?.strip_suffix('"')?;
    Some((number(step)?, number(total)?, description))
}

/// Makes a text fit for one line of a terminal. Every character that ends a line, moves the cursor
/// or changes the reading direction becomes visible (`\n`, `\t`, `\u{1b}`).
///
/// The original cannot be recovered from the result: a backslash is not doubled, so that paths and
/// patterns stay legible. A second pass changes nothing.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if is_unsafe(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Matches control characters (C0, DEL and C1, which includes U+0085), the line and paragraph
/// separators, and the bidirectional embeddings, overrides and isolates.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str = "[2025-07-01T10:00:00Z] [SESSION-1] ";

    fn read(tail: &str) -> LogLine {
        LogLine::parse(&format!("{HEAD}{tail}")).unwrap()
    }

    #[test]
    fn the_shapes_of_the_specification_read_and_write_alike() {
        use Kind::*;
        let cases = [
            ("INIT Harness initialized for project /srv/x", Init, None, None),
            ("INIT Environment health check: PASS", Init, None, None),
            ("LOCK acquired (pid=12345)", Lock, None, None),
            ("LOCK released", Lock, None, None),
            ("LOCK [task-001] is no task here", Lock, None, None),
            ("Starting [task-001] Add login (base=abc1234)", Starting, Some("task-001"), None),
            ("Starting [CONFIG] [TIMEOUT] a title (base=none)", Starting, Some("CONFIG"), None),
            ("Completed [task-001] (commit def5678)", Completed, Some("task-001"), None),
            ("CHECKPOINT [task-001] step=2/4 \"tests\"", Checkpoint, Some("task-001"), None),
            ("ERROR [t] [TASK_EXEC] it broke", Error, Some("t"), Some(Category::TaskExec)),
            ("ERROR [ENV_SETUP] corrupted", Error, None, Some(Category::EnvSetup)),
            ("ERROR [ENV_SETUP] [t] is text", Error, None, Some(Category::EnvSetup)),
            ("ERROR nothing in brackets", Error, None, None),
            ("ERROR [not an id] text", Error, None, None),
            ("ROLLBACK [task-002] git reset --hard abc1234", Rollback, Some("task-002"), None),
            ("RECOVERY [task-002] action=\"a\" reason=\"r\"", Recovery, Some("task-002"), None),
            ("STATS tasks_total=5 completed=1", Stats, None, None),
            ("WARN  two spaces stay", Warn, None, None),
            ("WARN", Warn, None, None),
        ];
        for (tail, kind, task, category) in cases {
            let line = read(tail);
            let got = (line.kind, line.task.as_ref().map(TaskId::as_str), line.category);
            assert_eq!(got, (kind, task, category), "{tail}");
            assert_eq!(line.to_string(), format!("{HEAD}{tail}"));
        }
        assert_eq!(read("ERROR [t] [TASK_EXEC] it broke").message, "it broke");
        assert_eq!(read("WARN  two spaces stay").message, " two spaces stay");
    }

    #[test]
    fn lines_that_do_not_fit_are_none() {
        let cases = [
            "",
            "hello",
            "[2025-07-01T10:00:00Z]",
            "[yesterday] [SESSION-1] LOCK released",
            "[2025-07-01T10:00:00Z] [SESSION-x] LOCK released",
            "[2025-07-01T10:00:00Z] [SESSION-+1] LOCK released",
            "[2025-07-01T10:00:00Z] [SESSION-] LOCK released",
            "[2025-07-01T10:00:00Z] [SESSION-99999999999999999999] LOCK released",
            "[2025-07-01T10:00:00Z] LOCK released",
            "[2025-07-01T10:00:00Z] [SESSION-1] lock released",
            "[2025-07-01T10:00:00Z] [SESSION-1] LOCKED",
            "[2025-07-01T10:00:00Z] [SESSION-1] LOCK a\n[2025-07-01T10:00:00Z] LOCK b",
        ];
        for line in cases {
            assert_eq!(LogLine::parse(line), None, "{line:?}");
        }
        assert_eq!(read("LOCK released\r\n").message, "released");
    }

    #[test]
    fn escapes_what_moves_a_terminal_and_nothing_else() {
        let cases = [
            ("plain ünïcode 漢字 \u{1f980} C:\\new", "plain ünïcode 漢字 \u{1f980} C:\\new"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\0\u{1b}[31m\u{7f}\u{85}\u{9b}", "\\u{0}\\u{1b}[31m\\u{7f}\\u{85}\\u{9b}"),
            ("\u{2028}\u{2029}\u{202a}\u{202e}", "\\u{2028}\\u{2029}\\u{202a}\\u{202e}"),
            ("\u{2065}\u{2066}\u{2069}", "\u{2065}\\u{2066}\\u{2069}"),
        ];
        for (text, escaped) in cases {
            assert_eq!(escape(text), escaped);
        }
        assert!(matches!(escape("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn checkpoints_read_back() {
        assert_eq!(parse_checkpoint("step=2/4 \"half\""), Some((2, 4, "half")));
        assert_eq!(parse_checkpoint("step=2/4 \"say \"hi\"\""), Some((2, 4, "say \"hi\"")));
        for bad in ["", "step=2/4", "step=2/4 \"", "step=a/4 \"x\"", "step=2 \"x\"", "step=/ \"x\""]
        {
            assert_eq!(parse_checkpoint(bad), None, "{bad:?}");
        }
    }

    /// Generates lines whose message cannot be mistaken for the brackets before it.
    fn lines() -> impl Strategy<Value = LogLine> {
        let category = proptest::option::of(proptest::sample::select(&Category::ALL[..]));
        let task = proptest::option::of("t[a-z0-9._-]{0,9}[a-z]");
        let kind = proptest::sample::select(&Kind::ALL[..]);
        let message = any::<String>().prop_map(|m| m.trim_start_matches('[').to_owned());
        (0..200_000_000_000_i64, any::<u64>(), kind, task, category, message).prop_map(
            |(seconds, session, kind, task, category, message)| {
                let subject = kind.subject();
                let task = task.and_then(|t| TaskId::parse(&t).ok());
                LogLine {
                    time: Timestamp::from_seconds(seconds),
                    session,
                    kind,
                    task: task.filter(|_| subject != Subject::Nothing),
                    category: category.filter(|_| subject == Subject::TaskOrCategory),
                    message,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_line_is_always_one_line(line in lines()) {
            let text = line.to_string();
            prop_assert!(!text.chars().any(is_unsafe));
            prop_assert_eq!(text.lines().count(), 1);
        }

        #[test]
        fn what_is_written_reads_back(line in lines()) {
            let clean = LogLine { message: escape(&line.message).into_owned(), ..line };
            prop_assert_eq!(LogLine::parse(&clean.to_string()), Some(clean));
        }

        #[test]
        fn escaping_twice_changes_nothing(text in any::<String>()) {
            let once = escape(&text).into_owned();
            prop_assert_eq!(escape(&once), once.as_str());
        }

        #[test]
        fn reading_never_panics(text in any::<String>(), tail in "[ \\[\\]A-Za-z_0-9é/=\"-]{0,40}") {
            let _ = LogLine::parse(&text);
            let _ = LogLine::parse(&format!("{HEAD}{tail}"));
            let _ = LogLine::parse(&format!("{HEAD}ERROR {tail}"));
            let _ = parse_checkpoint(&text);
            let _ = parse_checkpoint(&tail);
        }
    }
}
