//! The fill level of a context at which its agent hands over to a fresh one.

/// The message to an agent that can be spoken to.
pub(super) const HAND_OVER: &str = "Your context is nearly full and a fresh one will go on from here. Finish the \
    current step, bring state/handoff.json up to date (phase, completed, next_step, \
    critical_files, memory_notes) and end your turn. Only if all of the work is already done, report \
    that in the words that you were given for it.";

/// The part of the context that may be full; `None` if the agent never has to hand over.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Threshold(pub(super) Option<f64>);

impl Threshold {
    pub(super) fn is_reached(self, used_tokens: u64, window_tokens: u64) -> bool {
        self.0.is_some_and(|part| {
            window_tokens > 0 && used_tokens as f64 >= part * window_tokens as f64
        })
    }
}
