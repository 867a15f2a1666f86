//! `[import] sync`: at the end of a run, completed tasks are called done at their sources.
//!
//! It happens at the end and not after each completion, because the sources are files of the work
//! tree: a change between two attempts would become part of the next one, and would be committed or
//! undone with it. A run that ends early leaves nothing behind that the next one does not catch up
//! with. Nothing here fails the run.

use std::time::Duration;

use harness::{
    clock::{Clock as _, SystemClock},
    core::{Command, TaskId, command::Note},
    store::{Store as _, lock::Wait},
    workspace::{CommitPolicy, GitWorkspace, Sight, Signing, Workspace as _},
};

use super::{commits, crew::Footing};
use crate::{
    commands::import::sync::{self, Synced},
    config::Config,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::warn,
    root::StateRoot,
};

/// The name under which git keeps the state before the commit.
const NAME: &str = "import-sync";
/// The time for another process to finish its transaction.
const WAIT: Duration = Duration::from_secs(3);

/// Calls the completed tasks done at their sources, if the configuration asks for it.
pub(super) fn after_run(
    invocation: &Invocation,
    root: &StateRoot,
    config: &Config,
    footing: &Footing,
) {
    if !config.import.sync {
        return;
    }
    let problems = match at_rest(invocation, root, config, footing) {
        Ok(synced) => synced.problems,
        Err(failure) => vec![failure.error],
    };
    for problem in problems {
        let message = format!("not marked as done at its source: {problem}");
        warn(&message);
        // The line in the log is for those who do not see this terminal.
        let note = Command::Note(Note::Warning { task: None, message });
        _ = invocation.store(root).map(|mut store| store.apply(SystemClock.now(), &[note]));
    }
}

/// Writes while no other process of harness works here.
fn at_rest(
    invocation: &Invocation,
    root: &StateRoot,
    config: &Config,
    footing: &Footing,
) -> Result<Synced> {
    let project = invocation.project(root)?;
    let held = project.hold_within(Wait::For(WAIT));
    let _held = held.map_err(|why| {
        let text = format!("{why}; `harness import --sync` catches up");
        Failure::error(text)
    })?;
    let workspace = match footing {
        Footing::Alone => clean_tree(invocation, root, config)?,
        // Somebody may be at work in the main tree, so nothing is committed there.
        Footing::Together(_) => None,
    };
    let Some(workspace) = workspace else {
        return sync::sync(invocation, root, |_| true);
    };
    let name = TaskId::parse(NAME)?;
    let base = workspace.base(&name, Sight::Anew)?;
    let synced = sync::sync(invocation, root, |_| true)?;
    if !synced.files.is_empty() {
        workspace.disturbed();
        let ids: Vec<&str> = synced.marked.iter().map(TaskId::as_str).collect();
        let message = format!("Mark imported tasks as done\n\n{}\n", ids.join("\n"));
        workspace.commit(&base, &message)?;
    }
    workspace.forget(&name)?;
    Ok(synced)
}

/// Returns the work tree, if a commit of everything that changes now holds nothing else.
fn clean_tree(
    invocation: &Invocation,
    root: &StateRoot,
    config: &Config,
) -> Result<Option<GitWorkspace>> {
    let workspace = invocation.workspace(root)?;
    if !workspace.status()?.changed.is_empty() {
        return Ok(None);
    }
    let policy = match config.git.hooks || config.git.sign {
        true => commits::policy(invocation, root, &config.git, &workspace)?,
        false => CommitPolicy { hooks: None, signing: Signing::Off },
    };
    Ok(Some(workspace.committing(policy)))
}
