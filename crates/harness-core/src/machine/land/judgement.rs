//! The check of a result on top of what lands before it.

use super::{Land, Leaving, Prepared, Refused, State, Step};
use crate::{
    Category, Stop,
    command::LandingStep,
    machine::{
        Input, Machine as _, Next,
        judge::{self, Finding, Judge, JudgeEnd},
        land::{LandEffect, LandEnd},
    },
    run::StopReason,
};

impl Land {
    /// Judges the prepared result, unless the same tree was judged on top of the same commit.
    pub(super) fn judge(&mut self) -> Step {
        let Some(prepared) = self.prepared.clone() else { return self.look() };
        let (below, receipt) = &self.green;
        let same_tree = receipt.tree.is_some() && receipt.tree == prepared.tree;
        if receipt.commit.as_ref() == Some(&prepared.commit)
            || (*below == prepared.onto && same_tree)
        {
            return self.deliver(&prepared, true);
        }
        let mut task = self.terms.task.clone();
        task.started_at_commit = Some(prepared.onto.clone());
        let (holder, lease) = (self.terms.holder.clone(), self.terms.lease_seconds);
        let mut judge = Judge::of_attempt(task, holder, lease, self.terms.rules.clone());
        judge.before_landing();
        // The result is committed already, and exactly that commit is judged.
        judge.keep_first();
        self.judging = Some(judge);
        self.state = State::Judging;
        self.through(Input::Begin)
    }

    /// Passes an input to the judge and translates its step.
    pub(super) fn through(&mut self, input: Input<judge::Ended>) -> Step {
        let Some(judge) = &mut self.judging else { return self.look() };
        match judge.step(self.now, input) {
            Next::Commit(command) => Next::Commit(command),
            Next::Start(effect) => match &self.prepared {
                Some(prepared) => {
                    let onto = prepared.onto.clone();
                    Next::Start(LandEffect::Judge { onto, effect })
                }
                None => self.look(),
            },
            Next::Wait => Next::Wait,
            Next::Cancel(cause) => Next::Cancel(cause),
            Next::Done(end) => self.judged(end),
        }
    }

    pub(super) fn judged(&mut self, end: JudgeEnd) -> Step {
        self.judging = None;
        let Some(mut prepared) = self.prepared.clone() else { return self.look() };
        match end {
            JudgeEnd::Green(receipt) if receipt.commit.as_ref() == Some(&prepared.commit) => {
                self.green = (prepared.onto.clone(), *receipt);
                self.deliver(&prepared, true)
            }
            // The check committed something itself, so that the judged commit is not the announced one.
            JudgeEnd::Green(_) | JudgeEnd::Completed { .. } => {
                let message = "the check made commits of its own".to_owned();
                self.fail_check(&mut prepared, Category::TestFail, &message)
            }
            JudgeEnd::Refused(refusal) => Next::Done(LandEnd::ClaimLost(refusal)),
            JudgeEnd::Found(Finding::Stopped) => self.leave(Leaving::Stop(Stop::interrupted())),
            JudgeEnd::Found(finding) => match finding.category() {
                Some(category) => self.fail_check(&mut prepared, category, &finding.log_message()),
                None => self.leave(Leaving::Stop(Stop::with_words(
                    StopReason::EnvSetup,
                    finding.sentence(),
                ))),
            },
        }
    }

    pub(super) fn fail_check(
        &mut self,
        prepared: &mut Prepared,
        category: Category,
        why: &str,
    ) -> Step {
        let message = format!("{why}; on top of {}", prepared.onto.short());
        prepared.refused = Some(Refused { category, message, conflicts: Vec::new() });
        self.prepared = Some(prepared.clone());
        self.deliver(prepared, false)
    }

    pub(super) fn deliver(&mut self, prepared: &Prepared, green: bool) -> Step {
        let step = LandingStep::Judge { commit: prepared.commit.clone(), green };
        self.step_in_line(State::Delivering, step)
    }
}
