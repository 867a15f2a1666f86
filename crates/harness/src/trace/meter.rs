//! The metrics of a run: sums since it began, and the length of its queues.

use std::collections::BTreeMap;

use super::{Attribute, Span, semconv};

/// Sums over the spans of a run, and what waits in its ledger.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Meter {
    /// Tokens of executions, by provider and type.
    pub(super) tokens: BTreeMap<(String, &'static str), Histogram>,
    pub(super) cost_usd: f64,
    /// Attempts by outcome.
    pub(super) attempts: BTreeMap<String, u64>,
    pub(super) waits: u64,
    pub(super) wait_ms: u64,
    /// Tasks by state, and results that wait to land.
    pub(super) depths: BTreeMap<&'static str, u64>,
}

/// A distribution over the bounds of the conventions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Histogram {
    pub(super) count: u64,
    pub(super) sum: u64,
    pub(super) buckets: [u64; semconv::TOKEN_BOUNDS.len() + 1],
}

impl Histogram {
    fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        let bounds = semconv::TOKEN_BOUNDS.iter();
        let at = bounds.take_while(|bound| **bound < value as f64).count();
        self.buckets[at] += 1;
    }
}

impl Meter {
    /// Counts a span.
    pub fn count(&mut self, span: &Span) {
        let find = |name: &str| span.attributes.iter().find(|(known, _)| *known == name);
        let value = |name: &str| find(name).map(|(_, value)| value);
        match span.name.as_str() {
            "attempt" => {
                if let Some(Attribute::Text(outcome)) = value("harness.outcome") {
                    *self.attempts.entry(outcome.clone()).or_default() += 1;
                }
            }
            "wait" => {
                self.waits += 1;
                self.wait_ms += span.end_ms.abs_diff(span.start_ms);
            }
            _ if value(semconv::OPERATION).is_some() => {
                let provider = match value(semconv::PROVIDER) {
                    Some(Attribute::Text(provider)) => provider.clone(),
                    _ => String::new(),
                };
                let kinds = [(semconv::INPUT_TOKENS, "input"), (semconv::OUTPUT_TOKENS, "output")];
                for (name, kind) in kinds {
                    if let Some(Attribute::Int(tokens)) = value(name) {
                        let series = self.tokens.entry((provider.clone(), kind)).or_default();
                        series.add(tokens.unsigned_abs());
                    }
                }
                if let Some(Attribute::Float(cost)) = value("harness.cost_usd") {
                    self.cost_usd += cost;
                }
            }
            _ => {}
        }
    }

    /// Sets the number of tasks in a state, or of results that wait to land.
    pub fn depth(&mut self, state: &'static str, count: u64) {
        self.depths.insert(state, count);
    }
}
