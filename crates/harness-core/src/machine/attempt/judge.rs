//! The steps of an attempt before and after the judging, which is in [`crate::machine::judge`].

use super::{Attempt, AttemptEnd, Effect, State, Step};
use crate::{
    Category, Command, CommitId, Receipt, Stop,
    check::{Baseline, Verdict},
    command::{Attempts, Note, Raise},
    flag::{self, Flag},
    line,
    machine::{
        Input, Machine as _, Next,
        judge::{self, Finding, Judge, JudgeEnd, Rules},
        land::{Land, LandEnd, LandReport, LandTerms},
    },
    run::StopReason,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterWarning {
    Work,
    CleanUp,
    Fail,
}

impl Attempt {
    /// Sets the rules of judging. Settings of the task itself take precedence.
    pub fn judged_by(mut self, rules: Rules) -> Self {
        let (task, holder) = (self.task.clone(), self.holder.clone());
        self.baseline_first = rules.clone().of(&task).baseline;
        self.rules = rules.clone();
        self.judging = Judge::of_attempt(task, holder, self.lease_seconds, rules);
        self
    }

    /// Lets the result land in the line of several workers, of which `preparing` prepare at the same
    /// time. Call it after [`judged_by`](Self::judged_by).
    pub fn landing_among(mut self, preparing: usize) -> Self {
        self.preparing = Some(preparing);
        self.judging.before_landing();
        self
    }

    /// Renews the claim at each tick of this number only. In the line every tick counts.
    pub fn renewing_every(mut self, ticks: u32) -> Self {
        self.renews_every = ticks.max(1);
        self
    }

    pub(super) fn warn(&mut self, then: AfterWarning, message: String) -> Step {
        let note = Note::Warning { task: Some(self.task.id.clone()), message };
        self.commit(State::Warning { then }, Command::Note(note))
    }

    /// Continues after the undo. The log lists the user's files that were put back.
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
            Some(Baseline::Green) => {
                let (task, flag) = (Some(self.task.id.clone()), Flag::GreenBefore);
                let message = "the check passed before any work, so that it passes proves nothing";
                flag::raise(&mut self.task.flags, flag);
                let raise = Raise { task, flag, message: message.into() };
                let state = State::Warning { then: AfterWarning::Work };
                self.commit(state, Command::Raise(raise))
            }
            Some(Baseline::Red) | None => self.work(),
        }
    }

    /// Judges the work with the machine that judges all work.
    pub(super) fn judge(&mut self) -> Step {
        self.judging.baseline(self.baseline);
        self.state = State::Judging;
        self.through(Input::Begin)
    }

    /// Passes an input to the judge and translates its step.
    pub(super) fn through(&mut self, input: Input<judge::Ended>) -> Step {
        match self.judging.step(self.now, input) {
            Next::Commit(command) => Next::Commit(command),
            Next::Start(effect) => Next::Start(Effect::Judge(effect)),
            Next::Wait => Next::Wait,
            Next::Cancel(cause) => Next::Cancel(cause),
            Next::Done(end) => self.judged(end),
        }
    }

    fn judged(&mut self, end: JudgeEnd) -> Step {
        match end {
            JudgeEnd::Completed { commit } => Next::Done(AttemptEnd::Completed { commit }),
            JudgeEnd::Green(receipt) => self.begin_landing(*receipt),
            JudgeEnd::Found(finding) => match (finding.category(), &finding) {
                (Some(category), _) => self.intend(category, finding.log_message()),
                (None, Finding::Stopped) => Next::Done(AttemptEnd::Left(Stop::interrupted())),
                // The work may be good. The next session checks it.
                (None, Finding::CheckMissing { .. } | Finding::Blocked { .. }) => Next::Done(
                    AttemptEnd::Left(Stop::with_words(StopReason::EnvSetup, finding.sentence())),
                ),
                (None, _) => Next::Done(AttemptEnd::Left(Stop::config(finding.sentence()))),
            },
            JudgeEnd::Refused(refusal) => self.refused_for_good(&refusal),
        }
    }

    fn begin_landing(&mut self, receipt: Receipt) -> Step {
        let Some(base) = self.task.started_at_commit.clone() else {
            let message = "The claim recorded no base commit".to_owned();
            return self.intend(Category::TaskExec, message);
        };
        let terms = LandTerms {
            task: self.task.clone(),
            holder: self.holder.clone(),
            lease_seconds: self.lease_seconds,
            rules: self.rules.clone(),
            base,
            preparing: self.preparing.unwrap_or(line::PREPARING),
        };
        self.landing = Some(Box::new(Land::new(terms, receipt)));
        self.state = State::Landing;
        self.land(Input::Begin)
    }

    /// Fails an attempt that does not count. No intent is recorded, because nothing is decided: the
    /// original work is kept beside the tree until the failure is durable, so that after a crash the
    /// result is judged again.
    fn spare(&mut self, category: Category, message: String) -> Step {
        self.verdict = Some((category, message));
        self.attempts = Attempts::None;
        self.start(State::Undoing, Effect::Undo)
    }

    /// Passes an input to the machine of the landing and translates its step.
    pub(super) fn land(&mut self, input: Input<LandReport>) -> Step {
        let Some(landing) = &mut self.landing else { return Next::Wait };
        match landing.step(self.now, input) {
            Next::Commit(command) => Next::Commit(command),
            Next::Start(effect) => Next::Start(Effect::Land(Box::new(effect))),
            Next::Wait => Next::Wait,
            Next::Cancel(cause) => Next::Cancel(cause),
            Next::Done(LandEnd::Landed { commit }) => Next::Done(AttemptEnd::Completed { commit }),
            Next::Done(LandEnd::Refused { category, message, attempts: Attempts::None }) => {
                self.spare(category, message)
            }
            Next::Done(LandEnd::Refused { category, message, .. }) => {
                self.intend(category, message)
            }
            Next::Done(LandEnd::Left(stop)) => Next::Done(AttemptEnd::Left(stop)),
            Next::Done(LandEnd::ClaimLost(refusal)) => self.refused_for_good(&refusal),
        }
    }
}
