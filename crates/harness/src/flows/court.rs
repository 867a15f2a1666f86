//! The tools by which work is judged: looks at the tree and at git's settings, the check, and the
//! receipt. A run, the daemon and a client without a host share them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use harness::{
    Branch, Error, Result,
    blocking::blocking,
    check::{Check, Checked},
    core::{
        CommitId, Epoch, Receipt, Task, TaskId,
        machine::judge::{Around, Before, Ended, JudgedTree, Rules, Setting},
        protect::Protected,
    },
    process::Redactor,
    shell::Shell,
    workspace::{
        Candidate, SettingChange, Settled, Sight, Workspace, WorkspaceError, own_contents,
    },
};

use super::{Site, tools::until_cancelled};

/// Makes a receipt durable, or returns the error.
pub type Record = dyn Fn(&Receipt) -> Result<()> + Send + Sync;

/// Returns the receipt of a task that names this commit, which another worker may have made; `None` if
/// there is none.
pub type ReadReceipt = dyn Fn(&TaskId, &CommitId) -> Result<Option<Receipt>> + Send + Sync;

/// The rules by which work is judged, and the record of the result.
#[derive(Clone)]
pub struct Judging {
    /// The rules for the machine.
    pub rules: Rules,
    /// The name of the agent that works, for the receipt.
    pub agent: Option<String>,
    /// Called before the completion is committed.
    pub record: Arc<super::Record>,
    /// Called when a worker completes what another one has landed.
    pub kept: Arc<super::ReadReceipt>,
}

impl Judging {
    /// Records the receipt of a commit that has landed for a later claim of the same task. What was
    /// judged is the same, and only the worker that completes it is another one. Returns whether there
    /// is a receipt.
    pub(super) fn carry_over(&self, task: &TaskId, landed: &CommitId, to: Epoch) -> Result<bool> {
        match (self.kept)(task, landed)? {
            Some(receipt) => (self.record)(&Receipt { epoch: to, ..receipt }).map(|()| true),
            None => Ok(false),
        }
    }
}

/// How far judging may reach into the work tree and its repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The work tree belongs to the run. Settings of git are restored, and files that only a check
    /// created are removed.
    Everything,
    /// Files are left alone, because others may be changing them. Settings of git are restored.
    Settings,
    /// Other attempts share the repository. Nothing is touched; changed settings are reported.
    Nothing,
}

/// The tools of judging.
#[derive(Clone)]
pub struct Court {
    /// The place of the work.
    pub site: Arc<dyn Site>,
    /// The state root.
    pub root: PathBuf,
    /// Runs the check.
    pub shell: Arc<dyn Shell>,
    /// Removes secrets from text that people see.
    pub redactor: Redactor,
    /// Called before the completion is committed.
    pub record: Arc<Record>,
    /// The extent to which judging may change files and settings.
    pub reach: Reach,
}

impl Court {
    /// Returns HEAD of the work tree.
    pub async fn head(&self) -> Result<Ended> {
        match self.site.head_at_once() {
            Some(head) => Ok(Ended::Head(head)),
            None => self.blocking(|court| Ok(Ended::Head(court.site.head()))).await,
        }
    }

    /// Returns the files that differ from the claim, with git's settings of the claim. Files that
    /// match a protecting glob are read.
    pub async fn touched(&self, task: &Task, protected: &Protected) -> Result<Ended> {
        let (task, protected) = (task.clone(), protected.clone());
        self.blocking(move |court| {
            let own = court.own_changed(&protected);
            // Without a base or a repository, git cannot compare anything.
            let Some(base) = court.site.base(&task)? else {
                return Ok(Ended::Touched { files: own, settings: Vec::new() });
            };
            let git = court.site.workspace()?;
            let settings = match court.settings(&*git, &task)? {
                Settings::ToSetBack(settings) => return Ok(Ended::Changed(settings)),
                Settings::Stay(settings) => settings,
            };
            let mut files = git.touched(&base, court.sight())?;
            if !protected.globs().is_empty() {
                let among = |path: &str| !protected.among(&[path.to_owned()]).is_empty();
                files.extend(git.differing(&base, &among)?);
            }
            if protected.held().is_some() && court.root_below_site().is_some() {
                // Git reports an untracked file as new if the claim recorded no untracked files.
                files.retain(|file| !protected.is_always(file));
            }
            files.extend(own);
            files.sort();
            files.dedup();
            Ok(Ended::Touched { files, settings })
        })
        .await
    }

    /// Returns the path of the root below the site; `None` if the work is in another work tree than
    /// the settings.
    fn root_below_site(&self) -> Option<&Path> {
        self.root.strip_prefix(self.site.directory()).ok()
    }

    /// Returns harness's own settings that differ from the claim, whether git sees them or not.
    fn own_changed(&self, protected: &Protected) -> Vec<String> {
        if protected.held().is_none() {
            return Vec::new();
        }
        let below = self.root_below_site().unwrap_or(Path::new(""));
        let changed = protected.changed(&own_contents(&self.root)).into_iter();
        changed.map(|path| below.join(path).to_string_lossy().into_owned()).collect()
    }

    /// Returns the state before a check: in the work tree, or in a clean checkout of `commit`. If
    /// the work cannot be checked in its state, that is the result of the check.
    pub async fn before(
        &self,
        task: &Task,
        commit: Option<&CommitId>,
    ) -> Result<Result<Around, Ended>> {
        let (task, in_work_tree) = (task.clone(), commit.is_none());
        self.blocking(move |court| {
            let Some(base) = court.site.judged_from(&task)? else {
                return Ok(Ok(Around::default()));
            };
            let git = court.site.workspace()?;
            let settings = match court.settings(&*git, &task)? {
                Settings::ToSetBack(settings) => return Ok(Err(Ended::Changed(settings))),
                Settings::Stay(settings) => settings,
            };
            if !in_work_tree {
                return Ok(Ok(Around { settings, before: None }));
            }
            // The commit contains the tree that the check began with, so an earlier scan does not
            // count.
            match git.candidate(&base, Sight::Anew) {
                Ok(Candidate { tree, hidden }) => {
                    // A client's claim records no files, so hidden files may be older than the
                    // claim.
                    let hidden = match court.reach {
                        Reach::Everything => hidden,
                        Reach::Settings | Reach::Nothing => Vec::new(),
                    };
                    Ok(Ok(Around { settings, before: Some(Before { tree, hidden }) }))
                }
                Err(why) if is_about_the_work(&why) => {
                    Ok(Err(Ended::NotKept { why: why.to_string() }))
                }
                Err(other) => Err(other.into()),
            }
        })
        .await
    }

    /// Returns the changes that a passed check made to the tree that it began with.
    pub async fn settle(&self, task: &Task, before: Before) -> Result<Ended> {
        let task = task.clone();
        self.blocking(move |court| {
            let Some(base) = court.site.judged_from(&task)? else {
                return Err(Error::message("the commit that the work started from is gone"));
            };
            let git = court.site.workspace()?;
            let settings = match court.settings(&*git, &task)? {
                Settings::ToSetBack(settings) => return Ok(Ended::Changed(settings)),
                Settings::Stay(settings) => settings,
            };
            let Before { tree: before, hidden } = before;
            let settled = match court.reach {
                Reach::Everything => git.settle(&base, &before)?,
                Reach::Settings | Reach::Nothing => git.compare(&base, &before)?,
            };
            let Settled { tree: after, changed, moved } = settled;
            let tree = Box::new(JudgedTree { before, after, changed, moved, hidden });
            Ok(Ended::Settled { tree, settings })
        })
        .await
    }

    /// Restores git's settings of the claim.
    pub async fn set_back(&self, task: &Task) -> Result<Ended> {
        let (id, epoch) = (task.id.clone(), task.epoch);
        self.blocking(move |court| {
            if let Some(epoch) = epoch {
                court.site.workspace()?.restore_settings(&id, epoch)?;
            }
            Ok(Ended::SetBack)
        })
        .await
    }

    /// Returns how the tree is scanned. A run knows when a process has run in its work tree; where
    /// others work, that is unknown.
    fn sight(&self) -> Sight {
        match self.reach {
            Reach::Everything => Sight::Last,
            Reach::Settings | Reach::Nothing => Sight::Anew,
        }
    }

    fn settings(&self, git: &dyn Workspace, task: &Task) -> Result<Settings, WorkspaceError> {
        let mut changes = match task.epoch {
            Some(epoch) => git.changed_settings(&task.id, epoch)?,
            None => Vec::new(),
        };
        if self.reach == Reach::Nothing {
            changes.iter_mut().for_each(|change| change.set_back = false);
        }
        let must = changes.iter().any(|change| change.set_back);
        let settings = changes.iter().map(setting).collect();
        Ok(if must { Settings::ToSetBack(settings) } else { Settings::Stay(settings) })
    }

    /// Runs the check in the work tree, or in a clean checkout of a commit.
    pub async fn check<A>(
        &self,
        branch: &Branch<A>,
        check: &Check,
        commit: Option<CommitId>,
    ) -> Result<Checked> {
        let (court, task) = (self.clone(), check.task());
        let check = check.clone();
        let checked = until_cancelled(branch, move |cancel| {
            let (shell, site) = (&*court.shell, &court.site);
            match commit {
                None => Ok(check.run_in(shell, site.directory(), cancel)?),
                Some(at) => {
                    let workspace = site.workspace()?;
                    Ok(check.run_clean(shell, &*workspace, &court.root, &at, cancel)?)
                }
            }
        });
        let checked = checked.await?;
        branch.emit(checked.event(task));
        Ok(checked)
    }

    /// Returns the result of a check for the machine.
    pub fn checked(&self, check: &Check, checked: Checked, around: Around) -> Ended {
        // The whole text is redacted before it is cut, because half of a secret is not recognised.
        let shown = self.redactor.bytes(&checked.ran.tail);
        let output = String::from_utf8_lossy(&shown).into_owned();
        let record = Box::new(checked.record(check));
        let around = Box::new(around);
        Ended::Checked { record, output, verdict: checked.verdict, around }
    }

    /// Makes the receipt durable, with the tree of its commit.
    pub async fn record(&self, mut receipt: Receipt) -> Result<Ended> {
        self.blocking(move |court| {
            if let Some(commit) = receipt.commit.as_ref().filter(|_| receipt.tree.is_none()) {
                receipt.tree = court.site.tree_of(commit)?;
            } else if let (Some(commit), Some(tree)) = (&receipt.commit, &receipt.tree) {
                receipt.uncommitted = court.site.uncommitted(commit, tree)?;
            }
            (court.record)(&receipt)?;
            Ok(Ended::Recorded)
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let court = self.clone();
        blocking(move || act(&court)).await.map_err(Error::other)?
    }
}

/// Returns whether the error means that the commits or files cannot be the work of this attempt.
pub(super) fn is_about_the_work(why: &WorkspaceError) -> bool {
    matches!(
        why,
        WorkspaceError::NotDescendant { .. }
            | WorkspaceError::Unsafe { .. }
            | WorkspaceError::HookRefused { .. }
    )
}

/// Settings of git that differ from the claim.
enum Settings {
    /// Some of them must be restored before anything is compared.
    ToSetBack(Vec<Setting>),
    /// They are only reported.
    Stay(Vec<Setting>),
}

/// Returns a changed setting for the machine.
pub(super) fn setting(change: &SettingChange) -> Setting {
    Setting {
        message: change.message(),
        name: format!("git: {}", change.what),
        sight: change.sight,
    }
}
