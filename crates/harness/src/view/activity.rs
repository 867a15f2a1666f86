//! What the agents of a root were last seen doing, from the events of its host.

use std::collections::BTreeMap;

use harness_core::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::tool_text;

/// The number of characters of a line that are kept.
const LINE_CHARS: usize = 400;

/// What an agent was last seen doing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Activity {
    /// The time of its last event.
    pub at: Timestamp,
    /// The last line of its text, or its last tool call. It is the text of an agent.
    pub line: Option<String>,
    /// The name of the agent.
    pub agent: Option<String>,
    /// The task of its loop.
    pub task_id: Option<String>,
    /// The number of its context, from 0.
    pub iteration: Option<u32>,
    /// The number of the last context that may begin.
    pub max_iterations: Option<u32>,
    /// The end of its wait for a usage limit.
    pub wake_at: Option<Timestamp>,
    /// The text that has no end of line yet.
    #[serde(skip)]
    begun: String,
}

/// The last activity of each worker. A worker that is alone has no id in events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ActivityLog {
    by_worker: BTreeMap<Option<String>, Activity>,
}

impl ActivityLog {
    /// Takes an event in, as a host sends it and as the record of a run has it.
    pub fn see(&mut self, id: Option<Uuid>, event: &Value, context: &Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        if !(kind.starts_with("agent:") || kind.starts_with("run:") || kind == "task:start") {
            return;
        }
        let worker = context["worker"].as_str().map(str::to_owned);
        let activity = self.by_worker.entry(worker).or_default();
        if let Some(at) = id.and_then(moment) {
            activity.at = activity.at.max(at);
        }
        activity.hear(kind, event, context);
    }

    /// Returns the last activity of a worker at a task, if it was seen.
    #[must_use]
    pub fn of(&self, worker: &str, task: Option<&str>) -> Option<&Activity> {
        let named = self.by_worker.get(&Some(worker.to_owned()));
        let found = named.or_else(|| self.by_worker.get(&None))?;
        // Events of the task before say nothing about this one.
        let is_other =
            found.task_id.is_some() && task.is_some() && found.task_id.as_deref() != task;
        (!is_other).then_some(found)
    }

    /// Returns the last activity of a worker that is alone.
    #[must_use]
    pub fn alone(&self) -> Option<&Activity> {
        self.by_worker.get(&None)
    }
}

impl Activity {
    fn hear(&mut self, kind: &str, event: &Value, context: &Value) {
        let name = || context["agent"]["name"].as_str().map(str::to_owned);
        let small = |name: &str| event[name].as_u64().and_then(|n| u32::try_from(n).ok());
        match kind {
            "run:iteration" => {
                (self.line, self.wake_at) = (None, None);
                self.begun.clear();
                self.task_id = event["taskId"].as_str().map(str::to_owned);
                self.iteration = small("iteration");
                self.max_iterations = small("maxIterations");
            }
            "task:start" => {
                *self = Self { at: self.at, ..Self::default() };
                self.task_id = event["taskId"].as_str().map(str::to_owned);
            }
            "run:waiting" => {
                self.wake_at = event["until"].as_str().and_then(|time| Timestamp::parse(time).ok());
            }
            "agent:start" => {
                self.wake_at = None;
                self.agent = event["agentName"].as_str().map(str::to_owned);
            }
            "agent:text" => self.say(event["content"].as_str().unwrap_or_default()),
            "agent:tool:start" => {
                let tool = event["toolName"].as_str().unwrap_or("tool");
                let input = event.get("input");
                self.begun.clear();
                self.line = Some(tool_text(tool, input).chars().take(LINE_CHARS).collect());
            }
            _ => {}
        }
        self.agent = self.agent.take().or_else(name);
    }

    /// Keeps the last line of a text that comes in pieces.
    fn say(&mut self, piece: &str) {
        for part in piece.split_inclusive('\n') {
            let room = LINE_CHARS.saturating_sub(self.begun.chars().count());
            self.begun.extend(part.trim_end_matches(['\n', '\r']).chars().take(room));
            if !self.begun.trim().is_empty() {
                self.line = Some(self.begun.trim().to_owned());
            }
            if part.ends_with('\n') {
                self.begun.clear();
            }
        }
    }
}

/// Returns the time in the id of an event, which is a UUID of version 7.
fn moment(id: Uuid) -> Option<Timestamp> {
    let (seconds, _) = id.get_timestamp()?.to_unix();
    i64::try_from(seconds).ok().map(Timestamp::from_seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_line_of_text_or_the_last_tool_is_the_activity() {
        let mut log = ActivityLog::default();
        let mut see = |event: Value| log.see(None, &event, &json!({ "worker": "w.1" }));
        see(json!({ "type": "run:iteration", "taskId": "a", "iteration": 1, "maxIterations": 9 }));
        see(json!({ "type": "agent:start", "agentName": "claude" }));
        see(json!({ "type": "agent:text", "content": "I will\nlook in" }));
        see(json!({ "type": "agent:text", "content": "to it\n\n" }));
        let seen = log.of("w.1", Some("a")).cloned().unwrap_or_default();
        assert_eq!(seen.line.as_deref(), Some("look into it"));
        assert_eq!((seen.iteration, seen.max_iterations), (Some(1), Some(9)));
        let tool =
            json!({ "type": "agent:tool:start", "toolName": "Bash", "input": { "command": "ls" } });
        log.see(None, &tool, &json!({ "worker": "w.1" }));
        assert_eq!(log.of("w.1", None).and_then(|a| a.line.as_deref()), Some("Bash: ls"));
        assert_eq!(log.of("w.1", Some("b")), None, "another task");
        assert_eq!(log.of("w.2", None), None);
    }
}
