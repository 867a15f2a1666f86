//! `[keep]`: older files are removed at the end of a run.

use std::{
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use harness::{
    clock::{Clock, SystemClock},
    home::{Home, folder::Folder},
    workspace::{GitWorkspace, Workspace},
};

use crate::{config::Keep, failure::Result, paint::warn};

const DAY_SECONDS: u64 = 86_400;

/// Removes old files. A failure here does not affect the run, so it is a warning.
pub(super) fn prune(root: &Path, workspace: &GitWorkspace, keep: &Keep) {
    if let Err(failure) = rescues(workspace, keep.rescue_days) {
        warn(&format!("old rescues were not removed: {}", failure.error));
    }
    if let Err(why) = transcripts(&Home::of(root).transcripts(), keep) {
        warn(&format!("old transcripts were not removed: {why}"));
    }
}

fn rescues(workspace: &GitWorkspace, days: u32) -> Result<()> {
    let now = SystemClock.now();
    for rescue in workspace.rescues(None)? {
        if now.since(rescue.when) > u64::from(days) * DAY_SECONDS {
            workspace.discard(&rescue)?;
        }
    }
    Ok(())
}

/// One transcript.
struct Found {
    name: String,
    changed_ns: i128,
    bytes: u64,
}

/// Removes the transcripts that are too old, then the oldest until the rest is small enough.
fn transcripts(folder: &Path, keep: &Keep) -> io::Result<()> {
    let Some(folder) = Folder::find(folder)? else { return Ok(()) };
    let mut found = list(&folder)?;
    found.sort_by_key(|transcript| std::cmp::Reverse(transcript.changed_ns));
    let age = Duration::from_secs(u64::from(keep.transcript_days) * DAY_SECONDS);
    let oldest = SystemTime::now().checked_sub(age);
    let oldest = oldest.and_then(|oldest| oldest.duration_since(SystemTime::UNIX_EPOCH).ok());
    let oldest_ns = oldest.and_then(|oldest| i128::try_from(oldest.as_nanos()).ok());
    let most = u64::from(keep.transcript_mb) * 1_000_000;
    let mut bytes = 0_u64;
    for transcript in found {
        bytes = bytes.saturating_add(transcript.bytes);
        let old = oldest_ns.is_some_and(|oldest| transcript.changed_ns < oldest);
        if old || bytes > most {
            folder.remove(&transcript.name)?;
        }
    }
    Ok(())
}

/// Lists the transcripts. Anything that is not a regular file is not ours.
fn list(folder: &Folder) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for name in folder.names()? {
        if !folder.has(&name).unwrap_or(false) {
            continue;
        }
        if let Some(about) = folder.identity(&name)? {
            found.push(Found { name, changed_ns: about.modified_ns, bytes: about.size });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn old_ones_go_and_then_the_oldest_until_the_rest_fits() {
        let folder = tempfile::tempdir().unwrap();
        let day = Duration::from_secs(DAY_SECONDS);
        let make = |name: &str, days: u32, bytes: usize| {
            let path = folder.path().join(name);
            fs::write(&path, vec![b'x'; bytes]).unwrap();
            let when = SystemTime::now() - day * days;
            fs::File::options().write(true).open(path).unwrap().set_modified(when).unwrap();
        };
        make("new", 0, 600_000);
        make("recent", 1, 600_000);
        make("week", 7, 10);
        make("old", 31, 10);
        std::os::unix::fs::symlink("new", folder.path().join("link")).unwrap();
        let left = || {
            let mut names: Vec<_> = fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let keep = |transcript_mb| Keep { rescue_days: 30, transcript_days: 30, transcript_mb };
        transcripts(folder.path(), &keep(500)).unwrap();
        assert_eq!(left(), ["link", "new", "recent", "week"]);
        transcripts(folder.path(), &keep(1)).unwrap();
        assert_eq!(left(), ["link", "new"]);
        transcripts(&folder.path().join("none"), &keep(1)).unwrap();
    }
}
