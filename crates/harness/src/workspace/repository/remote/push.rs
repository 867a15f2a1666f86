//! One push: the changes of refs that are asked for, and the answer of the server.

use std::fmt::Write as _;

use harness_core::CommitId;

/// The most that is kept of the reason of a server.
const WHY_CHARACTERS: usize = 300;

/// The change of one ref of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Update {
    reference: String,
    to: Option<CommitId>,
    expected: Expected,
}

/// What the ref must be before.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    Anything,
    Nothing,
    Commit(CommitId),
}

impl Update {
    /// Creates a ref that must not exist.
    pub(super) fn create(reference: &str, to: &CommitId) -> Self {
        Self::of(reference, Some(to), Expected::Nothing)
    }

    /// Sets a ref, whatever it was.
    pub(super) fn set(reference: &str, to: &CommitId) -> Self {
        Self::of(reference, Some(to), Expected::Anything)
    }

    /// Moves a ref that is at `from`.
    pub(super) fn advance(reference: &str, from: &CommitId, to: &CommitId) -> Self {
        Self::of(reference, Some(to), Expected::Commit(from.clone()))
    }

    /// Removes a ref that is at `from`.
    pub(super) fn delete(reference: &str, from: &CommitId) -> Self {
        Self::of(reference, None, Expected::Commit(from.clone()))
    }

    fn of(reference: &str, to: Option<&CommitId>, expected: Expected) -> Self {
        Self { reference: reference.to_owned(), to: to.cloned(), expected }
    }

    pub(super) fn lease(&self) -> Option<String> {
        let commit = match &self.expected {
            Expected::Anything => return None,
            Expected::Nothing => "",
            Expected::Commit(commit) => commit.as_str(),
        };
        Some(format!("--force-with-lease={}:{commit}", self.reference))
    }

    pub(super) fn refspec(&self) -> String {
        let force = if self.expected == Expected::Anything { "+" } else { "" };
        let to = self.to.as_ref().map_or("", CommitId::as_str);
        format!("{force}{to}:{}", self.reference)
    }
}

/// The answer of the server to a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pushed {
    /// All refs are changed.
    Done,
    /// A ref was not as expected, or another push was faster. Nothing is changed.
    Overtaken,
    /// The server does not allow it. Nothing is changed.
    Refused {
        /// The reason, for people.
        why: String,
    },
}

/// Reasons that another push causes.
const OVERTAKEN: [&str; 6] = [
    "stale info",
    "fetch first",
    "failed to update ref",
    "cannot lock ref",
    "incorrect old value",
    "already exists",
];
/// The reason for refs that would have been changed if another one had been.
const TOGETHER: [&str; 3] =
    ["atomic push failed", "atomic push failure", "atomic transaction failed"];

impl Pushed {
    /// Reads the refusal from the output; `None` if the server gave no answer.
    pub(super) fn refused(stdout: &[u8], stderr: &[u8]) -> Option<Self> {
        let output = String::from_utf8_lossy(stdout);
        let refused = output.lines().filter_map(|line| line.strip_prefix("!\t"));
        let reasons: Vec<&str> = refused.filter_map(|line| line.split('\t').nth(1)).collect();
        let other = |reason: &&&str| !TOGETHER.iter().any(|known| reason.contains(known));
        let reason = reasons.iter().find(other).or_else(|| reasons.first())?;
        // Without a word about the ref the connection broke before the answer.
        if reason.contains("remote failed to report status") {
            return None;
        }
        if OVERTAKEN.iter().chain(&TOGETHER).any(|known| reason.contains(known)) {
            return Some(Self::Overtaken);
        }
        let mut why = inside(reason).to_owned();
        for line in String::from_utf8_lossy(stderr).lines() {
            let said = line.strip_prefix("remote:").map(str::trim);
            let said = said.filter(|said| !said.is_empty() && !said.starts_with("error: hook"));
            if let Some(said) = said {
                let _ = write!(why, "; {said}");
            }
        }
        Some(Self::Refused { why: why.chars().take(WHY_CHARACTERS).collect() })
    }
}

/// Returns the words in parentheses of `[remote rejected] (pre-receive hook declined)`.
fn inside(reason: &str) -> &str {
    let words = reason.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    words.map_or(reason, |(words, _)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(digit: char) -> CommitId {
        CommitId::parse(&digit.to_string().repeat(40)).unwrap()
    }

    #[test]
    fn an_update_has_a_lease_unless_it_may_replace_anything() {
        let (a, b) = (commit('a'), commit('b'));
        let advance = Update::advance("refs/heads/main", &a, &b);
        assert_eq!(advance.lease().unwrap(), format!("--force-with-lease=refs/heads/main:{a}"));
        assert_eq!(advance.refspec(), format!("{b}:refs/heads/main"));
        let delete = Update::delete("refs/harness/land/t", &a);
        assert_eq!(delete.refspec(), ":refs/harness/land/t");
        let create = Update::create("refs/x/y", &a);
        assert_eq!(create.lease().unwrap(), "--force-with-lease=refs/x/y:");
        let set = Update::set("refs/x/y", &a);
        assert_eq!((set.lease(), set.refspec()), (None, format!("+{a}:refs/x/y")));
    }

    #[test]
    fn the_answers_of_servers_are_told_apart() {
        let answer = |lines: &str, stderr: &str| {
            let output = format!("To file:///srv/a.git\n{lines}\nDone\n");
            Pushed::refused(output.as_bytes(), stderr.as_bytes())
        };
        let main = |reason: &str| format!("!\tabc:refs/heads/main\t{reason}");
        let token = |reason: &str| format!("!\t:refs/harness/land/t\t{reason}");
        for reason in [
            "[rejected] (stale info)",
            "[remote rejected] (failed to update ref)",
            "[remote rejected] (cannot lock ref 'refs/heads/main': is at 1 but expected 2)",
        ] {
            let both = format!("{}\n{}", token("[rejected] (atomic push failed)"), main(reason));
            assert_eq!(answer(&both, ""), Some(Pushed::Overtaken), "{reason}");
        }
        let why = "pre-receive hook declined; main is protected".to_owned();
        assert_eq!(
            answer(
                &main("[remote rejected] (pre-receive hook declined)"),
                "remote: main is protected        \nerror: failed to push some refs\n"
            ),
            Some(Pushed::Refused { why })
        );
        let lost = main("[remote failure] (remote failed to report status)");
        assert_eq!(answer(&lost, ""), None);
        assert_eq!(answer("", "fatal: Could not read from remote repository."), None);
    }
}
