//! The answers of several processes to one request, as one.

use harness_core::command::Code;

use super::{Answer, Refused};

impl Answer {
    /// Joins the answer of another process. Lists and counts are added.
    #[must_use]
    pub(crate) fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Self::Questions(mut all), Self::Questions(more)) => {
                all.extend(more);
                Self::Questions(all)
            }
            (Self::Sent { received: one }, Self::Sent { received: other }) => {
                let sum = one.zip(other).map(|(one, other)| one + other);
                Self::Sent { received: sum.or(one).or(other) }
            }
            (Self::Woken { woken: one }, Self::Woken { woken: other }) => {
                Self::Woken { woken: one + other }
            }
            (one, _) => one,
        }
    }
}

impl Refused {
    /// Returns whether a process refused because it does not have what the request is about.
    pub(crate) fn is_not_for(&self) -> bool {
        matches!(self.code, Code::NotFound | Code::NoRun)
    }
}
