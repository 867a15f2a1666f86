//! Puts the commits of an attempt on top of another commit.
//!
//! Everything is computed in the object store, and the work tree moves once, at the end. So a
//! conflict leaves nothing behind.

use std::{collections::BTreeMap, ffi::OsString};

use harness_core::{CommitId, TreeId};

use super::{
    branch::{is_below, loose},
    submodule,
};
use crate::workspace::{
    GitWorkspace, Workspace as _, WorkspaceError,
    filter::{Drivers, Filters},
    git::{Call, Git, Ran, failed},
    object::{commit_id, tree_id},
    path::{RepoPath, records},
    policy::CommitPolicy,
    preflight::UnderWay,
    rescue::{commit_tree, resolve},
    shared::{LandStyle, Rebase, Rebased, task_branch, work_ref},
    sight::Sight,
    status::Look,
    trailer::{has_trailer, with_trailer},
};

/// A commit, as far as it is needed to make it again.
#[derive(Clone)]
struct Picked {
    commit: CommitId,
    parents: Vec<CommitId>,
    tree: TreeId,
    author: [(&'static str, String); 3],
    committed_at: When,
    message: String,
}

/// The time of a commit, in seconds and with the time zone as git writes it.
type When = (i64, String);

/// A commit with its tree.
#[derive(Clone)]
struct Top {
    commit: CommitId,
    tree: TreeId,
    committed_at: When,
}

/// The result of a merge in the object store.
pub(super) enum Merged {
    Tree(TreeId),
    Conflict(Vec<String>),
}

/// The new commits, or the files of a conflict.
type Made = Result<Top, Vec<String>>;

pub(super) fn rebase(workspace: &GitWorkspace, rebase: &Rebase) -> Result<Rebased, WorkspaceError> {
    let git = silent(workspace)?;
    let look = workspace.look(&git, Sight::Last)?;
    refuse_unclean(&git, &look)?;
    let known = Known::read(&git, rebase, &look.commit()?)?;
    known.refuse_other_head(&look.commit()?)?;
    let chain = Chain { git: &git, policy: &workspace.policy, rebase, start: known.onto(&git)? };
    let made = match (known.line(), rebase.style) {
        (Some(line), LandStyle::Rebase) => chain.pick(&line)?,
        (Some(line), LandStyle::Squash) => chain.squash(&line)?,
        (None, style) => {
            if !is_below(&git, &rebase.base, &rebase.work)? {
                let (found, base) = (rebase.work.to_string(), rebase.base.clone());
                return Err(WorkspaceError::NotDescendant { found, base });
            }
            chain.flatten(style)?
        }
    };
    match made {
        Ok(top) => {
            place(workspace, &git, rebase, &look, &top)?;
            Ok(Rebased::Done { commit: top.commit, tree: top.tree })
        }
        Err(files) => Ok(Rebased::Conflict { files }),
    }
}

/// Returns git without content filters that must not run, and without the merge drivers of the
/// repository: where one would merge, there is a conflict.
pub(super) fn silent(workspace: &GitWorkspace) -> Result<Git, WorkspaceError> {
    let drivers = Drivers::read(&workspace.git)?;
    let mut git = workspace.git.clone();
    git.settings.extend(drivers.merges.into_iter().map(|key| (key, OsString::from("false"))));
    let silenced = match workspace.filters {
        Filters::Run => Vec::new(),
        Filters::Off => drivers.filters,
    };
    Ok(Git { silenced, ..git })
}

/// Refuses to move a tree with work that is in no commit.
fn refuse_unclean(git: &Git, look: &Look) -> Result<(), WorkspaceError> {
    if let Some(under_way) = UnderWay::find(git) {
        return Err(under_way.refusal());
    }
    if let Some(changed) = look.changed.first() {
        return Err(WorkspaceError::Unsafe {
            what: format!("{} has changes that are in no commit", changed.path.shown()),
            hint: "commit them before the work is rebased".to_owned(),
        });
    }
    Ok(())
}

/// The commits since the base: those of the work, of HEAD, and of the commit to put the work on. One
/// process reads them.
struct Known<'a> {
    rebase: &'a Rebase,
    commits: BTreeMap<CommitId, Picked>,
}

impl<'a> Known<'a> {
    fn read(git: &Git, rebase: &'a Rebase, head: &CommitId) -> Result<Self, WorkspaceError> {
        let Rebase { base, work, onto, .. } = rebase;
        let mut commits = Vec::new();
        if work != base || onto != base {
            // The boundary includes the base itself.
            let tips = ["--boundary", work.as_str(), onto.as_str(), head.as_str()];
            commits = log(git, &[&tips[..], &[&format!("^{base}")]].concat())?;
        }
        let commits = commits.into_iter().map(|picked| (picked.commit.clone(), picked)).collect();
        Ok(Self { rebase, commits })
    }

    /// Refuses if HEAD is neither the work nor an earlier result of ours. It would be lost.
    fn refuse_other_head(&self, head: &CommitId) -> Result<(), WorkspaceError> {
        let Rebase { task, epoch, base, work, onto, placed, .. } = self.rebase;
        let ours = |head: &Picked| has_trailer(&head.message, task, *epoch);
        let is_known = [base, work, onto].contains(&head) || placed.as_ref() == Some(head);
        if is_known || self.commits.get(head).is_some_and(ours) {
            return Ok(());
        }
        Err(WorkspaceError::HeadMoved { from: work.clone() })
    }

    /// Returns the commit to put the work on.
    fn onto(&self, git: &Git) -> Result<Top, WorkspaceError> {
        let onto = &self.rebase.onto;
        let mut known = self.commits.get(onto).cloned();
        if known.is_none() {
            known = log(git, &["--no-walk", onto.as_str()])?.pop();
        }
        let known = known.ok_or_else(|| WorkspaceError::NoSuchCommit { commit: onto.clone() })?;
        Ok(Top { commit: known.commit, tree: known.tree, committed_at: known.committed_at })
    }

    /// Returns the commits of the work, oldest first; `None` if it has merges, or does not descend
    /// from the base.
    fn line(&self) -> Option<Vec<Picked>> {
        let mut line = Vec::new();
        let mut at = &self.rebase.work;
        while *at != self.rebase.base {
            let picked = self.commits.get(at)?;
            let [parent] = &picked.parents[..] else { return None };
            line.push(picked.clone());
            at = parent;
        }
        line.reverse();
        Some(line)
    }
}

/// Returns commits, ancestors first.
fn log(git: &Git, which: &[&str]) -> Result<Vec<Picked>, WorkspaceError> {
    let call = git.read("log").args(["-z", "--reverse", "--topo-order", "--date=raw"]);
    let call = call.arg("--format=%H%n%P%n%T%n%an%n%ae%n%ad%n%cd%n%B");
    records(&call.args(which).output()?).map(parse).collect()
}

fn parse(record: &[u8]) -> Result<Picked, WorkspaceError> {
    let text = String::from_utf8_lossy(record);
    let fields: Vec<_> = text.splitn(8, '\n').collect();
    let [commit, parents, tree, name, email, date, committed_at, message] = fields[..] else {
        return Err(failed("log", b"unexpected output"));
    };
    let parents = parents.split(' ').filter(|id| !id.is_empty()).map(commit_id);
    let (seconds, zone) = committed_at.split_once(' ').unwrap_or((committed_at, "+0000"));
    // Git refuses to make a commit without the name of an author.
    let name = if name.trim().is_empty() { "unknown" } else { name };
    Ok(Picked {
        commit: commit_id(commit)?,
        parents: parents.collect::<Result<_, _>>()?,
        tree: tree_id(tree)?,
        author: [
            ("GIT_AUTHOR_NAME", name.to_owned()),
            ("GIT_AUTHOR_EMAIL", email.to_owned()),
            ("GIT_AUTHOR_DATE", format!("@{date}")),
        ],
        committed_at: (seconds.parse().unwrap_or(0), zone.to_owned()),
        message: message.to_owned(),
    })
}

/// The commits that are made for one rebase.
struct Chain<'a> {
    git: &'a Git,
    policy: &'a CommitPolicy,
    rebase: &'a Rebase,
    /// The commit to put the work on.
    start: Top,
}

impl Chain<'_> {
    /// Makes each commit again on top of the one before. A commit that needs no change stays the
    /// same, and one that changes nothing any more is left out.
    fn pick(&self, picked: &[Picked]) -> Result<Made, WorkspaceError> {
        let (task, epoch) = (&self.rebase.task, self.rebase.epoch);
        let mut top = self.start.clone();
        // The original commit with the same tree as `top`, if there is one.
        let mut same = (self.rebase.base == self.rebase.onto).then(|| self.rebase.base.clone());
        for next in picked {
            let parent = next.parents.first();
            let in_place = same.as_ref() == parent;
            let tree = if in_place {
                same = Some(next.commit.clone());
                next.tree.clone()
            } else {
                let parent = parent.unwrap_or(&self.rebase.base);
                match merge(self.git, parent, &top.commit, &next.commit)? {
                    Merged::Tree(tree) => tree,
                    Merged::Conflict(files) => return Ok(Err(files)),
                }
            };
            if tree == top.tree {
                continue;
            }
            let unchanged = in_place
                && parent == Some(&top.commit)
                && with_trailer(&next.message, task, epoch) == next.message;
            top = match unchanged {
                true => Top {
                    commit: next.commit.clone(),
                    tree,
                    committed_at: next.committed_at.clone(),
                },
                false => self.make(tree, &top, &next.message, next)?,
            };
        }
        Ok(Ok(top))
    }

    /// Makes one commit of all. A single commit stays one.
    fn squash(&self, picked: &[Picked]) -> Result<Made, WorkspaceError> {
        let (base, onto, work) = (&self.rebase.base, &self.rebase.onto, &self.rebase.work);
        let Some((last, others)) = picked.split_last() else { return Ok(Ok(self.start.clone())) };
        if others.is_empty() {
            return self.pick(picked);
        }
        match base == onto {
            true => self.one(Merged::Tree(last.tree.clone()), last),
            false => self.one(merge(self.git, base, onto, work)?, last),
        }
    }

    /// Puts a history with merges on top. A merge may hold a resolution that none of the other
    /// commits has. Only if they give the same files without it, they stay separate.
    fn flatten(&self, style: LandStyle) -> Result<Made, WorkspaceError> {
        let Rebase { base, onto, work, .. } = self.rebase;
        let (not_base, not_onto) = (format!("^{base}"), format!("^{onto}"));
        let mut picked = log(self.git, &[work.as_str(), &not_base, &not_onto])?;
        let Some(last) = picked.last().cloned() else { return Ok(Ok(self.start.clone())) };
        let merged = match is_below(self.git, onto, work)? {
            true => Merged::Tree(last.tree.clone()),
            false => {
                let below =
                    self.git.read("merge-base").args([onto.as_str(), work.as_str()]).run()?;
                let below = commit_id(String::from_utf8_lossy(&below.stdout).trim());
                merge(self.git, &below.unwrap_or_else(|_| base.clone()), onto, work)?
            }
        };
        picked.retain(|commit| commit.parents.len() == 1);
        if let (LandStyle::Rebase, Merged::Tree(tree)) = (style, &merged)
            && let Ok(top) = self.pick(&picked)?
            && top.tree == *tree
        {
            return Ok(Ok(top));
        }
        self.one(merged, &last)
    }

    fn one(&self, merged: Merged, last: &Picked) -> Result<Made, WorkspaceError> {
        match merged {
            Merged::Conflict(files) => Ok(Err(files)),
            Merged::Tree(tree) if tree == self.start.tree => Ok(Ok(self.start.clone())),
            Merged::Tree(tree) => {
                let message = self.rebase.message.as_str();
                self.make(tree, &self.start, message, last).map(Ok)
            }
        }
    }

    /// Creates a commit with the author of `like`. Its time does not depend on the clock, so the same
    /// rebase gives the same commit.
    fn make(
        &self,
        tree: TreeId,
        parent: &Top,
        message: &str,
        like: &Picked,
    ) -> Result<Top, WorkspaceError> {
        let message = with_trailer(message, &self.rebase.task, self.rebase.epoch);
        let later = parent.committed_at.0 > like.committed_at.0;
        let committed_at = if later { &parent.committed_at } else { &like.committed_at };
        let mut variables = like.author.to_vec();
        let (seconds, zone) = committed_at;
        variables.push(("GIT_COMMITTER_DATE", format!("@{seconds} {zone}")));
        let parents = std::slice::from_ref(&parent.commit);
        let commit = self.policy.signed(self.git, &tree, parents, &message, &variables)?;
        self.git.memory.remember_tree(&commit, &tree);
        Ok(Top { commit, tree, committed_at: committed_at.clone() })
    }
}

/// Merges the changes from `base` to `theirs` into `ours`, in the object store.
pub(super) fn merge(
    git: &Git,
    base: &CommitId,
    ours: &CommitId,
    theirs: &CommitId,
) -> Result<Merged, WorkspaceError> {
    let option = format!("--merge-base={base}");
    let ran = merge_call(git).arg(option).args([ours.as_str(), theirs.as_str()]).run()?;
    // The exit code for an unknown option: git is older than 2.40. Then two commits are made for which
    // git finds that base itself.
    if ran.code != Some(129) {
        return merged(&ran);
    }
    let on_base = |of: &CommitId| {
        let tree = git.tree_of(of)?;
        commit_tree(git, &tree, std::slice::from_ref(base), "for a merge\n")
    };
    let (ours, theirs) = (on_base(ours)?, on_base(theirs)?);
    merged(&merge_call(git).args([ours.as_str(), theirs.as_str()]).run()?)
}

fn merge_call(git: &Git) -> Call {
    git.write("merge-tree").args(["--write-tree", "-z", "--name-only", "--no-messages"])
}

fn merged(ran: &Ran) -> Result<Merged, WorkspaceError> {
    let mut fields = records(&ran.stdout);
    match (ran.code, fields.next()) {
        (Some(0), Some(tree)) => Ok(Merged::Tree(tree_id(&String::from_utf8_lossy(tree))?)),
        (Some(1), Some(_)) => {
            let mut files: Vec<_> = fields.map(|path| RepoPath::new(path).shown()).collect();
            files.sort();
            files.dedup();
            Ok(Merged::Conflict(files))
        }
        (_, _) => Err(failed("merge-tree", &ran.stderr)),
    }
}

/// Puts the branch of the attempt and the work tree on the result.
fn place(
    workspace: &GitWorkspace,
    git: &Git,
    rebase: &Rebase,
    look: &Look,
    top: &Top,
) -> Result<(), WorkspaceError> {
    let branch = task_branch(&rebase.task, rebase.epoch);
    let on_branch = look.branch.as_deref() == Some(branch.as_str());
    if on_branch && look.head.as_ref() == Some(&top.commit) {
        return Ok(());
    }
    keep_work(git, rebase)?;
    workspace.disturbed();
    // Both refuse to overwrite a change that was made since the look.
    let call = match on_branch {
        true => git.write("reset").args(["--quiet", "--keep", top.commit.as_str()]),
        false => {
            let call = git.write("checkout").args(["--quiet", "--no-track", "-B"]);
            call.args([branch.as_str(), top.commit.as_str()])
        }
    };
    if call.run()?.code != Some(0) {
        refuse_unclean(git, &workspace.look(git, Sight::Anew)?)?;
        // An untracked file is in the way that is no work of the attempt, or one of ours.
        let call = git.write("checkout").args(["--quiet", "--force", "--no-track", "-B"]);
        call.args([branch.as_str(), top.commit.as_str()]).output()?;
        workspace.disturbed();
    }
    submodule::check_out(workspace, git, &top.commit)
}

/// Keeps the original work of the attempt. A result that is rebased once more is not the original:
/// its base is not below the work that is kept.
fn keep_work(git: &Git, rebase: &Rebase) -> Result<(), WorkspaceError> {
    let reference = work_ref(&rebase.task, rebase.epoch);
    let set = |old: &str| {
        let call = git.write("update-ref").args(["-m", "harness: work", &reference]);
        call.args([rebase.work.as_str(), old]).run()
    };
    let mut kept = loose(git, &reference);
    if kept.is_none() {
        // There is usually none yet.
        if set(&"0".repeat(rebase.work.as_str().len()))?.code == Some(0) {
            return Ok(());
        }
        kept = resolve(git, &reference)?;
    }
    let kept = kept.ok_or_else(|| failed("update-ref", b"the work cannot be kept"))?;
    if kept == rebase.work || !is_below(git, &rebase.base, &kept)? {
        return Ok(());
    }
    let ran = set(kept.as_str())?;
    if ran.code == Some(0) { Ok(()) } else { Err(failed("update-ref", &ran.stderr)) }
}
