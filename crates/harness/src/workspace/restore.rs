//! Restores a rescue without overwriting anything.

use std::{collections::BTreeSet, fs, path::Path};

use harness_core::CommitId;

use super::{
    Rescue, WorkspaceError,
    filter::refuse_silenced,
    git::Git,
    index::PrivateIndex,
    object::{Change, Contents, GITLINK, Hashing, behind_link, diff_trees, hash_files, tree_id},
    own::OwnFiles,
    path::{RepoPath, nul_separated, records},
    rescue::{BASE_TRAILER, resolve},
    undo::without_merge_drivers,
};

/// Returns the commit that a rescue is compared with: the base of the attempt, or the parent.
fn base_of(git: &Git, rescue: &Rescue) -> Result<String, WorkspaceError> {
    let call = git.read("log").args(["--max-count=1", "--format=%B"]);
    let message = call.arg(rescue.commit.as_str()).line()?;
    let base = message.lines().find_map(|line| line.strip_prefix(BASE_TRAILER));
    Ok(base.map_or_else(|| format!("{}^", rescue.commit), str::to_owned))
}

/// Returns the base of the attempt whose work was saved, if the rescue names it.
pub(super) fn base_of_rescue(
    git: &Git,
    rescue: &Rescue,
) -> Result<Option<CommitId>, WorkspaceError> {
    let base = base_of(git, rescue)?;
    Ok(CommitId::parse(&base).ok())
}

fn changes(git: &Git, own: &OwnFiles, rescue: &Rescue) -> Result<Vec<Change>, WorkspaceError> {
    let mut changes = diff_trees(git, &base_of(git, rescue)?, rescue.commit.as_str())?;
    changes.retain(|change| !own.own(change.path.bytes()) && !is_gitlink(change));
    Ok(changes)
}

fn is_gitlink(change: &Change) -> bool {
    [&change.before, &change.after].into_iter().flatten().any(|entry| entry.mode == GITLINK)
}

/// Writes the files that a rescue changed or added into a directory that is empty or not there.
pub(super) fn copy_to(
    git: &Git,
    own: &OwnFiles,
    rescue: &Rescue,
    directory: &Path,
) -> Result<Vec<String>, WorkspaceError> {
    let in_the_way = match fs::read_dir(directory) {
        Ok(mut found) => found.next().is_some(),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => false,
        Err(why) => return Err(why.into()),
    };
    if in_the_way {
        return Err(WorkspaceError::Unsafe {
            what: format!("{} is not empty", directory.display()),
            hint: "name a directory that is not there yet".to_owned(),
        });
    }
    fs::create_dir_all(directory)?;
    let mut prefix = directory.canonicalize()?.into_os_string();
    prefix.push("/");
    let changes = changes(git, own, rescue)?;
    refuse_silenced(git, None, changes.iter().map(|change| &change.path))?;
    let written = changes.iter().filter(|change| change.after.is_some());
    let written: BTreeSet<_> = written.map(|change| change.path.clone()).collect();
    if !written.is_empty() {
        let index = PrivateIndex::scratch(git)?;
        index.read_tree(git, rescue.commit.as_str())?;
        let mut option = std::ffi::OsString::from("--prefix=");
        option.push(prefix);
        let call = git.write("checkout-index").index(index.file()).arg(option);
        let call = call.args(["--quiet", "-z", "--stdin"]);
        call.input(nul_separated(&written)).output()?;
    }
    Ok(written.iter().map(RepoPath::shown).collect())
}

/// Makes a branch whose tip is the rescue.
pub(super) fn branch(git: &Git, rescue: &Rescue, name: &str) -> Result<(), WorkspaceError> {
    let reference = format!("refs/heads/{name}");
    let good = git.read("check-ref-format").arg(&reference).answer()?;
    if !good || name.starts_with('-') {
        return Err(WorkspaceError::Unsafe {
            what: format!("{name:?} is no name of a branch"),
            hint: "use letters, digits, `-`, `_` and `/`".to_owned(),
        });
    }
    if resolve(git, &reference)?.is_some() {
        return Err(WorkspaceError::Unsafe {
            what: format!("the branch {name} exists already"),
            hint: "choose another name, or delete it with `git branch -D`".to_owned(),
        });
    }
    let call = git.write("update-ref").args(["-m", "harness: rescue", &reference]);
    let none = "0".repeat(rescue.commit.as_str().len());
    call.args([rescue.commit.as_str(), &none]).output().map(drop)
}

pub(super) fn show(git: &Git, own: &OwnFiles, rescue: &Rescue) -> Result<String, WorkspaceError> {
    diff(git, own, &base_of(git, rescue)?, rescue.commit.as_str())
}

/// Returns the changes from one commit to another, without harness's own files.
pub(super) fn diff(
    git: &Git,
    own: &OwnFiles,
    from: &str,
    to: &str,
) -> Result<String, WorkspaceError> {
    let call = git.read("diff-tree").args(["--stat", "--patch", "--no-ext-diff", "--no-textconv"]);
    let call = call.args(["--no-color", from, to, "--"]);
    // A rescue leaves our files out, which would look like their deletion.
    let call = call.env("GIT_LITERAL_PATHSPECS", "0").arg(":(top)");
    let ours = own.pathspecs().into_iter().map(|path| {
        let mut excluded = std::ffi::OsString::from(":(top,exclude,literal)");
        excluded.push(path);
        excluded
    });
    Ok(String::from_utf8_lossy(&call.args(ours).output()?).into_owned())
}

pub(super) fn restore(
    git: &Git,
    own: &OwnFiles,
    rescue: &Rescue,
) -> Result<Vec<String>, WorkspaceError> {
    let changes = changes(git, own, rescue)?;
    refuse_silenced(git, None, changes.iter().map(|change| &change.path))?;
    let paths = changes.iter().map(|change| &change.path);
    let here = hash_files(git, Hashing::Compare, Contents::Cleaned, paths)?;
    let mut in_danger = Vec::new();
    let mut wanted = Vec::new();
    for change in &changes {
        let current = here.get(&change.path);
        if current == change.after.as_ref() && !occupied(git, change, current.is_some()) {
            continue;
        }
        if current != change.before.as_ref() || occupied(git, change, current.is_some()) {
            in_danger.push(change.path.shown());
        }
        wanted.push(change);
    }
    if !in_danger.is_empty() {
        return merge(git, own, rescue, in_danger);
    }
    write(git, rescue.commit.as_str(), &wanted)
}

/// Later commits changed files of the rescue: what it did is merged into HEAD, without a commit. A
/// file that is not as HEAD has it is not touched.
fn merge(
    git: &Git,
    own: &OwnFiles,
    rescue: &Rescue,
    in_danger: Vec<String>,
) -> Result<Vec<String>, WorkspaceError> {
    let git = &without_merge_drivers(git)?;
    let call = git.write("merge-tree").args(["--write-tree", "-z", "--name-only", "--no-messages"]);
    let call = call.arg(format!("--merge-base={}", base_of(git, rescue)?));
    let ran = call.args(["HEAD", rescue.commit.as_str()]).run()?;
    let mut fields = records(&ran.stdout);
    let tree = match (ran.code, fields.next()) {
        (Some(0), Some(tree)) => tree_id(&String::from_utf8_lossy(tree))?,
        (Some(1), Some(_)) => {
            let files = fields.map(|path| RepoPath::new(path).shown()).collect();
            return Err(WorkspaceError::Conflicts { files });
        }
        // An option that git does not know: older than 2.40.
        (_, _) => return Err(WorkspaceError::WouldOverwrite { files: in_danger }),
    };
    let mut changes = diff_trees(git, "HEAD", tree.as_str())?;
    changes.retain(|change| !own.own(change.path.bytes()) && !is_gitlink(change));
    refuse_silenced(git, None, changes.iter().map(|change| &change.path))?;
    let paths = changes.iter().map(|change| &change.path);
    let here = hash_files(git, Hashing::Compare, Contents::Cleaned, paths)?;
    let (mut wanted, mut in_danger) = (Vec::new(), Vec::new());
    for change in &changes {
        let current = here.get(&change.path);
        let occupied = occupied(git, change, current.is_some());
        if current == change.after.as_ref() && !occupied {
            continue;
        }
        if current != change.before.as_ref() || occupied {
            in_danger.push(change.path.shown());
        }
        wanted.push(change);
    }
    if !in_danger.is_empty() {
        return Err(WorkspaceError::WouldOverwrite { files: in_danger });
    }
    write(git, tree.as_str(), &wanted)
}

/// Makes the files what `tree` has, or removes them.
pub(super) fn write(
    git: &Git,
    tree: &str,
    wanted: &[&Change],
) -> Result<Vec<String>, WorkspaceError> {
    write_under(git, tree, wanted, None)
}

/// Does the same under a lock, if there is one, which lasts as long as git writes.
pub(super) fn write_under(
    git: &Git,
    tree: &str,
    wanted: &[&Change],
    lock: Option<&fs::File>,
) -> Result<Vec<String>, WorkspaceError> {
    let (written, removed): (Vec<&Change>, Vec<&Change>) =
        wanted.iter().copied().partition(|change| change.after.is_some());
    for change in &removed {
        let file = change.path.under(&git.top_level);
        if fs::symlink_metadata(&file).is_ok() {
            fs::remove_file(file)?;
        }
    }
    let written: BTreeSet<_> = written.iter().map(|change| change.path.clone()).collect();
    if !written.is_empty() {
        let index = PrivateIndex::scratch(git)?;
        index.read_tree(git, tree)?;
        let call = git.write("checkout-index").index(index.file());
        let call = call.args(["--force", "--quiet", "-z", "--stdin"]);
        call.fed(nul_separated(&written), lock)?.output()?;
    }
    Ok(written.iter().map(RepoPath::shown).collect())
}

/// Returns whether there is something other than a file at the path, or something other than a
/// folder above it.
fn occupied(git: &Git, change: &Change, is_file: bool) -> bool {
    let found = fs::symlink_metadata(change.path.under(&git.top_level));
    behind_link(git, &change.path) || (found.is_ok() && !is_file)
}
