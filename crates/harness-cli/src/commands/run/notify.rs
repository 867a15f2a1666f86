//! Runs a command of the user when a run ends, and when it waits: `notify = "COMMAND"` in the
//! configuration. Channels (`[[notify]]`) are the library's.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use harness::{
    Envelope, Event, Observer,
    host::prompts,
    shell::{Exit, Script, SystemShell},
};
use serde_json::{Value, json};

use crate::paint::warn;

/// Runs it with the event as JSON on standard input. It cannot change the end of the run.
pub(super) fn notify(command: &str, root: &Path, event: &Value) {
    let script = Script {
        // Its output is ignored, except its errors.
        command: format!("exec >/dev/null\n{command}"),
        directory: root.to_owned(),
        timeout: Duration::MAX,
        environment: vec![("HARNESS_STATE_ROOT".to_owned(), root.display().to_string())],
    };
    let told = SystemShell::default().run_with_input(&script, format!("{event}\n").as_bytes());
    match told {
        Ok(ran) => {
            _ = std::io::stderr().write_all(&ran.tail);
            match ran.exit {
                Exit::Code(0) => {}
                Exit::Code(code) => {
                    warn(&format!("notify failed with exit code {code}: {command}"))
                }
                Exit::Signal(signal) => {
                    warn(&format!("notify was killed by signal {signal}: {command}"));
                }
                Exit::TimedOut | Exit::Cancelled => {}
            }
        }
        Err(why) => warn(&format!("notify could not be run: {why}")),
    }
}

/// Starts the command when a person is asked and when the run waits for a limit. It uses its own
/// thread, so that the run does not wait for it.
pub(super) struct EventCommand {
    command: String,
    root: PathBuf,
}

impl EventCommand {
    pub(super) fn new(command: &str, root: &Path) -> Self {
        Self { command: command.to_owned(), root: root.to_owned() }
    }
}

impl Observer for EventCommand {
    fn event(&self, envelope: &Envelope) {
        let event = match &envelope.event {
            Event::SessionPrompt { prompt_id, prompt, .. } => {
                json!({ "event": "asking", "prompt_id": prompts::name(*prompt_id), "question": prompt })
            }
            Event::RunWaiting { until, .. } => json!({ "event": "limit", "until": until }),
            _ => return,
        };
        let (command, root) = (self.command.clone(), self.root.clone());
        std::thread::spawn(move || notify(&command, &root, &event));
    }
}
