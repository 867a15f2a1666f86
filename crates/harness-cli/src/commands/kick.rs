//! `harness kick`

use harness::{
    clock::{Clock, SystemClock},
    core::{
        Run,
        command::{OfRun, RunStep},
        run::RunStatus,
    },
    host::client::ANSWER_WITHIN,
    store::{RunStore, Runs, is_gone},
};
use harness_core::role::Operation;
use serde_json::json;

use super::Invocation;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    host::Asked,
    root::StateRoot,
};

/// End a wait for a usage limit now
///
/// A run that waits for its agent's limit to lift asks the agent again at once. Of a run that was
/// killed while it waited, the wait is forgotten: `harness run --resume` goes on without it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness kick
  harness kick && harness log -f")]
pub(crate) struct Args {}

pub(crate) fn run(invocation: &mut Invocation, _: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Kick)?;
    let request = json!({ "command": "kick" });
    let woken = match invocation.ask_host(&root, request, Some(ANSWER_WITHIN))? {
        Asked::Answered(data) => data["woken"].as_u64().unwrap_or(0),
        Asked::Nobody => forget(&root)?,
    };
    match woken {
        0 => Err(Failure::error("no run waits for a usage limit here")
            .hint("`harness status` shows what runs do")),
        _ => {
            invocation.out.line("the wait is over")?;
            Ok(ExitCode::Done)
        }
    }
}

/// Of runs whose process is gone; how many there were.
fn forget(root: &StateRoot) -> Result<u64> {
    let Some(looked) = RunStore::look(root.path())? else { return Ok(0) };
    let waits = |run: &Run| {
        let driven = run.lease.as_ref().is_some_and(|lease| !is_gone(&lease.owner));
        run.status == RunStatus::Running && run.wake_at.is_some() && !driven
    };
    let waiting: Vec<Run> = looked.live()?.into_iter().filter(waits).collect();
    if waiting.is_empty() {
        return Ok(0);
    }
    let store = RunStore::open(root.path())?;
    let mut woken = 0;
    for run in waiting {
        let by = run.lease.map(|lease| lease.owner);
        let command = OfRun { run: run.id, by, step: RunStep::WaitUntil(None) };
        store.apply(SystemClock.now(), &command)??;
        woken += 1;
    }
    Ok(woken)
}
