//! A real repository as a fixture with several work trees.

use std::{fs, path::Path};

use harness::workspace::shared::{SharedRepository, Swap, land_token, work_ref};
use harness_core::{CommitId, Epoch, TaskId};

use super::{LoggedCommit, SharedFixture};
use crate::conformance::{repository::Repository, workspace::Fixture};

impl SharedFixture for Repository {
    fn shared(&self) -> Box<dyn SharedRepository> {
        let open = self.open_shared.expect("the implementation under test");
        open(self)
    }

    fn at(&self, tree: &Path) -> Box<dyn Fixture + '_> {
        Box::new(self.in_tree(tree))
    }

    fn switch(&self, branch: &str) {
        self.git(["switch", "--quiet", branch]);
    }

    fn orphan(&self, branch: &str) {
        self.git(["switch", "--quiet", "--orphan", branch]);
    }

    fn move_branch(&self, branch: &str, commit: &CommitId) {
        let name = format!("refs/heads/{branch}");
        self.git(["update-ref", &name, commit.as_str()]);
    }

    fn delete_branch(&self, branch: &str) {
        self.git(["update-ref", "-d", &format!("refs/heads/{branch}")]);
    }

    fn token(&self, task: &TaskId) -> Option<CommitId> {
        let name = land_token(task);
        let found = self.git(["for-each-ref", "--format=%(objectname)", &name]);
        CommitId::parse(&found).ok()
    }

    fn original_work(&self, task: &TaskId, epoch: Epoch) -> Option<CommitId> {
        let name = work_ref(task, epoch);
        let found = self.git(["for-each-ref", "--format=%(objectname)", &name]);
        CommitId::parse(&found).ok()
    }

    fn log(&self, from: &CommitId, to: &CommitId) -> Vec<LoggedCommit> {
        let range = format!("{from}..{to}");
        let ids = self.git(["rev-list", "--topo-order", &range]);
        let show = |format: &str, id: &str| {
            self.git(["show", "--no-patch", &format!("--format={format}"), id])
        };
        let logged = ids.lines().map(|id| LoggedCommit {
            commit: CommitId::parse(id).unwrap(),
            parents: show("%P", id).split(' ').map(|p| CommitId::parse(p).unwrap()).collect(),
            message: show("%B", id),
        });
        logged.collect()
    }

    fn die_in_move(&self, swap: &Swap) {
        let folder = self.root.join(".git/harness-landing-dead");
        fs::create_dir(&folder).unwrap();
        let planned = format!("{} {} refs/heads/{}\n", swap.from, swap.to, swap.target);
        for (file, text) in [("alive", ""), ("twin", ""), ("move", planned.as_str())] {
            fs::write(folder.join(file), text).unwrap();
        }
        fs::hard_link(folder.join("twin"), self.root.join(".git/index.lock")).unwrap();
    }

    fn merge_in(&self, tree: &Path, commit: &CommitId) {
        let tree = self.in_tree(tree);
        tree.git(["merge", "--quiet", "--no-ff", "-m", "merge", commit.as_str()]);
    }
}
