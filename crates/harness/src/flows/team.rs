//! The agents of a run.

use harness::Named;

/// The agents of a run.
pub struct Team<A> {
    /// Does the work.
    pub worker: Named<A>,
    /// Take over while the worker is limited, by preference.
    pub others: Vec<Named<A>>,
    /// Makes a short text of a long transcript.
    pub summarizer: Option<Named<A>>,
}

impl<A> Team<A> {
    /// One agent that does everything.
    pub fn of(worker: Named<A>) -> Self {
        Self { worker, others: Vec::new(), summarizer: None }
    }

    /// By preference, from 0; one that is not there is the first.
    pub(super) fn agent(&self, number: usize) -> &Named<A> {
        let other = number.checked_sub(1).and_then(|n| self.others.get(n));
        other.unwrap_or(&self.worker)
    }
}
