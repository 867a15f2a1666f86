//! The agents of a run.

use harness::Named;

/// The agents of a run.
pub struct Team<A> {
    /// The agent that does the work.
    pub worker: Named<A>,
    /// The agents that take over while the worker is rate limited, in order of preference.
    pub others: Vec<Named<A>>,
    /// The agent that summarizes a long transcript.
    pub summarizer: Option<Named<A>>,
}

impl<A> Team<A> {
    /// Returns a team of one agent that does everything.
    pub fn of(worker: Named<A>) -> Self {
        Self { worker, others: Vec::new(), summarizer: None }
    }

    /// Returns an agent by preference, from 0. For a number without an agent it returns the first
    /// one.
    pub(super) fn agent(&self, number: usize) -> &Named<A> {
        let other = number.checked_sub(1).and_then(|n| self.others.get(n));
        other.unwrap_or(&self.worker)
    }
}
