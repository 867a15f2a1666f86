//! `[keep]`: what is older goes at the end of a run.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use harness::{
    clock::{Clock, SystemClock},
    workspace::{GitWorkspace, Workspace},
};

use crate::{config::Keep, failure::Result, store::warn};

const DAY_SECONDS: u64 = 86_400;

/// A failure here says nothing about the run: it is a warning.
pub(super) fn prune(root: &Path, workspace: &GitWorkspace, keep: &Keep) {
    if let Err(failure) = rescues(workspace, keep.rescue_days) {
        warn(&format!("old rescues stay: {}", failure.error));
    }
    if let Err(why) = transcripts(&root.join(".harness/transcripts"), keep) {
        warn(&format!("old transcripts stay: {why}"));
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
    path: PathBuf,
    changed: SystemTime,
    bytes: u64,
}

/// Those that are too old, then the oldest until the rest is small enough.
fn transcripts(folder: &Path, keep: &Keep) -> io::Result<()> {
    let mut found = match list(folder) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    found.sort_by_key(|transcript| std::cmp::Reverse(transcript.changed));
    let age = Duration::from_secs(u64::from(keep.transcript_days) * DAY_SECONDS);
    let oldest = SystemTime::now().checked_sub(age);
    let most = u64::from(keep.transcript_mb) * 1_000_000;
    let mut bytes = 0_u64;
    for transcript in found {
        bytes = bytes.saturating_add(transcript.bytes);
        let old = oldest.is_some_and(|oldest| transcript.changed < oldest);
        if old || bytes > most {
            fs::remove_file(&transcript.path)?;
        }
    }
    Ok(())
}

fn list(folder: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Not through links: what is elsewhere is not ours.
        let about = fs::symlink_metadata(entry.path())?;
        if about.is_file() {
            let (path, changed) = (entry.path(), about.modified()?);
            found.push(Found { path, changed, bytes: about.len() });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
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
