//! HARNESS_HOOK_LOG: a file that gets one JSON line per call, to show what a hook printed.

use std::{fs::OpenOptions, io, io::Write, os::unix::fs::OpenOptionsExt};

use harness::{
    clock::{Clock as _, SystemClock},
    process::Redactor,
};
use serde_json::json;

use super::{Answer, Hook, payload::Payload};
use crate::{environment::Environment, root::StateRoot};

pub(super) fn append(
    env: &Environment,
    hook: Hook,
    root: Option<&StateRoot>,
    payload: &Payload,
    answer: &Answer,
) -> io::Result<()> {
    let Some(path) = env.path("HARNESS_HOOK_LOG") else { return Ok(()) };
    let line = json!({
        "time": SystemClock.now(),
        "hook": hook.name(),
        "event": payload.text("hook_event_name"),
        "session_id": payload.session(),
        "root": root.map(|root| root.path().display().to_string()),
        "exit_code": answer.ending.exit_code() as u8,
        "stdout": answer.stdout,
        "stderr": answer.stderr,
    });
    // Titles and errors come from others. Known secrets in them must not get into the file.
    let line = format!("{line}\n");
    let line = Redactor::from_environment(std::env::vars_os()).text(&line).into_owned();
    // With this flag, a pipe without a reader is an error and does not block.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    // One write is used, so that the lines of two hooks do not mix.
    file.write_all(line.as_bytes())
}
