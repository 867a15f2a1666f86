//! The actions of an agent in the work tree. None of them is a step of harness.

use harness::Result;
use harness_core::{TaskId, agent::AgentEvent};

use super::{
    character::Character,
    shell::{TAR_PIT, asked_for},
    stage::State,
};
use crate::git::{Head, SimGit};

/// One action.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
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
    HandsOff,
    Nothing,
}

const ACTS: [(Act, u64); 18] = [
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
    (Act::HandsOff, 5),
    (Act::Nothing, 6),
];

pub(super) fn perform(
    state: &mut State,
    act: Act,
    task: &TaskId,
    committer: &str,
) -> Result<Option<AgentEvent>> {
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
            git.commit_index_as(committer, &format!("{task}: {number}"))?;
        }
        Act::CommitsNameless => {
            stage_all(&git);
            git.commit_index_as(committer, &format!("progress {number}"))?;
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
        Act::HandsOff => {
            let text = format!(r#"{{"phase": "{task}", "next_step": "after {number}"}}"#);
            let file = state.handoff();
            std::fs::create_dir_all(state.root.join("state"))?;
            std::fs::write(file, text)?;
        }
        Act::Nothing => {}
        Act::Checkpoint => {
            let description = format!("step {number}");
            return Ok(Some(AgentEvent::Checkpoint { step: number, total: 99, description }));
        }
    }
    Ok(None)
}

/// Performs `git add .`, except for the user's untracked files. An agent that commits those makes
/// them its own.
pub(super) fn stage_all(git: &SimGit) {
    let mut paths: Vec<String> = git.files().into_keys().collect();
    paths.extend(git.staged_files().into_keys());
    for path in paths.into_iter().filter(|path| path != "notes.txt") {
        git.stage(&path);
    }
}

/// Chooses the next action of an agent of this kind.
pub(super) fn choose(state: &mut State, character: Character) -> Act {
    match character {
        Character::Honest => Act::Does,
        Character::Liar => [Act::Scratch, Act::EditsTracked][state.random.below(2)],
        Character::Idle => Act::Nothing,
        Character::Mixed | Character::Mute | Character::Crasher => {
            let weights = ACTS.map(|(_, weight)| weight);
            ACTS[state.random.weighted(&weights)].0
        }
    }
}
