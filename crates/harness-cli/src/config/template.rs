//! `harness config --init`: a harness.toml in which every key is explained, and the schema for
//! editors that read its first line.

use std::{fmt::Write as _, path::Path};

use harness::home::{Home, folder::Folder};
use serde_json::Value;

use super::key;
use crate::failure::{Failure, Result};

/// An example value of every key. `cargo xtask docs` makes the configuration reference with it.
const EXAMPLES: &str = include_str!("example.toml");

/// The first line of a harness.toml, by which an editor finds the schema.
pub(crate) fn schema_line() -> String {
    format!("#:schema {}\n", Home::SCHEMA)
}

/// Writes a harness.toml, unless there is one. Returns whether it was written.
pub(crate) fn write(root: &Path) -> Result<bool> {
    let folder = Folder::open(root).map_err(failed)?;
    let is_new = !folder.has(Home::CONFIG).map_err(failed)?;
    if is_new {
        folder.put_first(Home::CONFIG, text()?.as_bytes()).map_err(failed)?;
    }
    Ok(is_new)
}

/// Writes the schema into `.harness`, which git ignores.
pub(crate) fn write_schema(root: &Path) -> Result<()> {
    let schema = serde_json::to_string_pretty(&super::schema())? + "\n";
    let (folder, name) = (Home::of(root).folder(), Home::SCHEMA);
    let name = name.rsplit('/').next().unwrap_or(name);
    let put = || {
        let folder = Folder::ours(&folder)?;
        folder.put_first(".gitignore", b"*\n")?;
        folder.put(name, schema.as_bytes())
    };
    put().map_err(failed)
}

fn failed(why: std::io::Error) -> Failure {
    Failure::error(why.to_string())
}

/// Returns the text of the file. Every value is a comment, so that the file changes nothing.
fn text() -> Result<String> {
    let examples: Value =
        toml::from_str(EXAMPLES).map_err(|why| Failure::error(why.to_string()))?;
    let schema = serde_json::to_value(super::schema())?;
    let tree = key::tree();
    let mut text = schema_line();
    text += "# Remove the `# ` before a key to set it. The values are the defaults, or an example where there\n\
             # is none. `harness config` shows every value and where it comes from.\n";
    let leaves = key::leaves(&tree);
    let table_of = |name: &str| name.rsplit_once('.').map_or("", |(table, _)| table).to_owned();
    let mut tables: Vec<String> = leaves.iter().map(|(name, _)| table_of(name)).collect();
    // The keys of a table stand together, also if another table is declared between them.
    let mut seen = Vec::new();
    tables.retain(|table| {
        !seen.contains(table) && {
            seen.push(table.clone());
            true
        }
    });
    for table in tables {
        let mut keys = leaves.iter().filter(|(name, _)| table_of(name) == table).peekable();
        if let Some((first, _)) = keys.peek().filter(|_| !table.is_empty()) {
            let about = about(&schema, first, Part::Table).unwrap_or_default();
            let hidden = if table.starts_with("agents.") { "# " } else { "" };
            _ = write!(text, "\n\n{}{hidden}[{}]\n", comment(&about), table.replace('*', "mine"));
        }
        for (name, default) in keys {
            let last = name.rsplit('.').next().unwrap_or(name);
            let value =
                if default.is_null() { example(&examples, name) } else { Some((*default).clone()) };
            let about = about(&schema, name, Part::Key).unwrap_or_default();
            let value = shown(&value.unwrap_or_default());
            _ = write!(text, "\n{}# {last} = {value}\n", comment(&about));
        }
    }
    Ok(text)
}

fn example(examples: &Value, name: &str) -> Option<Value> {
    let name = name.replace('*', "mine");
    name.split('.').try_fold(examples, |at, step| at.get(step)).cloned()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Key,
    Table,
}

/// Returns the doc comment of a key, or of the table that it is in.
fn about(schema: &Value, name: &str, part: Part) -> Option<String> {
    let mut at = schema;
    let mut steps = name.split('.').peekable();
    let mut of_table = None;
    while let Some(step) = steps.next() {
        at = if step == "*" { &at["additionalProperties"] } else { &at["properties"][step] };
        let own = at["description"].as_str();
        at = target(schema, at);
        let said = own.or_else(|| at["description"].as_str()).map(|text| text.replace('\n', " "));
        if steps.peek().is_none() {
            return if part == Part::Key { said } else { of_table };
        }
        of_table = said;
    }
    None
}

/// Returns the schema that a reference leads to, also if the value may be absent.
fn target<'a>(schema: &'a Value, at: &'a Value) -> &'a Value {
    let choices = at["anyOf"].as_array().into_iter().flatten();
    let mut all = std::iter::once(at).chain(choices);
    let path = all.find_map(|one| one["$ref"].as_str()?.strip_prefix('#'));
    path.and_then(|path| schema.pointer(path)).unwrap_or(at)
}

/// Returns a value as TOML.
fn shown(value: &Value) -> String {
    match toml::Value::try_from(value) {
        Ok(value) => value.to_string(),
        Err(_) => value.to_string(),
    }
}

fn comment(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("# {text}.\n").replace("..\n", ".\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of the template that are keys or tables.
    fn uncommented() -> String {
        let text = text().unwrap();
        let is_setting = |line: &str| {
            let line = line.strip_prefix("# ").unwrap_or(line);
            let word = line.split(" = ").next().unwrap_or_default();
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            line.starts_with('[') || (line.contains(" = ") && word.chars().all(plain))
        };
        let lines = text.lines().filter(|line| is_setting(line));
        lines.map(|line| line.trim_start_matches("# ").to_owned() + "\n").collect()
    }

    #[test]
    fn every_key_is_explained_and_has_a_value_that_can_be_used() {
        let text = uncommented();
        let config: super::super::Config =
            toml::from_str(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        assert_eq!(config.contradiction(), None);
        let values: Value = toml::from_str(&text).unwrap();
        let tree = key::tree();
        let schema = serde_json::to_value(super::super::schema()).unwrap();
        for (name, _) in key::leaves(&tree) {
            let mine = name.replace('*', "mine");
            let value = mine.split('.').try_fold(&values, |at, step| at.get(step));
            assert!(value.is_some(), "{name}");
            assert!(about(&schema, &name, Part::Key).is_some(), "{name} has no doc comment");
        }
    }

    #[test]
    fn the_file_as_it_is_changes_nothing() {
        let config: super::super::Config = toml::from_str(&text().unwrap()).unwrap();
        assert_eq!(config, super::super::Config::default());
    }

    #[test]
    fn every_example_can_be_used() {
        let config: super::super::Config = toml::from_str(EXAMPLES).unwrap();
        assert_eq!(config.contradiction(), None);
    }
}
