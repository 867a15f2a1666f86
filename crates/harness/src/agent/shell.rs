//! `shell`: the instructions of a task are a script. It needs no model and no key; the exit code
//! and the validation decide.

use harness_core::agent::{End, FailureKind, Usage};

use super::{
    Agent, Execution, Prompt,
    supervise::{Asleep, supervise},
};
use crate::{
    error::Result,
    process::{Limits, Spec, Stdin, is_withheld},
};

/// Runs the instructions with `sh -eu` in the work tree. It inherits the whole environment, as in
/// the user's terminal.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShellAgent;

impl Agent for ShellAgent {
    type Input = Prompt;
    type Output = End;

    fn kind(&self) -> Option<&str> {
        Some("shell")
    }

    async fn execute(&self, prompt: Prompt, execution: &mut Execution) -> Result<End> {
        let script = prompt.instructions.as_deref().unwrap_or_default();
        if script.trim().is_empty() {
            let detail =
                "the shell agent runs a task's instructions, but this task has none".to_owned();
            return Ok(End::Failed { kind: FailureKind::Config, detail });
        }
        // The script is in a file, because one argument may not be longer than 128 KiB and standard
        // input belongs to the script.
        let file = prompt.file("sh", script)?;
        let mut environment = prompt.environment.clone();
        environment.retain(|(name, _)| !name.to_str().is_some_and(is_withheld));
        environment.push(("HARNESS_PROMPT_FILE".into(), file.as_os_str().to_owned()));
        let spec = Spec {
            program: "sh".into(),
            args: vec!["-eu".into(), file.as_os_str().to_owned()],
            directory: prompt.work_tree.clone(),
            environment,
            stdin: Stdin::Null,
            // A build may be silent for any time.
            limits: Limits { stall: None, ..prompt.limits.clone() },
            label: prompt.run_id.clone(),
            records: Some(prompt.records()),
        };
        Ok(match supervise(spec, &prompt, execution, Asleep).await? {
            Err(end) => end,
            Ok(ran) => ran.improper().unwrap_or_else(|| End::Finished {
                final_text: prompt.promise,
                usage: Usage::default(),
            }),
        })
    }
}
