//! Shows a run on the view: the lines of its log when they are written, its progress, the activity
//! and the usage of the agent, and questions to people.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use harness::{
    Envelope, Event, Hub, Observer, Transaction,
    core::{Run, agent::Usage},
    process::Redactor,
};

use super::{answers::Answers, money::against, view::View};
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
    used: Mutex<Usage>,
    /// The warnings for agents that report tokens and no cost, by name.
    moneyless: Mutex<HashMap<String, String>>,
    speech: Mutex<Speech>,
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
        Self {
            answers: Answers::new(Arc::clone(&view), hub, secrets),
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
        let text = against(&used, &self.row);
        self.view.change(|progress| progress.used(text));
    }

    /// Returns the name of an agent for people. The flow calls the one that the run was started
    /// with "worker".
    fn name<'a>(&'a self, name: &'a str) -> &'a str {
        if name == "worker" { &self.row.agent } else { name }
    }

    fn text(&self, piece: &str) {
        let mut speech = lock(&self.speech);
        let lines = speech.push(piece);
        let last = speech.last().or(lines.last().map(String::as_str));
        let last = last.map(|line| cut(&one_line(line.trim()), ACTIVITY_CHARS));
        drop(speech);
        self.view.change(|progress| progress.heard(last, Instant::now()));
        self.speak(lines);
    }

    /// Prints the unfinished line before other output.
    fn rest_of_speech(&self) {
        let rest = lock(&self.speech).flush();
        self.speak(rest);
    }

    fn speak(&self, lines: impl IntoIterator<Item = String>) {
        if self.detail == Detail::Everything {
            lines.into_iter().for_each(|line| self.view.speech(&line));
        }
    }

    /// Handles an event of the agent at work.
    fn agent_event(&self, event: &Event) {
        match event {
            Event::AgentStart { agent_name, .. } => {
                let name = self.name(agent_name);
                self.view.change(|progress| progress.agent_started(name, Instant::now()));
            }
            Event::AgentComplete { .. } | Event::AgentFailed { .. } => {
                self.rest_of_speech();
                self.view.change(|progress| progress.agent_ended());
            }
            Event::AgentText { content, .. } => self.text(content),
            Event::AgentToolStart { tool_name, input, .. } => {
                self.rest_of_speech();
                let line = tool_line(tool_name, input.as_ref());
                self.speak([format!("> {line}")]);
                self.view.change(|progress| progress.heard(Some(line), Instant::now()));
            }
            Event::AgentToolComplete { tool_name, is_error, .. } => {
                if *is_error == Some(true) {
                    self.speak([format!("> {tool_name} failed")]);
                }
                self.view.change(|progress| progress.heard(None, Instant::now()));
            }
            Event::AgentThinking { .. } | Event::AgentUsage { .. } => {
                self.view.change(|progress| progress.heard(None, Instant::now()));
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
        self.agent_event(&envelope.event);
        match &envelope.event {
            Event::AgentUsage { input_tokens, output_tokens, cost_usd, .. } => {
                let agent = envelope.context.agent.as_ref().map_or("", |agent| &agent.name);
                let (input_tokens, output_tokens) = (*input_tokens, *output_tokens);
                self.used(agent, Usage { input_tokens, output_tokens, cost_usd: *cost_usd });
            }
            Event::RunIteration { iteration, max_iterations, .. } => {
                let (number, most) = (u64::from(*iteration) + 1, u64::from(*max_iterations) + 1);
                self.view.change(|progress| progress.context(number, most));
            }
            Event::RunWaiting { until, .. } => {
                self.view.change(|progress| progress.waits(*until));
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
