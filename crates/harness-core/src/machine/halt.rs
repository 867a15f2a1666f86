//! The reason why a machine begins nothing more: the run was interrupted, or its time is up.

use crate::{Timestamp, run::StopReason, stop::Stop};

/// The reason why nothing more is begun. Once there is one it stays, whatever the clock reads
/// later.
#[derive(Debug, Clone)]
pub(super) struct Halt {
    until: Option<Timestamp>,
    interrupted: bool,
    out_of_time: bool,
}

impl Halt {
    pub(super) const fn new(until: Option<Timestamp>) -> Self {
        Self { until, interrupted: false, out_of_time: false }
    }

    pub(super) fn note_time(&mut self, now: Timestamp) {
        self.out_of_time |= self.until.is_some_and(|until| until <= now);
    }

    /// Replaces the end of the time, whether or not the old one has passed.
    pub(super) fn extend(&mut self, until: Option<Timestamp>, now: Timestamp) {
        *self = Self { until, out_of_time: false, ..self.clone() };
        self.note_time(now);
    }

    pub(super) fn interrupt(&mut self) {
        self.interrupted = true;
    }

    pub(super) fn stop(&self) -> Option<Stop> {
        match (self.interrupted, self.out_of_time) {
            (true, _) => Some(Stop::interrupted()),
            (false, true) => Some(Stop::with_words(StopReason::Budget, "the time limit")),
            (false, false) => None,
        }
    }
}
