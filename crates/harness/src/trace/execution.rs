//! The spans of executions: one call of an agent each.

use harness_core::trace::SpanId;

use super::{Attribute, Span, SpanKind, Timeline, seen::Seen, semconv, timeline::COST};

const TOOL_CALLS: &str = "harness.tool_calls";
const WORKER: &str = "harness.worker";

/// An execution that has not ended, or whose failure may still be reported.
#[derive(Debug)]
pub(super) struct Execution {
    id: SpanId,
    parent: SpanId,
    row: Option<String>,
    agent: String,
    kind: Option<String>,
    worker: Option<String>,
    start_ms: i64,
    /// Its end, while a failure of it may still be reported.
    end_ms: Option<i64>,
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: Option<f64>,
    tool_calls: u64,
}

impl Timeline {
    pub(super) fn execution(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        let Some((name, agent)) = seen.text("runId").zip(seen.text("agentName")) else {
            return Vec::new();
        };
        let row = self.rows.get(seen.worker()).cloned();
        let context = row.as_ref().and_then(|row| self.iterations.get(row));
        let execution = Execution {
            id: SpanId::of_event(self.trace, seen.id),
            parent: context.map_or_else(|| SpanId::of_run(self.trace), |context| context.id),
            row,
            agent: agent.to_owned(),
            kind: None,
            worker: Some(seen.worker().to_owned()).filter(|worker| !worker.is_empty()),
            start_ms: seen.at_ms,
            end_ms: None,
            input_tokens: 0,
            output_tokens: 0,
            cost_usd: None,
            tool_calls: 0,
        };
        // An earlier process that was killed may have left one of the same name.
        let ended = self.close_execution(name, seen.at_ms, Some("interrupted"));
        self.executions.insert(name.to_owned(), execution);
        ended
    }

    pub(super) fn usage(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        let found = seen.text("runId").and_then(|name| self.executions.get_mut(name));
        if let Some(execution) = found {
            execution.input_tokens += seen.number("inputTokens").unwrap_or_default();
            execution.output_tokens += seen.number("outputTokens").unwrap_or_default();
            if let Some(cost) = seen.event["costUsd"].as_f64() {
                *execution.cost_usd.get_or_insert(0.0) += cost;
            }
            execution.note_kind(seen);
        }
        Vec::new()
    }

    pub(super) fn tool(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        let found = seen.text("runId").and_then(|name| self.executions.get_mut(name));
        if let Some(execution) = found {
            execution.tool_calls += 1;
            execution.note_kind(seen);
        }
        Vec::new()
    }

    /// Notes the end. If the execution failed, the next event reports that.
    pub(super) fn execution_ended(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        let found = seen.text("runId").and_then(|name| self.executions.get_mut(name));
        let Some(execution) = found else { return Vec::new() };
        execution.end_ms = Some(seen.at_ms);
        let row = execution.row.clone();
        if let Some(context) = row.and_then(|row| self.iterations.get_mut(&row)) {
            context.end_ms = Some(seen.at_ms);
        }
        Vec::new()
    }

    /// Returns the executions that have ended without a failure.
    pub(super) fn settle_executions(&mut self) -> Vec<Span> {
        let over = self.executions.iter().filter(|(_, execution)| execution.end_ms.is_some());
        let over: Vec<String> = over.map(|(name, _)| name.clone()).collect();
        over.iter().flat_map(|name| self.close_execution(name, self.last_ms, None)).collect()
    }

    pub(super) fn close_execution(
        &mut self,
        name: &str,
        at_ms: i64,
        error: Option<&str>,
    ) -> Vec<Span> {
        let Some(execution) = self.executions.remove(name) else { return Vec::new() };
        let mut attributes: Vec<(&'static str, Attribute)> =
            vec![(semconv::OPERATION, semconv::INVOKE_AGENT.into())];
        let provider = execution.kind.as_deref().map(semconv::provider);
        attributes.extend(provider.map(|provider| (semconv::PROVIDER, provider.into())));
        attributes.extend([
            (semconv::AGENT_NAME, execution.agent.as_str().into()),
            (semconv::INPUT_TOKENS, execution.input_tokens.into()),
            (semconv::OUTPUT_TOKENS, execution.output_tokens.into()),
            (TOOL_CALLS, execution.tool_calls.into()),
        ]);
        attributes.extend(execution.cost_usd.map(|cost| (COST, cost.into())));
        attributes.extend(execution.worker.map(|worker| (WORKER, worker.into())));
        attributes.extend(error.map(|kind| (semconv::ERROR_TYPE, kind.into())));
        let name = format!("{} {}", semconv::INVOKE_AGENT, execution.agent);
        vec![Span {
            parent: Some(execution.parent),
            kind: SpanKind::Client,
            start_ms: execution.start_ms,
            end_ms: execution.end_ms.unwrap_or(at_ms).max(execution.start_ms),
            error: error.map(str::to_owned),
            ..self.span(&name, execution.id, attributes)
        }]
    }
}

impl Execution {
    fn note_kind(&mut self, seen: &Seen<'_>) {
        if self.kind.is_none() {
            self.kind = seen.context["agent"]["type"].as_str().map(str::to_owned);
        }
    }
}
