//! What becomes of a task that was found `in_progress` after its session died.
//!
//! One table from evidence to action. An attempt that recorded an `intent` is not judged here: the
//! caller finishes the intent first, whatever this table would say, because git may already have
//! been touched on its behalf. Nor is a check's verdict: a judged attempt goes the way of every
//! other attempt, and this page only says where on that way it is taken up again.

use std::{borrow::Cow, fmt};

use crate::Category;

/// Tracked changes, or untracked files that were not there at the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Uncommitted {
    /// The tree is clean.
    Nothing,
    /// It is not.
    Changes,
}

/// Commits since base whose message names the task as a whole token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskCommits {
    /// No commit names the task.
    Missing,
    /// At least one does.
    Found,
}

/// What the checkpoints say about the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checkpoints {
    /// The attempt made none.
    Missing,
    /// The tree is the one that the last checkpoint recorded.
    Matching {
        /// Of that checkpoint.
        step: u32,
    },
    /// The tree is another one, or the checkpoint recorded none: it can not be trusted.
    Lost,
}

/// All that is looked at before an interrupted attempt is decided upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// In the work tree.
    pub uncommitted: Uncommitted,
    /// Since the claim.
    pub task_commits: TaskCommits,
    /// Of this attempt.
    pub checkpoints: Checkpoints,
}

/// When the changes in the tree are committed, relative to the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommitWhen {
    /// There is nothing to commit.
    Never,
    /// Only a green check turns the changes into a commit.
    AfterPass,
    /// The task already has commits of its own: the rest joins them, then all is checked.
    BeforeCheck,
}

/// How an interrupted attempt goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Nothing came of it.
    FailNoProgress,
    /// There was work once; it is not in the tree any more.
    FailWorkLost,
    /// Work goes on after this checkpoint.
    Resume {
        /// The last one that is done.
        step: u32,
    },
    /// The check decides: green completes the task, red rolls it back and fails it.
    Judge {
        /// When what is in the tree becomes a commit.
        commit: CommitWhen,
    },
}

/// The recovery matrix, row by row.
pub fn action(evidence: Evidence) -> Action {
    use Checkpoints as C;
    use TaskCommits as T;
    use Uncommitted as U;
    match (evidence.uncommitted, evidence.task_commits, evidence.checkpoints) {
        (U::Nothing, T::Missing, C::Missing) => Action::FailNoProgress,
        (U::Nothing, T::Missing, C::Matching { step }) => Action::Resume { step },
        (U::Nothing, T::Missing, C::Lost) => Action::FailWorkLost,
        (U::Nothing, T::Found, C::Missing | C::Matching { .. } | C::Lost) => {
            Action::Judge { commit: CommitWhen::Never }
        }
        (U::Changes, T::Missing, C::Missing | C::Matching { .. } | C::Lost) => {
            Action::Judge { commit: CommitWhen::AfterPass }
        }
        (U::Changes, T::Found, C::Missing | C::Matching { .. } | C::Lost) => {
            Action::Judge { commit: CommitWhen::BeforeCheck }
        }
    }
}

impl Action {
    /// The `action="…"` of the RECOVERY line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FailNoProgress | Self::FailWorkLost => "fail",
            Self::Resume { .. } => "resume",
            Self::Judge { commit: CommitWhen::Never } => "validate",
            Self::Judge { commit: CommitWhen::AfterPass } => "validate, then commit",
            Self::Judge { commit: CommitWhen::BeforeCheck } => "commit, then validate",
        }
    }

    /// The `reason="…"` of the RECOVERY line. A caller that knows more (a stash that is younger
    /// than the claim) adds it behind.
    pub fn reason(self) -> Cow<'static, str> {
        match self {
            Self::FailNoProgress => "No progress detected".into(),
            Self::FailWorkLost => {
                "Work was lost: the tree is not the one of the last checkpoint".into()
            }
            Self::Resume { step } => {
                format!("the tree is the one of the checkpoint at step {step}").into()
            }
            Self::Judge { commit: CommitWhen::Never } => "task commits found".into(),
            Self::Judge { commit: CommitWhen::AfterPass } => "uncommitted changes found".into(),
            Self::Judge { commit: CommitWhen::BeforeCheck } => {
                "task commits and uncommitted changes found".into()
            }
        }
    }

    /// The error that ends the attempt, where there is nothing left to check.
    pub fn failure(self) -> Option<(Category, Cow<'static, str>)> {
        match self {
            Self::FailNoProgress | Self::FailWorkLost => {
                Some((Category::SessionTimeout, self.reason()))
            }
            Self::Resume { .. } | Self::Judge { .. } => None,
        }
    }
}

/// The message of the RECOVERY line, `action="…" reason="…"`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "action=\"{}\" reason=\"{}\"", self.name(), self.reason())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const CHECKPOINTS: [Checkpoints; 3] =
        [Checkpoints::Missing, Checkpoints::Matching { step: 2 }, Checkpoints::Lost];

    fn check(u: Uncommitted, t: TaskCommits, among: &[Checkpoints], expected: Action) {
        for &checkpoints in among {
            let evidence = Evidence { uncommitted: u, task_commits: t, checkpoints };
            assert_eq!(action(evidence), expected, "{evidence:?}");
        }
    }

    #[test]
    fn nothing_at_all_is_no_progress() {
        let [missing, ..] = CHECKPOINTS;
        check(Uncommitted::Nothing, TaskCommits::Missing, &[missing], Action::FailNoProgress);
        let (category, message) = Action::FailNoProgress.failure().unwrap();
        assert_eq!(format!("[{category}] {message}"), "[SESSION_TIMEOUT] No progress detected");
    }

    #[test]
    fn a_tree_that_equals_the_last_checkpoint_resumes_there() {
        let [_, matching, _] = CHECKPOINTS;
        let resume = Action::Resume { step: 2 };
        check(Uncommitted::Nothing, TaskCommits::Missing, &[matching], resume);
        assert_eq!(resume.failure(), None);
    }

    #[test]
    fn a_checkpoint_without_its_tree_is_lost_work() {
        let [.., lost] = CHECKPOINTS;
        check(Uncommitted::Nothing, TaskCommits::Missing, &[lost], Action::FailWorkLost);
        let (category, message) = Action::FailWorkLost.failure().unwrap();
        assert_eq!(category, Category::SessionTimeout);
        assert!(message.starts_with("Work was lost"), "{message}");
    }

    #[test]
    fn commits_of_the_task_are_judged_as_they_are() {
        let judge = Action::Judge { commit: CommitWhen::Never };
        check(Uncommitted::Nothing, TaskCommits::Found, &CHECKPOINTS, judge);
    }

    #[test]
    fn changes_are_judged_before_they_are_committed() {
        let judge = Action::Judge { commit: CommitWhen::AfterPass };
        check(Uncommitted::Changes, TaskCommits::Missing, &CHECKPOINTS, judge);
    }

    #[test]
    fn changes_beside_commits_are_committed_and_judged_together() {
        let judge = Action::Judge { commit: CommitWhen::BeforeCheck };
        check(Uncommitted::Changes, TaskCommits::Found, &CHECKPOINTS, judge);
    }

    /// `action` is a total function, so "exactly one" is the compiler's; what is left to check is
    /// that all actions are reached and that no two of them look the same in the log.
    #[test]
    fn every_action_is_reached_and_told_apart() {
        let mut actions = HashSet::new();
        for uncommitted in [Uncommitted::Nothing, Uncommitted::Changes] {
            for task_commits in [TaskCommits::Missing, TaskCommits::Found] {
                for checkpoints in CHECKPOINTS {
                    actions.insert(action(Evidence { uncommitted, task_commits, checkpoints }));
                }
            }
        }
        assert_eq!(actions.len(), 6);
        let texts: HashSet<_> = actions.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 6);
        assert_eq!(
            Action::FailNoProgress.to_string(),
            r#"action="fail" reason="No progress detected""#
        );
    }
}
