//! The usage of a session. Agents report it in four ways, some in more than one: with each answer
//! of the model, with the end of the turn, in a quota beside that end, and as the cost of the
//! session so far.

use harness_core::agent::Usage;
use serde_json::Value;

/// The tokens of one answer of the model, or of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

impl Tokens {
    /// Reads the tokens; `None` if there are none. Some agents count cached input separately, but
    /// the total includes it.
    pub(super) fn read(value: &Value) -> Option<Tokens> {
        let number =
            |camel: &str, snake: &str| value[camel].as_u64().or_else(|| value[snake].as_u64());
        let input = number("inputTokens", "input_tokens")?;
        let output = number("outputTokens", "output_tokens").unwrap_or_default();
        let total = number("totalTokens", "total_tokens").unwrap_or_default();
        Some(Tokens { input: input.max(total.saturating_sub(output)), output })
    }

    /// Reads the tokens of a turn from the answer to its prompt.
    pub(super) fn of_turn(result: &Value) -> Option<Tokens> {
        Tokens::read(&result["usage"])
            .or_else(|| Tokens::read(&result["_meta"]["quota"]["token_count"]))
    }
}

/// Counts the usage of one execution.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meter {
    /// The last reported cost of the session.
    told_usd: Option<f64>,
    used: Usage,
    /// The usage of earlier turns.
    before: Usage,
}

impl Meter {
    /// Creates a meter. `before_usd` is the cost of earlier executions of the same session.
    pub(super) fn new(before_usd: Option<f64>) -> Meter {
        Meter { told_usd: before_usd, ..Meter::default() }
    }

    /// Adds tokens.
    pub(super) fn add(&mut self, tokens: Tokens) -> Usage {
        self.count(Usage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cost_usd: None,
        })
    }

    pub(super) fn begin_turn(&mut self) {
        self.before = self.used;
    }

    /// Takes the tokens of the whole turn, and returns the part that was not reported before, if
    /// any.
    pub(super) fn turn(&mut self, tokens: Tokens) -> Option<Usage> {
        let rest = Tokens {
            input: (self.before.input_tokens + tokens.input).saturating_sub(self.used.input_tokens),
            output: (self.before.output_tokens + tokens.output)
                .saturating_sub(self.used.output_tokens),
        };
        (rest != Tokens::default()).then(|| self.add(rest))
    }

    /// Takes the cost of the whole session, and returns the new part, if any.
    pub(super) fn cost(&mut self, session_usd: f64) -> Option<Usage> {
        let before = self.told_usd.filter(|told| *told <= session_usd).unwrap_or_default();
        self.told_usd = Some(session_usd);
        let more = session_usd - before;
        (more > 0.0).then(|| self.count(Usage { cost_usd: Some(more), ..Usage::default() }))
    }

    fn count(&mut self, more: Usage) -> Usage {
        self.used += more;
        more
    }

    pub(super) fn used(&self) -> Usage {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_read_in_all_ways() {
        for (value, expected) in [
            (json!({"inputTokens": 30, "outputTokens": 5, "totalTokens": 35}), Some((30, 5))),
            // Cached input is reported beside the input, and in the total.
            (
                json!({"inputTokens": 30, "outputTokens": 5, "cachedReadTokens": 60,
                "totalTokens": 95}),
                Some((90, 5)),
            ),
            (json!({"input_tokens": 30, "output_tokens": 5}), Some((30, 5))),
            (json!({"outputTokens": 5}), None),
            (json!("30"), None),
            (json!(null), None),
        ] {
            let expected = expected.map(|(input, output)| Tokens { input, output });
            assert_eq!(Tokens::read(&value), expected, "{value}");
        }
        let quota = json!({"_meta": {"quota": {"token_count": {"input_tokens": 3}}}});
        assert_eq!(Tokens::of_turn(&quota), Some(Tokens { input: 3, output: 0 }));
    }

    #[test]
    fn nothing_is_counted_twice() {
        let mut meter = Meter::new(Some(0.25));
        meter.add(Tokens { input: 10, output: 1 });
        meter.add(Tokens { input: 20, output: 2 });
        assert_eq!(meter.turn(Tokens { input: 30, output: 3 }), None);
        let rest = meter.turn(Tokens { input: 35, output: 3 }).unwrap();
        assert_eq!((rest.input_tokens, rest.output_tokens), (5, 0));
        let mut next = meter;
        next.begin_turn();
        let turn = next.turn(Tokens { input: 6, output: 1 }).unwrap();
        assert_eq!((turn.input_tokens, turn.output_tokens), (6, 1));
        assert_eq!(meter.cost(0.5).unwrap().cost_usd, Some(0.25));
        assert_eq!(meter.cost(0.5), None);
        // A session that lost its cost counts from zero.
        assert_eq!(meter.cost(0.125).unwrap().cost_usd, Some(0.125));
        let used = Usage { input_tokens: 35, output_tokens: 3, cost_usd: Some(0.375) };
        assert_eq!(meter.used(), used);
    }
}
