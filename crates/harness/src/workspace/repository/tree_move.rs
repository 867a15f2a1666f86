//! A move of the main tree that is recorded while it happens, so that one that a crash cut short is
//! recognized and brought to an end.

use std::{
    fs::{self, File},
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use harness_core::CommitId;

use super::{
    entry::{head_ref, remove_any},
    main_tree::{ALIVE, FINISHING, FOLDER, LANDING, MOVE, TWIN, is_same_file},
    tree::remove_file,
};
use crate::workspace::{
    WorkspaceError,
    git::{Git, failed},
    object::{
        Change, Contents, Entry, Hashing, Listing, absent, diff_trees, hash_files, list_tree,
    },
    own::OwnFiles,
    path::{RepoPath, records},
    preflight::UnderWay,
    restore,
    status::Look,
};

/// Whether another landing holds the lock of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Landing {
    Other,
    None,
}

/// A move of the main tree with its branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeMove {
    /// The full name of the branch.
    pub(super) reference: String,
    pub(super) from: CommitId,
    pub(super) to: CommitId,
}

impl TreeMove {
    pub(super) fn text(&self) -> String {
        format!("{} {} {}\n", self.from, self.to, self.reference)
    }

    fn read(file: &Path) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let (from, rest) = text.trim_end().split_once(' ')?;
        let (to, reference) = rest.split_once(' ')?;
        let (from, to) = (CommitId::parse(from).ok()?, CommitId::parse(to).ok()?);
        Some(Self { reference: reference.to_owned(), from, to })
    }
}

/// Removes the lock that a process of ours left behind when it was killed, and its folder, and brings
/// the tree to one of the two commits of its move. The lock of a living process stays, and so does the
/// lock of git itself. A git process that the dead one started counts as living, and a process that
/// brings the move of another one to an end counts as a landing.
pub(super) fn remove_stale_lock(git: &Git, own: &OwnFiles) -> io::Result<Landing> {
    let lock = git.git_dir.join("index.lock");
    let mut landing = Landing::None;
    for entry in fs::read_dir(&git.git_dir)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(FOLDER) {
            continue;
        }
        let folder = entry.path();
        let ours = is_same_file(&lock, &folder.join(TWIN));
        let alive = File::options().read(true).write(true).open(folder.join(ALIVE));
        let Ok(alive) = alive else { continue };
        if alive.try_lock().is_err() {
            if ours || folder.join(FINISHING).exists() {
                landing = Landing::Other;
            }
            continue;
        }
        // The lock of the index goes before the tree is whole again.
        match File::create(folder.join(FINISHING)) {
            Ok(_) => {}
            // Another process has just done it.
            Err(error) if absent(&error) => continue,
            Err(error) => return Err(error),
        }
        if ours {
            remove_any(&lock)?;
        }
        if let Some(planned) = TreeMove::read(&folder.join(MOVE))
            && let Err(why) = finish(git, own, &planned, Some(&alive))
        {
            tracing::warn!(%why, "a landing that was cut short is not finished");
        }
        remove_any(&folder)?;
    }
    Ok(landing)
}

/// Waits until git commands of the user and landings of others have ended, and removes a lock that a
/// crash of ours left. Returns whether another landing still holds the lock.
pub(super) fn wait_for_lock(git: &Git, own: &OwnFiles) -> Result<Landing, WorkspaceError> {
    let start = Instant::now();
    let lock = git.git_dir.join("index.lock");
    loop {
        let landing = remove_stale_lock(git, own)?;
        if landing == Landing::None && fs::symlink_metadata(&lock).is_err() {
            return Ok(landing);
        }
        if start.elapsed() >= LANDING {
            return match landing {
                Landing::Other => Ok(landing),
                Landing::None => Err(WorkspaceError::Locked { lock }),
            };
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Brings the main tree to the commit that its branch names, if that is one of the two commits, and if
/// every file in which the tree differs from it has its contents of one of them. Otherwise nothing is
/// touched. A lock, if there is one, lasts as long as git writes.
pub(super) fn finish(
    git: &Git,
    own: &OwnFiles,
    planned: &TreeMove,
    lock: Option<&File>,
) -> Result<(), WorkspaceError> {
    let TreeMove { reference, from, to } = planned;
    if head_ref(&git.git_dir).as_ref() != Some(reference) || UnderWay::find(git).is_some() {
        return Ok(());
    }
    let look = Look::take(git, own)?;
    let Some(tip) = look.head.as_ref().filter(|head| [from, to].contains(head)) else {
        return Ok(());
    };
    let changes = diff_trees(git, from.as_str(), to.as_str())?;
    let changed = |path: &RepoPath| changes.iter().find(|change| change.path == *path);
    let others = look.changed.iter().any(|found| changed(&found.path).is_none());
    let touched = look.changed.iter().map(|found| &found.path).chain(&look.untracked);
    let touched: Vec<_> = touched.filter_map(changed).collect();
    if others || touched.is_empty() {
        return Ok(());
    }
    let here =
        hash_files(git, Hashing::Compare, Contents::Cleaned, touched.iter().map(|c| &c.path))?;
    let indexed = indexed(git)?;
    let known = |change: &Change, entry: Option<&Entry>| {
        [change.before.as_ref(), change.after.as_ref()].contains(&entry)
    };
    let ours = |change: &&Change| {
        let in_place = |path: &RepoPath| fs::symlink_metadata(path.under(&git.top_level)).is_ok();
        let file = here.get(&change.path);
        // A folder or a device in the place of a file is no version of it.
        (file.is_some() || !in_place(&change.path))
            && known(change, file)
            && known(change, indexed.get(&change.path))
    };
    if !touched.iter().all(ours) {
        return Ok(());
    }
    settle(git, tip, &touched, lock)
}

/// Makes the files and the index entries of these paths those of `tip`.
fn settle(
    git: &Git,
    tip: &CommitId,
    touched: &[&Change],
    lock: Option<&File>,
) -> Result<(), WorkspaceError> {
    let paths: Vec<_> = touched.iter().map(|change| change.path.to_os_string()).collect();
    let wanted = list_tree(git, tip.as_str(), &paths)?;
    let (mut present, mut input) = (Vec::new(), Vec::new());
    for change in touched {
        match wanted.get(&change.path) {
            Some(entry) => {
                present.push(Change { after: Some(entry.clone()), ..(*change).clone() });
                input.extend(format!("{} {}\t", entry.mode, entry.object).into_bytes());
            }
            None => {
                remove_file(&git.top_level, &change.path)?;
                let nothing = "0".repeat(tip.as_str().len());
                input.extend(format!("0 {nothing}\t").into_bytes());
            }
        }
        input.extend(change.path.bytes());
        input.push(0);
    }
    restore::write_under(git, tip.as_str(), &present.iter().collect::<Vec<_>>(), lock)?;
    let call = git.write("update-index").args(["-z", "--index-info"]);
    call.fed(input, lock)?.output()?;
    git.write("update-index").args(["-q", "--refresh"]).run().map(drop)
}

/// Returns the entries of the user's index.
fn indexed(git: &Git) -> Result<Listing, WorkspaceError> {
    let output = git.read("ls-files").args(["-z", "--stage"]).output()?;
    let mut listing = Listing::new();
    for record in records(&output) {
        let parsed = (|| {
            let tab = record.iter().position(|byte| *byte == b'\t')?;
            let mut words = std::str::from_utf8(&record[..tab]).ok()?.split(' ');
            let (mode, object) = (words.next()?.to_owned(), words.next()?.to_owned());
            Some((RepoPath::new(&record[tab + 1..]), Entry { mode, object }))
        })();
        let (path, entry) = parsed.ok_or_else(|| failed("ls-files", b"unexpected output"))?;
        listing.insert(path, entry);
    }
    Ok(listing)
}
