//! The usage of an execution, as increments.
//!
//! The blocks of one message repeat its usage, and the number of written tokens is not final there.
//! So each message counts once, and the result completes the count. An execution that is killed
//! before has at least the messages.

use harness_core::agent::Usage;

use crate::queue::BoundedQueue;

/// The limit of messages whose blocks may still come: those of a few parallel helpers.
const MESSAGES_MAX: usize = 256;

/// The source of the cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Costs {
    /// Claude Code reports its cost.
    #[default]
    Told,
    /// The user has set a price for tokens, which takes precedence.
    Priced,
}

#[derive(Debug)]
pub(super) struct Account {
    costs: Costs,
    messages: BoundedQueue<(String, Usage)>,
    /// The usage since the last result.
    told: Usage,
    /// The usage of the whole execution.
    all: Usage,
}

impl Account {
    pub(super) fn new(costs: Costs) -> Account {
        let messages = BoundedQueue::new(MESSAGES_MAX);
        Account { costs, messages, told: Usage::default(), all: Usage::default() }
    }

    /// Takes the usage of one block of a message, and returns the new part.
    pub(super) fn message(&mut self, id: &str, usage: Usage) -> Option<Usage> {
        let usage = Usage { cost_usd: None, ..usage };
        let found = self.messages.iter_mut().find(|(known, _)| known == id);
        let new = match found {
            Some((_, before)) => {
                let new = beyond(usage, *before);
                *before += new;
                new
            }
            None => {
                self.messages.push((id.to_owned(), usage));
                usage
            }
        };
        self.tell(new)
    }

    /// Takes the usage since the last result, and returns the part that was not reported yet.
    pub(super) fn result(&mut self, used: Usage) -> Option<Usage> {
        let rest = beyond(used, self.told);
        let cost_usd = match self.costs {
            Costs::Told => used.cost_usd,
            Costs::Priced => None,
        };
        let rest = self.tell(Usage { cost_usd, ..rest });
        self.told = Usage::default();
        rest
    }

    pub(super) fn all(&self) -> Usage {
        self.all
    }

    fn tell(&mut self, new: Usage) -> Option<Usage> {
        self.told += new;
        self.all += new;
        (new != Usage::default()).then_some(new)
    }
}

fn beyond(usage: Usage, before: Usage) -> Usage {
    Usage {
        input_tokens: usage.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: usage.output_tokens.saturating_sub(before.output_tokens),
        cost_usd: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, cost_usd: None }
    }

    #[test]
    fn a_message_counts_once_and_the_result_tells_the_rest() {
        let mut account = Account::new(Costs::Told);
        assert_eq!(account.message("a", usage(1000, 1)), Some(usage(1000, 1)));
        assert_eq!(account.message("a", usage(1000, 1)), None);
        assert_eq!(account.message("a", usage(1000, 20)), Some(usage(0, 19)));
        assert_eq!(account.message("b", usage(2000, 1)), Some(usage(2000, 1)));
        let used = Usage { cost_usd: Some(0.25), ..usage(3500, 100) };
        let rest = Usage { cost_usd: Some(0.25), ..usage(500, 79) };
        assert_eq!(account.result(used), Some(rest));
        assert_eq!(account.all(), used);
        // The next turn of the same process is counted from there.
        let more = Usage { cost_usd: Some(0.5), ..usage(10, 1) };
        assert_eq!(account.result(more), Some(more));
        assert_eq!(account.all(), Usage { cost_usd: Some(0.75), ..usage(3510, 101) });
    }

    #[test]
    fn nothing_is_taken_back() {
        let mut account = Account::new(Costs::Told);
        account.message("a", usage(1000, 50));
        assert_eq!(account.result(usage(0, 0)), None);
        assert_eq!(account.all(), usage(1000, 50));
    }

    #[test]
    fn a_price_of_the_user_takes_precedence_over_the_reported_cost() {
        let mut account = Account::new(Costs::Priced);
        let used = Usage { cost_usd: Some(0.25), ..usage(10, 1) };
        assert_eq!(account.result(used), Some(usage(10, 1)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut account = Account::new(Costs::default());
        for n in 0..10_000 {
            account.message(&n.to_string(), usage(1, 0));
        }
        assert_eq!(account.messages.len(), MESSAGES_MAX);
        assert_eq!(account.all(), usage(10_000, 0));
    }
}
