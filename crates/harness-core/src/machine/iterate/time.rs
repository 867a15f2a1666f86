//! The time of a loop: its end, and the wait for the end of a usage limit.

use super::{Effect, Iterate, State, Step};
use crate::{
    Timestamp,
    command::RunStep,
    run::StopReason,
    stop::{Stop, StopDetail},
};

impl Iterate {
    /// Returns whether the time of the attempt is up.
    pub(super) fn is_late(&self, now: Timestamp) -> bool {
        self.rules.until.is_some_and(|until| until <= now)
    }

    pub(super) fn time_is_up(&mut self) -> Step {
        let detail = "The attempt took longer than it may".to_owned();
        let reason = StopReason::Crashed;
        let detail = StopDetail::OutOfTime(detail);
        let stop = Stop { detail, ..Stop::because(reason) };
        self.commit(State::Stopping(stop), RunStep::Stop(reason))
    }

    pub(super) fn wait_for_limit(&mut self, now: Timestamp) -> Step {
        let until = self.agents.next_free(now);
        if !self.rules.waits {
            return self.limit_holds(until);
        }
        self.commit(State::Storing(until), RunStep::WaitUntil(Some(until)))
    }

    pub(super) fn log_wait(&mut self, until: Timestamp) -> Step {
        self.warn(State::Telling(until), format!("usage limit: waiting until {until}"))
    }

    pub(super) fn limit_holds(&mut self, until: Timestamp) -> Step {
        self.stop(StopReason::Limit, format!("a usage limit holds until {until}"))
    }

    pub(super) fn sleep(&mut self, until: Timestamp) -> Step {
        let until = [Some(until), self.purse.deadline, self.rules.until].into_iter().flatten();
        let until = until.min().unwrap_or_default();
        self.start(State::Sleeping(until), Effect::Sleep { until })
    }

    pub(super) fn woke(&mut self, until: Timestamp, kicked: bool) -> Step {
        match kicked {
            true => self.agents.believe_none(),
            false => self.agents.waited(until),
        }
        self.commit(State::Waking, RunStep::WaitUntil(None))
    }

    /// Continues after the row records that the wait is over.
    pub(super) fn waked(&mut self, now: Timestamp) -> Step {
        if self.interrupts > 0 {
            return self.cancelled();
        }
        if self.is_late(now) {
            return self.time_is_up();
        }
        if self.purse.used_up(now).is_some() {
            return self.spent_up(now);
        }
        // If the run was resumed in the middle of a wait, the iteration has not begun in this
        // process.
        if self.started == Timestamp::default() { self.take_up(now) } else { self.work(now) }
    }
}
