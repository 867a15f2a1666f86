//! The work that tasks ask for, and the actions of agents in their work trees.
//!
//! A task wants a file of its own. Some tasks also want a line in a file that they share, so that
//! two of them conflict. Some agents break the check of another task, so that it passes on its own
//! base and fails on top of what landed.

use harness::Result;
use harness_core::TaskId;

use crate::{
    git::{Files, SimGit},
    random::Random,
};

/// The file that several tasks change.
pub(super) const SHARED: &str = "shared.txt";

pub(super) fn wanted_file(task: &TaskId) -> (String, Vec<u8>) {
    (format!("work/{task}.txt"), format!("{task} is done").into_bytes())
}

fn breaks(task: &TaskId) -> String {
    format!("breaks/{task}")
}

fn fixed(task: &TaskId) -> String {
    format!("fixed/{task}")
}

/// Returns whether a task wants a line in the shared file: every other one does.
pub(super) fn wants_shared(task: &TaskId) -> bool {
    task.as_str().bytes().last().is_some_and(|last| last % 2 == 1)
}

fn has_line(files: &Files, task: &TaskId) -> bool {
    let text = files.get(SHARED).map(|bytes| String::from_utf8_lossy(bytes));
    text.is_some_and(|text| text.lines().any(|line| line == task.as_str()))
}

/// Returns whether the check of a task passes on these files.
pub(super) fn is_done(files: &Files, task: &TaskId) -> bool {
    let (path, content) = wanted_file(task);
    files.get(&path) == Some(&content)
        && (!wants_shared(task) || has_line(files, task))
        && (!files.contains_key(&breaks(task)) || files.contains_key(&fixed(task)))
}

/// One action of an agent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    Does,
    DoesHalf,
    Scratch,
    BreaksAnother,
    EditsShared,
    StagesAndEdits,
    Commits,
    Branches,
    Detaches,
    Nothing,
}

const DEEDS: [(Deed, u64); 10] = [
    (Deed::Does, 50),
    (Deed::DoesHalf, 5),
    (Deed::Scratch, 10),
    (Deed::BreaksAnother, 8),
    (Deed::EditsShared, 5),
    (Deed::StagesAndEdits, 3),
    (Deed::Commits, 14),
    (Deed::Branches, 2),
    (Deed::Detaches, 2),
    (Deed::Nothing, 5),
];

/// The setting of an action.
pub(super) struct Setting<'a> {
    /// The work tree of the agent.
    pub(super) git: &'a SimGit,
    pub(super) task: &'a TaskId,
    /// All tasks.
    pub(super) tasks: &'a [TaskId],
    pub(super) committer: &'a str,
    /// A number that never repeats.
    pub(super) number: u32,
}

impl Deed {
    pub(super) fn any(random: &mut Random) -> Self {
        DEEDS[random.weighted(&DEEDS.map(|(_, weight)| weight))].0
    }

    pub(super) fn perform(self, random: &mut Random, on: &Setting<'_>) -> Result<()> {
        let Setting { git, task, number, .. } = on;
        match self {
            Self::Does => does(git, task),
            Self::DoesHalf => git.write(&wanted_file(task).0, b"half"),
            Self::Scratch => git.write(&format!("scratch-{number}"), task.as_str().as_bytes()),
            Self::BreaksAnother => {
                let others: Vec<_> = on.tasks.iter().filter(|other| other != task).collect();
                if let Some(other) = random.pick(&others) {
                    git.write(&breaks(other), task.as_str().as_bytes());
                }
            }
            Self::EditsShared => git.write(SHARED, format!("scribble {number}\n").as_bytes()),
            Self::StagesAndEdits => {
                let name = format!("staged-{number}");
                git.write(&name, b"as staged");
                git.stage(&name);
                git.write(&name, b"as edited");
            }
            Self::Commits => {
                stage_all(git);
                git.commit_index_as(on.committer, &format!("progress {number}"))?;
            }
            Self::Branches => git.create_branch(&format!("agent-{number}"))?,
            Self::Detaches => git.detach()?,
            Self::Nothing => {}
        }
        Ok(())
    }
}

/// Does everything that the check asks for.
fn does(git: &SimGit, task: &TaskId) {
    let (path, done) = wanted_file(task);
    git.write(&path, &done);
    let files = git.files();
    if files.contains_key(&breaks(task)) {
        git.write(&fixed(task), b"fixed");
    }
    if wants_shared(task) && !has_line(&files, task) {
        let mut text = files.get(SHARED).cloned().unwrap_or_default();
        text.extend(format!("{task}\n").into_bytes());
        git.write(SHARED, &text);
    }
}

/// Performs `git add --all`.
fn stage_all(git: &SimGit) {
    let mut paths: Vec<String> = git.files().into_keys().collect();
    paths.extend(git.staged_files().into_keys());
    paths.iter().for_each(|path| git.stage(path));
}
