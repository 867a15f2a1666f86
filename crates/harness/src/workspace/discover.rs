//! Finds the repository, and implements the real [`Workspace`].

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness_core::{CommitId, Epoch, TaskId, Timestamp, TreeId};

use super::{
    Base, Bring, Candidate, Checkout, Evidence, LANDED, Overview, Rescue, RolledBack,
    SettingChange, Settled, TreeStatus, Workspace, WorkspaceError,
    aside::Aside,
    candidate::{self, Known},
    checkout, commit, evidence,
    filter::{self, Filters},
    fingerprint,
    git::{Access, Call, Git, failed},
    memory::Memory,
    object::diff_trees,
    own::OwnFiles,
    policy::{CommitHooks, CommitPolicy},
    preflight, rescue, restore, rollback,
    settings::{Records, Treatment},
    sight::{Seen, Sight},
    snapshot::Snapshot,
    status::{Look, Staged},
    sweep, untracked,
};

/// A git work tree, operated by the `git` command.
#[derive(Debug, Clone)]
pub struct GitWorkspace {
    git: Git,
    own: OwnFiles,
    filters: Filters,
    /// The last candidate, for a cheap second look. Clones share it.
    known: Arc<Mutex<Option<Known>>>,
    /// The last look, while nothing has run since. Clones share it.
    seen: Arc<Mutex<Option<Seen>>>,
    /// The place where settings are recorded, if any.
    records: Option<Records>,
    /// The files that clean checkouts get beside the commit.
    bring: Bring,
    policy: CommitPolicy,
}

impl GitWorkspace {
    /// Finds the work tree around `directory`, with our files in `state_root`.
    pub fn discover(
        directory: &Path,
        state_root: &Path,
        filters: Filters,
    ) -> Result<Self, WorkspaceError> {
        let mut git = repository(directory)?;
        let own = OwnFiles::new(&git.top_level, &state_root.canonicalize()?);
        git.memory = Arc::new(Memory::with(&own));
        Ok(Self {
            git,
            own,
            filters,
            known: Arc::default(),
            seen: Arc::default(),
            records: None,
            bring: Bring::default(),
            policy: CommitPolicy::default(),
        })
    }

    /// Records git's settings at claims below this directory of the user.
    #[must_use]
    pub fn recording_in(mut self, directory: PathBuf) -> Self {
        self.records = Some(Records::new(directory));
        self
    }

    /// Brings files that git does not hold into clean checkouts.
    #[must_use]
    pub fn bringing(mut self, bring: Bring) -> Self {
        self.bring = bring;
        self
    }

    /// Makes the commits of attempts in this way.
    #[must_use]
    pub fn committing(mut self, policy: CommitPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The hooks that git would run around a commit; `None` where it would run none.
    pub fn commit_hooks(&self) -> Result<Option<CommitHooks>, WorkspaceError> {
        CommitHooks::find(&self.git)
    }

    /// Whether the user has asked git to sign every commit.
    pub fn signs(&self) -> bool {
        let call = Call::plain(&self.git.top_level, "config");
        let call = call.args(["--type=bool", "--get", "commit.gpgSign"]);
        call.line().is_ok_and(|value| value == "true")
    }

    /// Returns the same work tree for another user of it, without any cached state.
    #[must_use]
    pub fn anew(&self, filters: Filters) -> Self {
        Self { filters, known: Arc::default(), seen: Arc::default(), ..self.clone() }
    }

    /// Removes leftovers of killed processes in the git directory and of checkouts, and returns
    /// their number.
    pub fn sweep(&self) -> usize {
        sweep::sweep(&self.git)
    }

    /// Returns whether HEAD is on no branch.
    pub fn is_detached(&self) -> bool {
        let head = std::fs::read_to_string(self.git.git_dir.join("HEAD"));
        head.is_ok_and(|head| !head.starts_with("ref:"))
    }

    /// Makes a branch whose tip is a rescue. Nothing else changes.
    pub fn branch_of_rescue(&self, rescue: &Rescue, name: &str) -> Result<(), WorkspaceError> {
        restore::branch(&self.git()?, rescue, name)
    }

    /// Writes the files of a rescue into a directory outside of the work tree, or an empty one.
    /// Returns the files written.
    pub fn copy_rescue(
        &self,
        rescue: &Rescue,
        directory: &Path,
    ) -> Result<Vec<String>, WorkspaceError> {
        restore::copy_to(&self.git()?, &self.own, rescue, directory)
    }

    /// The branch that is checked out; `None` on a detached commit.
    pub fn branch(&self) -> Option<String> {
        let head = std::fs::read_to_string(self.git.git_dir.join("HEAD")).ok()?;
        Some(head.trim().strip_prefix("ref: refs/heads/")?.to_owned())
    }

    /// The files, ours aside, in which a tree differs from a commit, sorted.
    pub fn between(&self, commit: &CommitId, tree: &TreeId) -> Result<Vec<String>, WorkspaceError> {
        if self.tree_of(commit)? == *tree {
            return Ok(Vec::new());
        }
        let changes = diff_trees(&self.git, commit.as_str(), tree.as_str())?;
        let others = changes.iter().filter(|change| !self.own.own(change.path.bytes()));
        Ok(others.map(|change| change.path.shown()).collect())
    }

    /// The tasks whose commits a ref of [`LANDED`] keeps.
    pub fn landed(&self) -> Result<Vec<String>, WorkspaceError> {
        let call = self.git.read("for-each-ref").args(["--format=%(refname)", LANDED]);
        let names = String::from_utf8_lossy(&call.output()?).into_owned();
        Ok(names.lines().filter_map(|name| Some(name.strip_prefix(LANDED)?.to_owned())).collect())
    }

    /// Returns the committer name of the user; `None` if git has none.
    pub fn committer(&self) -> Option<String> {
        let ident = self.git.read("var").arg("GIT_COMMITTER_IDENT").line().ok()?;
        let name = ident.rsplit_once(" <")?.0;
        Some(name.to_owned()).filter(|name| !name.is_empty())
    }

    /// Returns the state of the repository. It runs nothing that the repository names, except
    /// filters of a trusted root.
    pub fn overview(&self) -> Result<Overview, WorkspaceError> {
        let look = Look::take(&self.git()?, &self.own)?;
        let unmerged = look.changed.iter().filter(|c| c.staged == Staged::Unmerged).count();
        let changed = look.changed.len();
        Ok(Overview { head: look.head, branch: look.branch, changed, unmerged })
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, git: &Git, sight: Sight) -> Result<Look, WorkspaceError> {
        let last = self.seen().clone().filter(|seen| sight == Sight::Last && seen.holds(git));
        if let Some(last) = last {
            return Ok(last.look);
        }
        let seen = Seen::take(git, &self.own)?;
        let look = seen.look.clone();
        *self.seen() = Some(seen);
        Ok(look)
    }

    /// Returns git with those filters silenced that are configured now and must not run.
    fn git(&self) -> Result<Git, WorkspaceError> {
        let silenced = match self.filters {
            Filters::Run => Vec::new(),
            Filters::Off => filter::configured(&self.git)?,
        };
        Ok(Git { silenced, ..self.git.clone() })
    }
}

/// Finds the top level and the git directory once. They are then passed to every call.
pub(super) fn repository(directory: &Path) -> Result<Git, WorkspaceError> {
    let nowhere = || WorkspaceError::NotARepository { path: directory.to_owned() };
    let ask = |question: &str| -> Result<Option<PathBuf>, WorkspaceError> {
        use std::os::unix::ffi::OsStringExt;
        let ran = Call::anywhere(directory, Access::Read, "rev-parse").arg(question).run()?;
        if ran.code == Some(0) {
            let mut path = ran.stdout;
            path.pop();
            return Ok(Some(std::ffi::OsString::from_vec(path).into()));
        }
        let words = String::from_utf8_lossy(&ran.stderr);
        if words.contains("not a git repository") || words.contains("must be run in a work tree") {
            return Ok(None);
        }
        Err(failed("rev-parse", &ran.stderr))
    };
    let top_level = ask("--show-toplevel")?.ok_or_else(nowhere)?.canonicalize()?;
    let git_dir = ask("--absolute-git-dir")?.ok_or_else(nowhere)?.canonicalize()?;
    // `core.worktree` may name any folder, for example the user's home. A work tree has a `.git`.
    if !top_level.join(".git").exists() || !directory.canonicalize()?.starts_with(&top_level) {
        return Err(WorkspaceError::Unsafe {
            what: format!("{} is set as the work tree by core.worktree", top_level.display()),
            hint: "git config --unset core.worktree".to_owned(),
        });
    }
    let (silenced, settings, memory) = (Vec::new(), Vec::new(), Arc::default());
    let git = Git { top_level, git_dir, silenced, settings, memory, aside: None };
    let aside = Aside::for_read_only(&git.git_dir, &git.common_dir())?.map(Arc::new);
    Ok(Git { aside, ..git })
}

impl GitWorkspace {
    /// Deletes the ref of a rescue, if it is still the same.
    pub fn discard(&self, rescue: &Rescue) -> Result<(), WorkspaceError> {
        let call = self.git.write("update-ref").arg("-d");
        call.args([rescue.reference.as_str(), rescue.commit.as_str()]).output().map(drop)
    }
}

impl Workspace for GitWorkspace {
    fn top_level(&self) -> &Path {
        &self.git.top_level
    }

    fn head(&self) -> Result<CommitId, WorkspaceError> {
        rescue::resolve(&self.git, "HEAD")?.ok_or(WorkspaceError::NoCommits)
    }

    fn status(&self) -> Result<TreeStatus, WorkspaceError> {
        Ok(Look::take(&self.git()?, &self.own)?.status())
    }

    fn preflight(&self) -> Result<TreeStatus, WorkspaceError> {
        let git = self.git()?;
        let look = Look::take(&git, &self.own)?;
        preflight::preflight(&git, &look)?;
        Ok(look.status())
    }

    fn disturbed(&self) {
        *self.seen() = None;
    }

    fn mark(&self, sight: Sight) -> Result<(CommitId, String), WorkspaceError> {
        let git = self.git()?;
        let look = self.look(&git, sight)?;
        Ok((look.commit()?, fingerprint::of_work(&git, &look)?))
    }

    fn base(&self, task: &TaskId, sight: Sight) -> Result<Base, WorkspaceError> {
        let git = self.git()?;
        let look = self.look(&git, sight)?;
        let commit = look.commit()?;
        let untracked = untracked::record(&git, &self.own, task, &look)?;
        let (branch, worktree) = (look.branch, git.top_level);
        Ok(Base { commit, branch, untracked, worktree, epoch: None, claimed_at: None })
    }

    fn tree(&self) -> Result<TreeId, WorkspaceError> {
        let git = self.git()?;
        let look = Look::take(&git, &self.own)?;
        Ok(Snapshot::take(&git, &self.own, look)?.tree)
    }

    fn evidence(
        &self,
        task: &TaskId,
        base: &Base,
        claimed_at: Timestamp,
    ) -> Result<Evidence, WorkspaceError> {
        evidence::evidence(&self.git()?, &self.own, task, base, claimed_at)
    }

    fn touched(&self, base: &Base, sight: Sight) -> Result<Vec<String>, WorkspaceError> {
        let git = self.git()?;
        let look = self.look(&git, sight)?;
        evidence::touched(&git, &self.own, base, &look)
    }

    fn differing(
        &self,
        base: &Base,
        protected: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, WorkspaceError> {
        evidence::differing(&self.git()?, &self.own, base, protected)
    }

    fn record_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError> {
        match &self.records {
            Some(records) => records.record(&self.git, task, epoch),
            None => Ok(()),
        }
    }

    fn restore_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        let changes = match &self.records {
            Some(records) => records.compare(&self.git, task, epoch, Treatment::SetBack)?,
            None => Vec::new(),
        };
        if !changes.is_empty() {
            // The earlier look depended on these settings.
            self.disturbed();
        }
        Ok(changes)
    }

    fn changed_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        match &self.records {
            Some(records) => records.compare(&self.git, task, epoch, Treatment::Named),
            None => Ok(Vec::new()),
        }
    }

    fn forget_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError> {
        match &self.records {
            Some(records) => records.forget(&self.git, task, epoch),
            None => Ok(()),
        }
    }

    fn tree_of(&self, commit: &CommitId) -> Result<TreeId, WorkspaceError> {
        evidence::tree_of(&self.git, commit)
    }

    fn checkout(&self, commit: &CommitId) -> Result<Checkout, WorkspaceError> {
        checkout::checkout(&self.git()?, commit, &self.bring)
    }

    fn commit(&self, base: &Base, message: &str) -> Result<CommitId, WorkspaceError> {
        let git = self.git()?;
        commit::refuse_before_commit(&git, base)?;
        let look = Look::take(&git, &self.own)?;
        let (known, _) = Known::take(&git, &self.own, base, look)?;
        self.disturbed();
        commit::commit(
            &git,
            base,
            &known.look,
            &known.tree,
            known.index.as_deref(),
            message,
            &self.policy,
        )
    }

    fn candidate(&self, base: &Base, sight: Sight) -> Result<Candidate, WorkspaceError> {
        let git = self.git()?;
        let look = self.look(&git, sight)?;
        let (known, candidate) = candidate::candidate(&git, &self.own, base, look)?;
        *self.known() = Some(known);
        Ok(candidate)
    }

    fn settle(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError> {
        let last = self.known().clone();
        let git = self.git()?;
        let look = self.look(&git, Sight::Anew)?;
        let seen = look.clone();
        let settled = candidate::settle(&git, &self.own, base, before, last.as_ref(), look);
        if !settled.as_ref().is_ok_and(|(known, _)| known.look == seen) {
            self.disturbed();
        }
        let (known, settled) = settled?;
        *self.known() = Some(known);
        Ok(settled)
    }

    fn compare(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError> {
        let last = self.known().clone();
        let git = self.git()?;
        let (known, settled) = candidate::compare(&git, &self.own, base, before, last.as_ref())?;
        *self.known() = Some(known);
        Ok(settled)
    }

    fn put_back(&self, base: &Base, tree: &TreeId) -> Result<Vec<String>, WorkspaceError> {
        self.disturbed();
        let (known, files) = candidate::put_back(&self.git()?, &self.own, base, tree)?;
        *self.known() = Some(known);
        Ok(files)
    }

    fn commit_tree(
        &self,
        base: &Base,
        tree: &TreeId,
        message: &str,
    ) -> Result<CommitId, WorkspaceError> {
        let git = self.git()?;
        let known = self.known().clone().filter(|known| known.tree == *tree);
        let seen = self.seen().take();
        let Some(known) = known else {
            let look = Look::take(&git, &self.own)?;
            let commit = commit::commit(&git, base, &look, tree, None, message, &self.policy)?;
            *self.known() = None;
            return Ok(commit);
        };
        let index = known.index.as_deref();
        let commit = commit::commit(&git, base, &known.look, tree, index, message, &self.policy)?;
        *self.known() = None;
        // A hook may change files.
        let hooks = self.policy.hooks.is_some();
        let same = !hooks && seen.is_some_and(|seen| seen.look == known.look);
        let look = known.committed(base, &commit).filter(|_| same);
        // The second name of the installed index is removed first, because the removal changes the
        // stamp of the index.
        drop(known);
        *self.seen() = look.map(|look| Seen::known(&git, look));
        Ok(commit)
    }

    fn rescue(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<Option<Rescue>, WorkspaceError> {
        let git = self.git()?;
        let look = Look::take(&git, &self.own)?;
        let rescuing = rescue::Rescuing { git: &git, own: &self.own, task, attempt, base };
        Ok(rescuing.save(look, None)?.rescue)
    }

    fn rollback(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<RolledBack, WorkspaceError> {
        self.disturbed();
        rollback::rollback(&self.git()?, &self.own, task, attempt, base)
    }

    fn rescues(&self, task: Option<&TaskId>) -> Result<Vec<Rescue>, WorkspaceError> {
        rescue::all(&self.git, task)
    }

    fn show(&self, rescue: &Rescue) -> Result<String, WorkspaceError> {
        restore::show(&self.git()?, &self.own, rescue)
    }

    fn restore(&self, rescue: &Rescue) -> Result<Vec<String>, WorkspaceError> {
        self.disturbed();
        restore::restore(&self.git()?, &self.own, rescue)
    }

    fn keep_reachable(&self, task: &TaskId, commit: &CommitId) -> Result<String, WorkspaceError> {
        let reference = format!("{LANDED}{task}");
        let call = self.git.write("update-ref").args(["-m", "harness: completed", &reference]);
        call.arg(commit.as_str()).output()?;
        Ok(reference)
    }

    fn forget(&self, task: &TaskId) -> Result<(), WorkspaceError> {
        untracked::forget(&self.git, task)
    }
}
