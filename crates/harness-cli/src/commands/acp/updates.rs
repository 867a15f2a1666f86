//! Events of a run as updates of a session.

use std::collections::{BTreeMap, VecDeque};

use harness_core::{
    Ledger, Task,
    task::{Priority, Status},
};
use serde_json::{Value, json};

use super::question::Question;

/// The number of tasks that a plan shows.
const ENTRIES_MAX: usize = 100;
/// The number of characters of a tool's result.
const RESULT_CHARS: usize = 4000;
/// The number of characters of a tool's title.
const TITLE_CHARS: usize = 120;

/// What an event leads to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shown {
    Update(Value),
    /// The ledger may have changed.
    Plan,
    Ask(Question),
}

/// The tool calls that have not returned, by agent and tool.
#[derive(Debug, Default)]
pub(super) struct Tools {
    count: u64,
    open: BTreeMap<(String, String), VecDeque<String>>,
}

/// Returns what the editor shows of an event.
pub(super) fn of_event(kind: &str, event: &Value, tools: &mut Tools) -> Vec<Shown> {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    match kind {
        "agent:text" => vec![Shown::Update(chunk("agent_message_chunk", text("content")))],
        "agent:thinking" => vec![Shown::Update(chunk("agent_thought_chunk", text("content")))],
        "agent:tool:start" => vec![Shown::Update(tools.start(event))],
        "agent:tool:complete" => tools.end(event).map(Shown::Update).into_iter().collect(),
        "narrative" => vec![message(text("text"))],
        "run:waiting" => {
            vec![message(&format!("Waiting for a usage limit until {}.", text("until")))]
        }
        "task:start" => vec![message(&format!("Task {} begins.", text("taskId"))), Shown::Plan],
        "task:complete" => {
            vec![message(&format!("Task {} is completed.", text("taskId"))), Shown::Plan]
        }
        "task:failed" => {
            let (id, error) = (text("taskId"), text("error"));
            vec![message(&format!("Task {id} failed: {error}")), Shown::Plan]
        }
        "session:prompt" => Question::of(event).map(Shown::Ask).into_iter().collect(),
        other if other.starts_with("ledger:") => vec![Shown::Plan],
        _ => Vec::new(),
    }
}

/// Returns a paragraph of the agent.
pub(super) fn message(text: &str) -> Shown {
    Shown::Update(chunk("agent_message_chunk", &format!("\n\n{text}\n\n")))
}

pub(super) fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

impl Tools {
    fn start(&mut self, event: &Value) -> Value {
        self.count += 1;
        let id = format!("tool-{}", self.count);
        let name = event["toolName"].as_str().unwrap_or("tool");
        self.open.entry(key(event)).or_default().push_back(id.clone());
        let mut call = json!({
            "sessionUpdate": "tool_call",
            "toolCallId": id,
            "title": title(name, &event["input"]),
            "kind": kind_of(name),
            "status": "in_progress",
        });
        if !event["input"].is_null() {
            call["rawInput"] = event["input"].clone();
        }
        call
    }

    fn end(&mut self, event: &Value) -> Option<Value> {
        let id = self.open.get_mut(&key(event))?.pop_front()?;
        let status = if event["isError"] == true { "failed" } else { "completed" };
        let mut update =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status });
        let text = match &event["result"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if !text.is_empty() {
            let text: String = text.chars().take(RESULT_CHARS).collect();
            let content = json!({ "type": "text", "text": text });
            update["content"] = json!([{ "type": "content", "content": content }]);
        }
        Some(update)
    }
}

fn key(event: &Value) -> (String, String) {
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    (text("runId"), text("toolName"))
}

/// Returns the name of the tool with the most telling part of its input.
fn title(name: &str, input: &Value) -> String {
    let telling = ["command", "file_path", "path", "pattern", "query", "url", "description"];
    let part = telling.iter().find_map(|key| input[*key].as_str());
    let whole = part.map_or_else(|| name.to_owned(), |part| format!("{name}: {part}"));
    whole.replace('\n', " ").chars().take(TITLE_CHARS).collect()
}

/// Returns the kind of a tool call in the protocol, from the names that agents use.
fn kind_of(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["bash", "shell", "exec", "command", "run"]) {
        "execute"
    } else if has(&["edit", "write", "patch"]) {
        "edit"
    } else if has(&["grep", "glob", "search", "find"]) {
        "search"
    } else if has(&["fetch", "http", "web"]) {
        "fetch"
    } else if has(&["read", "view", "list", "ls"]) {
        "read"
    } else {
        "other"
    }
}

/// Returns the ledger as a plan. Of a long one, completed tasks are left out first.
pub(super) fn plan(ledger: &Ledger) -> Value {
    let mut tasks: Vec<&Task> = ledger.tasks().collect();
    tasks.sort_by_key(|task| task.order.unwrap_or(u64::MAX));
    if tasks.len() > ENTRIES_MAX {
        tasks.retain(|task| task.status() != Status::Completed);
        tasks.truncate(ENTRIES_MAX);
    }
    let entry = |task: &&Task| {
        let priority = match task.priority {
            Priority::P0 => "high",
            Priority::P1 | Priority::Unknown(_) => "medium",
            Priority::P2 => "low",
        };
        let (status, note) = match task.status() {
            Status::Completed => ("completed", ""),
            Status::InProgress => ("in_progress", ""),
            Status::Pending => ("pending", ""),
            Status::Failed => ("pending", " (failed)"),
        };
        let content = format!("{}: {}{note}", task.id, task.title);
        json!({ "content": content, "priority": priority, "status": status })
    };
    json!({ "sessionUpdate": "plan", "entries": tasks.iter().map(entry).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_call_has_one_id_from_its_start_to_its_end() {
        let mut tools = Tools::default();
        let start =
            json!({ "toolName": "Bash", "runId": "run-1", "input": { "command": "ls\n-l" } });
        let Shown::Update(call) = of_event("agent:tool:start", &start, &mut tools).remove(0) else {
            panic!()
        };
        assert_eq!((&call["title"], &call["kind"]), (&"Bash: ls -l".into(), &"execute".into()));
        let end = json!({ "toolName": "Bash", "runId": "run-1", "isError": true, "result": "no" });
        let Shown::Update(update) = of_event("agent:tool:complete", &end, &mut tools).remove(0)
        else {
            panic!()
        };
        assert_eq!(update["toolCallId"], call["toolCallId"]);
        assert_eq!(
            (&update["status"], &update["content"][0]["content"]["text"]),
            (&"failed".into(), &"no".into())
        );
        assert!(of_event("agent:tool:complete", &end, &mut tools).is_empty(), "it has ended");
    }

    #[test]
    fn text_is_passed_on_and_unknown_events_are_not() {
        let mut tools = Tools::default();
        let text = json!({ "content": "hello" });
        let shown = of_event("agent:text", &text, &mut tools);
        assert_eq!(shown, [Shown::Update(chunk("agent_message_chunk", "hello"))]);
        assert!(of_event("agent:usage", &json!({}), &mut tools).is_empty());
        assert_eq!(of_event("ledger:edit", &json!({}), &mut tools), [Shown::Plan]);
    }
}
