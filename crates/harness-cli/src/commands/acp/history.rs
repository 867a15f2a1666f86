//! The record of a session, so that it can be loaded again: one line of JSON per entry, in the user's
//! state directory.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// An entry of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// A message of the person.
    Prompt(String),
    /// The end of a turn, in words.
    Message(String),
    /// A run began, with the id of its process.
    Began(u32),
}

/// The records of all sessions.
#[derive(Debug)]
pub(super) struct History(PathBuf);

impl History {
    pub(super) fn below(state_home: &Path) -> Self {
        Self(state_home.join("harness/acp"))
    }

    /// Returns the file of a session; `None` if the name is none of ours.
    fn file(&self, session: &str) -> Option<PathBuf> {
        let id = uuid::Uuid::parse_str(session).ok()?;
        Some(self.0.join(format!("{id}.jsonl")))
    }

    pub(super) fn create(&self, session: &str) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let Some(file) = self.file(session) else { return Ok(()) };
        fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file).map(|_| ())
    }

    /// Adds an entry. A record that cannot be written costs only the replay.
    pub(super) fn add(&self, session: &str, entry: &Entry) {
        let Some(path) = self.file(session) else { return };
        let Ok(line) = serde_json::to_string(entry) else { return };
        let file = fs::OpenOptions::new().append(true).open(path);
        _ = file.and_then(|mut file| writeln!(file, "{line}"));
    }

    /// Returns the entries; `None` if there is no such session.
    pub(super) fn read(&self, session: &str) -> Option<Vec<Entry>> {
        let text = fs::read_to_string(self.file(session)?).ok()?;
        Some(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_as_it_was_written_and_no_other_file_is() {
        let home = tempfile::tempdir().unwrap();
        let history = History::below(home.path());
        let id = uuid::Uuid::now_v7().to_string();
        assert_eq!(history.read(&id), None);
        history.create(&id).unwrap();
        let entries = [Entry::Prompt("a\nb".into()), Entry::Began(7), Entry::Message("c".into())];
        entries.iter().for_each(|entry| history.add(&id, entry));
        assert_eq!(history.read(&id), Some(entries.to_vec()));
        assert_eq!(history.read("../../x"), None);
    }
}
