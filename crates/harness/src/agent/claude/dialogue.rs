//! The state of an execution, line by line. Lines are reported as events, answered, and kept for
//! its end.

use std::collections::HashMap;

use harness_core::{
    Timestamp,
    agent::{AgentEvent, Usage},
};
use serde_json::{Value, json};

use super::{
    parse::{Assistant, Block, ControlRequest, Message, Outcome, Question, System, parse},
    permission,
    usage::{Account, Costs},
    user_message, usual_window,
};
use crate::agent::{
    supervise::{Asked, Dialogue, Standing, Voice},
    threshold::{HAND_OVER, Threshold},
};

/// The limit of a tool's result that is shown to people. The transcript has all of it.
const RESULT_BYTES_MAX: usize = 64 * 1024;
/// The limit of parallel tools that are followed.
const TOOLS_MAX: usize = 1024;
/// The model name of API errors.
const NO_MODEL: &str = "<synthetic>";

#[derive(Debug)]
pub(super) struct ClaudeDialogue {
    pub(super) account: Account,
    outcome: Option<Box<Outcome>>,
    /// The number of messages to the agent that no result has answered yet, starting with the
    /// prompt.
    owed: u32,
    /// `true` if it sent something after its last result.
    is_open: bool,
    pub(super) api_error: Option<String>,
    pub(super) limit_until: Option<Timestamp>,
    pub(super) noise_lines: u64,
    /// The number of lines that were too long to be read.
    pub(super) missed_lines: u64,
    /// The size of the context in tokens; 0 until it is reported.
    pub(super) window: u64,
    /// The requested model, including the size of its context.
    named: Option<String>,
    session: Option<String>,
    model: Option<String>,
    used_tokens: u64,
    /// The fill level at which it is asked to hand over. There is none afterwards.
    threshold: Threshold,
    /// The final texts of the turns before the last. A message that comes too late for a turn is
    /// answered in its own turn.
    said: Vec<String>,
    /// The names of the running tools, by id.
    tools: HashMap<String, String>,
}

impl ClaudeDialogue {
    pub(super) fn new(costs: Costs, window: u64, threshold: Option<f64>) -> ClaudeDialogue {
        ClaudeDialogue {
            account: Account::new(costs),
            outcome: None,
            owed: 1,
            is_open: true,
            api_error: None,
            limit_until: None,
            noise_lines: 0,
            missed_lines: 0,
            window,
            named: None,
            session: None,
            model: None,
            used_tokens: 0,
            threshold: Threshold(threshold),
            said: Vec::new(),
            tools: HashMap::new(),
        }
    }

    /// Handles a message. Events go to `tell`, and the required reaction is returned.
    fn take(&mut self, message: Message, mut tell: impl FnMut(AgentEvent)) -> Option<Reply> {
        match message {
            Message::System(system) => {
                // Each turn begins with such a message.
                self.is_open |= system.subtype.as_deref() == Some("init");
                self.system(system, tell);
            }
            Message::Assistant(assistant) => {
                // A helper may continue to work after a turn is over.
                self.is_open |= assistant.parent_tool_use_id.is_none();
                return self.assistant(assistant, tell);
            }
            Message::User(user) => {
                for block in user.message.blocks() {
                    self.block(block, &mut tell);
                }
            }
            Message::ControlRequest(request) => return Some(Reply::Say(answer(request))),
            Message::RateLimitEvent(limit) => {
                let info = limit.rate_limit_info;
                if info.status.as_deref() == Some("rejected") {
                    self.limit_until = info.resets_at();
                    tell(AgentEvent::Limit { until: self.limit_until });
                }
            }
            Message::Result(outcome) => {
                self.result(outcome, tell);
                // It answers everything that it has received already, and then ends.
                return Some(Reply::HangUp);
            }
            Message::Other => {}
        }
        None
    }

    fn system(&mut self, system: System, mut tell: impl FnMut(AgentEvent)) {
        self.named = system.model.or(self.named.take());
        match system.subtype.as_deref() {
            Some("init") if system.session_id.is_some() && self.session != system.session_id => {
                self.session.clone_from(&system.session_id);
                tell(AgentEvent::Session(system.session_id.unwrap_or_default()));
            }
            Some("api_retry") if system.error_status == Some(429) => {
                tell(AgentEvent::Limit { until: None });
            }
            _ => {}
        }
    }

    fn assistant(
        &mut self,
        assistant: Assistant,
        mut tell: impl FnMut(AgentEvent),
    ) -> Option<Reply> {
        let said = assistant.message;
        self.api_error = assistant.error;
        if said.model.as_deref() != Some(NO_MODEL) {
            let usage = said.usage.unwrap_or_default().usage();
            if let Some(new) = said.id.and_then(|id| self.account.message(&id, usage)) {
                tell(AgentEvent::Usage(new));
            }
            // A helper has its own context.
            if assistant.parent_tool_use_id.is_none() {
                self.model = said.model;
                self.context(usage, &mut tell);
            }
        }
        for block in said.content {
            self.block(block, &mut tell);
        }
        self.hand_over()
    }

    /// Asks it once to hand over, before the context overflows.
    fn hand_over(&mut self) -> Option<Reply> {
        self.threshold.is_reached(self.used_tokens, self.window()).then(|| {
            self.threshold = Threshold::default();
            self.owed += 1;
            Reply::Say(user_message(HAND_OVER))
        })
    }

    fn context(&mut self, usage: Usage, mut tell: impl FnMut(AgentEvent)) {
        let used_tokens = usage.tokens();
        if used_tokens > 0 && used_tokens != self.used_tokens {
            tell(AgentEvent::Context { used_tokens, window_tokens: self.window() });
        }
        self.used_tokens = used_tokens;
    }

    /// Returns the reported size of the context, or the usual one. Claude Code reports it only with
    /// its result, and the first context can be full before that.
    fn window(&self) -> u64 {
        match self.window {
            0 => usual_window(self.named.as_deref()),
            told => told,
        }
    }

    fn block(&mut self, block: Block, mut tell: impl FnMut(AgentEvent)) {
        match block {
            Block::Text { text } if !text.is_empty() => tell(AgentEvent::Text(text)),
            Block::Thinking { thinking } if !thinking.is_empty() => {
                tell(AgentEvent::Thinking(thinking));
            }
            Block::ToolUse { id, name, input } => {
                if self.tools.len() < TOOLS_MAX {
                    self.tools.insert(id, name.clone());
                }
                tell(AgentEvent::ToolStart { name, input });
            }
            Block::ToolResult { tool_use_id, content, is_error } => {
                // The result of a tool call whose start was not seen belongs to a helper.
                if let Some(name) = self.tools.remove(&tool_use_id) {
                    let is_error = is_error.unwrap_or_default();
                    tell(AgentEvent::ToolEnd { name, result: content, is_error });
                }
            }
            Block::Text { .. } | Block::Thinking { .. } | Block::Other => {}
        }
    }

    fn result(&mut self, outcome: Box<Outcome>, mut tell: impl FnMut(AgentEvent)) {
        if let Some(rest) = self.account.result(outcome.used()) {
            tell(AgentEvent::Usage(rest));
        }
        let window = self.model.as_deref().and_then(|model| outcome.window(model));
        if let Some(window_tokens) = window.filter(|window| *window > 0 && *window != self.window) {
            self.window = window_tokens;
            tell(AgentEvent::Context { used_tokens: self.used_tokens, window_tokens });
        }
        self.tools.clear();
        self.is_open = false;
        self.owed = self.owed.saturating_sub(1);
        // A text before an irregular end is not a promise.
        if let Some(before) = self.outcome.replace(outcome).filter(|before| before.is_proper()) {
            self.said.extend(before.result);
        }
    }

    /// Returns the result, with the texts of the earlier turns.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        let mut last = Outcome::clone(self.outcome.as_ref()?);
        let texts = self.said.iter().chain(&last.result).map(String::as_str);
        let whole = texts.collect::<Vec<_>>().join("\n\n");
        last.result = last.result.is_some().then_some(whole);
        Some(last)
    }
}

/// The reaction to a line.
#[derive(Debug, PartialEq)]
enum Reply {
    Say(Value),
    HangUp,
}

impl Dialogue for ClaudeDialogue {
    fn hear(&mut self, line: &str, voice: &mut Voice<'_>) {
        // Secrets are hidden in the reported values. If they were hidden in the line, a secret that
        // is a word of the protocol would break the protocol.
        let Some(message) = parse(line.as_bytes()) else {
            self.noise_lines += u64::from(!line.trim().is_empty());
            return;
        };
        match self.take(message, |event| voice.tell(shortened_event(voice.event(event)))) {
            Some(Reply::Say(value)) => voice.say(&value),
            // It may have another turn to finish, so it is not killed.
            Some(Reply::HangUp) => voice.hang_up(),
            None => {}
        }
    }

    fn miss(&mut self) {
        self.missed_lines += 1;
    }

    fn is_busy(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Its input is open until the first result.
    fn told(&mut self, words: &str, voice: &mut Voice<'_>) -> bool {
        let listens = self.outcome.is_none();
        if listens {
            self.owed += 1;
            voice.say(&user_message(words));
        }
        listens
    }

    /// It may have used a message in the current turn, or may answer it in another one.
    fn standing(&self) -> Standing {
        match (self.is_open, self.owed) {
            (true, _) => Standing::Open,
            (false, 0) => Standing::Over,
            (false, _) => Standing::Answered,
        }
    }

    /// An interrupt allows it to still report its cost.
    fn ask_to_stop(&mut self, voice: &mut Voice<'_>) -> Asked {
        if self.outcome.is_some() {
            return Asked::NoWay;
        }
        let request = json!({ "subtype": "interrupt" });
        let ask = json!({ "type": "control_request", "request_id": "stop", "request": request });
        voice.say(&ask);
        Asked::InWords
    }
}

fn answer(request: ControlRequest) -> Value {
    let response = match request.request {
        Question::CanUseTool { tool_name, input } => json!({
            "subtype": "success",
            "request_id": request.request_id,
            "response": permission::answer(&tool_name, &input),
        }),
        Question::Other => json!({
            "subtype": "error",
            "request_id": request.request_id,
            "error": "harness does not support this request",
        }),
    };
    json!({ "type": "control_response", "response": response })
}

fn shortened_event(event: AgentEvent) -> AgentEvent {
    match event {
        AgentEvent::ToolEnd { name, result, is_error } => {
            AgentEvent::ToolEnd { name, result: result.map(shortened), is_error }
        }
        other => other,
    }
}

fn shortened(content: Value) -> Value {
    let text = match content {
        Value::String(text) => text,
        other => other.to_string(),
    };
    if text.len() <= RESULT_BYTES_MAX {
        return Value::String(text);
    }
    let end = text.floor_char_boundary(RESULT_BYTES_MAX);
    Value::String(format!("{}[harness: {} bytes cut]", &text[..end], text.len() - end))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
