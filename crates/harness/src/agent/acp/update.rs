//! Parses a `session/update`.

use serde_json::Value;

use super::{permission::Claim, usage::Tokens};

/// The updates that are used here. Plans, modes and lists of commands are not.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Update {
    Message {
        text: String,
        id: Option<String>,
        used: Option<Tokens>,
    },
    Thought {
        text: String,
    },
    Tool(ToolCall),
    /// The fill level of the context. A size of 0 means unknown.
    Context {
        used: u64,
        size: u64,
        cost_usd: Option<f64>,
    },
    /// Whether the agent itself failed, in the form of codex-acp: it sends the reason as a message,
    /// and ends its turn as if nothing had happened.
    Health {
        is_broken: bool,
    },
    Other,
}

/// A piece of information about a tool call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ToolCall {
    pub(super) id: String,
    /// The best available name.
    pub(super) name: Option<String>,
    pub(super) title: Option<String>,
    pub(super) input: Option<Value>,
    pub(super) output: Option<Value>,
    pub(super) status: Option<Status>,
    pub(super) claim: Claim,
    /// `true` if the call begins; `false` for more information about one.
    pub(super) is_new: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Pending,
    InProgress,
    Completed,
    Failed,
}

pub(super) fn update(params: &Value) -> Update {
    let update = &params["update"];
    match update["sessionUpdate"].as_str() {
        Some("agent_message_chunk") => Update::Message {
            text: text(update),
            id: words(&update["messageId"]),
            used: Tokens::read(&update["_meta"]["usage"]),
        },
        Some("agent_thought_chunk") => Update::Thought { text: text(update) },
        Some("tool_call") => Update::Tool(ToolCall { is_new: true, ..tool_call(update) }),
        Some("tool_call_update") => Update::Tool(tool_call(update)),
        Some("usage_update") => match update["used"].as_u64() {
            Some(used) => {
                let size = update["size"].as_u64().unwrap_or_default();
                Update::Context { used, size, cost_usd: dollars(update) }
            }
            None => Update::Other,
        },
        Some("session_info_update") => {
            match update["_meta"]["codex"]["threadStatus"]["type"].as_str() {
                Some("systemError") => Update::Health { is_broken: true },
                Some("active") => Update::Health { is_broken: false },
                _ => Update::Other,
            }
        }
        _ => Update::Other,
    }
}

fn text(update: &Value) -> String {
    words(&update["content"]["text"]).unwrap_or_default()
}

fn words(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Returns the cost of the whole session. Other currencies than US dollars are ignored.
fn dollars(update: &Value) -> Option<f64> {
    let cost = &update["cost"];
    let is_usd = cost["currency"].as_str().is_none_or(|currency| currency == "USD");
    cost["amount"].as_f64().filter(|amount| is_usd && amount.is_finite() && *amount >= 0.0)
}

fn tool_call(update: &Value) -> ToolCall {
    let there = |value: &Value| Some(value.clone()).filter(is_something);
    let name = [&update["name"], &update["_meta"]["toolName"], &update["kind"]];
    ToolCall {
        id: words(&update["toolCallId"]).unwrap_or_default(),
        name: name.into_iter().find_map(words),
        title: words(&update["title"]),
        input: there(&update["rawInput"]),
        output: there(&update["rawOutput"]).or_else(|| there(&update["content"])),
        status: match update["status"].as_str() {
            Some("pending") => Some(Status::Pending),
            Some("in_progress") => Some(Status::InProgress),
            Some("completed") => Some(Status::Completed),
            Some("failed") => Some(Status::Failed),
            _ => None,
        },
        claim: Claim::read(update),
        is_new: false,
    }
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(value: Value) -> Update {
        update(&json!({ "sessionId": "s", "update": value }))
    }

    #[test]
    fn updates_are_read() {
        let said = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m",
            "content": {"type": "text", "text": "Hi"}});
        let message =
            Update::Message { text: "Hi".to_owned(), id: Some("m".to_owned()), used: None };
        assert_eq!(of(said), message);
        let counted = json!({"sessionUpdate": "agent_message_chunk", "content": {"text": ""},
            "_meta": {"usage": {"inputTokens": 7, "outputTokens": 2}}});
        let used = Some(Tokens { input: 7, output: 2 });
        assert_eq!(of(counted), Update::Message { text: String::new(), id: None, used });
        let thought = json!({"sessionUpdate": "agent_thought_chunk", "content": {"text": "Hm"}});
        assert_eq!(of(thought), Update::Thought { text: "Hm".to_owned() });
        let context = json!({"sessionUpdate": "usage_update", "used": 5, "size": 9,
            "cost": {"amount": 0.5, "currency": "USD"}});
        assert_eq!(of(context), Update::Context { used: 5, size: 9, cost_usd: Some(0.5) });
        let euros = json!({"sessionUpdate": "usage_update", "used": 5, "size": 9,
            "cost": {"amount": 0.5, "currency": "EUR"}});
        assert_eq!(of(euros), Update::Context { used: 5, size: 9, cost_usd: None });
        let broken = json!({"sessionUpdate": "session_info_update",
            "_meta": {"codex": {"threadStatus": {"type": "systemError"}}}});
        assert_eq!(of(broken), Update::Health { is_broken: true });
        for other in [
            json!({"sessionUpdate": "plan", "entries": []}),
            json!({"sessionUpdate": "session_info_update", "title": "A task"}),
            json!({"sessionUpdate": "usage_update"}),
            json!({"sessionUpdate": 3}),
            json!(null),
        ] {
            assert_eq!(of(other), Update::Other);
        }
    }

    #[test]
    fn tools_have_the_best_name_that_there_is() {
        for (update, expected) in [
            (json!({"name": "Write", "kind": "edit"}), Some("Write")),
            (json!({"_meta": {"toolName": "write_file"}, "kind": "edit"}), Some("write_file")),
            (json!({"kind": "edit"}), Some("edit")),
            (json!({}), None),
        ] {
            assert_eq!(tool_call(&update).name.as_deref(), expected, "{update}");
        }
        let begun = of(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "execute",
            "title": "Terminal", "rawInput": {}, "content": [], "status": "pending"}));
        let expected = ToolCall {
            claim: Claim::read(&json!({"kind": "execute"})),
            id: "t".to_owned(),
            name: Some("execute".to_owned()),
            title: Some("Terminal".to_owned()),
            status: Some(Status::Pending),
            is_new: true,
            ..ToolCall::default()
        };
        assert_eq!(begun, Update::Tool(expected));
    }

    proptest! {
        #[test]
        fn no_update_makes_it_panic(kind in "(agent_message_chunk|tool_call|usage_update|.{0,5})",
            key in "(content|status|used|size|cost|_meta|rawInput)", value in ".{0,8}") {
            let _ = of(json!({"sessionUpdate": kind, key: value.clone()}));
            let _ = update(&json!(value));
        }
    }
}
