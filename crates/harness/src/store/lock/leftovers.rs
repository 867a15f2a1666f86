//! What processes that died in the middle left beside the lock.

use std::{fs, path::Path, time::Duration};

use super::{
    holder,
    process::{self, Life},
};

/// Somebody in another container, whose pid means nothing here, is done with it by then.
const LEFTOVER_AGE: Duration = Duration::from_secs(10);

/// Removes it. That takes a look at all of `/tmp`, so that only who found a dead lock does it.
/// Nothing depends on it, so that errors are left alone.
pub(super) fn sweep(lock: &Path) {
    let (Some(folder), Some(name)) = (lock.parent(), lock.file_name()) else {
        return;
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let found = entry.file_name();
        let Some(rest) = found.to_str().zip(name.to_str()).and_then(|(f, n)| f.strip_prefix(n))
        else {
            continue;
        };
        if leftover_pid(rest).is_some_and(|pid| process::life(pid) == Life::Dead)
            && entry.metadata().is_ok_and(|found| found.is_dir())
            && rustix::fs::stat(entry.path()).is_ok_and(|stat| {
                stat.st_uid == rustix::process::geteuid().as_raw()
                    && holder::modified(&stat).is_some_and(|at| holder::distance(at) > LEFTOVER_AGE)
            })
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The pid in `.new.<pid>.<n>`, `.stale.<pid>.<n>`, `.done.<pid>.<n>` or a script's `.stale.<pid>`.
fn leftover_pid(rest: &str) -> Option<u32> {
    let mut parts = rest.strip_prefix('.')?.split('.');
    let kind = parts.next()?;
    let pid = parts.next()?.parse().ok()?;
    matches!(kind, "new" | "stale" | "done").then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_leftovers_are_swept() {
        assert_eq!(leftover_pid(".new.12.3"), Some(12));
        assert_eq!(leftover_pid(".stale.12"), Some(12));
        assert_eq!(leftover_pid(".done.7.0"), Some(7));
        for other in ["", ".guard", ".new", ".new.x.1", ".sock.12.3"] {
            assert_eq!(leftover_pid(other), None, "{other}");
        }
    }
}
