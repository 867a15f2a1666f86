//! The author of a commit. Agents and checks of a run commit under a committer name that contains
//! the attempt. Everything else between the base and HEAD belongs to others.

use harness_core::{Epoch, TaskId};

use super::trailer;

/// Names the attempt whose commits an undo commit reverts.
const REVERTS: &str = "Harness-Reverts: ";
const OPENING: &str = " (harness ";

/// The author of a commit since the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitAuthor {
    /// The attempt, or one that it took over: the mark is in the committer name, or the message names
    /// the task.
    Attempt,
    /// Harness, to undo the attempt.
    Undo,
    /// Another program or person. Such a commit is never removed from its branch.
    Foreign,
}

/// Decides by the committer name and the message. Without an epoch, only the message counts.
pub fn author(committer: &str, message: &str, task: &TaskId, epoch: Option<Epoch>) -> CommitAuthor {
    if let Some(epoch) = epoch {
        // This comes first, because an attempt cannot declare itself undone.
        if marked_until(committer, task, epoch) {
            return CommitAuthor::Attempt;
        }
        let trailer = format!("{REVERTS}{task}.{epoch}");
        if message.lines().any(|line| line.trim_end() == trailer) {
            return CommitAuthor::Undo;
        }
        if trailer::has_trailer(message, task, epoch) {
            return CommitAuthor::Attempt;
        }
    }
    if names_task(message, task) { CommitAuthor::Attempt } else { CommitAuthor::Foreign }
}

/// Returns the committer name for the processes of an attempt: the user's name and the mark.
pub fn committer(user: &str, task: &TaskId, epoch: Epoch) -> String {
    format!("{}{}", unmarked(user), mark(task, epoch))
}

fn mark(task: &TaskId, epoch: Epoch) -> String {
    format!("{OPENING}{task}.{epoch})")
}

/// Returns whether a committer name has the mark of this attempt or of an earlier one of the same
/// task. Commits of an earlier one are since the base only if its work was taken over.
fn marked_until(committer: &str, task: &TaskId, epoch: Epoch) -> bool {
    let mark = committer.strip_suffix(')').and_then(|name| name.rsplit_once(OPENING));
    let attempt = mark.and_then(|(_, attempt)| attempt.rsplit_once('.'));
    attempt.is_some_and(|(of, number)| {
        of == task.as_str() && number.parse().is_ok_and(|number| Epoch(number) <= epoch)
    })
}

/// Returns a committer name without the mark of an attempt. A harness that an agent starts inherits
/// the mark.
pub fn unmarked(committer: &str) -> &str {
    match committer.rfind(OPENING) {
        Some(at) if committer.ends_with(')') => &committer[..at],
        Some(_) | None => committer,
    }
}

/// Returns the message of the commit that reverts an attempt.
pub fn undo_message(task: &TaskId, epoch: Option<Epoch>) -> String {
    match epoch {
        Some(epoch) => format!("{task}: undo\n\n{REVERTS}{task}.{epoch}\n"),
        None => format!("{task}: undo\n"),
    }
}

/// Returns the arguments with which a person makes such a commit.
pub(super) fn undo_arguments(task: &TaskId, epoch: Option<Epoch>, what: &str) -> String {
    let epoch = epoch.unwrap_or_default();
    format!("-m '{task}: {what}' -m '{REVERTS}{task}.{epoch}'")
}

/// Returns whether a commit message names the task id as a whole token: `task-1` is in "task-1:
/// title" and in "fixes task-1.", but not in "task-10" or "my-task-1".
pub fn names_task(message: &str, task: &TaskId) -> bool {
    let part_of_id = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    let mut tokens = message.split(|c| !part_of_id(c));
    tokens.any(|token| token == task.as_str() || token.trim_end_matches('.') == task.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> TaskId {
        TaskId::parse("task-1").unwrap()
    }

    #[test]
    fn a_task_is_named_by_a_whole_token() {
        for yes in ["task-1: title", "x\n\n(task-1)", "fixes task-1.", "task-1"] {
            assert!(names_task(yes, &task()), "{yes}");
        }
        for no in ["task-10: x", "my-task-1", "task-1.5", "task_1", "", "étask-1"] {
            assert!(!names_task(no, &task()), "{no}");
        }
    }

    #[test]
    fn a_commit_is_the_attempts_by_its_mark_or_by_its_message() {
        let epoch = Some(Epoch(3));
        let of = |committer: &str, message: &str| author(committer, message, &task(), epoch);
        let marked = committer("Ada (work)", &task(), Epoch(3));
        assert_eq!(marked, "Ada (work) (harness task-1.3)");
        assert_eq!(of(&marked, "more"), CommitAuthor::Attempt);
        assert_eq!(of("Ada", "task-1: more"), CommitAuthor::Attempt);
        assert_eq!(of("Ada", "my own work"), CommitAuthor::Foreign);
        assert_eq!(of("Ada (harness task-1.2)", "taken over"), CommitAuthor::Attempt);
        assert_eq!(of("Ada (harness task-1.4)", "a later attempt"), CommitAuthor::Foreign);
        assert_eq!(of("Ada (harness task-1.33)", "x"), CommitAuthor::Foreign);
        assert_eq!(of("Ada (harness task-2.3)", "another task"), CommitAuthor::Foreign);
        assert_eq!(of("Ada (harness task-1.x)", "no mark"), CommitAuthor::Foreign);
        assert_eq!(of("Ada", &undo_message(&task(), epoch)), CommitAuthor::Undo);
        assert_eq!(
            of(&marked, &undo_message(&task(), epoch)),
            CommitAuthor::Attempt,
            "its own word"
        );
        assert_eq!(of("Ada", &undo_message(&task(), Some(Epoch(2)))), CommitAuthor::Attempt);
        assert_eq!(author(&marked, "more", &task(), None), CommitAuthor::Foreign);
    }

    #[test]
    fn an_inherited_mark_is_taken_off() {
        assert_eq!(unmarked("Ada (harness task-1.3)"), "Ada");
        assert_eq!(committer("Ada (harness a.1)", &task(), Epoch(3)), "Ada (harness task-1.3)");
        assert_eq!(unmarked("Ada (work)"), "Ada (work)");
    }
}
