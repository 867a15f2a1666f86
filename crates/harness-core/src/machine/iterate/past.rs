//! The part of the history that decisions depend on: the end of the last iteration, and the number
//! of failures, idle iterations and hasty iterations in a row.

use crate::{Iteration, run::Ending};

/// The number of failed ends in a row that stops the run.
pub(super) const FAILED_MAX: u32 = 3;
/// The number of starts without an end that counts as a failed end.
pub(super) const STARTS_MAX: u32 = 3;
/// The longest pause before a new context when the last ones ended at once.
const PAUSE_SECONDS_MAX: u64 = 30;

/// The reason for another context. Its prompt mentions it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// This is the first context.
    First,
    /// The promise was not in the last text.
    NoPromise,
    /// The last text holds the promise in a way that does not count.
    OnlyMentioned,
    /// The promise was there, but the check of the run failed. The text is its output.
    VerifyFailed(String),
    /// The last context failed. The text is the reason.
    Failed(String),
    /// The last context was full.
    OutOfContext,
    /// The gate of the phase did not pass.
    GateClosed {
        /// The name of the phase.
        phase: String,
        /// The output of the gate.
        output: String,
    },
    /// The last phase passed.
    NextPhase(String),
}

impl Cause {
    /// Derives the cause from the row of an iteration that ended.
    pub fn after(iteration: &Iteration) -> Self {
        match iteration.ending {
            None | Some(Ending::Finished | Ending::CutShort) => Self::NoPromise,
            Some(Ending::OutOfContext) => Self::OutOfContext,
            Some(ending) => {
                let words = iteration.detail.clone();
                Self::Failed(words.unwrap_or_else(|| ending.to_string()))
            }
        }
    }
}

/// A summary of the iterations that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    /// The ending of the last iteration with its final text or its error. `None` while one is open.
    pub(super) last: Option<(Ending, Option<String>)>,
    /// Failed ends in a row.
    pub(super) failed: u32,
    /// Iterations in a row that changed nothing.
    pub(super) idle: u32,
    /// Iterations in a row that changed nothing, used no tool and were over at once.
    hasty: u32,
}

impl Past {
    /// Summarizes the stored iterations. `afresh` resets the counts of what happened in a row.
    pub fn of(iterations: &[Iteration], afresh: bool) -> Self {
        let mut past = Self::default();
        for iteration in iterations {
            match iteration.ending {
                None => past.last = None,
                Some(ending) => {
                    let said = iteration.detail.clone().or(iteration.final_text.clone());
                    past.add(ending, said, iteration.is_idle(), false);
                }
            }
        }
        if afresh { Self { last: past.last, ..Self::default() } } else { past }
    }

    pub(super) fn add(&mut self, ending: Ending, said: Option<String>, idle: bool, hasty: bool) {
        let count = |so_far: u32, more: bool| if more { so_far.saturating_add(1) } else { 0 };
        self.failed = count(self.failed, ending.is_failure());
        self.idle = count(self.idle, idle);
        self.hasty = count(self.hasty, hasty);
        self.last = Some((ending, said));
    }

    /// Returns the seconds to wait before the next start: one second at first, doubled each time.
    pub(super) fn pause(&self) -> Option<u64> {
        let doublings = self.hasty.checked_sub(1)?;
        Some((1 << doublings.min(10)).min(PAUSE_SECONDS_MAX))
    }

    pub(super) fn words(&self) -> String {
        let said = self.last.as_ref().and_then(|(_, said)| said.clone()).unwrap_or_default();
        format!("the agent failed {} times in a row: {said}", self.failed)
    }
}
