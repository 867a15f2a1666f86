//! What this machine remembers of a ledger, also after a restart.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use harness_core::database::Remembered;

/// The last change that was seen, in memory and in a file.
#[derive(Debug, Default)]
pub(super) struct Memory {
    file: Option<PathBuf>,
    last: Option<Remembered>,
}

impl Memory {
    /// Returns the memory without a file.
    pub(super) fn of(last: Option<Remembered>) -> Self {
        Self { file: None, last }
    }

    /// Reads the file, if it exists.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let last = match fs::read_to_string(path) {
            Ok(text) => Remembered::parse(&text),
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            Err(why) => return Err(why),
        };
        Ok(Self { file: Some(path.to_owned()), last })
    }

    pub(super) fn last(&self) -> Option<Remembered> {
        self.last
    }

    /// Remembers a change. A file that cannot be written costs a warning.
    pub(super) fn keep(&mut self, seen: Remembered) -> Option<String> {
        if self.last == Some(seen) {
            return None;
        }
        self.last = Some(seen);
        let path = self.file.as_ref()?;
        // Processes of one clone share the file.
        let part = path.with_extension(format!("part-{}", std::process::id()));
        let written = fs::write(&part, seen.to_text()).and_then(|()| fs::rename(&part, path));
        written.err().map(|why| {
            format!(
                "the last version of the database cannot be remembered in {}: {why}",
                path.display()
            )
        })
    }
}
