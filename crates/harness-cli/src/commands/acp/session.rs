//! A session of an editor: its folder, its turn, and the run that it follows.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    active::{ActiveRun, RunEnd},
    question::Question,
    updates::Tools,
};

/// The command for the tasks of the ledger.
pub(super) const TASKS: &str = "/tasks";

pub(super) struct Session {
    pub(super) folder: PathBuf,
    /// The request of the turn in progress.
    pub(super) turn: Option<Value>,
    pub(super) run: Option<ActiveRun>,
    pub(super) tools: Tools,
    /// A question that the next message answers.
    pub(super) question: Option<Question>,
    /// Whether the person has cancelled the turn.
    pub(super) is_cancelled: bool,
}

impl Session {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            turn: None,
            run: None,
            tools: Tools::default(),
            question: None,
            is_cancelled: false,
        }
    }
}

/// Returns the text of a prompt. Files that come with it are quoted or named.
pub(super) fn text_of(prompt: &Value) -> String {
    let part = |block: &Value| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match block["type"].as_str()? {
            "text" => text(&block["text"]),
            "resource_link" => text(&block["uri"]),
            "resource" => {
                let resource = &block["resource"];
                let uri = resource["uri"].as_str().unwrap_or_default();
                Some(format!("{uri}:\n\n{}", resource["text"].as_str().unwrap_or_default()))
            }
            _ => None,
        }
    };
    let parts: Vec<String> = prompt.as_array().into_iter().flatten().filter_map(part).collect();
    parts.join("\n\n").trim().to_owned()
}

/// Describes the end of a run for a person.
pub(super) fn end_in_words(end: &RunEnd) -> String {
    let lines = end.said.lines().filter(|line| {
        let line = line.trim_start();
        line.starts_with("Error:") || line.starts_with("Hint:")
    });
    let said = lines.collect::<Vec<_>>().join("\n");
    let report = &end.report;
    let mut words = match (end.code, report["stop_reason"].as_str()) {
        (Some(0), _) => "The run is complete.".to_owned(),
        (_, Some(reason)) => format!("The run stopped: {}.", reason.replace('_', " ")),
        (Some(code), None) => format!("The run did not begin (exit {code})."),
        (None, None) => "The run has ended; `harness report` shows its results.".to_owned(),
    };
    let counts = &report["counts"];
    if let (Some(total @ 1..), Some(completed)) =
        (counts["total"].as_u64(), counts["completed"].as_u64())
    {
        words += &format!(" {completed} of {total} tasks are completed.");
    }
    if let Some(cost) = report["cost_usd"].as_f64().filter(|cost| *cost > 0.0) {
        words += &format!(" It cost ${cost:.2}.");
    }
    if said.is_empty() || end.code == Some(0) { words } else { format!("{words}\n\n{said}") }
}

/// Returns the commands that an editor offers.
pub(super) fn commands() -> Value {
    let tasks = json!({ "name": &TASKS[1..], "description": "Work on the tasks of the ledger" });
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": [tasks] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_its_texts_and_the_files_that_it_names() {
        let prompt = json!([
            { "type": "text", "text": "Fix it" },
            { "type": "resource_link", "uri": "file:///a", "name": "a" },
            { "type": "resource", "resource": { "uri": "file:///b", "text": "bb" } },
            { "type": "image", "data": "x" },
        ]);
        assert_eq!(text_of(&prompt), "Fix it\n\nfile:///a\n\nfile:///b:\n\nbb");
        assert_eq!(text_of(&json!(null)), "");
    }

    #[test]
    fn an_end_says_why() {
        let end = |code, report, said: &str| RunEnd { code, report, said: said.to_owned() };
        let counts = json!({ "counts": { "total": 3, "completed": 3 }, "cost_usd": 0.5 });
        assert_eq!(
            end_in_words(&end(Some(0), counts, "noise")),
            "The run is complete. 3 of 3 tasks are completed. It cost $0.50."
        );
        let refused = end(Some(5), Value::Null, "x\nError: not trusted\nHint: `harness trust`\n");
        assert_eq!(
            end_in_words(&refused),
            "The run did not begin (exit 5).\n\nError: not trusted\nHint: `harness trust`"
        );
        let stopped = end(Some(3), json!({ "stop_reason": "budget" }), "");
        assert_eq!(end_in_words(&stopped), "The run stopped: budget.");
    }
}
