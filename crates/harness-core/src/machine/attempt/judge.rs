//! From the end of the work to its completion: what may be checked, where, and what is recorded.

use super::{Attempt, Effect, Outcome, State, Step, Why};
use crate::{
    Category, Command, CommitId,
    check::{Baseline, Verdict},
    command::{Authority, Complete, Note, Proof, Unchecked},
    machine::Next,
    protect::{self, OnTouch, Protected},
};

/// How strictly work is judged. By default: in the work tree, after the work, whatever it touched.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Judge a clean checkout of the commit; a task may say otherwise.
    pub clean: bool,
    /// Run the check before the first attempt too; a task may say otherwise.
    pub baseline: bool,
    /// What the work must not touch.
    pub protected: Protected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterWarning {
    Work,
    Judge,
    CleanUp,
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterKeep {
    Check,
    Complete,
}

impl Attempt {
    /// Where the task itself says how it is judged, that holds.
    pub fn judged_by(mut self, rules: Rules) -> Self {
        self.rules = Rules {
            clean: self.task.validation.clean.unwrap_or(rules.clean),
            baseline: self.task.validation.baseline.unwrap_or(rules.baseline),
            protected: rules.protected,
        };
        self.keep_first = self.rules.clean;
        self
    }

    pub(super) fn warn(&mut self, then: AfterWarning, message: String) -> Step {
        let note = Note::Warning { task: Some(self.task.id.clone()), message };
        self.commit(State::Warning { then }, Command::Note(note))
    }

    /// A file of the user that an agent changed is put back, and the user hears of it.
    pub(super) fn undone(
        &mut self,
        base: Option<CommitId>,
        put_back: &[String],
        remark: Option<String>,
    ) -> Step {
        self.base = base;
        let files = put_back.join(", ");
        let put_back =
            (!put_back.is_empty()).then(|| format!("put back as before the claim: {files}"));
        let remarks: Vec<_> = remark.into_iter().chain(put_back).collect();
        if remarks.is_empty() {
            return self.clean_up();
        }
        self.warn(AfterWarning::CleanUp, remarks.join("; "))
    }

    pub(super) fn clean_up(&mut self) -> Step {
        match self.task.cleanup.clone() {
            Some(command) => self.start(State::CleaningUp, Effect::Cleanup { command }),
            None => self.fail(),
        }
    }

    pub(super) fn cleaned_up(&mut self, failed: Option<String>) -> Step {
        match failed {
            Some(why) => self.warn(AfterWarning::Fail, format!("the cleanup failed ({why})")),
            None => self.fail(),
        }
    }

    pub(super) fn based(&mut self, verdict: &Verdict) -> Step {
        self.baseline = Baseline::of(verdict);
        match self.baseline {
            Some(Baseline::Green) => self.warn(
                AfterWarning::Work,
                "the check passed before any work: that it passes proves nothing".into(),
            ),
            Some(Baseline::Red) | None => self.work(),
        }
    }

    /// The work is there: may it be checked, and which comes first, check or commit?
    pub(super) fn judge(&mut self) -> Step {
        if !self.rules.protected.is_empty() && self.touched.is_none() {
            return self.start(State::Touching, Effect::Touched);
        }
        if self.keep_first {
            return self.start(State::Keeping { then: AfterKeep::Check }, Effect::Keep);
        }
        self.check()
    }

    pub(super) fn touched(&mut self, files: &[String]) -> Step {
        let protected = self.rules.protected.among(files);
        let told = protect::touched(&protected);
        let none = protected.is_empty();
        self.touched = Some(protected);
        match self.rules.protected.on_touch() {
            _ if none => self.judge(),
            OnTouch::Flag => self.warn(AfterWarning::Judge, told),
            OnTouch::Refuse => self.intend(Category::TaskExec, told),
        }
    }

    pub(super) fn check(&mut self) -> Step {
        let effect = match self.kept.clone().filter(|_| self.rules.clean) {
            Some(commit) => Effect::CheckCommit { commit },
            None => Effect::Check,
        };
        self.start(State::Checking, effect)
    }

    fn record(&mut self, commit: CommitId) -> Step {
        let (baseline, protected) = (self.baseline, self.touched.clone().unwrap_or_default());
        let effect = Effect::Record { commit: commit.clone(), baseline, protected };
        self.start(State::Recording { commit }, effect)
    }

    pub(super) fn checked(&mut self, verdict: Verdict, last_line: Option<String>) -> Step {
        let told = last_line.map(|line| format!(": {line}")).unwrap_or_default();
        match verdict {
            // What was judged is the commit itself; the work tree may say what it likes by now.
            Verdict::Passed => match self.kept.clone().filter(|_| self.rules.clean) {
                Some(commit) => self.record(commit),
                None => self.start(State::Keeping { then: AfterKeep::Complete }, Effect::Keep),
            },
            Verdict::Red { why } => {
                self.intend(Category::TestFail, format!("The check failed ({why}){told}"))
            }
            Verdict::TimedOut => {
                let limit = self.task.validation.timeout_seconds;
                self.intend(Category::Timeout, format!("The check took longer than {limit} s"))
            }
            Verdict::Missing if !self.prepared => {
                self.prepared = true;
                self.start(State::Preparing, Effect::Prepare)
            }
            // The work may be fine: the next session checks it.
            Verdict::Missing => Next::Done(Outcome::Left(Why::EnvSetup(format!(
                "the check can not be run here: {}",
                self.task.check().unwrap_or_default()
            )))),
            Verdict::Cancelled => Next::Done(Outcome::Left(Why::Interrupted)),
        }
    }

    pub(super) fn kept(&mut self, then: AfterKeep, commit: CommitId) -> Step {
        self.kept = Some(commit.clone());
        match then {
            AfterKeep::Check => self.check(),
            AfterKeep::Complete => self.record(commit),
        }
    }

    pub(super) fn complete(&mut self, commit: CommitId) -> Step {
        let command = Command::Complete(Complete {
            holder: self.holder.clone(),
            authority: Authority::Holder,
            proof: Proof::Passed { command: self.task.check().unwrap_or_default().to_owned() },
            unchecked: Unchecked::Forbidden,
            commit: Some(commit.clone()),
        });
        self.commit(State::Completing { commit }, command)
    }
}
