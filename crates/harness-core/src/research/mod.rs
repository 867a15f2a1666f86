//! The research inbox: from what search tools answered to sources that are kept.
//!
//! `extract.rs` finds the sources in one answer, this file keeps them without doubles, and
//! `overview.rs` makes the page that an agent reads. Nothing here knows where the files are.

mod extract;
mod overview;
mod url;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

pub use extract::{Entry, extract};
pub use url::normalised;

use crate::TaskId;

/// Where search tools put their answers.
pub const INBOX: &str = "search_results";
/// Where those go that yielded something, below [`INBOX`].
pub const PROCESSED: &str = "processed_json";
/// Where the results are, in a folder per task.
pub const FOLDER: &str = "tasks";
/// The page for agents and people.
pub const OVERVIEW: &str = "research_overview.md";
/// The [`Kept`] sources.
pub const SOURCES: &str = "research_sources.json";

const VERSION: u32 = 1;
/// A source that every answer names need not say so each time.
const FROM_MAX: usize = 20;

/// All sources of one task, as they are on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    version: u32,
    /// The answers they came from, in the order in which they were taken.
    files: Vec<Taken>,
    /// In the order in which they were found.
    sources: Vec<Source>,
}

/// An answer whose sources are kept. Known by its content: a file that could not be moved after its
/// sources were kept is met again, and must not be counted again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    name: String,
    sha256: String,
    entries: usize,
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// As it was first found.
    pub url: String,
    /// May be empty.
    pub title: String,
    /// May be empty.
    pub snippet: String,
    /// The text of the page, where an answer had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The names of the answers that had it.
    pub from: Vec<String>,
}

impl Default for Kept {
    fn default() -> Self {
        Self { version: VERSION, files: Vec::new(), sources: Vec::new() }
    }
}

impl Kept {
    /// What is in a file of kept sources.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let kept: Self = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
        match kept.version {
            VERSION => Ok(kept),
            other => Err(format!("unknown version {other}")),
        }
    }

    /// For such a file.
    pub fn render(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        // Texts and numbers only: there is nothing in it that can not be written.
        text.unwrap_or_default() + "\n"
    }

    /// All of them.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Keeps what an answer holds; says how many sources are new. The same answer again changes
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

    /// The page for agents and people.
    pub fn overview(&self, task: &TaskId) -> String {
        overview::render(self, task)
    }

    /// How many entries were of a source that was known.
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

    /// What was found first stays; only what it did not say is filled in.
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
