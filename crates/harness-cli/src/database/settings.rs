//! The table `[store]` in the harness.toml of a project, as text that people wrote.

use harness::home::{Home, folder::Folder};

use super::{DatabasePlace, TABLE};
use crate::{
    failure::{Failure, Result},
    root::StateRoot,
};

const BYTES_MAX: u64 = 1024 * 1024;

/// The harness.toml of a project before it is changed.
pub(crate) struct StoreSettings {
    folder: Folder,
    /// The text before; `None` if there was no file.
    before: Option<String>,
}

impl StoreSettings {
    pub(crate) fn of(root: &StateRoot) -> Result<Self> {
        let folder = Folder::open(root.path())?;
        let before = folder.read_small(Home::CONFIG, BYTES_MAX)?;
        let text = before.map(String::from_utf8).transpose();
        let before = text.map_err(|_| Failure::config("harness.toml is not UTF-8"))?;
        Ok(Self { folder, before })
    }

    /// Adds the table, unless there is one. It never contains a password.
    pub(crate) fn write(&self, place: &DatabasePlace) -> Result<()> {
        let before = self.before.as_deref().unwrap_or_default();
        if has_table(before) {
            return Ok(());
        }
        // `harness config --init` leaves an empty table.
        let rest = without_table(before).unwrap_or_else(|| before.to_owned());
        let glue = match rest.as_str() {
            "" => "",
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        let (url, ledger) = (place.url.to_string(), place.ledger.as_str());
        let (url, ledger) = (toml::Value::from(url), toml::Value::from(ledger));
        self.put(&format!("{rest}{glue}[{TABLE}]\nurl = {url}\nledger = {ledger}\n"))
    }

    /// Puts the text back that was there before.
    pub(crate) fn put_back(&self) -> Result<()> {
        match &self.before {
            Some(text) => self.put(text),
            None => Ok(self.folder.remove(Home::CONFIG)?),
        }
    }

    /// Fails if the table is written in a form that cannot be removed without touching the rest.
    pub(crate) fn can_be_removed(&self) -> Result<()> {
        match without_table(self.before.as_deref().unwrap_or_default()) {
            Some(rest) if !has_table(&rest) => Ok(()),
            _ => Err(Failure::config("harness.toml has `store` in a form that cannot be removed")
                .hint("write it as a table of its own, [store]")),
        }
    }

    /// Removes the table.
    pub(crate) fn remove(&self) -> Result<()> {
        let rest = without_table(self.before.as_deref().unwrap_or_default()).unwrap_or_default();
        self.put(&rest)
    }

    fn put(&self, text: &str) -> Result<()> {
        Ok(self.folder.put(Home::CONFIG, text.as_bytes())?)
    }
}

/// Returns whether a text has the table with a key in it.
fn has_table(text: &str) -> bool {
    let table = text.parse::<toml::Table>().ok();
    let keys = table.as_ref().and_then(|table| table.get(TABLE)).and_then(toml::Value::as_table);
    keys.is_some_and(|keys| !keys.is_empty())
}

/// Returns the text without the lines of the table; `None` if it has no such lines.
fn without_table(text: &str) -> Option<String> {
    let header = format!("[{TABLE}]");
    let is_header = |line: &&str| line.trim_start().starts_with('[');
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let start = lines.iter().position(|line| line.trim() == header)?;
    let after = lines[start + 1..].iter().position(is_header).map(|at| start + 1 + at);
    let rest = after.map(|at| lines[at..].concat()).unwrap_or_default();
    Some(format!("{}{rest}", lines[..start].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_of_the_table_go() {
        let text =
            "agent = 'x'\n\n[store]\nurl = 'a'\n# note\nledger = 'b'\n\n[git]\nsign = true\n";
        let rest = without_table(text).unwrap();
        assert_eq!(rest, "agent = 'x'\n\n[git]\nsign = true\n");
        assert!(has_table(text) && !has_table(&rest));
        assert_eq!(without_table("store.url = 'a'\n"), None);
        assert!(has_table("store.url = 'a'\n"));
        assert!(!has_table("[store]\n"), "an empty table names no database");
    }
}
