//! The small files of the hooks in a state root. None is reached through a link, and what is not a
//! regular file is as good as absent to a reader and an error to a writer.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use harness_core::{Ledger, log::escape};

use crate::root::StateRoot;

pub(super) const ACTIVE: &str = ".harness-active";
pub(super) const REFLECT: &str = ".harness-reflect";
pub(super) const COUNTER: &str = ".harness-stop-counter";
/// Below `.harness`.
const HOME: &str = "hooks";

const MARKER_BYTES_MAX: u64 = 1024 * 1024;
/// How much of the end of the log is looked at.
const TAIL_BYTES: u64 = 200_000;
const ERROR_CHARACTERS: usize = 500;

pub(super) struct Project<'a> {
    root: &'a StateRoot,
}

/// A marker and the sessions it is for.
pub(super) struct Marker {
    path: PathBuf,
    text: String,
}

impl<'a> Project<'a> {
    pub(super) fn new(root: &'a StateRoot) -> Self {
        Self { root }
    }

    pub(super) fn path(&self) -> &Path {
        self.root.path()
    }

    /// The ledger as it stands, or why it can not be read.
    pub(super) fn ledger(&self) -> Result<Ledger, String> {
        look(self.root)
    }

    /// `None`: it is not there, or is something else than a file of ours.
    pub(super) fn marker(&self, name: &str) -> Option<Marker> {
        let path = self.root.path().join(name);
        let text = read_small(&path, MARKER_BYTES_MAX).ok()??;
        Some(Marker { path, text })
    }

    /// Removes a file of the hooks; one that is not there is removed already.
    pub(super) fn remove(&self, name: &str) {
        // A marker that stays makes the next call say the same again; nobody can do more about it.
        _ = fs::remove_file(self.root.path().join(name));
    }

    /// The content of a file of the hooks.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        read_small(&self.root.path().join(name), MARKER_BYTES_MAX).ok()?
    }

    /// Puts a file of the hooks in place at once.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        self.put(&self.root.path().join(name), name, text)
    }

    /// The content of a file in the hooks' own directory.
    pub(super) fn read_own(&self, name: &str) -> Option<String> {
        let home = self.root.path().join(".harness").join(HOME);
        // No directory on the way may be a link.
        let ours = [self.root.path().join(".harness"), home.clone()];
        let real = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        if !ours.iter().all(real) {
            return None;
        }
        read_small(&home.join(name), MARKER_BYTES_MAX).ok()?
    }

    pub(super) fn write_own(&self, name: &str, text: &str) -> Result<(), String> {
        let home = self.root.own_directory(HOME).map_err(|failure| failure.error)?;
        self.put(&home.join(name), name, text)
    }

    pub(super) fn remove_own(&self, name: &str) {
        self.remove(&format!(".harness/{HOME}/{name}"));
    }

    /// Written aside in a directory that git ignores, then renamed.
    fn put(&self, path: &Path, name: &str, text: &str) -> Result<(), String> {
        if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(format!("{name} is not a regular file: remove it"));
        }
        let home = self.root.own_directory(HOME).map_err(|failure| failure.error)?;
        let put = || -> io::Result<()> {
            let mut made = tempfile::NamedTempFile::new_in(&home)?;
            made.write_all(text.as_bytes())?;
            made.persist(path).map_err(|failed| failed.error)?;
            Ok(())
        };
        put().map_err(|why| format!("can not write {name}: {why}"))
    }

    /// The last lines of the log. The first one may have lost its beginning.
    pub(super) fn log_tail(&self) -> Vec<String> {
        let tail = || -> io::Result<Vec<u8>> {
            let Some(mut log) = harness::store::open_log(self.root.path())? else {
                return Ok(Vec::new());
            };
            let start = log.metadata()?.len().saturating_sub(TAIL_BYTES);
            log.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            log.take(TAIL_BYTES).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        // Without its log a ledger still says what is next.
        let bytes = tail().unwrap_or_default();
        String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
    }
}

impl Marker {
    /// An empty one is for every session of its root.
    pub(super) fn is_for(&self, session: Option<&str>) -> bool {
        self.ids().next().is_none() || session.is_some_and(|id| self.ids().any(|own| own == id))
    }

    /// What it holds, for a marker that takes its place.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Adds a session. One that was removed meanwhile does not come back.
    pub(super) fn bind(&mut self, session: &str) -> Result<(), String> {
        if self.ids().any(|own| own == session) {
            return Ok(());
        }
        let separator = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        let line = format!("{separator}{session}\n");
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        let opened = options.append(true).custom_flags(flags).open(&self.path);
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|why| format!("can not write {}: {why}", self.path.display()))?;
        self.text += &line;
        Ok(())
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty())
    }
}

/// The ledger as it stands: no lock, no repair.
pub(super) fn look(root: &StateRoot) -> Result<Ledger, String> {
    harness::store::look(root.path()).map_err(|why| {
        let text = why.to_string();
        let rest = text.strip_prefix(crate::root::LEDGER).unwrap_or(&text);
        let rest = rest.trim_start_matches([':', ' ']);
        let rest = rest.strip_prefix("is ").unwrap_or(rest);
        let rest = shortened(&escape(rest), ERROR_CHARACTERS);
        format!("cannot read {}: {rest}", crate::root::LEDGER)
    })
}

/// At most `characters` of a text, and whether there was more.
pub(super) fn shortened(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(characters.saturating_sub(3)).collect();
    kept + "..."
}

/// `None` where there is no regular file. What is too long is an error; a pipe is never opened.
fn read_small(path: &Path, bytes_max: u64) -> io::Result<Option<String>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file: File = match opened {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other("it is too long"));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
