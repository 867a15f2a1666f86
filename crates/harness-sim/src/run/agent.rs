//! An agent of many characters: it works in the tree, and says what it likes about it.

use std::time::Duration;

use harness::{Agent, Execution, Result, agent::Prompt};
use harness_core::{
    TaskId,
    agent::{AgentEvent, End, FailureKind, StoppedBy, Usage},
};

use super::{
    shell::{TAR_PIT, asked_for},
    stage::{Moment, Stage, State},
};
use crate::git::{Head, SimGit};

pub(super) struct RunAgent(pub(super) Stage);

/// What it does next. None of it is a step of the harness.
#[derive(Debug, Clone, Copy)]
enum Act {
    Does,
    Half,
    Scratch,
    EditsTracked,
    DeletesTracked,
    EditsUsersFile,
    DeletesUsersFile,
    Stages,
    StagesAndEdits,
    CommitsNaming,
    CommitsNameless,
    Branches,
    Detaches,
    GoesBack,
    TarPit,
    Checkpoint,
}

const ACTS: [(Act, u64); 16] = [
    (Act::Does, 40),
    (Act::Half, 6),
    (Act::Scratch, 12),
    (Act::EditsTracked, 8),
    (Act::DeletesTracked, 4),
    (Act::EditsUsersFile, 4),
    (Act::DeletesUsersFile, 3),
    (Act::Stages, 5),
    (Act::StagesAndEdits, 3),
    (Act::CommitsNaming, 9),
    (Act::CommitsNameless, 6),
    (Act::Branches, 3),
    (Act::Detaches, 2),
    (Act::GoesBack, 2),
    (Act::TarPit, 2),
    (Act::Checkpoint, 6),
];

impl RunAgent {
    /// What there is to tell of it, if it is not killed meanwhile.
    fn act(&self, task: &TaskId) -> Result<Option<AgentEvent>> {
        let mut state = self.0.state();
        state.moment(Moment::Effect)?;
        let weights = ACTS.map(|(_, weight)| weight);
        let act = ACTS[state.random.weighted(&weights)].0;
        state.story.tell(|| format!("      {task}'s agent: {act:?}"));
        let told = perform(&mut state, act, task)?;
        state.messed(task);
        Ok(told)
    }
}

fn perform(state: &mut State, act: Act, task: &TaskId) -> Result<Option<AgentEvent>> {
    let git = state.git.clone();
    state.files_made += 1;
    let number = state.files_made;
    let (path, done) = asked_for(task);
    match act {
        Act::Does => git.write(&path, &done),
        Act::Half => git.write(&path, b"half"),
        Act::Scratch => git.write(&format!("scratch-{number}"), task.as_str().as_bytes()),
        Act::EditsTracked => git.write("src/main.rs", format!("// {number}").as_bytes()),
        Act::DeletesTracked => git.remove("README"),
        Act::EditsUsersFile => git.write("notes.txt", format!("scribble {number}").as_bytes()),
        Act::DeletesUsersFile => git.remove("notes.txt"),
        Act::Stages => stage_all(&git),
        Act::StagesAndEdits => {
            let name = format!("staged-{number}");
            git.write(&name, b"as staged");
            git.stage(&name);
            git.write(&name, b"as edited");
        }
        Act::CommitsNaming => {
            stage_all(&git);
            git.commit_index(&format!("{task}: {number}"))?;
        }
        Act::CommitsNameless => {
            stage_all(&git);
            git.commit_index(&format!("progress {number}"))?;
        }
        Act::Branches => git.create_branch(&format!("agent-{number}"))?,
        Act::Detaches => git.detach()?,
        Act::GoesBack => {
            let mut model = git.model();
            let head = model.head_commit()?;
            let parent = model.commits.get(&head).and_then(|c| c.parents.first().cloned());
            if let Some(parent) = parent {
                model.head = Head::Detached(parent);
            }
        }
        Act::TarPit => git.write(TAR_PIT, b"sticky"),
        Act::Checkpoint => {
            let description = format!("step {number}");
            return Ok(Some(AgentEvent::Checkpoint { step: number, total: 99, description }));
        }
    }
    Ok(None)
}

/// `git add .`, the user's untracked files aside: an agent that commits those makes them its own.
fn stage_all(git: &SimGit) {
    let mut paths: Vec<String> = git.files().into_keys().collect();
    paths.extend(git.staged_files().into_keys());
    for path in paths.into_iter().filter(|path| path != "notes.txt") {
        git.stage(&path);
    }
}

/// How it ends when nobody stops it.
enum Says {
    Now(End),
    Nothing,
}

fn says(state: &mut State, limit: Option<Duration>) -> Says {
    let finished = End::Finished { final_text: "TASK_COMPLETE".into(), usage: Usage::default() };
    let failed = |kind| End::Failed { kind, detail: "as simulated".into() };
    let troubled = if state.fate.quiet { 0 } else { 2 };
    // Who hangs without a limit of time is stopped by a person.
    let hangs = if limit.is_some() || !state.fate.quiet { 4 } else { 0 };
    Says::Now(match state.random.weighted(&[70, 8, 2, 2, troubled, troubled, 3, hangs]) {
        0 => finished,
        1 => failed(FailureKind::Crashed),
        2 => End::Refused,
        3 => End::OutOfContext,
        4 => End::Limited { until: None },
        5 => failed(FailureKind::NotFound),
        6 => End::Stopped { by: StoppedBy::Stall },
        _ => return Says::Nothing,
    })
}

impl Agent for RunAgent {
    type Input = Prompt;
    type Output = End;

    async fn execute(&self, prompt: Prompt, execution: &mut Execution) -> Result<End> {
        let id = prompt.environment.iter().find(|(name, _)| name == "HARNESS_TASK_ID");
        let id = id.and_then(|(_, id)| id.to_str()).unwrap_or_default();
        let task = TaskId::parse(id).map_err(harness::Error::other)?;
        let acts = {
            let mut state = self.0.state();
            state.executions += 1;
            state.story.tell(|| format!("      {task}'s agent starts"));
            state.random.below(6)
        };
        for _ in 0..acts {
            let told = self.act(&task)?;
            told.into_iter().for_each(|event| execution.tell(event));
            self.0.state().clock.step(20);
            tokio::time::sleep(Duration::from_secs(20)).await;
            if execution.cancelled().is_cancelled() {
                return Ok(self.stopped(execution).await);
            }
        }
        let limit = prompt.limits.timeout;
        let end = {
            let mut state = self.0.state();
            state.moment(Moment::Effect)?;
            says(&mut state, limit)
        };
        match end {
            Says::Now(end) => {
                self.0.state().story.tell(|| format!("      {task}'s agent ends: {end:?}"));
                Ok(end)
            }
            Says::Nothing => self.hang(limit, execution).await,
        }
    }
}

impl RunAgent {
    async fn hang(&self, limit: Option<Duration>, execution: &Execution) -> Result<End> {
        self.0.state().story.tell(|| "      the agent hangs".into());
        let up = limit.unwrap_or(Duration::from_secs(7200));
        tokio::select! {
            biased;
            () = execution.cancelled().cancelled() => return Ok(self.stopped(execution).await),
            () = tokio::time::sleep(up) => {}
        }
        self.0.state().clock.step(i64::try_from(up.as_secs()).unwrap_or(0));
        if limit.is_some() {
            return Ok(End::Stopped { by: StoppedBy::Timeout });
        }
        self.0.state().interrupt();
        execution.cancelled().cancelled().await;
        Ok(self.stopped(execution).await)
    }

    async fn stopped(&self, execution: &Execution) -> End {
        let by = execution.stopped_by();
        self.0.state().story.tell(|| format!("      the agent is stopped: {by:?}"));
        if self.0.state().fate.impatient {
            self.0.state().interrupt();
            tokio::task::yield_now().await;
        }
        End::Stopped { by }
    }
}
