//! The permissions of Claude Code, and the answers to its questions.
//!
//! By default it edits inside the work tree and runs commands, as coding requires. It asks for
//! everything else over the control protocol, and no person is available. Reading is allowed, and
//! the rest is refused. The configuration can allow more.

use serde_json::{Value, json};

/// Tools that would wait for a person, work in another place or return later. They do not fit one
/// prompt in this work tree.
const NEVER: &str = "AskUserQuestion,EnterPlanMode,ExitPlanMode,EnterWorktree,ExitWorktree,\
                     CronCreate,ScheduleWakeup";
/// Tools that read any files, because libraries are read in their own folders.
const READS: [&str; 5] = ["Read", "Glob", "Grep", "LS", "NotebookRead"];
/// The prefix of our own tools.
const OURS: &str = "mcp__harness__";

/// The extent of its permissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Permission {
    #[default]
    Least,
    /// The user configured `yolo = true`.
    Bypass,
}

impl Permission {
    pub(super) fn arguments(self) -> Vec<&'static str> {
        match self {
            Self::Least => vec![
                "--permission-mode",
                "acceptEdits",
                "--permission-prompt-tool",
                "stdio",
                "--allowedTools",
                "Bash,mcp__harness",
                "--disallowedTools",
                NEVER,
            ],
            Self::Bypass => vec!["--dangerously-skip-permissions", "--disallowedTools", NEVER],
        }
    }
}

/// Returns the answer to its question whether it may use a tool.
pub(super) fn answer(tool: &str, input: &Value) -> Value {
    if READS.contains(&tool) || tool.starts_with(OURS) {
        return json!({ "behavior": "allow", "updatedInput": input });
    }
    let message = format!(
        "{tool} is not allowed here and nobody is there to ask. Work inside this directory with the \
         tools that you have, and say in your final message what you could not do."
    );
    json!({ "behavior": "deny", "message": message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_allowed_and_nothing_else_that_it_asks_for() {
        let input = json!({ "file_path": "/usr/include/stdio.h" });
        for (tool, behavior) in [
            ("Read", "allow"),
            ("mcp__harness__task_checkpoint", "allow"),
            ("Write", "deny"),
            ("WebFetch", "deny"),
            ("mcp__other__do", "deny"),
            ("Bash", "deny"),
        ] {
            let answer = answer(tool, &input);
            assert_eq!(answer["behavior"], behavior, "{tool}");
            match behavior {
                "allow" => assert_eq!(answer["updatedInput"], input),
                _ => assert!(answer["message"].as_str().unwrap().contains(tool)),
            }
        }
    }

    #[test]
    fn nothing_is_bypassed_unasked() {
        assert!(!Permission::Least.arguments().contains(&"--dangerously-skip-permissions"));
        assert!(Permission::Bypass.arguments().contains(&"--dangerously-skip-permissions"));
    }
}
