//! One configuration file: it is read and checked key by key, each value with its line.

use std::{collections::BTreeMap, ffi::OsStr, fs, io, ops::Range, path::Path};

use harness::home::folder::Folder;
use serde_json::Value;
use toml::{
    Table,
    de::{DeArray, DeTable, DeValue},
};

use super::{key, schema::Config, text::plain_words};
use crate::failure::{Failure, Result};

/// The limit of a file. Those that people write are far smaller.
const BYTES_MAX: u64 = 1024 * 1024;

/// The values of a file and their lines, by key.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) values: Table,
    pub(super) lines: BTreeMap<String, usize>,
}

/// Reads a file; `None` if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<ConfigFile>> {
    match fs::read_to_string(path) {
        Ok(text) => Source { path, text: &text }.check().map(Some),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(Failure::config(format!("cannot read {}: {why}", path.display()))),
    }
}

/// Reads the file of a repository. A link, a pipe or a device is refused, because it could show, or
/// wait for, anything. The user's own file may be a link, because people often keep it elsewhere.
pub(super) fn read_project(path: &Path) -> Result<Option<ConfigFile>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let bytes = Folder::open(folder).and_then(|folder| folder.read_small(name, BYTES_MAX));
    let bytes = bytes.map_err(|why| Failure::config(why.to_string()))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::config(format!("{} is not UTF-8", path.display())))?;
    Source { path, text: &text }.check().map(Some)
}

/// Returns whether the file of a repository sets a key of this table. A file that cannot be read sets none
/// here; the command that loads it reports why.
pub(super) fn has_table(path: &Path, table: &str) -> bool {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let bytes = Folder::open(folder).and_then(|folder| folder.read_small(name, BYTES_MAX));
    let Ok(Some(bytes)) = bytes else { return false };
    let text = String::from_utf8_lossy(&bytes);
    // Most files do not even have the word, and are not parsed.
    let is_set = |found: &DeTable<'_>| match found.get(table).map(|value| value.get_ref()) {
        Some(DeValue::Table(keys)) => !keys.is_empty(),
        _ => false,
    };
    text.contains(table) && DeTable::parse(&text).is_ok_and(|found| is_set(found.get_ref()))
}

struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

/// A key, the place of its value in the text and the line of its name.
struct Span {
    key: String,
    value: Range<usize>,
    line: usize,
}

/// Outer keys come before inner ones.
type Spans = Vec<Span>;

impl Source<'_> {
    fn check(&self) -> Result<ConfigFile> {
        let document = DeTable::parse(self.text).map_err(|why| self.syntax(&why))?;
        let mut spans = Spans::new();
        self.walk("", document.get_ref(), &key::tree(), &mut spans)?;
        // The names are correct. Serde checks the types and the ranges.
        toml::from_str::<Config>(self.text).map_err(|why| self.wrong_value(&why, &spans))?;
        let values = toml::from_str(self.text).map_err(|why| self.syntax(&why))?;
        let lines = spans.into_iter().map(|span| (span.key, span.line)).collect();
        Ok(ConfigFile { values, lines })
    }

    fn walk(
        &self,
        prefix: &str,
        table: &DeTable<'_>,
        known: &Value,
        spans: &mut Spans,
    ) -> Result<()> {
        for (name, value) in table {
            let key = key::join(prefix, name.get_ref());
            let line = self.line(name.span().start);
            let Some(known) = key::child(known, name.get_ref()) else {
                return Err(self.unknown(&key, line));
            };
            spans.push(Span { key: key.clone(), value: value.span(), line });
            match (value.get_ref(), known) {
                (DeValue::Table(inner), Value::Object(_)) => {
                    self.walk(&key, inner, known, spans)?;
                }
                (_, Value::Object(_)) => {
                    let problem = format!("`{key}` is a table; write it as [{key}]");
                    return Err(self.at(line, &problem));
                }
                // Serde checks whether the values fit.
                (DeValue::Array(items), _) => self.note_items(&key, items, spans),
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes the places of the keys of tables in a list, such as `[[notify]]`.
    fn note_items(&self, key: &str, items: &DeArray<'_>, spans: &mut Spans) {
        for item in items {
            let DeValue::Table(table) = item.get_ref() else { continue };
            for (name, value) in table {
                let line = self.line(name.span().start);
                spans.push(Span { key: key::join(key, name.get_ref()), value: value.span(), line });
            }
        }
    }

    fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    fn at(&self, line: usize, problem: &str) -> Failure {
        Failure::config(format!("{}:{line}: {problem}", self.path.display()))
    }

    fn syntax(&self, why: &toml::de::Error) -> Failure {
        let line = self.line(why.span().map_or(0, |span| span.start));
        self.at(line, &format!("not valid TOML: {}", plain_words(why.message())))
    }

    fn unknown(&self, given: &str, line: usize) -> Failure {
        let failure = self.at(line, &format!("unknown key `{given}`"));
        match key::nearest(given) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => failure.hint("`harness config` lists all keys"),
        }
    }

    fn wrong_value(&self, why: &toml::de::Error, spans: &Spans) -> Failure {
        let at = why.span().map_or(0, |span| span.start);
        // The search starts at the end, so that it finds the innermost key.
        let key = spans.iter().rev().find(|span| span.value.contains(&at));
        let problem = plain_words(why.message());
        match key {
            Some(Span { key, .. }) => self.at(self.line(at), &format!("`{key}`: {problem}")),
            None => self.at(self.line(at), &problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let path = Path::new("harness.toml");
        let failure = Source { path, text }.check().unwrap_err();
        let said: Vec<_> = std::iter::once(failure.error).chain(failure.hints).collect();
        assert_eq!(said.join(" | "), expected);
    }

    #[test]
    fn a_mistake_is_named_with_file_line_and_key() {
        check(
            "agent = \"claude\"\nagnet = 1\n",
            "harness.toml:2: unknown key `agnet` | did you mean `agent`?",
        );
        check(
            "[limits]\n\nmax_iteration = 1\n",
            "harness.toml:3: unknown key `limits.max_iteration` | did you mean `limits.max_iterations`?",
        );
        check(
            "[agents.mine]\nkind = \"acp\"\nmodle = 'x'",
            "harness.toml:3: unknown key `agents.mine.modle` | did you mean `agents.mine.model`?",
        );
        check(
            "\n[limits]\nmax_iterations = \"many\"\n",
            "harness.toml:3: `limits.max_iterations`: invalid type: string \"many\", \
             expected a whole number from 0 to 4294967295",
        );
        check(
            "protected = [\"a\",\n 5]\n",
            "harness.toml:2: `protected`: invalid type: integer `5`, expected text in quotes",
        );
        check(
            "context_threshold = 7.5",
            "harness.toml:1: `context_threshold`: invalid value: floating point `7.5`, \
             expected a number above 0, up to 1",
        );
        for price in ["[agents.claude.price]\ninput = 1", "agents.claude.price = {input = 1}"] {
            check(price, "harness.toml:1: `agents.claude.price`: missing field `output`");
        }
        check("limits = 3", "harness.toml:1: `limits` is a table; write it as [limits]");
        check("zzzz = 3", "harness.toml:1: unknown key `zzzz` | `harness config` lists all keys");
    }

    #[test]
    fn what_is_no_toml_is_named_with_its_line() {
        let failure = Source { path: Path::new("x.toml"), text: "a = 1\nb = = 2\n" }.check();
        let error = failure.unwrap_err().error;
        assert!(error.starts_with("x.toml:2: not valid TOML: "), "{error}");
    }

    #[test]
    fn every_value_has_its_line() {
        let text = "agent = 'codex'\n[agents.codex.price]\ninput = 1\noutput = 2.5\n";
        let file = Source { path: Path::new("x"), text }.check().unwrap();
        assert_eq!(file.lines["agent"], 1);
        assert_eq!(file.lines["agents.codex.price.output"], 4);
    }
}
