//! The Messages API, as Claude Code speaks it.

use std::io;

use serde_json::{Value, json};

use super::{
    dialect::{Dialect, Event, Message},
    http::Responder,
    script::{Call, Tokens},
};

pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn offers_tools(asked: &Value) -> bool {
        asked["tools"].as_array().is_some_and(|tools| !tools.is_empty())
    }

    fn whole(message: &Message<'_>) -> Value {
        let say = message.say;
        let default = if say.calls.is_empty() { "end_turn" } else { "tool_use" };
        json!({
            "id": format!("msg_{:06}", message.number),
            "type": "message",
            "role": "assistant",
            "model": message.asked["model"],
            "content": content(message),
            "stop_reason": say.stop_reason.unwrap_or(default),
            "stop_sequence": null,
            "usage": usage(say.tokens),
        })
    }

    fn events(message: &Message<'_>) -> Vec<Event> {
        let whole = Self::whole(message);
        let mut begun = whole.clone();
        begun["content"] = json!([]);
        begun["stop_reason"] = Value::Null;
        // The number of output tokens is not known yet.
        begun["usage"] = usage(Self::tokens_of_a_cut(message.say.tokens));
        let mut events = vec![event("message_start", json!({ "message": begun }))];
        for (index, block) in content(message).into_iter().enumerate() {
            events.extend(block_events(index, block));
        }
        let delta = json!({ "stop_reason": whole["stop_reason"], "stop_sequence": null });
        events.push(event("message_delta", json!({ "delta": delta, "usage": whole["usage"] })));
        events.push(event("message_stop", json!({})));
        events
    }

    fn tokens_of_a_cut(tokens: Tokens) -> Tokens {
        Tokens { output: 1, ..tokens }
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

    fn too_long() -> (u16, Value) {
        (400, Self::error(400, "prompt is too long: 250000 tokens > 200000 maximum"))
    }
}

/// Returns a small count for any request.
pub(super) fn count(responder: &mut Responder) -> io::Result<()> {
    responder.json(200, &[], &json!({ "input_tokens": 1000 }))
}

fn content(message: &Message<'_>) -> Vec<Value> {
    let say = message.say;
    let text = (!say.text.is_empty()).then(|| json!({ "type": "text", "text": say.text }));
    let calls = say.calls.iter().enumerate().map(|(n, call)| {
        let (name, input) = match call {
            Call::Shell(command) => ("Bash", json!({ "command": command })),
            Call::Write { path, content } => {
                ("Write", json!({ "file_path": path, "content": content }))
            }
            Call::Named { name, input } => (name.as_str(), input.clone()),
        };
        let id = format!("toolu_{:06}_{n}", message.number);
        json!({ "type": "tool_use", "id": id, "name": name, "input": input })
    });
    text.into_iter().chain(calls).collect()
}

fn event(name: &'static str, mut data: Value) -> Event {
    data["type"] = name.into();
    Event::named(name, &data)
}

fn block_events(index: usize, block: Value) -> [Event; 3] {
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
    [
        event("content_block_start", json!({ "index": index, "content_block": start })),
        event("content_block_delta", json!({ "index": index, "delta": delta })).with_words(),
        event("content_block_stop", json!({ "index": index })),
    ]
}

fn usage(tokens: Tokens) -> Value {
    json!({
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output,
    })
}
