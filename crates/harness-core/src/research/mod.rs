//! The research inbox: from the answers of search tools to stored sources.
//!
//! `extract.rs` finds the sources in one answer, this file stores them without duplicates, and
//! `overview.rs` renders the page that an agent reads. Nothing here knows where the files are.

mod extract;
mod overview;
mod url;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

pub use extract::{Entry, extract};
pub use url::normalised;

use crate::TaskId;

/// The folder in which search tools put their answers.
pub const INBOX: &str = "search_results";
/// The folder below [`INBOX`] for answers that contained sources.
pub const PROCESSED: &str = "processed_json";
/// The folder of the results, with one subfolder per task.
pub const FOLDER: &str = "tasks";
/// The file name of the page for agents and people.
pub const OVERVIEW: &str = "research_overview.md";
/// The file name of the [`Kept`] sources.
pub const SOURCES: &str = "research_sources.json";

const VERSION: u32 = 1;
/// The limit of answers that are recorded for one source.
const FROM_MAX: usize = 20;

/// All sources of one task, as they are stored on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    version: u32,
    /// The answers that they came from, in the order of processing.
    files: Vec<Taken>,
    /// The sources, in the order in which they were found.
    sources: Vec<Source>,
}

/// An answer whose sources are stored. It is identified by its content: if a file could not be
/// moved after its sources were stored, it is read again and must not be counted again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    name: String,
    sha256: String,
    entries: usize,
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The address in the form in which it was first found.
    pub url: String,
    /// The title, which may be empty.
    pub title: String,
    /// The snippet, which may be empty.
    pub snippet: String,
    /// The text of the page, if an answer contained it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The names of the answers that contained it.
    pub from: Vec<String>,
}

impl Default for Kept {
    fn default() -> Self {
        Self { version: VERSION, files: Vec::new(), sources: Vec::new() }
    }
}

impl Kept {
    /// Parses a file of stored sources.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let kept: Self = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
        match kept.version {
            VERSION => Ok(kept),
            other => Err(format!("unknown version {other}")),
        }
    }

    /// Renders the content of such a file.
    pub fn render(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        // The data consists of texts and numbers only, so serialization cannot fail.
        text.unwrap_or_default() + "\n"
    }

    /// Returns all sources.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Adds the sources of an answer, and returns how many are new. The same answer again changes
    /// nothing.
    pub fn take(&mut self, name: &str, sha256: &str, entries: Vec<Entry>) -> usize {
        if !self.files.iter().any(|file| file.sha256 == sha256) {
            let (name, sha256) = (name.to_owned(), sha256.to_owned());
            self.files.push(Taken { name, sha256, entries: entries.len() });
        }
        let before = self.sources.len();
        let places = self.sources.iter().enumerate();
        let mut places: HashMap<String, usize> =
            places.map(|(at, source)| (normalised(&source.url), at)).collect();
        for entry in entries {
            let at = *places.entry(normalised(&entry.url)).or_insert(self.sources.len());
            match self.sources.get_mut(at) {
                Some(known) => known.learn(name, entry),
                None => self.sources.push(Source::found(name, entry)),
            }
        }
        self.sources.len() - before
    }

    /// Renders the page for agents and people.
    pub fn overview(&self, task: &TaskId) -> String {
        overview::render(self, task)
    }

    /// Returns how many entries named a known source.
    fn duplicates(&self) -> usize {
        let entries: usize = self.files.iter().map(|file| file.entries).sum();
        entries.saturating_sub(self.sources.len())
    }
}

impl Source {
    fn found(name: &str, entry: Entry) -> Self {
        let Entry { url, title, snippet, content } = entry;
        Self { url, title, snippet, content, from: vec![name.to_owned()] }
    }

    /// Fills in the empty fields. Fields that were found first stay.
    fn learn(&mut self, name: &str, entry: Entry) {
        if self.title.is_empty() {
            self.title = entry.title;
        }
        if self.snippet.is_empty() {
            self.snippet = entry.snippet;
        }
        if self.content.is_none() {
            self.content = entry.content;
        }
        if self.from.len() < FROM_MAX && !self.from.iter().any(|known| known == name) {
            self.from.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
