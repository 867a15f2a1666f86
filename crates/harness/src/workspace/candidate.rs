//! The tree that a commit would contain now, and the effect of a check on it.
//!
//! The committed tree is exactly the one that a passing check began with. So the tree is computed
//! before the check and compared after it. If nothing changed, the comparison is one look at the
//! repository and at the files that are in no commit yet.

use std::{collections::BTreeSet, fs, sync::Arc, time::SystemTime};

use harness_core::{CommitId, TreeId};

use super::{
    Base, Candidate, Settled, WorkspaceError,
    filter::refuse_silenced,
    fingerprint::{Print, print},
    git::{Git, failed},
    hidden,
    index::PrivateIndex,
    object::{Change, GITLINK, Listing, absent, diff_trees, list_tree},
    own::OwnFiles,
    path::{RepoPath, nul_separated},
    status::Look,
    untracked,
};
use crate::home::FileStamp;

/// The last computed candidate, so that a second look can be cheap.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) tree: TreeId,
    pub(super) look: Look,
    /// The index that contains the tree.
    pub(super) index: Option<Arc<PrivateIndex>>,
    /// Files that stay untracked when the tree is committed; `None` if they are not easily known.
    stay: Option<Vec<RepoPath>>,
    stamps: Vec<Option<FileStamp>>,
    /// Files so young that their stamps may stay the same when they change, with a print of their
    /// contents.
    young: Vec<(RepoPath, Print)>,
}

impl Known {
    /// Computes the tree from scratch.
    pub(super) fn take(
        git: &Git,
        own: &OwnFiles,
        base: &Base,
        look: Look,
    ) -> Result<(Self, Arc<Listing>), WorkspaceError> {
        let now = SystemTime::now();
        let stamps = stamps(git, &look);
        let mut young = Vec::new();
        for (path, stamp) in paths(&look).zip(&stamps) {
            if stamp.is_some_and(|stamp| stamp.is_young(now)) {
                young.push((path.clone(), print(git, path)?));
            }
        }
        let recorded = untracked::recorded(git, base.untracked.as_ref())?;
        let Built { tree, index, stay } = build(git, own, &recorded, &look)?;
        Ok((Self { tree, look, index, stay, stamps, young }, recorded))
    }

    /// Returns whether a new look at the same work tree would give the same tree.
    fn still_holds(&self, git: &Git, look: &Look) -> bool {
        let same =
            |(path, known): &(RepoPath, Print)| print(git, path).is_ok_and(|print| print == *known);
        self.look == *look && self.stamps == stamps(git, look) && self.young.iter().all(same)
    }

    /// Returns the result of a look after the tree was committed and nothing else happened.
    pub(super) fn committed(&self, base: &Base, commit: &CommitId) -> Option<Look> {
        let untracked = self.stay.clone().filter(|_| self.look.branch == base.branch)?;
        let head = Some(commit.clone());
        Some(Look { head, changed: Vec::new(), untracked, ..self.look.clone() })
    }
}

fn paths(look: &Look) -> impl Iterator<Item = &RepoPath> {
    look.changed.iter().map(|changed| &changed.path).chain(&look.untracked)
}

fn stamps(git: &Git, look: &Look) -> Vec<Option<FileStamp>> {
    paths(look).map(|path| FileStamp::at(&path.under(&git.top_level))).collect()
}

pub(super) fn candidate(
    git: &Git,
    own: &OwnFiles,
    base: &Base,
    look: Look,
) -> Result<(Known, Candidate), WorkspaceError> {
    let (known, recorded) = Known::take(git, own, base, look)?;
    let hidden = hidden::hidden(git, own, base, &known.look, &recorded)?;
    let candidate = Candidate { tree: known.tree.clone(), hidden };
    Ok((known, candidate))
}

/// Compares the current state with `before`, the candidate before a check. Files that are new since
/// are removed.
pub(super) fn settle(
    git: &Git,
    own: &OwnFiles,
    base: &Base,
    before: &TreeId,
    known: Option<&Known>,
    look: Look,
) -> Result<(Known, Settled), WorkspaceError> {
    let known = known.filter(|known| known.tree == *before);
    if let Some(known) = known
        && known.still_holds(git, &look)
    {
        let settled = Settled { tree: before.clone(), changed: Vec::new(), moved: false };
        return Ok((known.clone(), settled));
    }
    let moved = known.is_none_or(|known| known.look.head != look.head);
    let (mut now, recorded) = Known::take(git, own, base, look)?;
    let changes = difference(git, own, before, &now.tree)?;
    // If HEAD moved, a new file may belong to another program. It stays, and the current tree is
    // judged again.
    let (new, mut changed): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.before.is_none() && !moved);
    if !new.is_empty() {
        remove(git, &recorded, &new)?;
        let look = Look::take(git, own)?;
        now = Known::take(git, own, base, look)?.0;
        changed = difference(git, own, before, &now.tree)?;
    }
    let changed = changed.iter().map(|change| change.path.shown()).collect();
    let moved = moved && now.tree != *before;
    let settled = Settled { tree: now.tree.clone(), changed, moved };
    Ok((now, settled))
}

/// Compares the current state with `before`, in a work tree that others use too. Nothing is
/// touched.
pub(super) fn compare(
    git: &Git,
    own: &OwnFiles,
    base: &Base,
    before: &TreeId,
    known: Option<&Known>,
) -> Result<(Known, Settled), WorkspaceError> {
    let look = Look::take(git, own)?;
    let known = known.filter(|known| known.tree == *before);
    if let Some(known) = known
        && known.still_holds(git, &look)
    {
        let settled = Settled { tree: before.clone(), changed: Vec::new(), moved: false };
        return Ok((known.clone(), settled));
    }
    let moved = known.is_some_and(|known| known.look.head != look.head);
    let now = Known::take(git, own, base, look)?.0;
    let mut changed = difference(git, own, before, &now.tree)?;
    changed.retain(|change| change.before.is_some());
    let changed: Vec<_> = changed.iter().map(|change| change.path.shown()).collect();
    let moved = moved && !changed.is_empty();
    let settled = Settled { tree: now.tree.clone(), changed, moved };
    Ok((now, settled))
}

/// Restores the files that a commit would contain to those of `tree`.
pub(super) fn put_back(
    git: &Git,
    own: &OwnFiles,
    base: &Base,
    tree: &TreeId,
) -> Result<(Known, Vec<String>), WorkspaceError> {
    let look = Look::take(git, own)?;
    let (mut now, recorded) = Known::take(git, own, base, look)?;
    let changes = difference(git, own, tree, &now.tree)?;
    if changes.is_empty() {
        return Ok((now, Vec::new()));
    }
    let (new, changed): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.before.is_none());
    remove(git, &recorded, &new)?;
    write(git, tree.as_str(), changed.iter().map(|change| &change.path))?;
    let look = Look::take(git, own)?;
    now = Known::take(git, own, base, look)?.0;
    if now.tree != *tree {
        return Err(failed("checkout-index", b"the files change while they are restored"));
    }
    let paths: BTreeSet<_> = new.iter().chain(&changed).map(|c| c.path.shown()).collect();
    Ok((now, paths.into_iter().collect()))
}

/// Writes files of a tree into the work tree, whatever is there.
pub(super) fn write<'a>(
    git: &Git,
    tree: &str,
    paths: impl IntoIterator<Item = &'a RepoPath>,
) -> Result<(), WorkspaceError> {
    let paths = nul_separated(paths);
    if paths.is_empty() {
        return Ok(());
    }
    let index = PrivateIndex::scratch(git)?;
    index.read_tree(git, tree)?;
    let call = git.write("checkout-index").index(index.file());
    call.args(["--force", "--quiet", "-z", "--stdin"]).input(paths).output().map(drop)
}

/// Returns the differences, except in submodules, whose checked-out commits are not ours.
fn difference(
    git: &Git,
    own: &OwnFiles,
    before: &TreeId,
    after: &TreeId,
) -> Result<Vec<Change>, WorkspaceError> {
    let gitlink = |change: &Change| {
        [&change.before, &change.after].into_iter().flatten().any(|entry| entry.mode == GITLINK)
    };
    let mut changes = diff_trees(git, before.as_str(), after.as_str())?;
    changes.retain(|change| !own.own(change.path.bytes()) && !gitlink(change));
    Ok(changes)
}

/// Removes files, and the folders that are empty afterwards.
fn remove(git: &Git, recorded: &Listing, new: &[Change]) -> Result<(), WorkspaceError> {
    for change in new {
        match fs::remove_file(change.path.under(&git.top_level)) {
            Err(error) if !absent(&error) => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        let parents: Vec<_> = change.path.parents().collect();
        for parent in parents.iter().rev() {
            let stays = recorded.contains_key(parent);
            if stays || fs::remove_dir(parent.under(&git.top_level)).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// A tree, and the index in which it was computed.
struct Built {
    tree: TreeId,
    index: Option<Arc<PrivateIndex>>,
    stay: Option<Vec<RepoPath>>,
}

/// Builds the tree of everything except our files and untracked files from before the claim (unless
/// the agent committed them itself).
fn build(
    git: &Git,
    own: &OwnFiles,
    recorded: &Listing,
    look: &Look,
) -> Result<Built, WorkspaceError> {
    let earlier = |path: &RepoPath| recorded.contains_key(path);
    let staged: Vec<_> =
        look.changed.iter().map(|changed| &changed.path).filter(|path| earlier(path)).collect();
    let ours_tracked = !look.ours.is_empty() || git.tracked()?.is_none_or(|tracked| tracked.ours);
    if staged.is_empty() && !ours_tracked {
        return build_plain(git, recorded, look);
    }
    let ours = own.pathspecs();
    // Usually no earlier file is staged. The whole of HEAD is listed only if one is.
    let mut committed = list_tree(git, "HEAD", if staged.is_empty() { &ours } else { &[] })?;
    committed.retain(|path, _| own.own(path.bytes()) || staged.contains(&path));
    let wanted: Vec<_> =
        look.unstaged().filter(|path| !earlier(path) || committed.contains_key(path)).collect();
    refuse_silenced(git, None, wanted.iter().copied())?;
    let index = PrivateIndex::copy_of_users(git)?;
    index.drop_ours(git, own)?;
    index.remove(git, staged)?;
    index.set(git, &committed)?;
    index.take(git, wanted)?;
    let tree = index.write_tree(git)?;
    Ok(Built { tree, index: Some(Arc::new(index)), stay: None })
}

/// Builds the tree for the case that no file of ours is tracked and no earlier file is staged.
fn build_plain(git: &Git, recorded: &Listing, look: &Look) -> Result<Built, WorkspaceError> {
    let earlier = |path: &&RepoPath| recorded.contains_key(*path);
    let stay = Some(look.untracked.iter().filter(earlier).cloned().collect());
    let wanted: Vec<_> = look.unstaged().filter(|path| !earlier(path)).collect();
    if wanted.is_empty() && look.changed.is_empty() {
        return Ok(Built { tree: git.tree_of(&look.commit()?)?, index: None, stay });
    }
    refuse_silenced(git, None, wanted.iter().copied())?;
    let index = PrivateIndex::copy_of_users(git)?;
    index.take(git, wanted)?;
    let tree = index.write_tree(git)?;
    Ok(Built { tree, index: Some(Arc::new(index)), stay })
}
