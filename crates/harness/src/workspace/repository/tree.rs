//! The linked work tree of one worker: created, repaired, reset, removed.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use harness_core::{CommitId, WorkerId};
use sha2::{Digest, Sha256};

use super::{
    GitRepository, Leftovers,
    entry::{self, TreeEntry, remove_any},
    place::{TreeLock, adopted_of, lock_of, trash_of},
    provision::Provisions,
    save::Saving,
    submodule,
};
use crate::{
    home::Home,
    workspace::{
        GitWorkspace, Workspace as _, WorkspaceError,
        evidence::must_be_commit,
        filter::refuse_silenced,
        git::Git,
        object::{absent, list_tree},
        path::RepoPath,
        preflight::UnderWay,
        rescue::resolve,
        shared::{InitScript, WorkerTree},
        sight::Sight,
        status::Look,
    },
};

/// The place of a worker's tree, whose lock this process holds.
#[derive(Debug)]
pub(super) struct Tree {
    /// The path, whose folder is canonical.
    pub(super) path: PathBuf,
    lock: TreeLock,
    opened: Mutex<Option<GitWorkspace>>,
    /// A commit of HEAD that is known to be on a branch.
    held: Mutex<Option<CommitId>>,
}

impl Tree {
    pub(super) fn new(path: PathBuf, lock: TreeLock) -> Self {
        Self { path, lock, opened: Mutex::default(), held: Mutex::default() }
    }

    pub(super) fn remove_lock(&self) -> io::Result<()> {
        self.lock.remove()
    }

    fn opened(&self) -> Option<GitWorkspace> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_opened(&self, workspace: Option<GitWorkspace>) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = workspace;
    }

    pub(super) fn held(&self) -> Option<CommitId> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Declares that a branch or another ref holds this commit.
    pub(super) fn set_held(&self, commit: &CommitId) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(commit.clone());
    }
}

/// The longest wait for a lock. A cleanup holds it for a moment to see whether it is free.
const PATIENCE: Duration = Duration::from_millis(300);

/// Whether a work tree was just created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    New,
    Used,
}

impl GitRepository {
    /// Takes the lock of a worker's tree, unless this process holds it already.
    pub(super) fn hold(&self, worker: &WorkerId) -> Result<Arc<Tree>, WorkspaceError> {
        if let Some(tree) = self.trees().get(worker) {
            return Ok(Arc::clone(tree));
        }
        self.place.create()?;
        let path = self.place.tree(worker);
        let Some(lock) = TreeLock::wait(&lock_of(&path), PATIENCE)? else {
            return Err(WorkspaceError::Unsafe {
                what: format!("another process uses the work tree of {worker}"),
                hint: "end that process, or use another worker id".to_owned(),
            });
        };
        let tree = Tree::new(path, lock);
        Ok(Arc::clone(self.trees().entry(worker.clone()).or_insert_with(|| Arc::new(tree))))
    }

    /// Returns the existing work tree of a worker.
    pub(super) fn open(
        &self,
        worker: &WorkerId,
    ) -> Result<(Arc<Tree>, GitWorkspace), WorkspaceError> {
        let tree = self.hold(worker)?;
        let missing = || WorkspaceError::NotARepository { path: tree.path.clone() };
        let workspace = self.existing(&tree)?.ok_or_else(missing)?;
        Ok((tree, workspace))
    }

    /// Returns the tree if it is complete, or can be made complete without a loss.
    fn existing(&self, tree: &Tree) -> Result<Option<GitWorkspace>, WorkspaceError> {
        let Some(entry) = TreeEntry::find(&self.main.git, &tree.path)? else { return Ok(None) };
        if !entry.is_ready() {
            return Ok(None);
        }
        let missing = !is_folder(&tree.path);
        if missing {
            fs::create_dir(&tree.path)?;
        }
        entry.repair(&tree.path)?;
        let known = tree.opened().filter(|known| known.git.git_dir == entry.git_dir);
        let opened = match known {
            Some(known) => known,
            None => self.main.linked(tree.path.clone(), entry.git_dir),
        };
        if missing {
            // The index may have contents that nothing else has, so the files come from it.
            opened.disturbed();
            let call = opened.git()?.write("checkout-index");
            call.args(["--all", "--force", "--quiet"]).output()?;
        }
        tree.set_opened(Some(opened.clone()));
        Ok(Some(opened))
    }

    /// Makes the work tree ready for a task that starts at `commit`.
    pub(super) fn reset_tree(
        &self,
        worker: &WorkerId,
        commit: &CommitId,
    ) -> Result<WorkerTree, WorkspaceError> {
        let tree = self.hold(worker)?;
        let provisions = Provisions::find(&self.main, &self.settings)?;
        if self.settings.leftovers == Leftovers::Removed {
            must_be_commit(&self.main.git, commit)?;
            self.remove_tree(&tree, &provisions)?;
        }
        let (workspace, age) = self.ready(&tree, commit)?;
        let workspace = self.without_brought(workspace);
        let git = match age {
            Age::New => Git { silenced: self.main.git()?.silenced, ..workspace.git.clone() },
            Age::Used => workspace.git()?,
        };
        if age == Age::Used {
            refuse_filtered(&git, commit)?;
            let held = tree.held();
            let next = Some(commit);
            let (workspace, git, provisions) = (&workspace, &git, &provisions);
            let saving = Saving { workspace, git, provisions, next, held: held.as_ref() };
            replace(&saving, commit)?;
        }
        submodule::check_out(&workspace, &git, commit)?;
        if provisions.bring(&git)? {
            workspace.disturbed();
        }
        let workspace = self.with_brought(&tree, workspace, &provisions)?;
        let init = self.init_script(&workspace)?;
        Ok(WorkerTree { workspace: Arc::new(workspace), init })
    }

    /// Keeps the files that were brought into the tree of a worker out of its commits.
    pub(super) fn with_brought(
        &self,
        tree: &Tree,
        workspace: GitWorkspace,
        provisions: &Provisions,
    ) -> Result<GitWorkspace, WorkspaceError> {
        let workspace = self.brought_into(workspace, provisions)?;
        tree.set_opened(Some(workspace.clone()));
        Ok(workspace)
    }

    /// Returns a tree in which the files that were brought are no work of an agent.
    pub(super) fn brought_into(
        &self,
        workspace: GitWorkspace,
        provisions: &Provisions,
    ) -> Result<GitWorkspace, WorkspaceError> {
        let brought = provisions.untracked(&workspace.git)?;
        if brought.is_empty() {
            return Ok(workspace);
        }
        Ok(workspace.with_own(self.main.own.with_brought(brought)))
    }

    /// Returns a tree in which they are files as all others. What a reset would lose is saved, and one
    /// that an agent changed would be lost.
    fn without_brought(&self, workspace: GitWorkspace) -> GitWorkspace {
        match workspace.own == self.main.own {
            true => workspace,
            false => workspace.with_own(self.main.own.clone()),
        }
    }

    /// Returns the work tree, which is repaired, adopted or created if necessary.
    fn ready(&self, tree: &Tree, commit: &CommitId) -> Result<(GitWorkspace, Age), WorkspaceError> {
        let path = &tree.path;
        self.finish_adoption(path)?;
        if let Some(workspace) = self.existing(tree)? {
            let git = &workspace.git;
            TreeEntry { git_dir: git.git_dir.clone() }.remove_locks()?;
            if !git.git_dir.join("index").exists() {
                git.write("reset").args(["--quiet", "--mixed"]).output()?;
            }
            return Ok((workspace, Age::Used));
        }
        if let Some(entry) = TreeEntry::find(&self.main.git, path)? {
            // No agent ever worked in this tree, because it was never complete.
            discard(path)?;
            entry.remove()?;
        }
        if holds_files(path)? {
            return Ok((self.adopt(tree, commit)?, Age::Used));
        }
        remove_any(path)?;
        self.add(path, commit, &[])?;
        Ok((self.registered(tree)?, Age::New))
    }

    /// Puts the files of an adoption that was cut short back in their place.
    fn finish_adoption(&self, path: &Path) -> io::Result<()> {
        let adopted = adopted_of(path);
        if fs::symlink_metadata(&adopted).is_err() {
            return Ok(());
        }
        // What is at the path has no contents yet.
        remove_any(path)?;
        if let Some(entry) = TreeEntry::find(&self.main.git, path)?.filter(|e| !e.is_ready()) {
            entry.remove()?;
        }
        fs::rename(&adopted, path)
    }

    /// Gives the tree of a dead worker an entry if it has none, so that its files can be saved.
    pub(super) fn adopt_left_over(&self, tree: &Tree) -> Result<(), WorkspaceError> {
        self.finish_adoption(&tree.path)?;
        let entry = TreeEntry::find(&self.main.git, &tree.path)?;
        if entry.is_none() && holds_files(&tree.path)? {
            let head = resolve(&self.main.git, "HEAD")?.ok_or(WorkspaceError::NoCommits)?;
            self.adopt(tree, &head)?;
        }
        Ok(())
    }

    fn add(&self, path: &Path, commit: &CommitId, more: &[&str]) -> Result<(), WorkspaceError> {
        let git = self.main.git()?;
        refuse_filtered(&git, commit)?;
        let _alone = self.place.lock()?;
        entry::add(&git, path, commit, more)
    }

    /// Declares a new tree complete.
    fn registered(&self, tree: &Tree) -> Result<GitWorkspace, WorkspaceError> {
        if let Some(entry) = TreeEntry::find(&self.main.git, &tree.path)? {
            entry.set_ready("")?;
        }
        let missing = || WorkspaceError::NotARepository { path: tree.path.clone() };
        self.existing(tree)?.ok_or_else(missing)
    }

    /// Gives a folder whose entry is gone a new one. Its files then differ from `commit`, and are
    /// saved as changes.
    fn adopt(&self, tree: &Tree, commit: &CommitId) -> Result<GitWorkspace, WorkspaceError> {
        let path = &tree.path;
        let adopted = adopted_of(path);
        fs::rename(path, &adopted)?;
        let added = self.add(path, commit, &["--no-checkout"]);
        let added = added.and_then(|()| self.registered(tree));
        remove_any(path)?;
        fs::rename(&adopted, path)?;
        added?;
        let missing = || WorkspaceError::NotARepository { path: path.clone() };
        let workspace = self.existing(tree)?.ok_or_else(missing)?;
        workspace.git()?.write("reset").args(["--quiet", "--mixed"]).output()?;
        Ok(workspace)
    }

    /// Saves what the tree holds, and removes it. Returns the ref of the rescue, if there is one.
    pub(super) fn remove_tree(
        &self,
        tree: &Tree,
        provisions: &Provisions,
    ) -> Result<Option<String>, WorkspaceError> {
        let (mut saved, mut inner) = (None, Vec::new());
        if let Some(workspace) = self.existing(tree)? {
            let workspace = self.without_brought(workspace);
            let git = workspace.git()?;
            let held = tree.held();
            let (workspace, git) = (&workspace, &git);
            let saving = Saving { workspace, git, provisions, next: None, held: held.as_ref() };
            saved = saving.save(&born(&saving)?)?;
            inner = submodule::save(workspace, git)?;
        }
        tree.set_opened(None);
        let entry = TreeEntry::find(&self.main.git, &tree.path)?;
        if entry.is_none() && holds_files(&tree.path)? {
            // Without an entry its contents cannot be saved. The next reset adopts them.
            return Ok(saved);
        }
        discard(&tree.path)?;
        for entry in inner.into_iter().chain(entry) {
            entry.remove()?;
        }
        Ok(saved)
    }

    /// Removes the tree of a worker and its lock.
    pub(super) fn close_tree(&self, worker: &WorkerId) -> Result<Option<String>, WorkspaceError> {
        let tree = self.hold(worker)?;
        let provisions = Provisions::find(&self.main, &self.settings)?;
        let saved = self.remove_tree(&tree, &provisions)?;
        tree.remove_lock()?;
        self.trees().remove(worker);
        Ok(saved)
    }

    /// Returns whether the init script has to run. A new tree has no digest of one that ran.
    pub(super) fn init_script(
        &self,
        workspace: &GitWorkspace,
    ) -> Result<InitScript, WorkspaceError> {
        let Some(digest) = self.init_digest()? else { return Ok(InitScript::Ran) };
        let entry = TreeEntry { git_dir: workspace.git.git_dir.clone() };
        let ran = entry.init().as_ref() == Some(&digest);
        Ok(if ran { InitScript::Ran } else { InitScript::Due })
    }

    /// Records that the current init script ran in the tree of a worker.
    pub(super) fn record_init(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        let (_, workspace) = self.open(worker)?;
        let digest = self.init_digest()?.unwrap_or_default();
        Ok(TreeEntry { git_dir: workspace.git.git_dir }.set_ready(&digest)?)
    }

    fn init_digest(&self) -> io::Result<Option<String>> {
        match fs::read(Home::of(&self.state_root).init_script()) {
            Ok(script) => {
                let digest = Sha256::digest(&script);
                Ok(Some(digest.iter().map(|byte| format!("{byte:02x}")).collect()))
            }
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns a look at a tree whose HEAD names a commit. If somebody deleted the branch of HEAD, HEAD
/// is put on the next commit first, so that the files can be saved as differences.
pub(super) fn born(saving: &Saving<'_>) -> Result<Look, WorkspaceError> {
    let look = saving.workspace.look(saving.git, Sight::Anew)?;
    if look.head.is_some() {
        return Ok(look);
    }
    let commit = match saving.next {
        Some(commit) => commit.to_string(),
        None => {
            let call = saving.git.read("rev-list").args(["--max-count=1", "--branches"]);
            call.line()?
        }
    };
    let call = saving.git.write("update-ref").args(["--no-deref", "-m", "harness: back", "HEAD"]);
    call.arg(commit).output()?;
    saving.workspace.look(saving.git, Sight::Anew)
}

/// Saves what the tree holds, puts it on `commit`, and removes untracked files.
pub(super) fn replace(saving: &Saving<'_>, commit: &CommitId) -> Result<(), WorkspaceError> {
    let git = saving.git;
    let before = born(saving)?;
    let under_way = UnderWay::find(git).is_some();
    let at_rest = before.head.as_ref() == Some(commit) && before.branch.is_none() && !under_way;
    if saving.would_save(&before) {
        must_be_commit(git, commit)?;
        saving.save(&before)?;
    }
    let same = at_rest && before.changed.is_empty() && before.ours.is_empty();
    let after = match same {
        true => before.clone(),
        false => {
            let call = git.write("checkout").args(["--quiet", "--force", "--detach"]);
            call.arg(commit.as_str()).output()?;
            quit(git)?;
            saving.workspace.look(git, Sight::Anew)?
        }
    };
    let brought = |path: &RepoPath| saving.provisions.is_unchanged(path, &git.top_level);
    let leftover: Vec<_> = after.untracked.iter().filter(|path| !brought(path)).collect();
    if leftover.is_empty() {
        return Ok(());
    }
    if leftover.iter().any(|path| !before.untracked.contains(path)) {
        // Ignore rules of the task before hid these files until now.
        saving.save(&after)?;
    }
    for path in leftover {
        remove_file(&git.top_level, path)?;
    }
    saving.workspace.disturbed();
    Ok(())
}

/// Removes a folder so that no half of it is ever at its path.
fn discard(path: &Path) -> io::Result<()> {
    let trash = trash_of(path);
    remove_any(&trash)?;
    match fs::rename(path, &trash) {
        Err(error) if !absent(&error) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    remove_any(&trash)
}

/// Ends what the task before left under way.
fn quit(git: &Git) -> Result<(), WorkspaceError> {
    while let Some(under_way) = UnderWay::find(git) {
        under_way.quit(git)?;
        if UnderWay::find(git) == Some(under_way) {
            return Err(under_way.refusal());
        }
    }
    Ok(())
}

/// Removes a file, and the folders that are empty without it.
pub(super) fn remove_file(top_level: &Path, path: &RepoPath) -> io::Result<()> {
    match fs::remove_file(path.under(top_level)) {
        Err(error) if !absent(&error) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let parents: Vec<_> = path.parents().collect();
    for parent in parents.iter().rev() {
        if fs::remove_dir(parent.under(top_level)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Refuses a commit with files that go through a content filter that must not run.
pub(super) fn refuse_filtered(git: &Git, commit: &CommitId) -> Result<(), WorkspaceError> {
    if git.silenced.is_empty() {
        return Ok(());
    }
    let files = list_tree(git, commit.as_str(), &[])?;
    refuse_silenced(git, Some(commit.as_str()), files.keys())
}

pub(super) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Returns whether there is a folder with anything in it but a `.git`.
fn holds_files(path: &Path) -> io::Result<bool> {
    if !is_folder(path) {
        return Ok(false);
    }
    for entry in fs::read_dir(path)? {
        if entry?.file_name() != ".git" {
            return Ok(true);
        }
    }
    Ok(false)
}
