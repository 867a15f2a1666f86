//! Turns the events of a run into spans.

use std::collections::BTreeMap;

use harness_core::{
    Epoch, Run, RunId, TaskId,
    trace::{SpanId, TraceId},
};
use serde_json::Value;

use super::{Attribute, Span, SpanKind, execution::Execution, seen::Seen, semconv};

const RUN_ID: &str = "harness.run.id";
const TASK_ID: &str = "harness.task.id";
const EPOCH: &str = "harness.epoch";
const ITERATION: &str = "harness.iteration";
const OUTCOME: &str = "harness.outcome";
pub(super) const COST: &str = "harness.cost_usd";
const PHASE: &str = "harness.phase";

/// The events of a run so far, as far as they belong to work that has not ended.
#[derive(Debug)]
pub struct Timeline {
    pub(super) trace: TraceId,
    run: RunId,
    first_ms: Option<i64>,
    pub(super) last_ms: i64,
    attempts: BTreeMap<String, Attempt>,
    /// By the row of a run or an attempt.
    pub(super) iterations: BTreeMap<String, Context>,
    /// The row that each worker is at.
    pub(super) rows: BTreeMap<String, String>,
    pub(super) executions: BTreeMap<String, Execution>,
    waits: BTreeMap<String, Step>,
    landings: BTreeMap<String, Step>,
    rollbacks: BTreeMap<String, Step>,
}

#[derive(Debug)]
struct Attempt {
    id: SpanId,
    start_ms: i64,
    epoch: Epoch,
}

#[derive(Debug)]
pub(super) struct Context {
    pub(super) id: SpanId,
    parent: SpanId,
    task: Option<String>,
    number: u64,
    start_ms: i64,
    /// The end of its last execution.
    pub(super) end_ms: Option<i64>,
}

/// Something whose name comes from the event that began it.
#[derive(Debug)]
struct Step {
    id: SpanId,
    start_ms: i64,
}

impl Timeline {
    /// Creates the timeline of a run.
    pub fn new(run: &RunId) -> Self {
        Self {
            trace: TraceId::of_run(run),
            run: run.clone(),
            first_ms: None,
            last_ms: 0,
            attempts: BTreeMap::new(),
            iterations: BTreeMap::new(),
            rows: BTreeMap::new(),
            executions: BTreeMap::new(),
            waits: BTreeMap::new(),
            landings: BTreeMap::new(),
            rollbacks: BTreeMap::new(),
        }
    }

    /// Returns whether an event of this type can begin or end a span, or is counted.
    pub fn uses(kind: &str) -> bool {
        matches!(
            kind,
            "task:start"
                | "task:complete"
                | "task:failed"
                | "run:iteration"
                | "run:waiting"
                | "run:check"
                | "run:gate"
                | "agent:start"
                | "agent:complete"
                | "agent:failed"
                | "agent:usage"
                | "agent:tool:start"
                | "ledger:task_intend"
                | "ledger:task_landing"
                | "ledger:task_rollback"
        )
    }

    /// Takes the next event, in the form in which it is recorded, and returns the spans that ended
    /// with it. What is no event of a run changes nothing.
    pub fn take(&mut self, envelope: &Value) -> Vec<Span> {
        let Some(seen) = Seen::of(envelope) else { return Vec::new() };
        self.first_ms.get_or_insert(seen.at_ms);
        self.last_ms = self.last_ms.max(seen.at_ms);
        let kind = seen.text("type").unwrap_or_default();
        let mut ended = match kind {
            "agent:failed" => Vec::new(),
            _ => self.settle_executions(),
        };
        ended.extend(self.advance(kind, &seen));
        ended
    }

    fn advance(&mut self, kind: &str, seen: &Seen<'_>) -> Vec<Span> {
        match kind {
            "task:start" => self.claimed(seen),
            "task:complete" => self.attempt_ended(seen, None),
            "task:failed" => self.attempt_ended(seen, Some(seen.category())),
            "run:iteration" => self.iteration(seen),
            "run:waiting" => self.waiting(seen),
            "run:check" => self.check(seen),
            "run:gate" => self.gate(seen),
            "agent:start" => self.execution(seen),
            "agent:complete" => self.execution_ended(seen),
            // It follows the end of the same execution.
            "agent:failed" => {
                let name = seen.text("runId").unwrap_or_default();
                self.close_execution(name, seen.at_ms, Some("agent_failed"))
            }
            "agent:usage" => self.usage(seen),
            "agent:tool:start" => self.tool(seen),
            "ledger:task_intend" => self.intent(seen),
            "ledger:task_landing" => self.landing(seen),
            "ledger:task_rollback" => {
                let step = seen.text("taskId").and_then(|task| self.rollbacks.remove(task));
                self.step_ended(seen, "rollback", step, None)
            }
            _ => Vec::new(),
        }
    }

    /// Ends the run with its row as it is stored then. Work that has not ended is reported as
    /// interrupted.
    pub fn end(&mut self, run: &Run) -> Vec<Span> {
        let is_over = run.status.is_over();
        let stored_ms = run.updated_at.seconds().saturating_mul(1000);
        let end_ms = if is_over { self.last_ms.max(stored_ms) } else { self.last_ms };
        let mut ended = self.settle_executions();
        for name in self.executions.keys().cloned().collect::<Vec<_>>() {
            ended.extend(self.close_execution(&name, end_ms, Some("interrupted")));
        }
        for row in self.iterations.keys().cloned().collect::<Vec<_>>() {
            ended.extend(self.close_iteration(&row, end_ms));
        }
        for task in self.attempts.keys().cloned().collect::<Vec<_>>() {
            ended.extend(self.close_attempt(&task, end_ms, "interrupted", None));
        }
        ended.push(self.run_span(run, end_ms));
        ended
    }

    fn run_span(&self, run: &Run, end_ms: i64) -> Span {
        let created_ms = run.created_at.seconds().saturating_mul(1000);
        let start_ms = self.first_ms.map_or(created_ms, |first| first.min(created_ms));
        let mut attributes = vec![
            (RUN_ID, run.id.as_str().into()),
            ("harness.agent", run.agent.as_str().into()),
            (OUTCOME, run.status.as_str().into()),
            // The names of the conventions would count the tokens of its executions twice.
            ("harness.run.input_tokens", run.usage.input_tokens.into()),
            ("harness.run.output_tokens", run.usage.output_tokens.into()),
        ];
        let cost = run.usage.cost_usd.map(|cost| ("harness.run.cost_usd", cost.into()));
        attributes.extend(cost);
        let reason = run.stop_reason.map(|reason| reason.as_str());
        attributes.extend(reason.map(|reason| ("harness.stop_reason", reason.into())));
        let failed = run.status == harness_core::run::RunStatus::Failed;
        let error = reason.filter(|_| failed).map(str::to_owned);
        Span {
            parent: None,
            start_ms,
            end_ms: end_ms.max(start_ms),
            error,
            ..self.span("run", SpanId::of_run(self.trace), attributes)
        }
    }

    pub(super) fn span(
        &self,
        name: &str,
        id: SpanId,
        attributes: Vec<(&'static str, Attribute)>,
    ) -> Span {
        Span {
            trace: self.trace,
            id,
            parent: Some(SpanId::of_run(self.trace)),
            name: name.to_owned(),
            kind: SpanKind::Internal,
            start_ms: self.last_ms,
            end_ms: self.last_ms,
            attributes,
            error: None,
        }
    }

    /// Opens the attempt at a task, unless it is open.
    fn open_attempt(&mut self, task: &str, epoch: Epoch, at_ms: i64) -> Option<SpanId> {
        let id = SpanId::of_attempt(self.trace, &TaskId::parse(task).ok()?, epoch);
        let known = self.attempts.entry(task.to_owned());
        Some(known.or_insert(Attempt { id, start_ms: at_ms, epoch }).id)
    }

    fn claimed(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        // A task of a flow in code has no epoch.
        let Some((task, epoch)) = seen.text("taskId").zip(seen.number("epoch")) else {
            return Vec::new();
        };
        let is_new = self.attempts.get(task).is_none_or(|known| known.epoch != Epoch(epoch));
        let ended = match is_new {
            true => self.close_attempt(task, seen.at_ms, "interrupted", None),
            false => Vec::new(),
        };
        self.open_attempt(task, Epoch(epoch), seen.at_ms);
        ended
    }

    fn attempt_ended(&mut self, seen: &Seen<'_>, failure: Option<String>) -> Vec<Span> {
        let Some(task) = seen.text("taskId") else { return Vec::new() };
        let outcome = if failure.is_some() { "failed" } else { "completed" };
        let mut ended = Vec::new();
        let (landing, rollback) = (self.landings.remove(task), self.rollbacks.remove(task));
        let error = failure.clone();
        ended.extend(self.step_ended(seen, "land", landing, error.clone()));
        ended.extend(self.step_ended(seen, "rollback", rollback, error));
        ended.extend(self.close_attempt(task, seen.at_ms, outcome, failure));
        ended
    }

    fn close_attempt(
        &mut self,
        task: &str,
        at_ms: i64,
        outcome: &str,
        error: Option<String>,
    ) -> Vec<Span> {
        let of_task =
            self.iterations.iter().filter(|(_, context)| context.task.as_deref() == Some(task));
        let rows: Vec<String> = of_task.map(|(row, _)| row.clone()).collect();
        let mut ended: Vec<Span> =
            rows.iter().flat_map(|row| self.close_iteration(row, at_ms)).collect();
        let Some(attempt) = self.attempts.remove(task) else { return ended };
        let mut attributes: Vec<(&'static str, Attribute)> = vec![
            (TASK_ID, task.into()),
            (EPOCH, attempt.epoch.0.into()),
            (OUTCOME, outcome.into()),
        ];
        attributes.extend(error.as_deref().map(|kind| (semconv::ERROR_TYPE, kind.into())));
        let start_ms = attempt.start_ms;
        let end_ms = at_ms.max(start_ms);
        let span = self.span("attempt", attempt.id, attributes);
        ended.push(Span { start_ms, end_ms, error, ..span });
        ended
    }

    fn iteration(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        let Some((row, number)) = seen.text("rowId").zip(seen.number("iteration")) else {
            return Vec::new();
        };
        let mut ended = self.wait_ended(seen, row);
        // A nudge continues the same context.
        if self.iterations.get(row).is_some_and(|known| known.number == number) {
            return ended;
        }
        ended.extend(self.close_iteration(row, seen.at_ms));
        let task = seen.text("taskId");
        // After a crash the claim is not repeated.
        let attempt = task
            .zip(seen.number("epoch"))
            .and_then(|(task, epoch)| self.open_attempt(task, Epoch(epoch), seen.at_ms));
        let parent = attempt.unwrap_or_else(|| SpanId::of_run(self.trace));
        let short = u32::try_from(number).unwrap_or(u32::MAX);
        let context = Context {
            id: SpanId::of_iteration(self.trace, parent, short),
            parent,
            task: task.map(str::to_owned),
            number,
            start_ms: seen.at_ms,
            end_ms: None,
        };
        self.iterations.insert(row.to_owned(), context);
        self.rows.insert(seen.worker().to_owned(), row.to_owned());
        ended
    }

    fn close_iteration(&mut self, row: &str, at_ms: i64) -> Vec<Span> {
        let Some(context) = self.iterations.remove(row) else { return Vec::new() };
        let mut attributes: Vec<(&'static str, Attribute)> = Vec::new();
        attributes.extend(context.task.map(|task| (TASK_ID, task.into())));
        attributes.push((ITERATION, context.number.into()));
        let (parent, start_ms) = (Some(context.parent), context.start_ms);
        let end_ms = context.end_ms.unwrap_or(at_ms).max(start_ms);
        let span = self.span("iteration", context.id, attributes);
        vec![Span { parent, start_ms, end_ms, ..span }]
    }

    fn waiting(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        let Some(row) = seen.text("rowId") else { return Vec::new() };
        let ended = self.wait_ended(seen, row);
        self.waits.insert(row.to_owned(), self.step(seen));
        ended
    }

    fn wait_ended(&mut self, seen: &Seen<'_>, row: &str) -> Vec<Span> {
        let step = self.waits.remove(row);
        self.step_ended(seen, "wait", step, None)
    }

    fn step(&self, seen: &Seen<'_>) -> Step {
        Step { id: SpanId::of_event(self.trace, seen.id), start_ms: seen.at_ms }
    }

    fn intent(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        let Some(task) = seen.text("taskId") else { return Vec::new() };
        if seen.text("intent") == Some("rollback") {
            let step = self.step(seen);
            self.rollbacks.entry(task.to_owned()).or_insert(step);
        }
        Vec::new()
    }

    fn landing(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        let Some(task) = seen.text("taskId") else { return Vec::new() };
        match seen.text("step") {
            Some("joined") => {
                let step = self.step(seen);
                self.landings.entry(task.to_owned()).or_insert(step);
                Vec::new()
            }
            Some("left") => {
                let step = self.landings.remove(task);
                self.step_ended(seen, "land", step, None)
            }
            _ => Vec::new(),
        }
    }

    /// Returns the span of a step that ends with this event, if it had begun.
    fn step_ended(
        &self,
        seen: &Seen<'_>,
        name: &str,
        step: Option<Step>,
        error: Option<String>,
    ) -> Vec<Span> {
        let Some(step) = step else { return Vec::new() };
        let parent = self.parent_of(seen);
        let task = seen.text("taskId").map(|task| (TASK_ID, task.into()));
        let span = self.span(name, step.id, task.into_iter().collect());
        vec![Span { parent, start_ms: step.start_ms, end_ms: seen.at_ms, error, ..span }]
    }

    fn check(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        let verdict = seen.text("verdict").unwrap_or_default();
        let error = (verdict != "passed").then(|| verdict.to_owned());
        self.measured(seen, "check", (OUTCOME, verdict.into()), error)
    }

    fn gate(&mut self, seen: &Seen<'_>) -> Vec<Span> {
        let phase = seen.text("phase").unwrap_or_default();
        let outcome = seen.text("outcome").unwrap_or_default();
        let error = (outcome == "closed").then(|| outcome.to_owned());
        self.measured(seen, "gate", (PHASE, phase.into()), error)
    }

    /// Returns the span of an event that has its duration.
    fn measured(
        &self,
        seen: &Seen<'_>,
        name: &str,
        attribute: (&'static str, Attribute),
        error: Option<String>,
    ) -> Vec<Span> {
        let duration = i64::try_from(seen.number("durationMs").unwrap_or_default());
        let start_ms = seen.at_ms.saturating_sub(duration.unwrap_or_default());
        let mut attributes: Vec<(&'static str, Attribute)> = Vec::new();
        attributes.extend(seen.text("taskId").map(|task| (TASK_ID, task.into())));
        attributes.push(attribute);
        let parent = self.parent_of(seen);
        let span = self.span(name, SpanId::of_event(self.trace, seen.id), attributes);
        vec![Span { parent, start_ms, end_ms: seen.at_ms, error, ..span }]
    }

    /// Returns the attempt that an event names, or the run.
    fn parent_of(&self, seen: &Seen<'_>) -> Option<SpanId> {
        let attempt = seen.text("taskId").and_then(|task| self.attempts.get(task));
        Some(attempt.map_or_else(|| SpanId::of_run(self.trace), |attempt| attempt.id))
    }

    /// Returns the run of the timeline.
    pub fn run(&self) -> &RunId {
        &self.run
    }
}
