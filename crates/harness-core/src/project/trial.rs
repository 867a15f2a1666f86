//! What a trial of the project's check means: whether it can judge tasks, and whether it can do so in
//! a clean checkout.

use crate::check::Verdict;

/// How the check ended in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialRun {
    /// What that means.
    pub verdict: Verdict,
    /// How long it took.
    pub seconds: u64,
    /// How long it might have taken.
    pub limit_seconds: u64,
}

/// How far a trial came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// Nothing was run.
    Skipped {
        /// The reason, about "it".
        why: String,
    },
    /// It was run in the work tree alone.
    WorkTree {
        /// How it ended there.
        work_tree: TrialRun,
        /// Why there was no clean checkout; empty where the work tree has already failed.
        why: String,
    },
    /// It passed in the work tree and was run in a clean checkout.
    Both {
        /// How it ended in the work tree.
        work_tree: TrialRun,
        /// How it ended in the checkout.
        clean: TrialRun,
        /// What was checked out, in words.
        commit: String,
    },
}

/// What the settings should say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The command can judge tasks, as far as is known.
    pub usable: bool,
    /// A clean checkout can be judged, which was seen.
    pub clean: bool,
    /// What was tried and what came of it, about "it".
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

    /// A check that is red may be what the tasks are about. One that cannot be run judges nothing.
    fn is_usable(&self) -> bool {
        match self.verdict {
            Verdict::Passed | Verdict::Red { .. } | Verdict::TimedOut | Verdict::Cancelled => true,
            Verdict::Missing => false,
        }
    }
}

impl Trial {
    /// A clean checkout is only judged if the check was seen to pass there as in the work tree.
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
