//! What came before, as far as it decides: how the last iteration ended, and what failed, stood
//! still or was over too soon in a row.

use crate::{Iteration, run::Ending};

/// Failed ends in a row that are enough.
pub(super) const FAILED_MAX: u32 = 3;
/// Starts of a context without an end that are a failed end.
pub(super) const STARTS_MAX: u32 = 3;
/// The longest pause before a context whose last ones were over at once.
const PAUSE_SECONDS_MAX: u64 = 30;

/// Why there is another context: its prompt says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// There was none before it.
    First,
    /// The promise was not in the last text.
    NoPromise,
    /// The last text holds the promise in a way that does not count.
    OnlyMentioned,
    /// It was, and the run's own check says otherwise; its output.
    VerifyFailed(String),
    /// The last one failed, in words.
    Failed(String),
    /// The last one was full.
    OutOfContext,
    /// The gate of the phase is closed.
    GateClosed {
        /// Its name.
        phase: String,
        /// What the gate said.
        output: String,
    },
    /// The last phase passed.
    NextPhase(String),
}

impl Cause {
    /// What an iteration that ended leads to, as far as its row tells.
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

/// The iterations that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    /// How the last one did, and what it said or why it failed. `None` while one goes on.
    pub(super) last: Option<(Ending, Option<String>)>,
    /// Failed ends in a row.
    pub(super) failed: u32,
    /// Iterations in a row that changed nothing.
    pub(super) idle: u32,
    /// Iterations in a row that changed nothing, used no tool and were over at once.
    hasty: u32,
}

impl Past {
    /// What is stored. `afresh` forgets what came in a row.
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

    /// Seconds to wait before the next start: a second, doubling.
    pub(super) fn pause(&self) -> Option<u64> {
        let doublings = self.hasty.checked_sub(1)?;
        Some((1 << doublings.min(10)).min(PAUSE_SECONDS_MAX))
    }

    pub(super) fn words(&self) -> String {
        let said = self.last.as_ref().and_then(|(_, said)| said.clone()).unwrap_or_default();
        format!("the agent failed {} times in a row: {said}", self.failed)
    }
}
