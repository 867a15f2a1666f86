//! Tells a command of the user's how a run ended: `notify` in the configuration.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

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
