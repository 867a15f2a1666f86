//! Shows a run on the view: the lines of its log when they are written, its progress, the activity
//! and the usage of the agent, and questions to people.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use harness::{
    Envelope, Event, Hub, Observer, Transaction,
    core::{Run, agent::Usage, run::RunLimits},
    process::Redactor,
};

use super::{answers::Answers, money::against, progress::WorkerKey, view::View};
use crate::{
    paint::{one_line, visible},
    speech::Speech,
    tool_line::{cut, tool_line},
};

/// The number of characters of an agent's text that are shown as its last activity.
const ACTIVITY_CHARS: usize = 100;

pub(super) struct Screen {
    view: Arc<View>,
    row: Run,
    /// The limits as they are now.
    limits: Mutex<RunLimits>,
    used: Mutex<Usage>,
    /// The warnings for agents that report tokens and no cost, by name.
    moneyless: Mutex<HashMap<String, String>>,
    /// The unfinished line of each worker's agent.
    speech: Mutex<HashMap<WorkerKey, Speech>>,
    detail: Detail,
    answers: Answers,
}

/// The amount of the agent's work that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    LastActivity,
    /// `-v`: the text and the tool calls of the agent, line by line.
    Everything,
}

/// The content and the form of a screen.
pub(super) struct Shown {
    pub(super) view: Arc<View>,
    pub(super) row: Run,
    pub(super) detail: Detail,
    pub(super) secrets: Redactor,
    pub(super) moneyless: HashMap<String, String>,
}

impl Screen {
    pub(super) fn new(shown: Shown, hub: &Hub) -> Self {
        let Shown { view, row, detail, secrets, moneyless } = shown;
        if row.limits.max_cost_usd.is_some() || row.limits.max_tokens.is_some() {
            let text = against(&row.usage, &row.limits);
            view.change(|progress| progress.used(text));
        }
        Self {
            answers: Answers::new(Arc::clone(&view), hub, secrets),
            limits: Mutex::new(row.limits),
            used: Mutex::new(row.usage),
            moneyless: Mutex::new(moneyless),
            speech: Mutex::default(),
            view,
            row,
            detail,
        }
    }

    fn used(&self, by: &str, usage: Usage) {
        if usage.cost_usd.is_none() && usage.tokens() > 0 {
            let warning = lock(&self.moneyless).remove(by);
            if let Some(warning) = warning {
                self.view.warning(&warning);
            }
        }
        let mut used = lock(&self.used);
        *used += usage;
        let text = against(&used, &lock(&self.limits));
        self.view.change(|progress| progress.used(text));
    }

    /// Returns the name of an agent for people. The flow calls the one that the run was started
    /// with "worker".
    fn name<'a>(&'a self, name: &'a str) -> &'a str {
        if name == "worker" { &self.row.agent } else { name }
    }

    fn text(&self, worker: &WorkerKey, piece: &str) {
        let mut all = lock(&self.speech);
        let speech = all.entry(worker.clone()).or_default();
        let lines = speech.push(piece);
        let last = speech.last().or(lines.last().map(String::as_str));
        let last = last.map(|line| cut(&one_line(line.trim()), ACTIVITY_CHARS));
        drop(all);
        self.view.change(|progress| progress.heard(worker, last, Instant::now()));
        self.speak(worker, lines);
    }

    /// Prints the unfinished line before other output.
    fn rest_of_speech(&self, worker: &WorkerKey) {
        let rest = lock(&self.speech).get_mut(worker).and_then(Speech::flush);
        self.speak(worker, rest);
    }

    /// Shows lines of an agent. Those of several workers begin with the worker.
    fn speak(&self, worker: &WorkerKey, lines: impl IntoIterator<Item = String>) {
        if self.detail != Detail::Everything {
            return;
        }
        for line in lines {
            match worker {
                None => self.view.speech(&line),
                Some(worker) => self.view.speech(&format!("{worker}: {line}")),
            }
        }
    }

    /// Handles an event of the agent at work.
    fn agent_event(&self, worker: &WorkerKey, event: &Event) {
        match event {
            Event::AgentStart { agent_name, .. } => {
                let name = self.name(agent_name);
                self.view.change(|progress| {
                    progress.agent_started(worker.clone(), name, Instant::now())
                });
            }
            Event::AgentComplete { .. } | Event::AgentFailed { .. } => {
                self.rest_of_speech(worker);
                self.view.change(|progress| progress.agent_ended(worker));
            }
            Event::AgentText { content, .. } => self.text(worker, content),
            Event::AgentToolStart { tool_name, input, .. } => {
                self.rest_of_speech(worker);
                let line = tool_line(tool_name, input.as_ref());
                self.speak(worker, [format!("> {line}")]);
                self.view.change(|progress| progress.heard(worker, Some(line), Instant::now()));
            }
            Event::AgentToolComplete { tool_name, is_error, .. } => {
                if *is_error == Some(true) {
                    self.speak(worker, [format!("> {tool_name} failed")]);
                }
                self.view.change(|progress| progress.heard(worker, None, Instant::now()));
            }
            Event::AgentThinking { .. } | Event::AgentUsage { .. } => {
                self.view.change(|progress| progress.heard(worker, None, Instant::now()));
            }
            _ => {}
        }
    }
}

impl Observer for Screen {
    fn committed(&self, transaction: &Transaction<'_>) {
        transaction.warnings.iter().for_each(|warning| self.view.warning(warning));
        transaction.facts.iter().for_each(|fact| self.view.account().fact(fact));
        if self.view.is_live() {
            transaction.look(|ledger| self.view.refresh(ledger));
        }
        if !transaction.log.is_empty() {
            self.view.log(&visible(transaction.log));
        }
    }

    fn event(&self, envelope: &Envelope) {
        self.view.account().event(&envelope.event);
        let worker = &envelope.context.worker;
        self.agent_event(worker, &envelope.event);
        match &envelope.event {
            Event::AgentUsage { input_tokens, output_tokens, cost_usd, .. } => {
                let agent = envelope.context.agent.as_ref().map_or("", |agent| &agent.name);
                let (input_tokens, output_tokens) = (*input_tokens, *output_tokens);
                self.used(agent, Usage { input_tokens, output_tokens, cost_usd: *cost_usd });
            }
            Event::RunIteration { iteration, max_iterations, .. } => {
                let (number, most) = (u64::from(*iteration) + 1, u64::from(*max_iterations) + 1);
                self.view.change(|progress| progress.context(worker, number, most));
            }
            Event::RunBudget { row_id, max_cost_usd, max_tokens, deadline }
                if *row_id == self.row.id =>
            {
                let mut limits = lock(&self.limits);
                (limits.max_cost_usd, limits.max_tokens) = (*max_cost_usd, *max_tokens);
                let text = against(&lock(&self.used), &limits);
                self.view.change(|progress| {
                    progress.used(text);
                    progress.ends_at(*deadline);
                });
            }
            Event::RunWaiting { until, .. } => {
                self.view.change(|progress| progress.waits(worker.clone(), *until));
            }
            Event::SessionPrompt { prompt_id, prompt, choices, allow_text } => {
                self.answers.ask(*prompt_id, prompt, choices.as_deref(), *allow_text);
            }
            Event::SessionAbort { reason } => {
                let reason = reason.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
                self.view.say(&format!("stopping, as `harness abort` asked{reason}"));
                self.view.change(|progress| progress.stops());
            }
            Event::HarnessStart { .. } => self.view.begin(),
            Event::HarnessComplete { .. } => self.view.end(),
            _ => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
