//! The user, who works in the main tree while workers land results, and what must become of that
//! tree.

use harness_core::CommitId;

use super::floor::State;
use crate::git::{Files, Head, SimGit};

/// The file that the user edits. No task asks for it.
const NOVEL: &str = "novel.txt";

/// The main tree after the last action of the user.
#[derive(Debug, Clone)]
pub(super) struct UsersTree {
    pub(super) work: Files,
    pub(super) index: Files,
    pub(super) head: Head,
    pub(super) commit: Option<CommitId>,
    /// `true` if tracked files were changed.
    pub(super) dirty: bool,
}

impl UsersTree {
    pub(super) fn of(git: &SimGit) -> Self {
        let model = git.model();
        Self {
            work: model.work.clone(),
            index: model.index.clone(),
            head: model.head.clone(),
            commit: model.head_commit().ok(),
            dirty: model.index != model.head_files()
                || tracked(&model.work, &model.index) != model.index,
        }
    }
}

fn tracked(work: &Files, index: &Files) -> Files {
    let tracked = work.iter().filter(|(path, _)| index.contains_key(*path));
    tracked.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
}

#[derive(Debug, Clone, Copy)]
enum UserAct {
    Commits,
    Edits,
    Stages,
    Cleans,
    Leaves,
    Returns,
    Notes,
    Undoes,
}

const ACTS: [(UserAct, u64); 8] = [
    (UserAct::Commits, 25),
    (UserAct::Edits, 12),
    (UserAct::Stages, 5),
    (UserAct::Cleans, 25),
    (UserAct::Leaves, 8),
    (UserAct::Returns, 12),
    (UserAct::Notes, 8),
    (UserAct::Undoes, 5),
];

impl State {
    /// Lets the user act, perhaps. Nobody acts in a tree that is being moved.
    pub(super) fn meanwhile(&mut self) {
        if self.quiet || self.moving.is_some() || !self.random.percent(4) {
            return;
        }
        let act = ACTS[self.random.weighted(&ACTS.map(|(_, weight)| weight))].0;
        self.user_acts(act);
    }

    fn user_acts(&mut self, act: UserAct) {
        self.follow_refs();
        self.files_made += 1;
        let (git, number) = (self.git.clone(), self.files_made);
        let before = UsersTree::of(&git);
        match act {
            UserAct::Commits if !before.dirty => {
                git.write(NOVEL, format!("chapter {number}").as_bytes());
                git.stage(NOVEL);
                _ = git.commit_index(&format!("chapter {number}"));
                self.tally.foreign_commits += 1;
            }
            UserAct::Edits => git.write(NOVEL, format!("draft {number}").as_bytes()),
            UserAct::Stages => {
                git.write(NOVEL, format!("draft {number}").as_bytes());
                git.stage(NOVEL);
            }
            UserAct::Cleans => {
                if let Some(commit) = &before.commit {
                    git.reset_hard(commit);
                }
            }
            UserAct::Leaves if git.tip("mine").is_none() => _ = git.create_branch("mine"),
            UserAct::Leaves => _ = git.switch("mine"),
            UserAct::Returns => _ = git.switch("main"),
            UserAct::Notes => git.write("notes.txt", format!("note {number}").as_bytes()),
            UserAct::Undoes => self.undo(),
            UserAct::Commits => return,
        }
        self.story.tell(|| format!("      the user: {act:?}"));
        self.users = UsersTree::of(&git);
        self.know_refs();
    }

    /// `git reset --hard HEAD~1`, if that takes back only a commit of the user.
    fn undo(&mut self) {
        let git = self.git.clone();
        let parent = {
            let model = git.model();
            let head = model.head_commit().ok().and_then(|head| model.commits.get(&head).cloned());
            let own = head.filter(|commit| commit.message.starts_with("chapter"));
            own.and_then(|commit| commit.parents.first().cloned())
        };
        if let Some(parent) = parent.filter(|_| !self.users.dirty) {
            git.reset_hard(&parent);
        }
    }

    /// Lets the user finish: the tree is clean and on the target.
    pub(super) fn user_finishes(&mut self) {
        if self.moving.is_none() {
            self.user_acts(UserAct::Cleans);
            self.user_acts(UserAct::Returns);
        }
    }

    /// Judges the main tree while nobody moves it.
    pub(super) fn judge_users_tree(&mut self) {
        if self.moving.is_some() {
            return;
        }
        let (now, was) = (UsersTree::of(&self.git), &self.users);
        let untracked = |tree: &UsersTree| -> Files {
            let files = tree.work.iter().filter(|(path, _)| !tree.index.contains_key(*path));
            files.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
        };
        let kept = if was.dirty {
            now.work == was.work
                && now.index == was.index
                && now.head == was.head
                && now.commit == was.commit
        } else {
            !now.dirty && now.head == was.head && untracked(&now) == untracked(was)
        };
        if !kept {
            let differ = differing(&was.work, &now.work);
            let what = format!(
                "it was {:?} at {:?} and is {:?} at {:?}; files: {differ:?}",
                was.head, was.commit, now.head, now.commit
            );
            self.broken("the_users_tree_stays", what);
        }
    }
}

fn differing(one: &Files, other: &Files) -> Vec<String> {
    let paths: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    paths.into_iter().filter(|path| one.get(*path) != other.get(*path)).cloned().collect()
}
