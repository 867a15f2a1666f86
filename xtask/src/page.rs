//! A page of the documentation: its tables, by the heading above them.

use std::fs;

use crate::run::root;

pub(crate) struct Page {
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        let path = root().join(name);
        let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Self { text })
    }

    /// Returns the rows of the tables between a heading and the next one, without their first row.
    pub(crate) fn rows(&self, heading: &str) -> Vec<Vec<String>> {
        let below = self.text.lines().skip_while(|line| *line != heading).skip(1);
        let mut rows: Vec<Vec<String>> = Vec::new();
        for line in below.take_while(|line| !line.starts_with('#')) {
            if line.starts_with("|---") {
                rows.pop();
            } else if let Some(line) = line.strip_prefix('|') {
                let line = line.trim_end_matches('|').replace("\\|", "\u{1}");
                let cells = line.split('|').map(|cell| cell.trim().replace('\u{1}', "|"));
                rows.push(cells.collect());
            }
        }
        rows
    }
}
