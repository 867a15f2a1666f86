//! Saves everything that a rollback would destroy, as a commit under `refs/harness/rescue/`.
//!
//! It uses only plumbing and a private index, so neither the user's index nor the work tree
//! changes. The first parent is HEAD. Further parents are staged contents that are nowhere else,
//! and the tip of the claimed branch if HEAD has left it.

use std::collections::BTreeSet;

use harness_core::{CommitId, TaskId, Timestamp, TreeId};

use super::{
    Base, Rescue, WorkspaceError,
    git::{Git, failed},
    object::{Change, GITLINK, Listing, commit_id, diff_trees},
    own::OwnFiles,
    path::RepoPath,
    snapshot::Snapshot,
    status::Look,
    untracked::{in_the_way, recorded, unchanged},
};

pub(super) const PREFIX: &str = "refs/harness/rescue/";
/// Names the base in a rescue's message. The content of the rescue is the difference to it.
pub(super) const BASE_TRAILER: &str = "Harness-Base: ";

/// The work that would be destroyed.
struct Losses {
    snapshot: Snapshot,
    /// Paths whose contents (or whose absence) only the work tree has.
    paths: Vec<RepoPath>,
    /// HEAD, and the tip of the claimed branch.
    tips: Vec<CommitId>,
}

/// The result of [`Rescuing::save`].
pub(super) struct Saved {
    /// The rescue; `None` if nothing would be destroyed.
    pub(super) rescue: Option<Rescue>,
    /// All paths whose contents are now in some rescue of the attempt.
    pub(super) paths: Vec<RepoPath>,
}

/// One attempt whose work is saved.
#[derive(Clone, Copy)]
pub(super) struct Rescuing<'a> {
    pub(super) git: &'a Git,
    pub(super) own: &'a OwnFiles,
    pub(super) task: &'a TaskId,
    pub(super) attempt: u32,
    pub(super) base: &'a Base,
    /// The first line of the message; `None` for the usual one.
    pub(super) subject: Option<&'a str>,
}

impl Rescuing<'_> {
    /// Saves the work. Commits that are reachable from `stays` are not at risk.
    pub(super) fn save(
        self,
        look: Look,
        stays: Option<&CommitId>,
    ) -> Result<Saved, WorkspaceError> {
        let Self { git, own, task, attempt, base, subject } = self;
        let losses = losses(git, own, base, look)?;
        let saved = of_attempt(git, task, attempt)?;
        if covered(git, &losses, &saved, &base.commit, stays)? {
            return Ok(Saved { rescue: saved.into_iter().next_back(), paths: losses.paths });
        }
        let usual = || format!("{task}: work of attempt {attempt}, saved before its rollback");
        let subject = subject.map_or_else(usual, str::to_owned);
        let message = format!("{subject}\n\n{BASE_TRAILER}{}\n", base.commit);
        let mut parents = losses.tips.clone();
        if let Some(staged) = &losses.snapshot.staged {
            let what = format!("{task}: index of attempt {attempt}\n");
            parents.push(commit_tree(git, &staged.tree, &losses.tips[..1], &what)?);
        }
        let commit = commit_tree(git, &losses.snapshot.tree, &parents, &message)?;
        let rescue = create(git, &format!("{PREFIX}{task}/{attempt}"), &commit)?;
        Ok(Saved { rescue: Some(rescue), paths: losses.paths })
    }
}

fn losses(git: &Git, own: &OwnFiles, base: &Base, look: Look) -> Result<Losses, WorkspaceError> {
    let mut snapshot = Snapshot::take(git, own, look)?;
    let recorded = recorded(git, base.untracked.as_ref())?;
    let mut changes = diff_trees(git, base.commit.as_str(), snapshot.tree.as_str())?;
    let hidden = hidden(git, own, &changes, &recorded)?;
    if !hidden.is_empty() {
        snapshot.add(git, &hidden)?;
        changes = diff_trees(git, base.commit.as_str(), snapshot.tree.as_str())?;
    }
    changes.retain(|change| !own.own(change.path.bytes()));
    let unchanged = unchanged(git, &recorded, changes.iter().map(|change| &change.path))?;
    let paths = changes.into_iter().map(|change| change.path);
    let paths = paths.filter(|path| !unchanged.contains(path)).collect();
    let mut tips = vec![snapshot.look.commit()?];
    if let Some(branch) = &base.branch
        && snapshot.look.branch.as_ref() != Some(branch)
        && let Some(tip) = resolve(git, &format!("refs/heads/{branch}"))?
        && !tips.contains(&tip)
    {
        tips.push(tip);
    }
    Ok(Losses { snapshot, paths, tips })
}

/// Returns files that a rollback overwrites although git does not see them here: a tracked file
/// that the agent untracked and ignored, or a folder of ignored files in the place of a file.
fn hidden(
    git: &Git,
    own: &OwnFiles,
    changes: &[Change],
    recorded: &Listing,
) -> Result<Vec<RepoPath>, WorkspaceError> {
    let seen: BTreeSet<_> =
        changes.iter().filter(|change| change.after.is_some()).map(|change| &change.path).collect();
    let gone = changes.iter().filter(|change| change.after.is_none());
    let gone = gone.filter(|change| change.before.as_ref().is_some_and(|e| e.mode != GITLINK));
    let files = recorded.iter().filter(|(_, entry)| entry.mode != GITLINK).map(|(path, _)| path);
    let mut hidden = Vec::new();
    for path in gone.map(|change| &change.path).chain(files) {
        if !own.own(path.bytes()) && !seen.contains(path) {
            hidden.extend(in_the_way(git, path)?);
        }
    }
    hidden.retain(|path| !seen.contains(path) && !own.own(path.bytes()));
    Ok(hidden)
}

/// Returns whether the base and the existing rescues hold everything that would be destroyed. So a
/// rollback that is repeated after a crash, at any point, saves nothing twice.
fn covered(
    git: &Git,
    losses: &Losses,
    saved: &[Rescue],
    base: &CommitId,
    stays: Option<&CommitId>,
) -> Result<bool, WorkspaceError> {
    let commits: Vec<_> = saved.iter().map(|rescue| rescue.commit.as_str()).collect();
    if !held(git, &losses.paths, losses.snapshot.tree.as_str(), &commits)? {
        return Ok(false);
    }
    if losses.tips.iter().any(|tip| tip != base) {
        let call = git.read("rev-list").args(["--max-count=1"]);
        let call = call.args(losses.tips.iter().map(CommitId::as_str)).arg("--not");
        let call = call.args(&commits).arg(base.as_str()).args(stays.map(CommitId::as_str));
        if !call.output()?.is_empty() {
            return Ok(false);
        }
    }
    let Some(staged) = &losses.snapshot.staged else { return Ok(true) };
    // A reset that was cut short has removed files that the index still names.
    let parents = if commits.is_empty() {
        String::new()
    } else {
        let parents = commits.iter().map(|commit| format!("{commit}^@"));
        git.read("rev-parse").args(parents).line()?
    };
    let holders: Vec<_> = commits.into_iter().chain(parents.lines()).collect();
    held(git, &staged.paths, staged.tree.as_str(), &holders)
}

/// Returns whether one of `holders` has, for each path, the same as `tree`.
fn held(
    git: &Git,
    paths: &[RepoPath],
    tree: &str,
    holders: &[&str],
) -> Result<bool, WorkspaceError> {
    let mut open = paths.to_vec();
    for holder in holders {
        if open.is_empty() {
            break;
        }
        let differing = diff_trees(git, holder, tree)?;
        let differing: BTreeSet<_> = differing.into_iter().map(|change| change.path).collect();
        open.retain(|path| differing.contains(path));
    }
    Ok(open.is_empty())
}

/// Creates a commit by the user, or by us if git has no user.
pub(super) fn commit_tree(
    git: &Git,
    tree: &TreeId,
    parents: &[CommitId],
    message: &str,
) -> Result<CommitId, WorkspaceError> {
    commit_with(git, tree, parents, message, &[])
}

/// Does the same with more variables, which may name the author.
pub(super) fn commit_with(
    git: &Git,
    tree: &TreeId,
    parents: &[CommitId],
    message: &str,
    variables: &[(&str, String)],
) -> Result<CommitId, WorkspaceError> {
    let call = || {
        let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
        let call = git.write("commit-tree").args(["--no-gpg-sign"]).args(parents);
        call.args(["-F", "-", tree.as_str()]).input(message)
    };
    let line = call().envs(variables).line().or_else(|_| {
        let ours = call().env("GIT_AUTHOR_NAME", "harness").env("GIT_COMMITTER_NAME", "harness");
        let ours = ours.env("GIT_AUTHOR_EMAIL", "harness@localhost");
        ours.env("GIT_COMMITTER_EMAIL", "harness@localhost").envs(variables).line()
    })?;
    commit_id(&line)
}

/// Creates `name`, or `name-2`, `name-3` …, the first that is free.
pub(super) fn create(git: &Git, name: &str, commit: &CommitId) -> Result<Rescue, WorkspaceError> {
    const MOST: u32 = 1000;
    let nothing = "0".repeat(commit.as_str().len());
    for number in 1..=MOST {
        let reference = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        let call = git.write("update-ref").args(["--create-reflog", "-m", "harness: rescue"]);
        let ran = call.args([reference.as_str(), commit.as_str(), nothing.as_str()]).run()?;
        if ran.code == Some(0) {
            let found = list(git, &reference)?.into_iter().find(|r| r.reference == reference);
            return found.ok_or_else(|| failed("update-ref", b"the new ref is not there"));
        }
        if resolve(git, &reference)?.is_none() {
            return Err(failed("update-ref", &ran.stderr));
        }
    }
    Err(failed("update-ref", format!("{MOST} rescues of {name} exist").as_bytes()))
}

/// Returns all rescues under a prefix, oldest first.
fn list(git: &Git, pattern: &str) -> Result<Vec<Rescue>, WorkspaceError> {
    let format = "%(refname)%00%(objectname)%00%(committerdate:unix)%00%(contents:subject)";
    let output =
        git.read("for-each-ref").arg(format!("--format={format}")).arg(pattern).output()?;
    let mut rescues = Vec::new();
    for line in output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let text = String::from_utf8_lossy(line);
        let fields: Vec<_> = text.splitn(4, '\0').collect();
        let [reference, object, seconds, subject] = fields[..] else {
            return Err(failed("for-each-ref", b"unexpected output"));
        };
        // A ref that is not a commit has no date, and is not one of ours.
        let Ok(seconds) = seconds.parse() else { continue };
        rescues.push(Rescue {
            reference: reference.to_owned(),
            commit: commit_id(object)?,
            when: Timestamp::from_seconds(seconds),
            subject: subject.to_owned(),
        });
    }
    rescues.sort_by_cached_key(|rescue| (rescue.when, order(&rescue.reference)));
    Ok(rescues)
}

/// Sorts `…/1` before `…/1-2` before `…/1-10` before `…/2`.
fn order(reference: &str) -> (String, u64, u64) {
    let (folder, name) = reference.rsplit_once('/').unwrap_or(("", reference));
    let (attempt, copy) = name.split_once('-').unwrap_or((name, "1"));
    (folder.to_owned(), attempt.parse().unwrap_or(0), copy.parse().unwrap_or(0))
}

pub(super) fn all(git: &Git, task: Option<&TaskId>) -> Result<Vec<Rescue>, WorkspaceError> {
    list(git, &task.map_or_else(|| PREFIX.to_owned(), |task| format!("{PREFIX}{task}/")))
}

fn of_attempt(git: &Git, task: &TaskId, attempt: u32) -> Result<Vec<Rescue>, WorkspaceError> {
    let name = format!("{PREFIX}{task}/{attempt}");
    let mut rescues = all(git, Some(task))?;
    rescues.retain(|rescue| {
        let rest = rescue.reference.strip_prefix(&name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    });
    rescues.sort_by_cached_key(|rescue| order(&rescue.reference));
    Ok(rescues)
}

/// Returns the commit that a full ref name points to.
pub(super) fn resolve(git: &Git, reference: &str) -> Result<Option<CommitId>, WorkspaceError> {
    let call = git.read("rev-parse").args(["--verify", "--quiet", "--end-of-options"]);
    let ran = call.arg(format!("{reference}^{{commit}}")).run()?;
    if ran.code != Some(0) {
        return Ok(None);
    }
    commit_id(String::from_utf8_lossy(&ran.stdout).trim()).map(Some)
}
