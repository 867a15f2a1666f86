//! Quick looks at the repository. Each uses at most one git process, and returns nothing if there
//! is no repository.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use harness_core::CommitId;

use super::{
    git::{Access, Call},
    repository::{is_worker_tree, pointed_at},
};

/// Returns HEAD of the repository around `directory`.
pub fn head(directory: &Path) -> Option<CommitId> {
    match head_at_once(directory) {
        Some(head) => head,
        None => {
            let said = rev_parse(directory, &["--verify", "--quiet", "HEAD^{commit}"])?;
            CommitId::parse(std::str::from_utf8(&said).ok()?).ok()
        }
    }
}

/// Does the same if a few small files are enough, so that no thread has to block for a git process.
/// Returns `None` if git must be asked.
pub fn head_at_once(directory: &Path) -> Option<Option<CommitId>> {
    match plain_head(directory) {
        Plain::Commit(commit) => Some(Some(commit)),
        Plain::NoRepository => Some(None),
        Plain::AskGit => None,
    }
}

/// The result of a look without git, for a host that is asked hundreds of times a second.
#[derive(Debug, PartialEq, Eq)]
enum Plain {
    Commit(CommitId),
    NoRepository,
    /// It is packed or otherwise not directly readable.
    AskGit,
}

/// Reads HEAD if it is a commit, or names a branch with its own file, in a `.git` directory of this
/// user. Everything else is left to git.
fn plain_head(directory: &Path) -> Plain {
    let Ok(directory) = directory.canonicalize() else { return Plain::AskGit };
    let Some(top) = directory.ancestors().find(|directory| is_work_tree(directory)) else {
        // A bare repository has its HEAD directly in the folder.
        let is_bare = |directory: &Path| directory.join("HEAD").symlink_metadata().is_ok();
        let bare = directory.ancestors().any(is_bare);
        return if bare { Plain::AskGit } else { Plain::NoRepository };
    };
    // If git might stop the search, or refuse the repository of another user, git must decide.
    if top != directory && env::var_os("GIT_CEILING_DIRECTORIES").is_some() {
        return Plain::AskGit;
    }
    let git = top.join(".git");
    let ours =
        |found: fs::Metadata| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !git.symlink_metadata().is_ok_and(ours) {
        return Plain::AskGit;
    }
    let line = |file: &Path| fs::read_to_string(file).ok().map(|text| text.trim_end().to_owned());
    let commit = |text: &str| CommitId::parse(text).ok().filter(|_| text.len() >= 40);
    let Some(head) = line(&git.join("HEAD")) else { return Plain::AskGit };
    let found = match head.strip_prefix("ref: ") {
        None => commit(&head),
        Some(name) if name.starts_with("refs/") && !name.contains("..") => {
            line(&git.join(name)).and_then(|text| commit(&text))
        }
        Some(_) => None,
    };
    found.map_or(Plain::AskGit, Plain::Commit)
}

/// Returns whether this is the top of a work tree: `.git` is a repository, or a file in a linked
/// work tree or a submodule. Git ignores one without a HEAD, which sandboxes leave in /tmp, and so
/// do we.
pub fn is_work_tree(directory: &Path) -> bool {
    let git = directory.join(".git");
    match git.symlink_metadata() {
        Ok(found) if found.is_dir() => git.join("HEAD").symlink_metadata().is_ok(),
        Ok(_) => true,
        Err(_) => false,
    }
}

/// Returns whether the repository at the top of `top` certainly names no other work tree. Settings
/// that are included from elsewhere are left to git.
fn is_own_work_tree(top: &Path) -> bool {
    let settings = fs::read_to_string(top.join(".git/config")).unwrap_or_default();
    let settings = settings.to_ascii_lowercase();
    !settings.is_empty()
        && !["worktree", "include", "bare = true"].iter().any(|word| settings.contains(word))
}

/// Returns the top of the worker's tree around `directory`, if it is in one. A ledger that is checked
/// out there is a copy that nothing reads.
pub fn worker_tree(directory: &Path) -> Option<&Path> {
    let tree = directory.ancestors().find(|above| is_work_tree(above))?;
    is_worker_tree(&pointed_at(tree)?).then_some(tree)
}

/// Returns the place in the main tree of the repository that belongs to a place in the tree of a worker.
pub fn in_main_tree(directory: &Path) -> Option<PathBuf> {
    let tree = worker_tree(directory)?;
    let entry = pointed_at(tree)?;
    let git = entry.parent()?.parent().filter(|git| git.ends_with(".git"))?;
    Some(git.parent()?.join(directory.strip_prefix(tree).ok()?))
}

/// Returns the top of the work tree around `directory`.
pub fn top_level(directory: &Path) -> Option<PathBuf> {
    let place = directory.canonicalize().ok()?;
    let top = place.ancestors().find(|folder| is_work_tree(folder));
    if let Some(top) = top
        && matches!(plain_head(top), Plain::Commit(_))
        && is_own_work_tree(top)
    {
        return Some(top.to_owned());
    }
    rev_parse(directory, &["--show-toplevel"]).map(|said| OsString::from_vec(said).into())
}

/// Returns whether `other` is a work tree of the repository around `own`, according to that
/// repository's list. A folder is a work tree of itself.
pub fn is_work_tree_of(own: &Path, other: &Path) -> bool {
    let (Ok(own), Ok(other)) = (own.canonicalize(), other.canonicalize()) else { return false };
    if own == other {
        return true;
    }
    let call = Call::anywhere(&own, Access::Read, "worktree").args(["list", "--porcelain", "-z"]);
    let Some(ran) = call.run().ok().filter(|ran| ran.code == Some(0)) else { return false };
    let listed = ran.stdout.split(|byte| *byte == 0);
    let mut paths = listed.filter_map(|line| line.strip_prefix(b"worktree "));
    paths.any(|path| {
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        path.canonicalize().is_ok_and(|path| path == other)
    })
}

/// Returns which of `paths`, relative to `directory`, git tracks, or has tracked files below;
/// `None` if that is unknown. Without a repository nothing is tracked.
pub fn tracked(directory: &Path, paths: &[&str]) -> Option<BTreeSet<String>> {
    let place = directory.canonicalize().ok()?;
    if !place.ancestors().any(is_work_tree) {
        return Some(BTreeSet::new());
    }
    let call = Call::anywhere(&place, Access::Read, "ls-files").args(["-z", "--"]).args(paths);
    let ran = call.run().ok()?;
    if ran.code != Some(0) {
        let words = String::from_utf8_lossy(&ran.stderr);
        return words.contains("not a git repository").then(BTreeSet::new);
    }
    let found: Vec<_> = ran.stdout.split(|byte| *byte == 0).collect();
    let is_tracked = |path: &&&str| {
        let below = format!("{path}/");
        found.iter().any(|name| *name == path.as_bytes() || name.starts_with(below.as_bytes()))
    };
    Some(paths.iter().filter(is_tracked).map(|path| (*path).to_owned()).collect())
}

/// Returns at most `most` files below `directory` that git does not ignore, as paths from there.
/// The list is empty if there is no repository, or if git fails.
pub fn files(directory: &Path, most: usize) -> Vec<String> {
    let call = Call::anywhere(directory, Access::Read, "ls-files");
    let call = call.args(["-z", "--cached", "--others", "--exclude-standard"]);
    let Some(ran) = call.run().ok().filter(|ran| ran.code == Some(0)) else { return Vec::new() };
    let names = ran.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()).take(most);
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Returns the programs behind content filters, as `name.key = command`. The list is empty if there
/// is no repository.
pub fn filters(directory: &Path) -> Vec<String> {
    let call = Call::anywhere(directory, Access::Read, "config").args(["--null", "--get-regexp"]);
    let Ok(ran) = call.arg(r"^filter\..*\.(clean|smudge|process)$").run() else {
        return Vec::new();
    };
    let set = ran.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let shown = set.map(|entry| String::from_utf8_lossy(entry).replacen('\n', " = ", 1));
    shown.collect()
}

fn rev_parse(directory: &Path, words: &[&str]) -> Option<Vec<u8>> {
    let call = Call::anywhere(directory, Access::Read, "rev-parse");
    let call = words.iter().fold(call, |call, word| call.arg(*word));
    let ran = call.run().ok().filter(|ran| ran.code == Some(0))?;
    let mut said = ran.stdout;
    if said.last() == Some(&b'\n') {
        said.pop();
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const COMMIT: &str = "9fceb02d0ae598e95dc970b74767f19372d61af8";

    #[test]
    fn tracked_files_are_distinguished_from_others() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let git = |args: &[&str]| {
            let ran = std::process::Command::new("git").args(args).current_dir(&root).output();
            assert!(ran.unwrap().status.success(), "git {args:?}");
        };
        let paths = ["harness.toml", "sub/prompts", "sub"];
        git(&["init", "--quiet"]);
        fs::create_dir_all(root.join("sub/prompts")).unwrap();
        fs::write(root.join("harness.toml"), "").unwrap();
        fs::write(root.join("sub/prompts/task.md"), "").unwrap();
        assert_eq!(tracked(&root, &paths), Some(BTreeSet::new()));
        git(&["add", "sub/prompts/task.md"]);
        let expected = ["sub/prompts", "sub"].map(str::to_owned);
        assert_eq!(tracked(&root, &paths), Some(expected.into()));
        fs::write(root.join(".git/index"), "broken").unwrap();
        assert_eq!(tracked(&root, &paths), None, "git cannot tell");
    }

    #[test]
    fn head_is_read_where_it_is_plain_and_left_to_git_elsewhere() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        // If the temporary directory lies in a repository, this test proves nothing.
        if plain_head(&root) != Plain::NoRepository {
            return;
        }
        let write = |name: &str, text: &str| {
            let file = root.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        fs::create_dir(root.join(".git")).unwrap();
        assert_eq!(plain_head(&root), Plain::NoRepository, "git passes over it too");
        write(".git/HEAD", "ref: refs/heads/main\n");
        assert_eq!(plain_head(&root), Plain::AskGit, "no commit yet, or a packed one");
        write(".git/refs/heads/main", &format!("{COMMIT}\n"));
        let commit = Plain::Commit(CommitId::parse(COMMIT).unwrap());
        assert_eq!(plain_head(&root), commit);
        write(".git/HEAD", &format!("{COMMIT}\n"));
        assert_eq!(plain_head(&root), commit);
        for strange in ["ref: refs/../x", "ref: other", "abc", ""] {
            write(".git/HEAD", strange);
            assert_eq!(plain_head(&root), Plain::AskGit, "{strange:?}");
        }
    }
}
