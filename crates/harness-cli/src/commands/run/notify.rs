//! Tells a command of the user's how a run ended, and when it waits: `notify` in the configuration.

use std::{io::Write, path::Path, time::Duration};

use harness::{
    Envelope, Event, Hub,
    host::prompts,
    hub::Subscription,
    shell::{Exit, Script, SystemShell},
};
use serde_json::{Value, json};

use crate::store::warn;

/// Runs it with the event as JSON on standard input. It cannot change how the run ended.
pub(super) fn notify(command: &str, root: &Path, event: &Value) {
    let script = Script {
        // What it prints is of no interest, only what it complains about.
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
                Exit::Code(code) => warn(&format!("notify ended with exit code {code}: {command}")),
                Exit::Signal(signal) => {
                    warn(&format!("notify was killed by signal {signal}: {command}"));
                }
                Exit::TimedOut | Exit::Cancelled => {}
            }
        }
        Err(why) => warn(&format!("notify could not be run: {why}")),
    }
}

/// Tells when a person is asked and when a limit is waited for, while the result is kept. On a thread
/// of its own: a run does not wait for whoever is told.
pub(super) fn watch(hub: &Hub, command: Option<&str>, root: &Path) -> Option<Subscription> {
    let (command, root) = (command?.to_owned(), root.to_owned());
    let filter = ["session:prompt", "run:waiting"];
    Some(hub.subscribe(filter, move |envelope: &Envelope| {
        let event = match &envelope.event {
            Event::SessionPrompt { prompt_id, prompt, .. } => {
                json!({ "event": "asking", "prompt_id": prompts::name(*prompt_id), "question": prompt })
            }
            Event::RunWaiting { until, .. } => json!({ "event": "limit", "until": until }),
            _ => return,
        };
        let (command, root) = (command.clone(), root.clone());
        std::thread::spawn(move || notify(&command, &root, &event));
    }))
}
