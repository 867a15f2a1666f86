//! Leftovers of killed processes: private indexes, and checkouts that are no longer in use.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{
    checkout::{LOCK, PREFIX},
    git::Git,
    index::SCRATCH,
};

/// An age that no call of ours reaches.
const SCRATCH_AGE: Duration = Duration::from_secs(3600);
/// The age limit for a checkout without a lock, as earlier versions made them.
const CHECKOUT_AGE: Duration = Duration::from_secs(24 * 3600);

/// Removes them, and returns their number. Anything that cannot be removed stays.
pub(super) fn sweep(git: &Git) -> usize {
    let scratch = |path: &Path| older(path, SCRATCH_AGE) && fs::remove_dir_all(path).is_ok();
    let swept = each(&git.git_dir, SCRATCH, scratch);
    swept + each(&std::env::temp_dir(), PREFIX, |path| abandoned(path) && remove(git, path))
}

fn each(folder: &Path, prefix: &str, act: impl Fn(&Path) -> bool) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let named = entries.flatten().filter(|entry| {
        entry.file_name().to_string_lossy().starts_with(prefix)
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    named.filter(|entry| act(&entry.path())).count()
}

fn older(path: &Path, age: Duration) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|past| past >= age))
}

/// Returns whether this is a checkout of this user whose lock nothing holds.
fn abandoned(path: &Path) -> bool {
    let ours = |found: fs::Metadata| found.uid() == rustix::process::geteuid().as_raw();
    if !fs::symlink_metadata(path).is_ok_and(ours) {
        return false;
    }
    match File::open(path.join(LOCK)) {
        // A checkout that is just being created is not locked yet.
        Ok(lock) => lock.try_lock().is_ok() && older(path, Duration::from_secs(60)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => older(path, CHECKOUT_AGE),
        Err(_) => false,
    }
}

/// Removes the checkout and its entry among the work trees, if an earlier version made one.
fn remove(git: &Git, path: &Path) -> bool {
    let linked = fs::read_to_string(path.join("tree/.git")).unwrap_or_default();
    let entry = linked.strip_prefix("gitdir: ").map(|entry| Path::new(entry.trim_end()).to_owned());
    let removed = fs::remove_dir_all(path).is_ok();
    if let Some(entry) = entry.filter(|e| e.parent() == Some(&*git.common_dir().join("worktrees")))
    {
        let _ = fs::remove_dir_all(entry);
    }
    removed
}
