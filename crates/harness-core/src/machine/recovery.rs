//! Decides about a task that was found `in_progress` after its session died.
//!
//! This is one table from evidence to action. An attempt that recorded an `intent` is not decided
//! here. The caller finishes the intent first, because git may already have been touched for it.
//! Nor does this table judge a check: a recovered attempt follows the path of every other attempt,
//! and this module only determines where on that path it continues.

use std::{borrow::Cow, fmt};

use crate::Category;

/// Tracked changes, or untracked files that were not there at the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Uncommitted {
    /// The tree is clean.
    Nothing,
    /// The tree has changes.
    Changes,
}

/// Commits since base whose message names the task as a whole token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskCommits {
    /// No commit names the task.
    Missing,
    /// At least one commit names the task.
    Found,
}

/// The relation of the checkpoints to the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checkpoints {
    /// The attempt made none.
    Missing,
    /// The tree is the one that the last checkpoint recorded.
    Matching {
        /// The step of that checkpoint.
        step: u32,
    },
    /// The tree is another one, or the checkpoint recorded none. The checkpoint cannot be trusted.
    Lost,
}

/// The evidence for the decision about an interrupted attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// The changes in the work tree.
    pub uncommitted: Uncommitted,
    /// The commits since the claim.
    pub task_commits: TaskCommits,
    /// The checkpoints of this attempt.
    pub checkpoints: Checkpoints,
}

/// The time at which the changes in the tree are committed, relative to the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommitWhen {
    /// There is nothing to commit.
    Never,
    /// The changes are committed only if the check passes.
    AfterPass,
    /// The task already has commits. The rest is committed too, and then all of it is checked.
    BeforeCheck,
}

/// The continuation of an interrupted attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The attempt produced nothing.
    FailNoProgress,
    /// The attempt had work, but it is no longer in the tree.
    FailWorkLost,
    /// The work continues after this checkpoint.
    Resume {
        /// The last finished step.
        step: u32,
    },
    /// The check decides: a pass completes the task, a failure rolls it back and fails it.
    Judge {
        /// The time at which the changes in the tree are committed.
        commit: CommitWhen,
    },
}

/// Looks up the action in the recovery matrix.
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
    /// Returns the `action="…"` of the RECOVERY line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FailNoProgress | Self::FailWorkLost => "fail",
            Self::Resume { .. } => "resume",
            Self::Judge { commit: CommitWhen::Never } => "validate",
            Self::Judge { commit: CommitWhen::AfterPass } => "validate, then commit",
            Self::Judge { commit: CommitWhen::BeforeCheck } => "commit, then validate",
        }
    }

    /// Returns the `reason="…"` of the RECOVERY line. A caller that knows more (such as a stash
    /// that is younger than the claim) appends it.
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

    /// Returns the error that ends the attempt, if there is nothing left to check.
    pub fn failure(self) -> Option<(Category, Cow<'static, str>)> {
        match self {
            Self::FailNoProgress | Self::FailWorkLost => {
                Some((Category::SessionTimeout, self.reason()))
            }
            Self::Resume { .. } | Self::Judge { .. } => None,
        }
    }
}

/// Formats the message of the RECOVERY line, `action="…" reason="…"`.
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

    /// `action` is a total function, so the compiler guarantees exactly one action. This test
    /// checks that every action is reached and that no two of them look the same in the log.
    #[test]
    fn every_action_is_reached_and_has_a_distinct_text() {
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
