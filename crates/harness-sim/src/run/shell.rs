//! A shell with three commands: `check TASK` looks for the file of the task, and the init script
//! and a cleanup end as the fate of the process decides.

use std::{io, path::Path, time::Instant};

use harness::shell::{Cancel, Exit, Ran, Script, Shell};
use harness_core::TaskId;

use super::{
    Flaw,
    stage::{Moment, PATIENCE, Stage, State},
};
use crate::{git::Files, shell::ended};

/// Returns the file that the check of a task looks for.
pub(super) fn asked_for(task: &TaskId) -> (String, Vec<u8>) {
    (format!("work/{task}.txt"), format!("{task} is done").into_bytes())
}

/// Returns whether a tree has the file that the check of `task` looks for.
pub(super) fn is_done(files: &Files, task: &TaskId) -> bool {
    let (path, content) = asked_for(task);
    files.get(&path) == Some(&content)
}

/// A file that makes a check run forever.
pub(super) const TAR_PIT: &str = "work/tar-pit";

pub(super) struct RunShell(pub(super) Stage);

impl RunShell {
    fn exit(&self, script: &Script, cancel: &Cancel) -> io::Result<Exit> {
        let mut state = self.0.state();
        state.story.tell(|| format!("      sh: {}", script.command));
        let before = state.tally.interrupts;
        let began_with = state.git.files();
        state.moment(Moment::Effect)?;
        let interrupted = state.tally.interrupts > before;
        let Some(task) = script.command.strip_prefix("check ") else {
            let init = script.command.contains("harness-init.sh");
            return Ok(Exit::Code(i32::from(init && state.fate.init_fails)));
        };
        if interrupted {
            let impatient = state.fate.impatient;
            drop(state);
            let since = Instant::now();
            while !cancel.is_cancelled() && since.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            if impatient {
                self.0.state().interrupt();
            }
            return Ok(Exit::Cancelled);
        }
        Ok(check(&mut state, task, began_with))
    }
}

fn check(state: &mut State, task: &str, began_with: Files) -> Exit {
    let Ok(task) = TaskId::parse(task) else { return Exit::Code(2) };
    if state.fate.lacks_checks {
        return Exit::Code(127);
    }
    let tree = state.git.files();
    if tree.contains_key(TAR_PIT) {
        return Exit::TimedOut;
    }
    let believed = match state.flaw {
        Flaw::EveryCheckPasses => true,
        Flaw::BelievesClients => state.judges_client,
        _ => false,
    };
    if !is_done(&tree, &task) && !believed {
        return Exit::Code(1);
    }
    state.story.tell(|| format!("      the check of {task} passes"));
    if is_done(&tree, &task) {
        state.books.passed.insert(format!("check {task}"));
    }
    if let Some(seen) = state.attempts.get_mut(&task) {
        // New files are attributed to the check.
        let steady = began_with.iter().all(|(path, bytes)| tree.get(path) == Some(bytes));
        let seen_by = if steady { &mut seen.passed } else { &mut seen.unsteady };
        seen_by.push(began_with);
    }
    Exit::Code(0)
}

impl Shell for RunShell {
    fn run(&self, script: &Script) -> io::Result<Ran> {
        self.run_until(script, &Cancel::new()?)
    }

    fn run_until(&self, script: &Script, cancel: &Cancel) -> io::Result<Ran> {
        self.0.in_turn();
        Ok(ended(self.exit(script, cancel)?, "as simulated\n"))
    }

    fn lacks(&self, _: &str, _: &Path) -> bool {
        false
    }
}
