//! The text of one task: a range of the file that was read, or text of its own once it changed.

use std::ops::Range;

use super::{
    pretty::pretty,
    state::{self, Digest},
};

/// Whether the rows of a source have our indentation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Indent {
    /// Another program may have written them.
    Unknown,
    /// They have it: harness wrote the source, or each row was compared.
    Ours,
}

/// One task: its text, and the digest of the text once it was needed.
#[derive(Debug, Clone)]
pub(super) struct RowText {
    text: Text,
    digest: Option<Digest>,
}

#[derive(Debug, Clone)]
enum Text {
    /// The text as it was read, in the source.
    Read(Range<usize>),
    /// The text with our indentation.
    Written(Box<str>),
}

impl RowText {
    pub(super) const fn read(range: Range<usize>) -> Self {
        Self { text: Text::Read(range), digest: None }
    }

    pub(super) fn written(json: String) -> Self {
        Self { text: Text::Written(json.into()), digest: None }
    }

    pub(super) fn json<'a>(&'a self, source: &'a str) -> &'a str {
        match &self.text {
            Text::Read(range) => source.get(range.clone()).unwrap_or_default(),
            Text::Written(json) => json,
        }
    }

    /// Returns the place in the source of a row that did not change.
    pub(super) fn range(&self) -> Option<Range<usize>> {
        match &self.text {
            Text::Read(range) => Some(range.clone()),
            Text::Written(_) => None,
        }
    }

    pub(super) fn digest(&mut self, source: &str) -> Digest {
        match self.digest {
            Some(digest) => digest,
            None => *self.digest.insert(state::digest(self.json(source))),
        }
    }

    /// Returns the text with our indentation if that is another text.
    pub(super) fn indented(&self, source: &str, depth: usize) -> Option<String> {
        self.range()?;
        let json = self.json(source);
        let mut indented = String::with_capacity(json.len());
        pretty(json, depth, &mut indented);
        (indented != json).then_some(indented)
    }
}
