//! A parsed document of the repository: its fenced blocks by their info string, its tables by the
//! heading above them.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) struct Page {
    pub(crate) text: String,
}

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

impl Page {
    pub(crate) fn open(name: &str) -> Self {
        let path = repository().join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{name}: {why}"));
        Self { text }
    }

    /// Returns the contents of every block with exactly this info string.
    pub(crate) fn blocks(&self, info: &str) -> Vec<String> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            let ticks = line.len() - line.trim_start_matches('`').len();
            if ticks < 3 {
                continue;
            }
            let (fence, given) = line.split_at(ticks);
            let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
            if given == info {
                blocks.push(inside.join("\n") + "\n");
            }
        }
        blocks
    }

    #[track_caller]
    pub(crate) fn block(&self, info: &str) -> String {
        let mut blocks = self.blocks(info);
        assert_eq!(blocks.len(), 1, "blocks of {info:?}");
        blocks.remove(0)
    }

    /// Returns the text below a heading, up to the next one of any level. Blocks are left out,
    /// because `#` begins a comment there.
    #[track_caller]
    pub(crate) fn section(&self, heading: &str) -> String {
        let mut fence = None;
        let mut found = false;
        let mut section = String::new();
        for line in self.text.lines() {
            let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
            match fence {
                None if ticks.len() >= 3 => fence = Some(ticks),
                Some(open) if line == open => fence = None,
                Some(_) => {}
                None if found && line.starts_with('#') => return section,
                None if line == heading => found = true,
                None if found => section = section + line + "\n",
                None => {}
            }
        }
        assert!(found, "no heading {heading:?}");
        section
    }

    /// Returns the rows of all tables below a heading, each cell trimmed, without the header rows.
    #[track_caller]
    pub(crate) fn rows(&self, heading: &str) -> Vec<Vec<String>> {
        let section = self.section(heading);
        let mut rows: Vec<Vec<String>> = Vec::new();
        for line in section.lines().filter(|line| line.starts_with('|')) {
            if line.starts_with("|---") {
                rows.pop();
                continue;
            }
            let line = line.trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{1}");
            let cells = line.split('|').map(|cell| cell.trim().replace('\u{1}', "|"));
            rows.push(cells.collect());
        }
        rows
    }

    /// Returns the texts in backticks in the first column of the tables below a heading.
    #[track_caller]
    pub(crate) fn named(&self, heading: &str) -> Vec<String> {
        self.rows(heading).iter().flat_map(|row| code(&row[0])).collect()
    }
}

/// Returns the texts in backticks.
pub(crate) fn code(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
