//! Parses one line of `codex exec --json`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The content of a line. Unknown lines are ignored, because other versions report other things.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type")]
pub(super) enum Line {
    #[serde(rename = "thread.started")]
    ThreadStarted { thread_id: String },
    #[serde(rename = "turn.completed")]
    TurnCompleted {
        #[serde(default)]
        usage: Totals,
    },
    #[serde(rename = "turn.failed")]
    TurnFailed { error: Complaint },
    /// An error, including one after which a retry succeeds.
    #[serde(rename = "error")]
    Error(Complaint),
    #[serde(rename = "item.started")]
    ItemStarted { item: Item },
    #[serde(rename = "item.completed")]
    ItemCompleted { item: Item },
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Complaint {
    #[serde(default)]
    pub(super) message: String,
}

/// The usage of the whole thread. Cached input is part of the input, and reasoning is part of the
/// output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Totals {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

/// A message or an action of the agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Item {
    #[serde(default)]
    pub(super) id: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// The kind of an item.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    Message(String),
    Reasoning(String),
    Tool(Tool),
    /// A to-do list, a warning, or something unknown.
    Aside,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) input: Option<Value>,
    pub(super) result: Option<Value>,
    pub(super) is_error: bool,
}

/// Parses a line; `None` if it is not a message of this program.
pub(super) fn line(text: &str) -> Option<Line> {
    serde_json::from_str(text).ok()
}

impl Item {
    pub(super) fn what(self) -> What {
        match self.kind.as_str() {
            "agent_message" => What::Message(self.words("text")),
            "reasoning" => What::Reasoning(self.words("text")),
            "command_execution" => {
                let input = json!({ "command": self.fields.get("command") });
                let result = self.fields.get("aggregated_output").cloned();
                What::Tool(self.tool(self.kind.clone(), Some(input), result))
            }
            "file_change" => {
                let input = json!({ "changes": self.fields.get("changes") });
                What::Tool(self.tool(self.kind.clone(), Some(input), None))
            }
            "mcp_tool_call" => {
                let name = format!("mcp__{}__{}", self.words("server"), self.words("tool"));
                let there = |key: &str| self.fields.get(key).filter(|value| !value.is_null());
                let result = there("result").or_else(|| there("error")).cloned();
                What::Tool(self.tool(name, there("arguments").cloned(), result))
            }
            "web_search" => {
                let input = json!({ "query": self.fields.get("query") });
                What::Tool(self.tool(self.kind.clone(), Some(input), None))
            }
            // A tool of a later version. Only actions have a status.
            _ if self.fields.contains_key("status") => {
                What::Tool(self.tool(self.kind.clone(), None, None))
            }
            _ => What::Aside,
        }
    }

    fn words(&self, key: &str) -> String {
        self.fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn tool(&self, name: String, input: Option<Value>, result: Option<Value>) -> Tool {
        let status = self.fields.get("status").and_then(Value::as_str);
        Tool { name, input, result, is_error: matches!(status, Some("failed" | "declined")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(text: &str) -> What {
        match line(text) {
            Some(Line::ItemStarted { item } | Line::ItemCompleted { item }) => item.what(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn turns_are_read() {
        let thread_id = "t-1".to_owned();
        let started = Line::ThreadStarted { thread_id };
        let usage = Totals { input_tokens: 30, output_tokens: 4 };
        let message = "too bad".to_owned();
        for (text, expected) in [
            (r#"{"type":"thread.started","thread_id":"t-1","more":1}"#, Some(started)),
            (
                r#"{"type":"turn.completed","usage":{"input_tokens":30,"cached_input_tokens":9,
                    "output_tokens":4,"reasoning_output_tokens":1}}"#,
                Some(Line::TurnCompleted { usage }),
            ),
            (
                r#"{"type":"turn.completed"}"#,
                Some(Line::TurnCompleted { usage: Totals::default() }),
            ),
            (
                r#"{"type":"turn.failed","error":{"message":"too bad"}}"#,
                Some(Line::TurnFailed { error: Complaint { message: message.clone() } }),
            ),
            (r#"{"type":"error","message":"too bad"}"#, Some(Line::Error(Complaint { message }))),
            (r#"{"type":"turn.started"}"#, Some(Line::Other)),
            (r#"{"type":"of.tomorrow","x":[1]}"#, Some(Line::Other)),
            ("[]", None),
            ("no JSON", None),
            ("", None),
        ] {
            assert_eq!(line(text), expected, "{text}");
        }
    }

    #[test]
    fn items_are_words_or_tools() {
        let say =
            r#"{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"Hi"}}"#;
        assert_eq!(item(say), What::Message("Hi".to_owned()));
        let think = r#"{"type":"item.completed","item":{"id":"i","type":"reasoning","text":"Hm"}}"#;
        assert_eq!(item(think), What::Reasoning("Hm".to_owned()));
        for aside in [
            r#"{"type":"item.completed","item":{"id":"i","type":"error","message":"Careful."}}"#,
            r#"{"type":"item.started","item":{"id":"i","type":"todo_list","items":[]}}"#,
        ] {
            assert_eq!(item(aside), What::Aside);
        }
        let tools = [
            (
                r#"{"type":"item.completed","item":{"id":"i","type":"command_execution",
                "command":"ls","aggregated_output":"a\n","exit_code":1,"status":"failed"}}"#,
                Tool {
                    name: "command_execution".to_owned(),
                    input: Some(json!({"command": "ls"})),
                    result: Some(json!("a\n")),
                    is_error: true,
                },
            ),
            (
                r#"{"type":"item.completed","item":{"id":"i","type":"mcp_tool_call","server":"s",
                "tool":"t","arguments":{"n":1},"result":null,"error":{"message":"no"},
                "status":"failed"}}"#,
                Tool {
                    name: "mcp__s__t".to_owned(),
                    input: Some(json!({"n": 1})),
                    result: Some(json!({"message": "no"})),
                    is_error: true,
                },
            ),
            (
                r#"{"type":"item.started","item":{"id":"i","type":"file_change",
                "changes":[{"path":"/x","kind":"add"}],"status":"in_progress"}}"#,
                Tool {
                    name: "file_change".to_owned(),
                    input: Some(json!({"changes": [{"path": "/x", "kind": "add"}]})),
                    result: None,
                    is_error: false,
                },
            ),
            (
                r#"{"type":"item.started","item":{"id":"i","type":"of_tomorrow","status":"in_progress"}}"#,
                Tool { name: "of_tomorrow".to_owned(), input: None, result: None, is_error: false },
            ),
        ];
        for (text, expected) in tools {
            assert_eq!(item(text), What::Tool(expected), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(
            kind in "(thread|turn|item)\\.(started|completed|failed)|error|.{0,9}",
            rest in "(,\"(item|error|usage|thread_id)\":(\\{\"(type|id|status)\":.{0,9}\\}|.{0,9}))?",
            noise in "(?s).{0,40}",
        ) {
            let _ = line(&noise);
            if let Some(Line::ItemStarted { item } | Line::ItemCompleted { item }) =
                line(&format!("{{\"type\":\"{kind}\"{rest}}}"))
            {
                item.what();
            }
        }
    }
}
