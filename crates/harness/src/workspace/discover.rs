//! Finds the repository of the real [`Workspace`](super::Workspace).

mod port;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness_core::{CommitId, TreeId};

use super::{
    Bring, LANDED, Overview, Rescue, Workspace as _, WorkspaceError,
    aside::Aside,
    candidate::Known,
    filter::{self, Filters},
    git::{Access, Call, Git, failed},
    memory::Memory,
    object::diff_trees,
    own::OwnFiles,
    policy::{CommitHooks, CommitPolicy},
    restore,
    settings::Records,
    sight::{Seen, Sight},
    status::{Look, Staged},
    sweep,
};

/// A git work tree, operated by the `git` command.
#[derive(Debug, Clone)]
pub struct GitWorkspace {
    pub(super) git: Git,
    pub(super) own: OwnFiles,
    pub(super) filters: Filters,
    /// The last candidate, for a cheap second look. Clones share it.
    known: Arc<Mutex<Option<Known>>>,
    /// The last look, while nothing has run since. Clones share it.
    seen: Arc<Mutex<Option<Seen>>>,
    /// The place where settings are recorded, if any.
    records: Option<Records>,
    /// The files that clean checkouts get beside the commit.
    bring: Bring,
    pub(super) policy: CommitPolicy,
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

    /// Returns the addresses of the remotes in the configuration of the repository, by name.
    pub fn remotes(&self) -> Result<BTreeMap<String, String>, WorkspaceError> {
        let call = self.git.read("config").args(["-z", "--get-regexp", r"^remote\..*\.url$"]);
        let output = String::from_utf8_lossy(&call.run()?.stdout).into_owned();
        let mut remotes = BTreeMap::new();
        for entry in output.split('\0') {
            let Some((key, url)) = entry.split_once('\n') else { continue };
            let name = key.strip_prefix("remote.").and_then(|key| key.strip_suffix(".url"));
            if let Some(name) = name {
                // Git fetches from the first of several.
                remotes.entry(name.to_owned()).or_insert_with(|| url.to_owned());
            }
        }
        Ok(remotes)
    }

    /// Returns the same work tree for another user of it, without any cached state.
    #[must_use]
    pub fn anew(&self, filters: Filters) -> Self {
        Self { filters, known: Arc::default(), seen: Arc::default(), ..self.clone() }
    }

    /// Returns a linked work tree of the same repository, with the same settings. Both paths are
    /// canonical. Our files have the same paths below both top levels.
    #[must_use]
    pub(super) fn linked(&self, top_level: PathBuf, git_dir: PathBuf) -> Self {
        let memory = Arc::new(Memory::with(&self.own));
        let git = Git { top_level, git_dir, memory, ..self.git.clone() };
        let records = self.records.as_ref().map(Records::anew);
        Self { git, records, ..self.anew(self.filters) }
    }

    /// Returns the same work tree with other files that are no work. Every look is taken anew.
    pub(super) fn with_own(mut self, own: OwnFiles) -> Self {
        self.disturbed();
        self.own = own;
        self
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

    /// Deletes the ref of a rescue, if it is still the same.
    pub fn discard(&self, rescue: &Rescue) -> Result<(), WorkspaceError> {
        let call = self.git.write("update-ref").arg("-d");
        call.args([rescue.reference.as_str(), rescue.commit.as_str()]).output().map(drop)
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last look, if it still holds.
    pub(super) fn last_look(&self) -> Option<Look> {
        self.seen().clone().filter(|seen| seen.holds(&self.git)).map(|seen| seen.look)
    }

    /// Records the result that a look would have now.
    pub(super) fn remember_look(&self, look: Look) {
        *self.seen() = Some(Seen::known(&self.git, look));
    }

    pub(super) fn look(&self, git: &Git, sight: Sight) -> Result<Look, WorkspaceError> {
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
    pub(super) fn git(&self) -> Result<Git, WorkspaceError> {
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
    let ask = |questions: &[&str]| -> Result<Option<Vec<u8>>, WorkspaceError> {
        let ran = Call::anywhere(directory, Access::Read, "rev-parse").args(questions).run()?;
        if ran.code == Some(0) {
            let mut answer = ran.stdout;
            answer.pop();
            return Ok(Some(answer));
        }
        let words = String::from_utf8_lossy(&ran.stderr);
        if words.contains("not a git repository") || words.contains("must be run in a work tree") {
            return Ok(None);
        }
        Err(failed("rev-parse", &ran.stderr))
    };
    let path = |bytes: &[u8]| Path::new(OsStr::from_bytes(bytes)).canonicalize();
    let (top, git) = ("--show-toplevel", "--absolute-git-dir");
    let both = ask(&[top, git])?.ok_or_else(nowhere)?;
    let lines: Vec<&[u8]> = both.split(|byte| *byte == b'\n').collect();
    let (top_level, git_dir) = match lines[..] {
        [top_level, git_dir] => (path(top_level)?, path(git_dir)?),
        // A path contains the end of a line, so each is asked for alone.
        _ => (path(&ask(&[top])?.ok_or_else(nowhere)?)?, path(&ask(&[git])?.ok_or_else(nowhere)?)?),
    };
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
