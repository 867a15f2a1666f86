//! Waits until the ledger or the log changes, in files or in a database.
//!
//! The files themselves show what changed; inotify only shows when to check them. So nothing is
//! missed on a network file system or on another operating system, where a check each second
//! replaces it.

use std::{
    io::{PipeReader, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use harness::home::FileStamp;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fd::OwnedFd,
    io::Errno,
};

use crate::{
    elsewhere::{Elsewhere, Seen},
    failure::{Failure, Kind, Result},
    root::StateRoot,
};

/// The interval of checks with notifications.
const TOLD: Duration = Duration::from_secs(5);
/// The interval of checks without notifications.
const UNTOLD: Duration = Duration::from_secs(1);
/// The time in which the steps of one change (log, ledger, backup) are combined.
const SETTLE: Duration = Duration::from_millis(20);

pub(crate) struct Watch {
    files: Vec<PathBuf>,
    /// The folders of the files, each once.
    folders: Vec<PathBuf>,
    seen: Vec<Option<FileStamp>>,
    notices: Option<OwnedFd>,
    database: Option<WatchedDatabase>,
}

/// A ledger in a database, which wakes the watch through a pipe.
struct WatchedDatabase {
    ledger: Elsewhere,
    seen: Seen,
    woken: PipeReader,
}

impl WatchedDatabase {
    fn of(root: &StateRoot) -> Option<Self> {
        let (woken, mut wake) = std::io::pipe().ok()?;
        // A full pipe wakes as well.
        rustix::io::ioctl_fionbio(&woken, true).ok()?;
        rustix::io::ioctl_fionbio(&wake, true).ok()?;
        let wake_up = Mutex::new(move || _ = wake.write(&[0]));
        let wake_up = move || (wake_up.lock().unwrap_or_else(PoisonError::into_inner))();
        let ledger = Elsewhere::follow(root, wake_up)?;
        Some(Self { seen: ledger.seen(), ledger, woken })
    }

    /// Returns whether it changed since the last call.
    fn look(&mut self) -> bool {
        let now = self.ledger.seen();
        std::mem::replace(&mut self.seen, now) != now
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    Changed,
    TimeIsUp,
}

impl Watch {
    /// Starts to watch. Changes between this call and [`wait`](Self::wait) are not missed.
    pub(crate) fn on(root: &Path, names: &[&str]) -> Self {
        let files: Vec<_> = names.iter().map(|name| root.join(name)).collect();
        let mut folders: Vec<_> =
            files.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect();
        folders.dedup();
        let notices = notices(&folders);
        let seen = files.iter().map(|file| stamp(file)).collect();
        Self { files, folders, seen, notices, database: None }
    }

    /// Starts to watch the ledger of `root` and these files. If the ledger is in a database, changes of
    /// other machines count too.
    pub(crate) fn on_ledger(root: &StateRoot, names: &[&str]) -> Self {
        Self { database: WatchedDatabase::of(root), ..Self::on(root.path(), names) }
    }

    /// Waits until a file changed or the time is up. It fails when nothing reads standard output
    /// any more, because a follower would otherwise wait for ever.
    pub(crate) fn wait(&mut self, at_most: Option<Duration>) -> Result<Woken> {
        let deadline = at_most.map(|time| Instant::now() + time);
        loop {
            if self.look() {
                return Ok(Woken::Changed);
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Woken::TimeIsUp);
            }
            let look = if self.notices.is_some() { TOLD } else { UNTOLD };
            if self.sleep(left.map_or(look, |left| left.min(look)))? {
                std::thread::sleep(SETTLE);
                self.drain();
                // A folder may have been created since then. Watching a folder twice does no harm.
                if let Some(notices) = &self.notices {
                    add_folders(notices, &self.folders);
                }
            }
        }
    }

    /// Returns whether anything changed since the last check.
    fn look(&mut self) -> bool {
        let now: Vec<_> = self.files.iter().map(|file| stamp(file)).collect();
        let changed = now != self.seen;
        self.seen = now;
        changed | self.database.as_mut().is_some_and(WatchedDatabase::look)
    }

    /// Returns whether a notification came before the time was over.
    fn sleep(&self, time: Duration) -> Result<bool> {
        let stdout = rustix::stdio::stdout();
        let mut polled = vec![PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
        polled.extend(self.notices.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let woken = self.database.as_ref().map(|database| &database.woken);
        polled.extend(woken.map(|fd| PollFd::new(fd, PollFlags::IN)));
        let time = Timespec::try_from(time).ok();
        match rustix::event::poll(&mut polled, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(Failure::from(std::io::Error::from(why))),
        }
        if polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return Err(Failure::new(Kind::OutputClosed, "standard output is closed"));
        }
        Ok(polled[1..].iter().any(|fd| !fd.revents().is_empty()))
    }

    fn drain(&self) {
        let mut buffer = [0; 4096];
        if let Some(notices) = &self.notices {
            while rustix::io::read(notices, &mut buffer).is_ok_and(|count| count > 0) {}
        }
        if let Some(WatchedDatabase { woken, .. }) = &self.database {
            while rustix::io::read(woken, &mut buffer).is_ok_and(|count| count > 0) {}
        }
    }
}

/// Returns the stamp of a file. The ledger gets a second name while it is written, which is no
/// change.
fn stamp(file: &Path) -> Option<FileStamp> {
    FileStamp::at(file).map(FileStamp::of_content)
}

#[cfg(target_os = "linux")]
fn notices(folders: &[PathBuf]) -> Option<OwnedFd> {
    use rustix::fs::inotify::{self, CreateFlags};
    let notices = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
    add_folders(&notices, folders).then_some(notices)
}

/// Returns whether at least one of them is watched.
#[cfg(target_os = "linux")]
fn add_folders(notices: &OwnedFd, folders: &[PathBuf]) -> bool {
    use rustix::fs::inotify::{self, WatchFlags};
    let what = WatchFlags::MODIFY
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO;
    let added = folders.iter().filter(|folder| inotify::add_watch(notices, *folder, what).is_ok());
    added.count() > 0
}

#[cfg(not(target_os = "linux"))]
fn notices(_: &[PathBuf]) -> Option<OwnedFd> {
    None
}

#[cfg(not(target_os = "linux"))]
fn add_folders(_: &OwnedFd, _: &[PathBuf]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_change_since_the_start_is_seen_at_once_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = Watch::on(dir.path(), &["a", "b"]);
        let short = Some(Duration::from_millis(1));
        assert_eq!(watch.wait(short).unwrap(), Woken::TimeIsUp);
        fs::write(dir.path().join("b"), "x").unwrap();
        assert_eq!(watch.wait(None).unwrap(), Woken::Changed);
        fs::write(dir.path().join("other"), "x").unwrap();
        assert_eq!(watch.wait(short).unwrap(), Woken::TimeIsUp);
        fs::remove_file(dir.path().join("b")).unwrap();
        assert_eq!(watch.wait(None).unwrap(), Woken::Changed);
    }

    #[test]
    fn a_file_in_a_folder_that_is_made_later_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = Watch::on(dir.path(), &["a", "below/b"]);
        fs::create_dir(dir.path().join("below")).unwrap();
        assert_eq!(watch.wait(Some(Duration::from_millis(100))).unwrap(), Woken::TimeIsUp);
        fs::write(dir.path().join("below/b"), "x").unwrap();
        assert_eq!(watch.wait(None).unwrap(), Woken::Changed);
    }
}
