//! The evidence for recovery.

use std::collections::BTreeSet;

use harness_core::{CommitId, TaskId, Timestamp, TreeId};

use super::{
    Base, Evidence, WorkspaceError,
    git::Git,
    history::History,
    object::{Contents, GITLINK, Hashing, hash_with, list_tree},
    own::OwnFiles,
    path::{RepoPath, records},
    snapshot::Snapshot,
    status::Look,
    untracked,
};

pub(super) fn evidence(
    git: &Git,
    own: &OwnFiles,
    task: &TaskId,
    base: &Base,
    claimed_at: Timestamp,
) -> Result<Evidence, WorkspaceError> {
    let snapshot = Snapshot::take(git, own, Look::take(git, own)?)?;
    let look = &snapshot.look;
    let head = look.commit()?;
    if head != base.commit {
        must_be_commit(git, &base.commit)?;
    }
    let history = History::read(git, task, base, head.as_str())?;
    let recorded = untracked::recorded(git, base.untracked.as_ref())?;
    let unchanged = untracked::unchanged(git, &recorded, recorded.keys())?;
    let new = look.untracked.iter().any(|path| !unchanged.contains(path));
    let uncommitted = new || !look.changed.is_empty();
    let moved = head != base.commit || look.branch != base.branch;
    Ok(Evidence {
        uncommitted,
        untouched: !uncommitted && !moved && untracked::all_there(&recorded, &unchanged),
        task_commits: history.attempts.into_iter().map(|since| since.commit).collect(),
        foreign_commits: history.foreign,
        tree: snapshot.tree,
        head,
        stashes: stashes_since(git, claimed_at)?,
    })
}

pub(super) fn touched(
    git: &Git,
    own: &OwnFiles,
    base: &Base,
    look: &Look,
) -> Result<Vec<String>, WorkspaceError> {
    let mut output = Vec::new();
    let moved = look.head.as_ref() != Some(&base.commit);
    if moved {
        must_be_commit(git, &base.commit)?;
        let call = git.read("diff").args(["--name-only", "-z", "--no-renames", "--no-ext-diff"]);
        let call = call.args(["--ignore-submodules=dirty", base.commit.as_str(), "HEAD", "--"]);
        output = call.output()?;
    }
    let committed = records(&output).filter(|path| !own.own(path)).map(RepoPath::new);
    let recorded = untracked::recorded(git, base.untracked.as_ref())?;
    let unchanged = untracked::unchanged(git, &recorded, &look.untracked)?;
    let new = look.untracked.iter().filter(|path| !unchanged.contains(*path)).cloned();
    let changed = look.changed.iter().map(|changed| changed.path.clone());
    // These files are ours and are never committed, but the prompts of agents must not change
    // unnoticed.
    let mut output = Vec::new();
    if moved || look.ours.iter().any(|path| own.is_prompt(path.bytes())) {
        let call = git.read("diff").args(["--name-only", "-z", "--no-renames", "--no-ext-diff"]);
        output = call.args([base.commit.as_str(), "--"]).arg(own.prompts()).output()?;
    }
    let prompts = records(&output).map(RepoPath::new);
    let touched: BTreeSet<_> = committed.chain(changed).chain(new).chain(prompts).collect();
    Ok(touched.iter().map(RepoPath::shown).collect())
}

/// Uses the attributes at the base. Otherwise a changed `.gitattributes` could make different
/// contents look the same.
pub(super) fn differing(
    git: &Git,
    own: &OwnFiles,
    base: &Base,
    protected: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, WorkspaceError> {
    let mut expected = list_tree(git, base.commit.as_str(), &[])?;
    // If the user had changed a file behind git's back before the claim, that content counts.
    let recorded = untracked::recorded(git, base.untracked.as_ref())?;
    let raw: BTreeSet<_> = recorded.keys().filter(|path| expected.contains_key(path)).collect();
    expected.retain(|path, entry| {
        entry.mode != GITLINK && !own.own(path.bytes()) && protected(&path.shown())
    });
    let (raw, cleaned): (Vec<_>, Vec<_>) = expected.keys().partition(|path| raw.contains(path));
    let source = ("GIT_ATTR_SOURCE", base.commit.as_str());
    let here = hash_with(git, Hashing::Compare, Contents::Cleaned, Some(source), cleaned)?;
    let unchanged = untracked::unchanged(git, &recorded, raw.iter().copied())?;
    let raw: BTreeSet<_> = raw.into_iter().collect();
    let differs = expected.iter().filter(|(path, entry)| match raw.contains(path) {
        true => !unchanged.contains(*path),
        false => here.get(path) != Some(entry),
    });
    Ok(differs.map(|(path, _)| path.shown()).collect())
}

pub(super) fn tree_of(git: &Git, commit: &CommitId) -> Result<TreeId, WorkspaceError> {
    git.tree_of_commit(commit)?
        .ok_or_else(|| WorkspaceError::NoSuchCommit { commit: commit.clone() })
}

pub(super) fn must_be_commit(git: &Git, commit: &CommitId) -> Result<(), WorkspaceError> {
    let kind = git.read("cat-file").args(["-t", commit.as_str()]).run()?;
    if kind.code == Some(0) && kind.stdout == b"commit\n" {
        return Ok(());
    }
    Err(WorkspaceError::NoSuchCommit { commit: commit.clone() })
}

fn stashes_since(git: &Git, since: Timestamp) -> Result<Vec<String>, WorkspaceError> {
    let output = git.read("stash").args(["list", "-z", "--format=%ct %gs"]).output()?;
    let stashes = records(&output).filter_map(|record| {
        let text = String::from_utf8_lossy(record);
        let (seconds, subject) = text.split_once(' ')?;
        let when = Timestamp::from_seconds(seconds.parse().ok()?);
        (when >= since).then(|| subject.to_owned())
    });
    Ok(stashes.collect())
}
