//! OpenAI's Chat Completions, as Qwen Code speaks it and many others would.

use serde_json::{Value, json};

use super::{
    dialect::{Dialect, Event, Message},
    script::{Call, Tokens},
};

pub(super) struct Chat;

impl Dialect for Chat {
    fn offers_tools(asked: &Value) -> bool {
        asked["tools"].as_array().is_some_and(|tools| !tools.is_empty())
    }

    fn whole(message: &Message<'_>) -> Value {
        let say = message.say;
        let mut said = json!({ "role": "assistant", "content": say.text });
        if !say.calls.is_empty() {
            said["tool_calls"] = calls(message).into();
        }
        let mut whole = completion(message, "chat.completion");
        whole["choices"] =
            json!([{ "index": 0, "message": said, "finish_reason": finish_reason(message) }]);
        whole["usage"] = usage(say.tokens);
        whole
    }

    fn events(message: &Message<'_>) -> Vec<Event> {
        let piece = |delta: Value, finish_reason: Option<&str>| {
            let mut piece = completion(message, "chat.completion.chunk");
            piece["choices"] =
                json!([{ "index": 0, "delta": delta, "finish_reason": finish_reason }]);
            unnamed(&piece)
        };
        let text = &message.say.text;
        let words = (!text.is_empty())
            .then(|| piece(json!({ "role": "assistant", "content": text }), None).with_words());
        let calls =
            calls(message).into_iter().map(|call| piece(json!({ "tool_calls": [call] }), None));
        let mut last = completion(message, "chat.completion.chunk");
        last["choices"] = json!([]);
        last["usage"] = usage(message.say.tokens);
        let end = [
            piece(json!({}), Some(finish_reason(message))),
            unnamed(&last),
            Event { name: None, data: "[DONE]".to_owned(), has_words: false },
        ];
        words.into_iter().chain(calls).chain(end).collect()
    }

    /// This API reports tokens only at the end.
    fn tokens_of_a_cut(_: Tokens) -> Tokens {
        Tokens::NONE
    }

    fn error(status: u16, message: &str) -> Value {
        super::responses::error(status, message)
    }

    fn too_long() -> (u16, Value) {
        super::responses::too_long()
    }
}

fn unnamed(data: &Value) -> Event {
    Event { name: None, data: data.to_string(), has_words: false }
}

fn completion(message: &Message<'_>, object: &str) -> Value {
    let id = format!("chatcmpl-{:06}", message.number);
    json!({ "id": id, "object": object, "created": 0, "model": message.asked["model"] })
}

fn finish_reason(message: &Message<'_>) -> &'static str {
    let default = if message.say.calls.is_empty() { "stop" } else { "tool_calls" };
    message.say.stop_reason.unwrap_or(default)
}

fn calls(message: &Message<'_>) -> Vec<Value> {
    let calls = message.say.calls.iter().enumerate();
    let calls = calls.map(|(n, call)| {
        let (name, input) = match call {
            Call::Shell(command) => {
                ("run_shell_command", json!({ "command": command, "is_background": false }))
            }
            Call::Write { path, content } => {
                ("write_file", json!({ "file_path": path, "content": content }))
            }
            Call::Named { name, input } => (name.as_str(), input.clone()),
        };
        let id = format!("call_{:06}_{n}", message.number);
        let function = json!({ "name": name, "arguments": input.to_string() });
        json!({ "index": n, "id": id, "type": "function", "function": function })
    });
    calls.collect()
}

fn usage(tokens: Tokens) -> Value {
    let input = tokens.input + tokens.cached;
    json!({
        "prompt_tokens": input,
        "prompt_tokens_details": { "cached_tokens": tokens.cached },
        "completion_tokens": tokens.output,
        "total_tokens": input + tokens.output,
    })
}
