//! Steps of runs that wait until the record can be reached again.

use std::collections::VecDeque;

use harness_core::{
    Timestamp,
    agent::Usage,
    command::{OfRun, RunStep},
};
use uuid::Uuid;

/// A step that waits, with the name under which it takes effect once.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeferredStep {
    pub(super) id: Uuid,
    pub(super) now: Timestamp,
    pub(super) of_run: OfRun,
    /// Whether it may have reached the record already.
    pub(super) sent: Sent,
}

/// Whether a step may have reached the record already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Never,
    Perhaps,
}

/// Steps in the order in which they are sent. Those of one run that were never sent are merged, so that
/// there are only a few for each agent at work, however long the record is away.
#[derive(Debug, Default)]
pub(super) struct DeferredSteps(VecDeque<DeferredStep>);

impl DeferredSteps {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a step, or merges it with one that waits. A step that may have been sent stays as it is,
    /// because its name belongs to what was sent.
    pub(super) fn push(&mut self, step: DeferredStep) {
        let same = |other: &&mut DeferredStep| {
            let (one, other_of) = (&step.of_run, &other.of_run);
            other.sent == Sent::Never && one.run == other_of.run && one.by == other_of.by
        };
        let merged = match step.sent {
            Sent::Never => self.0.iter_mut().filter(same).any(|other| merge(other, &step)),
            Sent::Perhaps => false,
        };
        if !merged {
            self.0.push_back(step);
        }
    }

    /// Returns the step that is to be sent next. From now on it may have been sent.
    pub(super) fn next_to_send(&mut self) -> Option<DeferredStep> {
        let first = self.0.front_mut()?;
        first.sent = Sent::Perhaps;
        Some(first.clone())
    }

    /// Removes a step that was carried out.
    pub(super) fn is_done(&mut self, id: Uuid) {
        self.0.retain(|step| step.id != id);
    }

    /// Returns the usage that waits.
    pub(super) fn usage(&self) -> Usage {
        let mut all = Usage::default();
        for step in &self.0 {
            if let RunStep::Spend(usage) = step.of_run.step {
                all += usage;
            }
        }
        all
    }
}

/// Returns whether `step` was merged into `other`, a step of the same run.
fn merge(other: &mut DeferredStep, step: &DeferredStep) -> bool {
    match (&mut other.of_run.step, &step.of_run.step) {
        (RunStep::Spend(all), RunStep::Spend(more)) => *all += *more,
        (RunStep::Session(old), RunStep::Session(new)) => old.clone_from(new),
        _ => return false,
    }
    other.now = step.now;
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use harness_core::RunId;
    use proptest::prelude::*;

    use super::*;

    fn tokens(count: u64) -> Usage {
        Usage { input_tokens: count, ..Usage::default() }
    }

    fn spend(id: u128, run: u128, count: u64, sent: Sent) -> DeferredStep {
        let of_run =
            OfRun { run: RunId::of_bits(run), by: None, step: RunStep::Spend(tokens(count)) };
        DeferredStep { id: Uuid::from_u128(id), now: Timestamp::from_seconds(0), of_run, sent }
    }

    #[test]
    fn usage_that_may_have_been_sent_keeps_its_name() {
        let mut steps = DeferredSteps::default();
        steps.push(spend(1, 7, 10, Sent::Perhaps));
        steps.push(spend(2, 7, 20, Sent::Never));
        steps.push(spend(3, 7, 30, Sent::Never));
        let first = steps.next_to_send().unwrap();
        assert_eq!((first.id, first.of_run.step), (Uuid::from_u128(1), RunStep::Spend(tokens(10))));
        steps.is_done(first.id);
        let second = steps.next_to_send().unwrap();
        assert_eq!(second.of_run.step, RunStep::Spend(tokens(50)));
        // It may have been sent now, so that more usage gets a name of its own.
        steps.push(spend(4, 7, 5, Sent::Never));
        assert_eq!(steps.next_to_send().unwrap().of_run.step, RunStep::Spend(tokens(50)));
        assert_eq!(steps.usage(), tokens(55));
    }

    proptest! {
        /// Nothing is lost, nothing is counted twice, and the queue stays small.
        #[test]
        fn all_usage_is_sent_once(
            steps in prop::collection::vec((0_u128..3, 1_u64..100, any::<bool>()), 0..200),
        ) {
            let mut waiting = DeferredSteps::default();
            let (mut asked, mut sent) = (0, 0);
            for (n, (run, count, sends)) in steps.into_iter().enumerate() {
                waiting.push(spend(n as u128, run, count, Sent::Never));
                asked += count;
                // Each try marks the first step, whether or not it succeeds.
                let first = waiting.next_to_send().unwrap();
                if sends && let RunStep::Spend(usage) = first.of_run.step {
                    sent += usage.input_tokens;
                    waiting.is_done(first.id);
                }
                prop_assert!(waiting.0.len() <= 6, "{}", waiting.0.len());
            }
            prop_assert_eq!(sent + waiting.usage().input_tokens, asked);
        }
    }
}
