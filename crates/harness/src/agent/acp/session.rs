//! Our side of one session: the requests, the answers, and the state at its end.

use std::{collections::VecDeque, path::PathBuf};

use harness_core::agent::{AgentEvent, KeptContext};
use serde_json::{Value, json};

use super::{
    permission::{Decision, Policy, cancelled},
    tools::Tools,
    update::{self, Update},
    usage::{Meter, Tokens},
    wire::{self, Message, Problem},
};
use crate::{
    agent::{
        supervise::{Asked, Dialogue, FINAL_BYTES, Standing, Voice},
        threshold::{HAND_OVER, Threshold},
    },
    process::RedactedStream,
};

/// The numbers of our requests. There is one of each, and further prompts continue the count.
const INITIALIZE: u64 = 1;
const OPEN: u64 = 2;
const MODEL: u64 = 3;
const PROMPT: u64 = 4;

/// The end of the session, as far as the agent reported it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// The turn ended with this stop reason.
    Stopped(String),
    /// A request of ours was refused: its name, and the error.
    Refused(&'static str, Problem),
    /// The agent sent something that this side does not understand.
    Strange(String),
    /// This side was asked for something that it cannot request.
    Unable(String),
}

/// The settings of a session.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) prompt: String,
    pub(super) work_tree: PathBuf,
    pub(super) model: Option<String>,
    /// The size of the context in tokens, if the agent does not report it.
    pub(super) window: Option<u64>,
    /// The fill level at which it is asked to hand over.
    pub(super) threshold: Threshold,
    /// `true` if the user has set a price for tokens, so that the reported cost is ignored.
    pub(super) is_priced: bool,
    pub(super) policy: Policy,
    pub(super) kept: Option<KeptContext>,
    /// An entry of `mcpServers`.
    pub(super) tools: Option<Value>,
}

#[derive(Debug)]
pub(super) struct Session {
    wanted: Wanted,
    id: Option<String>,
    /// The method that opened the session.
    opening: &'static str,
    /// Messages that people sent meanwhile. Each gets its own turn.
    waiting: VecDeque<String>,
    /// The final texts of earlier turns.
    earlier: Vec<String>,
    /// `true` if a later process can load the session.
    can_be_loaded: bool,
    /// `true` once the prompt was sent. Everything before it is history.
    is_prompted: bool,
    hand_over: HandOver,
    /// `true` if it was asked to stop.
    is_cancelled: bool,
    pub(super) said: Option<Said>,
    /// `true` if its last message is the reason of a failure.
    pub(super) is_broken: bool,
    /// The last action that was refused.
    pub(super) rejected: Option<String>,
    pub(super) meter: Meter,
    tools: Tools,
    pub(super) message: Speech,
    thought: Option<RedactedStream>,
}

/// How far the agent is with handing over to a fresh context. A turn cannot be spoken to, so it is
/// cancelled, and the request is a turn of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandOver {
    Unneeded,
    /// The context is nearly full. The turn is cancelled as soon as no tool runs.
    Due,
    /// The turn was asked to end.
    Interrupting,
    Requested,
}

/// The current message.
#[derive(Debug, Default)]
pub(super) struct Speech {
    /// The text of the message, or its end if it is long.
    pub(super) text: String,
    id: Option<String>,
    /// `true` if something else came in between, so that further text is another message.
    is_over: bool,
    stream: Option<RedactedStream>,
}

impl Session {
    pub(super) fn new(wanted: Wanted) -> Session {
        let before = wanted.kept.as_ref().and_then(|kept| kept.used.cost_usd);
        Session {
            wanted,
            id: None,
            opening: "session/new",
            waiting: VecDeque::new(),
            earlier: Vec::new(),
            can_be_loaded: false,
            is_prompted: false,
            hand_over: HandOver::Unneeded,
            is_cancelled: false,
            said: None,
            is_broken: false,
            rejected: None,
            meter: Meter::new(before),
            tools: Tools::default(),
            message: Speech::default(),
            thought: None,
        }
    }

    /// Returns the first request. The agent handles files and terminals itself.
    pub(super) fn greeting() -> Value {
        let params = json!({
            "protocolVersion": wire::VERSION,
            "clientCapabilities": {
                "fs": { "readTextFile": false, "writeTextFile": false },
                "terminal": false,
            },
            "clientInfo": { "name": "harness", "version": env!("CARGO_PKG_VERSION") },
        });
        wire::request(INITIALIZE, "initialize", params)
    }

    fn answered(&mut self, id: u64, result: Result<Value, Problem>, voice: &mut Voice<'_>) {
        let what = match id {
            INITIALIZE => "initialize",
            OPEN => self.opening,
            MODEL => "the choice of the model",
            _ if id == self.turn() => "session/prompt",
            _ => return,
        };
        match (id, result) {
            (_, Err(problem)) => self.said = Some(Said::Refused(what, problem)),
            (INITIALIZE, Ok(result)) => self.open(&result, voice),
            (OPEN, Ok(result)) => self.opened(&result, voice),
            (MODEL, Ok(_)) => self.begin(voice),
            (_, Ok(result)) => self.stopped(&result, voice),
        }
    }

    /// Returns the number of the current prompt.
    fn turn(&self) -> u64 {
        (self.earlier.len() as u64).saturating_add(PROMPT)
    }

    fn open(&mut self, result: &Value, voice: &mut Voice<'_>) {
        let version = &result["protocolVersion"];
        if version.as_u64() != Some(wire::VERSION) {
            let what = format!("it speaks version {version} of ACP, but harness speaks version 1");
            self.said = Some(Said::Strange(what));
            return;
        }
        self.can_be_loaded = result["agentCapabilities"]["loadSession"] == json!(true);
        let mut params = json!({
            "cwd": self.wanted.work_tree,
            "mcpServers": self.wanted.tools.as_slice(),
        });
        match &self.wanted.kept {
            None => {}
            Some(_) if !self.can_be_loaded => {
                let what = "it cannot resume an earlier session".to_owned();
                self.said = Some(Said::Unable(what));
                return;
            }
            Some(kept) => {
                params["sessionId"] = json!(kept.session);
                self.opening = "session/load";
            }
        }
        voice.say(&wire::request(OPEN, self.opening, params));
    }

    fn opened(&mut self, result: &Value, voice: &mut Voice<'_>) {
        let kept = self.wanted.kept.as_ref().map(|kept| kept.session.clone());
        let Some(id) = result["sessionId"].as_str().map(str::to_owned).or(kept) else {
            self.said = Some(Said::Strange("its session has no id".to_owned()));
            return;
        };
        if self.can_be_loaded {
            voice.tell(AgentEvent::Session(id.clone()));
        }
        self.id = Some(id.clone());
        let Some(model) = &self.wanted.model else { return self.begin(voice) };
        let options = result["configOptions"].as_array().into_iter().flatten();
        let mut options =
            options.filter(|option| option["category"] == "model" || option["id"] == "model");
        if let Some(option) = options.next() {
            let params = json!({ "sessionId": id, "configId": option["id"], "value": model });
            voice.say(&wire::request(MODEL, "session/set_config_option", params));
        } else if result["models"].is_object() {
            let params = json!({ "sessionId": id, "modelId": model });
            voice.say(&wire::request(MODEL, "session/set_model", params));
        } else {
            let what = "its model cannot be chosen through ACP: name it in `args`".to_owned();
            self.said = Some(Said::Unable(what));
        }
    }

    fn begin(&mut self, voice: &mut Voice<'_>) {
        self.is_prompted = true;
        self.prompt(&self.wanted.prompt, voice);
    }

    fn prompt(&self, text: &str, voice: &mut Voice<'_>) {
        let text = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.id, "prompt": text });
        voice.say(&wire::request(self.turn(), "session/prompt", params));
    }

    fn stopped(&mut self, result: &Value, voice: &mut Voice<'_>) {
        self.flush(voice);
        let rest = Tokens::of_turn(result).and_then(|tokens| self.meter.turn(tokens));
        if let Some(usage) = rest {
            voice.tell(AgentEvent::Usage(usage));
        }
        let reason = result["stopReason"].as_str();
        let interrupted = self.hand_over == HandOver::Interrupting && reason == Some("cancelled");
        if interrupted && !self.is_cancelled {
            self.hand_over = HandOver::Requested;
            self.tools = Tools::default();
            self.earlier.push(std::mem::take(&mut self.message).text);
            self.meter.begin_turn();
            return self.prompt(HAND_OVER, voice);
        }
        let goes_on = reason == Some("end_turn") && !self.is_broken && !self.is_cancelled;
        if goes_on && let Some(words) = self.waiting.pop_front() {
            self.earlier.push(std::mem::take(&mut self.message).text);
            self.meter.begin_turn();
            return self.prompt(&words, voice);
        }
        if !self.waiting.is_empty() {
            let count = self.waiting.len();
            tracing::warn!(
                count,
                "the turn ended before all messages could be delivered to the agent"
            );
        }
        self.said = Some(match reason {
            Some(reason) => Said::Stopped(reason.to_owned()),
            None => Said::Strange("its turn ended without a reason".to_owned()),
        });
    }

    /// Returns the last texts of all turns, because a promise in any of them counts.
    pub(super) fn final_text(&self) -> String {
        let texts = self.earlier.iter().chain([&self.message.text]).map(String::as_str);
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Returns whether the update belongs to our session. Some agents report several sessions on
    /// one connection, for example those of helpers.
    fn is_ours(&self, params: &Value) -> bool {
        params["sessionId"].as_str().is_none_or(|id| self.id.as_deref() == Some(id))
    }

    fn asked(&mut self, id: Value, method: &str, params: &Value, voice: &mut Voice<'_>) {
        if method != "session/request_permission" {
            voice.say(&wire::not_known(id, method));
            return;
        }
        let known = params["toolCall"]["toolCallId"].as_str().and_then(|id| self.tools.claim(id));
        let answer = match self.wanted.policy.decide(params, known) {
            _ if self.is_cancelled => cancelled(),
            Decision::Allowed(answer) => answer,
            Decision::Rejected(answer) => {
                let title = params["toolCall"]["title"].as_str().unwrap_or("something");
                tracing::warn!("the agent was not allowed to: {}", voice.text(title));
                self.rejected = Some(title.to_owned());
                answer
            }
        };
        voice.say(&wire::reply(id, answer));
    }

    fn updated(&mut self, params: &Value, voice: &Voice<'_>) {
        match update::update(params) {
            Update::Message { text, id, used } => {
                if let Some(tokens) = used {
                    let usage = self.meter.add(tokens);
                    voice.tell(AgentEvent::Usage(usage));
                    self.tell_context(usage.tokens(), 0, voice);
                }
                if !text.is_empty() {
                    self.finish_thought(voice);
                    self.message.add(&text, id, voice);
                }
            }
            Update::Thought { text } => {
                self.message.end(voice);
                let stream = self.thought.get_or_insert_with(|| voice.redactor.stream());
                tell_some(&stream.push(text.as_bytes()), AgentEvent::Thinking, voice);
            }
            Update::Tool(piece) => {
                if piece.is_new {
                    self.flush(voice);
                }
                self.tools.take(piece, voice);
            }
            Update::Context { used, size, cost_usd } => {
                self.tell_context(used, size, voice);
                let cost_usd = cost_usd.filter(|_| !self.wanted.is_priced);
                if let Some(usage) = cost_usd.and_then(|cost| self.meter.cost(cost)) {
                    voice.tell(AgentEvent::Usage(usage));
                }
            }
            Update::Health { is_broken } => {
                // Further text is another message.
                self.message.end(voice);
                self.is_broken = is_broken;
            }
            Update::Other => {}
        }
    }

    /// Reports the fill level of the context. `size` is 0 if the agent does not report it.
    fn tell_context(&mut self, used_tokens: u64, size: u64, voice: &Voice<'_>) {
        let window = Some(size).filter(|size| *size > 0).or(self.wanted.window);
        if let Some(window_tokens) = window {
            voice.tell(AgentEvent::Context { used_tokens, window_tokens });
            let is_full = self.wanted.threshold.is_reached(used_tokens, window_tokens);
            if is_full && self.hand_over == HandOver::Unneeded {
                self.hand_over = HandOver::Due;
            }
        }
    }

    /// Cancels the turn when the context is nearly full and no tool would be cut off.
    fn interrupt_if_full(&mut self, voice: &mut Voice<'_>) {
        if self.hand_over != HandOver::Due || self.is_cancelled || self.tools.are_running() {
            return;
        }
        self.hand_over = HandOver::Interrupting;
        voice.say(&wire::notification("session/cancel", json!({ "sessionId": self.id })));
    }

    fn finish_thought(&mut self, voice: &Voice<'_>) {
        if let Some(stream) = self.thought.take() {
            tell_some(&stream.finish(), AgentEvent::Thinking, voice);
        }
    }

    /// Sends the text that was held back because it could have been the start of a secret.
    fn flush(&mut self, voice: &Voice<'_>) {
        self.finish_thought(voice);
        self.message.end(voice);
    }
}

impl Dialogue for Session {
    fn hear(&mut self, line: &str, voice: &mut Voice<'_>) {
        match wire::message(line) {
            Some(Message::Answer { id, result }) => self.answered(id, result, voice),
            Some(Message::Request { id, method, params }) => {
                self.asked(id, &method, &params, voice);
            }
            Some(Message::Notification { method, params })
                if method == "session/update"
                    && self.is_prompted
                    && self.said.is_none()
                    && self.is_ours(&params) =>
            {
                self.updated(&params, voice);
                self.interrupt_if_full(voice);
            }
            Some(Message::Notification { .. }) | None => {}
        }
    }

    fn is_busy(&self) -> bool {
        self.tools.are_running()
    }

    fn standing(&self) -> Standing {
        if self.said.is_some() { Standing::Over } else { Standing::Open }
    }

    fn told(&mut self, words: &str, _: &mut Voice<'_>) -> bool {
        self.waiting.push_back(words.to_owned());
        true
    }

    fn ask_to_stop(&mut self, voice: &mut Voice<'_>) -> Asked {
        self.is_cancelled = true;
        match (&self.id, self.is_prompted && self.said.is_none()) {
            (Some(id), true) => {
                let params = json!({ "sessionId": id });
                voice.say(&wire::notification("session/cancel", params));
                Asked::InWords
            }
            _ => Asked::NoWay,
        }
    }

    fn ended(&mut self, voice: &mut Voice<'_>) {
        self.flush(voice);
    }
}

impl Speech {
    fn add(&mut self, text: &str, id: Option<String>, voice: &Voice<'_>) {
        if self.id != id || self.is_over {
            self.end(voice);
            self.text.clear();
            self.id = id;
            self.is_over = false;
        }
        self.text.push_str(text);
        let surplus = self.text.len().saturating_sub(FINAL_BYTES);
        self.text.drain(..self.text.ceil_char_boundary(surplus));
        let stream = self.stream.get_or_insert_with(|| voice.redactor.stream());
        tell_some(&stream.push(text.as_bytes()), AgentEvent::Text, voice);
    }

    fn end(&mut self, voice: &Voice<'_>) {
        self.is_over = true;
        if let Some(stream) = self.stream.take() {
            tell_some(&stream.finish(), AgentEvent::Text, voice);
        }
    }
}

fn tell_some(bytes: &[u8], event: fn(String) -> AgentEvent, voice: &Voice<'_>) {
    if !bytes.is_empty() {
        voice.tell(event(String::from_utf8_lossy(bytes).into_owned()));
    }
}
