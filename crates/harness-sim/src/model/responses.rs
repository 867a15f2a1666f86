//! OpenAI's Responses API, as Codex speaks it.

use serde_json::{Value, json};

use super::{
    dialect::{Dialect, Event, Message},
    script::{Call, Tokens},
};

pub(super) struct Responses;

impl Dialect for Responses {
    /// Tools are in a list of their own or, in newer versions, in a part of the conversation.
    fn offers_tools(asked: &Value) -> bool {
        let some = |tools: &Value| tools.as_array().is_some_and(|tools| !tools.is_empty());
        let mut parts = asked["input"].as_array().into_iter().flatten();
        some(&asked["tools"])
            || parts.any(|part| part["type"] == "additional_tools" && some(&part["tools"]))
    }

    fn whole(message: &Message<'_>) -> Value {
        json!({
            "id": format!("resp_{:06}", message.number),
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": message.asked["model"],
            "output": items(message),
            "error": null,
            "incomplete_details": null,
            "usage": usage(message.say.tokens),
        })
    }

    fn events(message: &Message<'_>) -> Vec<Event> {
        let whole = Self::whole(message);
        let mut begun = whole.clone();
        begun["status"] = "in_progress".into();
        begun["output"] = json!([]);
        begun["usage"] = Value::Null;
        let mut events = vec![event("response.created", json!({ "response": begun }))];
        for (index, item) in items(message).iter().enumerate() {
            events.extend(item_events(index, item));
        }
        events.push(event("response.completed", json!({ "response": whole })));
        events
    }

    /// This API reports tokens only at the end.
    fn tokens_of_a_cut(_: Tokens) -> Tokens {
        Tokens::NONE
    }

    fn error(status: u16, message: &str) -> Value {
        error(status, message)
    }

    fn too_long() -> (u16, Value) {
        too_long()
    }
}

/// Returns an error in the format of OpenAI, which its APIs share.
pub(super) fn error(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        400 | 404 => ("invalid_request_error", Value::Null),
        401 => ("invalid_request_error", "invalid_api_key".into()),
        429 => ("requests", "rate_limit_exceeded".into()),
        _ => ("server_error", Value::Null),
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

pub(super) fn too_long() -> (u16, Value) {
    let message = "Your input exceeds the context window of this model. \
        Please adjust your input and try again.";
    let mut error = error(400, message);
    error["error"]["code"] = "context_length_exceeded".into();
    error["error"]["param"] = "input".into();
    (400, error)
}

fn items(message: &Message<'_>) -> Vec<Value> {
    let (say, number) = (message.say, message.number);
    let text = (!say.text.is_empty()).then(|| {
        let part = json!({ "type": "output_text", "text": say.text, "annotations": [] });
        json!({ "type": "message", "id": format!("msg_{number:06}"), "role": "assistant",
            "status": "completed", "content": [part] })
    });
    let calls = say.calls.iter().enumerate().map(|(n, call)| {
        let (id, call_id) = (format!("item_{number:06}_{n}"), format!("call_{number:06}_{n}"));
        let mut item = match call {
            Call::Shell(command) => function("exec_command", &json!({ "cmd": command })),
            Call::Write { path, content } => {
                json!({ "type": "custom_tool_call", "name": "apply_patch",
                    "input": patch(path, content) })
            }
            Call::Named { name, input } => named(name, input),
        };
        item["id"] = id.into();
        item["call_id"] = call_id.into();
        item["status"] = "completed".into();
        item
    });
    text.into_iter().chain(calls).collect()
}

/// Groups the tools of a server, `mcp__SERVER__TOOL`, by the server.
fn named(name: &str, input: &Value) -> Value {
    let grouped = name.strip_prefix("mcp__").and_then(|name| name.split_once("__"));
    let Some((server, tool)) = grouped else { return function(name, input) };
    let mut call = function(tool, input);
    call["namespace"] = format!("mcp__{server}").into();
    call
}

fn function(name: &str, input: &Value) -> Value {
    json!({ "type": "function_call", "name": name, "arguments": input.to_string() })
}

/// Builds a patch, because Codex writes files by patches.
fn patch(path: &str, content: &str) -> String {
    let added: String = content.lines().map(|line| format!("+{line}\n")).collect();
    format!("*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n")
}

fn event(name: &'static str, mut data: Value) -> Event {
    data["type"] = name.into();
    Event::named(name, &data)
}

/// Returns the events of an item. The last one contains the whole item; the others are for live
/// display.
fn item_events(index: usize, item: &Value) -> Vec<Event> {
    let mut begun = item.clone();
    begun["status"] = "in_progress".into();
    let text = item["content"][0]["text"].as_str();
    if text.is_some() {
        begun["content"] = json!([]);
    }
    let added =
        event("response.output_item.added", json!({ "output_index": index, "item": begun }));
    let words = text.map(|text| {
        let place = json!({ "output_index": index, "item_id": item["id"], "content_index": 0,
            "delta": text });
        event("response.output_text.delta", place).with_words()
    });
    let done = event("response.output_item.done", json!({ "output_index": index, "item": item }));
    [added].into_iter().chain(words).chain([done]).collect()
}

fn usage(tokens: Tokens) -> Value {
    let input = tokens.input + tokens.cached;
    json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": tokens.cached },
        "output_tokens": tokens.output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": input + tokens.output,
    })
}
