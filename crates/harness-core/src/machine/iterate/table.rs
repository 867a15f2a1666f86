//! The decisions when the agent stops, in their order.

use super::{BLANKS_MAX, Cause, Effect, Iterate, Nudge, Seen, State, Step, past::FAILED_MAX};
use crate::{
    Timestamp,
    agent::{End, FailureKind, StoppedBy},
    check::Verdict,
    command::RunStep,
    machine::gate::GateEnd,
    promise,
    run::{Ending, StopReason},
};

impl Iterate {
    /// Applies the rows of the table up to the blank turn. After them, the iteration has ended.
    pub(super) fn worked(&mut self, now: Timestamp, end: End) -> Step {
        if self.interrupts > 0 {
            return self.cancelled();
        }
        match &end {
            End::Stopped { by: StoppedBy::User | StoppedBy::Fenced } => self.cancelled(),
            End::Stopped { by: StoppedBy::Timeout } if self.is_late(now) => self.time_is_up(),
            End::Stopped { by: StoppedBy::Budget | StoppedBy::Timeout }
                if self.purse.used_up(now).is_some() =>
            {
                self.spent_up(now)
            }
            // A person raised the budget meanwhile. The agent continues in its context.
            End::Stopped { by: StoppedBy::Budget | StoppedBy::Timeout } if self.allowed_anew => {
                self.nudge(now)
            }
            End::Stopped { by: StoppedBy::Budget } => self.spent_up(now),
            End::Failed { kind: FailureKind::NotFound | FailureKind::Auth, detail } => {
                self.stop(StopReason::EnvSetup, detail.clone())
            }
            // The context to continue in is gone. The agent gets a whole prompt, in the same row.
            End::Failed { .. } if self.takes_up => self.work(now),
            End::Failed { kind: FailureKind::Config, detail } => {
                self.stop(StopReason::Config, detail.clone())
            }
            End::Limited { until } => {
                self.agents.limited(now, *until);
                self.work(now)
            }
            End::Finished { final_text, .. } if self.overlooks(now, final_text) => {
                self.blanks += 1;
                self.nudged = Some(Nudge::Blank);
                self.nudge(now)
            }
            End::Finished { final_text, .. } if self.asks_again(now, final_text) => {
                self.nudged = Some(Nudge::Mention);
                self.nudge(now)
            }
            _ => {
                self.agents.answered();
                self.start(State::LookingAfter(end), Effect::Look)
            }
        }
    }

    fn overlooks(&self, now: Timestamp, text: &str) -> bool {
        text.trim().is_empty()
            && !self.promised
            && self.rules.restarts
            && self.blanks < BLANKS_MAX
            && self.purse.used_up(now).is_none()
    }

    /// A mention of the promise is answered once in each iteration, and only where the agent still
    /// has its context.
    fn asks_again(&self, now: Timestamp, text: &str) -> bool {
        self.nudged != Some(Nudge::Mention)
            && self.only_mentions(text)
            && self.context.is_some()
            && self.rules.restarts
            && self.purse.used_up(now).is_none()
    }

    fn only_mentions(&self, text: &str) -> bool {
        let (promise, how) = (&self.run.completion_promise, self.rules.promise_match);
        !self.promised && promise::is_only_mentioned(text, promise, how)
    }

    pub(super) fn spent_up(&mut self, now: Timestamp) -> Step {
        let what = self.purse.used_up(now).unwrap_or_else(|| "a limit".to_owned());
        self.stop(StopReason::Budget, format!("the budget is used up: {what}"))
    }

    pub(super) fn looked_after(&mut self, now: Timestamp, end: &End, mark: Option<String>) -> Step {
        let ending = Ending::of(end).unwrap_or(Ending::Protocol);
        let detail = match end {
            End::Failed { detail, .. } | End::CutShort { detail } => Some(detail.clone()),
            End::Stopped { .. } => Some("silent for too long".to_owned()),
            _ => None,
        };
        let final_text = match end {
            End::Finished { final_text, .. } => Some(final_text.clone()),
            _ => None,
        };
        let idle = mark.is_some() && mark == self.mark;
        let hasty = idle && !self.used_tool && now.since(self.started) < 2;
        self.past.add(ending, detail.clone().or(final_text.clone()), idle, hasty);
        self.mark.clone_from(&mark);
        let head = self.head.clone();
        self.commit(State::Ending, RunStep::End { ending, detail, final_text, head, mark })
    }

    /// Applies the row of the promise and those after the blank turn.
    pub(super) fn after_end(&mut self, now: Timestamp, ending: Ending, said: String) -> Step {
        if self.interrupts > 0 {
            return self.cancelled();
        }
        match ending {
            Ending::Finished | Ending::CutShort => {
                // The last text of a turn that was cut short is not a final text.
                self.last_text = (ending == Ending::Finished).then_some(said);
                match self.phases.iter().find(|p| p.passed_at.is_none()).cloned() {
                    Some(phase) => {
                        let until = self.purse.deadline;
                        self.start(State::Gating, Effect::Gate { phase, until })
                    }
                    None => self.judge_promise(now),
                }
            }
            _ if !self.rules.restarts => self.stop(StopReason::Crashed, said),
            Ending::OutOfContext => self.go_on(now, Cause::OutOfContext),
            Ending::Refused => self.go_on(now, Cause::Failed("the agent refused".to_owned())),
            _ => self.go_on(now, Cause::Failed(said)),
        }
    }

    pub(super) fn gated(&mut self, now: Timestamp, end: GateEnd) -> Step {
        if self.interrupts > 0 {
            return self.cancelled();
        }
        let Some(at) = self.phases.iter().position(|p| p.passed_at.is_none()) else {
            return self.judge_promise(now);
        };
        match end {
            GateEnd::Passed => {
                self.phases[at].passed_at = Some(now);
                match self.phases.get(at + 1) {
                    Some(next) => self.go_on(now, Cause::NextPhase(next.name.clone())),
                    None => self.judge_promise(now),
                }
            }
            GateEnd::Closed { why, output } => {
                let phase = self.phases[at].name.clone();
                self.go_on(now, Cause::GateClosed { phase, output: format!("{why}\n{output}") })
            }
            GateEnd::Interrupted if self.purse.used_up(now).is_some() => self.spent_up(now),
            GateEnd::Interrupted => self.cancelled(),
        }
    }

    fn judge_promise(&mut self, now: Timestamp) -> Step {
        let said = self.last_text.as_deref().unwrap_or_default();
        let promise = &self.run.completion_promise;
        if !self.promised && !promise::is_kept(said, promise, self.rules.promise_match) {
            let mentioned = self.only_mentions(said);
            let cause = if mentioned { Cause::OnlyMentioned } else { Cause::NoPromise };
            return self.go_on(now, cause);
        }
        match self.run.verify.clone() {
            Some(command) => {
                let until = self.purse.deadline;
                self.start(State::Verifying, Effect::Verify { command, until })
            }
            None => self.stop(StopReason::Complete, "the promise was kept"),
        }
    }

    pub(super) fn verified(&mut self, now: Timestamp, verdict: Verdict, output: String) -> Step {
        if self.interrupts > 0 {
            return self.cancelled();
        }
        let red = |why: String, output: String| Cause::VerifyFailed(format!("{why}\n{output}"));
        match verdict {
            Verdict::Passed => self.stop(StopReason::Complete, "verified"),
            Verdict::Red { why } => self.go_on(now, red(why, output)),
            Verdict::TimedOut => self.go_on(now, red("it took too long".into(), output)),
            Verdict::Missing => {
                let command = self.run.verify.clone().unwrap_or_default();
                let why = format!("the command of --verify cannot be run here: {command}");
                self.stop(StopReason::EnvSetup, why)
            }
            Verdict::Cancelled => self.cancelled(),
        }
    }

    /// Checks the limits in the order of the table, then starts the next iteration.
    fn go_on(&mut self, now: Timestamp, cause: Cause) -> Step {
        if self.interrupts > 0 {
            return self.cancelled();
        }
        if self.purse.used_up(now).is_some() {
            return self.spent_up(now);
        }
        if self.is_late(now) {
            return self.time_is_up();
        }
        if self.past.failed >= FAILED_MAX {
            let detail = self.past.words();
            return self.stop(StopReason::Crashed, detail);
        }
        let most = self.run.limits.max_iterations;
        if self.run.iteration_count >= most {
            let detail = format!("the promise was not kept after {most} restarts");
            return self.stop(StopReason::MaxIterations, detail);
        }
        let stall = self.rules.stall_limit;
        if stall > 0 && self.past.idle >= stall {
            let detail = format!("nothing changed for {stall} iterations");
            return self.stop(StopReason::Stalled, detail);
        }
        self.number = self.run.iteration_count + 1;
        (self.cause, self.blanks, self.nudged) = (cause, 0, None);
        match self.past.pause() {
            Some(seconds) => {
                let until = now.plus(seconds);
                self.start(State::Resting, Effect::Sleep { until })
            }
            None if self.seen == Seen::Now && self.mark.is_some() => self.begin_iteration(),
            None => self.start(State::Looking, Effect::Look),
        }
    }
}
