//! What dead workers and ended attempts left behind, and its removal. Nothing is removed that exists
//! nowhere else, except for rescues that are old enough.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use harness_core::{CommitId, Ledger, TaskId, Timestamp};

use super::{
    GitRepository,
    branch::{commit_of, full},
    entry::{TreeEntry, remove_any},
    land::RefChanges,
    place::{TreeLock, lock_of},
    provision::Provisions,
    remote::KNOWN,
    save::task_of,
    tree::Tree,
};
use crate::workspace::{
    WorkspaceError,
    git::{Git, failed},
    object::{absent, commit_id},
    rescue::{PREFIX, create},
    shared::{LANDED_BRANCH, TOKENS, work_ref},
};

const DAY_SECONDS: i64 = 86_400;
/// The prefix of the branches of attempts.
const BRANCHES: &str = "refs/heads/harness/";
/// The prefix of the original work of results.
const WORKS: &str = "refs/harness/work/";

/// What a cleanup may remove, and whether it does.
#[derive(Debug, Clone)]
pub struct CleanupTerms {
    /// Whether anything is removed.
    pub mode: CleanupMode,
    /// The branch on which results land, if that is known.
    pub target: Option<String>,
    /// The tasks with an open claim or intent. Their branches and refs stay.
    pub open_tasks: BTreeSet<TaskId>,
    /// The work trees that open claims name. They stay, because the work in them is recovered.
    pub open_trees: BTreeSet<PathBuf>,
    /// Rescues from before this time are removed.
    pub rescues_before: Timestamp,
}

impl CleanupTerms {
    /// Returns terms that spare what belongs to the open claims of a ledger, and rescues of the last
    /// `rescue_days`.
    pub fn of_ledger(ledger: &Ledger, mode: CleanupMode, rescue_days: u32, now: Timestamp) -> Self {
        let claims = || ledger.selection().claimed().filter_map(|id| ledger.task(id));
        let trees = claims().filter_map(|task| task.claim()?.worktree.as_deref());
        let kept_seconds = i64::from(rescue_days) * DAY_SECONDS;
        Self {
            mode,
            target: ledger.head().session_config.landing_branch().map(str::to_owned),
            open_tasks: claims().map(|task| task.id.clone()).collect(),
            open_trees: trees.map(PathBuf::from).collect(),
            rescues_before: Timestamp::from_seconds(now.seconds().saturating_sub(kept_seconds)),
        }
    }
}

/// Whether a cleanup removes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanupMode {
    /// It only lists what it would remove.
    Plan,
    /// It removes.
    Remove,
}

/// One thing that was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanupItem {
    /// The kind of thing.
    pub kind: CleanupKind,
    /// The path or the name of the ref.
    pub name: String,
    /// The size of its files.
    pub bytes: u64,
    /// The ref under which its contents were saved before.
    pub saved: Option<String>,
}

/// The kind of thing that a cleanup removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanupKind {
    /// The work tree of a worker that is gone.
    WorkTree,
    /// The branch of an attempt whose work is elsewhere.
    TaskBranch,
    /// A rescue that is old enough.
    OldRescue,
    /// A token or a ref of an attempt that has ended.
    StaleRef,
}

impl GitRepository {
    /// Removes what dead workers and ended attempts left behind, or lists it.
    pub fn cleanup(&self, terms: &CleanupTerms) -> Result<Vec<CleanupItem>, WorkspaceError> {
        let mut items = self.clean_trees(terms)?;
        let trees: BTreeSet<_> = items.iter().map(|item| PathBuf::from(&item.name)).collect();
        let cleaning = Cleaning::read(&self.main.git, terms)?;
        items.extend(cleaning.branches(&trees)?);
        items.extend(cleaning.works()?);
        items.extend(cleaning.tokens()?);
        items.extend(cleaning.rescues()?);
        Ok(items)
    }

    fn clean_trees(&self, terms: &CleanupTerms) -> Result<Vec<CleanupItem>, WorkspaceError> {
        let mut items = Vec::new();
        for path in self.tree_paths()? {
            if terms.open_trees.contains(&path) {
                continue;
            }
            match self.clean_tree(&path, terms) {
                Ok(item) => items.extend(item),
                Err(why) => {
                    tracing::warn!(path = %path.display(), %why, "a work tree was not removed");
                }
            }
        }
        Ok(items)
    }

    /// Returns the paths of all work trees of workers that have a folder, a lock or an entry.
    fn tree_paths(&self) -> Result<BTreeSet<PathBuf>, WorkspaceError> {
        let folder = match self.place.folder().canonicalize() {
            Ok(folder) => folder,
            Err(error) if absent(&error) => return Ok(BTreeSet::new()),
            Err(error) => return Err(error.into()),
        };
        let mut paths = BTreeSet::new();
        for entry in fs::read_dir(&folder)? {
            paths.insert(super::place::tree_beside(&entry?.path()));
        }
        let entries = TreeEntry::all(&self.main.git)?;
        let trees = entries.iter().filter_map(TreeEntry::tree);
        paths.extend(trees.filter(|tree| tree.parent() == Some(&folder)));
        Ok(paths)
    }

    fn clean_tree(
        &self,
        path: &Path,
        terms: &CleanupTerms,
    ) -> Result<Option<CleanupItem>, WorkspaceError> {
        let lock = lock_of(path);
        let known = lock.exists();
        let Some(held) = TreeLock::take(lock)? else { return Ok(None) };
        let parts = [path.to_owned(), super::place::trash_of(path), super::place::adopted_of(path)];
        let there = parts.iter().any(|part| fs::symlink_metadata(part).is_ok())
            || TreeEntry::find(&self.main.git, path)?.is_some();
        let bytes = parts.iter().map(|part| size(part)).sum();
        let (kind, name) = (CleanupKind::WorkTree, path.display().to_string());
        let mut item = CleanupItem { kind, name, bytes, saved: None };
        match terms.mode {
            CleanupMode::Plan => {
                if !known {
                    held.remove()?;
                }
            }
            CleanupMode::Remove => {
                let tree = Tree::new(path.to_owned(), held);
                if there {
                    self.adopt_left_over(&tree)?;
                    let provisions = Provisions::find(&self.main, &self.settings)?;
                    item.saved = self.remove_tree(&tree, &provisions)?;
                    remove_any(&super::place::trash_of(path))?;
                }
                tree.remove_lock()?;
            }
        }
        Ok(there.then_some(item))
    }
}

/// One cleanup of refs.
struct Cleaning<'a> {
    git: &'a Git,
    terms: &'a CleanupTerms,
    /// The refs of harness, and the branches of attempts. One process reads them.
    refs: Vec<NamedCommit>,
}

struct NamedCommit {
    reference: String,
    commit: CommitId,
    when: Timestamp,
}

impl<'a> Cleaning<'a> {
    fn read(git: &'a Git, terms: &'a CleanupTerms) -> Result<Self, WorkspaceError> {
        let format = "--format=%(objectname) %(committerdate:unix) %(refname)";
        let call = git.read("for-each-ref").args([format, BRANCHES, WORKS, TOKENS, PREFIX]);
        let output = String::from_utf8_lossy(&call.output()?).into_owned();
        let mut refs = Vec::new();
        for line in output.lines() {
            let fields: Vec<_> = line.splitn(3, ' ').collect();
            let [commit, seconds, reference] = fields[..] else {
                return Err(failed("for-each-ref", b"unexpected output"));
            };
            // A ref that is not a commit has no date, and is not one of ours.
            let Ok(seconds) = seconds.parse() else { continue };
            let (reference, when) = (reference.to_owned(), Timestamp::from_seconds(seconds));
            refs.push(NamedCommit { reference, commit: commit_id(commit)?, when });
        }
        Ok(Self { git, terms, refs })
    }

    fn below(&self, prefix: &'static str) -> impl Iterator<Item = (&String, &CommitId)> {
        let refs = self.refs.iter().filter(move |found| found.reference.starts_with(prefix));
        refs.map(|found| (&found.reference, &found.commit))
    }

    /// Removes the branches of attempts that have ended. A commit that is neither on the target nor
    /// under a rescue is saved first. `trees` are removed, so their HEADs do not count.
    fn branches(&self, trees: &BTreeSet<PathBuf>) -> Result<Vec<CleanupItem>, WorkspaceError> {
        let entries = TreeEntry::all(self.git)?;
        let stay = entries.iter().filter(|entry| entry.tree().is_none_or(|t| !trees.contains(&t)));
        let mut used: BTreeSet<_> = stay.filter_map(TreeEntry::head_ref).collect();
        used.extend(super::entry::head_ref(&self.git.git_dir));
        let mut items = Vec::new();
        for (reference, commit) in self.below(BRANCHES) {
            let branch = reference.strip_prefix("refs/heads/").unwrap_or(reference);
            let Some((task, epoch)) = task_of(branch) else { continue };
            let open = self.terms.open_tasks.contains(&task) || used.contains(reference);
            if open {
                continue;
            }
            let mut saved = None;
            if self.terms.mode == CleanupMode::Remove && !self.is_held(&task, commit)? {
                let rescue = create(self.git, &format!("{PREFIX}{task}/{epoch}"), commit)?;
                saved = Some(rescue.reference);
            }
            let mut refs = RefChanges::default().delete(reference, commit);
            let work = work_ref(&task, epoch);
            if let Some(kept) = commit_of(self.git, &work)? {
                refs = refs.delete(&work, &kept);
            }
            items.extend(self.remove(CleanupKind::TaskBranch, reference, refs, saved)?);
        }
        Ok(items)
    }

    /// Removes the original work of results whose branch has ended. It is saved first, unless
    /// something else holds it.
    fn works(&self) -> Result<Vec<CleanupItem>, WorkspaceError> {
        let mut items = Vec::new();
        for (reference, commit) in self.below(WORKS) {
            let name = reference.strip_prefix(WORKS).unwrap_or(reference);
            let branch = format!("harness/{name}");
            let Some((task, epoch)) = task_of(&branch) else { continue };
            let open = self.terms.open_tasks.contains(&task);
            if open || commit_of(self.git, &full(&branch))?.is_some() {
                continue;
            }
            if commit_of(self.git, reference)?.as_ref() != Some(commit) {
                // It was removed together with its branch.
                continue;
            }
            let mut saved = None;
            if self.terms.mode == CleanupMode::Remove && !self.is_held(&task, commit)? {
                let rescue = create(self.git, &format!("{PREFIX}{task}/{epoch}"), commit)?;
                saved = Some(rescue.reference);
            }
            let refs = RefChanges::default().delete(reference, commit);
            items.extend(self.remove(CleanupKind::StaleRef, reference, refs, saved)?);
        }
        Ok(items)
    }

    fn tokens(&self) -> Result<Vec<CleanupItem>, WorkspaceError> {
        let mut items = Vec::new();
        for (reference, commit) in self.below(TOKENS) {
            let task = TaskId::parse(reference.strip_prefix(TOKENS).unwrap_or_default());
            if task.is_ok_and(|task| !self.terms.open_tasks.contains(&task)) {
                let refs = RefChanges::default().delete(reference, commit);
                items.extend(self.remove(CleanupKind::StaleRef, reference, refs, None)?);
            }
        }
        Ok(items)
    }

    fn rescues(&self) -> Result<Vec<CleanupItem>, WorkspaceError> {
        let mut items = Vec::new();
        let rescues = self.refs.iter().filter(|found| found.reference.starts_with(PREFIX));
        for NamedCommit { reference, commit, when } in rescues {
            if *when < self.terms.rescues_before {
                let refs = RefChanges::default().delete(reference, commit);
                items.extend(self.remove(CleanupKind::OldRescue, reference, refs, None)?);
            }
        }
        Ok(items)
    }

    /// Removes refs, if they are still the same. A ref that was changed meanwhile stays.
    fn remove(
        &self,
        kind: CleanupKind,
        name: &str,
        refs: RefChanges,
        saved: Option<String>,
    ) -> Result<Option<CleanupItem>, WorkspaceError> {
        let removed = match self.terms.mode {
            CleanupMode::Plan => true,
            CleanupMode::Remove => refs.run(self.git, "harness: gc")?.code == Some(0),
        };
        Ok(removed.then(|| CleanupItem { kind, name: name.to_owned(), bytes: 0, saved }))
    }

    /// Returns whether the target, the branch beside it, a branch of a remote, or a rescue of the task
    /// has the commit.
    fn is_held(&self, task: &TaskId, commit: &CommitId) -> Result<bool, WorkspaceError> {
        let call = self.git.read("for-each-ref").args(["--count=1", "--format=%(refname)"]);
        let call = call.arg(format!("--contains={commit}")).args([full(LANDED_BRANCH)]);
        let call = call.args(self.terms.target.as_deref().map(full));
        Ok(!call.args([&format!("{PREFIX}{task}/"), KNOWN]).output()?.is_empty())
    }
}

/// Returns the size of a file or of all files below a folder, as far as they can be read.
fn size(path: &Path) -> u64 {
    fn add(path: &Path) -> io::Result<u64> {
        let found = fs::symlink_metadata(path)?;
        if !found.is_dir() {
            return Ok(found.len());
        }
        Ok(fs::read_dir(path)?.flatten().map(|entry| add(&entry.path()).unwrap_or(0)).sum())
    }
    add(path).unwrap_or(0)
}
