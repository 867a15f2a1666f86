//! The Messages API, as Claude Code speaks it: answers as events, or whole where it asks for that.

use std::io;

use serde_json::{Value, json};

use super::{
    http::{Request, Responder},
    script::{Call, Say, Stage, Step, Tokens},
};

/// Said where no tools are offered: titles, and looks whether anybody is there. They take no step.
const ASIDE: &str = "ok";

/// Answers one request by the next step of the script.
pub(super) fn answer(
    stage: &Stage,
    request: &Request,
    responder: &mut Responder,
) -> io::Result<()> {
    let text = String::from_utf8_lossy(&request.body).into_owned();
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let step = if has_tools { stage.next(&text) } else { Step::text(ASIDE) };
    let number = stage.served().bodies.len();
    match step {
        Step::Say(say) => {
            stage.serve(say.tokens);
            let message = Message { say: &say, asked: &body, number };
            match body["stream"].as_bool() {
                Some(true) => message.stream(responder),
                _ => responder.json(200, &[], &message.whole()),
            }
        }
        Step::Cut(say) if body["stream"].as_bool() == Some(true) => {
            stage.serve(Tokens { output: 1, ..say.tokens });
            Message { say: &say, asked: &body, number }.cut(responder)
        }
        Step::Cut(_) => responder.cut(),
        Step::Hang => {
            responder.begin_events()?;
            responder.hang()
        }
        Step::Status { status, message, headers } => {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
            responder.json(status, &headers, &error(status, &message))
        }
    }
}

/// Whatever is asked, it is short.
pub(super) fn count(responder: &mut Responder) -> io::Result<()> {
    responder.json(200, &[], &json!({ "input_tokens": 1000 }))
}

struct Message<'a> {
    say: &'a Say,
    asked: &'a Value,
    number: usize,
}

impl Message<'_> {
    fn whole(&self) -> Value {
        let default = if self.say.calls.is_empty() { "end_turn" } else { "tool_use" };
        json!({
            "id": format!("msg_{:06}", self.number),
            "type": "message",
            "role": "assistant",
            "model": self.asked["model"],
            "content": self.content(),
            "stop_reason": self.say.stop_reason.unwrap_or(default),
            "stop_sequence": null,
            "usage": usage(self.say.tokens),
        })
    }

    fn content(&self) -> Vec<Value> {
        let text =
            (!self.say.text.is_empty()).then(|| json!({ "type": "text", "text": self.say.text }));
        let calls = self.say.calls.iter().enumerate().map(|(n, call)| {
            let (name, input) = match call {
                Call::Shell(command) => ("Bash", json!({ "command": command })),
                Call::Write { path, content } => {
                    ("Write", json!({ "file_path": path, "content": content }))
                }
                Call::Named { name, input } => (name.as_str(), input.clone()),
            };
            let id = format!("toolu_{:06}_{n}", self.number);
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        });
        text.into_iter().chain(calls).collect()
    }

    fn begin(&self, responder: &mut Responder) -> io::Result<()> {
        let mut message = self.whole();
        message["content"] = json!([]);
        message["stop_reason"] = Value::Null;
        // What will be written is not known yet.
        message["usage"] = usage(Tokens { output: 1, ..self.say.tokens });
        responder.begin_events()?;
        responder.event("message_start", &json!({ "type": "message_start", "message": message }))
    }

    fn stream(&self, responder: &mut Responder) -> io::Result<()> {
        self.begin(responder)?;
        for (index, block) in self.content().into_iter().enumerate() {
            let (start, delta) = match block["type"].as_str() {
                Some("text") => (
                    json!({ "type": "text", "text": "" }),
                    json!({ "type": "text_delta", "text": block["text"] }),
                ),
                _ => {
                    let input = block["input"].to_string();
                    let mut start = block;
                    start["input"] = json!({});
                    (start, json!({ "type": "input_json_delta", "partial_json": input }))
                }
            };
            block_events(responder, index, &start, &delta)?;
        }
        let whole = self.whole();
        let delta = json!({ "stop_reason": whole["stop_reason"], "stop_sequence": null });
        responder.event(
            "message_delta",
            &json!({ "type": "message_delta", "delta": delta, "usage": whole["usage"] }),
        )?;
        responder.event("message_stop", &json!({ "type": "message_stop" }))?;
        responder.end_events()
    }

    /// Its first words, and no end.
    fn cut(&self, responder: &mut Responder) -> io::Result<()> {
        self.begin(responder)?;
        let start = json!({ "type": "text", "text": "" });
        let begun = json!({ "type": "content_block_start", "index": 0, "content_block": start });
        responder.event("content_block_start", &begun)?;
        let delta = json!({ "type": "text_delta", "text": self.say.text });
        responder.event(
            "content_block_delta",
            &json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        )?;
        responder.cut()
    }
}

fn block_events(
    responder: &mut Responder,
    index: usize,
    start: &Value,
    delta: &Value,
) -> io::Result<()> {
    for (name, key, value) in [
        ("content_block_start", "content_block", Some(start)),
        ("content_block_delta", "delta", Some(delta)),
        ("content_block_stop", "", None),
    ] {
        let mut event = json!({ "type": name, "index": index });
        if let Some(value) = value {
            event[key] = value.clone();
        }
        responder.event(name, &event)?;
    }
    Ok(())
}

fn usage(tokens: Tokens) -> Value {
    json!({
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output,
    })
}

fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}
