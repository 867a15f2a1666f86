//! A shell with two kinds of commands: `check TASK` looks for the work of the task in the tree in
//! which it runs, and every other one succeeds.

use std::{io, path::Path};

use harness::shell::{Cancel, Exit, Ran, Script, Shell};
use harness_core::TaskId;

use super::{CrewFlaw, deed::is_done, fate::Moment, floor::Floor};
use crate::shell::ended;

pub(super) struct CrewShell {
    pub(super) floor: Floor,
    pub(super) pid: u32,
}

impl CrewShell {
    fn exit(&self, script: &Script) -> io::Result<Exit> {
        let mut state = self.floor.state();
        state.moment(self.pid, Moment::Effect)?;
        let (pid, place) = (self.pid, script.directory.clone());
        state.story.tell(|| format!("      {pid} sh: {} in {}", script.command, place.display()));
        let Some(task) = script.command.strip_prefix("check ") else { return Ok(Exit::Code(0)) };
        let Ok(task) = TaskId::parse(task) else { return Ok(Exit::Code(2)) };
        let files = state.git.at(&place).files();
        let passes = is_done(&files, &task);
        if passes {
            state.story.tell(|| format!("      the check of {task} passes"));
            state.passed.push((task, files));
        }
        let believed = state.flaw == CrewFlaw::EveryCheckPasses;
        Ok(Exit::Code(i32::from(!passes && !believed)))
    }
}

impl Shell for CrewShell {
    fn run(&self, script: &Script) -> io::Result<Ran> {
        self.run_until(script, &Cancel::new()?)
    }

    fn run_until(&self, script: &Script, _: &Cancel) -> io::Result<Ran> {
        Ok(ended(self.exit(script)?, "as simulated\n"))
    }

    fn lacks(&self, _: &str, _: &Path) -> bool {
        false
    }
}
