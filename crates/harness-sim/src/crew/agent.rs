//! An agent in the work tree of its worker: it works there and reports about it, truthfully or not.

use std::time::Duration;

use harness::{Agent, Execution, Result, agent::Prompt};
use harness_core::{
    TaskId,
    agent::{End, FailureKind, StoppedBy, Usage},
};

use super::{
    deed::{Deed, Setting},
    fate::Moment,
    floor::Floor,
};

/// The time that one action takes.
const ACTION: Duration = Duration::from_secs(20);

pub(super) struct CrewAgent {
    pub(super) floor: Floor,
    pub(super) pid: u32,
}

impl CrewAgent {
    fn act(&self, prompt: &Prompt, task: &TaskId, committer: &str) -> Result<()> {
        let mut state = self.floor.state();
        state.moment(self.pid, Moment::Effect)?;
        state.files_made += 1;
        let deed = if state.quiet { Deed::Does } else { Deed::any(&mut state.random) };
        state.story.tell(|| format!("      {} {task}'s agent: {deed:?}", self.pid));
        let (git, tasks) = (state.git.at(&prompt.work_tree), state.tasks());
        let number = state.files_made;
        let setting = Setting { git: &git, task, tasks: &tasks, committer, number };
        deed.perform(&mut state.random, &setting)
    }

    fn end(&self) -> Result<End> {
        let mut state = self.floor.state();
        state.moment(self.pid, Moment::Effect)?;
        let way = if state.quiet { 0 } else { state.random.weighted(&[80, 10, 5, 5]) };
        let finished =
            |text: &str| End::Finished { final_text: text.into(), usage: Usage::default() };
        Ok(match way {
            0 => finished("TASK_COMPLETE"),
            1 => finished("I am not done yet."),
            2 => End::Failed { kind: FailureKind::Crashed, detail: "as simulated".into() },
            _ => End::OutOfContext,
        })
    }
}

impl Agent for CrewAgent {
    type Input = Prompt;
    type Output = End;

    async fn execute(&self, prompt: Prompt, execution: &mut Execution) -> Result<End> {
        let variable = |wanted: &str| {
            let found = prompt.environment.iter().rev().find(|(name, _)| name == wanted);
            found.and_then(|(_, value)| value.to_str()).unwrap_or_default().to_owned()
        };
        let task = TaskId::parse(&variable("HARNESS_TASK_ID")).map_err(harness::Error::other)?;
        let committer = variable("GIT_COMMITTER_NAME");
        let acts = {
            let mut state = self.floor.state();
            if state.quiet { 1 } else { 1 + state.random.below(5) }
        };
        for _ in 0..acts {
            self.act(&prompt, &task, &committer)?;
            tokio::select! {
                biased;
                () = execution.cancelled().cancelled() => {
                    return Ok(End::Stopped { by: execution.stopped_by() });
                }
                () = tokio::time::sleep(ACTION) => {}
            }
        }
        if prompt.limits.timeout.is_some_and(|limit| limit < ACTION * acts as u32) {
            return Ok(End::Stopped { by: StoppedBy::Timeout });
        }
        self.end()
    }
}
