//! The meaning of a trial of the project's check: whether it can judge tasks, and whether it can do
//! so in a clean checkout.

use crate::check::Verdict;

/// The result of the check in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialRun {
    /// The verdict.
    pub verdict: Verdict,
    /// The duration.
    pub seconds: u64,
    /// The time limit.
    pub limit_seconds: u64,
}

/// The extent of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// Nothing was run.
    Skipped {
        /// The reason, as a phrase about "it".
        why: String,
    },
    /// The check was run in the work tree only.
    WorkTree {
        /// The result in the work tree.
        work_tree: TrialRun,
        /// The reason why there was no clean checkout; empty if the work tree already failed.
        why: String,
    },
    /// The check passed in the work tree and was run in a clean checkout.
    Both {
        /// The result in the work tree.
        work_tree: TrialRun,
        /// The result in the checkout.
        clean: TrialRun,
        /// The commit that was checked out, as text.
        commit: String,
    },
}

/// The recommended settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// `true` if the command can judge tasks, as far as is known.
    pub usable: bool,
    /// `true` if the trial showed that a clean checkout can be judged.
    pub clean: bool,
    /// The trial and its result, as a phrase about "it".
    pub why: String,
}

impl TrialRun {
    fn words(&self) -> String {
        let seconds = self.seconds;
        match &self.verdict {
            Verdict::Passed => format!("passed ({seconds} s)"),
            Verdict::Red { why } => format!("failed ({why}, {seconds} s)"),
            Verdict::TimedOut => format!("took longer than {} s", self.limit_seconds),
            Verdict::Missing => "could not be run (a program is missing)".to_owned(),
            Verdict::Cancelled => format!("was stopped (after {seconds} s)"),
        }
    }

    /// Returns whether the check can judge tasks. A failing check may be what the tasks are about,
    /// but a check that cannot be run judges nothing.
    fn is_usable(&self) -> bool {
        match self.verdict {
            Verdict::Passed | Verdict::Red { .. } | Verdict::TimedOut | Verdict::Cancelled => true,
            Verdict::Missing => false,
        }
    }
}

impl Trial {
    /// Returns the recommended settings. A clean checkout is recommended only if the check passed
    /// both there and in the work tree.
    pub fn advice(&self) -> Advice {
        match self {
            Self::Skipped { why } => Advice { usable: true, clean: false, why: why.clone() },
            Self::WorkTree { work_tree, why } => {
                let mut words = format!("it {} in the work tree", work_tree.words());
                if !why.is_empty() {
                    words = format!("{words}, but {why}");
                }
                Advice { usable: work_tree.is_usable(), clean: false, why: words }
            }
            Self::Both { work_tree, clean, commit } => {
                let passed = [work_tree, clean].iter().all(|run| run.verdict == Verdict::Passed);
                let link = if passed { "and" } else { "but" };
                let why = format!(
                    "it {} in the work tree, {link} {} in a clean checkout of {commit}",
                    work_tree.words(),
                    clean.words()
                );
                Advice { usable: work_tree.is_usable(), clean: passed, why }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(verdict: Verdict) -> TrialRun {
        TrialRun { verdict, seconds: 2, limit_seconds: 300 }
    }

    #[test]
    fn a_clean_checkout_is_judged_only_where_that_was_seen_to_work() {
        let red = || ended(Verdict::Red { why: "exit code 1".into() });
        let both = |clean| Trial::Both {
            work_tree: ended(Verdict::Passed),
            clean,
            commit: "1234567".into(),
        };
        let here = |work_tree, why: &str| Trial::WorkTree { work_tree, why: why.into() };
        let cases = [
            (Trial::Skipped { why: "it was not tried".into() }, "usable: it was not tried"),
            (
                both(ended(Verdict::Passed)),
                "usable, clean: it passed (2 s) in the work tree, and passed (2 s) in a clean checkout \
                 of 1234567",
            ),
            (
                both(red()),
                "usable: it passed (2 s) in the work tree, but failed (exit code 1, 2 s) in a clean \
                 checkout of 1234567",
            ),
            (
                both(ended(Verdict::Missing)),
                "usable: it passed (2 s) in the work tree, but could not be run (a program is missing) \
                 in a clean checkout of 1234567",
            ),
            (here(red(), ""), "usable: it failed (exit code 1, 2 s) in the work tree"),
            (
                here(ended(Verdict::Missing), ""),
                ": it could not be run (a program is missing) in the work tree",
            ),
            (
                here(ended(Verdict::TimedOut), ""),
                "usable: it took longer than 300 s in the work tree",
            ),
            (
                here(ended(Verdict::Passed), "there is no commit"),
                "usable: it passed (2 s) in the work tree, but there is no commit",
            ),
        ];
        for (trial, expected) in cases {
            let Advice { usable, clean, why } = trial.advice();
            let words = [(usable, "usable"), (clean, "clean")];
            let words: Vec<_> = words.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
            assert_eq!(format!("{}: {why}", words.join(", ")), expected);
        }
    }
}
