//! A transcript as text: the words of an agent, its tool calls and their results, shortened. It
//! knows the lines of Claude Code, of Codex and of agents that speak ACP. Any other line is text.

use serde_json::Value;

use crate::{
    paint::one_line,
    speech::Speech,
    tool_line::{cut, tool_line},
};

/// The number of characters of a tool's result that are shown.
const RESULT_CHARS: usize = 160;

/// Turns lines of a transcript into lines for people.
#[derive(Default)]
pub(crate) struct TranscriptText {
    /// The text of agents that speak ACP, which comes in pieces.
    speech: Speech,
}

impl TranscriptText {
    pub(crate) fn line(&mut self, line: &str) -> Vec<String> {
        let parsed = match line.trim_start().starts_with('{') {
            true => serde_json::from_str::<Value>(line).ok(),
            false => None,
        };
        let Some(said) = parsed else { return vec![shown(line)] };
        if said["jsonrpc"].is_string() {
            return self.acp(&said);
        }
        match said["type"].as_str() {
            Some("assistant" | "user") => claude(&said["message"]["content"]),
            Some("result") => claude_result(&said),
            Some("item.completed") => codex(&said["item"]),
            Some("turn.failed" | "error") => {
                let why = said["error"]["message"].as_str().or(said["message"].as_str());
                vec![format!("! {}", shown(why.unwrap_or(line)))]
            }
            Some(
                "system" | "rate_limit_event" | "control_request" | "control_response"
                | "stream_event" | "thread.started" | "turn.started" | "turn.completed"
                | "item.started" | "item.updated",
            ) => Vec::new(),
            Some(_) | None => vec![shown(line)],
        }
    }

    /// Returns the last line, if it has no end yet.
    pub(crate) fn rest(&mut self) -> Option<String> {
        self.speech.flush().map(|line| shown(&line))
    }

    fn acp(&mut self, said: &Value) -> Vec<String> {
        let update = &said["params"]["update"];
        let kind = match said["method"].as_str() {
            Some("session/update") => update["sessionUpdate"].as_str(),
            _ => None,
        };
        match kind {
            Some("agent_message_chunk") => {
                let lines =
                    self.speech.push(update["content"]["text"].as_str().unwrap_or_default());
                lines.iter().map(|line| shown(line)).collect()
            }
            Some("tool_call") => {
                let name = update["title"].as_str().or(update["kind"].as_str()).unwrap_or("tool");
                let call = format!("> {}", tool_line(name, update.get("rawInput")));
                self.rest().into_iter().chain([call]).collect()
            }
            Some("tool_call_update") => match update["status"].as_str() {
                Some("failed") => vec!["< failed".to_owned()],
                Some("completed") => {
                    let result = update.get("rawOutput").filter(|value| !value.is_null());
                    vec![result_line(result.unwrap_or(&update["content"]))]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

/// Returns the lines for the blocks of a message.
fn claude(content: &Value) -> Vec<String> {
    if let Some(text) = content.as_str() {
        return text_lines(text);
    }
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = blocks.iter().map(|block| match block["type"].as_str() {
        Some("text") => text_lines(block["text"].as_str().unwrap_or_default()),
        Some("tool_use") => {
            let name = block["name"].as_str().unwrap_or("tool");
            vec![format!("> {}", tool_line(name, block.get("input")))]
        }
        Some("tool_result") if block["is_error"] == true => {
            vec![format!("! {}", result_text(&block["content"]))]
        }
        Some("tool_result") => vec![result_line(&block["content"])],
        Some(_) | None => Vec::new(),
    });
    lines.flatten().collect()
}

/// Returns the lines for a result. Its text repeats the last message, and is left out.
fn claude_result(said: &Value) -> Vec<String> {
    let cost = said["total_cost_usd"].as_f64().map(|cost| format!(", ${cost:.2}"));
    let turns = said["num_turns"].as_u64().map(|turns| format!(", {turns} turns"));
    let (cost, turns) = (cost.unwrap_or_default(), turns.unwrap_or_default());
    let how = said["subtype"].as_str().unwrap_or("end");
    vec![format!("= {}{turns}{cost}", shown(how))]
}

fn codex(item: &Value) -> Vec<String> {
    match item["type"].as_str() {
        Some("agent_message") => text_lines(item["text"].as_str().unwrap_or_default()),
        Some("reasoning") | None => Vec::new(),
        Some("command_execution") => {
            let call = format!("> {}", tool_line("command", Some(&item["command"])));
            vec![call, result_line(&item["aggregated_output"])]
        }
        Some("mcp_tool_call") => {
            let name = item["tool"].as_str().unwrap_or("tool");
            vec![format!("> {}", tool_line(name, item.get("arguments")))]
        }
        Some("file_change") => {
            let changes = item["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
            let files: Vec<&str> = changes.iter().filter_map(|c| c["path"].as_str()).collect();
            vec![format!("> file_change: {}", shown(&files.join(", ")))]
        }
        Some(other) => vec![format!("> {}", tool_line(other, item.get("query")))],
    }
}

fn text_lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.trim().is_empty()).map(shown).collect()
}

fn result_line(result: &Value) -> String {
    format!("< {}", result_text(result))
}

/// Returns the first line, and the number of further lines.
fn result_text(result: &Value) -> String {
    let text = match result {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| {
                part["text"].as_str().or(part["content"]["text"].as_str()).map(str::to_owned)
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = cut(&one_line(lines.next().unwrap_or("(nothing)").trim_end()), RESULT_CHARS);
    match lines.count() {
        0 => first,
        more => format!("{first} (and {more} more lines)"),
    }
}

fn shown(text: &str) -> String {
    one_line(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dialect_becomes_text() {
        let mut text = TranscriptText::default();
        for (line, expected) in [
            ("plain words", &["plain words"][..]),
            (r#"{"mine":1}"#, &[r#"{"mine":1}"#]),
            (r#"{"type":"system","subtype":"init"}"#, &[]),
            (
                r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I look.\n\nNow."},{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}"#,
                &["I look.", "Now.", "> Bash: ls"],
            ),
            (
                r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"a\nb\nc"}]}}"#,
                &["< a (and 2 more lines)"],
            ),
            (
                r#"{"type":"result","subtype":"success","num_turns":3,"total_cost_usd":0.5,"result":"x"}"#,
                &["= success, 3 turns, $0.50"],
            ),
            (
                r#"{"type":"item.completed","item":{"type":"command_execution","command":"make","aggregated_output":"ok\n"}}"#,
                &["> command: make", "< ok"],
            ),
            (
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"text":"half"}}}}"#,
                &[],
            ),
            (
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call","title":"Read","rawInput":{"path":"a"}}}}"#,
                &["half", "> Read: a"],
            ),
        ] {
            assert_eq!(text.line(line), expected, "{line}");
        }
        assert_eq!(text.rest(), None);
    }
}
