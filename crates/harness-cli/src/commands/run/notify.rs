//! Tells a command of the user's how a run ended, and when it waits: `notify` in the configuration.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use harness::{Envelope, Event, Hub, hub::Subscription};
use serde_json::{Value, json};

use crate::store::warn;

/// Runs it with the event as JSON on standard input. It can not change how the run ended.
pub(super) fn notify(command: &str, root: &Path, event: &Value) {
    let told = Command::new("sh")
        .args(["-c", command])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .and_then(|mut child| {
            if let Some(mut stdin) = child.stdin.take() {
                // A command that does not read is none the worse for it.
                _ = writeln!(stdin, "{event}");
            }
            child.wait()
        });
    match told {
        Ok(status) if status.success() => {}
        Ok(status) => warn(&format!("notify ended with {status}: {command}")),
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
                json!({ "event": "asking", "prompt_id": prompt_id, "question": prompt })
            }
            Event::Custom(custom) => {
                json!({ "event": "limit", "until": custom.fields.get("until") })
            }
            _ => return,
        };
        let (command, root) = (command.clone(), root.clone());
        std::thread::spawn(move || notify(&command, &root, &event));
    }))
}
