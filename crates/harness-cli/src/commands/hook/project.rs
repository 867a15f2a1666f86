//! The small files of the hooks in a state root. No link is followed. Anything but a regular file
//! counts as absent for a reader, and is an error for a writer.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use harness::home::{Home, file_name, folder::Folder};
use harness_core::{Ledger, log::escape};
use sha2::{Digest, Sha256};

use crate::{log_file, root::StateRoot};

pub(super) const ACTIVE: &str = Home::MARKER;
pub(super) const REFLECT: &str = Home::REFLECT;
pub(super) const COUNTER: &str = Home::STOP_COUNTER;

const MARKER_BYTES_MAX: u64 = 1024 * 1024;
/// The size of the end of the log that is searched.
const TAIL_BYTES: u64 = 200_000;
const ERROR_CHARACTERS: usize = 500;

pub(super) struct Project<'a> {
    root: &'a StateRoot,
}

/// A marker, and the sessions it is for.
pub(super) struct Marker {
    root: PathBuf,
    name: String,
    text: String,
}

impl<'a> Project<'a> {
    pub(super) fn new(root: &'a StateRoot) -> Self {
        Self { root }
    }

    pub(super) fn root(&self) -> &StateRoot {
        self.root
    }

    pub(super) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Returns the current ledger, or why it cannot be read.
    pub(super) fn ledger(&self) -> Result<Ledger, String> {
        look(self.root)
    }

    /// Returns a marker; `None` if it does not exist, or is no regular file.
    pub(super) fn marker(&self, name: &str) -> Option<Marker> {
        let text = self.read(name)?;
        Some(Marker { root: self.path().to_owned(), name: name.to_owned(), text })
    }

    /// Removes a file of the hooks. It may be gone already.
    pub(super) fn remove(&self, name: &str) {
        // If a marker stays, the next call answers the same again. There is nothing better to do.
        _ = self.folder().map(|folder| folder.remove(name));
    }

    /// Returns the content of a file of the hooks.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        text_in(&self.folder().ok()?, name)
    }

    /// Replaces a file of the hooks in one step.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let put = || {
            // The file is written in a directory that git ignores, then moved.
            let home = self.home()?;
            let folder = self.folder()?;
            folder.has(name)?;
            let aside = format!("{name}.{}", std::process::id());
            home.put(&aside, text.as_bytes())?;
            home.put_in_place(&aside, &folder, name)
        };
        put().map_err(|why: io::Error| why.to_string())
    }

    /// Returns the content of a file in the hooks' own directory.
    pub(super) fn read_own(&self, name: &str) -> Option<String> {
        text_in(&Folder::find(&self.root.home().hooks()).ok()??, name)
    }

    pub(super) fn write_own(&self, name: &str, text: &str) -> Result<(), String> {
        let put = self.home().and_then(|home| home.put(name, text.as_bytes()));
        put.map_err(|why| why.to_string())
    }

    pub(super) fn remove_own(&self, name: &str) {
        let found = Folder::find(&self.root.home().hooks());
        _ = found.map(|home| home.map(|home| home.remove(name)));
    }

    fn folder(&self) -> io::Result<Folder> {
        Folder::open(self.path())
    }

    fn home(&self) -> io::Result<Folder> {
        let made = self.root.own_directory(file_name(Home::HOOKS));
        Folder::ours(&made.map_err(|failure| io::Error::other(failure.error))?)
    }

    /// Returns the last lines of the log. The first one may be incomplete.
    pub(super) fn log_tail(&self) -> Vec<String> {
        // Without its log, the ledger still shows what is next.
        let text = log_file::last_text(self.root, TAIL_BYTES).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Marker {
    /// Returns whether it is for every session of its root, because it is empty.
    pub(super) fn is_for_all(&self) -> bool {
        self.ids().next().is_none()
    }

    pub(super) fn names(&self, session: &str) -> bool {
        self.ids().any(|own| own == session)
    }

    /// Returns its content, for a marker that replaces it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Adds a session. A marker that was removed meanwhile is not created again.
    pub(super) fn bind(&mut self, session: &str) -> Result<(), String> {
        if self.names(session) {
            return Ok(());
        }
        let separator = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        let line = format!("{separator}{session}\n");
        let append = || -> io::Result<()> {
            let folder = Folder::open(&self.root)?;
            if !folder.has(&self.name)? {
                return Err(io::Error::new(io::ErrorKind::NotFound, "it is gone"));
            }
            folder.open_to_append(&self.name)?.write_all(line.as_bytes())
        };
        append().map_err(|why| format!("cannot write {}: {why}", self.name))?;
        self.text += &line;
        Ok(())
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty())
    }
}

/// Returns the current ledger, without a lock and without a repair.
pub(super) fn look(root: &StateRoot) -> Result<Ledger, String> {
    let seen = root.seen_text().and_then(|(text, _)| text.ledger());
    seen.map_err(|why| {
        let text = why.to_string();
        let rest = text.strip_prefix(crate::root::LEDGER).unwrap_or(&text);
        let rest = rest.trim_start_matches([':', ' ']);
        let rest = rest.strip_prefix("is ").unwrap_or(rest);
        let rest = shortened(&escape(rest), ERROR_CHARACTERS);
        format!("cannot read {}: {rest}", crate::root::LEDGER)
    })
}

/// Returns the name of a session's file. The id comes from an agent, so it must not become a path.
pub(super) fn session_file(kind: &str, session: &str) -> String {
    let hash = Sha256::digest(session.as_bytes());
    let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{kind}-{hex}")
}

/// Returns at most `characters` of a text, with dots if it was cut.
pub(super) fn shortened(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(characters.saturating_sub(3)).collect();
    kept + "..."
}

/// Returns the text; `None` if there is no regular file, or if it is too long.
fn text_in(folder: &Folder, name: &str) -> Option<String> {
    let bytes = folder.read_small(name, MARKER_BYTES_MAX).ok()??;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
